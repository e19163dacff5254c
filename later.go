package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A demand is what a request needs of a limit that follows a schedule, on all shards.
//
// Of other limits there is only more as time passes. So a request that names several of them is
// admitted when the longest of their waits ends. A schedule may have taken away by then what such a limit
// had in between (ADR 048):
//
//	rpm     enough from 12:10 on, and none before 14:00 from 13:00 on
//	daily   enough from 13:30 on
//	both    from 14:00 on
type demand struct {
	parts []plan.Holding
	milli int64
}

// demandsOf adds the demands of a claim. A granted claim returns what it took.
func demandsOf(demands []demand, c *acquire.Claim, amounts []store.Amount, shards []*store.Image, now int64) []demand {
	for _, a := range amounts {
		params, parts := c.Terms.Holdings(nil, a.Limit, shards, now)
		if len(parts) == 0 || params.Varies == nil || a.Milli == 0 {
			continue
		}
		for _, i := range plan.MissingOf(shards) {
			parts = append(parts, plan.Holding{Limit: plan.Share(params, i, len(shards), now), At: now})
		}
		if c.Granted {
			plan.Return(parts, now, a.Milli)
		}
		demands = append(demands, demand{parts, a.Milli})
	}
	return demands
}

// laterThan is the least wait, from a given one on, after which all demands are met. If their schedules take turns
// more often than it looks, the wait is too short by the rest.
func laterThan(wait time.Duration, demands []demand, now int64) time.Duration {
	const looks = 32
	for range looks {
		longest := wait
		for _, d := range demands {
			if wait == Never {
				return Never
			}
			more := plan.WaitFor(d.parts, now+wait.Milliseconds(), d.milli)
			if more > Never-wait {
				return Never
			}
			longest = max(longest, wait+more)
		}
		if longest == wait {
			break
		}
		wait = longest
	}
	return wait
}
