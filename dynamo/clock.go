package dynamo

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// clockSlack is how far the local clock and the time that has passed may part
	// before the clock looks into it.
	clockSlack = 10 * time.Millisecond
	// slewPPM is how fast a local clock is slewed at most, in millionths. A clock
	// that parts from the time that has passed faster than that was set.
	slewPPM = 500
	// widestChecked is how wide the bounds of the correction may be for the clock to
	// count as checked.
	widestChecked = 10 * time.Second
	// grossCorrection is the least change of the correction that is logged.
	grossCorrection = time.Second
	// latestDate bounds how far from the local clock a date may be, so that sums of
	// durations do not overflow.
	latestDate = 100 * 365 * 24 * time.Hour
)

// A clock tells the server's time: what the local clock said when the store was
// opened, and the time that has passed since, and a correction that it learns from
// the dates of answers (ADR 023). It is safe for concurrent use. Reading it takes no
// lock, unless the local clock was set.
//
// The time that has passed is Go's monotonic time. A local clock that is set
// therefore changes nothing until a date says the same.
//
// The API of an engine in the same process has no other clock than the local one:
// the clock is that one then, as it is.
type clock struct {
	local  func() time.Time
	passed func() time.Duration // since the store was opened
	// machine says that local is time.Now, whose readings carry the time that has
	// passed.
	machine bool
	// immediate says that the server goes by the local clock.
	immediate bool
	log       *slog.Logger

	base   time.Time // when the store was opened; passed counts from it
	origin time.Time // what the local clock said then

	state atomic.Pointer[reckoning]

	mu       sync.Mutex
	estimate estimate
	lookedAt time.Duration // when state.apart was last looked at
	// set says that the local clock was set, at setAt, and that no date has told yet
	// whether rightly.
	set      bool
	setAt    time.Duration
	steps    int
	restarts int
}

// A reckoning is what it takes to tell the time. It is immutable.
type reckoning struct {
	// apart is by how much the local clock had moved on more than time passed, when
	// that was last looked at.
	apart time.Duration
	// correction is added to the origin and the time that has passed.
	correction time.Duration
	// checked says that the last date agreed with the clock.
	checked bool
}

// machineNow is the machine's clock. Its readings carry the monotonic time.
var machineNow = time.Now //nolint:forbidigo // the default of Options.Now, and the time that passes whatever that says

func newClock(o *Options, immediate bool) *clock {
	base := machineNow()
	c := &clock{
		local: o.Now, passed: o.passed, machine: o.machine, immediate: immediate, log: o.Logger,
		base: base, origin: base.Round(0),
	}
	if c.passed == nil {
		c.passed = func() time.Duration { return machineNow().Sub(base) }
	}
	if !c.machine {
		c.origin = c.local().Round(0)
	}
	c.state.Store(&reckoning{})
	return c
}

// now is the instant by the server's clock, as far as it is known.
func (c *clock) now() time.Time {
	now, _ := c.checkedNow()
	return now
}

// checkedNow is the instant, and whether it was compared with the server's clock.
func (c *clock) checkedNow() (now time.Time, checked bool) {
	if c.immediate {
		return c.local(), c.machine
	}
	passed, r := c.look()
	return c.origin.Add(passed + r.correction), r.checked
}

// look is the time that has passed and the state of the clock, after a local clock
// that was set has been noticed.
func (c *clock) look() (passed time.Duration, r *reckoning) {
	passed, least, most := c.read()
	r = c.state.Load()
	if r.apart < least-clockSlack || r.apart > most+clockSlack {
		r = c.notice()
	}
	return passed, r
}

// read is the time that has passed, and between what the local clock has moved on
// more than that: the two cannot be read at one instant.
func (c *clock) read() (passed, least, most time.Duration) {
	if c.machine {
		t := c.local()
		passed = t.Sub(c.base)
		least = t.Round(0).Sub(c.origin) - passed
		return passed, least, least
	}
	before := c.passed()
	moved := c.local().Round(0).Sub(c.origin)
	passed = c.passed()
	return passed, moved - passed, moved - before
}

// notice takes in that the local clock has parted from the time that has passed. If
// it did so slowly, it was slewed, and the clock follows. Otherwise it was set, and
// the clock goes on from where it was.
func (c *clock) notice() *reckoning {
	c.mu.Lock()
	r := c.state.Load()
	passed, apart := c.parted(r.apart)
	parted := apart - r.apart
	if parted == 0 {
		c.mu.Unlock()
		return r
	}
	next := *r
	next.apart = apart
	wasSet := parted.Abs() > clockSlack+perMillion(passed-c.lookedAt, slewPPM)
	if wasSet {
		next.checked = false
		c.set, c.setAt, c.steps = true, passed, c.steps+1
	} else {
		next.correction = c.estimate.correct(apart, r.correction+parted)
	}
	c.lookedAt = passed
	c.state.Store(&next)
	c.mu.Unlock()
	if wasSet {
		c.log.Warn("local clock was set; time goes on until the date of an answer confirms it", "by_ms", parted.Milliseconds())
	}
	return &next
}

// parted is the time that has passed and by how much the local clock is apart from it:
// as much as it was, unless it stays further apart. A goroutine that is interrupted
// between two readings sees clocks apart that are not.
func (c *clock) parted(was time.Duration) (passed, apart time.Duration) {
	const readings = 3
	for range readings {
		var least, most time.Duration
		passed, least, most = c.read()
		apart = min(max(was, least), most)
		if (apart - was).Abs() <= clockSlack {
			return passed, was
		}
	}
	return passed, apart
}

// sending is when a request is sent.
func (c *clock) sending() (sent time.Duration) {
	if !c.immediate {
		sent, _ = c.look()
	}
	return sent
}

// answered learns from the answer to a request. An answer without a date, as an
// engine in process gives it, teaches nothing.
func (c *clock) answered(metadata middleware.Metadata, sent time.Duration) {
	if c.immediate {
		return
	}
	if date, ok := awsmiddleware.GetServerTime(metadata); ok {
		c.learn(date, sent)
	}
}

// failed learns from the answer to a request that failed, if there was one: a write
// that was refused has a date like any other.
func (c *clock) failed(err error, sent time.Duration) {
	response := (*smithyhttp.ResponseError)(nil)
	if c.immediate || !errors.As(err, &response) || response.Response == nil {
		return
	}
	if date, err := http.ParseTime(response.Response.Header.Get("Date")); err == nil {
		c.learn(date, sent)
	}
}

// learn takes in the date of an answer that has just come. The request may have been
// sent several times since: that only widens what the date says.
func (c *clock) learn(date time.Time, sent time.Duration) {
	received, _ := c.look()
	ahead := date.Sub(c.origin)
	if date.IsZero() || ahead.Abs() > latestDate {
		return
	}
	was, is := c.take(interval{ahead - received, ahead + dateResolution - sent}, sent, received)
	if moved := is.correction - was.correction; moved.Abs() >= grossCorrection {
		c.log.Warn("clock corrected by the date of an answer", "by_ms", moved.Milliseconds(), "local_clock_ahead_ms", (is.apart - is.correction).Milliseconds())
	}
}

// take takes in what a date says. It returns the state before and after.
func (c *clock) take(told interval, sent, received time.Duration) (was, is *reckoning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.state.Load()
	next := *was
	verdict := c.estimate.observe(told, received, was.apart, c.set)
	if verdict == restarts {
		c.restarts++
	}
	if verdict != doubts {
		next.correction = c.estimate.correct(was.apart, was.correction)
	}
	// A date that is as expected, but from before the local clock was set, does not
	// tell whether the machine was suspended then.
	before := c.set && sent < c.setAt && verdict == agrees
	c.set = c.set && (before || verdict == doubts)
	next.checked = !before && verdict != doubts && c.estimate.width() <= widestChecked
	if next == *was {
		return was, was
	}
	c.state.Store(&next)
	return was, &next
}

// A ClockReport is what a store knows of its clock.
type ClockReport struct {
	// Checked says that the last answer's date agreed with the clock, or that the
	// server goes by the local clock.
	Checked bool
	// Correction is what is added to the local clock.
	Correction time.Duration
	// Uncertainty is half of the width of what the dates leave open, 0 as long as
	// there was none.
	Uncertainty time.Duration
	// Steps is how often the local clock was found to have been set, and Restarts
	// how often dates contradicted those before them for so long that they were
	// believed.
	Steps, Restarts int
}

func (c *clock) report() ClockReport {
	if c.immediate {
		return ClockReport{Checked: c.machine}
	}
	_, r := c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return ClockReport{
		Checked: r.checked, Correction: r.correction - r.apart, Uncertainty: c.estimate.width() / 2,
		Steps: c.steps, Restarts: c.restarts,
	}
}
