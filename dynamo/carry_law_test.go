package dynamo_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A carryLedger is a bucket with one quota that carries. Beside the writes of a [ledger] it
// knows what was taken of the quota in each of its periods.
type carryLedger struct {
	*ledger

	carries store.Carry
	amount  int64           // of a period, in millitokens; 0 after an edit
	net     map[int64]int64 // consumed less returned, by the end of the period
	first   int64           // the end of the first period
}

var carryWrites = map[string]func(*carryLedger) bool{
	"time":    func(l *carryLedger) bool { return l.pass() },
	"months":  (*carryLedger).idle,
	"take":    func(l *carryLedger) bool { return l.take() },
	"refill":  func(l *carryLedger) bool { return l.refill() },
	"settle":  (*carryLedger).overdraw,
	"return":  func(l *carryLedger) bool { return l.giveBack() },
	"split":   func(l *carryLedger) bool { return l.split() },
	"merge":   func(l *carryLedger) bool { return l.merge() },
	"tighten": (*carryLedger).tighten,
	"trim":    func(l *carryLedger) bool { return l.trim() },
	"edit":    (*carryLedger).edit,
}

// P11 with rollover and carried debt, at each write of many processes on images that are old,
// by clocks that disagree: over any k periods, admitted − returned ≤ k amounts and what may be
// carried, and what is still owed. No write changes what the bucket has now or in a later
// period, but for what it takes, gives back or edits.
func TestQuotasThatCarryOverAnyWrites(t *testing.T) {
	t.Parallel()
	s, db, ns := lawStore(t)
	law[*carryLedger]{writes: carryWrites, after: (*carryLedger).checkNet, begin: func(t *rapid.T, number int) *carryLedger {
		base := &ledger{T: t, store: s, api: db, ns: ns, bucket: store.Bucket{Entity: fmt.Sprintf("carry-%d", number), Resource: "gpt-4"}}
		l := &carryLedger{ledger: base, net: map[int64]int64{}}
		base.checks = l.check
		base.now = fixture.Start.UnixMilli() + rapid.Int64Range(0, 400*24*3_600_000).Draw(t, "start")
		l.setLimit()
		base.create()
		l.amount, l.first = l.wanted.Limits[0].Capacity*store.Milli, plan.PeriodEnd(base.last(0), "a")
		return l
	}}.play(t, 15)
}

// setLimit draws a quota that carries something.
func (l *carryLedger) setLimit() {
	words := rapid.SampledFrom([]string{"day", "month", "week from monday;month"}).Draw(l.T, "renews")
	r, err := store.ParseRenewal(words, "Europe/Berlin")
	if err != nil {
		l.Fatal(err)
	}
	limit := store.Limit{Name: "a", Capacity: rapid.Int64Range(1, 30).Draw(l.T, "tokens"), Renews: r}
	limit.Carries.Rollover = rapid.SampledFrom([]int64{0, 1, limit.Capacity, 3 * limit.Capacity}).Draw(l.T, "rollover")
	limit.Carries.Debt = rapid.Bool().Draw(l.T, "debt") || limit.Carries.Rollover == 0
	l.carries = store.Carry{Rollover: limit.Carries.Rollover * store.Milli, Debt: limit.Carries.Debt}
	l.wanted = plan.Wanted{Expires: true, Limits: []store.Limit{limit}}
}

// idle lets several periods end unused.
func (l *carryLedger) idle() bool {
	for range rapid.IntRange(2, 6).Draw(l.T, "periods") {
		l.now = l.wanted.Limits[0].Renews.Next(l.now)
	}
	return true
}

// edit seldom changes what the quota carries, its amount and its calendar. Whatever it
// admitted before is then no longer counted.
func (l *carryLedger) edit() bool {
	if rapid.IntRange(0, 5).Draw(l.T, "edits") != 0 {
		return false
	}
	l.setLimit()
	l.amount = 0
	img := l.any()
	return l.refillAt(img, &plan.Debit{Bucket: img.Bucket, Repair: &l.wanted, Pressing: true}, l.clock())
}

// tighten gives a shard its number of shards, which a peer made smaller. Until then it pays a debt
// from the whole of each period, beside the shards that pay theirs. What was admitted before is
// then no longer counted.
func (l *carryLedger) tighten() bool {
	if !l.ledger.tighten() {
		return false
	}
	if l.carries.Debt {
		l.amount = 0
	}
	return true
}

// overdraw settles, if debt is carried: otherwise a shard's debt is forgiven where another one
// rolls over.
func (l *carryLedger) overdraw() bool { return l.carries.Debt && l.amount != 0 && l.settle() }

// latest is an instant that no clock has reached.
func (l *carryLedger) latest(images []*store.Image) (at int64) {
	at = l.now + lawSkew
	for _, img := range images {
		at = max(at, img.RefilledAt)
	}
	return at
}

// heldOf is what shards have together at an instant, debts included.
func heldOf(images []*store.Image, at int64) (sum int64) {
	for _, img := range images {
		s, _ := img.Limit("a")
		sum += plan.ShareOf(img, &s).Balance(s.Tokens, img.RefilledAt, at)
	}
	return sum
}

// check compares what the shards that a write has changed held before and after it: at the
// later of their stamps, and in periods to come.
func (l *carryLedger) check(before, after []*store.Image, amounts []store.Amount) {
	for _, img := range after {
		s, _ := img.Limit("a")
		// A loose split leaves a shard the capacity of its elder until the period ends.
		if most := plan.ShareOf(img, &s).Capacity; s.Tokens > most {
			l.Fatalf("shard %d of %d has %d of %d", img.Shard, img.ShardCount, s.Tokens, most)
		}
	}
	if len(before) == 0 || len(after) == 0 || len(before) == 1 && after[0].ShardCount < before[0].ShardCount {
		return // made, or given an older number by a peer
	}
	at := int64(0)
	for _, img := range slices.Concat(before, after) {
		at = max(at, img.RefilledAt)
	}
	a := amountOf(amounts, "a")
	if a.Milli > 0 {
		l.net[plan.PeriodEnd(after[0], "a")] += a.Milli
	} else {
		l.net[a.Until] += a.Milli
	}
	was, _ := before[0].Limit("a")
	is, _ := after[0].Limit("a")
	if *was.Params != *is.Params {
		l.checkEdit(before[0], after[0], max(0, a.Milli), at)
		return
	}
	if merges := len(before) > len(after); merges {
		l.checkMerge(before, after)
		return
	}
	had, has := heldOf(before, at), heldOf(after, at)
	switch took := max(0, a.Milli); {
	case has > had-took-min(0, a.Milli):
		l.Fatalf("%d took %d, and left %d", had, a.Milli, has)
	case len(before) == 1 && len(after) <= 2 && before[0].ShardCount <= after[0].ShardCount && a.Milli >= 0 && has < had-took && !trims(before[0], after[0]):
		l.Fatalf("%d took %d, and lost some: %d", had, a.Milli, has)
	}
	doubles := len(before) == 1 && len(after) == 2 && after[0].RefilledAt == before[0].RefilledAt && was.Granted().Shards == 0 && !l.behind
	const rounding = 8
	for range 3 {
		at = is.Renewal.Next(at)
		switch had, has := heldOf(before, at), heldOf(after, at); {
		case has > had-min(0, a.Milli):
			l.Fatalf("%d at %d became %d", had, at, has)
		case doubles && has < had-rounding:
			l.Fatalf("%d at %d became %d by a doubling", had, at, has)
		case len(after) == 1 && a.Milli == 0 && has != had && !trims(before[0], after[0]):
			l.Fatalf("%d at %d is %d after a write that took nothing", had, at, has)
		}
	}
}

// checkMerge checks that no shard has more than the two that it was, at its own stamp. From the end
// of its period on it may: it carries what one of them could not.
func (l *carryLedger) checkMerge(before, after []*store.Image) {
	for _, img := range after {
		parts := slices.DeleteFunc(slices.Clone(before), func(b *store.Image) bool { return b.Shard%len(after) != img.Shard })
		if had, has := heldOf(parts, img.RefilledAt), heldOf([]*store.Image{img}, img.RefilledAt); has > had {
			l.Fatalf("%d became %d by a merge", had, has)
		}
	}
}

// trims reports whether a write gives a shard a share of more shards, alone.
func trims(was, is *store.Image) bool { return was.ShardCount != is.ShardCount }

// checkEdit checks that an edit gives, or takes, the difference of the amounts, and nothing else.
func (l *carryLedger) checkEdit(was, img *store.Image, took, at int64) {
	old, _ := was.Limit("a")
	s, _ := img.Limit("a")
	share := func(p store.Params) int64 { return plan.Share(p, img.Shard, img.ShardCount, at).Capacity }
	had, has := heldOf([]*store.Image{was}, at), heldOf([]*store.Image{img}, at)
	if gets := share(*s.Params) - share(*old.Params); has != had+gets-took {
		l.Fatalf("an edit from %+v to %+v gives %d, and %d less %d became %d", old.Params, s.Params, gets, had, took, has)
	}
}

// checkNet checks what the periods up to the present one have admitted, from each of them on.
func (l *carryLedger) checkNet() {
	if l.amount == 0 {
		return
	}
	var images []*store.Image
	for i := range l.known {
		if img := l.last(i); img != nil {
			images = append(images, img)
		}
	}
	r := l.wanted.Limits[0].Renews
	latest := l.latest(images)
	owed := max(0, -heldOf(images, latest))
	for _, img := range images {
		s, _ := img.Limit("a")
		owed += max(0, -s.Tokens) // others may hold as much
	}
	var ends []int64
	for end := l.first; ; end = r.Next(end) {
		ends = append(ends, end)
		if end > latest {
			break
		}
	}
	sum, most := int64(0), l.carries.Rollover+owed
	for k, end := range slices.Backward(ends) {
		sum += l.net[end]
		if most += l.amount; sum > most {
			l.Fatalf("the last %d periods admitted %d, and may %d", len(ends)-k, sum, most)
		}
	}
}
