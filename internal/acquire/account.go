package acquire

import (
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
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
