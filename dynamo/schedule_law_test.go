package dynamo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// P1, P2 and P11 of schedules at each write, also of a process that has not seen the last ones: of
// a limit, all shards together hold afterwards what they would have held by then, less what
// the write took. They never hold more, and after a take or a plain refill no less. Package
// bucket, whose laws have an oracle, says what they would have held.
func TestSchedulesOverAnyWrites(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	_, ns := s.Namespace()
	law[*rota]{writes: rotaWrites, begin: func(t *rapid.T, number int) *rota {
		v := &rota{&ledger{T: t, store: s, api: db, ns: ns, bucket: store.Bucket{Entity: fmt.Sprintf("rota-%d", number), Resource: "gpt-4"}}}
		const later = 20 * 365 * 24 * 3_600_000 // so late that the engine does not sweep the items
		v.now = fixture.Start.UnixMilli() + later + rapid.Int64Range(0, 400*24*3_600_000).Draw(t, "start")
		v.edit()
		v.make()
		return v
	}}.play(t, 10)
}

var rotaWrites = map[string]func(*rota) bool{
	"time": (*rota).pass, "edit": (*rota).edit, "take": (*rota).take, "refill": (*rota).refill, "repair": (*rota).repair,
	"settle": (*rota).settle, "return": (*rota).giveBack, "split": (*rota).split, "merge": (*rota).merge,
	"reset": (*rota).reset, "top-up": (*rota).topUp,
}

// A rota is a bucket whose limits, rates and quotas, follow schedules. Its processes have one clock, and old images.
type rota struct{ *ledger }

var rotaWords = []string{
	"", "* 9-16 * * mon-fri x0.5", "* 9-16 * * mon-fri x0.3", "* 9-16 * * mon-fri capacity=2", "*/2 * * * * x3", "0-29 * * * * amount=1; * 12-23 * * * x2", "* * * * sun seconds=60",
	"until END x2", "until END x0.5; * 9-16 * * mon-fri x0.3",
}

// edit changes the limits that the bucket is to have: often only their schedules.
func (v *rota) edit() bool {
	v.wanted = plan.Wanted{Expires: true}
	for _, name := range []string{"a", "b"} {
		limit := store.Limit{Name: name, Capacity: rapid.SampledFrom([]int64{10, 10, 30}).Draw(v.T, name+" tokens"), Amount: 10, Period: time.Hour}
		if words := rapid.SampledFrom(rotaWords).Draw(v.T, name); words != "" {
			end := time.UnixMilli(v.now + rapid.SampledFrom([]int64{1, 60_000, 3_600_000, 5 * 24 * 3_600_000}).Draw(v.T, "end"))
			words = strings.Replace(words, "END", end.UTC().Format(time.RFC3339Nano), 1)
			var err error
			if limit.Varies, err = store.ParseSchedule(words, "Europe/Berlin"); err != nil {
				v.Fatal(err)
			}
		}
		if renews := rapid.SampledFrom([]string{"", "", "day", "month"}).Draw(v.T, name+" renews"); renews != "" && (limit.Varies == nil || limit.Varies.SetsAmounts()) {
			var err error
			limit.Amount, limit.Period = 0, 0
			if limit.Renews, err = store.ParseRenewal(renews, "Europe/Berlin"); err != nil {
				v.Fatal(err)
			}
		}
		v.wanted.Limits = append(v.wanted.Limits, limit)
	}
	return true
}

func (v *rota) make() {
	c := &store.Create{Bucket: v.bucket, Now: v.now, ShardCount: 1, Writes: plan.FirstWrite(), ExpiresAt: v.now/1000 + 1e9}
	for i := range v.wanted.Limits {
		p := v.wanted.Limits[i].Params()
		c.Limits = append(c.Limits, store.NewLimit{NamedParams: store.NamedParams{Limit: v.wanted.Limits[i].Name, Params: p}, Tokens: plan.InForce(p, c.Now).Capacity})
	}
	plan.DebitNew(c, nil)
	if _, err := v.store.Create(v.Context(), c); err != nil {
		v.Fatal(err)
	}
	v.see()
}

// pass lets time pass, often to a change.
func (v *rota) pass() bool {
	to := v.now + rapid.SampledFrom([]int64{1, 1000, 60_000, 3_600_000, 5 * 24 * 3_600_000}).Draw(v.T, "time")
	if img := v.last(0); rapid.Bool().Draw(v.T, "to a change") && img.HasValidUntil {
		to = img.ValidUntil + rapid.Int64Range(-1, 1).Draw(v.T, "beside it")
	}
	v.now = max(v.now, to)
	return true
}

// heldBy is what all shards of some images hold of each limit, each shard at an instant.
func heldBy(known *[lawShards][]*store.Image, at *[lawShards]int64) map[string]int64 {
	sum := map[string]int64{}
	for i, images := range known {
		if len(images) == 0 || images[len(images)-1] == nil {
			continue
		}
		img := images[len(images)-1]
		for k := range img.Limits {
			s := &img.Limits[k]
			sum[s.Name] += plan.ShareOf(img, s).Balance(s.Tokens, img.RefilledAt, at[i])
		}
	}
	return sum
}

// wrote checks the law for a write that was applied and took amounts. It may lose some of
// what it did not take.
func (v *rota) wrote(amounts []store.Amount, loses bool) bool {
	before := v.known
	v.see()
	var at [lawShards]int64
	for i := range v.known {
		img := v.last(i)
		if img == nil {
			at[i] = at[i%v.last(0).ShardCount] // of the shard that took it over
			continue
		}
		at[i] = max(v.now, img.RefilledAt)
		next := store.ValidUntil(img.RefilledAt, img.Limits, func(s *store.LimitState) (store.Params, int64) { return *s.Params, s.Opened() })
		if img.HasValidUntil != (next != 0) || img.ValidUntil > next || next != 0 && img.ValidUntil <= img.RefilledAt {
			v.Fatalf("an item of %d is valid until %d, and changes at %d", img.RefilledAt, img.ValidUntil, next)
		}
		for k := range img.Limits {
			s := &img.Limits[k]
			if s.Varies != nil && s.Renewal != nil && !img.InStep {
				v.Fatalf("shard %d is out of step, and no peer has written to it", i)
			}
			if s.Tokens > plan.ShareOf(img, s).Capacity {
				v.Fatalf("shard %d of %d holds %d of %s: %+v", i, img.ShardCount, s.Tokens, s.Name, plan.ShareOf(img, s))
			}
		}
	}
	was := heldBy(&before, &at)
	for limit, is := range heldBy(&v.known, &at) {
		want := was[limit] - plan.AmountOf(amounts, limit)
		const rounding = 4 * lawShards // of shares, less than a millitoken each
		if is > want+rounding || !loses && is < want-rounding {
			v.Fatalf("the shards hold %d of %s after a write, which is to be %d", is, limit, want)
		}
	}
	return true
}

func (v *rota) take() bool {
	img := v.any()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: v.amounts(img), Stamp: plan.StampRule{Leave: rapid.Bool().Draw(v.T, "leaves the stamp"), Luck: 1}}
	t := d.TakeAtStamp(img, rapid.Bool().Draw(v.T, "is fresh"), v.now)
	if t == nil {
		t = d.Take(img, v.now)
	}
	out, err := v.store.Take(v.Context(), t)
	if !v.check(out.Applied, err) {
		return false
	}
	for _, a := range d.Amounts {
		a.Until = plan.PeriodEnd(out.Image, a.Limit)
		v.leases = append(v.leases, lawLease{img.Shard, a})
	}
	return v.wrote(d.Amounts, false)
}

func (v *rota) refill() bool {
	img := v.any()
	d := &plan.Debit{Bucket: img.Bucket, Amounts: v.amounts(img), Pressing: true}
	r, _, short := d.Refill(img, v.now, lawMultiplier)
	if short {
		return false
	}
	out, err := v.store.Refill(v.Context(), r)
	return v.check(out.Applied, err) && v.wrote(d.Amounts, false)
}

func (v *rota) repair() bool {
	img := v.any()
	if !v.wanted.Differs(img, v.now) {
		return false
	}
	d := &plan.Debit{Bucket: img.Bucket, Pressing: true, Repair: &v.wanted}
	r, _, _ := d.Refill(img, v.now, lawMultiplier)
	out, err := v.store.Refill(v.Context(), r)
	return v.check(out.Applied, err) && v.wrote(gainedBy(r), true)
}

// gainedBy is what edits give quotas: the difference of the amounts in force.
func gainedBy(refills ...*store.Refill) (amounts []store.Amount) {
	gains := map[string]int64{}
	for _, r := range refills {
		for i := range r.Changes {
			ch := &r.Changes[i]
			was, _ := r.Seen.Limit(ch.Limit)
			if ch.Kind == store.SetParams && was.Renewal != nil && ch.Params.Renewal != nil {
				share := func(p store.Params) int64 { return plan.Share(p, r.Shard, r.Seen.ShardCount, r.RefilledAt).Renewed }
				gains[ch.Limit] += max(0, share(ch.Params)-share(*was.Params))
			}
		}
	}
	for limit, gain := range gains {
		amounts = append(amounts, store.Amount{Limit: limit, Milli: -gain})
	}
	return amounts
}

// adjust settles as the limiter does.
func (v *rota) adjust(img *store.Image, amounts []store.Amount, loses bool) bool {
	if len(amounts) == 0 {
		return false
	}
	d := &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: amounts}
	if d.Overflows(img, v.now) || d.Owes(img) {
		r, _, _ := d.Refill(img, v.now, lawMultiplier)
		out, err := v.store.Refill(v.Context(), r)
		return v.check(out.Applied, err) && v.wrote(amounts, loses)
	}
	out, err := v.store.Adjust(v.Context(), d.Adjustment(img, v.now))
	return v.check(out.Applied, err) && v.wrote(amounts, loses)
}

// settle debits at any balance.
func (v *rota) settle() bool {
	img := v.any()
	return v.adjust(img, v.amounts(img), false)
}

// giveBack returns what was taken. It is lost only where it finds no room.
func (v *rota) giveBack() bool {
	if len(v.leases) == 0 {
		return false
	}
	img, back := v.any(), v.leases[0].amount
	back.Milli = -back.Milli
	here, over := plan.SplitOff([]store.Amount{back}, img, v.now)
	s, _ := img.Limit(back.Limit)
	if len(here) == 0 || s.Renewal == nil && back.Until != 0 {
		return false
	}
	part := plan.ShareOf(img, &s)
	at := max(v.now, img.RefilledAt)
	ofPeriod := s.Renewal == nil || back.Until == plan.PeriodEnd(img, back.Limit) && !plan.Renewed(img, &s, at)
	fits := len(over) == 0 && ofPeriod && img == v.last(img.Shard) && part.Balance(s.Tokens, img.RefilledAt, at)-back.Milli <= part.At(at).Capacity
	if !ofPeriod { // it reaches no balance
		return false
	}
	if !v.adjust(img, here, !fits) {
		return false
	}
	v.leases = v.leases[1:]
	return true
}

func (v *rota) split() bool {
	first, born := v.toSplit()
	if born >= lawShards || v.last(born) != nil || born != first.Shard+first.ShardCount {
		return false
	}
	loose := rapid.Bool().Draw(v.T, "is loose")
	out, err := v.store.Bear(v.Context(), plan.Split(first, born, 2*first.ShardCount, loose, v.now, lawMultiplier))
	return v.check(out.Applied, err) && v.wrote(nil, true)
}

func (v *rota) merge() bool {
	images := v.toMerge()
	if images == nil || !plan.AreMergeable(images, v.now) {
		return false
	}
	out, err := v.store.Merge(v.Context(), plan.PairsOf(images, nil, v.now, lawMultiplier))
	return v.check(out.Applied, err) && v.wrote(nil, true)
}

// reset makes limits as full as their schedules say.
func (v *rota) reset() bool {
	return v.amend(&plan.Amendment{Resets: true})
}

// topUp adds to limits, up to what their schedules say.
func (v *rota) topUp() bool { return v.amend(&plan.Amendment{}) }

// amend carries out an amendment over all shards, of each of which the operator may have an
// old image.
func (v *rota) amend(g *plan.Amendment) bool {
	images, w, isFresh := v.drawAmendment(g)
	refills, given, err := g.Over(images, w, v.now, lawMultiplier)
	if err != nil || len(g.Amounts) == 0 {
		return false
	}
	out, err := v.store.Gather(v.Context(), refills)
	if !v.check(out.Applied, err) {
		return false
	}
	amounts := slices.Clone(g.Amounts)
	for k, a := range g.Amounts {
		if amounts[k] = (store.Amount{Limit: a.Limit, Milli: -given[k] * store.Milli}); g.Resets {
			amounts[k].Milli -= store.Milli - 1 // the part of a token that is not told
		} else if given[k] > a.Milli/store.Milli {
			v.Fatalf("%s got %d tokens instead of %d", a.Limit, given[k], a.Milli/store.Milli)
		}
	}
	for _, gain := range gainedBy(refills...) {
		if k := slices.IndexFunc(amounts, func(a store.Amount) bool { return a.Limit == gain.Limit }); k >= 0 {
			amounts[k].Milli += gain.Milli
		} else {
			amounts = append(amounts, gain)
		}
	}
	v.wrote(amounts, g.Resets || !isFresh || w != nil)
	for i := 0; g.Resets && isFresh && i < len(images); i++ {
		after := v.last(images[i].Shard)
		for _, a := range g.Amounts {
			if s, _ := after.Limit(a.Limit); s.Tokens != plan.ShareOf(after, &s).Capacity {
				v.Fatalf("a reset left shard %d with %d of %s: %+v", after.Shard, s.Tokens, a.Limit, plan.ShareOf(after, &s))
			}
		}
	}
	return true
}
