package plan_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// inMode puts rpm of an item in a mode. A stamp says that it is soft to a peer.
func inMode(mode store.Mode) func(*store.Image) {
	return func(img *store.Image) {
		img.Limits[0].SetExtra(store.Extra{SoftUntil: now + 1_000_000, Observed: store.Observed{Mode: mode}})
	}
}

func rpmOf(milli int64) []store.Amount { return []store.Amount{{Limit: "rpm", Milli: milli}} }

// One write carries those callers for whom a limit in shadow decides as for the first one. A caller
// that is debited leaves less for those behind it.
func TestACrowdInShadow(t *testing.T) {
	t.Parallel()
	img := item(10_000, now, inMode(store.Shadow))
	for name, c := range map[string]struct{ asked, alike []int64 }{
		"all are debited":              {[]int64{4_000, 4_000, 2_000}, []int64{4_000, 4_000, 2_000}},
		"the last one would not be":    {[]int64{4_000, 4_000, 3_000}, []int64{4_000, 4_000}},
		"a smaller one behind it":      {[]int64{4_000, 7_000, 6_000}, []int64{4_000, 6_000}},
		"the first one is counted":     {[]int64{11_000, 4_000, 12_000}, []int64{11_000, 12_000}},
		"one that asks for nothing":    {[]int64{4_000, 0}, []int64{4_000, 0}},
		"and behind one that does not": {[]int64{11_000, 0}, []int64{11_000}},
	} {
		if got := plan.AlikeInShadow(c.asked, rpmOf, img, now); fmt.Sprint(got) != fmt.Sprint(c.alike) {
			t.Errorf("%s: of %d, %d are alike, want %d", name, c.asked, got, c.alike)
		}
		if got := plan.AlikeInShadow(c.asked, rpmOf, item(10_000, now, inMode(store.Off)), now); len(got) != len(c.asked) {
			t.Errorf("%s: of a limit that is off, %d of %d are alike", name, got, c.asked)
		}
	}
}

// What a limit in a mode would refuse, or what one that is off is asked for, moves no balance: on the
// image that a process remembers, by a take at the stamp of a full bucket, by a repair that adds the
// limit, and by a settlement of a full bucket, which owes no more than any other.
func TestAmountsThatCountOnly(t *testing.T) {
	t.Parallel()
	for mode, counted := range map[store.Mode]int64{store.Shadow: 11_000, store.Off: 1_000} {
		img := item(10_000, now, inMode(mode))
		if got := plan.Debited(img, rpmOf(counted), now).Limits[0].Tokens; got != 10_000 {
			t.Errorf("%v: %d of 10 are left in the image", mode, got)
		}
		full := item(minutely.Params().Capacity, now-300, inMode(mode))
		d := &plan.Debit{Bucket: full.Bucket, Amounts: rpmOf(minutely.Params().Capacity + 1), Stamp: plan.StampRule{Leave: true, Luck: 1}}
		if take := d.TakeAtStamp(full, true, now); take == nil || !take.Debits[0].Counts {
			t.Errorf("%v: a full bucket is not counted at its stamp: %+v", mode, take)
		}
		d = &plan.Debit{Bucket: full.Bucket, Amounts: plan.AllCounted(rpmOf(50_000)), Settling: true}
		if r, _, _ := d.Refill(full, now, 7); r.FullSince == 0 || r.Changes[0].Earned-r.Changes[0].Debit != minutely.Params().Capacity {
			t.Errorf("%v: a full bucket settles what counted only by %+v", mode, r)
		}
		d = &plan.Debit{Bucket: full.Bucket, Amounts: rpmOf(200_000), Settling: true}
		least := map[store.Mode]int64{store.Shadow: -minutely.Params().Capacity, store.Off: minutely.Params().Capacity - 200_000}[mode]
		if r, _, _ := d.Refill(full, now, 7); r.FullSince == 0 || r.Changes[0].Earned-r.Changes[0].Debit != least {
			t.Errorf("%v: a full bucket settles a large debt by %+v, want %d", mode, r.Changes[0], least)
		}
		limit := minutely
		limit.Mode = mode
		bare := item(0, now, func(img *store.Image) { img.Limits = nil })
		d = &plan.Debit{Bucket: bare.Bucket, Amounts: rpmOf(limit.Params().Capacity + 1), Repair: &plan.Wanted{Limits: []store.Limit{limit}}}
		r, _, _ := d.Refill(bare, now, 7)
		if ch := r.Changes[0]; !ch.Counts || ch.Earned-ch.Debit != limit.Params().Capacity {
			t.Errorf("%v: added as %+v", mode, ch)
		}
	}
}

// Shards of different modes are not merged. The shard that is born has the mode of its elder.
func TestShardsOfAMode(t *testing.T) {
	t.Parallel()
	shard := func(i int, mode store.Mode) *store.Image {
		return item(1_000, now, func(img *store.Image) { inMode(mode)(img); img.Shard, img.ShardCount = i, 2 })
	}
	for _, c := range []struct {
		a, b store.Mode
		want bool
	}{{store.Shadow, store.Shadow, true}, {store.Shadow, store.Off, false}, {store.Off, store.Enforce, false}} {
		if got := plan.AreMergeable([]*store.Image{shard(0, c.a), shard(1, c.b)}, now); got != c.want {
			t.Errorf("%v and %v: mergeable %t", c.a, c.b, got)
		}
	}
	for _, mode := range []store.Mode{store.Shadow, store.Off} {
		if got := plan.Split(item(5_000, now, inMode(mode)), 1, 2, false, now, 7).Limits[0].Mode; got != mode {
			t.Errorf("born of %v: %v", mode, got)
		}
	}
}

// A settlement of a limit in shadow leads to one capacity below zero at most. The rest is counted.
func TestASettlementInShadow(t *testing.T) {
	t.Parallel()
	capacity := minutely.Params().Capacity
	d := &plan.Debit{Settling: true, Amounts: rpmOf(5 * capacity)}
	a := d.Adjustment(item(capacity, now, inMode(store.Shadow)), now)
	if delta := a.Deltas[0]; delta.Tokens != -2*capacity || delta.Consumed != 5*capacity {
		t.Errorf("%+v", delta)
	}
}

// No write that debits a limit in shadow leads it below one capacity, whatever others have debited since the
// image: not a take, nor a refill, one at the stamp, or one that begins a session of another limit.
func TestTheLeastBalanceInShadow(t *testing.T) {
	t.Parallel()
	const asked, age = 4_000, 300
	capacity := minutely.Params().Capacity
	img := item(10_000, now-age, inMode(store.Shadow))
	d := &plan.Debit{Bucket: img.Bucket, Amounts: rpmOf(asked), Stamp: plan.StampRule{Leave: true, Luck: 1}}
	earned := plan.ShareOf(img, &img.Limits[0]).Earned(now-age, now)
	refill, _, _ := d.Refill(img, now, 7)
	for name, least := range map[string]int64{
		"a take":                d.Take(img, now).Debits[0].AtLeast,
		"a refill":              refill.Changes[0].AtLeast + earned,
		"a refill at the stamp": d.RefillAtStamp(img, now).Changes[0].AtLeast + earned,
	} {
		if least-asked != -capacity {
			t.Errorf("%s may lead to %d, want %d", name, least-asked, -capacity)
		}
	}

	resting := sessionShards(t, []int64{store.NoSession}, store.Told{})[0]
	rate := item(10_000, now, inMode(store.Shadow)).Limits[0]
	resting.Limits = append([]store.LimitState{rate}, resting.Limits...)
	const at = 10 * sessionLength
	resting.RefilledAt, resting.HasValidUntil = at-1, false
	d = &plan.Debit{Amounts: append(rpmOf(asked), store.Amount{Limit: "sess", Milli: 1_000}), Begins: &plan.Beginning{At: at, Limits: []string{"sess"}}}
	if r := d.Loosely(resting, at, 7); r == nil || r.Changes[0].AtLeast-asked != -capacity {
		t.Errorf("a refill that begins a session: %+v, want to lead to %d at least", r, -capacity)
	}
}

// Enforcement begins at a balance of 0 or more, whatever others debit meanwhile: the write that ends a mode forgives
// the debt that it sees, and is refused where a debit has landed since that leads below zero.
func TestEnforcementBeginsWithoutDebt(t *testing.T) {
	t.Parallel()
	const age = 300
	for _, held := range []int64{10_000, 0, -5_000} {
		for _, settles := range []int64{0, 7_000} {
			img := item(held, now-age, inMode(store.Shadow))
			d := &plan.Debit{Bucket: img.Bucket, Repair: &plan.Wanted{Limits: []store.Limit{minutely}}}
			if settles > 0 {
				d.Amounts, d.Settling = rpmOf(settles), true
			}
			r, _, _ := d.Refill(img, now, 7)
			ch := r.Changes[0]
			if delta := ch.Earned; ch.Mode != store.Enforce || ch.AtLeast+delta != 0 && ch.AtLeast != held || held+delta < 0 {
				t.Errorf("%d held, %d settled: begins at %d, requires %d: %+v", held, settles, held+delta, ch.AtLeast, ch)
			}
		}
	}
}

// A session in shadow that rests begins with what it renews to, not with what the last one left. An
// amount that it would refuse begins none.
func TestASessionInShadow(t *testing.T) {
	t.Parallel()
	const at = 10 * sessionLength
	for asked, begins := range map[int64]bool{2_000: true, 40_000: true, 41_000: false} {
		img := sessionShards(t, []int64{store.NoSession}, store.Told{})[0] // 1 of 40 was left
		s := &img.Limits[0]
		e := store.Extra{Opened: s.Opened(), SoftUntil: at + sessionLength, Observed: store.Observed{Mode: store.Shadow}}
		s.SetExtra(e)
		img.RefilledAt, img.HasValidUntil = at-1, false
		amounts := []store.Amount{{Limit: "sess", Milli: asked}}
		d := &plan.Debit{Amounts: amounts}
		r, _, _ := d.Refill(img, at, 7)
		if ch := r.Changes[0]; (ch.Opened > store.NoSession) != begins || ch.Counts == begins {
			t.Errorf("%d of 40: %+v", asked, ch)
		}
		d.Begins = &plan.Beginning{At: at, Limits: []string{"sess"}}
		switch r := d.Loosely(img, at, 7); {
		case (r != nil) != begins:
			t.Errorf("%d of 40, loosely: %+v", asked, r)
		case begins && (r.Changes[0].Counts || r.Changes[0].Shadowed != 0 || plan.AfterRefill(r).Limits[0].Tokens != 40_000-asked):
			t.Errorf("%d of 40, loosely: %+v", asked, r.Changes[0])
		}
	}
}
