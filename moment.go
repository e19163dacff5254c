package limiter

import "time"

// A moment is an instant by the two clocks that a limiter uses (ADR 023).
type moment struct {
	// now is by the store's clock, in milliseconds. It stamps items, and balances are
	// worked out by it. The clock may be set, also back.
	now int64
	// up is by the process's monotonic clock, which nobody can set. All ages and pauses
	// are counted by it.
	up time.Duration
}

func (l *Limiter) moment() moment { return moment{now: l.now(), up: l.uptime()} }

// now is the instant by the store's clock, in milliseconds.
func (l *Limiter) now() int64 { return l.store.Now().UnixMilli() }

// machineNow is read for its monotonic time.
var machineNow = time.Now //nolint:forbidigo // ages depend on no clock that can be set

// firstUptime is the uptime of a new limiter. It is longer than the limiter remembers
// anything. So an instant of 0 is long ago: it stands for never.
const firstUptime = 365 * 24 * time.Hour

// uptime counts from a year before the limiter was made, by the process's monotonic
// clock.
func (l *Limiter) uptime() time.Duration { return firstUptime + machineNow().Sub(l.begun) }
