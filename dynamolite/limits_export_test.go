package dynamolite

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Validate is what New refuses limits for.
func (l Limits) Validate() error { return l.validate() }

// Meter is the meter of a table or an index.
func (l Limits) Meter(now time.Time, billing types.BillingMode, p types.ProvisionedThroughput) *wall.Meter {
	return l.meter(now, billing, p)
}

// Throttle is a refusal.
type Throttle struct {
	Op      wall.Op
	Level   wall.Level
	ARN     string
	Index   string
	Billing types.BillingMode
}

func (t Throttle) throttle() throttle {
	return throttle{op: t.Op, level: t.Level, arn: t.ARN, index: t.Index, billing: t.Billing}
}

// Throttled is the error of some refusals.
func Throttled(ts ...Throttle) error {
	refusals := make([]throttle, len(ts))
	for i := range ts {
		refusals[i] = ts[i].throttle()
	}
	return throttled(refusals...)
}

// Cancellation is the reason that a refusal cancels a transaction for.
func (t Throttle) Cancellation() types.CancellationReason {
	own := t.throttle()
	return own.cancellation()
}

// Validate is what New refuses a latency for.
func (l Latency) Validate() error { return l.validate() }

// Sampler draws latencies: the part before the work of a request and the part after.
func (l Latency) Sampler() func() (before, after time.Duration) { return l.sampler().next }

// Wait lets a duration pass.
func Wait(ctx context.Context, d time.Duration) error { return wait(ctx, d) }
