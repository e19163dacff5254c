package bucket_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// extremes are corner cases for every corpus: a limit, a balance, its stamp, an instant and
// an amount.
var extremes = [][7]int64{
	// capacity, amount, period, tokens, at, now, need
	{100_000, 100_000, 60_000, 0, epoch2023, epoch2023 + 7, 1000},
	{100_000, 100_000, 60_000, 150_000, epoch2023, epoch2023 - 5, 1000}, // surplus, clock behind
	{100_000, 100_000, 60_000, 100_000, epoch2023, epoch2023, 100_000},  // full
	{10_000, 0, 1000, 12_000, epoch2023, epoch2023 + 86_400_000, 1000},  // earns nothing
	{1000, 1000, 86_400_000, 0, epoch2023, epoch2023, 1000},             // one a day
	{1000, 1, maxPeriod, -1, 0, maxNow, 1000},                           // slowest
	{1, 1, 1, 0, 0, 1, 1}, // smallest
	{maxMilli, maxMilli, 1, maxDebt, 0, maxNow, maxMilli},         // largest, fastest
	{maxMilli, maxMilli, maxPeriod, maxDebt, 0, maxNow, maxMilli}, // largest, slowest
	{maxMilli, 3, 7, maxDebt, maxNow, 0, maxMilli},                // clock two centuries behind
	{maxMilli, maxMilli - 1, maxPeriod - 1, maxMilli, maxNow - 1, maxNow, maxMilli},
	{maxMilli, 1, maxPeriod, maxDebt, epoch2023, epoch2023, 1}, // beyond any int64 of ms
	{1000, 1000, 1000, 0, -1, 1, 1000},                         // across the epoch
	{1000, 7, 1000, 0, -maxNow, -maxNow + 999, 1},
	{1000, 7, 1000, 0, -1, 0, 1},
	{1000, -7, 1000, 0, 0, 1000, 1},
	{1000, 7, -1000, 0, 0, 1000, 1},
	{1000, 7, 0, 0, 0, 1000, 1},
	// Products about 2^64: the low word carries, then borrows.
	{1000, 1e9, 1<<32 + 1, 1 - (1<<32 - 1), 0, 0, 1},
	{1000, 1000, 1 << 32, 1 - 1<<32, 1, 1, 1},
	// A wait that would end after the last instant, and one as long as the whole range.
	{1000, 1, 1000, 0, math.MaxInt64 - 5, math.MaxInt64 - 5, 1000},
	{1000, 1000, 1000, 0, 0, math.MinInt64, 1000},
	{0, 0, 0, 0, 0, 0, 0},
	{-1, -1, -1, -1, -1, -1, -1},
	{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
	{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64},
	{math.MaxInt64, math.MaxInt64, 1, math.MinInt64, math.MinInt64, math.MaxInt64, math.MaxInt64},
	{math.MaxInt64, 1, math.MaxInt64, math.MinInt64, math.MinInt64, math.MaxInt64, math.MaxInt64},
	{math.MaxInt64, math.MaxInt64, 1, 0, math.MinInt64, math.MinInt64, 1},
	{math.MinInt64, 1, 1, math.MaxInt64, 0, 1, 0},
}

// seed adds the extremes, as seven int64, to a corpus.
func seed(f *testing.F) {
	f.Helper()
	for _, e := range extremes {
		f.Add(e[0], e[1], e[2], e[3], e[4], e[5], e[6])
	}
}

// Law: for all int64 values, every method gives the result of unbounded numbers, brought
// within an int64 as its comment says, and none panics.
func FuzzAgreesWithUnboundedNumbers(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, capacity, amount, period, tokens, at, now, need int64) {
		l := bucket.Limit{Capacity: capacity, Amount: amount, Period: period}

		if got, want := l.Earned(at, now), saturated(trueEarned(l, at, now)); got != want {
			t.Errorf("%+v.Earned(%d, %d) = %d, want %d", l, at, now, got, want)
		}

		balance := trueBalance(l, tokens, at, now)
		if got, want := l.Balance(tokens, at, now), balance.Int64(); got != want {
			t.Errorf("%+v.Balance(%d, %d, %d) = %d, want %d", l, tokens, at, now, got, want)
		}

		change := sub(balance, num(tokens))
		clamped := change.Cmp(trueEarned(l, at, now)) != 0 || !change.IsInt64()
		delta, gotClamped := l.Refill(tokens, at, now)
		if want := saturated(change); delta != want || gotClamped != clamped {
			t.Errorf("%+v.Refill(%d, %d, %d) = %d, %t, want %d, %t",
				l, tokens, at, now, delta, gotClamped, want, clamped)
		}

		ms, ok := l.Wait(tokens, at, now, need)
		wantMS, wantOK := trueWait(l, tokens, at, now, need)
		if ok != wantOK || ok && ms != wantMS || !ok && ms != 0 {
			t.Errorf("%+v.Wait(%d, %d, %d, %d) = %d, %t, want %d, %t",
				l, tokens, at, now, need, ms, ok, wantMS, wantOK)
		}

		admits := need <= 0 || balance.Cmp(num(need)) >= 0
		if got := l.Admits(tokens, at, now, need); got != admits {
			t.Errorf("%+v.Admits(%d, %d, %d, %d) = %t, want %t", l, tokens, at, now, need, got, admits)
		}

		room := num(0)
		if need > 0 && tokens < capacity {
			room = least(num(need), sub(num(capacity), num(tokens)))
		}
		if got := l.Room(tokens, need); got != room.Int64() {
			t.Errorf("%+v.Room(%d, %d) = %d, want %d", l, tokens, need, got, room)
		}
	})
}

// Law: the refills on the way may come at any instants, in whatever order a wrong clock
// gives them. In the end the bucket has earned, and holds, as much as after one refill
// at the latest instant. The stamp may move as often as other limits need.
func FuzzPathDoesNotMatter(f *testing.F) {
	steps := []byte{1, 0, 0, 7, 0, 0, 0xff, 0xff, 0xff, 59, 0, 0, 60, 0, 0, 0, 0x80, 0x7f, 3, 1, 4}
	for _, e := range extremes {
		f.Add(e[0], e[1], e[2], e[3], e[4], uint8(0), steps)
		f.Add(e[0], e[1], e[2], e[3], e[4], uint8(16), steps)
	}
	f.Fuzz(func(t *testing.T, capacity, amount, period, tokens, at int64, scale uint8, steps []byte) {
		l := validLimit(capacity, amount, period)
		tokens, at = min(validTokens(tokens), l.Capacity), within(at, 0, maxNow)
		start, first, now := tokens, at, at
		earned := num(0)
		for ; len(steps) >= 3; steps = steps[3:] {
			// Three bytes, the last with the sign, are a step of either direction.
			step := int64(int8(steps[2]))<<16 | int64(steps[1])<<8 | int64(steps[0])
			now = within(now+step<<(scale%20), 0, maxNow)
			earned = add(earned, num(l.Earned(at, now)))
			tokens, at = l.Balance(tokens, at, now), max(at, now)
		}
		if want := trueEarned(l, first, at); want.IsInt64() && earned.Cmp(want) != 0 {
			t.Errorf("%+v earned %d from %d to %d by steps, %d at once", l, earned, first, at, want)
		}
		if want := l.Balance(start, first, at); tokens != want {
			t.Errorf("%+v: %d at %d became %d at %d by steps, %d at once", l, start, first, tokens, at, want)
		}
	})
}

// Law: a request is admitted after exactly the quoted wait and refused a millisecond
// earlier. A request without a quoted wait is always refused. The same holds if the bucket
// is refilled and stamped at any instant on the way.
func FuzzWaitIsExact(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, capacity, amount, period, tokens, at, now, need int64) {
		l := validLimit(capacity, amount, period)
		tokens, at, now = validTokens(tokens), within(at, 0, maxNow), within(now, 0, maxNow)
		need = within(need, 0, maxMilli)

		ms, ok := l.Wait(tokens, at, now, need)
		if !ok {
			if ms != 0 || l.Admits(tokens, at, math.MaxInt64, need) {
				t.Fatalf("%+v.Wait(%d, %d, %d, %d) = %d, false, and yet it is admitted one day",
					l, tokens, at, now, need, ms)
			}
			return
		}
		if ms < 0 || ms > math.MaxInt64-now {
			t.Fatalf("%+v.Wait(%d, %d, %d, %d) = %d, which is no wait", l, tokens, at, now, need, ms)
		}
		if !l.Admits(tokens, at, now+ms, need) {
			t.Errorf("%+v.Wait(%d, %d, %d, %d) = %d, but it is refused then", l, tokens, at, now, need, ms)
		}
		if ms == 0 {
			return
		}
		if l.Admits(tokens, at, now+ms-1, need) {
			t.Errorf("%+v.Wait(%d, %d, %d, %d) = %d, but it is admitted 1 ms earlier", l, tokens, at, now, need, ms)
		}
		halfway := now + ms/2
		rest, ok := l.Wait(l.Balance(tokens, at, halfway), max(at, halfway), halfway, need)
		if !ok || rest != ms-ms/2 {
			t.Errorf("%+v.Wait(%d, %d, %d, %d) = %d, but %d ms later it is %d, %t",
				l, tokens, at, now, need, ms, ms/2, rest, ok)
		}
	})
}

// Law: a balance never falls with time. More tokens never give a lower balance or a longer
// wait, and a larger need never gives a shorter wait.
func FuzzMonotone(f *testing.F) {
	for _, e := range extremes {
		f.Add(e[0], e[1], e[2], e[3], e[4], e[5], e[6], uint64(1), uint64(1))
		f.Add(e[0], e[1], e[2], e[3], e[4], e[5], e[6], uint64(59), uint64(1e15))
	}
	f.Fuzz(func(t *testing.T, capacity, amount, period, tokens, at, now, need int64, later, more uint64) {
		l := validLimit(capacity, amount, period)
		tokens, at, now = validTokens(tokens), within(at, 0, maxNow), within(now, 0, maxNow)
		need = within(need, 0, maxMilli)
		dt, dn := int64(later%uint64(maxNow)), int64(more%uint64(maxMilli))

		balance := l.Balance(tokens, at, now)
		if got := l.Balance(tokens, at, now+dt); got < balance {
			t.Errorf("%+v: %d at %d is %d at %d, but %d at %d", l, tokens, at, balance, now, got, now+dt)
		}
		if got := l.Balance(tokens+dn, at, now); got < balance {
			t.Errorf("%+v: %d at %d is %d at %d, but %d is %d", l, tokens, at, balance, now, tokens+dn, got)
		}
		ms, ok := l.Wait(tokens, at, now, need)
		if !ok {
			if _, ok := l.Wait(tokens, at, now, need+dn); ok && need+dn <= maxMilli {
				t.Errorf("%+v: %d at %d never covers %d, but covers %d", l, tokens, at, need, need+dn)
			}
			return
		}
		if got, ok := l.Wait(tokens+dn, at, now, need); !ok || got > ms {
			t.Errorf("%+v: waiting %d ms with %d, but %d, %t with %d", l, ms, tokens, got, ok, tokens+dn)
		}
		if got, ok := l.Wait(tokens, at, now, need+dn); ok && got < ms {
			t.Errorf("%+v: waiting %d ms for %d, but %d for %d", l, ms, need, got, need+dn)
		}
		if got, ok := l.Wait(tokens, at, now+dt, need); !ok || got != max(0, ms-dt) {
			t.Errorf("%+v: waiting %d ms at %d, but %d, %t at %d", l, ms, now, got, ok, now+dt)
		}
	})
}

// Law: the shares' capacities sum to the limit's, no two but shard 0's differ,
// and it holds less than shards more. Since the epoch the shares together have
// never earned more than the whole, nor shards millitokens less; over any
// interval they differ from it by less than that, to either side.
func FuzzSharesSumToTheLimit(f *testing.F) {
	for _, e := range extremes {
		f.Add(e[0], e[1], e[2], e[4], e[5], uint8(3))
		f.Add(e[0], e[1], e[2], e[4], e[5], uint8(32))
	}
	f.Fuzz(func(t *testing.T, capacity, amount, period, from, to int64, shards uint8) {
		n := within(int64(shards), 1, 32)
		l := validLimit(capacity, amount, within(period, 1, maxPeriod/32))
		from, to = within(from, 0, maxNow), within(to, 0, maxNow)

		held, earned, ever := num(0), num(0), num(0)
		for i := range int(n) {
			share := l.Share(i, int(n))
			if halves := l.Share(i, int(2*n)).Capacity + l.Share(i+int(n), int(2*n)).Capacity; halves != share.Capacity {
				t.Errorf("%+v: share %d of %d holds %d, its halves %d", l, i, n, share.Capacity, halves)
			}
			held = add(held, num(share.Capacity))
			earned = add(earned, trueEarned(share, from, to))
			ever = add(ever, trueEarned(share, 0, to))
			if want := saturated(trueEarned(share, from, to)); share.Earned(from, to) != want {
				t.Errorf("%+v.Earned(%d, %d) = %d, want %d", share, from, to, share.Earned(from, to), want)
			}
		}
		if held.Cmp(num(l.Capacity)) != 0 {
			t.Errorf("%+v: %d shares hold %d", l, n, held)
		}
		short := sub(trueEarned(l, 0, to), ever)
		if short.Sign() < 0 || short.Cmp(num(n)) >= 0 {
			t.Errorf("%+v: since the epoch %d shares earned %d less than the whole", l, n, short)
		}
		short = sub(trueEarned(l, from, to), earned)
		if short.CmpAbs(num(n)) >= 0 {
			t.Errorf("%+v: from %d to %d %d shares earned %d less than the whole", l, from, to, n, short)
		}
	})
}

// Law: a clock at or behind the stamp earns nothing and changes nothing, except that it
// drops a surplus. The quoted wait counts from the clock's own instant.
func FuzzClockBehindEarnsNothing(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, capacity, amount, period, tokens, at, behind, need int64) {
		l := validLimit(capacity, amount, period)
		tokens, at = validTokens(tokens), within(at, 0, maxNow)
		behind = within(behind, 0, maxNow)
		need = within(need, 0, maxMilli)
		now := at - behind

		if got := l.Earned(at, now); got != 0 {
			t.Errorf("%+v.Earned(%d, %d) = %d", l, at, now, got)
		}
		surplus := tokens - min(tokens, l.Capacity)
		if delta, clamped := l.Refill(tokens, at, now); delta != -surplus || clamped != (surplus > 0) {
			t.Errorf("%+v.Refill(%d, %d, %d) = %d, %t", l, tokens, at, now, delta, clamped)
		}
		then, thenOK := l.Wait(tokens, at, at, need)
		if then > 0 {
			then += behind
		}
		if ms, ok := l.Wait(tokens, at, now, need); ok != thenOK || ms != then {
			t.Errorf("%+v.Wait(%d, %d, %d, %d) = %d, %t, want %d, %t", l, tokens, at, now, need, ms, ok, then, thenOK)
		}
	})
}

// Law: a credit's room is from nothing to all of it, never lifts a balance
// above capacity, and fills it when the credit is larger.
func FuzzRoomStopsAtCapacity(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, capacity, amount, period, tokens, _, _, credit int64) {
		l := validLimit(capacity, amount, period)
		tokens = validTokens(tokens)
		room := l.Room(tokens, credit)
		if room < 0 || room > max(0, credit) {
			t.Fatalf("%+v.Room(%d, %d) = %d", l, tokens, credit, room)
		}
		after := tokens + room // cannot overflow: within 0..credit, and up only to Capacity
		if after > max(tokens, l.Capacity) {
			t.Errorf("%+v.Room(%d, %d) = %d lifts it above capacity", l, tokens, credit, room)
		}
		if room < credit && after < l.Capacity {
			t.Errorf("%+v.Room(%d, %d) = %d leaves some", l, tokens, credit, room)
		}
	})
}

// Law: over any interval, the amount earned is within a millitoken of the exact rate times
// the time.
func FuzzRateIsExact(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, capacity, amount, period, _, from, to, _ int64) {
		l := validLimit(capacity, amount, period)
		from, to = within(from, 0, maxNow), within(to, 0, maxNow)
		from, to = min(from, to), max(from, to)
		earned := l.Earned(from, to)
		if earned == math.MaxInt64 {
			return
		}
		off := sub(mul(num(earned), num(l.Period)), mul(num(to-from), num(l.Amount)))
		if off.CmpAbs(num(l.Period)) >= 0 {
			t.Errorf("%+v.Earned(%d, %d) = %d, off by %d/%d of a millitoken", l, from, to, earned, off, l.Period)
		}
	})
}

// Law: under any sequence of requests, what was admitted never exceeds what the
// bucket held plus what it earned; balance, wait and admission agree at every
// step; and if no refill was clamped, not a millitoken is lost.
func FuzzTakesNeverExceedWhatWasEarned(f *testing.F) {
	f.Add(int64(100_000), int64(100_000), int64(60_000), int64(epoch2023), []byte("take as you please, it adds up"))
	f.Add(int64(10_000), int64(10_000), int64(86_400_000), int64(epoch2023), []byte{0, 255, 255, 0, 255, 255, 1, 1})
	f.Add(maxMilli, maxMilli, int64(1), int64(0), []byte{200, 1, 200, 2, 200, 3})
	f.Fuzz(func(t *testing.T, capacity, amount, period, start int64, script []byte) {
		l := validLimit(capacity, amount, period)
		now := within(start, 0, maxNow)
		first, tokens, at := now, l.Capacity, now
		taken, lossless := num(0), true
		for ; len(script) >= 2; script = script[2:] {
			now += int64(script[0]) * int64(script[0])
			need := l.Capacity / 256 * int64(script[1])
			delta, clamped := l.Refill(tokens, at, now)
			ms, ok := l.Wait(tokens, at, now, need)
			if admits := l.Admits(tokens, at, now, need); admits != (ok && ms == 0) || admits != (tokens+delta >= need) {
				t.Fatalf("%+v at %d with %d at %d: refilled by %d, waiting %d, %t for %d, admitted: %t",
					l, now, tokens, at, delta, ms, ok, need, admits)
			}
			tokens, at = tokens+delta, now
			lossless = lossless && !clamped
			if tokens > l.Capacity {
				t.Fatalf("%+v holds %d", l, tokens)
			}
			if tokens >= need {
				tokens -= need
				taken = add(taken, num(need))
			}
		}
		spent := add(taken, num(tokens))
		given := add(num(l.Capacity), trueEarned(l, first, at))
		if c := spent.Cmp(given); c > 0 || c < 0 && lossless {
			t.Errorf("%+v: taken and left %d, held and earned %d, nothing clamped: %t", l, spent, given, lossless)
		}
	})
}
