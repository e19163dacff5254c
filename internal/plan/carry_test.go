package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// renewingBy is a calendar or a session.
func renewingBy(t *testing.T, words string) *store.Renewal {
	t.Helper()
	r, err := store.ParseRenewal(words, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// aDay is the only shard at noon of a bucket with 100 tokens a day. It holds some, and was topped up.
func aDay(t *testing.T, carries store.Carry, tokens, topUp int64) (img *store.Image, noon int64) {
	t.Helper()
	s := store.LimitState{Name: "day", Tokens: tokens, Params: new(store.Limit{Name: "day", Capacity: 100, Renews: renewingBy(t, "day"), Carries: carries}.Params())}
	s.SetExtra(store.Extra{Granted: store.Granted{TopUp: topUp}})
	img, noon = noonImage(0, 1, s)
	img.HasValidUntil, img.ValidUntil = true, s.Renewal.Next(noon)
	return img, noon
}

// A shard that learns of a larger number of shards in a later period carries its share among
// that number. Its sibling has the other one.
func TestATightenedShardCarriesItsShare(t *testing.T) {
	t.Parallel()
	for left, carried := range map[int64]int64{70_000: 20_000, 15_000: 15_000, 0: 0} {
		img, noon := aDay(t, store.Carry{Rollover: 40}, left, 0)
		ch := plan.Tighten(img, 2, noon+24*time.Hour.Milliseconds(), 7).Changes[0]
		if got, want := left+ch.Earned, 50_000+carried; got != want || ch.TopUp != carried {
			t.Errorf("with %d left, it holds %d and may hold %d above its share, want %d and %d", left, got, ch.TopUp, want, carried)
		}
	}
}

// A split divides what a quota was topped up by. A loose one may come after another top-up,
// which it must not undo: the donor keeps what the item says.
func TestASplitDividesATopUp(t *testing.T) {
	t.Parallel()
	for loose, kept := range map[bool]int64{false: 10_000, true: 0} {
		img, noon := aDay(t, store.Carry{}, 120_000, 20_000)
		b := plan.Split(img, 1, 2, loose, noon, 7)
		if ch := b.Donor.Changes[0]; ch.Renews == loose || ch.TopUp != kept || b.Limits[0].TopUp != 10_000 || b.Limits[0].Tokens != 60_000 || ch.Earned != -60_000 {
			t.Errorf("loose %t: the donor is changed by %+v, and the shard born has %+v", loose, ch, b.Limits[0])
		}
	}
}

// A quota that becomes a session begins one with what it has left, also above its share.
func TestAQuotaBecomesASession(t *testing.T) {
	t.Parallel()
	session := store.Limit{Name: "day", Capacity: 80, Renews: renewingBy(t, "session 5h")}
	for name, c := range map[string]struct {
		later       time.Duration
		tokens      int64
		want, topUp int64 // topUp is what the write sets; 0 leaves it
	}{
		"topped up by 20":         {0, 110_000, 90_000, 0},
		"more than it may hold":   {0, 130_000, 100_000, 0},
		"it has carried 40":       {24 * time.Hour, 60_000, 120_000, 40_000},
		"it has carried the rest": {24 * time.Hour, 15_000, 95_000, 15_000},
	} {
		img, noon := aDay(t, store.Carry{Rollover: 40}, c.tokens, 20_000)
		d := plan.Debit{Bucket: img.Bucket, Repair: wanted(session)}
		now := noon + c.later.Milliseconds()
		r, _, _ := d.Refill(img, now, 7)
		ch := r.Changes[0]
		if got := c.tokens + ch.Earned; got != c.want || ch.TopUp != c.topUp || ch.Opened != r.RefilledAt {
			t.Errorf("%s: holds %d, want %d: %+v", name, got, c.want, ch)
		}
	}
}

// A bucket outlives the debt that it carries by a week. Without one, it outlives the next period.
func TestALifeOutlastsACarriedDebt(t *testing.T) {
	t.Parallel()
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	for owed, want := range map[int64]time.Duration{-250_000: 4*day - 12*time.Hour, -1: 2*day - 12*time.Hour, 5: 2*day - 12*time.Hour} {
		img, noon := aDay(t, store.Carry{Debt: true}, owed, 0)
		if got := time.Duration(plan.LifeOf(&img.Limits[0], 0, 1, noon, 7)) * time.Millisecond; got != want+week {
			t.Errorf("with %d, it lives for %v, want %v", owed, got, want+week)
		}
	}
}
