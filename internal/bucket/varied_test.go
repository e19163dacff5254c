package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// factors are schedules of quotas: they change within periods, at their ends, and beside both.
var factors = []struct{ words, zone string }{
	{"* 9-16 * * mon-fri x0.5", "Europe/Berlin"},
	{"* * * * sat,sun x0.2; * 22-23,0-5 * * * x3", "America/New_York"},
	{"* 0-11 * * * capacity=3; * 12-23 * * * x0.001", "Africa/Cairo"}, // never the base
	{"until 2023-11-16T12:00:00Z x2", "UTC"},
	{"* * * * * x0.7", "UTC"}, // always
}

// A varied is one shard's part of a quota that varies, and the instants at which it may change.
type varied struct {
	bucket.Limit

	fresh  *calendar.Renewal
	events []int64 // ends of periods and changes, in order
}

// newVaried folds numbers into a quota of a schedule.
func newVaried(t *testing.T, which uint8, tokens int64, shard uint8, inStep bool) *varied {
	t.Helper()
	of := factors[int(which)%len(factors)]
	words := []string{"day", "0 */6 * * *", "week from monday", "session 7h"}[int(which)/len(factors)%4]
	zone := of.zone
	if words == "session 7h" {
		zone = ""
	}
	s, err := calendar.ParseSchedule(of.words, of.zone)
	if err != nil {
		t.Fatal(err)
	}
	r, err := calendar.Parse(words, zone)
	if err != nil {
		t.Fatal(err)
	}
	n := 1 << (shard % 4)
	base := bucket.Params{Capacity: within(tokens, 1, 1_000_000) * 1000, Period: 1000}
	v := &varied{Limit: bucket.VaryingQuota(r, s, base, epoch2023).Share(int(shard)%n, n), fresh: r}
	v.InStep = inStep
	if r.Session() != 0 {
		v.Opened = epoch2023 + 3*hour
	}
	for at := int64(epoch2023); len(v.events) < 120; {
		next := s.Piece(at).End
		if r.Session() == 0 {
			next = min(next, r.Next(at))
		} else if v.Opened+r.Session() > at {
			next = min(next, v.Opened+r.Session())
		}
		if next > epoch2023+60*day {
			break
		}
		at = next
		v.events = append(v.events, at)
	}
	return v
}

// amount is the shard's part of the amount in force at an instant, worked out from the entries.
func (v *varied) amount(t int64) int64 {
	is, _ := v.Varies.At(t, v.Base)
	return bucket.Limit{Capacity: is.Capacity}.Share(int(v.Shard), int(v.Shards)).Capacity
}

// ends reports whether a period ends at an instant.
func (v *varied) ends(t int64) bool {
	if v.fresh.Session() != 0 {
		return t >= v.Opened+v.fresh.Session()
	}
	return v.fresh.Period(t).Start == t
}

// walk is the naive oracle of the balance: from event to event, it gives or takes the difference of
// the amounts, or only cuts, and begins periods.
func (v *varied) walk(tokens, at, now int64) int64 {
	inStep, more := v.InStep, v.TopUp
	if v.fresh.Session() != 0 && v.ends(now) {
		return v.amount(max(at, now)) // the next one begins with its use
	}
	tokens = min(tokens, v.amount(at)+more)
	for _, t := range v.events {
		if t <= at || t > now {
			continue
		}
		switch {
		case v.ends(t):
			tokens, inStep, more = v.amount(t), true, 0
		case inStep:
			tokens += v.amount(t) - v.amount(t-1)
		case t == v.lastUpTo(now) || v.ends(t):
			tokens = min(tokens, v.amount(t)+more)
		}
	}
	return min(tokens, v.amount(max(at, now))+more)
}

// lastUpTo is the last event up to an instant: one that is out of step is cut to what is in force
// then, and not on the way.
func (v *varied) lastUpTo(now int64) (last int64) {
	for _, t := range v.events {
		if t <= now {
			last = t
		}
	}
	return last
}

// about is an instant near an event, or anywhere.
func (v *varied) about(n int64) int64 {
	k := uint64(n)
	const near = 3
	if k%2 == 0 || len(v.events) == 0 {
		return epoch2023 + int64(k/2%uint64(20*day))
	}
	return v.events[k/2%uint64(min(len(v.events), 40))] + int64(k/100%near) - 1
}

func seedVaried(f *testing.F) {
	f.Helper()
	for which := range uint8(4 * len(factors)) {
		for _, inStep := range []bool{true, false} {
			f.Add(which, int64(100), uint8(0), inStep, int64(0), int64(40_000), int64(1), int64(9), int64(60_000))
			f.Add(which, int64(100), uint8(7), inStep, int64(5000), int64(-40_000), int64(3), int64(107), int64(1000)) // a debt, topped up, of a share
			f.Add(which, int64(1000), uint8(2), inStep, int64(0), int64(900_000), int64(8), int64(2_000_000_000), int64(900_000))
			f.Add(which, int64(10), uint8(0), inStep, int64(0), int64(0), int64(211), int64(5), int64(30_000)) // a clock behind
		}
	}
}

// Law: a quota that varies holds what the walk from event to event says.
func FuzzVariedAgreesWithTheWalk(f *testing.F) {
	seedVaried(f)
	f.Fuzz(func(t *testing.T, which uint8, amount int64, shard uint8, inStep bool, topUp, tokens, from, to, _ int64) {
		v := newVaried(t, which, amount, shard, inStep)
		v.TopUp = within(topUp, 0, maxMilli)
		tokens = within(tokens, -maxMilli, maxMilli)
		at, now := v.about(from), v.about(to)
		want := v.walk(tokens, at, now)
		if got := v.Balance(tokens, at, now); got != want {
			t.Fatalf("%v, %v: %d at %d is %d at %d, want %d", v.Renewal, v.Varies, tokens, at, got, now, want)
		}
		is, held := v.Advanced(tokens, at, now)
		if later := max(at, now); held != want || is.Balance(held, later, now) != held || held > is.Capacity {
			t.Errorf("%v, %v: it has %d of %d at %d, want %d", v.Renewal, v.Varies, held, is.Capacity, now, want)
		}
		if delta, clamped := v.Refill(tokens, at, now); !clamped && tokens+delta != want {
			t.Errorf("%v, %v: a change of %d to %d is right for no balance but %d", v.Renewal, v.Varies, delta, want, tokens)
		}
	})
}

// Law: a quota that varies admits a request after exactly the quoted wait, and refuses it a
// millisecond earlier.
func FuzzVariedWaitIsExact(f *testing.F) {
	seedVaried(f)
	f.Fuzz(func(t *testing.T, which uint8, amount int64, shard uint8, inStep bool, topUp, tokens, from, to, need int64) {
		v := newVaried(t, which, amount, shard, inStep)
		v.TopUp = within(topUp, 0, 1_000_000)
		tokens, need = within(tokens, -maxMilli, maxMilli), within(need, 1, 4*v.Base.Capacity)
		at, now := v.about(from), v.about(to)
		ms, ok := v.Wait(tokens, at, now, need)
		last := int64(0)
		if len(v.events) > 0 {
			last = v.events[len(v.events)-1]
		}
		first := int64(-1)
		if v.walk(tokens, at, now) >= need {
			first = now
		}
		for _, e := range v.events {
			if first < 0 && e > max(at, now) && v.walk(tokens, at, e) >= need {
				first = e
			}
		}
		switch {
		case first < 0 && ok && now+ms <= last:
			t.Fatalf("%v, %v: %d waits for %d ms from %d, and never comes", v.Renewal, v.Varies, need, ms, now)
		case first >= 0 && (!ok || now+ms != first):
			t.Fatalf("%v, %v: %d of %d at %d waits for %d ms, %t, from %d, and comes at %d", v.Renewal, v.Varies, need, tokens, at, ms, ok, now, first)
		}
	})
}

// A quota that is out of step holds its balance again once a lower amount has ended, unless a write has cut it
// meanwhile. So the wait ends there, and not with the period.
func TestAQuotaOutOfStepWaitsForAHigherAmount(t *testing.T) {
	t.Parallel()
	const weekly, holds, needs = 10, 80_000, 60_000
	v := newVaried(t, weekly, 100, 0, false) // 100 a week, 50 at work
	checked := 0
	for i, e := range v.events[:60] {
		next := v.events[i+1]
		if v.amount(e) >= v.amount(e-1) || v.ends(next) {
			continue
		}
		checked++
		if ms, ok := v.Wait(holds, e-1, e, needs); !ok || e+ms != next {
			t.Errorf("from %d: it waits until %d, %t, want %d", e, e+ms, ok, next)
		}
	}
	if checked == 0 {
		t.Error("no amount falls")
	}
}

// Law: stamps on the way change nothing, and shares of a difference sum to the difference.
func FuzzVariedPathDoesNotMatter(f *testing.F) {
	for which := range uint8(4 * len(factors)) {
		f.Add(which, int64(100), uint8(3), int64(70_000), []byte("at whatever instants it is stamped"))
	}
	f.Fuzz(func(t *testing.T, which uint8, amount int64, shard uint8, tokens int64, script []byte) {
		v := newVaried(t, which, amount, shard, true)
		tokens, at := within(tokens, -maxMilli, maxMilli), v.about(int64(len(script)))
		start, first := tokens, at
		is := v.Limit
		for _, b := range script {
			now := v.about(int64(b) * 7919)
			is, tokens = is.Advanced(tokens, at, now)
			if at = max(at, now); tokens != v.walk(start, first, at) {
				t.Fatalf("%v, %v: %d at %d became %d at %d by steps, %d at once", v.Renewal, v.Varies, start, first, tokens, at, v.walk(start, first, at))
			}
		}
		var sum int64
		whole := bucket.VaryingQuota(v.Renewal, v.Varies, v.Base, at)
		for i := range 8 {
			part := whole.Share(i, 8)
			sum += part.At(at).Renewed - part.At(first).Renewed
		}
		if sum != whole.At(at).Renewed-whole.At(first).Renewed {
			t.Errorf("%v, %v: the shares get %d of the difference between %d and %d", v.Renewal, v.Varies, sum, first, at)
		}
	})
}
