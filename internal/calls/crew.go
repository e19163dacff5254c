package calls

import (
	"context"
	"time"
)

// A Crew does the work of a process's calls, and the work that goes on after calls have
// returned. It counts both, so that Close can wait for them (ADR 029).
type Crew struct {
	Runner

	deadlines *Deadlines
	attempts  *Deadlines // of requests that can be sent again
	tally     *Tally
	workers   Workers
	closing   chan struct{}
}

// leastAttempt is the least time that an attempt gets, if the call has it: a table that is not lost hardly ever
// takes as long, even for a new connection.
const leastAttempt = 500 * time.Millisecond

// NewCrew returns a crew that gives each call the time d. immediate says that no work
// ever waits, so that it needs no goroutine of its own.
func NewCrew(d time.Duration, immediate bool) *Crew {
	c := &Crew{deadlines: NewDeadlines(d), attempts: NewDeadlines(max(d/parts, leastAttempt)), tally: NewTally(), closing: make(chan struct{})}
	c.Runner = apart{c}
	if immediate {
		c.Runner = inline{c}
	}
	return c
}

// IsInline reports whether work runs on its caller's goroutine, because it never waits.
func (c *Crew) IsInline() bool {
	_, ok := c.Runner.(inline)
	return ok
}

// Begin counts a call, unless the crew is closed.
func (c *Crew) Begin() bool { return c.tally.Begin() }

// End takes a call off the count.
func (c *Crew) End() { c.tally.End() }

// IsClosed reports whether the crew takes no more calls.
func (c *Crew) IsClosed() bool { return c.tally.IsClosed() }

// UnderWay is the number of calls and pieces of work under way.
func (c *Crew) UnderWay() int64 { return c.tally.UnderWay() }

// Closing is closed as Close begins. It ends background work that can wait.
func (c *Crew) Closing() <-chan struct{} { return c.closing }

// Time is the most time that a call gets.
func (c *Crew) Time() time.Duration { return c.deadlines.Time() }

// Attempt is the time of the first attempt at what can be sent again: an eighth of the time, and no less than
// half a second.
func (c *Crew) Attempt() time.Duration { return c.attempts.Time() }

// Part is an eighth of the time. It suits waits that must be short.
func (c *Crew) Part() time.Duration { return c.deadlines.Part() }

// Detach returns a context with the values of a call, and with a deadline of its own
// instead of the call's end.
func (c *Crew) Detach(ctx context.Context) context.Context { return c.deadlines.Detach(ctx) }

// Bound is Detach for a caller that has room for the context.
func (c *Crew) Bound(ctx context.Context) Detached { return c.deadlines.Bound(ctx) }

// Run does the work of a counted call on a goroutine of its own. The work ends with
// [Crew.End].
func (c *Crew) Run(work func()) { c.workers.Run(work) }

// InBackground does work for which nobody waits. A call under way begins it.
func (c *Crew) InBackground(work func()) {
	c.tally.More()
	c.workers.Run(func() {
		defer c.End()
		work()
	})
}

// Close takes no more calls, and waits for the calls and the work under way. After most
// of the time it cuts them off, with a cause, and reports that. When Close has returned,
// no goroutine of the crew is left. Call it once.
func (c *Crew) Close(most time.Duration, why error) (cutOff bool) {
	c.tally.Close()
	close(c.closing)
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-c.tally.Empty():
	case <-t.C:
		cutOff = true
	}
	c.deadlines.End(why)
	c.attempts.End(why)
	<-c.tally.Empty()
	c.workers.Close()
	return cutOff
}
