package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/process"
)

// A lease is extended and reduced by calls that write while it is open. They may run at
// the same time as each other and as a commit or rollback:
//
//	Take             the lease
//	  │ debits ─────▶ │ open: absorbs the debit
//	                  │ being released: Take waits for the end
//	                  │ being settled, or closed: Take returns the debit, ErrLeaseClosed
//	Release
//	  │ reduces ────▶ │ open: the lease is being released; writes; is open again
//	                  │ being released: Release waits for the end
//	                  │ being settled, or closed: ErrLeaseClosed
//	Commit, Rollback
//	  │ ────────────▶ │ being released: waits for the end, then settles

// Take takes more of the lease's entity and resource under enforcement: it debits every
// amount, or none. The map consume has tokens by limit, like [Request.Consume]. It may
// name limits that the request did not. What Take debits is part of the lease from then
// on: Commit keeps it, and Rollback returns it. If the entity cascades, Take debits its
// parent too.
//
// A refusal is an [*ExceededError], and leaves the lease as it is. So do all other errors,
// which are those of [Limiter.Acquire]. Take fails with [ErrUnavailable] if the store
// cannot be reached, even if the request or the configuration says to allow. The caller
// then decides: [Lease.Adjust] takes more without asking. On a lease that is itself
// degraded, Take is not metered, like the lease, and succeeds. If that took from the process's share,
// Take does, too, and fails with [ErrUnavailable] once the store is back.
//
// Take fails with [ErrLeaseClosed] if a commit or rollback has begun. If one begins while
// Take is under way, Take returns what it debited.
func (l *Lease) Take(ctx context.Context, consume map[string]int64) error {
	req := Request{Entity: l.entity, Resource: l.resource, Consume: consume, Fallback: l.fallback, OnUnavailable: Block}
	if l.isShared() {
		req.OnUnavailable = Share
	}
	ctx, seen := l.limiter.observe(ctx, Call{CallTake, l.entity, l.resource})
	err := l.take(ctx, req, seen)
	seen.endAcquire(ctx, &req, l, err)
	return err
}

// take takes what a request asks for.
func (l *Lease) take(ctx context.Context, req Request, seen *observation) error {
	if l.resumed != nil {
		return resumedError("take")
	}
	if err := req.Validate(); err != nil {
		return err
	}
	what := req.op("take more")
	if done, err := l.admitsTake(what, req.Consume); done || err != nil {
		return err
	}
	began := l.limiter.driver.Uptime()
	more, err := l.limiter.admit(ctx, req, seen)
	if err != nil {
		return err
	}
	if err := l.absorb(ctx, what, more); err != nil {
		// The return has what is left of the time of this call. It goes on after that.
		ctx, cancel := context.WithTimeout(ctx, l.limiter.driver.Time()-(l.limiter.driver.Uptime()-began))
		defer cancel()
		return errors.Join(err, more.settleUneven(ctx, rollBack, nil))
	}
	return nil
}

// admitsTake checks whether the lease has room for more tokens. done says that the lease
// is degraded and has counted them.
func (l *Lease) admitsTake(what string, consume map[string]int64) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(what); err != nil {
		return false, err
	}
	if err := l.checkRoomLocked(consume); err != nil || !l.degraded || l.isShared() {
		return false, err
	}
	l.sides[0].Raise(consume)
	return true, nil
}

// checkRoomLocked fails if the lease would take more than [MaxTokens] of a limit.
func (l *Lease) checkRoomLocked(consume map[string]int64) error {
	for limit, tokens := range consume {
		if total, _ := l.totalLocked(limit); tokens > MaxTokens-total {
			return &ValidationError{
				Field: "take " + limit, Value: strconv.FormatInt(tokens, 10),
				Reason: fmt.Sprintf("keep what the lease takes, now %d, within %d tokens", total, int64(MaxTokens)),
			}
		}
	}
	return nil
}

// absorb makes what another lease has debited a part of this one.
func (l *Lease) absorb(ctx context.Context, what string, more *Lease) error {
	if err := l.lockOpen(ctx, what); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := l.checkRoomLocked(more.Consumed()); err != nil {
		return err
	}
	if l.isShared() || more.isShared() {
		return l.absorbShared(what, more)
	}
	for _, taken := range more.sides {
		c := taken.Claim
		if i := slices.IndexFunc(l.sides, func(side *acquire.Taken) bool { return side.Claim.Entity == c.Entity }); i >= 0 {
			l.sides[i].Absorb(c)
		} else {
			l.addSide().Init(l.limiter.driver.Uptime(), c)
		}
	}
	return nil
}

// lockOpen waits until no release is under way, and returns with mu held if the lease is
// open.
func (l *Lease) lockOpen(ctx context.Context, what string) error {
	for {
		l.mu.Lock()
		if l.state == leaseOpen {
			return nil
		}
		err, settled := l.openLocked(what), l.settled
		l.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return process.OutOfTime(ctx, what)
		}
	}
}

// Release returns a part of what the lease has taken at once, instead of at the commit.
// It suits a lease that stays open for long. tokens maps limit names to tokens, which the
// lease must have. The same write makes the adjustments so far.
//
// Some errors say that nothing was written: [ErrThrottled], [ErrConflict]. The tokens are
// then an adjustment that the next Release or the Commit writes. After any other error of
// the store they may or may not have been returned. [ErrInvalid], [ErrClosed] and
// [ErrLeaseClosed] leave the lease as it is.
//
// Release returns when ctx ends, with its error, or after [Options.Timeout]. The limiter
// completes the writes nevertheless. A degraded lease has nothing to return at once:
// Release only adjusts it.
func (l *Lease) Release(ctx context.Context, tokens map[string]int64) error {
	ctx, seen := l.limiter.observe(ctx, Call{CallRelease, l.entity, l.resource})
	if !l.degraded || l.isShared() {
		seen.released(tokens)
	}
	err := l.release(ctx, tokens)
	seen.endOther(ctx, l, err)
	return err
}

// release returns a part of what the lease has taken.
func (l *Lease) release(ctx context.Context, tokens map[string]int64) error {
	if l.resumed != nil {
		return resumedError("release")
	}
	what, d := "release a part of the lease of "+l.entity, l.limiter.driver
	if !d.Begin() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	if err := l.beginRelease(ctx, what, tokens); err != nil {
		d.End()
		return err
	}
	_, err := process.CarryOut(ctx, d.Process, what, func(bound context.Context) (struct{}, error) {
		defer l.end(leaseOpen)
		switch {
		case l.isShared():
			return struct{}{}, l.writeShared(bound, func(e *acquire.Entry) int64 { return e.Due })
		case l.degraded:
			return struct{}{}, nil
		}
		errs := make([]error, len(l.sides))
		d.AtOnce(len(l.sides), func(i int) {
			errs[i] = d.Settler.Settle(bound, l.sides[i], func(e *acquire.Entry) int64 { return e.Due }, false)
		})
		l.rouse()
		return struct{}{}, errors.Join(errs...)
	})
	return err
}

// beginRelease reduces the totals, and makes the caller the one that writes them.
func (l *Lease) beginRelease(ctx context.Context, what string, tokens map[string]int64) error {
	if err := l.lockOpen(ctx, what); err != nil {
		return err
	}
	defer l.mu.Unlock()
	for _, limit := range slices.Sorted(maps.Keys(tokens)) {
		has, found := l.totalLocked(limit)
		if n := tokens[limit]; !found || n < 0 || n > has {
			return &ValidationError{
				Field: "release " + limit, Value: strconv.FormatInt(n, 10),
				Reason: fmt.Sprintf("release from 0 to %d tokens, which is what the lease has", has),
			}
		}
	}
	for limit, n := range tokens {
		l.addLocked(limit, -n)
	}
	for _, side := range l.sides {
		for i := range side.Entries {
			side.Entries[i].Due = side.Entries[i].Total
		}
	}
	l.owes = nil
	l.state, l.settled = leaseReleasing, make(chan struct{})
	return nil
}

// Return returns tokens that earlier requests took, whose leases are gone: of a process that has
// ended, or of a caller that has no leases. Consume says how many; a cascade returns them to the
// parent too. A balance does not get higher than its capacity. Tokens of a quota are returned to the
// period under way, so return none of an earlier one.
//
// Use [Lease.Rollback] or [Lease.Release] where there is a lease: Return believes its caller,
// and who returns what was not taken gives it away. A request must not name slots. Errors are
// those of [Limiter.Acquire] and [Lease.Commit], never a refusal: after [ErrUnavailable] the tokens
// may or may not have been returned.
func (l *Limiter) Return(ctx context.Context, req Request) error {
	if req.holds() {
		return &ValidationError{Field: "slots", Reason: "slots end with their lease: leave them out"}
	}
	if err := req.Validate(); err != nil {
		return err
	}
	nothing := req.clone()
	nothing.ClampPercent = 0
	nothing.OnUnavailable = Block // what the store does not hear of is not returned
	for part := range nothing.parts() {
		for name := range part.Consume {
			part.Consume[name] = 0
		}
	}
	lease, err := l.Acquire(ctx, nothing)
	if err != nil {
		return err
	}
	i := 0
	for part := range req.parts() {
		of := lease.part(i)
		of.mu.Lock()
		for _, side := range of.sides {
			side.Presume(part.Consume)
		}
		of.mu.Unlock()
		i++
	}
	return lease.Rollback(ctx)
}
