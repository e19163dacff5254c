package limiter

import "time"

// A moment is an instant by the two clocks that a limiter goes by (ADR 023).
type moment struct {
	// now is by the store's clock, in milliseconds. Items are stamped by it, and what
	// they hold is worked out by it. It may be set, back too.
	now int64
	// up is by the process's monotonic clock. The ages of all that the limiter
	// remembers are counted in it, and its pauses: nobody can set it.
	up time.Duration
}

func (l *Limiter) moment() moment { return moment{now: l.now(), up: l.uptime()} }

// now is the instant by the store's clock, in milliseconds.
func (l *Limiter) now() int64 { return l.store.Now().UnixMilli() }

// machineNow is read for the monotonic time that its readings carry.
var machineNow = time.Now //nolint:forbidigo // ages depend on no clock that can be set

// firstUptime is the uptime of a new limiter. It is longer than anything is remembered,
// so that an instant of 0 is long ago: it stands for never.
const firstUptime = 365 * 24 * time.Hour

// uptime counts from a year before the limiter was made, by the process's monotonic
// clock.
func (l *Limiter) uptime() time.Duration { return firstUptime + machineNow().Sub(l.begun) }
