package calendar_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// questions are specifications of all kinds, the rare ones and those that follow real time among them.
var questions = []struct{ name, spec, zone string }{
	{"day", "day", "America/New_York"},
	{"month", "month from last day", "Europe/Berlin"},
	{"weekdays", "*/15 9-17 * * 1-5", "Africa/Cairo"},
	{"hourly", "0 * * * *", "Australia/Lord_Howe"},
	{"leap day", "0 0 29 2 *", "America/New_York"},
	{"leap day, hourly", "0 * 29 2 *", "Africa/Casablanca"},
	{"leap day on a Sunday, hourly", "0 * 29 2 */7", "America/New_York"},
	{"anniversary", "month since 2026-01-31T10:00:00Z", "Europe/Berlin"},
	{"four entries", "0 0 31 1,3,5 *;0 0 30 4,6 *;0 */2 28 2 *;day at 12:00", "America/Santiago"},
}

// beforeLeapDay is an instant between the leap days of 2096 and 2104, the farthest from each other.
var beforeLeapDay = time.Date(2100, 3, 1, 12, 34, 56, 0, time.UTC).UnixMilli()

// BenchmarkPeriod is a question about the period that was asked for last, and about another one.
func BenchmarkPeriod(b *testing.B) {
	const apart = -100 * 366 * 24 * 3_600_000 // longer than any period of the questions
	for name, step := range map[string]int64{"same": 0, "other": apart} {
		b.Run(name, func(b *testing.B) {
			for _, q := range questions {
				b.Run(q.name, func(b *testing.B) {
					r := parse(b, q.spec, q.zone)
					b.ReportAllocs()
					at, next := beforeLeapDay, beforeLeapDay+step
					for b.Loop() {
						if r.Period(at).End <= at {
							b.Fatal(at)
						}
						at, next = next, at
					}
				})
			}
		})
	}
}

func BenchmarkSchedule(b *testing.B) {
	s, err := calendar.DecodeSchedule("1h9-17w1-5s500;D29M2c5", "America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for at := beforeLeapDay; b.Loop(); at++ {
		s.At(at, calendar.Params{Capacity: 1000, Amount: 1000, Period: 1000})
		if next, ok := s.NextChange(at); !ok || next <= at {
			b.Fatal(next, ok)
		}
	}
}

// BenchmarkDecode is what reading an item costs, when its specification is in use.
func BenchmarkDecode(b *testing.B) {
	r := parse(b, "day", "America/New_York")
	b.ReportAllocs()
	for b.Loop() {
		if again, err := calendar.Decode("1m0h0", "America/New_York"); again != r {
			b.Fatal(again, err)
		}
	}
}

// No question about the last period allocates, and one about another period allocates once, to remember it.
func TestAllocations(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	for _, q := range questions {
		r := parse(t, q.spec, q.zone)
		if n := testing.AllocsPerRun(100, func() { r.Period(beforeLeapDay); r.Next(beforeLeapDay); r.Window(0, beforeLeapDay) }); n != 0 {
			t.Errorf("%s: a question allocates %v times", q.spec, n)
		}
		const apart = 100 * 366 * 24 * 3_600_000
		if n := testing.AllocsPerRun(100, func() { r.Period(beforeLeapDay - apart); r.Period(beforeLeapDay) }); n > 2 {
			t.Errorf("%s: two questions about different periods allocate %v times", q.spec, n)
		}
		compact, _ := r.Encode()
		if n := testing.AllocsPerRun(100, func() { _, _ = calendar.Decode(compact, q.zone) }); n != 0 {
			t.Errorf("%s: decoding it again allocates %v times", q.spec, n)
		}
	}
	s, err := calendar.DecodeSchedule("1h9-17w1-5s500", "America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { s.At(beforeLeapDay, calendar.Params{}); s.NextChange(beforeLeapDay) }); n != 0 {
		t.Errorf("a question to a schedule allocates %v times", n)
	}
}
