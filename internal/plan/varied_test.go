package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Where the amount of a quota rises, an item in step gets the difference. Nobody knows how
// much a peer has cut of another item: it gets nothing until its period ends.
func TestOnlyAnItemInStepGetsTheDifference(t *testing.T) {
	t.Parallel()
	half, err := store.ParseSchedule("* 0-12 * * * x0.5", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	s := store.LimitState{Name: "day", Tokens: 20_000, Params: new(store.Limit{Name: "day", Capacity: 100, Renews: renewingBy(t, "day"), Varies: half}.Params())}
	for inStep, want := range map[bool]int64{true: 70_000, false: 20_000} {
		img, noon := noonImage(0, 1, s)
		img.HasValidUntil, img.ValidUntil, img.InStep = true, noon+time.Hour.Milliseconds(), inStep
		d := plan.Debit{Bucket: img.Bucket}
		r, _, _ := d.Refill(img, noon+2*time.Hour.Milliseconds(), 7)
		if got := s.Tokens + r.Changes[0].Earned; got != want || r.Validity.InStep != inStep {
			t.Errorf("in step %t: the refill leaves %d, and in step %t, want %d", inStep, got, r.Validity.InStep, want)
		}
	}
}

// A shard that is born without a sibling is stamped now, so it is valid until the next change from now on. The shard
// that it copies may have been stamped after that, by a clock far ahead, or have moved it back by an edit.
func TestAnOrphanIsValidUntilItsNextChange(t *testing.T) {
	t.Parallel()
	half, err := store.ParseSchedule("* 0-12 * * * x0.5", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	s := store.LimitState{Name: "rpm", Params: new(store.Limit{Name: "rpm", Capacity: 100, Amount: 100, Period: time.Minute, Varies: half}.Params())}
	hour := time.Hour.Milliseconds()
	img, noon := noonImage(0, 2, s)
	for name, c := range map[string]struct{ stamp, until, want int64 }{
		"a shard of now":            {noon - 1, noon + hour, noon + hour},
		"one that was edited":       {noon - 1, noon + hour - 3, noon + hour - 3},
		"one of the morning":        {noon - 12*hour - 1, noon - 12*hour, noon + hour},
		"one that is an hour ahead": {noon + hour, noon + 12*hour, noon + hour},
	} {
		img.RefilledAt, img.HasValidUntil, img.ValidUntil = c.stamp, true, c.until
		if b := plan.Orphan(img, 1, 3, 4, noon, 7); b.ValidUntil != c.want {
			t.Errorf("born like %s: valid until noon and %d ms, want %d", name, b.ValidUntil-noon, c.want-noon)
		}
	}
}

// An image that has accrued past the end of a period is in step again, as the item is after a write.
func TestAnImageIsInStepOnceItHasRenewed(t *testing.T) {
	t.Parallel()
	half, err := store.ParseSchedule("* 0-5 * * * x0.5", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	p := store.Limit{Name: "day", Capacity: 100, Renews: renewingBy(t, "day"), Varies: half}.Params()
	img, noon := noonImage(0, 1, store.LimitState{Name: "day", Tokens: 20_000, Params: &p})
	hour := time.Hour.Milliseconds()
	for later, want := range map[int64]bool{hour: false, 13 * hour: true} {
		for _, was := range []bool{false, true} {
			img.InStep = was
			if got := plan.Debited(img, nil, noon+later); got.InStep != (want || was) {
				t.Errorf("%d hours later, in step before: %t, after: %t", later/hour, was, got.InStep)
			}
		}
	}
}
