package limiter

import (
	"context"
	"errors"
	"fmt"
)

// errCutOff is why what goes on for too long after Close has begun is ended. Unlike
// [ErrClosed] it does not say that nothing was done.
var errCutOff = errors.New("cut off because the limiter is being closed")

// closedFor is the error of a call that has nothing to do: nil before Close.
func (l *Limiter) closedFor(what string) error {
	if l.underWay.IsClosed() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return nil
}

// inTime does work that may outlive its call, on a goroutine of its own and within
// [Options.Timeout]. The call returns when the work is done, when its context ends or when
// the time is up, whichever comes first. The error of a call that does not wait for the
// end names the work as what says.
//
// A store that never waits is called at once.
func inTime[T any](ctx context.Context, l *Limiter, what string, work func(context.Context) (T, error)) (T, error) {
	if !l.underWay.Begin() {
		return *new(T), fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return carryOut(ctx, l, what, work)
}

// carryOut is inTime for a call that is counted already.
func carryOut[T any](ctx context.Context, l *Limiter, what string, work func(context.Context) (T, error)) (T, error) {
	bound := l.deadlines.Detach(ctx)
	if l.immediate {
		defer l.underWay.End()
		return work(bound)
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	l.workers.Run(func() {
		defer l.underWay.End()
		value, err := work(bound)
		done <- answer{value, err}
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return *new(T), outOfTime(ctx, what)
	case <-bound.Done():
		return *new(T), outOfTime(bound, what)
	}
}

// outOfTime is the error of a call that returns because a context has ended: a
// deadline that passed counts as the store not answering in time.
func outOfTime(ended context.Context, what string) error {
	if why := context.Cause(ended); errors.Is(ended.Err(), context.Canceled) && !errors.Is(why, errCutOff) {
		return fmt.Errorf("%s: %w", what, why)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, context.Cause(ended))
}

// inBackground does work that nobody waits for, begun by a call that is under way.
func (l *Limiter) inBackground(work func()) {
	l.underWay.More()
	l.workers.Run(func() {
		defer l.underWay.End()
		work()
	})
}
