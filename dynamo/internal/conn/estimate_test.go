package conn_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
)

// A sky is a server and a client whose clocks drift, with the errors of the dates.
type sky struct {
	r     *rand.Rand
	at    time.Duration // the time that has passed
	truth time.Duration // the correction that would be right
	fast  time.Duration // the most by which front ends are fast or slow
	late  time.Duration // the most by which dates are late
}

func (s *sky) span(most time.Duration) time.Duration {
	return time.Duration(s.r.Int64N(int64(most) + 1))
}

// pass lets time pass, in which the clocks drift.
func (s *sky) pass(d time.Duration) {
	most := d / 1_000_000 * conn.DriftPPM
	s.at += d
	s.truth += s.span(2*most) - most
}

// answer returns the interval of an answer that took some time.
func (s *sky) answer() (low, high time.Duration) {
	sent := s.at
	s.pass(s.span(s.roundTrip()))
	server := s.at + s.truth + s.span(2*s.fast) - s.fast - s.span(s.late)
	date := server.Truncate(time.Second)
	if date > server {
		date -= time.Second
	}
	s.pass(s.span(s.roundTrip()))
	return date - s.at, date + time.Second - sent
}

func (s *sky) roundTrip() time.Duration {
	return []time.Duration{time.Millisecond, 20 * time.Millisecond, 3 * time.Second}[s.r.IntN(3)]
}

// pause returns anything from nothing to an hour.
func (s *sky) pause() time.Duration { return s.span(time.Microsecond << s.r.IntN(32)) }

// lawOfTheInterval checks the law of the estimate. As long as no clock drifts faster
// than assumed, the right correction is within the interval. If dates are wrong, it is
// outside by no more than their error.
func lawOfTheInterval(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed is a history
	s := &sky{r: r, truth: time.Duration(r.Int64N(int64(1000*time.Hour))) - 500*time.Hour}
	if seed%3 == 1 {
		s.fast = s.span(50 * time.Millisecond)
	}
	if seed%3 == 2 {
		s.late = s.span(conn.Tolerance - 100*time.Millisecond)
	}
	const rounding = time.Microsecond
	var e conn.Estimate
	for n := range 300 {
		low, high := s.answer()
		if !e.Observe(low, high, s.at, 0) {
			t.Fatalf("seed %d: answer %d is not believed", seed, n)
		}
		for range 2 {
			low, high = e.Interval(s.at)
			if s.truth < low-s.fast-rounding || s.truth > high+s.fast+s.late+rounding {
				t.Fatalf("seed %d: %v after answer %d the correction is within %v and %v, and should be %v; dates are off by %v, late by %v",
					seed, s.at, n, low, high, s.truth, s.fast, s.late)
			}
			s.pass(s.pause())
		}
	}
}

func TestTheRightCorrectionNeverLeavesTheInterval(t *testing.T) {
	t.Parallel()
	const seeds = 600
	for seed := range uint64(seeds) {
		lawOfTheInterval(t, seed)
	}
}

func FuzzTheRightCorrectionNeverLeavesTheInterval(f *testing.F) {
	for seed := range uint64(9) {
		f.Add(seed)
	}
	f.Fuzz(lawOfTheInterval)
}

// The interval narrows. After many answers at random times, its width is limited by the
// distance between their moments and by the round trips.
func TestTheIntervalNarrows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := &sky{r: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a seed is a history
		var e conn.Estimate
		for range 1000 {
			sent := s.at
			s.pass(time.Millisecond)
			date := (s.at + s.truth).Truncate(time.Second)
			e.Observe(date-s.at, date+time.Second-sent, s.at, 0)
			s.pass(s.span(200 * time.Millisecond))
		}
		if low, high := e.Interval(s.at); high-low > 20*time.Millisecond {
			t.Errorf("seed %d: after 1000 answers in %v the correction is within %v", seed, s.at, high-low)
		}
	}
}

// Dates that contradict the known correction are believed once they are in the
// majority.
func TestContradictionsAreOutvoted(t *testing.T) {
	t.Parallel()
	const right, wrong = 'r', 'w'
	observe := func(e *conn.Estimate, at, correction, local time.Duration) bool {
		return e.Observe(correction-500*time.Millisecond, correction+500*time.Millisecond, at, local)
	}
	for name, c := range map[string]struct {
		dates string // in order: r says 0, w an hour
		local time.Duration
		want  time.Duration
	}{
		"one is right":                       {"r", 0, 0},
		"the first is believed":              {"w", 0, time.Hour},
		"a single one is not":                {"rw", 5 * time.Second, 0},
		"a second one is":                    {"rww", 5 * time.Second, time.Hour},
		"nor one between others":             {"rwrwrwrw", 5 * time.Second, 0},
		"the local clock is a witness":       {"wr", 0, 0},
		"and no match for many":              {"rrrrrrrrrrrrrrrrrrrrwwwwwwww", time.Hour, 0},
		"one in three is outvoted":           {"wrrrwrrwrwrrrwrrrwwrrrrr", 5 * time.Second, 0},
		"all of them are not":                {"rrrrrrrrrrrrrrrrrrrrwwwwwwwwwwwwwwwww", 5 * time.Second, time.Hour},
		"what is known is not worth more":    {"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrwwwwwwwwwwwwwwwww", 5 * time.Second, time.Hour},
		"and back after two, by local clock": {"rrrrrrrrrrrrrrrrrrrrwwwwwwwwwwwwwwwwwr", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e conn.Estimate
			for i, date := range c.dates {
				correction := map[rune]time.Duration{right: 0, wrong: time.Hour}[date]
				observe(&e, time.Duration(i)*time.Second, correction, c.local)
			}
			low, high := e.Interval(time.Minute)
			if c.want < low || c.want > high {
				t.Errorf("the correction is within %v and %v, want %v", low, high, c.want)
			}
		})
	}
}

// Dates that contradict everything, including each other, are never believed.
func TestRandomDatesAreNotBelieved(t *testing.T) {
	t.Parallel()
	var e conn.Estimate
	e.Observe(0, time.Second, 0, 0)
	for i := range 100 {
		wrong := time.Duration(i+1) * time.Hour
		if e.Observe(wrong, wrong+time.Second, time.Duration(i)*time.Second, 5*time.Minute) {
			t.Fatalf("date %d is believed", i)
		}
	}
	if low, high := e.Interval(time.Minute); low > 0 || high < time.Second {
		t.Errorf("the correction is within %v and %v", low, high)
	}
}
