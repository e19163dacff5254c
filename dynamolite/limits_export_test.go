package dynamolite

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Validate returns the reason that New rejects the limits.
func (l Limits) Validate() error { return l.validate() }

// Meter returns the meter of a table or an index.
func (l Limits) Meter(now time.Time, billing types.BillingMode, p types.ProvisionedThroughput) *wall.Meter {
	if l == (Limits{}) {
		return nil
	}
	return l.meter(nil, now, billing, p)
}

// Throttle is a refusal.
type Throttle struct {
	Op      wall.Op
	Level   wall.Level
	ARN     string
	Index   string
	Billing types.BillingMode
}

func (t Throttle) throttle() request.Throttle {
	return request.Throttle{Op: t.Op, Level: t.Level, ARN: t.ARN, Index: t.Index, Billing: t.Billing}
}

// Throttled returns the error of some refusals.
func Throttled(ts ...Throttle) error {
	refusals := make([]request.Throttle, len(ts))
	for i := range ts {
		refusals[i] = ts[i].throttle()
	}
	return request.Throttled(refusals...)
}

// Cancellation returns the reason with which a refusal cancels a transaction.
func (t Throttle) Cancellation() types.CancellationReason {
	own := t.throttle()
	return own.Cancellation()
}

// Validate returns the reason that New rejects the latency.
func (l Latency) Validate() error { return l.validate() }

// Sampler draws latencies: the part before the work of a request and the part after.
func (l Latency) Sampler() func() (before, after time.Duration) { return l.sampler().next }

// Wait waits for a duration.
func Wait(ctx context.Context, d time.Duration) error { return wait(ctx, d) }
