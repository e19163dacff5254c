package plan

import (
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Demand is what a request needs of a limit that follows a schedule, on all shards.
//
// Of other limits there is only more as time passes. So a request that names several of them
// is admitted when the longest of their waits ends. A schedule may have taken away by then
// what such a limit had in between (ADR 048):
//
//	rpm     enough from 12:10 on, and none from 13:00 to 14:00
//	daily   enough from 13:30 on
//	both    from 14:00 on
type Demand struct {
	parts []Holding
	milli int64
}

// Demands adds what amounts demand of limits that follow a schedule. A nil shard is missing
// and will open empty. If the amounts were granted, they are returned first.
func (t *Terms) Demands(demands []Demand, amounts []store.Amount, granted bool, shards []*store.Image, now int64) []Demand {
	for _, a := range amounts {
		params, parts := t.Holdings(nil, a.Limit, shards, now)
		if len(parts) == 0 || params.Varies == nil || a.Milli == 0 {
			continue
		}
		for _, i := range MissingOf(shards) {
			parts = append(parts, Holding{Limit: Share(params, i, len(shards), now), At: now})
		}
		if granted {
			giveBack(parts, now, a.Milli)
		}
		demands = append(demands, Demand{parts, a.Milli})
	}
	return demands
}

// giveBack gives to the parts what was taken of them at an instant: as much as each has room for.
// Nothing was taken of a part that owes something, as long as others have the room.
func giveBack(parts []Holding, now, milli int64) {
	for _, owes := range []bool{false, true} {
		for i := range parts {
			p := &parts[i]
			at := max(p.At, now) // a stamp may lie ahead: the credit finds the capacity of that time
			held := p.Balance(p.Tokens, p.At, at)
			if held < 0 != owes {
				continue
			}
			room := p.Limit.At(at).Room(held, milli)
			p.Tokens, p.At = held+room, at
			milli -= room
		}
	}
}

// WaitForAll is the least wait, from a given one on, after which all demands are met. If
// their schedules take turns more often than it looks, the wait is too short by the rest.
func WaitForAll(demands []Demand, now int64, wait time.Duration) time.Duration {
	const looks = 32
	for range looks {
		longest := wait
		for _, d := range demands {
			if wait == Never {
				return Never
			}
			more := WaitFor(d.parts, now+wait.Milliseconds(), d.milli)
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
