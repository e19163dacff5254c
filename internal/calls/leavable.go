package calls

import (
	"context"
	"errors"
	"time"
)

// A Leavable is the context of one request whose caller waits for the answer on its own
// goroutine, and may leave before it comes (ADR 038):
//
//	caller   sends ── waits ── is interrupted: [ErrGoesOn] ──▶ returns
//	worker                          └─ takes the rest, waits on ── answer
//
// Code under such a context waits for the network only where it can release the caller at any
// time, see [Leavable.OnLeave]. Once the caller leaves, the code keeps what it has in the context
// ([Leavable.Keep]) and fails with [ErrGoesOn]. Another goroutine then makes the same request
// again, with the context of [Leavable.Apart]. That request sends nothing: it takes the rest and
// goes on. Where the code could not release the caller, it fails with [ErrApart] and sends
// nothing.
//
// A caller with two requests has a Leavable for each. Under [Leavable.Begin] a request ends with
// [ErrGoesOn] once it was sent, and under [Leavable.GoOn] the caller itself goes on with it:
//
//	caller   sends the first ── sends the second ── waits for the second ── waits for the first
//
// One goroutine at a time uses it.
type Leavable struct {
	Detached

	caller context.Context //nolint:containedctx // whose end is the caller's leaving
	within context.Context //nolint:containedctx // that ends this request; nil if Detached does
	stage  stage
	rest   any           // of a request that goes on
	made   bool          // the request, at an instant
	since  time.Duration // that instant, by the clock of who sends the request
}

// A stage is what the goroutine of a request does with it.
type stage uint8

const (
	carries stage = iota // all for which its caller, who waits there, can leave at any time
	begins               // the same, but it only sends
	goesOn               // all: the caller waits there no longer
)

var (
	// ErrGoesOn says that a request was sent, and must be made again to go on: by another
	// goroutine, if the caller has left or the outcome needs further steps, or by the same one
	// after [Leavable.Begin].
	ErrGoesOn = errors.New("the request goes on when it is made again")
	// ErrApart says that a request was not made, because its caller could not leave it.
	ErrApart = errors.New("the request needs a goroutine of its own")
	// ErrUnsent says that a request failed before anything of it was sent.
	ErrUnsent = errors.New("nothing was sent")
)

// IsUnanswered reports whether a request must go on, or be made on another goroutine.
func IsUnanswered(err error) bool { return errors.Is(err, ErrGoesOn) || errors.Is(err, ErrApart) }

// NewLeavable returns the context of a request of a caller, bounded like [Crew.Bound].
func (c *Crew) NewLeavable(caller context.Context) Leavable {
	return Leavable{Detached: c.Bound(caller), caller: caller}
}

// Another returns a Leavable for another request of the same caller.
func (l *Leavable) Another() *Leavable { return &Leavable{Detached: l.Detached, caller: l.caller} }

// Limit gives the request no more than the time of an attempt, because it can be sent again. The rest of the
// call still has the time of Detached.
func (c *Crew) Limit(l *Leavable) {
	if c.Attempt() < c.Time() {
		l.within = c.attempts.span()
	}
}

// First is [Crew.Limit] for a context of [Crew.Detach], which needs no timer of its own.
func (c *Crew) First(ctx context.Context) (context.Context, context.CancelFunc) {
	d, ok := ctx.(*Detached)
	if !ok {
		return context.WithTimeout(ctx, c.Attempt())
	}
	span := c.attempts.span()
	if end, ok := d.Deadline(); ok {
		if first, _ := span.Deadline(); !first.Before(end) {
			return ctx, func() {}
		}
	}
	return &Detached{span, d.values}, func() {}
}

// bound is the context that ends the request.
func (l *Leavable) bound() context.Context {
	if l.within != nil {
		return l.within
	}
	return l.Context
}

// Deadline returns when the request ends.
func (l *Leavable) Deadline() (time.Time, bool) { return l.bound().Deadline() }

// Done is closed when the request ends.
func (l *Leavable) Done() <-chan struct{} { return l.bound().Done() }

// Err says whether and why the request has ended.
func (l *Leavable) Err() error { return l.bound().Err() }

type leavableKey struct{}

// LeavableOf returns the Leavable that ctx is, or was made from; nil if there is none.
func LeavableOf(ctx context.Context) *Leavable {
	l, _ := ctx.Value(leavableKey{}).(*Leavable)
	return l
}

// MustLeave reports whether a request under ctx must let its caller leave at any time.
func MustLeave(ctx context.Context) bool {
	l := LeavableOf(ctx)
	return l != nil && l.stage != goesOn
}

// Begins reports whether a request under ctx must be sent only.
func Begins(ctx context.Context) bool {
	l := LeavableOf(ctx)
	return l != nil && l.stage == begins
}

// Since returns when the request under ctx was made first: now, unless it goes on.
func Since(ctx context.Context, now time.Duration) time.Duration {
	l := LeavableOf(ctx)
	if l == nil {
		return now
	}
	if !l.made {
		l.made, l.since = true, now
	}
	return l.since
}

// Value returns the Leavable itself, or a value of its call.
func (l *Leavable) Value(key any) any {
	if key == (leavableKey{}) {
		return l
	}
	if v := l.bound().Value(key); v != nil { // as for [Detached.Value]
		return v
	}
	return l.values.Value(key)
}

// OnLeave calls f on another goroutine if the caller leaves. stop reports whether f has not
// been called, and will not be.
func (l *Leavable) OnLeave(f func()) (stop func() bool) {
	if l.caller.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(l.caller, f)
}

// Keep keeps the rest of a request that goes on.
func (l *Leavable) Keep(rest any) { l.rest = rest }

// Rest takes what was kept; nil if there is nothing.
func (l *Leavable) Rest() (rest any) {
	rest, l.rest = l.rest, nil
	return rest
}

// Begin returns the context under which the request is only sent.
func (l *Leavable) Begin() context.Context { return l.at(begins) }

// GoOn returns the context under which the caller goes on with a request that was only sent.
func (l *Leavable) GoOn() context.Context { return l.at(carries) }

// Apart returns the context for the goroutine that goes on. It cannot be left.
func (l *Leavable) Apart() context.Context { return l.at(goesOn) }

func (l *Leavable) at(s stage) context.Context {
	l.stage = s
	return l
}
