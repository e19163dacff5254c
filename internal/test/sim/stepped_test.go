package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

const (
	// farthestStep is the largest step of a clock.
	farthestStep = time.Hour
	// driftPPM is the largest drift of a quartz, in millionths.
	driftPPM = 100
	// slewPPM is the largest slew of a local clock: any faster change was a step.
	slewPPM = 500
	// farthestDrift is the error at which the keeper of a clock reverses its drift.
	farthestDrift = 200 * time.Millisecond
	// readingSlack is the largest time between two readings of clocks that count as
	// simultaneous.
	readingSlack = 20 * time.Millisecond
)

// steppingClock is a clock that drifts, and that is set now and then: by minutes, up to an
// hour, to either side of the true time. It is right when its client is born.
func (o odds) steppingClock(d dice, name string, born time.Duration) func(time.Duration) time.Duration {
	r := d.stream("clock", name)
	start, every, phase := span(r, -o.skew, o.skew), span(r, 5*time.Second, 20*time.Minute), span(r, 0, time.Hour)
	return func(at time.Duration) time.Duration {
		off := start + drift(at+phase)
		if n := (at + phase) / every; n > (born+phase)/every {
			r := d.stream("step", name, fmt.Sprint(n))
			if chance(r, 0.7) { // otherwise it is set right again
				step := span(r, 2*time.Minute, farthestStep)
				off += pick(r, step, -step)
			}
		}
		return off
	}
}

// drift is the error of a quartz that drifts one way and then the other.
func drift(at time.Duration) time.Duration {
	const turn = 4 * farthestDrift * 1_000_000 / driftPPM
	x := at % turn * driftPPM / 1_000_000 // up to four times the farthest
	switch {
	case x < farthestDrift:
		return x
	case x < 3*farthestDrift:
		return 2*farthestDrift - x
	}
	return x - 4*farthestDrift
}

// keptTime: a client follows a step of its local clock only if the date of an answer
// confirms it, and dates are true. So the error of a client with dates never exceeds what
// its answers tell. A client without dates follows its local clock only as far as
// slewing since the last reading explains.
func (c *checker) keptTime() {
	for _, k := range c.play.cast {
		if !k.keeps || !c.odds.stepped {
			continue
		}
		last := reading{}
		for i, one := range k.readings.copy() {
			moved, most := (one.off - last.off).Abs(), readingSlack+(one.at-last.at)*slewPPM/1_000_000
			if calm := c.calm.Load(); calm != nil && one.at >= *calm {
				break // from then on answers have no dates
			}
			switch {
			case k.dated && one.off.Abs() > k.learnt(one.at):
				c.violate("clock", one.at, nil, "%s is off by %v, and gets dates", k.name, one.off)
			case !k.dated && i > 0 && moved > most:
				c.violate("clock", one.at, nil, "%s is off by %v after %v, without dates", k.name, one.off, last.off)
			}
			last = one
		}
	}
}

func (r *readings) copy() []reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// TestSimWithSteps plays a few seeds in which clocks are set, with dates and without.
func TestSimWithSteps(t *testing.T) {
	t.Parallel()
	const seeds = 12
	playSeeds(t, seeds, func(s uint64) odds {
		o := drawOdds(dice(s))
		o.stepped, o.dated, o.skew = true, s%2 == 0, time.Second
		return o
	}, func(result) {})
}

// credulous follows the local clock, whatever it is set to.
type credulous struct{ clocked }

func (s credulous) Now() time.Time {
	now, _ := s.CheckedNow()
	return now
}

func (s credulous) CheckedNow() (time.Time, bool) {
	now := s.c.clock()
	off := time.Until(now)
	s.c.isOff(off)
	s.c.readings.add(s.c.w.now(), off)
	return now, true
}

// TestSteppedClocksAreSeen: the checker reports the clock of a client that believes every
// step. It also reports refusals without a request from a client that trusts images for
// longer than it says.
func TestSteppedClocksAreSeen(t *testing.T) {
	t.Parallel()
	believing := breakage{store: func(s limiter.Store) limiter.Store {
		known, _ := s.(clocked)
		return credulous{known}
	}}
	for text, b := range map[string]struct {
		odds   odds
		broken breakage
	}{
		"without dates":  {odds{stepped: true, skew: time.Second}, believing},
		"and gets dates": {odds{stepped: true, skew: time.Second, dated: true}, believing},
		"without asking, and nothing it had seen": {odds{stepped: true, skew: time.Second}, breakage{trust: time.Minute}},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			const tries = 60
			for seed := uint64(1); seed <= tries; seed++ {
				if says(simulate(t, seed, b.odds, b.broken), text) {
					return
				}
			}
			t.Errorf("%d seeds did not report it", tries)
		})
	}
}
