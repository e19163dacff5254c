package plan_test

import (
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// given plans an amendment on one shard: its change of the limit, and the balance that
// follows if nobody else writes.
func given(t *testing.T, am *plan.Amendment, img *store.Image, w *plan.Wanted, now int64) (r *store.Refill, tokens, is int64) {
	t.Helper()
	refills, given, err := am.Over([]*store.Image{img}, w, now, 7)
	if err != nil {
		t.Fatal(err)
	}
	return refills[0], given[0], img.Limits[0].Tokens + refills[0].Changes[0].Earned
}

// A reset makes a limit as full, and a top-up fills it as far, as the parameters say that are
// in force at the new stamp.
func TestAnAmendmentGoesByTheParametersInForce(t *testing.T) {
	t.Parallel()
	const hour = 3_600_000
	for name, c := range map[string]struct {
		factor string // from nine on
		tokens int64
		topUp  int64  // 0 resets
		after  int64  // nine
		back   int64  // by how much an edit has moved ValidUntil back from nine
		wanted string // the factor of another schedule that the limit is to have
		is     int64  // the balance that follows
		given  int64
		atMost int64
	}{
		"reset before a change":           {factor: "x0.5", tokens: -300_000, after: -1, is: 100_000, given: 390, atMost: -300_000},
		"reset to less":                   {factor: "x0.5", tokens: -300_000, after: 0, is: 50_000, given: 340, atMost: -300_000},
		"reset to more":                   {factor: "x2", tokens: 40_000, after: hour, is: 200_000, given: 130, atMost: 40_000},
		"top-up before a change":          {factor: "x0.5", tokens: 10_000, topUp: 1000, after: -1, is: 99_999, given: 80, atMost: 10_001},
		"top-up of what was cut":          {factor: "x0.5", tokens: 100_000, topUp: 1000, after: 0, is: 50_000, given: 0, atMost: 100_000},
		"top-up to less":                  {factor: "x0.5", tokens: 10_000, topUp: 1000, after: 0, is: 50_000, given: 30, atMost: 10_000},
		"top-up to more":                  {factor: "x2", tokens: 50_000, topUp: 1000, after: 0, is: 200_000, given: 140, atMost: 50_000},
		"top-up of a part":                {factor: "x2", tokens: 50_000, topUp: 7, after: 0, is: 67_000, given: 7, atMost: 50_000},
		"reset whose stamp is the change": {factor: "x0.5", tokens: 10_000, after: -1, back: 2, is: 50_000, given: 30, atMost: 10_000},
		"top-up whose stamp is the next":  {factor: "x0.5", tokens: 10_000, topUp: 1000, after: -1, back: 2, is: 50_000, given: 30, atMost: 10_000},
		"reset with another schedule":     {factor: "x0.5", tokens: 10_000, after: hour, wanted: "x3", is: 300_000, given: 275, atMost: 10_000},
		"top-up with another schedule":    {factor: "x0.5", tokens: 10_000, topUp: 1000, after: hour, wanted: "x3", is: 300_000, given: 275, atMost: 10_000},
	} {
		img, nine := byDay(t, c.factor, c.tokens)
		img.ValidUntil = nine - c.back
		am := &plan.Amendment{Resets: c.topUp == 0, Amounts: []store.Amount{{Limit: "rph", Milli: c.topUp * store.Milli}}}
		var w *plan.Wanted
		if c.wanted != "" {
			other, _ := byDay(t, c.wanted, 0)
			w = &plan.Wanted{Limits: []store.Limit{{Name: "rph", Capacity: 100, Amount: 10, Period: hour * 1_000_000, Varies: other.Limits[0].Varies}}}
		}
		r, tokens, is := given(t, am, img, w, nine+c.after)
		ch := &r.Changes[0]
		if is != c.is || tokens != c.given || ch.AtLeast != math.MinInt64 || ch.AtMost != c.atMost {
			t.Errorf("%s: %d millitokens after %d more tokens, between %d and %d; want %d after %d, at most %d", name, is, tokens, ch.AtLeast, ch.AtMost, c.is, c.given, c.atMost)
		}
		if after := plan.AfterRefill(r); after.ValidUntil <= r.RefilledAt || r.RefilledAt < nine+c.after {
			t.Errorf("%s: valid until %d, stamped %d after nine", name, after.ValidUntil-nine, r.RefilledAt-nine)
		}
	}
}

// A reset within a period that also cuts a quota to its amount leaves takes free: they are of that
// period. A peer's credit may have lifted it above. Another one would do so again.
func TestAResetWithinAPeriodLeavesTakesFree(t *testing.T) {
	t.Parallel()
	month, err := store.ParseRenewal("month", "")
	if err != nil {
		t.Fatal(err)
	}
	img, _ := byDay(t, "x1", 130_000)
	img.Limits[0].Params = &store.Params{Capacity: 100_000, Period: 1000, Renewal: month}
	img.ValidUntil = month.Next(img.RefilledAt)
	am := &plan.Amendment{Resets: true, Amounts: []store.Amount{{Limit: "rph"}}}
	r, _, is := given(t, am, img, nil, img.RefilledAt+1)
	if ch := &r.Changes[0]; is != 100_000 || ch.AtLeast != math.MinInt64 || ch.AtMost != 130_000 {
		t.Errorf("%d millitokens, between %d and %d; want 100000, at most 130000", is, ch.AtLeast, ch.AtMost)
	}
}

// A reset after the end of a period makes a limit as full as what it is edited to says, also
// if that is no quota. The balance is pinned: what others take meanwhile is of the earlier
// period.
func TestAResetAfterAPeriodGoesByTheEdit(t *testing.T) {
	t.Parallel()
	month, err := store.ParseRenewal("month", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wanted store.Limit
		is     int64
		given  int64
	}{
		"no edit":         {store.Limit{Name: "rph", Capacity: 100, Renews: month}, 100_000, 0},
		"a larger amount": {store.Limit{Name: "rph", Capacity: 150, Renews: month}, 150_000, 0},
		"a larger rate":   {store.Limit{Name: "rph", Capacity: 150, Amount: 10, Period: time.Hour}, 150_000, 50},
		"a smaller rate":  {store.Limit{Name: "rph", Capacity: 40, Amount: 10, Period: time.Hour}, 40_000, 0},
	} {
		img, _ := byDay(t, "x1", 30_000)
		img.Limits[0].Params = &store.Params{Capacity: 100_000, Period: 1000, Renewal: month}
		img.ValidUntil = month.Next(img.RefilledAt)
		am := &plan.Amendment{Resets: true, Amounts: []store.Amount{{Limit: "rph"}}}
		r, tokens, is := given(t, am, img, &plan.Wanted{Limits: []store.Limit{c.wanted}}, img.ValidUntil)
		if ch := &r.Changes[0]; is != c.is || tokens != c.given || ch.AtLeast != 30_000 || ch.AtMost != 30_000 {
			t.Errorf("%s: %d millitokens after %d more tokens, between %d and %d; want %d after %d", name, is, tokens, ch.AtLeast, ch.AtMost, c.is, c.given)
		}
	}
}
