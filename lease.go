package limiter

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
)

// A Lease is what an acquire took. Use it like a transaction. Adjust it to what was
// really used, then [Lease.Commit] it. [Lease.Rollback] returns what was taken, does
// nothing after a commit, and is safe to defer.
//
// A lease holds no resources. A dropped lease stays as if committed without
// adjustments. A lease is safe for concurrent use. Methods without a context never
// wait, not even for a commit under way.
type Lease struct {
	limiter  *Limiter
	entity   string
	degraded bool
	// pending is the acquisition that may still debit the amounts requested from a
	// degraded lease; nil if none will.
	pending *acquisition

	mu      sync.Mutex // held briefly, never during a wait
	state   leaseState
	settled chan struct{} // closed when the state is no longer leaseSettling
	// The entries' totals change under mu while the lease is open. All other fields
	// below belong to the goroutine that settles the lease.
	sides []acquire.Taken // of the entity's bucket, then of its parent's
	room  [2]acquire.Taken
}

// A leaseState is the state of a lease.
type leaseState uint8

const (
	leaseOpen     leaseState = iota
	leaseSettling            // a commit or rollback is under way
	leaseClosed
)

func newLease(l *Limiter, req *Request, child, parent *acquire.Claim) *Lease {
	lease := &Lease{limiter: l, entity: req.Entity}
	lease.sides = lease.room[:0]
	for _, c := range [...]*acquire.Claim{child, parent} {
		if c != nil && c.Granted {
			lease.sides = lease.sides[:len(lease.sides)+1]
			lease.sides[len(lease.sides)-1].Init(l.driver, c)
		}
	}
	return lease
}

// Degraded reports whether the lease was granted without the store. Nothing is metered
// then, so Statuses and Consumed are empty.
//
// The acquire may still be under way, and may still debit the requested amounts. If it
// does, the lease decides about the debit: a commit keeps it, with the adjustments, and
// a rollback returns it. Commit does not wait for that, and succeeds at once.
func (l *Lease) Degraded() bool { return l.degraded }

// Statuses returns the limits named by the request as the acquire left them, first the
// entity's and then its parent's. If a bucket has several shards, the shards that the
// acquire did not touch count as this process last saw them.
func (l *Lease) Statuses() []Status {
	var statuses []Status
	for i := range l.sides {
		if c := l.sides[i].Claim; c != nil {
			statuses = append(statuses, statusesOf(c, c.Shards(l.limiter.driver.Uptime()), c.At)...)
		}
	}
	return statuses
}

// Consumed returns what the lease has taken of each limit, in tokens, adjustments
// included. It counts the lease's own entity, or the parent where only the parent has
// the limit.
func (l *Lease) Consumed() map[string]int64 {
	consumed := make(map[string]int64)
	if l.degraded {
		return consumed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.sides {
		for _, e := range l.sides[i].Entries {
			if _, ok := consumed[e.Limit]; !ok {
				consumed[e.Limit] = e.Total / milli
			}
		}
	}
	return consumed
}

// Adjust changes the tokens that the lease takes of a limit by delta. A positive delta
// takes more, into debt if necessary; a negative one takes less, at least 0. The change
// is local until [Lease.Commit]. The request must have named the limit. A debt ends at
// four times [MaxTokens] a shard: tokens taken beyond that count as consumed, but the
// shard does not owe them.
//
// Adjust fails with [ErrLeaseClosed] once a commit or rollback has begun. If that
// leaves the lease open, Adjust works again.
func (l *Lease) Adjust(limit string, delta int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != leaseOpen {
		return fmt.Errorf("adjust %s: %w", limit, ErrLeaseClosed)
	}
	found := false
	for i := range l.sides {
		for _, e := range l.sides[i].Entries {
			if e.Limit != limit {
				continue
			}
			found = true
			if delta > MaxTokens || delta < -MaxTokens || e.Total+delta*milli > MaxTokens*milli || e.Total+delta*milli < 0 {
				return &ValidationError{
					Field: "adjust " + limit, Value: strconv.FormatInt(delta, 10),
					Reason: fmt.Sprintf("keep what the lease takes, now %d, between 0 and %d tokens", e.Total/milli, int64(MaxTokens)),
				}
			}
		}
	}
	if !found {
		return &ValidationError{
			Field: "adjust", Value: limit,
			Reason: "the request did not name this limit; name it in Consume, with an amount of 0 if need be",
		}
	}
	for i := range l.sides {
		for j := range l.sides[i].Entries {
			if e := &l.sides[i].Entries[j]; e.Limit == limit {
				e.Total += delta * milli
			}
		}
	}
	return nil
}
