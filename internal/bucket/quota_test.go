package bucket_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// calendars are of quotas: their edges move with clock changes, months, and each other.
var calendars = []struct{ spec, zone string }{
	{"day", "America/New_York"},
	{"day at 02:30", "America/New_York"},
	{"day", "Africa/Cairo"},
	{"day", "America/Havana"},
	{"day at 02:15", "Australia/Lord_Howe"},
	{"month from last day", "Europe/Berlin"},
	{"0 * * * *", "Pacific/Chatham"},
	{"*/7 9-17 * * 1-5", "Europe/Berlin"},
	{"week from monday; month", "Pacific/Apia"},
	{"0 0 29 2 *", "UTC"},
}

// A quota is one shard's part of a quota in its period and from the next one on.
type quota struct {
	bucket.Limit

	edges []int64 // of its calendar, of many periods, found one by one
}

// newQuota folds numbers into a quota, and lists edges.
func newQuota(t *testing.T, which uint8, capacity, renewed int64) quota {
	t.Helper()
	c := calendars[int(which)%len(calendars)]
	r, err := calendar.Parse(c.spec, c.zone)
	if err != nil {
		t.Fatal(err)
	}
	q := quota{Limit: bucket.Limit{Capacity: within(capacity, 1, maxMilli), Period: 1000, Renewal: r, Renewed: within(renewed, 0, maxMilli)}}
	fresh, err := calendar.Parse(c.spec+";"+c.spec, c.zone) // another object, so that no period is remembered for both
	if err != nil {
		t.Fatal(err)
	}
	const many = 40
	edge := int64(epoch2023)
	for range many / 2 {
		edge = fresh.Period(edge).Start - 1
	}
	for range many {
		edge = fresh.Period(edge).End
		q.edges = append(q.edges, edge)
	}
	return q
}

// walk is the naive oracle of the balance: it walks from one instant to the other, edge by edge.
func (q *quota) walk(tokens, at, now int64) int64 {
	tokens = min(tokens, q.Capacity)
	for _, edge := range q.edges {
		if at < edge && edge <= now {
			tokens = q.Renewed
		}
	}
	return tokens
}

// about returns an instant near an edge: exactly there, a millisecond away, or anywhere in the
// periods around it.
func (q *quota) about(n int64) int64 {
	k := uint64(n)
	edge := q.edges[10+k%20]
	switch k / 20 % 4 {
	case 0:
		return edge
	case 1:
		return edge - 1
	case 2:
		return edge + 1
	}
	next := q.edges[11+k%20]
	return edge + int64(k/80%uint64(next-edge))
}

// seedQuotas adds one entry of each calendar, with debts, surpluses, top-ups and smaller shares.
func seedQuotas(f *testing.F) {
	f.Helper()
	for i := range uint8(len(calendars)) {
		f.Add(i, int64(100_000), int64(100_000), int64(40_000), int64(1), int64(22), int64(50_000))
		f.Add(i, int64(100_000), int64(50_000), int64(-7_000_000), int64(60), int64(63), int64(60_000)) // a grant of twice the share
		f.Add(i, int64(120_000), int64(100_000), int64(120_000), int64(45), int64(45+20), int64(120_000))
		f.Add(i, int64(1000), int64(100_000), int64(5000), int64(80), int64(6), int64(2000)) // a clock behind
		f.Add(i, maxMilli, maxMilli, maxDebt, int64(77), int64(99), maxMilli)
		f.Add(i, int64(1000), int64(1000), int64(0), int64(23), int64(3), int64(1000))   // from just before an edge to it
		f.Add(i, int64(1000), int64(1000), int64(0), int64(23), int64(23), int64(1000))  // just before it
		f.Add(i, int64(1000), int64(500), int64(1000), int64(23), int64(3), int64(1000)) // what it held is gone at the edge
	}
}

// Law: a quota holds what the walk from edge to edge says, and its methods agree with each other.
func FuzzQuotaAgreesWithTheWalk(f *testing.F) {
	seedQuotas(f)
	f.Fuzz(func(t *testing.T, which uint8, capacity, renewed, tokens, from, to, need int64) {
		q := newQuota(t, which, capacity, renewed)
		tokens, need = validTokens(tokens), within(need, 0, maxMilli)
		at, now := q.about(from), q.about(to)

		want := q.walk(tokens, at, now)
		if got := q.Balance(tokens, at, now); got != want {
			t.Fatalf("%v: %d at %d is %d at %d, want %d", q.Renewal, tokens, at, got, now, want)
		}
		if got := q.Admits(tokens, at, now, need); got != (need <= 0 || want >= need) {
			t.Errorf("%v: %d is admitted: %t, of %d", q.Renewal, need, got, want)
		}
		delta, clamped := q.Refill(tokens, at, now)
		if tokens >= math.MinInt64+maxMilli && tokens+delta != want {
			t.Errorf("%v: %d is refilled by %d to another balance than %d", q.Renewal, tokens, delta, want)
		}
		switch earned := q.Earned(at, now); {
		case earned != 0 && earned != math.MaxInt64:
			t.Errorf("%v: it earns %d", q.Renewal, earned)
		case earned != 0 && !clamped:
			t.Errorf("%v: a renewal is right for the balance seen only", q.Renewal)
		case earned == 0 && delta > 0:
			t.Errorf("%v: it earns nothing and gets %d", q.Renewal, delta)
		}
	})
}

// Law: a quota admits a request after exactly the quoted wait, and refuses it a millisecond
// earlier; also if it is refilled and stamped on the way. Without a quoted wait it never admits it.
func FuzzQuotaWaitIsExact(f *testing.F) {
	seedQuotas(f)
	f.Fuzz(func(t *testing.T, which uint8, capacity, renewed, tokens, from, to, need int64) {
		q := newQuota(t, which, capacity, renewed)
		tokens, need = validTokens(tokens), within(need, 1, maxMilli)
		at, now := q.about(from), q.about(to)

		ms, ok := q.Wait(tokens, at, now, need)
		switch {
		case !ok:
			for _, edge := range q.edges {
				if edge >= now && q.walk(tokens, at, edge) >= need {
					t.Fatalf("%v: %d of %d never comes, but at %d", q.Renewal, need, tokens, edge)
				}
			}
			return
		case q.walk(tokens, at, now+ms) < need:
			t.Fatalf("%v: %d of %d at %d waits for %d ms, but is refused then", q.Renewal, need, tokens, at, ms)
		case ms == 0:
			return
		case q.walk(tokens, at, now+ms-1) >= need:
			t.Fatalf("%v: %d of %d at %d waits for %d ms, but is admitted before", q.Renewal, need, tokens, at, ms)
		}
		halfway := now + ms/2
		if rest, ok := q.Wait(q.Balance(tokens, at, halfway), max(at, halfway), halfway, need); !ok || rest != ms-ms/2 {
			t.Errorf("%v: of %d ms, %d remain after %d, %t", q.Renewal, ms, rest, ms/2, ok)
		}
	})
}

// Law: stamps on the way, at any instants and in any order, change nothing. A debt ends with its
// period, and so does a grant that is another one than the share.
func FuzzQuotaPathDoesNotMatter(f *testing.F) {
	for i := range uint8(len(calendars)) {
		f.Add(i, int64(100_000), int64(50_000), int64(90_000), []byte("at whatever instants it is stamped"))
		f.Add(i, int64(100_000), int64(100_000), int64(-90_000), []byte{21, 22, 61, 0, 1, 2, 3, 4, 20, 250, 19, 18})
	}
	f.Fuzz(func(t *testing.T, which uint8, capacity, renewed, tokens int64, script []byte) {
		q := newQuota(t, which, capacity, renewed)
		tokens, at := min(validTokens(tokens), q.Capacity), q.about(within(int64(len(script)), 0, 1<<40))
		start, first, whole := tokens, at, q
		for _, b := range script {
			now := q.about(int64(b) * 7919)
			if q.Earned(at, now) > 0 {
				tokens, q.Capacity = q.Balance(tokens, at, now), q.Renewed // a grant ends with its period
			} else {
				tokens = q.Balance(tokens, at, now)
			}
			if at = max(at, now); tokens != whole.walk(start, first, at) {
				t.Fatalf("%v: %d at %d became %d at %d by steps, %d at once", q.Renewal, start, first, tokens, at, whole.walk(start, first, at))
			}
		}
	})
}

// Law: the shares of a quota sum to it, before and after it renews, and share i of n is that of
// i and i+n of 2n together.
func FuzzQuotaSharesSumToTheQuota(f *testing.F) {
	for i := range uint8(len(calendars)) {
		f.Add(i, int64(100_003), int64(99_999), uint8(7))
	}
	f.Fuzz(func(t *testing.T, which uint8, capacity, renewed int64, shards uint8) {
		q, n := newQuota(t, which, capacity, renewed), int(within(int64(shards), 1, 32))
		held, full := num(0), num(0)
		for i := range n {
			part, low, high := q.Share(i, n), q.Share(i, 2*n), q.Share(i+n, 2*n)
			if part.Renewal != q.Renewal || low.Capacity+high.Capacity != part.Capacity || low.Renewed+high.Renewed != part.Renewed {
				t.Errorf("share %d of %d is %+v, and its halves %+v, %+v", i, n, part, low, high)
			}
			held, full = add(held, num(part.Capacity)), add(full, num(part.Renewed))
		}
		if held.Cmp(num(q.Capacity)) != 0 || full.Cmp(num(q.Renewed)) != 0 {
			t.Errorf("%d shares hold %d of %d, and %d of %d from the edge on", n, held, q.Capacity, full, q.Renewed)
		}
	})
}
