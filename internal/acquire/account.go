package acquire

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// accounts are the accounts of the buckets that the process used last. A bucket that is
// forgotten costs one read when it is asked for again.
type accounts struct {
	cache *memory.Cache[memory.Key, *account]
	trust time.Duration // how long an image may refuse; negative is never
}

// of returns the account of a bucket, and makes it if there is none.
func (a *accounts) of(entity, resource string) *account {
	return a.cache.GetOrPut(memory.Key{Entity: entity, Resource: resource}, func() *account { return &account{} })
}

// An account is what a process has of an entity's bucket for a resource: its memory of
// the bucket, and the queues of the callers that wait for it.
//
// Two accounts of one bucket may be in use for a while, if the cache has dropped one whose
// callers are still waiting. They share less then, and pause as two processes do: the item
// keeps them apart, as it keeps processes apart.
type account struct {
	memory.Account

	// The Inspector's:
	comparisons comparisons
	verifying   calls.Flight // reads of the configuration before a repair

	// The writer's:
	gathers lane.Lane[*Claim] // the callers that several shards are to serve

	mu     sync.Mutex
	queues []*queues // by shard
}

// queues are the queues of one bucket item.
type queues struct {
	takes     lane.Lane[*Claim] // the writer's
	refilling calls.Flight      // the writer's
	credits   lane.Lane[*Claim] // the [Settler]'s
}

// at returns the queues of a shard.
func (a *account) at(shard int) *queues {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queues) <= shard {
		a.queues = append(a.queues, &queues{})
	}
	return a.queues[shard]
}

// A Request is what a caller asks of one entity's bucket, and of its parent's.
type Request struct {
	Entity, Resource string
	Consume          map[string]int64 // tokens by limit name
	Fallback         []store.Limit    // see [plan.Want]
	// By is until when the caller waits for its turn at a shared bucket, and for tokens
	// that the bucket has not earned yet, by the uptime. See [Driver.WaitsUntil].
	By time.Duration
}

// claim makes the claim of a request on its entity's bucket.
func (a *accounts) claim(req *Request) *Claim {
	want := plan.Want{Asked: claimAmounts(req.Consume)}
	if len(req.Fallback) > 0 {
		want.Fallback = slices.SortedFunc(slices.Values(req.Fallback), func(a, b store.Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	return a.newClaim(req, req.Entity, want)
}

// parentClaim makes the claim of a request on the bucket of the entity's parent, if
// the parent has limits.
func (a *accounts) parentClaim(req *Request, parent string) *Claim {
	return a.newClaim(req, parent, plan.Want{Asked: claimAmounts(req.Consume), Optional: true})
}

func (a *accounts) newClaim(req *Request, entity string, want plan.Want) *Claim {
	return &Claim{
		Bucket: store.Bucket{Entity: entity, Resource: req.Resource}, acct: a.of(entity, req.Resource),
		want: want, by: req.By, Terms: want.Under(nil),
	}
}

// claimAmounts returns a request's amounts by limit name, in millitokens.
func claimAmounts(consume map[string]int64) []store.Amount {
	amounts := make([]store.Amount, 0, len(consume))
	for name, tokens := range consume {
		i := len(amounts)
		amounts = append(amounts, store.Amount{})
		for ; i > 0 && strings.Compare(amounts[i-1].Limit, name) > 0; i-- {
			amounts[i] = amounts[i-1]
		}
		amounts[i] = store.Amount{Limit: name, Milli: tokens * store.Milli}
	}
	return amounts
}
