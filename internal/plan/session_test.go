package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A write whose stamp lies past the end of the session that its shard has does not debit that session,
// nor the next one: that begins on all shards.
func TestAStampPastTheEndOfASession(t *testing.T) {
	t.Parallel()
	const end = 10 * sessionLength
	img := sessionShards(t, []int64{end - sessionLength, end - sessionLength}, store.Told{})[0]
	img.RefilledAt, img.ValidUntil = end-1, end-1
	for limit, short := range map[string]bool{"sess": false, "other": true} {
		d := &plan.Debit{Amounts: []store.Amount{{Limit: "sess", Milli: 1}}, Pressing: true, Begins: &plan.Beginning{At: end, Limits: []string{limit}}}
		if r, _, got := d.Refill(img, end-1, 7); r.RefilledAt < end || got != short {
			t.Errorf("%s begins: stamp %d of %d, short %t", limit, r.RefilledAt, int64(end), got)
		}
	}
}

const sessionLength = 5 * 3_600_000

// sessionShards are the shards of a bucket with a session of 40 tokens that began on each of
// them when opened says, or of which a peer has told them.
func sessionShards(t *testing.T, opened []int64, told store.Told) (shards []*store.Image) {
	t.Helper()
	r, err := store.ParseRenewal("session 5h", "")
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range opened {
		s := store.LimitState{Name: "sess", Tokens: 1000, Params: new(store.Limit{Name: "sess", Capacity: 40, Renews: r}.Params())}
		s.SetExtra(store.Extra{Opened: at, Told: told})
		img := &store.Image{Bucket: store.Bucket{Entity: "e", Resource: "r", Shard: i}, ShardCount: len(opened), RefilledAt: max(at, 1), Limits: []store.LimitState{s}}
		img.HasValidUntil, img.ValidUntil = true, at+sessionLength
		shards = append(shards, img)
	}
	return shards
}

// A session begins on all shards or on none. A shard whose session has ended holds nothing
// until it has ended on the others, and joins one of which a peer has told it.
func TestShardsTogether(t *testing.T) {
	t.Parallel()
	const now = 10 * sessionLength
	asked := []store.Amount{{Limit: "sess", Milli: 1000}}
	for name, c := range map[string]struct {
		opened   []int64
		told     store.Told
		begins   bool
		alone    bool  // shard 0 can be debited alone
		held     int64 // by all, in millitokens
		resetsAt int64 // of shard 0
	}{
		"one, ended":               {opened: []int64{store.NoSession}, begins: true, alone: true, held: 40_000},
		"all have ended":           {opened: []int64{store.NoSession, now - sessionLength, 7, 7}, begins: true, held: 40_000},
		"all have one under way":   {opened: []int64{now - 5, now - 5}, alone: true, held: 2_000, resetsAt: now - 5 + sessionLength},
		"it has ended on shard 0":  {opened: []int64{store.NoSession, now - 5}, held: 1_000, resetsAt: now - 5 + sessionLength},
		"each has its own":         {opened: []int64{now - 9, now - 5}, alone: true, held: 2_000, resetsAt: now - 9 + sessionLength},
		"a peer has told of one":   {opened: []int64{7, 7}, told: store.Told{Opened: now - 5, Consumed: 3_000}, alone: true, held: 34_000, resetsAt: now - 5 + sessionLength},
		"a peer told of one ended": {opened: []int64{7, 7}, told: store.Told{Opened: 8, Consumed: 3_000}, begins: true, held: 40_000},
	} {
		shards := sessionShards(t, c.opened, c.told)
		if b := plan.BeginningOf(shards, asked, now); (len(b.Limits) > 0) != c.begins || b.At != now {
			t.Errorf("%s: %+v begins", name, b)
		}
		if b := plan.BeginningOf(shards, plan.AllCounted(asked), now); len(b.Limits) > 0 {
			t.Errorf("%s: what moves no balance begins %+v", name, b)
		}
		if needs := plan.NeedsBeginning(shards[0], asked, now); needs == c.alone {
			t.Errorf("%s: shard 0 needs the others: %v", name, needs)
		}
		terms := plan.Terms{}
		_, parts := terms.Holdings(nil, "sess", shards, now)
		if held := plan.Balance(parts, now); held != c.held {
			t.Errorf("%s: %d are held, want %d", name, held, c.held)
		}
		if end := parts[0].Renewal.End(parts[0].Opened, now); max(end, now) != max(c.resetsAt, now) {
			t.Errorf("%s: it resets at %d, want %d", name, end, c.resetsAt)
		}
		var sum int64
		for _, img := range plan.Together(shards, asked, now) {
			sum += terms.Holds(img, "sess", now)
		}
		if sum != c.held {
			t.Errorf("%s: together they hold %d, want %d", name, sum, c.held)
		}
	}
}

// Shards are merged if they have one session, or none of them has any: a balance of another
// session would be there twice.
func TestShardsOfSeveralSessionsAreNotMerged(t *testing.T) {
	t.Parallel()
	const now = 10 * sessionLength
	for name, c := range map[string]struct {
		opened []int64
		told   store.Told
		merges bool
	}{
		"one":            {opened: []int64{now - 5, now - 5}, merges: true},
		"none":           {opened: []int64{store.NoSession, 7}, merges: true},
		"two":            {opened: []int64{now - 9, now - 5}},
		"one and none":   {opened: []int64{now - 5, 7}},
		"one of a peers": {opened: []int64{7, 7}, told: store.Told{Opened: now - 5}},
	} {
		if got := plan.AreMergeable(sessionShards(t, c.opened, c.told), now); got != c.merges {
			t.Errorf("%s: they are merged: %v", name, got)
		}
	}
}

// Two images of an item are of the same periods if each quota is, also beside a session that rests.
func TestPeriodsBesideARestingSession(t *testing.T) {
	t.Parallel()
	img, noon := aDay(t, store.Carry{}, 1000, 0)
	img.Limits = append(img.Limits, sessionShards(t, []int64{store.NoSession}, store.Told{})[0].Limits...)
	for later, want := range map[time.Duration]bool{time.Hour: true, 12 * time.Hour: false} {
		other := *img
		other.RefilledAt = noon + later.Milliseconds()
		if got := plan.AreOfSamePeriods(img, &other); got != want {
			t.Errorf("%v later, they are of the same periods: %t", later, got)
		}
	}
	rate := item(1000, noon, func(*store.Image) {})
	quota := *rate
	quota.Limits = slices.Clone(rate.Limits)
	quota.Limits[0].Params = img.Limits[0].Params
	for _, pair := range [][2]*store.Image{{rate, &quota}, {&quota, rate}} {
		if plan.AreOfSamePeriods(pair[0], pair[1]) {
			t.Error("a rate and a quota are of the same periods")
		}
	}
}

// A top-up begins a session on all shards, or goes to those that have one.
func TestATopUpOfSessionsOfShards(t *testing.T) {
	t.Parallel()
	const now = 10 * sessionLength
	for name, c := range map[string]struct {
		opened, want, gets []int64
	}{
		"none under way":    {[]int64{store.NoSession, 7}, []int64{now, now}, []int64{2000, 2000}},
		"one under way":     {[]int64{now - 5, now - 5}, []int64{0, 0}, []int64{2000, 2000}},
		"ended on shard 0":  {[]int64{7, now - 5}, []int64{store.NoSession, 0}, []int64{0, 4000}},
		"ended on another":  {[]int64{now - 5, 7}, []int64{0, store.NoSession}, []int64{4000, 0}},
		"two are under way": {[]int64{now - 9, now - 5}, []int64{0, 0}, []int64{2000, 2000}},
	} {
		am := &plan.Amendment{Amounts: []store.Amount{{Limit: "sess", Milli: 4000}}}
		refills, given, err := am.Over(sessionShards(t, c.opened, store.Told{}), nil, now, 7)
		if err != nil || given[0] != 4 {
			t.Fatal(given, err)
		}
		for i, r := range refills {
			if ch := r.Changes[0]; ch.Opened != c.want[i] || ch.TopUp != c.gets[i] {
				t.Errorf("%s: shard %d gets %+v", name, i, ch)
			}
		}
	}
}
