package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// byDay is an item whose limit holds 100 tokens and earns 10 an hour, and another number from
// 9:00 to 17:00, an hour before nine. A peer says that it is valid for longer than that.
func byDay(t *testing.T, factor string, tokens int64) (img *store.Image, nine int64) {
	t.Helper()
	s, err := store.ParseSchedule("* 9-16 * * * "+factor, "")
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMilli()
	const hour = 3_600_000
	return &store.Image{
		Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}, ShardCount: 1, RefilledAt: day - hour, HasValidUntil: true, ValidUntil: day + 100*hour,
		Writes: store.LimitState{Name: store.WriteLimit, Tokens: plan.WriteParams.Capacity, Params: new(plan.WriteParams)},
		Limits: []store.LimitState{{Name: "rph", Tokens: tokens, Params: &store.Params{Capacity: 100_000, Amount: 10_000, Period: hour, Varies: s}}},
	}, day
}

// No balance may be debited over a change as it is stored, and none is known to be full without it.
func TestNothingPassesAChange(t *testing.T) {
	t.Parallel()
	img, nine := byDay(t, "x0.5", 100_000)
	d := plan.Debit{Bucket: img.Bucket, Amounts: []store.Amount{{Limit: "rph", Milli: 1000}}}
	for _, now := range []int64{nine - 1, nine} {
		passes := now >= nine
		if ceiling := plan.CeilingOf(img, &img.Limits[0], now); passes != (ceiling == 0) {
			t.Errorf("at %d the ceiling is %d", now-nine, ceiling)
		}
		r, _, short := d.Refill(img, now, 7)
		ch := &r.Changes[0]
		switch is := ch.Earned + img.Limits[0].Tokens; {
		case short:
			t.Errorf("at %d a token is missing", now-nine)
		case passes && (is != 50_000 || ch.AtLeast != 100_000 || ch.AtMost != 100_000 || r.FullSince != 0):
			t.Errorf("at nine it is %d, between %d and %d, full since %d", is, ch.AtLeast, ch.AtMost, r.FullSince)
		case !passes && r.FullSince == 0:
			t.Error("before nine it is not known to be full")
		}
		if debit := (&plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: []store.Amount{{Limit: "rph", Milli: -1000}}}); debit.Overflows(img, now) != passes {
			t.Errorf("at %d a credit goes by a refill: %t", now-nine, !passes)
		}
	}
}

// A repair a moment before a change is stamped with the change, and leaves what may be held
// from then on.
func TestARepairThatIsStampedAheadIsOfThatPiece(t *testing.T) {
	t.Parallel()
	img, nine := byDay(t, "x0.5", 100_000)
	img.ValidUntil = nine
	limit := store.Limit{Name: "rph", Capacity: 100, Amount: 10, Period: time.Hour, Varies: img.Limits[0].Varies}
	d := plan.Debit{Bucket: img.Bucket, Pressing: true, Repair: &plan.Wanted{Limits: []store.Limit{limit}, Expires: true}}
	r, _, _ := d.Refill(img, nine-1, 7)
	if is := r.Changes[0].Earned + img.Limits[0].Tokens; r.RefilledAt != nine || is != 50_000 || r.FullSince != 0 {
		t.Errorf("stamped %d ms after nine, it holds %d, full since %d", r.RefilledAt-nine, is, r.FullSince)
	}
}

// A bucket that is full by the capacity of its stamp, and not by the one in force, keeps what
// it earns.
func TestABucketIsFullByTheCapacityInForce(t *testing.T) {
	t.Parallel()
	img, nine := byDay(t, "x2", 100_000)
	const hour = 3_600_000
	r, _, _ := (&plan.Debit{Bucket: img.Bucket}).Refill(img, nine+hour, 7)
	if is := r.Changes[0].Earned + img.Limits[0].Tokens; is != 120_000 || r.FullSince != 0 {
		t.Errorf("at ten it holds %d, full since %d", is, r.FullSince)
	}
}

// A refused request moves a stamp that is many changes old, or what the bucket has earned would be
// forgotten.
func TestAStampManyChangesOldIsMoved(t *testing.T) {
	t.Parallel()
	s, err := store.ParseSchedule("*/2 * * * * x0.5", "")
	if err != nil {
		t.Fatal(err)
	}
	img, now := byDay(t, "x0.5", -90_000_000)
	img.Limits[0].Params = &store.Params{Capacity: 100_000, Amount: 10_000, Period: time.Hour.Milliseconds(), Varies: s}
	limit := store.Limit{Name: "rph", Capacity: 100, Amount: 10, Period: time.Hour, Varies: s}
	for age, want := range map[int64]plan.Kind{500 * 60_000: plan.Refuse, 600 * 60_000: plan.Repair} {
		img.RefilledAt, img.ValidUntil = now-age, now-age+60_000
		terms := (&plan.Want{Asked: []store.Amount{{Limit: "rph", Milli: 1000}}}).Under(&plan.Wanted{Limits: []store.Limit{limit}})
		next := plan.Next(&plan.Situation{
			Debit: plan.Debit{Bucket: img.Bucket, Amounts: terms.Amounts}, Terms: &terms, Sure: true, Image: img, Fresh: true, Now: now, Multiplier: 7,
		})
		if next.Kind != want || want == plan.Repair && (next.Refill == nil || next.Refill.RefilledAt != now) {
			t.Errorf("after %d minutes the step is %v, want %v", age/60_000, next.Kind, want)
		}
	}
}
