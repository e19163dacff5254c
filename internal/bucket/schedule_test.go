package bucket_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// schedules change at an hour, every minute, with the clocks, and rarely. Their entries scale, or
// set one parameter.
var schedules = []struct {
	zone    string
	changes []calendar.Change
}{
	{"Europe/Berlin", []calendar.Change{{Cron: "* 9-16 * * 1-5", Permille: 500}}},
	{"America/New_York", []calendar.Change{{Cron: "* 0-5 * * *", Permille: 10_000}, {Cron: "30-59 * * * 0", Capacity: 3}}},
	{"UTC", []calendar.Change{{Cron: "*/2 * * * *", Permille: 10}}},
	{"Australia/Lord_Howe", []calendar.Change{{Cron: "* 2 * * *", Amount: 1}, {Cron: "*/7 * * * *", Capacity: 50, Seconds: 7}}},
	{"Africa/Cairo", []calendar.Change{{Cron: "* 0-11 * * *", Permille: 100}, {Cron: "* 12-23 * * *", Permille: 1}}}, // never the base
	{"UTC", []calendar.Change{{Cron: "* * 29 2 *", Permille: 2000}}},
	{"Europe/Berlin", []calendar.Change{{Cron: "* * * * *", Permille: 700}}}, // always
}

// The walks lie between these instants: no schedule changes more than 1,024 times in between.
const (
	thatMorning = int64(epoch2023)/60_000*60_000 + 20*day
	thatNight   = thatMorning + 16*hour
)

// A varying is one shard's part of a limit of a schedule, and its pieces around an instant,
// found one by one by another object.
type varying struct {
	bucket.Limit

	starts []int64
}

// newVarying folds numbers into a limit of a schedule. Rates and instants are such that a walk
// meets few hundred changes.
func newVarying(t *testing.T, which uint8, capacity, amount, period int64, shard uint8) *varying {
	t.Helper()
	of := schedules[int(which)%len(schedules)]
	s, err := calendar.NewSchedule(of.changes, of.zone)
	if err != nil {
		t.Fatal(err)
	}
	base := calendar.Params{
		Capacity: within(capacity, 1, 1_000_000) * 1000, Amount: within(amount, 1, 1_000_000) * 1000, Period: within(period, 1, 1_000_000) * 1000,
	}
	n := 1 << (shard % 4)
	v := &varying{Limit: bucket.Varying(s, base, epoch2023).Share(int(shard)%n, n)}
	// Another object: nothing that one question leaves behind answers the other.
	fresh, err := calendar.NewSchedule(append(slices.Clip(of.changes), calendar.Change{Cron: "* * 1 1 *", Permille: 1}), of.zone)
	if err != nil {
		t.Fatal(err)
	}
	for at, last := thatMorning, -2; at < thatNight; at += 60_000 { // no day of the last entry
		if _, entry := fresh.At(at, base); entry != last {
			v.starts, last = append(v.starts, at), entry
		}
	}
	return v
}

// at is the limit as it is at an instant, worked out from its entries.
func (v *varying) at(t int64) bucket.Limit {
	is, _ := v.Varies.At(t, v.Base)
	return bucket.Limit{Capacity: is.Capacity, Amount: is.Amount, Period: is.Period}.Share(int(v.Shard), int(v.Shards))
}

// walk is the naive oracle of the balance: forwards, from piece to piece, in unbounded numbers.
func (v *varying) walk(tokens, at, now int64) *big.Int {
	now = max(at, now)
	balance := num(tokens)
	for {
		l, end := v.at(at), now
		for _, start := range v.starts {
			if at < start && start < end {
				end = start
			}
		}
		balance = least(num(l.Capacity), add(balance, trueEarned(l, at, end)))
		if at = end; at == now {
			return least(balance, num(v.at(now).Capacity))
		}
	}
}

// about returns an instant of that day, near a change or anywhere.
func (v *varying) about(n int64) int64 {
	k := uint64(n)
	start := v.starts[k%uint64(len(v.starts))]
	switch k / 1000 % 4 {
	case 0:
		return start
	case 1:
		return start - 1
	case 2:
		return start + 1
	}
	return thatMorning + int64(k%uint64(thatNight-thatMorning))
}

func seedSchedules(f *testing.F) {
	f.Helper()
	for i := range uint8(len(schedules)) {
		f.Add(i, int64(100), int64(100), int64(60), uint8(0), int64(100_000), int64(3007), int64(3900), int64(60_000))
		f.Add(i, int64(100), int64(1), int64(600), uint8(0), int64(-40_000), int64(1), int64(2050), int64(50_000))     // a debt over many changes
		f.Add(i, int64(1000), int64(7), int64(3600), uint8(7), int64(1_000_000), int64(0), int64(1001), int64(700))    // a share, at a change
		f.Add(i, int64(100), int64(100), int64(60), uint8(3), int64(5_000_000), int64(3050), int64(3001), int64(9000)) // a clock behind
		f.Add(i, int64(10), int64(1), int64(900_000), uint8(0), int64(0), int64(2), int64(3000), int64(10_000))        // one in ten days
		f.Add(i, int64(100), int64(1), int64(86_400), uint8(0), int64(90_000), int64(3), int64(1004), int64(100_000))  // full long ago
	}
}

// Law: a limit of a schedule holds what the walk from change to change says, to the
// millitoken, and its methods agree with each other.
func FuzzScheduleAgreesWithTheWalk(f *testing.F) {
	seedSchedules(f)
	f.Fuzz(func(t *testing.T, which uint8, capacity, amount, period int64, shard uint8, tokens, from, to, need int64) {
		v := newVarying(t, which, capacity, amount, period, shard)
		tokens, need = validTokens(tokens), within(need, 0, 2*maxMilli)
		at, now := v.about(from), v.about(to)

		want := v.walk(tokens, at, now)
		got := v.Balance(tokens, at, now)
		if num(got).Cmp(want) != 0 {
			t.Fatalf("%s: %d at %d is %d at %d, want %d", v.Varies.Encode(), tokens, at, got, now, want)
		}
		if admits := v.Admits(tokens, at, now, need); admits != (need <= 0 || got >= need) {
			t.Errorf("%d is admitted: %t, of %d", need, admits, got)
		}
		delta, clamped := v.Refill(tokens, at, now)
		if tokens > math.MinInt64/2 && tokens+delta != got {
			t.Errorf("%d is refilled by %d to another balance than %d", tokens, delta, got)
		}
		switch changes := v.Changes(at, now); {
		case changes && !clamped:
			t.Error("a refill that passes a change is right for the balance seen only")
		case changes != (now > at && v.Varies.Piece(at).Start != v.Varies.Piece(now).Start):
			t.Errorf("it changes from %d to %d: %t", at, now, changes)
		case !changes && now >= at && v.At(at) != v.At(now):
			t.Errorf("from %d to %d the limit became another one", at, now)
		}
		if earned := v.Earned(at, now); !clamped && delta != earned || tokens < math.MinInt64/2 && delta > earned {
			t.Errorf("it earns %d and gets %d", earned, delta)
		}
	})
}

// Law: a limit of a schedule admits a request after exactly the quoted wait, and at no
// earlier instant, in which its capacity falls and rises; also if it is refilled and stamped
// on the way.
func FuzzScheduleWaitIsExact(f *testing.F) {
	seedSchedules(f)
	f.Fuzz(func(t *testing.T, which uint8, capacity, amount, period int64, shard uint8, tokens, from, to, need int64) {
		v := newVarying(t, which, capacity, amount, period, shard)
		tokens, need = max(validTokens(tokens), -100_000_000), within(need, 1, 20_000_000)
		at, now := v.about(from), v.about(to)
		last := thatNight - 1 // the walk knows the changes up to there

		ms, ok := v.Wait(tokens, at, now, need)
		if v.walk(tokens, at, now).Cmp(num(need)) >= 0 {
			if !ok || ms != 0 {
				t.Fatalf("%d of %d is there, and waits for %d, %t", need, tokens, ms, ok)
			}
			return
		}
		// The balance rises within a piece, and falls only at its end. So the last instants
		// of pieces show whether it was ever enough.
		end := last
		if ok {
			end = min(now+ms, last)
		}
		for _, start := range v.starts {
			if now < start && start < end && (v.walk(tokens, at, start-1).Cmp(num(need)) >= 0 || v.walk(tokens, at, start).Cmp(num(need)) >= 0) {
				t.Fatalf("%s: %d of %d at %d waits for %d ms (%t), but is admitted at %d", v.Varies.Encode(), need, tokens, at, ms, ok, start)
			}
		}
		if !ok || now+ms > last {
			return
		}
		if v.walk(tokens, at, now+ms).Cmp(num(need)) < 0 || v.walk(tokens, at, now+ms-1).Cmp(num(need)) >= 0 {
			t.Fatalf("%s: %d of %d at %d waits for %d ms from %d, which is not the first", v.Varies.Encode(), need, tokens, at, ms, now)
		}
		halfway := now + ms/2
		if rest, ok := v.Wait(v.Balance(tokens, at, halfway), max(at, halfway), halfway, need); !ok || rest != ms-ms/2 {
			t.Errorf("of %d ms, %d remain after %d, %t", ms, rest, ms/2, ok)
		}
	})
}

// Law: stamps on the way, at any instants and in any order, change nothing.
func FuzzSchedulePathDoesNotMatter(f *testing.F) {
	for i := range uint8(len(schedules)) {
		f.Add(i, int64(100), int64(100), int64(60), uint8(0), int64(90_000), []byte("at whatever instants it is stamped"))
		f.Add(i, int64(100), int64(3), int64(7777), uint8(2), int64(-90_000), []byte{21, 22, 61, 0, 1, 2, 3, 4, 20, 250, 19, 18})
	}
	f.Fuzz(func(t *testing.T, which uint8, capacity, amount, period int64, shard uint8, tokens int64, script []byte) {
		v := newVarying(t, which, capacity, amount, period, shard)
		start := validTokens(tokens)
		tokens, at := start, v.about(within(int64(len(script)), 0, 1<<40))
		first := at
		for _, b := range script {
			now := v.about(int64(b) * 7919)
			tokens = v.Balance(tokens, at, now)
			if at = max(at, now); num(tokens).Cmp(v.walk(start, first, at)) != 0 {
				t.Fatalf("%d at %d became %d at %d by steps, %d at once", start, first, tokens, at, v.walk(start, first, at))
			}
		}
	})
}

// Law: what is taken in an interval is at most the balance, and what the rates in force earn, to a
// millitoken for each change.
func FuzzScheduleEarnsTheIntegral(f *testing.F) {
	seedSchedules(f)
	f.Fuzz(func(t *testing.T, which uint8, capacity, amount, period int64, shard uint8, _, from, to, _ int64) {
		v := newVarying(t, which, capacity, amount, period, shard)
		at, now := v.about(from), v.about(to)
		integral, changes := new(big.Rat), int64(1)
		for from := at; from < now; changes++ {
			l, end := v.at(from), now
			for _, start := range v.starts {
				if from < start && start < end {
					end = start
				}
			}
			integral.Add(integral, new(big.Rat).SetFrac(mul(num(end-from), num(l.Amount)), num(l.Period)))
			from = end
		}
		off := new(big.Rat).Sub(new(big.Rat).SetInt64(v.Earned(at, now)), integral)
		if off.Abs(off).Cmp(new(big.Rat).SetInt64(changes)) >= 0 {
			t.Errorf("from %d to %d it earns %d, the integral is %v, over %d pieces", at, now, v.Earned(at, now), integral, changes)
		}
	})
}

// A debt that is paid over more changes than a walk looks at: the balance is at most what it
// is to be, and exact again if a stamp on the way keeps it.
func TestAWalkEnds(t *testing.T) {
	t.Parallel()
	s, err := calendar.NewSchedule([]calendar.Change{{Cron: "*/2 * * * *", Permille: 500}}, "")
	if err != nil {
		t.Fatal(err)
	}
	l := bucket.Varying(s, calendar.Params{Capacity: 1_000_000, Amount: 60_000, Period: day}, epoch2023) // 60 a day, or 30
	const start, days, owed = int64(epoch2023), 20, int64(-900_000)                                      // 45 a day
	balance, at := owed, start
	for now := start; now <= start+days*day; now += 500 * 60_000 {
		if l.IsLong(at, now) {
			t.Fatalf("after %d minutes a walk is too long", (now-at)/60_000)
		}
		balance, at = l.Balance(balance, at, now), now
	}
	want := owed + (at-start)*45/day*1000
	if balance < want-4500 || balance > want+4500 { // half of a per cent of what it earned
		t.Errorf("20 days later %d is owed, want %d", balance, want)
	}
	if got := l.Balance(owed, start, at); got > balance || got < owed || !l.IsLong(start, at) {
		t.Errorf("at once it is %d, which is not at most %d, and it is long: %t", got, balance, l.IsLong(start, at))
	}
	if got := l.Balance(900_000, start-3*day, start); got > 900_000+3*45_000 {
		t.Errorf("it holds %d", got)
	}
	ms, ok := l.Wait(owed, start, start, 500_000)
	if !ok || ms < 1000*60_000 || l.Admits(owed, start, start+ms, 500_000) {
		t.Errorf("the wait is %d, %t", ms, ok)
	}
	if _, ok := l.Wait(0, start, start, 1_000_001); ok {
		t.Error("no piece has such a capacity")
	}
}

// BenchmarkSchedule is a refill in the piece of the stamp, over one change, over those of a
// month of working days, and over all that a walk looks at.
func BenchmarkSchedule(b *testing.B) {
	for _, c := range []struct {
		name         string
		which        int
		debt, before int64
	}{{"same", 0, 0, 1000}, {"change", 0, 0, 12 * hour}, {"month", 0, -1e15, 30 * day}, {"all", 2, -1e15, 30 * day}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s, err := calendar.NewSchedule(schedules[c.which].changes, schedules[c.which].zone)
			if err != nil {
				b.Fatal(err)
			}
			base := calendar.Params{Capacity: 100_000, Amount: 100_000, Period: 60_000}
			now := int64(epoch2023) + 20*hour
			for b.Loop() {
				l := bucket.Varying(s, base, now-c.before)
				if l.Balance(c.debt, now-c.before, now) <= c.debt {
					b.Fatal("earned nothing")
				}
			}
		})
	}
}
