// Package acquire decides requests: it routes them to shards, debits them, settles what
// they took, and keeps the buckets that they use in order.
//
// Four types divide the work. Each touches the buckets in one way only, and states what
// always holds of that:
//
//   - a [Driver] decides requests, of the entity's bucket and its parent's;
//   - its writer debits one claim, whole or not at all;
//   - a [Settler] writes the difference between what was taken and what is to be taken;
//   - an [Inspector] reads, and writes nothing.
package acquire

import (
	"cmp"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
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
	// Outage is what the process admits while the store is away.
	Outage OutageOptions
}

// A Driver decides requests against a store. It is safe for concurrent use.
//
//	request ─▶ claim on the entity's bucket ─┐                        ┌─▶ debit one shard: a pursuit alone,
//	        └▶ claim on its parent's bucket ─┴▶ pursue each alone ─▶ route     or a crowd of the lane
//	                                             │        ▲            └─▶ debit several: a gathering
//	                                             ▼        │
//	                                         compare with the configuration, at the same time
//
// Top to bottom, for one claim:
//
//  1. Adopt the configuration that is remembered. If that is older than its time to live,
//     begin to read it again, and go on meanwhile (compare.go).
//  2. Choose a shard by the last images (route.go).
//  3. Wait in the shard's lane while other callers of the process write to it. The caller
//     at the front writes for all that wait (sharing.go, crowd.go).
//  4. Plan a write from the last image, and send it. The item applies it, or refuses it and
//     shows what it holds; then plan again (pursuit.go).
//  5. If no shard can serve the claim alone, debit several in one transaction, or refuse
//     (gather.go).
//  6. Wait for the comparison. If the parameters no longer hold, return what was taken by
//     them, and begin again.
//
// The naive design reads the configuration and the bucket, decides, and writes. It costs two
// more requests each time, and decides wrongly when others write in between. Here nothing is
// read that is remembered. A memory may be wrong, but it decides nothing: each write is
// conditional on what it was worked out from.
//
//	this process   debits by limit 10, as remembered ─── applied ───┐ finds 5: returns it,
//	               └─ reads the configuration ──────────── 5 ───────┘ and decides again by 5
//	an operator                       sets 5
//
// Invariant: when a request has its answer, either all claims are debited, or what some of
// them took goes back. There are two for each resource that the request names (ADR 047). They
// are carried out at the same time, each through to its end, so one may be debited while
// another one refuses ([Settler.Refund]). The other way,
// a transaction over all buckets, costs twice as much on every request. At a parent that
// many children share, transactions refuse each other.
type Driver struct {
	*process.Process

	Upkeep    *upkeep.Driver
	Settler   *Settler
	Inspector *Inspector
	Outage    *Outage
	writer    *writer
	accounts  *accounts
	slots     *slots.Holder // nil if the store keeps none
}

// New returns a driver for a process.
func New(p *process.Process, o Options) *Driver {
	if o.Trust == 0 {
		o.Trust = DefaultTrust
	}
	accounts := &accounts{
		cache: memory.NewCache[memory.Key, *account](p.Memory),
		trust: max(-1, o.Trust),
	}
	s := sharing{Process: p}
	if !p.IsInline() && o.InFlight >= 0 {
		s.places = cmp.Or(o.InFlight, DefaultInFlight)
	}
	keep, inspector := upkeep.New(p), &Inspector{p, accounts}
	settler := &Settler{sharing: s, upkeep: keep, accounts: accounts, keeper: keeper{wake: make(chan struct{}, 1)}}
	settler.keeper.watch = settler.watch
	d := &Driver{
		Process: p, Upkeep: keep, accounts: accounts, Inspector: inspector,
		Settler: settler,
		writer:  &writer{s, keep, inspector, settler, accounts.trust},
	}
	if p.Slots != nil {
		d.slots = slots.New(p.Slots, slots.Options{Now: p.Now, Uptime: p.Uptime, Rand: p.Rand, Logger: p.Logger})
	}
	d.Outage = newOutage(p, o.Outage, accounts, d.Settler, d.slots)
	return d
}
