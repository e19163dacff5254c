package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
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
	sides []side // the entity's bucket, then its parent's
	room  [2]side
}

// A leaseState is the state of a lease.
type leaseState uint8

const (
	leaseOpen     leaseState = iota
	leaseSettling            // a commit or rollback is under way
	leaseClosed
)

// A side is what a lease took of one entity's bucket. If the lease is degraded, it is
// what the lease will have taken, if anything.
type side struct {
	claim   *claim // as the acquire left it; nil if the lease is degraded
	entries []entry
	parts   []part // one for each shard that was written to, first by the acquire, then by adjustments
	room    [1]part
}

// An entry is one limit of a side, in millitokens.
type entry struct {
	limit string
	total int64 // the target of the debits, adjustments included
}

// A part is what a lease took of one shard.
type part struct {
	image   *store.Image // the shard as last written or seen
	written []int64      // for each entry, the amount debited in the store, in millitokens
}

func newLease(l *Limiter, req *Request, child, parent *claim) *Lease {
	lease := &Lease{limiter: l, entity: req.Entity}
	lease.sides = lease.room[:0]
	for _, c := range [...]*claim{child, parent} {
		if c == nil || !c.granted {
			continue
		}
		if c.image.ShardCount > 1 {
			c.images = c.shards(l.uptime()) // as they are now
		}
		lease.sides = append(lease.sides, side{claim: c, entries: make([]entry, 0, len(c.terms.Amounts))})
		s := &lease.sides[len(lease.sides)-1]
		s.parts = s.room[:0]
		for _, a := range c.terms.Amounts {
			s.entries = append(s.entries, entry{a.Limit, a.Milli})
		}
		if len(c.portions) == 0 {
			s.add(c.image, c.terms.Amounts)
			continue
		}
		for _, p := range c.portions {
			s.add(p.Image, p.Amounts)
		}
	}
	return lease
}

// add records that amounts were debited from a shard.
func (s *side) add(img *store.Image, amounts []store.Amount) {
	p := part{image: img, written: make([]int64, len(s.entries))}
	for i := range s.entries {
		for _, a := range amounts {
			if a.Limit == s.entries[i].limit {
				p.written[i] = a.Milli
			}
		}
	}
	s.parts = append(s.parts, p)
}

// written is the amount of an entry that is debited in the store.
func (s *side) written(i int) (sum int64) {
	for j := range s.parts {
		sum += s.parts[j].written[i]
	}
	return sum
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
		if c := l.sides[i].claim; c != nil {
			statuses = append(statuses, c.standing(c.shards(l.limiter.uptime()), c.at)...)
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
		for _, e := range l.sides[i].entries {
			if _, ok := consumed[e.limit]; !ok {
				consumed[e.limit] = e.total / milli
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
		for _, e := range l.sides[i].entries {
			if e.limit != limit {
				continue
			}
			found = true
			if delta > MaxTokens || delta < -MaxTokens || e.total+delta*milli > MaxTokens*milli || e.total+delta*milli < 0 {
				return &ValidationError{
					Field: "adjust " + limit, Value: strconv.FormatInt(delta, 10),
					Reason: fmt.Sprintf("keep what the lease takes, now %d, between 0 and %d tokens", e.total/milli, int64(MaxTokens)),
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
		for j := range l.sides[i].entries {
			if e := &l.sides[i].entries[j]; e.limit == limit {
				e.total += delta * milli
			}
		}
	}
	return nil
}

// lend chooses the shards to debit, even if they cannot afford it. The shard from which
// the lease was taken comes first. If it holds too little, the others are debited too:
// a bucket must not admit from one shard what it owes on another.
func (l *Limiter) lend(ctx context.Context, img *store.Image, amounts []store.Amount) []plan.Portion {
	m := l.moment()
	acct := l.account(img.Entity, img.Resource)
	count := acct.ShardCount()
	if last := acct.Image(img.Shard, m.Up, memory.ImageAge); last != nil {
		img = last
	}
	terms := plan.Terms{Amounts: amounts}
	if parts, short := terms.Allot([]*store.Image{img}, m.Now, true); !short || count == 1 || img.Foreign != "" {
		return parts
	}
	images, all := acct.Images(m.Up, l.trust)
	if !all {
		read, err := l.readShards(ctx, &acct.Account, img.Bucket)
		if err != nil || len(read) == 0 || obstacle(img.Bucket, read) != nil {
			return []plan.Portion{{Image: img, Amounts: amounts}}
		}
		images = read
	}
	parts, _ := terms.Allot(images, m.Now, true)
	return parts
}

// adjust debits (positive deltas) or credits (negative ones) a shard, together with the
// adjustments of other callers. It returns the tokens that exceed the shard's capacity,
// for [Limiter.passOn].
func (l *Limiter) adjust(ctx context.Context, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	acct := l.account(img.Entity, img.Resource)
	if l.places.Base == 0 || plan.IsWide(img) {
		return l.adjustAlone(ctx, acct, img, deltas)
	}
	ln := &acct.at(img.Shard).credits
	t := &ticket{Claim: &claim{Bucket: img.Bucket, terms: plan.Terms{Amounts: deltas}}}
	switch told, err := ln.Attend(ctx, t, lane.Places{Base: l.places.Base}, nil); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrConflict, outOfLine(err)) // nothing was sent
	case told == lane.Done:
		l.counts.carried.Add(1)
		return nil, t.Err
	case told == lane.Solo:
		return l.adjustAlone(ctx, acct, img, deltas)
	}
	defer ln.Leave(lane.Places{Base: l.places.Base})
	crowd := ln.Along(t, mostShared, func(other *claim) bool { return !plan.Lacks(img, other.terms.Amounts) })
	if len(crowd) > 1 {
		ctx = l.deadlines.Detach(ctx) // the write belongs to no single caller
	}
	over, err = l.adjustAlone(ctx, acct, img, sumOf(crowd))
	if len(crowd) == 1 {
		return over, err
	}
	if err == nil {
		err = l.passOn(ctx, img, over)
	}
	tellAll(crowd, err)
	return nil, err
}

// adjustAlone adjusts one shard. It returns credits that exceed the shard's capacity,
// for example because the shard has been split since the debit. It returns all amounts
// if the shard is gone, for example because it was merged.
func (l *Limiter) adjustAlone(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	if last := acct.Image(img.Shard, l.uptime(), memory.ImageAge); last != nil {
		img = last
	}
	over, gone, err := l.adjustShard(ctx, acct, img, deltas, true)
	if gone && img.ShardCount > 1 {
		over = slices.DeleteFunc(slices.Clone(deltas), func(a store.Amount) bool { return a.Milli == 0 })
	}
	return over, err
}

// adjustShard adjusts one shard. With spare, it leaves out and returns the credits that
// exceed the shard's capacity; without, those overflow. gone says that the shard does
// not exist.
func (l *Limiter) adjustShard(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount, spare bool) (over []store.Amount, gone bool, err error) {
	for tries := range maxTries {
		if tries > 0 {
			if err := l.pause(ctx, nil, tries); err != nil {
				return nil, false, err
			}
		}
		d := &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: plan.Present(img, deltas)}
		m := l.moment()
		if spare {
			d.Amounts, over = plan.SplitOff(d.Amounts, img, m.Now)
		}
		out, err := l.settle(ctx, acct, d, img, m)
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil:
			return nil, false, err
		case out.Applied:
			return over, false, nil
		case out.Image == nil:
			return nil, true, nil
		default:
			img = out.Image
		}
	}
	return nil, false, contended(img.Bucket)
}

// settle carries out a settlement on the image seen.
func (l *Limiter) settle(ctx context.Context, acct *account, d *plan.Debit, img *store.Image, m memory.Moment) (store.Outcome, error) {
	if len(d.Amounts) == 0 {
		return store.Outcome{Applied: true, Image: img}, nil
	}
	refills := d.Overflows(img, m.Now) || d.Owes(img)
	return l.send(ctx, &acct.Account, img.Bucket, memory.StampUse{Moves: refills}, m, func(ctx context.Context) (store.Outcome, error) {
		if refills {
			refill, _, _ := d.Refill(img, m.Now, l.multiplier)
			return l.store.Refill(ctx, refill)
		}
		return l.store.Adjust(ctx, d.Adjustment(img, m.Now))
	})
}

// passOn settles on other shards the credits that exceeded one shard's capacity, or
// amounts meant for a shard that is gone. The heir of that shard comes first. Credits
// that exceed all capacities overflow, on the first shard that has the limit.
func (l *Limiter) passOn(ctx context.Context, img *store.Image, over []store.Amount) error {
	if len(over) == 0 {
		return nil
	}
	acct := l.account(img.Entity, img.Resource)
	images, err := l.readShards(ctx, &acct.Account, img.Bucket)
	if err != nil {
		return partly(err)
	}
	heir := max(0, slices.IndexFunc(images, func(other *store.Image) bool { return img.Shard%other.ShardCount == other.Shard }))
	images = slices.Concat(images[heir:], images[:heir])
	for _, spare := range [...]bool{true, false} {
		for _, other := range images {
			if over, err = l.passOnTo(ctx, acct, other, over, spare); err != nil {
				return partly(err)
			}
		}
	}
	return nil
}

// passOnTo settles amounts on a shard, as far as it has their limits and, with spare,
// the capacity. It returns the rest.
func (l *Limiter) passOnTo(ctx context.Context, acct *account, img *store.Image, over []store.Amount, spare bool) (rest []store.Amount, err error) {
	here := plan.Present(img, over)
	fitting := here
	if spare {
		fitting, _ = plan.SplitOff(here, img, l.now())
	}
	if len(fitting) == 0 {
		return over, nil
	}
	left, gone, err := l.adjustShard(ctx, acct, img, here, spare)
	if err != nil || gone {
		return over, err
	}
	for _, a := range over {
		if _, ok := img.Limit(a.Limit); !ok {
			left = append(left, a)
		}
	}
	slices.SortFunc(left, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	return left, nil
}

// partly is the error of a settlement that was partly applied: the caller must not
// repeat it.
func partly(err error) error {
	if err == nil || !isTurnedAway(err) {
		return err
	}
	return fmt.Errorf("a part was not returned: %w: %v", ErrUnavailable, err) //nolint:errorlint // the cause invites to try again
}
