package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

const (
	tok       = 1000              // millitokens in a token
	sec       = 1000              // milliseconds in a second
	hour      = 3600 * sec        // milliseconds in an hour
	day       = 24 * hour         // milliseconds in a day
	epoch2023 = 1_700_000_000_000 // 2023-11-14T22:13:20Z
	never     = -1                // no wait pays off
)

func perSecond(tokens int64) bucket.Limit {
	return bucket.Limit{Capacity: tokens * tok, Amount: tokens * tok, Period: sec}
}

func perMinute(tokens int64) bucket.Limit {
	return bucket.Limit{Capacity: tokens * tok, Amount: tokens * tok, Period: 60 * sec}
}

func perDay(tokens int64) bucket.Limit {
	return bucket.Limit{Capacity: tokens * tok, Amount: tokens * tok, Period: day}
}

func burst(l bucket.Limit, tokens int64) bucket.Limit {
	l.Capacity = tokens * tok
	return l
}

// A step is a request of n millitokens, t milliseconds after the bucket was filled: the
// balance it finds, whether it is admitted, and if not, its wait in milliseconds.
type step struct {
	t, tokens, n int64
	ok           bool
	wait         int64
}

// run plays steps against a bucket that holds tokens at start.
func run(t *testing.T, l bucket.Limit, tokens, start int64, steps []step) {
	t.Helper()
	at := start
	for i, s := range steps {
		now := start + s.t
		delta, _ := l.Refill(tokens, at, now)
		if got := tokens + delta; got != s.tokens {
			t.Errorf("step %d: %d millitokens at %d, want %d", i, got, s.t, s.tokens)
		}
		if got := l.Admits(tokens, at, now, s.n); got != s.ok {
			t.Errorf("step %d: %d of %d admitted: %t, want %t", i, s.n, tokens+delta, got, s.ok)
		}
		wait, ok := l.Wait(tokens, at, now, s.n)
		if !ok {
			wait = never
		}
		if wait != s.wait {
			t.Errorf("step %d: wait %d ms, want %d", i, wait, s.wait)
		}
		tokens, at = tokens+delta, max(at, now)
		if s.ok {
			tokens -= s.n
		}
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	run(t, burst(perSecond(10), 3), 3*tok, epoch2023, []step{
		{0, 3 * tok, 2 * tok, true, 0},
		{0, 1 * tok, 2 * tok, false, 100},
		{0, 1 * tok, 1 * tok, true, 0},
		{0, 0, 1 * tok, false, 100},
		{99, 990, 1 * tok, false, 1},
		{100, 1 * tok, 4 * tok, false, never}, // more than the bucket ever holds
		{200, 2 * tok, 1 * tok, true, 0},
		{300, 2 * tok, 1 * tok, true, 0},
		{400, 2 * tok, 1 * tok, true, 0},
		{400, 1 * tok, 1 * tok, true, 0},
		{400, 0, 1 * tok, false, 100},
		{900, 3 * tok, 3 * tok, true, 0}, // five earned, three kept
		{900, 0, 0, true, 0},
		{900, 0, 3 * tok, false, 300},
	})
}

// A minute's hundred tokens arrive as five millitokens every three milliseconds, on lines
// that are fixed to the epoch: their position between two refills does not matter.
func TestGridLinesAreFixed(t *testing.T) {
	t.Parallel()
	run(t, perMinute(100), 0, epoch2023, []step{
		{0, 0, 1, false, 1},
		{1, 2, 3, false, 1}, // a third of a line was open at the start
		{2, 3, 0, true, 0},
		{3, 5, 6, false, 1},
		{7, 12, 1 * tok, false, 593}, // 600 ms for the first token, however often a caller asks
		{599, 998, 1 * tok, false, 1},
		{600, 1 * tok, 1 * tok, true, 0},
	})
}

func TestDebtIsRepaidFirst(t *testing.T) {
	t.Parallel()
	run(t, perMinute(60), -5*tok, epoch2023, []step{
		{0, -5 * tok, 1 * tok, false, 6 * sec},
		{0, -5 * tok, 0, true, 0}, // a request for nothing is admitted, in debt too
		{4999, -1, 1, false, 2},
		{5000, 0, 1, false, 1},
		{6000, 1 * tok, 1 * tok, true, 0},
	})
}

func TestSurplusIsTrimmed(t *testing.T) {
	t.Parallel()
	run(t, perMinute(60), 90*tok, epoch2023, []step{
		{0, 60 * tok, 61 * tok, false, never},
		{0, 60 * tok, 60 * tok, true, 0},
		{0, 0, 60 * tok, false, 60 * sec},
	})
	run(t, perMinute(60), 90*tok, epoch2023, []step{
		{-10, 60 * tok, 60 * tok, true, 0}, // behind its stamp as well
	})
}

func TestClockRunsBack(t *testing.T) {
	t.Parallel()
	run(t, burst(perSecond(10), 3), 3*tok, epoch2023, []step{
		{100, 3 * tok, 1 * tok, true, 0},
		{0, 2 * tok, 1 * tok, true, 0}, // existing tokens can be taken
		{0, 1 * tok, 1 * tok, true, 0},
		{0, 0, 1 * tok, false, 200}, // back to the stamp, and the time of a token
		{100, 0, 1 * tok, false, 100},
		{200, 1 * tok, 1 * tok, true, 0}, // earned once, not twice
		{200, 0, 1 * tok, false, 100},
	})
}

func TestNoRefill(t *testing.T) {
	t.Parallel()
	run(t, bucket.Limit{Capacity: 3 * tok, Amount: 0, Period: sec}, 3*tok, epoch2023, []step{
		{0, 3 * tok, 2 * tok, true, 0},
		{day, 1 * tok, 2 * tok, false, never},
		{day, 1 * tok, 1 * tok, true, 0},
		{2 * day, 0, 0, true, 0},
	})
}

func TestOneADay(t *testing.T) {
	t.Parallel()
	midnight := int64(epoch2023 / day * day)
	run(t, perDay(1), 1*tok, midnight, []step{
		{0, 1 * tok, 1 * tok, true, 0},
		{1 * hour, 41, 1 * tok, false, 23 * hour},
		{day - 1, 999, 1 * tok, false, 1},
		{day, 1 * tok, 1 * tok, true, 0},
		{40 * day, 1 * tok, 1 * tok, true, 0},
		{40*day + 12*hour, 500, 1 * tok, false, 12 * hour},
	})
}

// A shard's share waits shards times as long for a token, and one request above
// what a share holds must be served by several.
func TestShare(t *testing.T) {
	t.Parallel()
	run(t, perSecond(100).Share(0, 8), 0, epoch2023, []step{
		{0, 0, 1 * tok, false, 80},
		{80, 1 * tok, 1 * tok, true, 0},
		{2 * sec, 12_500, 12_500, true, 0},
		{2 * sec, 0, 12_501, false, never},
	})
	run(t, perSecond(100).Share(7, 8), 0, epoch2023, []step{
		{79, 987, 1 * tok, false, 1},
		{80, 1 * tok, 1 * tok, true, 0},
	})
}

func TestShareCapacities(t *testing.T) {
	t.Parallel()
	whole := perMinute(10)
	for _, c := range []struct {
		shard, shards    int
		capacity, period int64
	}{
		{0, -1, 10_000, 60_000},
		{0, 0, 10_000, 60_000},
		{5, 1, 10_000, 60_000},
		{0, 2, 5000, 120_000},
		{1, 2, 5000, 120_000},
		{0, 3, 3334, 180_000},
		{1, 3, 3333, 180_000},
		{2, 3, 3333, 180_000},
		{0, 32, 313, 1_920_000},
		{15, 32, 313, 1_920_000},
		{16, 32, 312, 1_920_000},
		{31, 32, 312, 1_920_000},
	} {
		want := bucket.Limit{Capacity: c.capacity, Amount: whole.Amount, Period: c.period}
		if got := whole.Share(c.shard, c.shards); got != want {
			t.Errorf("share %d of %d is %+v, want %+v", c.shard, c.shards, got, want)
		}
	}
	if got := (bucket.Limit{Period: 1 << 62}).Share(1, 2).Period; got != 1<<63-1 {
		t.Errorf("a period too long to stretch became %d", got)
	}
}

// TestClampedRefillIsToldApart: a writer may replay an unclamped refill onto a changed
// balance, but a clamped refill only onto its own balance.
func TestClampedRefillIsToldApart(t *testing.T) {
	t.Parallel()
	l := perMinute(60)
	for _, c := range []struct {
		tokens, elapsed, delta int64
		clamped                bool
	}{
		{0, 0, 0, false},
		{0, 1000, 1000, false},
		{59_000, 1000, 1000, false}, // full to the brim, nothing lost
		{59_000, 1001, 1000, true},
		{60_000, 1, 0, true},
		{60_000, 0, 0, false},
		{60_001, 0, -1, true},
		{60_001, -5, -1, true},
		{60_001, 5, -1, true},
		{-9e18, 1000, 1000, false},
	} {
		delta, clamped := l.Refill(c.tokens, epoch2023, epoch2023+c.elapsed)
		if delta != c.delta || clamped != c.clamped {
			t.Errorf("%d after %d ms: %d, %t, want %d, %t",
				c.tokens, c.elapsed, delta, clamped, c.delta, c.clamped)
		}
	}
}

// TestSlowLimitBesideFast: one stamp serves every limit of an item, and a limit of ten a
// day keeps earning although another limit's refill moves the stamp every second.
func TestSlowLimitBesideFast(t *testing.T) {
	t.Parallel()
	slow := perDay(10)
	var tokens, at int64 = 0, epoch2023
	for range 400 {
		delta, _ := slow.Refill(tokens, at, at+sec)
		tokens, at = tokens+delta, at+sec
	}
	if want := int64(400 * sec * 10 * tok / day); tokens != want {
		t.Errorf("400 refills in 400 s made %d millitokens, want %d", tokens, want)
	}
}

// TestDemandGetsTheWholeRate: at ten a second, a request every 20 ms for 20 s gets 200 and
// the burst.
func TestDemandGetsTheWholeRate(t *testing.T) {
	t.Parallel()
	l := perSecond(10)
	var admitted int
	tokens, at := l.Capacity, int64(epoch2023)
	for now := at; now <= epoch2023+20*sec; now += 20 {
		delta, _ := l.Refill(tokens, at, now)
		tokens, at = tokens+delta, now
		for ; tokens >= tok; tokens -= tok {
			admitted++
		}
	}
	if admitted != 10+200 {
		t.Errorf("%d admitted, want 210", admitted)
	}
}

func TestArithmeticAllocatesNothing(t *testing.T) { // counts every goroutine's allocations
	l := perMinute(100).Share(1, 4)
	now := int64(epoch2023)
	var sink int64
	if n := testing.AllocsPerRun(100, func() {
		now++
		delta, _ := l.Refill(0, epoch2023, now)
		ms, _ := l.Wait(delta, epoch2023, now, 5*tok)
		sink += delta + ms + l.Room(delta, tok) + l.Earned(epoch2023, now)
	}); n != 0 {
		t.Errorf("%v allocations (%d)", n, sink)
	}
}
