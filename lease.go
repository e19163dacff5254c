package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

	// busy holds the one token of whoever works on what is below. It is a
	// channel, so that waiting for it can end with a context.
	busy   chan struct{}
	closed bool
	parts  []part // the entity's bucket, then its parent's
	room   [2]part
}

// A part is what a lease took of one bucket.
type part struct {
	image   *Image // the bucket after the debit
	at      int64  // when that was, in milliseconds
	entries []entry
}

// An entry is one limit of a part, in millitokens.
type entry struct {
	limit   string
	taken   int64 // debited by the acquire
	written int64 // debited in the store
	total   int64 // what should be: written and the adjustments
}

func newLease(l *Limiter, req *Request, child, parent *claim) *Lease {
	lease := &Lease{limiter: l, entity: req.Entity, busy: make(chan struct{}, 1)}
	lease.parts = lease.room[:0]
	for _, c := range [...]*claim{child, parent} {
		if c == nil || !c.granted {
			continue
		}
		p := part{image: c.image, at: c.at, entries: make([]entry, 0, len(c.amounts))}
		for _, a := range c.amounts {
			p.entries = append(p.entries, entry{limit: a.Limit, taken: a.Milli, written: a.Milli, total: a.Milli})
		}
		lease.parts = append(lease.parts, p)
	}
	return lease
}

// Degraded reports whether the lease was granted without the store. Such a
// lease meters nothing: its methods do nothing and succeed.
func (l *Lease) Degraded() bool { return l.degraded }

// Statuses are the limits named by the request as the acquire left them, the
// entity's first and then its parent's.
func (l *Lease) Statuses() []Status {
	l.busy <- struct{}{}
	defer l.done()
	var statuses []Status
	for i := range l.parts {
		p := &l.parts[i]
		c := &claim{granted: true}
		for _, e := range p.entries {
			c.amounts = append(c.amounts, Amount{Limit: e.limit, Milli: e.taken})
		}
		statuses = append(statuses, c.status(p.image, p.at)...)
	}
	return statuses
}

// Consumed is what the lease has taken of each limit of its own entity, or of
// its parent where only that has the limit, in tokens, adjustments included.
func (l *Lease) Consumed() map[string]int64 {
	l.busy <- struct{}{}
	defer l.done()
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
	l.busy <- struct{}{}
	defer l.done()
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
	for i := range l.parts {
		for j := range l.parts[i].entries {
			if e := &l.parts[i].entries[j]; e.limit == limit {
				e.total += delta * milli
			}
		}
	}
	return nil
}

func (l *Lease) done() { <-l.busy }

// Commit writes the adjustments, one write per bucket that has any, and closes
// the lease. If an error says that nothing was applied ([ErrThrottled],
// [ErrConflict]), the lease stays open and Commit may be called again; after
// any other error the adjustment may or may not have been written. Committing
// again is not an error.
//
// It returns when ctx ends, with its error; the writes are seen through all the
// same, within the limiter's timeout.
func (l *Lease) Commit(ctx context.Context) error {
	return l.settle(ctx, "commit", func(e *entry) int64 { return e.total })
}

// Rollback returns everything the lease took and closes it; adjustments are
// dropped. After a commit it does nothing.
//
// It returns when ctx ends, at once if it has ended, with its error; the tokens
// are returned all the same, within the limiter's timeout.
func (l *Lease) Rollback(ctx context.Context) error {
	return l.settle(ctx, "roll back", func(*entry) int64 { return 0 })
}

// settle makes what is written the target, and closes the lease.
func (l *Lease) settle(ctx context.Context, op string, target func(*entry) int64) error {
	if l.limiter.immediate || ctx.Done() == nil {
		return l.settleNow(context.WithoutCancel(ctx), target)
	}
	result := make(chan error, 1)
	l.limiter.background.Go(func() {
		err := l.settleNow(context.WithoutCancel(ctx), target)
		if err != nil && ctx.Err() != nil { // nobody else will hear of it
			l.limiter.logger.WarnContext(ctx, "lease not settled", "entity", l.entity, "op", op, "error", err)
		}
		result <- err
	})
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s lease of %s, which goes on: %w", op, l.entity, context.Cause(ctx))
	}
}

// settleNow settles all buckets at once.
func (l *Lease) settleNow(ctx context.Context, target func(*entry) int64) error {
	l.busy <- struct{}{}
	defer l.done()
	if l.closed {
		return nil
	}
	l.closed = true
	errs := make([]error, max(2, len(l.parts)))
	switch len(l.parts) {
	case 0:
	case 1:
		errs[0] = l.settlePart(ctx, &l.parts[0], target)
	default:
		l.limiter.both(
			func() { errs[0] = l.settlePart(ctx, &l.parts[0], target) },
			func() { errs[1] = l.settlePart(ctx, &l.parts[1], target) },
		)
	}
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
	ctx = l.patience.detach(ctx)
	acct := l.account(img.Entity, img.Resource)
	for tries := range maxTries {
		if tries > 0 {
			if err := l.pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		c := &claim{Bucket: img.Bucket, settling: true, amounts: present(img, deltas)}
		if len(c.amounts) == 0 {
			return nil
		}
		now := l.now()
		var out Outcome
		var err error
		if c.overflows(img, now) {
			refill, _, _ := c.refill(img, now, l.multiplier)
			out, err = l.store.Refill(ctx, refill)
		} else {
			out, err = l.store.Adjust(ctx, c.adjustment(img, now))
		}
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		l.learn(acct, img.Bucket, out, now)
		if out.Applied || out.Image == nil {
			return nil
		}
		img = out.Image
	}
	return fmt.Errorf("other writers got in between %d times: %w", maxTries, ErrConflict)
}

// present are the amounts that move a balance the bucket still has: a limit that
// was taken off took its balance with it.
func present(img *Image, amounts []Amount) []Amount {
	return slices.DeleteFunc(slices.Clone(amounts), func(a Amount) bool {
		_, ok := img.Limit(a.Limit)
		return !ok || a.Milli == 0
	})
}

// overflows reports whether a limit that is debited has accrued past its
// capacity, so that it has to be cut first.
func (c *claim) overflows(img *Image, now int64) bool {
	return img.Foreign == "" && slices.ContainsFunc(c.amounts, func(a Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Milli > 0 && img.overflows(&s, now)
	})
}

// adjustment is the write for a settling claim. Of a credit only what finds room
// below the capacity reaches the balance; all of it counts as returned.
func (c *claim) adjustment(img *Image, now int64) *Adjust {
	a := &Adjust{Bucket: img.Bucket, Seen: img, Deltas: make([]Delta, 0, len(c.amounts))}
	for _, d := range c.amounts {
		s, _ := img.Limit(d.Limit)
		delta := Delta{Limit: d.Limit, Tokens: -d.Milli, Consumed: d.Milli, AtMost: img.ceiling(&s, now)}
		if d.Milli < 0 {
			part := img.share(s.Params)
			delta.Tokens = part.Room(s.Tokens, -d.Milli)
			delta.AtMost = part.Capacity - delta.Tokens
			delta.Pinned = delta.Tokens < -d.Milli
			if delta.Pinned {
				delta.AtMost = s.Tokens
			}
		}
		a.Deltas = append(a.Deltas, delta)
	}
	return a
}
