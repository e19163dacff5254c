package limiter

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/outage"
	"github.com/zeroae/zae-limiter-go/internal/token"
)

// A Lease is what an acquire took. Use it like a transaction. Set what was really used
// with [Lease.Settle] or [Lease.Adjust], then [Lease.Commit] it. [Lease.Rollback] returns
// what was taken, does nothing after a commit, and is safe to defer. While the lease is
// open, [Lease.Take] takes more if the limits admit it, and [Lease.Release] returns a part
// at once.
//
// A lease without slots holds no resources. If it is dropped, it stays as if committed without
// adjustments. Slots are held until the commit or the rollback begins, whatever comes of it. A
// lease is safe for concurrent use. Methods without a context never wait, not even for a commit
// under way.
type Lease struct {
	limiter          *Limiter
	entity, resource string
	fallback         []Limit  // of the request
	also             []*Lease // of the request's further resources, of which each has none
	degraded         bool
	// pending is the acquisition that may still debit the amounts requested from a
	// degraded lease; nil if none will.
	pending *acquisition
	holds   []*outage.Hold     // what a degraded lease took of the process's share; none if nothing
	slots   *acquire.HeldSlots // of the lease's own resource; nil if the request named none
	// resumed is what the lease was made of, if [Limiter.Resume] made it; otherwise nil. isPart says
	// that it is a further resource of such a lease.
	resumed  *token.Lease
	isPart   bool
	clamped  map[string]int64 // what the acquire left to the commit, in tokens by limit
	owes     map[string]int64 // of that, what no release was to write; the state guards it as the sides
	reserved map[string]int64 // what such a lease has taken at first, in tokens by limit

	mu    sync.Mutex // held briefly, never during a wait
	state leaseState
	// handedOver says that the lease is closed because it was written down.
	handedOver bool
	settled    chan struct{} // closed when the state is no longer leaseReleasing or leaseSettling
	// The sides, and the entries and parts of each, change under mu while the lease is
	// open. While it is being released, only the entries' totals do. Otherwise they belong
	// to the goroutine that settles the lease.
	sides []*acquire.Taken // of the entity's bucket, then of its parent's
	room  struct {
		taken [2]acquire.Taken
		sides [2]*acquire.Taken
	}
}

// A leaseState is the state of a lease.
type leaseState uint8

const (
	leaseOpen      leaseState = iota
	leaseReleasing            // a release is under way; the lease is open again afterwards
	leaseSettling             // a commit or rollback is under way
	leaseClosed
)

// makeLease makes a lease that has taken nothing yet.
func (l *Limiter) makeLease(entity, resource string, fallback []Limit) *Lease {
	lease := &Lease{limiter: l, entity: entity, resource: resource, fallback: slices.Clone(fallback)}
	lease.sides = lease.room.sides[:0]
	return lease
}

// addSide adds a bucket to what the lease takes from.
func (l *Lease) addSide() *acquire.Taken {
	if n := len(l.sides); n < len(l.room.taken) {
		l.sides = append(l.sides, &l.room.taken[n])
	} else {
		l.sides = append(l.sides, new(acquire.Taken))
	}
	return l.sides[len(l.sides)-1]
}

// with adds a lease of a further resource; the first one is l itself, which is nil until then.
func (l *Lease) with(part *Lease) *Lease {
	if l == nil {
		return part
	}
	l.also = append(l.also, part)
	return l
}

// parts is the number of resources of which the lease takes.
func (l *Lease) parts() int { return 1 + len(l.also) }

// part is the lease of one resource, of which l is the first.
func (l *Lease) part(i int) *Lease {
	if i == 0 {
		return l
	}
	return l.also[i-1]
}

// bucket names the bucket of the lease's own resource.
func (l *Lease) bucket() Bucket { return Bucket{Entity: l.entity, Resource: l.resource} }

// debited makes the lease for claims that were granted.
func (l *Limiter) debited(a *acquisition) (lease *Lease) {
	for i := range a.parts {
		req := a.asked.Part(i)
		part := l.makeLease(req.Entity, req.Resource, req.Fallback)
		for _, c := range [...]*acquire.Claim{a.parts[i].Child, a.parts[i].Parent} {
			if c != nil && c.Granted {
				part.addSide().Init(l.driver.Uptime(), c)
			}
		}
		lease = lease.with(part)
	}
	return lease
}

// Resource returns the part of the lease that is of one resource of the request, for its
// Adjust, Settle, Consumed, Statuses, Take and Release. It fails with a [*ValidationError] if
// the request did not name the resource.
//
// The methods of the lease itself are those of the request's own resource. But Statuses,
// Commit and Rollback are of all. A part may also be committed or rolled back alone, before
// the others: the lease then leaves it as it is.
func (l *Lease) Resource(name string) (*Lease, error) {
	for i := range l.parts() {
		if p := l.part(i); p.resource == name {
			return p, nil
		}
	}
	return nil, &ValidationError{Field: "resource", Value: name, Reason: "the lease is of another request; give a resource that its request names"}
}

// Context returns a context for the work under the lease. It ends with the cause [ErrSlotsLost] if
// slots of the lease are lost: others may hold them then, so the work should stop. The caller
// must call cancel, after the work. A lease without slots loses none. The slots of a lease that was
// resumed end with its token: the context ends five seconds before [Lease.Deadline], since clocks differ.
func (l *Lease) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	var stops []func()
	for i := range l.parts() {
		if held := l.part(i).slots; held != nil {
			stops = append(stops, held.OnLoss(func() { end(ErrSlotsLost) }))
		}
	}
	if l.resumed != nil && l.hasSlots() {
		left := l.Deadline().Sub(time.UnixMilli(l.limiter.driver.Now())) - acquire.SlotSkew
		timer := time.AfterFunc(left, func() { end(ErrSlotsLost) })
		stops = append(stops, func() { timer.Stop() })
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		end(nil)
	}
}

// Entity is the entity that the lease takes for, as the request named it.
func (l *Lease) Entity() string { return l.entity }

// Degraded reports whether the lease was granted without the store. With [Allow], nothing is metered
// then, so Statuses and Consumed are empty. With [Share], Consumed is what the lease took of this
// process's share, and the methods of the lease work as ever. Take fails with [ErrUnavailable] once
// the store is back.
//
// With Allow, the acquire may still be under way, and may still debit the requested amounts. If it
// does, the lease decides about the debit: a commit keeps it, with the adjustments, and
// a rollback returns it. Commit does not wait for that, and succeeds at once.
func (l *Lease) Degraded() bool {
	return l.degraded || slices.ContainsFunc(l.also, func(p *Lease) bool { return p.degraded })
}

// Statuses returns the limits named by the request as the acquire left them, first the
// entity's and then its parent's, for each resource of the request. What the lease took or
// released later does not count. If a bucket has several shards, the shards that the acquire
// did not touch count as this process last saw them.
func (l *Lease) Statuses() []Status {
	var statuses []Status
	for i := range l.parts() {
		statuses = l.part(i).appendStatuses(statuses)
	}
	return statuses
}

// appendStatuses appends the limits of one resource.
func (l *Lease) appendStatuses(statuses []Status) []Status {
	l.mu.Lock()
	sides := l.sides
	l.mu.Unlock()
	for _, side := range sides {
		if c := side.Claim; c != nil && l.resumed == nil {
			statuses = append(statuses, statusesOf(c, c.Shards(l.limiter.driver.Uptime()), c.At)...)
		}
	}
	return statuses
}

// WouldRefuse returns the limits in [Shadow] that would have refused the request if they were enforced,
// of all its resources: those statuses of [Lease.Statuses] that say so. It is nil if there are none.
func (l *Lease) WouldRefuse() []Status {
	for i := range l.parts() {
		if l.part(i).isShadowed() {
			return slices.DeleteFunc(l.Statuses(), func(s Status) bool { return !s.WouldRefuse })
		}
	}
	return nil
}

// isShadowed reports whether the acquire took something of one resource that it only counted.
func (l *Lease) isShadowed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.sides, func(side *acquire.Taken) bool { return side.Claim != nil && side.Claim.CountsAny() })
}

// Overdrawn returns by how many tokens the acquire left each soft limit of the lease's
// resource below zero, as [Lease.Statuses] has them. Of the entity's and its parent's, it is
// the larger number. A limit that is not below zero is not there.
func (l *Lease) Overdrawn() map[string]int64 {
	overdrawn := make(map[string]int64)
	for _, s := range l.appendStatuses(nil) {
		if s.Limit.Soft && s.Available < 0 {
			overdrawn[s.Limit.Name] = max(overdrawn[s.Limit.Name], -s.Available)
		}
	}
	return overdrawn
}

// Consumed returns what the lease has taken of each limit of its resource, in tokens,
// adjustments included. It counts the lease's own entity, or its parents where those have taken
// more: only a parent may have had the limit, and the entity may have got another parent.
func (l *Lease) Consumed() map[string]int64 {
	consumed := make(map[string]int64)
	if l.degraded && !l.isShared() {
		return consumed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, side := range l.sides {
		for i := range side.Entries {
			limit := side.Entries[i].Limit
			consumed[limit], _ = l.totalLocked(limit)
		}
	}
	return consumed
}

// Settle sets the tokens that the lease takes of a limit to what was really used, at least
// 0. It is Adjust by used less [Lease.Consumed], and has the same bounds and errors. Both
// may be mixed: the last call counts.
func (l *Lease) Settle(limit string, used int64) error {
	return l.change("settle", limit, used, func(int64) int64 { return used })
}

// Adjust changes the tokens that the lease takes of a limit by delta. A positive delta
// takes more, into debt if necessary; a negative one takes less, at least 0. The change
// is local until [Lease.Commit]. The request, or a [Lease.Take], must have named the
// limit. A debt ends at four times [MaxTokens] a shard: tokens taken beyond that count as
// consumed, but the shard does not owe them.
//
// Adjust fails with [ErrLeaseClosed] once a commit or rollback has begun. If that
// leaves the lease open, Adjust works again.
func (l *Lease) Adjust(limit string, delta int64) error {
	return l.change("adjust", limit, delta, func(total int64) int64 { return total + delta })
}

// change sets the total of a limit to what becomes of it, in tokens. given is the
// caller's amount, which becomes must add at most once.
func (l *Lease) change(verb, limit string, given int64, becomes func(total int64) int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(verb + " " + limit); err != nil {
		return err
	}
	total, found := l.totalLocked(limit)
	if !found {
		return &ValidationError{
			Field: verb, Value: limit,
			Reason: "the request did not name this limit; name it in Consume, with an amount of 0 if need be",
		}
	}
	next := becomes(total)
	if given > MaxTokens || given < -MaxTokens || next > MaxTokens || next < 0 {
		return &ValidationError{
			Field: verb + " " + limit, Value: strconv.FormatInt(given, 10),
			Reason: fmt.Sprintf("keep what the lease takes, now %d, between 0 and %d tokens", total, int64(MaxTokens)),
		}
	}
	l.addLocked(limit, next-total)
	return nil
}

// owe makes the lease take more than the acquire did, by limit. It is taken by the commit.
func (l *Lease) owe(over map[string]int64) {
	if len(over) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for limit, tokens := range over {
		l.addLocked(limit, tokens)
	}
	l.clamped, l.owes = over, over
}

// Clamped returns by how many tokens [Request.ClampPercent] cut what the request asked of the
// lease's resource, by limit; empty if it cut nothing. The lease takes them nevertheless, as
// [Lease.Consumed] says: its commit debits them, into debt if necessary, unless [Lease.Settle] says
// that less was used. A rollback does not.
func (l *Lease) Clamped() map[string]int64 {
	clamped := maps.Clone(l.clamped)
	if clamped == nil {
		clamped = map[string]int64{}
	}
	return clamped
}

// totalLocked is what the lease takes of a limit, in tokens. It is not found if neither the
// entity nor a parent has taken any.
//
// The two may differ: what a lease takes later may be of a limit that only one of them has by
// then. An entity that got another parent meanwhile has taken from both.
func (l *Lease) totalLocked(limit string) (total int64, found bool) {
	var parents int64
	for side, e := range l.entriesLocked(limit) {
		if found = true; l.isOwn(side) {
			total = e.Total / milli
		} else {
			parents += e.Total / milli
		}
	}
	return max(total, parents), found
}

// addLocked changes what the lease takes of a limit by a number of tokens, on the entity and on
// its parents alike. The last parent takes more; it returns first what it has, and then those
// before it. None returns more than it has.
func (l *Lease) addLocked(limit string, tokens int64) {
	left := tokens * milli
	for _, side := range slices.Backward(l.sides) {
		for i := range side.Entries {
			switch e := &side.Entries[i]; {
			case e.Limit != limit:
			case l.isOwn(side):
				e.Total = max(0, e.Total+tokens*milli)
			default:
				added := max(left, -e.Total)
				e.Total, left = e.Total+added, left-added
			}
		}
	}
}

// isOwn reports whether a side is of the lease's own entity.
func (l *Lease) isOwn(side *acquire.Taken) bool {
	return side.Claim == nil || side.Claim.Entity == l.entity
}

// openLocked fails if a commit or rollback of the lease has begun.
func (l *Lease) openLocked(what string) error {
	if l.state == leaseOpen || l.state == leaseReleasing {
		return nil
	}
	return fmt.Errorf("%s: %w", what, ErrLeaseClosed)
}

// entriesLocked are the entries of a limit, with their sides.
func (l *Lease) entriesLocked(limit string) iter.Seq2[*acquire.Taken, *acquire.Entry] {
	return func(yield func(*acquire.Taken, *acquire.Entry) bool) {
		for _, side := range l.sides {
			for i := range side.Entries {
				if e := &side.Entries[i]; e.Limit == limit && !yield(side, e) {
					return
				}
			}
		}
	}
}
