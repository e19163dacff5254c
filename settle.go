package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
)

// An ending is one of the two ways to end a lease.
type ending struct {
	kind   CallKind
	name   string
	target func(*acquire.Entry) int64 // the amount that stays debited
}

var (
	commit   = &ending{CallCommit, "commit", func(e *acquire.Entry) int64 { return e.Total }}
	rollBack = &ending{CallRollback, "roll back", func(*acquire.Entry) int64 { return 0 }}
)

// Commit writes the adjustments, one write for each bucket that has any, and closes the lease,
// for all its resources. Some errors say that nothing was applied: [ErrThrottled],
// [ErrConflict] and [ErrClosed]. The lease then stays open, and Commit may be called again.
// After any other error the adjustment may or may not have been written. Committing again is
// not an error, nor is committing without adjustments after [Limiter.Close].
//
// Commit returns when ctx ends, with its error, or after [Options.Timeout], with
// [ErrUnavailable]. The limiter completes the writes nevertheless; an Adjust meanwhile
// fails.
func (l *Lease) Commit(ctx context.Context) error { return l.settle(ctx, commit) }

// Rollback returns everything that the lease took, of all its resources, and closes it;
// adjustments are dropped. After a commit it does nothing. Errors are those of [Lease.Commit].
//
// Rollback returns when ctx ends, with its error, or after [Options.Timeout]. If ctx
// has already ended, it returns at once. The limiter returns the tokens nevertheless.
// If the store throttles that after the call has returned, the limiter retries for up
// to that time again.
func (l *Lease) Rollback(ctx context.Context) error { return l.settle(ctx, rollBack) }

// settle makes the written amounts the target, and closes the lease. The first of
// several calls settles the lease, even if its context has ended.
func (l *Lease) settle(ctx context.Context, how *ending) error {
	if l.isHandedOver() {
		if how == rollBack {
			return nil
		}
		return fmt.Errorf("%s lease of %s: %w, %w: settle it with the token", how.name, l.entity, ErrHandedOver, ErrLeaseClosed)
	}
	if l.resumed != nil {
		return l.settleResumed(ctx, how)
	}
	l.releaseSlots()
	wasClosed, isEven := true, true
	for i := range l.parts() {
		was, isClosed := l.part(i).closeIfEven(how)
		wasClosed, isEven = wasClosed && was == leaseClosed, isEven && isClosed
	}
	if isEven && (wasClosed || l.limiter.observer == nil) {
		return nil
	}
	ctx, seen := l.limiter.observe(ctx, Call{how.kind, l.entity, l.resource})
	seen.names(l)
	var err error
	if !isEven {
		err = l.settleUneven(ctx, how, seen)
	}
	seen.endOther(ctx, l, err)
	return err
}

// releaseSlots returns the slots of all resources of the lease.
func (l *Lease) releaseSlots() {
	for i := range l.parts() {
		if held := l.part(i).slots; held != nil {
			held.Release()
		}
	}
}

// hasSlots reports whether any resource of the lease has slots.
func (l *Lease) hasSlots() bool {
	for i := range l.parts() {
		if l.part(i).slots != nil || l.resumed != nil && len(l.resumed.Resources[i].Slots) > 0 {
			return true
		}
	}
	return false
}

// isHandedOver reports whether the lease was written down.
func (l *Lease) isHandedOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handedOver
}

// settleUneven settles a lease for which something may have to be written.
func (l *Lease) settleUneven(ctx context.Context, how *ending, seen *observation) error {
	what := how.name + " lease of " + l.entity
	if !l.limiter.driver.Begin() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	was := l.begin()
	var also []leaseState
	for _, p := range l.also {
		also = append(also, p.begin())
	}
	if l.Degraded() && !l.hasShares() && how == commit {
		defer l.limiter.driver.End()
		l.limiter.driver.InBackground(func() { l.logUnsettled(ctx, what, l.settleAll(ctx, was, also, how, nil, nil)) })
		return nil
	}
	_, err := process.CarryOut(ctx, l.limiter.driver.Process, what, func(bound context.Context) (struct{}, error) {
		hasReturned := func() bool { return l.limiter.driver.HasReturned(ctx, bound) }
		err := l.settleAll(bound, was, also, how, hasReturned, seen)
		if hasReturned() {
			l.logUnsettled(ctx, what, err)
		}
		return struct{}{}, err
	})
	return err
}

func (l *Lease) logUnsettled(ctx context.Context, what string, err error) {
	if err != nil {
		l.limiter.driver.Logger.WarnContext(ctx, "lease not settled", "entity", l.entity, "op", what, "error", err)
	}
}

// closeIfEven closes a lease if that needs no write. It returns the previous state, and
// whether the lease is now closed.
func (l *Lease) closeIfEven(how *ending) (was leaseState, isClosed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.state
	if was == leaseOpen && l.isEvenLocked(how) && (!l.hasReservedLocked() || !l.limiter.driver.IsClosed()) {
		l.state = leaseClosed
		l.freeLocked()
	}
	return was, l.state == leaseClosed
}

// hasReservedLocked reports whether any of the lease goes back if this process is lost (ADR 071). If so, the item must
// learn of its end.
func (l *Lease) hasReservedLocked() bool {
	return slices.ContainsFunc(l.sides, (*acquire.Taken).HasReserved)
}

// freeLocked ends what the lease has reserved, without a write of its own.
func (l *Lease) freeLocked() {
	for i := range l.sides {
		if l.sides[i].HasReserved() {
			l.limiter.driver.Settler.Free(l.sides[i])
		}
	}
}

// isEvenLocked reports whether the written amounts are the target.
func (l *Lease) isEvenLocked(how *ending) bool {
	if l.degraded && !l.isShared() && !l.pending.mayDebit() {
		return true
	}
	for i := range l.sides {
		if !l.sides[i].IsSettled(how.target) {
			return false
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

// end sets the state of a lease after a settlement or a release.
func (l *Lease) end(state leaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	close(l.settled)
}

// wait waits until no other caller settles or releases the lease, and then begins, as begin does.
func (l *Lease) wait() (was leaseState) {
	for {
		l.mu.Lock()
		settled := l.settled
		l.mu.Unlock()
		<-settled
		if was = l.begin(); !was.isBusy() {
			return was
		}
	}
}

// settleNow settles a lease, without a limit on time.
func (l *Lease) settleNow(ctx context.Context, how *ending) error {
	return l.settleFrom(ctx, l.begin(), how, nil, nil)
}

// isBusy reports whether another caller's writes are under way.
func (s leaseState) isBusy() bool { return s == leaseReleasing || s == leaseSettling }

// settleAll settles all resources of a lease after [Lease.begin], which returned was for the
// first and also for the others. Each is open or closed in the end for itself.
func (l *Lease) settleAll(ctx context.Context, was leaseState, also []leaseState, how *ending, hasReturned func() bool, seen *observation) error {
	if len(also) == 0 {
		return l.settleFrom(ctx, was, how, hasReturned, seen)
	}
	errs := make([]error, l.parts())
	l.limiter.driver.AtOnce(len(errs), func(i int) {
		from := was
		if i > 0 {
			from = also[i-1]
		}
		errs[i] = l.part(i).settleFrom(ctx, from, how, hasReturned, seen)
	})
	return errors.Join(errs...)
}

// settleFrom settles one resource of a lease after [Lease.begin]. hasReturned says that the
// call has returned, so that its caller cannot retry a throttled write; nil means that it never
// has. A settlement that waits in the lane for too long leaves the lease open: the store may be
// unreachable.
func (l *Lease) settleFrom(ctx context.Context, was leaseState, how *ending, hasReturned func() bool, seen *observation) error {
	if was.isBusy() {
		was = l.wait()
		ctx = l.limiter.driver.Detach(ctx) // the wait may have used up the time of the call
	}
	if was == leaseClosed {
		return nil
	}
	if !l.degraded || l.isShared() {
		seen.settles(l, how)
	}
	err := l.write(ctx, how)
	if errors.Is(err, ErrThrottled) && hasReturned != nil && hasReturned() {
		err = l.limiter.driver.Insist(ctx, func(ctx context.Context) error { return l.write(ctx, how) })
	}
	l.rouse()
	if process.IsTurnedAway(err) {
		l.end(leaseOpen)
	} else {
		l.end(leaseClosed)
	}
	return err
}

// write makes the written amounts the target, in all buckets concurrently.
func (l *Lease) write(ctx context.Context, how *ending) error {
	switch {
	case l.isShared():
		return l.writeShared(ctx, how.target)
	case l.degraded && l.pending == nil:
		return nil // nothing was metered
	case l.degraded:
		return l.writeLate(ctx, how)
	}
	errs := make([]error, len(l.sides))
	l.limiter.driver.AtOnce(len(l.sides), func(i int) { errs[i] = l.limiter.driver.Settler.Settle(ctx, l.sides[i], how.target, true) })
	return errors.Join(errs...)
}

// writeLate waits for the acquisition of a degraded lease, and settles what that has
// taken.
func (l *Lease) writeLate(ctx context.Context, how *ending) error {
	<-l.pending.done
	if l.pending.lease == nil {
		return nil
	}
	taken, err := l.pending.lease.Resource(l.resource)
	if err != nil {
		return err
	}
	for _, want := range l.sides[0].Entries {
		for i := range taken.sides {
			for j := range taken.sides[i].Entries {
				if e := &taken.sides[i].Entries[j]; e.Limit == want.Limit {
					e.Total = want.Total
				}
			}
		}
	}
	return l.limiter.driver.Insist(ctx, func(ctx context.Context) error { return taken.settleNow(ctx, how) })
}
