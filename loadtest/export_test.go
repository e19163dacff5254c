package loadtest

import (
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest/result"
	"github.com/zeroae/zae-limiter-go/store"
)

// Unreliable says why the figures of a result are not those of the limiter.
func Unreliable(r *result.Result, maxLag time.Duration) string { return unreliable(r, maxLag) }

// Entitlement is what a bucket that starts full can admit.
func Entitlement(l store.Limit, d time.Duration) int64 { return entitlement(l, d.Milliseconds()) }
