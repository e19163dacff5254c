package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/outage"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

// ShareOptions say what a limiter admits with [Share] while the store is away: its share of each
// limit. The zero value works, but takes the process for the only one.
//
// A process that has lost the store keeps a bucket of its own for each limit: an N-th of the capacity
// and of the rate, for N processes. It begins with an N-th of the balance that the process saw last. So
// if R processes lose the store for a time T, they admit no more than
//
//	R / N · (what they saw last + rate · T)
//
// Of a quota, the rate is the amount at each end of its period. What was admitted is debited once the
// store is back, by each process before it takes from the bucket again.
type ShareOptions struct {
	// Processes is the least N: how many processes share the limits at most times. Default 1. If a
	// process knows of more that hold slots of the same bucket, N is their number; and at
	// least 2 if others wrote to the bucket when it was seen last.
	Processes int
	// Buckets is the most buckets of which the process keeps shares. Default [Options.Memory]. Those
	// that owe nothing are dropped for others.
	Buckets int
	// Unseen is what becomes of a request for a bucket without a share, because the process has
	// never seen it, or has Buckets of them. [Block], the default, refuses it with a
	// [*ShareError]; [Allow] admits it, and meters nothing.
	Unseen OnUnavailable
}

// validate checks the options.
func (o ShareOptions) validate() error {
	if o.Processes < 0 || o.Processes > maxProcesses {
		return &ValidationError{Field: "Share.Processes", Value: strconv.Itoa(o.Processes), Reason: fmt.Sprintf("give from 1 to %d; 0 is 1", maxProcesses)}
	}
	if err := store.CheckNotNegative("Share.Buckets", o.Buckets); err != nil {
		return err
	}
	if o.Unseen == Share {
		return &ValidationError{Field: "Share.Unseen", Value: string(o.Unseen), Reason: `give "block" or "allow"`}
	}
	return o.Unseen.Validate()
}

// maxProcesses is the largest [ShareOptions.Processes].
const maxProcesses = 1_000_000

// A ShareError says why a process has no share for a request, while the store is away. It is
// [ErrUnavailable]. Nothing was taken.
type ShareError struct {
	Entity, Resource string
	Reason           string
}

// Error says why, and what to do.
func (e *ShareError) Error() string {
	return fmt.Sprintf("%v: no share of %s for %s: %s: try again later, or see ShareOptions", ErrUnavailable, e.Resource, e.Entity, e.Reason)
}

// Is reports whether target is [ErrUnavailable].
func (e *ShareError) Is(target error) bool { return target == ErrUnavailable }

// shares reports whether a request is to get the process's share in an outage.
func (l *Limiter) shares(req *Request) bool {
	return l.driver.Config.OnUnavailable(req.OnUnavailable) == Share && l.driver.Outage.Shares()
}

// hasLost reports whether the store is away, after it did not answer a call of ctx. bound is closed
// when all the time of a call is up. If the call has time left, it waits for a probe: then one
// answer may have been lost, and the store not.
func (l *Limiter) hasLost(ctx context.Context, bound <-chan struct{}, err error) bool {
	d := l.driver
	select {
	case <-bound:
		if ctx.Err() == nil {
			d.Outage.Lose(err) // in all the time of a call, the store has not answered
		}
	default:
	}
	select {
	case <-d.Outage.Doubt():
	case <-ctx.Done():
	case <-bound:
	}
	away, _ := d.Outage.IsAway()
	return away
}

// sharesNow reports whether a request gets the process's share now.
func (l *Limiter) sharesNow(req *Request) bool {
	away, _ := l.driver.Outage.IsAway()
	return away && l.shares(req)
}

// inOutage decides a request while the store is away. If an outage has taken of its buckets, that is
// debited first, for every caller. It is not decided if the store must be asked.
func (l *Limiter) inOutage(ctx context.Context, req *Request, seen *observation) (lease *Lease, decided bool, err error) {
	d := l.driver
	if !d.Begin() {
		return nil, true, fmt.Errorf("%s: %w", req.op("acquire"), ErrClosed)
	}
	defer d.End()
	shares := l.shares(req)
	if away, why := d.Outage.IsAway(); away && shares {
		lease, err = l.share(req, seen, why)
		return lease, true, err
	}
	asked := asks(req)
	switch why := d.Outage.PayFirst(ctx, &asked); {
	case why == nil:
		return nil, false, nil
	case shares && ctx.Err() == nil:
		d.Outage.Lose(why)
		lease, err = l.share(req, seen, why)
		return lease, true, err
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, true, process.OutOfTime(ctx, req.op("acquire"))
	case l.degrades(req, why):
		seen.degraded(why)
		return l.degraded(ctx, req, nil, why), true, nil
	default:
		return nil, true, fmt.Errorf("%s: %w", req.op("acquire"), why)
	}
}

// share decides a request by the process's share, because the store does not answer.
func (l *Limiter) share(req *Request, seen *observation, why error) (*Lease, error) {
	asked := asks(req)
	holds, refused, err := l.driver.Outage.Admit(&asked)
	switch {
	case err != nil:
		return nil, err
	case refused != nil && len(refused.Quotes) == 0:
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), &ShareError{Entity: refused.Entity, Resource: refused.Resource, Reason: refused.Why})
	case refused != nil:
		seen.recalled()
		return nil, refusalOf(refused.Quotes, l.driver.Now())
	}
	seen.degraded(why)
	var lease *Lease
	i := 0
	for p := range req.parts() {
		part := l.makeLease(req.Entity, p.Resource, p.Fallback)
		part.degraded, part.holds = true, holds[i]
		part.addSide().Assume(p.Consume)
		lease = lease.with(part)
		i++
	}
	return lease, nil
}

// refusalOf is the refusal by shares.
func refusalOf(quotes []outage.Quote, now int64) *ExceededError {
	e := newRefusal(len(quotes))
	e.Degraded = true
	for i := range quotes {
		q := &quotes[i]
		st := Status{
			Entity: q.Entity, Resource: q.Resource, Limit: limitOf(plan.InForce(q.Params, now), q.Limit),
			Available: floorDiv(q.Held, milli), Requested: q.Asked / milli, RetryAfter: q.Wait, Exceeded: q.Wait > 0, Bypassed: q.Bypassed,
		}
		st.Limit.Soft, st.Limit.Mode = q.Soft, q.Mode
		st.WouldRefuse = q.Mode == Shadow && !q.Bypassed && q.Held < q.Asked
		if r := q.Params.Renewal; r != nil {
			if end := r.End(q.Opened, now); end > now && end < math.MaxInt64 {
				st.ResetsAt, st.ResetsIn = time.UnixMilli(end).UTC(), time.Duration(end-now)*time.Millisecond
			}
		}
		e.Statuses = append(e.Statuses, st)
	}
	return e
}

// shareAfter decides a request by the process's share after its acquisition has failed with err. It
// returns err if the store answers a probe: then one answer was lost, and the store was not.
func (l *Limiter) shareAfter(ctx context.Context, req *Request, a *acquisition, err error) (*Lease, error) {
	if !l.hasLost(ctx, a.bound.Detached.Done(), err) {
		return nil, err
	}
	lease, refused := l.share(req, a.seen, err)
	if lease != nil && process.MayHaveLanded(err) {
		lease.forgive()
	}
	return lease, refused
}

// shareInTime is shareAfter for a caller whose time is up, while its acquisition is still under way:
// what that takes goes back.
func (l *Limiter) shareInTime(ctx context.Context, req *Request, a *acquisition, err error) (*Lease, error) {
	d := l.driver
	if !l.hasLost(ctx, a.bound.Detached.Done(), err) {
		return nil, err
	}
	lease, refused := l.share(req, a.seen, err)
	if lease != nil && d.Begin() {
		d.Run(func() {
			defer d.End()
			if <-a.done; process.MayHaveLanded(a.err) {
				lease.forgive()
			}
		})
	}
	return lease, refused
}

// forgive notes that the store may have been debited already.
func (l *Lease) forgive() {
	for i := range l.parts() {
		for _, h := range l.part(i).holds {
			h.Forgive(l.limiter.driver.Now())
		}
	}
}

// isShared reports whether the lease took from the process's share.
func (l *Lease) isShared() bool { return len(l.holds) > 0 }

// writeShared makes the target what was taken of shares: here, or at the store if it is back. Each
// share is told what it lacks, so those that were told are not told again if another one fails.
func (l *Lease) writeShared(ctx context.Context, target func(*acquire.Entry) int64) error {
	t := l.sides[0]
	errs := make([]error, len(l.holds))
	l.limiter.driver.AtOnce(len(errs), func(i int) { errs[i] = l.limiter.driver.Outage.SettleHold(ctx, l.holds[i], t, target) })
	err := errors.Join(errs...)
	if !process.IsTurnedAway(err) {
		t.Wrote(target)
	}
	return err
}

// sharedSides are what a lease took of shares, as it is written down: as if it had been debited of
// the first shard, where the store is told of it.
func (l *Lease) sharedSides() (sides []token.Side) {
	for _, h := range l.holds {
		sides = append(sides, token.Side{Entity: h.Bucket().Entity, Held: []token.Held{{Amounts: h.Taken()}}})
	}
	return sides
}

// hasShares reports whether the lease took from the process's share of any resource.
func (l *Lease) hasShares() bool {
	for i := range l.parts() {
		if l.part(i).isShared() {
			return true
		}
	}
	return false
}

// absorbShared adds what another lease has taken to this one. Both must have it of the same shares:
// what was taken before the store was lost, or since it is back, is settled in another way.
func (l *Lease) absorbShared(what string, more *Lease) error {
	if len(l.holds) != len(more.holds) {
		return fmt.Errorf("%s: %w: the lease is of another time than the outage: acquire more with a lease of its own", what, ErrUnavailable)
	}
	for i := range l.holds {
		if !l.holds[i].IsOf(more.holds[i]) {
			return fmt.Errorf("%s: %w: what the lease took in an outage has been debited: acquire more with a lease of its own", what, ErrUnavailable)
		}
	}
	for i := range l.holds {
		l.holds[i].Join(more.holds[i])
	}
	l.sides[0].Raise(more.Consumed())
	l.sides[0].Presume(more.Consumed())
	return nil
}
