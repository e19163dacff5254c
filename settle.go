package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// An ending is one of the two ways to end a lease.
type ending struct {
	name   string
	target func(*entry) int64 // the amount that stays debited
}

var (
	commit   = &ending{"commit", func(e *entry) int64 { return e.total }}
	rollBack = &ending{"roll back", func(*entry) int64 { return 0 }}
)

// Commit writes the adjustments, one write for each bucket that has any, and closes the
// lease. Some errors say that nothing was applied: [ErrThrottled], [ErrConflict] and
// [ErrClosed]. The lease then stays open, and Commit may be called again. After any
// other error the adjustment may or may not have been written. Committing again is not
// an error, nor is committing without adjustments after [Limiter.Close].
//
// Commit returns when ctx ends, with its error, or after [Options.Timeout], with
// [ErrUnavailable]. The limiter completes the writes nevertheless; an Adjust meanwhile
// fails.
func (l *Lease) Commit(ctx context.Context) error { return l.settle(ctx, commit) }

// Rollback returns everything that the lease took and closes it; adjustments are
// dropped. After a commit it does nothing. Errors are those of [Lease.Commit].
//
// Rollback returns when ctx ends, with its error, or after [Options.Timeout]. If ctx
// has already ended, it returns at once. The limiter returns the tokens nevertheless.
// If the store throttles that after the call has returned, the limiter retries for up
// to that time again.
func (l *Lease) Rollback(ctx context.Context) error { return l.settle(ctx, rollBack) }

// settle makes the written amounts the target, and closes the lease. The first of
// several calls settles the lease, even if its context has ended.
func (l *Lease) settle(ctx context.Context, how *ending) error {
	if l.closeIfEven(how) {
		return nil
	}
	what := how.name + " lease of " + l.entity
	if !l.limiter.underWay.Begin() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	was := l.begin()
	if l.degraded && how == commit {
		defer l.limiter.underWay.End()
		l.limiter.inBackground(func() { l.logUnsettled(ctx, what, l.settleFrom(ctx, was, how, nil)) })
		return nil
	}
	_, err := carryOut(ctx, l.limiter, what, func(bound context.Context) (struct{}, error) {
		hasReturned := func() bool { return !l.limiter.immediate && (ctx.Err() != nil || bound.Err() != nil) }
		err := l.settleFrom(bound, was, how, hasReturned)
		if hasReturned() {
			l.logUnsettled(ctx, what, err)
		}
		return struct{}{}, err
	})
	return err
}

func (l *Lease) logUnsettled(ctx context.Context, what string, err error) {
	if err != nil {
		l.limiter.logger.WarnContext(ctx, "lease not settled", "entity", l.entity, "op", what, "error", err)
	}
}

// closeIfEven closes a lease if that needs no write. It reports whether the lease is
// closed.
func (l *Lease) closeIfEven(how *ending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == leaseOpen && l.isEvenLocked(how) {
		l.state = leaseClosed
	}
	return l.state == leaseClosed
}

// isEvenLocked reports whether the written amounts are the target.
func (l *Lease) isEvenLocked(how *ending) bool {
	if l.degraded && !l.pending.mayDebit() {
		return true
	}
	for i := range l.sides {
		s := &l.sides[i]
		for j := range s.entries {
			if how.target(&s.entries[j]) != s.written(j) {
				return false
			}
		}
	}
	return true
}

// mayDebit reports whether an acquisition has debited anything, or may still do so.
func (a *acquisition) mayDebit() bool {
	if a == nil {
		return false
	}
	select {
	case <-a.done:
		return a.lease != nil
	default:
		return true
	}
}

// begin makes the caller the one that settles an open lease. It returns the previous
// state.
func (l *Lease) begin() (was leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.state
	if was == leaseOpen {
		l.state, l.settled = leaseSettling, make(chan struct{})
	}
	return was
}

// end sets the state of a lease after a settlement.
func (l *Lease) end(state leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	close(l.settled)
}

// wait waits until no other caller settles the lease, and then begins, as begin does.
func (l *Lease) wait() (was leaseState) {
	for {
		l.mu.Lock()
		settled := l.settled
		l.mu.Unlock()
		<-settled
		if was = l.begin(); was != leaseSettling {
			return was
		}
	}
}

// settleNow settles a lease, without a limit on time.
func (l *Lease) settleNow(ctx context.Context, how *ending) error {
	return l.settleFrom(ctx, l.begin(), how, nil)
}

// settleFrom settles a lease after [Lease.begin]. hasReturned says that the call has
// returned, so that its caller cannot retry a throttled write; nil means that it never
// has. A settlement that waits in the lane for too long leaves the lease open: the
// store may be unreachable.
func (l *Lease) settleFrom(ctx context.Context, was leaseState, how *ending, hasReturned func() bool) error {
	if was == leaseSettling {
		was = l.wait()
		ctx = l.limiter.deadlines.Detach(ctx) // the wait may have used up the time of the call
	}
	if was == leaseClosed {
		return nil
	}
	err := l.write(ctx, how)
	if errors.Is(err, ErrThrottled) && hasReturned != nil && hasReturned() {
		err = l.limiter.insist(ctx, func(ctx context.Context) error { return l.write(ctx, how) })
	}
	if isTurnedAway(err) {
		l.end(leaseOpen)
	} else {
		l.end(leaseClosed)
	}
	return err
}

// write makes the written amounts the target, in all buckets concurrently.
func (l *Lease) write(ctx context.Context, how *ending) error {
	if l.degraded {
		return l.writeLate(ctx, how)
	}
	var errs [2]error
	l.limiter.atOnce(len(l.sides), func(i int) { errs[i] = l.settleSide(ctx, &l.sides[i], how) })
	return errors.Join(errs[:]...)
}

// writeLate waits for the acquisition of a degraded lease, and settles what that has
// taken.
func (l *Lease) writeLate(ctx context.Context, how *ending) error {
	<-l.pending.done
	taken := l.pending.lease
	if taken == nil {
		return nil
	}
	for _, want := range l.sides[0].entries {
		for i := range taken.sides {
			for j := range taken.sides[i].entries {
				if e := &taken.sides[i].entries[j]; e.limit == want.limit {
					e.total = want.total
				}
			}
		}
	}
	return l.limiter.insist(ctx, func(ctx context.Context) error { return taken.settleNow(ctx, how) })
}

// settleSide returns tokens to the shards from which they were taken. If more is to be
// taken, it debits whichever shards hold it.
func (l *Lease) settleSide(ctx context.Context, s *side, how *ending) error {
	var more []store.Amount
	deltas := make([][]store.Amount, len(s.parts), len(s.parts)+1)
	for i := range s.entries {
		d := how.target(&s.entries[i]) - s.written(i)
		if d > 0 {
			more = append(more, store.Amount{Limit: s.entries[i].limit, Milli: d})
		}
		for j := 0; d < 0 && j < len(s.parts); j++ {
			if back := min(-d, max(0, s.parts[j].written[i])); back > 0 {
				deltas[j] = append(deltas[j], store.Amount{Limit: s.entries[i].limit, Milli: -back})
				d += back
			}
		}
	}
	if len(more) > 0 {
		for _, p := range l.limiter.lend(ctx, s.parts[0].image, more) {
			j := slices.IndexFunc(s.parts, func(q part) bool { return q.image.Shard == p.Image.Shard })
			if j < 0 {
				j = len(s.parts)
				s.add(p.Image, nil)
				deltas = append(deltas, nil)
			}
			deltas[j] = append(deltas[j], p.Amounts...)
		}
	}
	return l.settleParts(ctx, s, deltas)
}

// settleParts adjusts the shards of a side concurrently. Then it passes on the credits
// that exceed a shard's capacity.
func (l *Lease) settleParts(ctx context.Context, s *side, deltas [][]store.Amount) error {
	errs, spare := make([]error, len(deltas), len(deltas)+1), make([][]store.Amount, len(deltas))
	l.limiter.atOnce(len(deltas), func(j int) { spare[j], errs[j] = l.settlePart(ctx, s, &s.parts[j], deltas[j]) })
	errs = append(errs, l.limiter.passOn(ctx, s.parts[0].image, total(spare)))
	return errors.Join(errs...)
}

// total adds up amounts, by limit name.
func total(all [][]store.Amount) (sum []store.Amount) {
	for _, amounts := range all {
		sum = addTo(sum, amounts)
	}
	return sum
}

// settlePart adjusts one shard. It returns the credits that exceed the shard's
// capacity.
func (l *Lease) settlePart(ctx context.Context, s *side, p *part, deltas []store.Amount) (over []store.Amount, err error) {
	if len(deltas) == 0 {
		return nil, nil
	}
	slices.SortFunc(deltas, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	over, err = l.limiter.adjust(ctx, p.image, deltas)
	if err != nil {
		err = fmt.Errorf("adjust %s of %s: %w", p.image.Resource, p.image.Entity, err)
		if isTurnedAway(err) {
			return nil, err
		}
	}
	for _, d := range deltas {
		for i := range s.entries {
			if s.entries[i].limit == d.Limit {
				p.written[i] += d.Milli
			}
		}
	}
	return over, err
}
