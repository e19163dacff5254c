package loadtest

import (
	"context"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// Drive runs a load with one or more clients, for tests of the pace.
func Drive(ctx context.Context, p Pace, clients int, now func() time.Time, do func(n int64, due time.Time)) int64 {
	return load{Pace: p, clients: clients, do: func(_ context.Context, _ int, n int64, due time.Time) { do(n, due) }}.drive(ctx, now, now())
}

// Entitlement is what a bucket that starts full can admit.
func Entitlement(l limiter.Limit, d time.Duration) int64 { return entitlement(l, d.Milliseconds()) }
