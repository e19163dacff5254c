// Package acquire decides requests: it routes them to shards, debits them, settles what
// they took, and keeps the buckets that they use in order.
package acquire

import (
	"cmp"
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// Defaults of [Options].
const (
	DefaultTrust    = time.Second
	DefaultInFlight = 2
)

// Options configure a [Driver] beyond its process. The zero value works.
type Options struct {
	// Trust is how long an image may refuse. Default [DefaultTrust]; negative is never.
	Trust time.Duration
	// InFlight is the maximum number of concurrent writes to one bucket item. Default
	// [DefaultInFlight]. Negative lets every caller write for itself.
	InFlight int
}

// A Driver decides requests against a store. It is safe for concurrent use.
//
//	request ─▶ claim on the entity's bucket ─┐                    ┌─▶ debit one shard
//	        └▶ claim on its parent's bucket ─┴▶ route each alone ─┤     alone, or with the lane's crowd
//	                                                              └─▶ gather from all shards, in one transaction
//
// The two claims are carried out at the same time, and each through to its end. So a side
// may be debited whose other side refuses: what it took goes back in the background
// (refund.go). The other way, a transaction over both buckets, costs twice as much on every
// request. At a parent that many children share, transactions refuse each other.
type Driver struct {
	*process.Process

	Upkeep   *upkeep.Driver
	accounts *memory.Cache[memory.Key, *account] // a bucket that is forgotten costs one read when it is asked for again
	trust    time.Duration                       // how long an image may refuse; negative is never
	sharing  sharing                             // chosen once: the store either answers at once, or has round trips to share
}

// Buckets is the number of buckets that the driver remembers.
func (d *Driver) Buckets() int { return d.accounts.Len() }

// Memory is what the driver remembers of a bucket.
func (d *Driver) Memory(b store.Bucket) *memory.Account {
	return &d.account(b.Entity, b.Resource).Account
}

func (d *Driver) account(entity, resource string) *account {
	return d.accounts.GetOrPut(memory.Key{Entity: entity, Resource: resource}, func() *account { return &account{} })
}

// A sharing says how the callers of one process write to one bucket item. A driver
// chooses it once.
type sharing interface {
	// debit carries a claim out against the item that it was routed to.
	debit(ctx context.Context, c *Claim, left <-chan struct{}) error
	// gather carries a claim out against several shards.
	gather(ctx context.Context, c *Claim, left <-chan struct{}) error
	// adjust settles amounts on an item. It returns the tokens that exceed its capacity.
	adjust(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount) (over []store.Amount, err error)
	// isQueued reports whether callers queue. Then their refills do so too, and their
	// writes to an item that other processes write to pause.
	isQueued() bool
}

// New returns a driver for a process.
func New(p *process.Process, o Options) *Driver {
	if o.Trust == 0 {
		o.Trust = DefaultTrust
	}
	d := &Driver{
		Process: p, Upkeep: upkeep.New(p), trust: max(-1, o.Trust),
		accounts: memory.NewCache[memory.Key, *account](p.Memory),
	}
	switch {
	case p.IsInline() || o.InFlight < 0:
		d.sharing = alone{d}
	default:
		d.sharing = queued{d, cmp.Or(o.InFlight, DefaultInFlight)}
	}
	return d
}
