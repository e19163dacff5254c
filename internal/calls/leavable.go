package calls

import (
	"context"
	"errors"
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
// One goroutine at a time uses it.
type Leavable struct {
	Detached

	caller context.Context //nolint:containedctx // whose end is the caller's leaving
	rest   any             // of a request that goes on
	apart  bool            // the caller waits no longer on the goroutine of the request
}

var (
	// ErrGoesOn says that a request was sent, and that another goroutine must go on with it:
	// the caller has left, or the outcome needs further steps.
	ErrGoesOn = errors.New("another goroutine goes on with the request")
	// ErrApart says that a request was not made, because its caller could not leave it.
	ErrApart = errors.New("the request needs a goroutine of its own")
)

// IsUnanswered reports whether a request must go on, or be made, on another goroutine.
func IsUnanswered(err error) bool { return errors.Is(err, ErrGoesOn) || errors.Is(err, ErrApart) }

// NewLeavable returns the context of a request of a caller, bounded like [Crew.Bound].
func (c *Crew) NewLeavable(caller context.Context) Leavable {
	return Leavable{Detached: c.Bound(caller), caller: caller}
}

type leavableKey struct{}

// LeavableOf returns the Leavable that ctx is, or was made from; nil if there is none.
func LeavableOf(ctx context.Context) *Leavable {
	l, _ := ctx.Value(leavableKey{}).(*Leavable)
	return l
}

// MustLeave reports whether a request under ctx must let its caller leave at any time.
func MustLeave(ctx context.Context) bool {
	l := LeavableOf(ctx)
	return l != nil && !l.apart
}

// GoesOn reports whether a request under ctx may have been sent by another goroutine before.
func GoesOn(ctx context.Context) bool {
	l := LeavableOf(ctx)
	return l != nil && l.apart
}

// Value returns the Leavable itself, or a value of its call.
func (l *Leavable) Value(key any) any {
	if key == (leavableKey{}) {
		return l
	}
	return l.Detached.Value(key)
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

// Apart returns the context for the goroutine that goes on. It cannot be left.
func (l *Leavable) Apart() context.Context {
	l.apart = true
	return l
}
