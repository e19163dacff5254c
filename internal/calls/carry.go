package calls

import "context"

// Carry does the work of a counted call, and takes the call off the count. The work gets
// the context bound. Carry returns the work's result when it has ended. If ctx or bound
// ends before that, the work goes on, and Carry returns the context that ended.
//
// It is not a method of [Runner], so that a crew whose work runs inline allocates nothing
// for a call.
func Carry[T any](ctx, bound context.Context, c *Crew, work func(context.Context) (T, error)) (value T, ended context.Context, err error) {
	if c.IsInline() {
		defer c.End()
		value, err = work(bound)
		return value, nil, err
	}
	return carryApart(ctx, bound, c, work)
}

// carryApart does the work on another goroutine.
func carryApart[T any](ctx, bound context.Context, c *Crew, work func(context.Context) (T, error)) (value T, ended context.Context, err error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	c.workers.Run(func() {
		defer c.End()
		value, err := work(bound)
		done <- answer{value, err}
	})
	select {
	case a := <-done:
		return a.value, nil, a.err
	case <-ctx.Done():
		return value, ctx, nil
	case <-bound.Done():
		return value, bound, nil
	}
}
