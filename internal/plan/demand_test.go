package plan_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// noonImage is a shard of a bucket at noon. Its limits earn an amount an hour, and each follows
// a schedule.
func noonImage(shard, count int, limits ...store.LimitState) (img *store.Image, noon int64) {
	noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixMilli()
	return &store.Image{
		Bucket: store.Bucket{Entity: "user", Resource: "gpt-4", Shard: shard}, ShardCount: count, RefilledAt: noon,
		Writes: store.LimitState{Name: store.WriteLimit, Tokens: plan.WriteParams.Capacity, Params: new(plan.WriteParams)},
		Limits: limits,
	}, noon
}

// hourly is a limit of 100 tokens.
func hourly(t *testing.T, name string, amount, tokens int64, varies string) store.LimitState {
	t.Helper()
	s, err := store.ParseSchedule(varies, "")
	if err != nil {
		t.Fatal(err)
	}
	return store.LimitState{
		Name: name, Tokens: tokens * store.Milli,
		Params: &store.Params{Capacity: 100 * store.Milli, Amount: amount * store.Milli, Period: time.Hour.Milliseconds(), Varies: s},
	}
}

// demanded is the wait until tokens of each limit are there, asked for at noon.
func demanded(tokens map[string]int64, granted bool, shards []*store.Image, now int64) time.Duration {
	var terms plan.Terms
	var demands []plan.Demand
	for name, n := range tokens {
		demands = terms.Demands(demands, []store.Amount{{Limit: name, Milli: n * store.Milli}}, granted, shards, now)
	}
	return plan.WaitForAll(demands, now, 0)
}

const atNight = "* 3 * * * x0.5" // changes nothing in the afternoon

// A schedule takes away what was there before the longest wait ended: each look begins where the
// last one led.
func TestAWaitForAllLooksAgain(t *testing.T) {
	t.Parallel()
	img, noon := noonImage(0, 1,
		hourly(t, "day", 10, 0, atNight),                 // 15 from 13:30 on
		hourly(t, "rpm", 30, 0, "* 13 * * * capacity=1")) // 5 from 12:10 to 13:00, and from 14:08 on
	for asked, want := range map[string]time.Duration{"day": 90 * time.Minute, "rpm": 10 * time.Minute} {
		if got := demanded(map[string]int64{asked: map[string]int64{"day": 15, "rpm": 5}[asked]}, false, []*store.Image{img}, noon); got != want {
			t.Errorf("%s alone waits for %v, want %v", asked, got, want)
		}
	}
	const want = 2*time.Hour + 8*time.Minute
	if got := demanded(map[string]int64{"day": 15, "rpm": 5}, false, []*store.Image{img}, noon); got != want {
		t.Errorf("both wait for %v, want %v", got, want)
	}
}

// What a part of a request was granted is there again when the request is made again. It fits
// only as far as there is room.
func TestAGrantIsReturnedBeforeTheWait(t *testing.T) {
	t.Parallel()
	img, noon := noonImage(0, 1, hourly(t, "rph", 30, 95, atNight))
	for _, c := range []struct {
		asked   int64
		granted bool
		want    time.Duration
	}{
		{100, false, 10 * time.Minute}, {100, true, 0}, {5, true, 0},
	} {
		if got := demanded(map[string]int64{"rph": c.asked}, c.granted, []*store.Image{img}, noon); got != c.want {
			t.Errorf("%d, granted %t: the wait is %v, want %v", c.asked, c.granted, got, c.want)
		}
	}
}

// A clock that is ahead has left a stamp in the afternoon. The grant returns to the capacity of that
// time, also if a smaller one is in force now.
func TestAGrantIsReturnedToAStampAhead(t *testing.T) {
	t.Parallel()
	img, noon := noonImage(0, 1, hourly(t, "rph", 30, 20, "* 12 * * * capacity=10"))
	img.RefilledAt += 2 * time.Hour.Milliseconds()
	if got := demanded(map[string]int64{"rph": 50}, true, []*store.Image{img}, noon); got != 0 {
		t.Errorf("the wait is %v, want 0", got)
	}
}

// What shards gave does not pay what another shard owes: it is there again, and no more than that.
func TestAGrantOfSeveralShardsIsReturned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tokens [2]int64
		asked  int64
		want   time.Duration
	}{
		{[2]int64{-10, 0}, 40, 0},
		{[2]int64{0, -10}, 40, 0},
		{[2]int64{30, 35}, 35, 0},
		{[2]int64{-10, 0}, 60, 2 * time.Hour},   // 50 fit into shard 1, and 10 pay the debt
		{[2]int64{-10, -20}, 20, 2 * time.Hour}, // taken ahead: shard 0 has 10 again, and earns 10
	} {
		var shards []*store.Image
		var noon int64
		for i, n := range c.tokens {
			var img *store.Image
			img, noon = noonImage(i, 2, hourly(t, "rph", 10, n, atNight))
			shards = append(shards, img)
		}
		if got := demanded(map[string]int64{"rph": c.asked}, true, shards, noon); got != c.want {
			t.Errorf("%v, of which %d were taken: the wait is %v, want %v", c.tokens, c.asked, got, c.want)
		}
	}
}

// A shard that is missing opens empty, and earns from now on. Without it, no wait would suffice.
func TestAMissingShardMeetsADemand(t *testing.T) {
	t.Parallel()
	img, noon := noonImage(0, 2, hourly(t, "rph", 10, 50, atNight)) // its share is full
	if got, want := demanded(map[string]int64{"rph": 60}, false, []*store.Image{img, nil}, noon), 2*time.Hour; got != want {
		t.Errorf("the wait is %v, want %v", got, want)
	}
}
