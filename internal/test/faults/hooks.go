package faults

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// On applies a hook to some operations; the others pass.
func On(h Hook, ops ...string) Hook {
	return When(func(c *Call) bool { return slices.Contains(ops, c.Op) }, h)
}

// When applies a hook to the calls for which is returns true; the others pass.
func When(is func(*Call) bool, h Hook) Hook {
	return func(ctx context.Context, c *Call, next Next) error {
		if !is(c) {
			return next(ctx)
		}
		return h(ctx, c, next)
	}
}

// Chain is several hooks as one, the first one first.
func Chain(hooks ...Hook) Hook {
	return func(ctx context.Context, c *Call, next Next) error { return run(ctx, c, hooks, next) }
}

// Before calls f before each request. An error of f fails the request, which then never
// reaches the table.
func Before(f func(*Call) error) Hook {
	return func(ctx context.Context, c *Call, next Next) error {
		if err := f(c); err != nil {
			return err
		}
		return next(ctx)
	}
}

// After calls f with the result of each request. The sender gets the error that f
// returns: f returns its argument to leave it alone.
func After(f func(*Call, error) error) Hook {
	return func(ctx context.Context, c *Call, next Next) error { return f(c, next(ctx)) }
}

// Fail fails every request before it reaches the table.
func Fail(err error) Hook { return Before(func(*Call) error { return err }) }

// LoseAnswer lets every request take effect and fails it then. The sender gets the
// table's own error if there is one.
func LoseAnswer(err error) Hook {
	return After(func(_ *Call, got error) error {
		if got != nil {
			return got
		}
		return err
	})
}

// Hang never answers. The request does not reach the table, and fails when its context
// ends.
func Hang(ctx context.Context, _ *Call, _ Next) error {
	<-ctx.Done()
	return ctx.Err()
}

// Latency delays every request by the time of a round trip: half of it before the request
// reaches the table, half of it before its answer. A request whose context ends meanwhile
// fails at once; in the second half it has taken effect.
func Latency(roundTrip time.Duration) Hook { return Delay(roundTrip/2, roundTrip/2) }

// Delay delays every request by a time each way, as [Latency] does.
func Delay(there, back time.Duration) Hook {
	return func(ctx context.Context, _ *Call, next Next) error {
		if err := sleep(ctx, there); err != nil {
			return err
		}
		err := next(ctx)
		if lost := sleep(ctx, back); lost != nil {
			return lost
		}
		return err
	}
}

// sleep waits, or returns the error of a context that ends before. A duration of 0 waits
// for nothing, and does not look at the context.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 && calls.Sleep(ctx, nil, d) != nil {
		return ctx.Err()
	}
	return nil
}

// A Slot is a place for a hook that a test may replace while requests are under way. The
// zero value is empty and passes every call on.
type Slot struct{ hook atomic.Pointer[Hook] }

// Set puts a hook in the slot, for the calls from now on. nil empties it.
func (s *Slot) Set(h Hook) {
	if h == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&h)
}

// Apply is the [Hook] that applies the hook in the slot.
func (s *Slot) Apply(ctx context.Context, c *Call, next Next) error {
	if h := s.hook.Load(); h != nil {
		return (*h)(ctx, c, next)
	}
	return next(ctx)
}
