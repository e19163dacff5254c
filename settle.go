package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// An ending is one of the two ways in which a lease ends.
type ending struct {
	name   string
	target func(*entry) int64 // what is to be debited in the end
}

var (
	commit   = &ending{"commit", func(e *entry) int64 { return e.total }}
	rollBack = &ending{"roll back", func(*entry) int64 { return 0 }}
)

// Commit writes the adjustments, one write per bucket that has any, and closes
// the lease. If an error says that nothing was applied ([ErrThrottled],
// [ErrConflict], [ErrClosed]), the lease stays open and Commit may be called again;
// after any other error the adjustment may or may not have been written. Committing
// again is not an error, nor is committing without adjustments after
// [Limiter.Close].
//
// It returns when ctx ends, with its error, or after [Options.Timeout], with
// [ErrUnavailable]; the writes are seen through all the same, and an Adjust
// meanwhile fails.
func (l *Lease) Commit(ctx context.Context) error { return l.settle(ctx, commit) }

// Rollback returns everything the lease took and closes it; adjustments are
// dropped. After a commit it does nothing. Errors are those of [Lease.Commit].
//
// It returns when ctx ends, at once if it has ended, with its error, or after
// [Options.Timeout]; the tokens are returned all the same. If the store throttles
// that after the call has returned, it is tried again for up to as long.
func (l *Lease) Rollback(ctx context.Context) error { return l.settle(ctx, rollBack) }

// settle makes what is written the target, and closes the lease. Of several calls the
// first one settles it, also if its context has ended.
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

// closeIfEven closes a lease if nothing has to be written for that. It reports
// whether the lease is closed.
func (l *Lease) closeIfEven(how *ending) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == leaseOpen && l.isEvenLocked(how) {
		l.state = leaseClosed
	}
	return l.state == leaseClosed
}

// isEvenLocked reports whether what is written is the target.
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

// mayDebit reports whether an acquisition has debited anything, or may yet do so.
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

// begin has the caller settle a lease that is open. It returns what the lease was.
func (l *Lease) begin() (was leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.state
	if was == leaseOpen {
		l.state, l.settled = leaseSettling, make(chan struct{})
	}
	return was
}

// end sets what has become of a lease that was being settled.
func (l *Lease) end(state leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	close(l.settled)
}

// wait waits until nobody settles the lease any more, and then begins, as begin does.
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

// settleNow settles a lease, however long that takes.
func (l *Lease) settleNow(ctx context.Context, how *ending) error {
	return l.settleFrom(ctx, l.begin(), how, nil)
}

// settleFrom settles a lease after [Lease.begin]. hasReturned says that the call has,
// so that nobody is left to try again what is throttled; nil never says so. A
// settlement that waits in line for too long leaves the lease open: the store may be out
// of reach.
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

// write makes what is written the target, in all buckets at once.
func (l *Lease) write(ctx context.Context, how *ending) error {
	if l.degraded {
		return l.writeLate(ctx, how)
	}
	var errs [2]error
	l.limiter.atOnce(len(l.sides), func(i int) { errs[i] = l.settleSide(ctx, &l.sides[i], how) })
	return errors.Join(errs[:]...)
}

// writeLate settles what a degraded lease may have taken, once that is known.
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

// settleSide returns to the shards it was taken from what is to be returned, and
// takes more, if that is to be, from whichever shards have it.
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
			j := slices.IndexFunc(s.parts, func(q part) bool { return q.image.Shard == p.image.Shard })
			if j < 0 {
				j = len(s.parts)
				s.add(p.image, nil)
				deltas = append(deltas, nil)
			}
			deltas[j] = append(deltas[j], p.amounts...)
		}
	}
	return l.settleParts(ctx, s, deltas)
}

// settleParts adjusts the shards of a side, all at once, and then passes on what
// finds no room where it was taken from.
func (l *Lease) settleParts(ctx context.Context, s *side, deltas [][]store.Amount) error {
	errs, spare := make([]error, len(deltas), len(deltas)+1), make([][]store.Amount, len(deltas))
	l.limiter.atOnce(len(deltas), func(j int) { spare[j], errs[j] = l.settlePart(ctx, s, &s.parts[j], deltas[j]) })
	errs = append(errs, l.limiter.passOn(ctx, s.parts[0].image, total(spare)))
	return errors.Join(errs...)
}

// total adds amounts up, by limit name.
func total(all [][]store.Amount) []store.Amount {
	var crowd []*ticket
	for _, amounts := range all {
		if len(amounts) > 0 {
			crowd = append(crowd, &ticket{claim: &claim{amounts: amounts}})
		}
	}
	return sumOf(crowd)
}

// settlePart adjusts one shard. It hands back the returned tokens that find no room
// there.
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
