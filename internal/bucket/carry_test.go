package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// walkCarrying is the naive oracle of a quota that carries: it walks from one instant to another,
// from one end of a period to the next, and returns the most that the quota then holds, too.
func (q *quota) walkCarrying(tokens, at, now int64) (balance, most int64) {
	tokens, most = min(tokens, q.Capacity), q.Capacity
	for _, edge := range q.edges {
		if at < edge && edge <= now {
			if tokens < 0 && !q.CarriesDebt {
				tokens = 0
			}
			tokens = q.Renewed + min(tokens, q.Rollover)
			most = max(tokens, q.Renewed)
		}
	}
	return tokens, most
}

// newCarrying folds numbers into a quota that carries.
func newCarrying(t *testing.T, which uint8, capacity, renewed, rollover int64, debt bool) quota {
	t.Helper()
	q := newQuota(t, which, capacity, renewed)
	q.Renewed = max(q.Renewed, 1)
	q.Rollover, q.CarriesDebt = within(rollover, 0, maxMilli), debt
	return q
}

func seedCarrying(f *testing.F) {
	f.Helper()
	for i := range uint8(len(calendars)) {
		for _, debt := range []bool{false, true} {
			f.Add(i, int64(100_000), int64(100_000), int64(20_000), debt, int64(40_000), int64(1), int64(22), int64(110_000))
			f.Add(i, int64(100_000), int64(100_000), int64(350_000), debt, int64(40_000), int64(1), int64(3), int64(410_000))
			f.Add(i, int64(100_000), int64(50_000), int64(0), debt, int64(-270_000), int64(60), int64(61), int64(20_000))
			f.Add(i, int64(300_000), int64(100_000), int64(100_000), debt, int64(300_000), int64(23), int64(3), int64(150_000)) // topped up
			f.Add(i, int64(1000), int64(100_000), int64(1), debt, int64(5000), int64(80), int64(6), int64(2000))                // a clock behind
			f.Add(i, maxMilli, maxMilli, maxMilli, debt, maxDebt, int64(77), int64(99), maxMilli)
		}
	}
}

// Law: a quota that carries holds what the walk from end to end of a period says; and it admits a
// request after exactly the quoted wait, which may span several of them.
func FuzzCarryingAgreesWithTheWalk(f *testing.F) {
	seedCarrying(f)
	f.Fuzz(func(t *testing.T, which uint8, capacity, renewed, rollover int64, debt bool, tokens, from, to, need int64) {
		q := newCarrying(t, which, capacity, renewed, rollover, debt)
		tokens, need = validTokens(tokens), within(need, 1, maxMilli)
		at, now := q.about(from), q.about(to)
		want, most := q.walkCarrying(tokens, at, now)
		is, got := q.Advanced(tokens, at, now)
		if got != want || is.Capacity != most {
			t.Fatalf("%+v: %d at %d is %d of %d at %d, want %d of %d", q.Limit, tokens, at, got, is.Capacity, now, want, most)
		}
		if balance := q.Balance(tokens, at, now); balance != want {
			t.Fatalf("%+v: %d at %d is %d at %d, want %d", q.Limit, tokens, at, balance, now, want)
		}
		ms, ok := q.Wait(tokens, at, now, need)
		last := q.edges[len(q.edges)-1]
		switch held := func(at2 int64) int64 { b, _ := q.walkCarrying(tokens, at, at2); return b }; {
		case !ok:
			if want >= need || held(last) >= need {
				t.Fatalf("%+v: %d never comes", q.Limit, need)
			}
		case ms > 0 && need > q.Renewed+q.Rollover:
			t.Fatalf("%+v: %d, more than it ever holds, waits for %d ms", q.Limit, need, ms)
		case now+ms > last: // beyond what the oracle knows
			if held(last) >= need {
				t.Fatalf("%+v: %d of %d waits %d ms from %d beyond %d", q.Limit, need, tokens, ms, now, last)
			}
		case held(now+ms) < need:
			t.Fatalf("%+v: %d of %d at %d waits for %d ms, but is refused then", q.Limit, need, tokens, at, ms)
		case ms > 0 && held(now+ms-1) >= need:
			t.Fatalf("%+v: %d of %d at %d waits for %d ms, but is admitted before", q.Limit, need, tokens, at, ms)
		}
	})
}

// Law: stamps on the way change nothing: neither how many ends of periods a refill passes at once,
// nor in what order.
func FuzzCarryingPathDoesNotMatter(f *testing.F) {
	for i := range uint8(len(calendars)) {
		f.Add(i, int64(50_000), int64(70_000), true, int64(-310_000), []byte("at whatever instants it is stamped"))
		f.Add(i, int64(50_000), int64(120_000), false, int64(40_000), []byte{21, 22, 61, 0, 1, 2, 3, 4, 20, 250, 19, 18})
	}
	f.Fuzz(func(t *testing.T, which uint8, renewed, rollover int64, debt bool, tokens int64, script []byte) {
		q := newCarrying(t, which, renewed, renewed, rollover, debt)
		at := q.about(within(int64(len(script)), 0, 1<<40))
		start, first, whole := validTokens(tokens), at, q
		is, held := q.Limit, start
		for _, b := range script {
			now := q.about(int64(b) * 7919)
			is, held = is.Advanced(held, at, now)
			at = max(at, now)
			if want, _ := whole.walkCarrying(start, first, at); held != want {
				t.Fatalf("%+v: %d at %d became %d at %d by steps, %d at once", q.Limit, start, first, held, at, want)
			}
		}
	})
}

// A count of periods ends. The bucket then has less than it would have, never more.
func TestVeryManyPeriodsAreCountedInPart(t *testing.T) {
	t.Parallel()
	q := newCarrying(t, 6, 1000, 1000, 0, true) // every hour
	q.Rollover = 0
	const hour, debt = 3_600_000, 3 * bucket.MostPieces * 1000
	at := q.edges[0]
	if got, most := q.Balance(-debt, at, at+2*bucket.MostPieces*hour), int64(-debt+2*bucket.MostPieces*1000); got > most || got < most-(bucket.MostPieces+1)*1000 {
		t.Errorf("it has %d, at most %d", got, most)
	}
	if ms, ok := q.Wait(-debt, at, at, 1); !ok || ms <= 0 || ms > 3*bucket.MostPieces*hour {
		t.Errorf("it waits for %d ms, %v", ms, ok)
	}
	shares := int64(0)
	q.Rollover = 1003
	for i := range 8 {
		shares += q.Share(i, 8).Rollover
	}
	if shares != q.Rollover {
		t.Errorf("the shares may carry %d of %d", shares, q.Rollover)
	}
}
