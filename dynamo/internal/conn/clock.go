package conn

import (
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// clockSlack is how far the local clock may deviate from the elapsed time before
	// the clock checks why.
	clockSlack = 10 * time.Millisecond
	// slewPPM is the highest rate at which a local clock is slewed, in millionths. A
	// clock that deviates faster from the elapsed time was set.
	slewPPM = 500
	// widestChecked is the largest width of the correction's bounds at which the clock
	// counts as checked.
	widestChecked = 10 * time.Second
	// grossCorrection is the smallest change of the correction that is logged.
	grossCorrection = time.Second
	// latestDate bounds the distance of a date from the local clock, so that sums of
	// durations do not overflow.
	latestDate = 100 * 365 * 24 * time.Hour
)

// A Clock estimates the server's time. It is the sum of the local clock's reading when
// the store was opened, the time elapsed since, and a correction. The clock learns the
// correction from the dates of answers (ADR 023). It is safe for concurrent use.
// Reading it takes no lock, unless the local clock was set.
//
// The elapsed time is Go's monotonic time. Setting the local clock therefore changes
// nothing until a date confirms it.
//
// An engine in the same process has only the local clock. With such an API, the clock
// is the local clock, unchanged.
type Clock struct {
	local  func() time.Time
	passed func() time.Duration // since the store was opened
	// machine reports that local is time.Now, whose readings carry the elapsed time.
	machine bool
	// immediate reports that the server uses the local clock.
	immediate bool
	log       *slog.Logger

	base   time.Time // when the store was opened; passed counts from it
	origin time.Time // the local clock's reading then

	state atomic.Pointer[reckoning]

	mu       sync.Mutex
	estimate estimate
	lookedAt time.Duration // when state.apart was last checked
	// set reports that the local clock was set, at setAt, and that no date has yet told
	// whether rightly.
	set      bool
	setAt    time.Duration
	steps    int
	restarts int
}

// A reckoning holds the values from which the clock computes the time. It is immutable.
type reckoning struct {
	// apart is how much more the local clock had advanced than time elapsed, at the
	// last check.
	apart time.Duration
	// correction is added to the origin and the elapsed time.
	correction time.Duration
	// checked reports that the last date agreed with the clock.
	checked bool
}

// machineNow is the machine's clock. Its readings carry the monotonic time.
var machineNow = time.Now //nolint:forbidigo // the default of Options.Now, and the time that passes whatever that says

func newClock(o *Options, immediate bool) *Clock {
	base := machineNow()
	c := &Clock{
		local: o.Now, passed: o.Passed, machine: o.Now == nil, immediate: immediate, log: o.Logger,
		base: base, origin: base.Round(0),
	}
	if c.machine {
		c.local = machineNow
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

// Local is the instant by the local clock.
func (c *Clock) Local() time.Time { return c.local() }

// IsMachines reports whether the local clock is the machine's own.
func (c *Clock) IsMachines() bool { return c.machine }

// Now is the instant by the server's clock, as far as it is known.
func (c *Clock) Now() time.Time {
	now, _ := c.CheckedNow()
	return now
}

// CheckedNow is the instant, and whether it was compared with the server's clock.
func (c *Clock) CheckedNow() (now time.Time, checked bool) {
	if c.immediate {
		return c.local(), c.machine
	}
	passed, r := c.look()
	return c.origin.Add(passed + r.correction), r.checked
}

// look returns the elapsed time and the state of the clock, after it has checked
// whether the local clock was set.
func (c *Clock) look() (passed time.Duration, r *reckoning) {
	passed, least, most := c.read()
	r = c.state.Load()
	if r.apart < least-clockSlack || r.apart > most+clockSlack {
		r = c.notice()
	}
	return passed, r
}

// read returns the elapsed time, and bounds of the difference by which the local clock
// advanced more. There are two bounds because the clocks cannot be read at one instant.
func (c *Clock) read() (passed, least, most time.Duration) {
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

// notice handles a deviation of the local clock from the elapsed time. A slow deviation
// means that the local clock was slewed, and the clock follows. A fast deviation means
// that it was set, and the clock continues from its own time.
func (c *Clock) notice() *reckoning {
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

// parted returns the elapsed time and the local clock's deviation from it. The
// deviation stays as it was, unless all readings show a larger change. A goroutine that
// is interrupted between two readings sees a false deviation.
func (c *Clock) parted(was time.Duration) (passed, apart time.Duration) {
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

// sending returns the instant at which a request is sent.
func (c *Clock) sending() (sent time.Duration) {
	if !c.immediate {
		sent, _ = c.look()
	}
	return sent
}

// answered learns from the answer to a request, a pointer to one of the SDK's outputs. All
// of these have a field ResultMetadata, and no method or interface for it. It learns
// nothing from an answer without a date, as an engine in the process gives it.
func (c *Clock) answered(out any, sent time.Duration) {
	if c.immediate {
		return
	}
	metadata, _ := reflect.TypeAssert[middleware.Metadata](reflect.ValueOf(out).Elem().FieldByName("ResultMetadata"))
	c.hear(metadata, sent)
}

// hear learns from the metadata of an answer.
func (c *Clock) hear(metadata middleware.Metadata, sent time.Duration) {
	if date, ok := awsmiddleware.GetServerTime(metadata); ok {
		c.learn(date, sent)
	}
}

// failed learns from the answer to a failed request, if there was one: a refused write
// has a date like any other.
func (c *Clock) failed(err error, sent time.Duration) {
	response := (*smithyhttp.ResponseError)(nil)
	if c.immediate || !errors.As(err, &response) || response.Response == nil {
		return
	}
	if date, err := http.ParseTime(response.Response.Header.Get("Date")); err == nil {
		c.learn(date, sent)
	}
}

// learn evaluates the date of an answer that has just arrived. The request may have
// been sent several times since: that only widens the date's bounds.
func (c *Clock) learn(date time.Time, sent time.Duration) {
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

// take updates the state by what a date says. It returns the state before and after.
func (c *Clock) take(told interval, sent, received time.Duration) (was, is *reckoning) {
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
	// A date from before the local clock was set, and in agreement with the clock, does
	// not tell whether the machine was suspended then.
	before := c.set && sent < c.setAt && verdict == agrees
	c.set = c.set && (before || verdict == doubts)
	next.checked = !before && verdict != doubts && c.estimate.width() <= widestChecked
	if next == *was {
		return was, was
	}
	c.state.Store(&next)
	return was, &next
}

// A Report is what is known of a clock.
type Report struct {
	// Checked reports that the last answer's date agreed with the clock, or that the
	// server uses the local clock.
	Checked bool
	// Correction is the difference that the clock adds to the local clock.
	Correction time.Duration
	// Uncertainty is half the width of the bounds that the dates give, 0 until there
	// was a date.
	Uncertainty time.Duration
	// Steps counts how often the store found that the local clock was set. Restarts
	// counts how often dates contradicted earlier ones for so long that the clock
	// accepted them.
	Steps, Restarts int
}

// Report reports the state of the clock.
func (c *Clock) Report() Report {
	if c.immediate {
		return Report{Checked: c.machine}
	}
	_, r := c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return Report{
		Checked: r.checked, Correction: r.correction - r.apart, Uncertainty: c.estimate.width() / 2,
		Steps: c.steps, Restarts: c.restarts,
	}
}
