package memory

import (
	"slices"
	"time"
)

// A brake limits the requests of a process to a partition that throttles (ADR 015).
// While it is pulled, the process sends one request in each interval. A throttle
// doubles the interval; an answer halves it, until none is left. A nil brake is not pulled.
type brake struct {
	delay  time.Duration // the interval, 0 if the brake is not pulled
	until  time.Duration // nothing is sent before this, by [Clock.Uptime]
	tested time.Duration // nothing else is sent before this, because one request was sent
	pulled time.Duration // when it was pulled for the last time
	held   time.Duration // claims send nothing before this, because a doubling needs the partition
	before time.Duration // when it was pulled for the last time but one; 0 if never
}

// Bounds of a brake's interval, and how long a brake remembers a throttle.
const (
	MinBrake    = 10 * time.Millisecond
	MaxBrake    = time.Second
	brakeMemory = 10 * time.Second
)

func (b *brake) holds(up time.Duration) bool { return b != nil && (up < b.until || up < b.held) }

// rests reports whether the process must send nothing now, or has sent its request for
// this interval.
func (b *brake) rests(up time.Duration) bool { return b != nil && (b.holds(up) || up < b.tested) }

// test lets one request through for this interval.
func (b *brake) test(up time.Duration) {
	switch {
	case b == nil || b.delay == 0:
	case up-b.pulled > brakeMemory:
		*b = brake{}
	default:
		b.tested = up + b.delay
	}
}

// ease halves the interval.
func (b *brake) ease() {
	if b == nil {
		return
	}
	if b.delay /= 2; b.delay < MinBrake {
		*b = brake{pulled: b.pulled, held: b.held}
	}
}

// pull doubles the interval, unless the throttled request was sent before the brake was
// last pulled.
func (b *brake) pull(sent, up time.Duration, draw func(int64) int64) {
	if b.delay > 0 && sent < b.pulled {
		return
	}
	b.delay = min(MaxBrake, max(MinBrake, 2*b.delay))
	b.until = up + b.delay/2 + time.Duration(draw(int64(b.delay/2))) + 1
	b.before, b.pulled = b.pulled, up
}

// Hold keeps claims from writing to the shards that were throttled just now until an
// instant; 0 ends that. It leaves the interval as it is.
func (a *Account) Hold(up, until time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.roomLocked() {
		if s := a.knownLocked(i); s != nil && s.brake != nil && s.brake.pulled != 0 && up-s.brake.pulled < DoublingPause {
			s.brake.held = until
		}
	}
}

// Braked returns the shards that the process must not write to now.
func (a *Account) Braked(up time.Duration) (held []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.roomLocked() {
		if s := a.knownLocked(i); s != nil && s.brake.holds(up) {
			held = append(held, i)
		}
	}
	return held
}

// TestBrake records that the process is writing to a shard.
func (a *Account) TestBrake(i int, up time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shardLocked(i).brake.test(up)
}

// EaseBrake halves the interval of a shard's brake, after an answer.
func (a *Account) EaseBrake(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shardLocked(i).brake.ease()
}

// PullBrake doubles the interval of a shard's brake, because a write sent at an instant
// was throttled.
func (a *Account) PullBrake(i int, sent, up time.Duration, draw func(int64) int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(i)
	if s.brake == nil {
		s.brake = &brake{}
	}
	s.brake.pull(sent, up, draw)
}

// IsBraked reports whether the brake forbids a write to a shard now.
func (a *Account) IsBraked(i int, up time.Duration) bool { return slices.Contains(a.Braked(up), i) }
