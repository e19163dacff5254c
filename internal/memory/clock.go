package memory

import "time"

// A Moment is an instant by the two clocks that a process uses (ADR 023).
type Moment struct {
	// Now is by the store's clock, in milliseconds. It stamps items, and balances are
	// worked out by it. The clock may be set, also back.
	Now int64
	// Up is by the process's monotonic clock, which nobody can set. All ages and pauses
	// are counted by it.
	Up time.Duration
}

// A Clock reads the two clocks of a process.
type Clock struct {
	store func() time.Time
	begun time.Time
}

// NewClock returns a clock that counts the process's time from now on. now is the
// store's clock.
func NewClock(now func() time.Time) Clock { return Clock{store: now, begun: machineNow()} }

// Moment reads both clocks.
func (c *Clock) Moment() Moment { return Moment{Now: c.Now(), Up: c.Uptime()} }

// Now is the instant by the store's clock, in milliseconds.
func (c *Clock) Now() int64 { return c.store().UnixMilli() }

// The machine's clock is read for its monotonic time, which nobody can set. To measure from
// or to an instant costs half as much as to read the wall clock too.
var (
	machineNow   = time.Now   //nolint:forbidigo // see above
	machineSince = time.Since //nolint:forbidigo // see above
	machineUntil = time.Until //nolint:forbidigo // see above
)

// Until is the time until an instant by the machine's clock, by which contexts end.
func (c *Clock) Until(at time.Time) time.Duration { return machineUntil(at) }

// firstUptime is the uptime of a new clock. It is longer than a process remembers
// anything. So an instant of 0 is long ago: it stands for never.
const firstUptime = 365 * 24 * time.Hour

// Uptime counts from a year before the clock was made, by the process's monotonic
// clock.
func (c *Clock) Uptime() time.Duration { return firstUptime + machineSince(c.begun) }
