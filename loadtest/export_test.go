package loadtest

import (
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest/result"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// Unreliable says why the figures of a result are not those of the limiter.
func Unreliable(r *result.Result, maxLag time.Duration) string { return unreliable(r, maxLag) }

// Busiest is the entity whose bucket the books take for the busiest one, after requests for
// some entities.
func Busiest(p *scenario.Plan, entities []int) int {
	b := newBooks(p)
	for _, e := range entities {
		n := len(p.Resources[0].Limits)
		b.begin(&scenario.Op{Entity: e, Consume: make([]int64, n), Settle: make([]int64, n)}, time.Now())
	}
	return b.busiest[0].Load().entity
}

// Entitlement is what a bucket that starts full can admit.
func Entitlement(l store.Limit, d time.Duration) int64 { return entitlement(l, d.Milliseconds()) }
