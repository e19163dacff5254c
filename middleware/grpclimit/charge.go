package grpclimit

import (
	"context"
	"errors"
	"sync/atomic"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// A charge is what one call has taken. Its methods may be called concurrently: one goroutine
// of a stream sends and one receives.
type charge struct {
	costs *costs
	call  *Call
	lease *limiter.Lease
	// outer is the admission of an interceptor around this one; nil if there is none.
	outer *admission.Admission
	// refused is the error of the first message that was refused. It ends the stream.
	refused atomic.Pointer[callError]
}

// take takes what a message costs. After a refusal it fails with that refusal.
func (c *charge) take(ctx context.Context, cost MessageCost, message any) error {
	if refused := c.refused.Load(); refused != nil {
		return refused
	}
	if cost == nil {
		return nil
	}
	tokens := cost(ctx, c.call, message)
	if len(tokens) == 0 {
		return nil
	}
	if c.costs.unenforced {
		for limit, n := range tokens {
			if err := c.lease.Adjust(limit, n); err != nil && !errors.Is(err, limiter.ErrLeaseClosed) {
				c.costs.Notices.Tell(ctx, "message not charged", err, "method", c.call.Method, "limit", limit)
			}
		}
		return nil
	}
	err := c.lease.Take(ctx, tokens)
	if err == nil || errors.Is(err, limiter.ErrLeaseClosed) { // the handler has ended the lease itself
		return nil
	}
	c.refused.CompareAndSwap(nil, c.errorOf(ctx, err))
	return c.refused.Load()
}

// settle sets what the call used, and commits. The context of the call may have ended: what
// was taken is settled nevertheless, within the limiter's timeout.
func (c *charge) settle(ctx context.Context, answer any, failed error) {
	ctx = context.WithoutCancel(ctx)
	var used map[string]int64
	if c.costs.settle != nil {
		used = c.costs.settle(ctx, c.call, &Outcome{Answer: answer, Err: failed})
	}
	c.report(ctx, admission.Settle(ctx, c.lease, used))
}

// giveBack returns what the call took.
func (c *charge) giveBack(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	c.report(ctx, c.lease.Rollback(ctx))
}

func (c *charge) report(ctx context.Context, err error) {
	if err != nil {
		c.costs.Notices.Tell(ctx, "lease not settled", err, "method", c.call.Method)
	}
}
