package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// ClosedFor is the error of a call that has nothing to do: nil before Close.
func (p *Process) ClosedFor(what string) error {
	if p.IsClosed() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return nil
}

// InTime does work that may outlive its call, within the time of a call. It returns when
// the work is done, when its context ends or when the time is up, whichever comes first.
// If it returns before the work is done, its error names the work by the parameter what.
func InTime[T any](ctx context.Context, p *Process, what string, work func(context.Context) (T, error)) (T, error) {
	if !p.Begin() {
		return *new(T), fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return CarryOut(ctx, p, what, work)
}

// CarryOut is InTime for a call that is already counted.
func CarryOut[T any](ctx context.Context, p *Process, what string, work func(context.Context) (T, error)) (T, error) {
	value, ended, err := calls.Carry(ctx, p.Detach(ctx), p.Crew, work)
	if ended != nil { // the work goes on
		return value, OutOfTime(ended, what)
	}
	return value, err
}

// OutOfTime is the error of a call that returns because a context has ended. If a
// deadline passed, the error says that the store did not answer in time.
func OutOfTime(ended context.Context, what string) error {
	if why := context.Cause(ended); errors.Is(ended.Err(), context.Canceled) && !errors.Is(why, errCutOff) {
		return fmt.Errorf("%s: %w", what, why)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, context.Cause(ended))
}

// OpOn names an operation on a bucket item, for errors.
func OpOn(b store.Bucket, verb string) string {
	return fmt.Sprintf("%s shard %d of %s of %s", verb, b.Shard, b.Resource, b.Entity)
}
