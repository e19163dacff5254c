package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Lease is what an acquire took. It is used like a transaction: adjust it to
// what was really used, then [Lease.Commit] it; [Lease.Rollback] returns what
// was taken, does nothing after a commit, and is safe to defer.
//
// A lease holds no resources. One that is dropped stays as if committed
// without adjustments. It is safe for concurrent use.
type Lease struct {
	limiter  *Limiter
	entity   string
	degraded bool
	statuses []Status

	mu     sync.Mutex
	closed bool
	parts  []part // the entity's bucket, then its parent's
}

// A part is what a lease took of one bucket.
type part struct {
	image   *Image // the bucket after the debit
	entries []entry
}

// An entry is one limit of a part, in millitokens.
type entry struct {
	limit   string
	written int64 // debited in the store
	total   int64 // what should be: written and the adjustments
}

func newLease(l *Limiter, req *Request, claims ...*claim) *Lease {
	lease := &Lease{limiter: l, entity: req.Entity, parts: make([]part, 0, len(claims))}
	now := l.now()
	for _, c := range claims {
		if c == nil || !c.granted {
			continue
		}
		p := part{image: c.image, entries: make([]entry, 0, len(c.amounts))}
		for _, a := range c.amounts {
			p.entries = append(p.entries, entry{limit: a.Limit, written: a.Milli, total: a.Milli})
		}
		lease.parts = append(lease.parts, p)
		lease.statuses = append(lease.statuses, c.status(c.image, now)...)
	}
	return lease
}

// Degraded reports whether the lease was granted without the store. Such a
// lease meters nothing: its methods do nothing and succeed.
func (l *Lease) Degraded() bool { return l.degraded }

// Statuses are the limits named by the request as the acquire left them, the
// entity's first and then its parent's. The slice is the caller's.
func (l *Lease) Statuses() []Status { return slices.Clone(l.statuses) }

// Consumed is what the lease has taken of each limit of its own entity, or of
// its parent where only that has the limit, in tokens, adjustments included.
func (l *Lease) Consumed() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	consumed := make(map[string]int64)
	for i := range l.parts {
		for _, e := range l.parts[i].entries {
			if _, ok := consumed[e.limit]; !ok {
				consumed[e.limit] = e.total / milli
			}
		}
	}
	return consumed
}

// Adjust changes what the lease takes of a limit by delta tokens: more if
// positive, into debt if need be; less if negative, down to nothing. It is
// local until [Lease.Commit]. The limit must be one the request named.
func (l *Lease) Adjust(limit string, delta int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("adjust %s: %w", limit, ErrLeaseClosed)
	}
	if l.degraded {
		return nil
	}
	found := false
	for i := range l.parts {
		for _, e := range l.parts[i].entries {
			if e.limit != limit {
				continue
			}
			found = true
			if delta > MaxTokens || delta < -MaxTokens || e.total+delta*milli > MaxTokens*milli || e.total+delta*milli < 0 {
				return &ValidationError{
					Field: "adjust " + limit, Value: fmt.Sprint(delta),
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
	for i := range l.parts {
		for j := range l.parts[i].entries {
			if e := &l.parts[i].entries[j]; e.limit == limit {
				e.total += delta * milli
			}
		}
	}
	return nil
}

// Commit writes the adjustments, one write per bucket that has any, and closes
// the lease. If an error says that nothing was applied ([ErrThrottled],
// [ErrConflict]), the lease stays open and Commit may be called again; after
// any other error the adjustment may or may not have been written. Committing
// again is not an error.
func (l *Lease) Commit(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.settleLocked(ctx, func(e *entry) int64 { return e.total })
}

// Rollback returns everything the lease took and closes it; adjustments are
// dropped. It does its work even if ctx is already done, within the limiter's
// timeout. After a commit it does nothing.
func (l *Lease) Rollback(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.settleLocked(ctx, func(*entry) int64 { return 0 })
}

// settleLocked makes every entry's written amount the target, all buckets at
// once.
func (l *Lease) settleLocked(ctx context.Context, target func(*entry) int64) error {
	l.closed = true
	errs := make([]error, len(l.parts))
	var wg sync.WaitGroup
	for i := range l.parts[min(1, len(l.parts)):] {
		wg.Go(func() { errs[i+1] = l.settlePart(ctx, &l.parts[i+1], target) })
	}
	if len(l.parts) > 0 {
		errs[0] = l.settlePart(ctx, &l.parts[0], target)
	}
	wg.Wait()
	for _, err := range errs {
		if errors.Is(err, ErrThrottled) || errors.Is(err, ErrConflict) {
			l.closed = false
		}
	}
	return errors.Join(errs...)
}

func (l *Lease) settlePart(ctx context.Context, p *part, target func(*entry) int64) error {
	deltas := make([]Amount, 0, len(p.entries))
	for i := range p.entries {
		e := &p.entries[i]
		if d := target(e) - e.written; d != 0 {
			deltas = append(deltas, Amount{Limit: e.limit, Milli: d})
		}
	}
	if len(deltas) == 0 {
		return nil
	}
	err := l.limiter.adjust(ctx, p.image, deltas)
	if err != nil && (errors.Is(err, ErrThrottled) || errors.Is(err, ErrConflict)) {
		return fmt.Errorf("adjust %s of %s: %w", p.image.Resource, p.image.Entity, err)
	}
	for i := range p.entries {
		p.entries[i].written = target(&p.entries[i])
	}
	if err != nil {
		return fmt.Errorf("adjust %s of %s: %w", p.image.Resource, p.image.Entity, err)
	}
	return nil
}

// adjust moves a bucket's balances by what is taken more (positive) or given
// back (negative). It goes on although ctx may be done, within the limiter's
// timeout: the caller that left is why there is something to give back. A
// bucket that is gone took its debts and its credits with it.
func (l *Limiter) adjust(ctx context.Context, img *Image, deltas []Amount) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	acct := l.account(img.Entity, img.Resource)
	for tries := range maxTries {
		if tries > 0 {
			if err := l.pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		write := adjustment(img, deltas)
		if len(write.Deltas) == 0 {
			return nil
		}
		out, err := l.store.Adjust(ctx, write)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		l.learn(acct, img.Bucket, out, l.now())
		if out.Applied || out.Image == nil {
			return nil
		}
		img = out.Image
	}
	return fmt.Errorf("other writers got in between %d times: %w", maxTries, ErrConflict)
}

// adjustment is the write for deltas on the image given. Of a credit only what
// finds room below the capacity reaches the balance; all of it counts as
// returned.
func adjustment(img *Image, deltas []Amount) *Adjust {
	a := &Adjust{Bucket: img.Bucket, Seen: img, Deltas: make([]Delta, 0, len(deltas))}
	for _, d := range deltas {
		delta := Delta{Limit: d.Limit, Tokens: -d.Milli, Consumed: d.Milli}
		s, ok := img.Limit(d.Limit)
		if !ok {
			continue // the limit was taken off the bucket, its balance with it
		}
		if d.Milli < 0 {
			part := share(s.Params, img.Shard, img.ShardCount)
			delta.Tokens = part.Room(s.Tokens, -d.Milli)
			delta.AtMost = part.Capacity - delta.Tokens
		}
		a.Deltas = append(a.Deltas, delta)
	}
	return a
}
