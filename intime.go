package limiter

import (
	"context"
	"errors"
	"fmt"
)

// errCutOff is the cause when Close ends work that has gone on for too long. Unlike
// [ErrClosed], it does not say that nothing was done.
var errCutOff = errors.New("cut off because the limiter is being closed")

// closedFor is the error of a call that has nothing to do: nil before Close.
func (l *Limiter) closedFor(what string) error {
	if l.underWay.IsClosed() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return nil
}

// inTime does work that may outlive its call, on its own goroutine and within
// [Options.Timeout]. The call returns when the work is done, when its context ends or
// when the time is up, whichever comes first. If the call returns before the work is
// done, its error names the work by the parameter what.
//
// If the store never waits, inTime does the work on the caller's goroutine.
func inTime[T any](ctx context.Context, l *Limiter, what string, work func(context.Context) (T, error)) (T, error) {
	if !l.underWay.Begin() {
		return *new(T), fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return carryOut(ctx, l, what, work)
}

// carryOut is inTime for a call that is already counted.
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

// outOfTime is the error of a call that returns because a context has ended. If a
// deadline passed, the error says that the store did not answer in time.
func outOfTime(ended context.Context, what string) error {
	if why := context.Cause(ended); errors.Is(ended.Err(), context.Canceled) && !errors.Is(why, errCutOff) {
		return fmt.Errorf("%s: %w", what, why)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, context.Cause(ended))
}

// inBackground does work for which nobody waits. A call under way begins it.
func (l *Limiter) inBackground(work func()) {
	l.underWay.More()
	l.workers.Run(func() {
		defer l.underWay.End()
		work()
	})
}
