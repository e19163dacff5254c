package acquire

import (
	"slices"
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
// the bucket, and the desk of the callers that work on it.
//
// Two accounts of one bucket may be in use for a while, if the cache has dropped one whose
// callers are still waiting. They share less then, and pause as two processes do: the item
// keeps them apart, as it keeps processes apart.
type account struct {
	memory.Account

	mu sync.Mutex
	// desk is nil while nobody is at it and a new one would do. Most of the accounts that a
	// process remembers have none.
	desk *desk
}

// A desk is where the callers of one bucket wait for each other. A caller enters
// before it uses the desk, and leaves after that.
type desk struct {
	users int // that have entered and not left; the account's mu guards it

	// The Inspector's:
	comparisons comparisons
	verifying   calls.Flight // reads of the configuration before a repair

	// The writer's:
	gathers lane.Lane[*Claim] // the callers that several shards are to serve

	first  queues     // of shard 0
	mu     sync.Mutex // guards others
	others []*queues  // of the shards from 1 on
}

// queues are the queues of one bucket item.
type queues struct {
	takes     lane.Lane[*Claim] // the writer's
	refilling calls.Flight      // the writer's
	credits   lane.Lane[*Claim] // the [Settler]'s
}

// desks are zero. They spare every lone caller an allocation.
var desks = sync.Pool{New: func() any { return &desk{} }}

// enter returns the desk, and makes it if there is none. The caller must leave.
func (a *account) enter() *desk {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.desk == nil {
		a.desk = desks.Get().(*desk) //nolint:errcheck,forcetypeassert // the pool has nothing else
	}
	a.desk.users++
	return a.desk
}

// leave gives the desk up if the caller was the last one at it, unless it has something to
// tell the next one.
func (a *account) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.desk
	if d.users--; d.users > 0 || !d.isBlank() {
		return
	}
	*d = desk{}
	desks.Put(d)
	a.desk = nil
}

// waiting is how many callers wait for writes to shard 0, or write.
func (a *account) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.desk == nil {
		return 0
	}
	return a.desk.first.takes.Waiting()
}

// at returns the queues of a shard.
func (d *desk) at(shard int) *queues {
	if shard == 0 {
		return &d.first
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.others) < shard {
		d.others = append(d.others, &queues{})
	}
	return d.others[shard-1]
}

// isBlank reports whether a new desk would do as well.
func (d *desk) isBlank() bool {
	return d.comparisons.areBlank() && d.gathers.IsBlank() && d.first.areBlank() &&
		!slices.ContainsFunc(d.others, func(q *queues) bool { return !q.areBlank() })
}

func (q *queues) areBlank() bool { return q.takes.IsBlank() && q.credits.IsBlank() }
