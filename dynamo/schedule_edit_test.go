package dynamo_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A process that has seen an item before its schedule was edited takes nothing of it, though
// the parameters outside of the entries are the same, and both schedules change at the same
// time. The ceiling that it knows is of the earlier schedule.
func TestAnEditOfTheScheduleOnlyIsNoticed(t *testing.T) {
	t.Parallel()
	s := fixture.OpenStore(t, fixture.NewTable(t))
	limit := func(words string) store.Limit {
		schedule, err := store.ParseSchedule(words, "")
		if err != nil {
			t.Fatal(err)
		}
		return store.Limit{Name: "rph", Capacity: 100, Amount: 100, Period: time.Hour, Varies: schedule}
	}
	now := time.Date(2040, 3, 2, 10, 0, 0, 0, time.UTC).UnixMilli()
	first := limit("* 9-16 * * * x0.9")
	b := store.Bucket{Entity: "user", Resource: "gpt-4"}
	out, err := s.Create(t.Context(), &store.Create{
		Bucket: b, Now: now, ShardCount: 1, Writes: plan.FirstWrite(), ValidUntil: first.Varies.Piece(now).End,
		Limits: []store.NewLimit{{NamedParams: store.NamedParams{Limit: "rph", Params: first.Params()}, Tokens: 20_000}},
	})
	if err != nil || !out.Applied {
		t.Fatal(out, err)
	}
	old := out.Image
	for _, words := range []string{"* 9-16 * * * x0.1", "* 9-16 * * * x0.2"} {
		repair := plan.Debit{Bucket: b, Pressing: true, Repair: &plan.Wanted{Limits: []store.Limit{limit(words)}}}
		r, _, _ := repair.Refill(out.Image, now, 7)
		if out, err = s.Refill(t.Context(), r); err != nil || !out.Applied {
			t.Fatal(out, err)
		}
		now += 60_000
		for _, by := range []*plan.Debit{
			{Bucket: b, Amounts: []store.Amount{{Limit: "rph", Milli: 1000}}},
			{Bucket: b, Amounts: []store.Amount{{Limit: "rph", Milli: 1000}}, Settling: true},
		} {
			var late store.Outcome
			if by.Settling {
				late, err = s.Adjust(t.Context(), by.Adjustment(old, now))
			} else {
				late, err = s.Take(t.Context(), by.Take(old, now))
			}
			if err != nil || late.Applied || late.Image.Limits[0].Varies != limit(words).Varies {
				t.Errorf("after an edit to %s, settling %t: %+v, %v", words, by.Settling, late, err)
			}
		}
		fresh := plan.Debit{Bucket: b, Amounts: []store.Amount{{Limit: "rph", Milli: 1000}}}
		refill, _, short := fresh.Refill(out.Image, now, 7)
		if short {
			t.Fatal("a token is missing")
		}
		if out, err = s.Refill(t.Context(), refill); err != nil || !out.Applied {
			t.Fatal(out, err)
		}
	}
}
