package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Acquire debits every amount that the request names, or none. It debits the entity
// and, if the entity cascades, its parent. It returns an open [Lease] for what it
// debited.
//
// A refusal is an [*ExceededError] with the wait. Other errors: [ErrInvalid] for a
// request that names unknown limits or is otherwise wrong; [ErrUnavailable] if the
// store could not be reached, unless the request or the configuration says to allow,
// which yields a degraded lease; [ErrAccessDenied]; [ErrConflict] under extreme
// contention; [ErrDisabled]; [ErrUnsupported]; [ErrClosed] after [Limiter.Close].
//
// A call returns by its context's deadline and within [Options.Timeout]. Reaching
// either counts as the store not answering in time. If the caller leaves, by
// cancellation or deadline, the limiter finishes the write under way and then returns
// its tokens. If the caller got a degraded lease, the lease decides about them
// instead, see [Lease.Degraded].
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if l.underWay.IsClosed() {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), err)
	}
	if err := l.refuseLocally(&req); err != nil {
		return nil, err
	}
	if !l.underWay.Begin() {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), ErrClosed)
	}
	a := &acquisition{bound: l.deadlines.Bound(ctx)}
	if !l.immediate {
		return l.acquireApart(ctx, req.clone(), a)
	}
	defer l.underWay.End()
	a.lease, a.err = l.acquire(&a.bound, &req, ctx.Done()) //nolint:contextcheck // it has the values of ctx
	return l.answer(ctx, &req, a)
}

// An acquisition runs on a goroutine of its own. Its caller may leave while a write
// is under way, and the limiter must still learn the outcome of that write:
//
//	caller          run
//	  │ ── go ──────▶ │ writes …
//	  │ ctx done      │
//	  │ abandons      │ finds itself abandoned: returns what it took
//
// The side that first moves state away from underWay decides.
type acquisition struct {
	bound calls.Detached // ends this call
	state atomic.Int32
	done  chan struct{} // closed once lease and err are set
	lease *Lease
	err   error
}

const (
	underWay  int32 = iota
	answered        // the result belongs to the caller
	abandoned       // the caller has left; run returns the tokens
	kept            // the caller has a degraded lease, which decides about the result
)

// acquireApart runs an acquisition on a goroutine of its own. The request may outlive
// the call.
func (l *Limiter) acquireApart(ctx context.Context, req Request, a *acquisition) (*Lease, error) {
	a.done = make(chan struct{})
	l.workers.Run(func() { a.run(ctx, l, &req) })
	select {
	case <-a.done:
	case <-ctx.Done():
		return l.leave(ctx, ctx, &req, a)
	case <-a.bound.Done():
		return l.leave(ctx, &a.bound, &req, a)
	}
	return l.answer(ctx, &req, a)
}

func (a *acquisition) run(ctx context.Context, l *Limiter, req *Request) {
	defer l.underWay.End()
	a.lease, a.err = l.acquire(&a.bound, req, ctx.Done()) //nolint:contextcheck // it has the values of ctx
	isAbandoned := !a.state.CompareAndSwap(underWay, answered) && a.state.Load() == abandoned
	close(a.done)
	if isAbandoned && a.lease != nil {
		ctx = context.WithoutCancel(ctx)
		l.logKept(ctx, Bucket{Entity: req.Entity, Resource: req.Resource}, l.insist(ctx, func(ctx context.Context) error {
			return a.lease.settleNow(ctx, rollBack)
		}))
	}
}

// answer returns to the caller the result of an acquisition that has ended.
func (l *Limiter) answer(ctx context.Context, req *Request, a *acquisition) (*Lease, error) {
	err := a.err
	if errors.Is(err, calls.ErrLeft) {
		err = outOfTime(ctx, req.op("acquire"))
	}
	if !l.degrades(req, err) {
		return a.lease, err
	}
	return l.degraded(ctx, req, nil, err), nil
}

// leave answers a caller whose time is up before its acquisition has ended. ended is
// the context that is done.
func (l *Limiter) leave(ctx, ended context.Context, req *Request, a *acquisition) (*Lease, error) {
	err, to := outOfTime(ended, req.op("acquire")), abandoned
	degrades := l.degrades(req, err)
	if degrades {
		to = kept
	}
	switch {
	case !a.state.CompareAndSwap(underWay, to): // it has ended in the meantime
		<-a.done
		return l.answer(ctx, req, a)
	case degrades:
		return l.degraded(ctx, req, a, err), nil
	}
	return nil, err
}

// degrades reports whether a failed acquire still yields a lease, because the request
// or the configuration allows it.
func (l *Limiter) degrades(req *Request, err error) bool {
	return errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrAccessDenied) && l.config.unavailable(req.OnUnavailable) == Allow
}

// degraded makes a lease that meters nothing, granted because of err. pending is the
// acquisition that may still debit the amounts; nil if none will.
func (l *Limiter) degraded(ctx context.Context, req *Request, pending *acquisition, err error) *Lease {
	l.logger.WarnContext(ctx, "admitted without the store", "entity", req.Entity, "resource", req.Resource, "error", err)
	lease := &Lease{limiter: l, entity: req.Entity, degraded: true, pending: pending}
	amounts := claimAmounts(req.Consume)
	s := side{entries: make([]entry, 0, len(amounts))}
	for _, a := range amounts {
		s.entries = append(s.entries, entry{a.Limit, a.Milli})
	}
	s.add(nil, amounts)
	lease.sides = append(lease.room[:0], s)
	return lease
}

// acquire debits the entity and its parent. If the limiter remembers the parent, it
// pursues both claims at once. Each claim runs on its own: a side that was debited
// stays debited while the other side refills. The limiter refunds it only if the
// other side refuses or fails, or if the remembered parent is out of date.
func (l *Limiter) acquire(ctx context.Context, req *Request, left <-chan struct{}) (*Lease, error) {
	child := l.claim(req)
	remembered := child.acct.Owner(l.uptime(), memory.ImageAge)
	if err := l.knownDisabled(req, child.acct, remembered); err != nil {
		return nil, err
	}
	parent, childErr, parentErr := l.pursueBoth(ctx, req, child, remembered, left)
	if childErr == nil && child.parent != remembered {
		l.refund(ctx, parent)
		parent, parentErr = nil, nil
		if child.parent != "" && !child.refused {
			parent = l.parentClaim(req, child.parent)
			parentErr = l.pursue(ctx, parent, left)
		}
	}
	if child.refused && parent == nil && child.parent != "" {
		// The wait is the longer of the two.
		parent = l.parentClaim(req, child.parent)
		parentErr = l.inspect(ctx, parent)
	}
	err := errors.Join(childErr, parentErr)
	if !errors.Is(err, ErrDisabled) {
		// A refusal is an answer, whatever happened on the other side.
		err = cmp.Or(verdict(child, parent, l.uptime()), err)
	}
	if err != nil {
		l.refund(ctx, child, parent)
		return nil, err
	}
	return newLease(l, req, child, parent), nil
}

// knownDisabled fails if the bucket of the entity, or of its remembered parent, is
// known to be disabled. Otherwise the limiter would debit the other bucket and have
// to refund it.
func (l *Limiter) knownDisabled(req *Request, acct *account, parent string) error {
	switch up := l.uptime(); {
	case l.isDisabled(acct, up):
		return &DisabledError{Entity: req.Entity, Resource: req.Resource}
	case parent != "" && l.isDisabled(l.account(parent, req.Resource), up):
		return &DisabledError{Entity: parent, Resource: req.Resource}
	}
	return nil
}

// pursueBoth debits the entity's claim and, if a parent is remembered, the parent's.
func (l *Limiter) pursueBoth(ctx context.Context, req *Request, child *claim, remembered string, left <-chan struct{}) (parent *claim, childErr, parentErr error) {
	if remembered == "" {
		return nil, l.pursue(ctx, child, left), nil
	}
	parent = l.parentClaim(req, remembered)
	errs := [2]error{}
	l.atOnce(2, func(i int) { errs[i] = l.pursue(ctx, [...]*claim{child, parent}[i], left) })
	return parent, errs[0], errs[1]
}

// atOnce runs n pieces of work concurrently. If no work waits for anything, it runs
// them one after the other.
func (l *Limiter) atOnce(n int, work func(i int)) {
	if l.immediate || n < 2 {
		for i := range n {
			work(i)
		}
		return
	}
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		others.Add(1)
		l.workers.Run(func() {
			defer others.Done()
			work(i)
		})
	}
	work(0)
	others.Wait()
}

// claim makes the claim of a request on its entity's bucket.
func (l *Limiter) claim(req *Request) *claim {
	asked := claimAmounts(req.Consume)
	c := &claim{
		Bucket: Bucket{Entity: req.Entity, Resource: req.Resource}, acct: l.account(req.Entity, req.Resource),
		want: plan.Want{Asked: asked},
	}
	if len(req.Fallback) > 0 {
		c.want.Fallback = sortLimits(req.Fallback)
	}
	c.terms = c.want.Under(nil)
	return c
}

// parentClaim makes the claim of a request on the bucket of the entity's parent, if
// the parent has limits.
func (l *Limiter) parentClaim(req *Request, parent string) *claim {
	asked := claimAmounts(req.Consume)
	c := &claim{
		Bucket: Bucket{Entity: parent, Resource: req.Resource}, acct: l.account(parent, req.Resource),
		want: plan.Want{Asked: asked, Optional: true},
	}
	c.terms = c.want.Under(nil)
	return c
}

// verdict returns the refusal that follows from both claims, if any.
func verdict(child, parent *claim, up time.Duration) error {
	if unknown := unknownToAll(child, parent); len(unknown) > 0 {
		return &ValidationError{Field: "consume", Value: strings.Join(unknown, ", "), Reason: child.terms.Target.Decides(&child.Bucket)}
	}
	if !child.refused && (parent == nil || !parent.refused) {
		return nil
	}
	// The limiter decided the two sides at different instants; the wait counts from the
	// later one.
	sides := slices.DeleteFunc([]*claim{child, parent}, func(c *claim) bool { return c == nil || !c.granted && !c.refused && c.statuses == nil })
	e := &ExceededError{}
	for _, c := range sides {
		e.Statuses = append(e.Statuses, c.asBefore(max(sides[0].at, sides[len(sides)-1].at), up)...)
	}
	if !slices.ContainsFunc(e.Statuses, func(s Status) bool { return s.Exceeded }) {
		e.Statuses = nil // the limits that refused one side have since earned enough
		for _, c := range sides {
			e.Statuses = append(e.Statuses, c.asBefore(c.at, up)...)
		}
	}
	return e
}

// unknownToAll returns the limits of the request that neither side has. A parent that
// was not asked may have them all.
func unknownToAll(child, parent *claim) []string {
	switch {
	case parent == nil && child.parent != "":
		return nil
	case parent == nil:
		return child.terms.Unknown
	}
	return slices.DeleteFunc(slices.Clone(child.terms.Unknown), func(name string) bool { return !slices.Contains(parent.terms.Unknown, name) })
}

// asBefore returns the status of every limit of the claim at an instant, as if the
// claim had not been debited.
func (c *claim) asBefore(at int64, up time.Duration) []Status {
	if c.statuses != nil {
		return c.statuses
	}
	statuses := c.standing(c.shards(up), at)
	if !c.granted {
		return statuses
	}
	for i := range statuses {
		st := &statuses[i]
		st.Available += st.Requested
		if st.Requested > st.Limit.Capacity { // an operator lowered it since the debit
			st.RetryAfter, st.Exceeded = Never, true
		}
	}
	return statuses
}

// shards returns the images that decided a claim, by shard number, as far as they are
// remembered.
func (c *claim) shards(up time.Duration) []*store.Image {
	switch {
	case c.images != nil:
		return c.images
	case c.image == nil:
		return nil
	case c.image.ShardCount == 1:
		return []*store.Image{c.image}
	}
	// Images from before or after a doubling have other shares.
	last, _ := c.acct.Images(up, memory.ImageAge)
	images := make([]*store.Image, c.image.ShardCount)
	for i, img := range last {
		if img != nil && img.ShardCount == len(images) {
			images[i] = img
		}
	}
	images[c.image.Shard] = c.image
	return images
}

// parts returns the amounts that a claim has debited, shard by shard.
func (c *claim) parts() []plan.Portion {
	if len(c.portions) > 0 {
		return c.portions
	}
	return []plan.Portion{{Image: c.image, Amounts: c.terms.Amounts}}
}

// refund returns the amounts that claims have debited, if any. It credits all their
// shards at once, and then credits other shards with the tokens that find no room
// there. It gets the limiter's time anew, because the call's own time may already be
// up. If the store turns a return away, refund repeats it in the background, after
// the caller has its answer. If nobody can tell whether a return was applied, the
// tokens stay debited, which is the safe side.
func (l *Limiter) refund(ctx context.Context, claims ...*claim) {
	claims = slices.DeleteFunc(claims, func(c *claim) bool { return c == nil || !c.granted })
	if len(claims) == 0 {
		return
	}
	ctx = l.deadlines.Detach(ctx)
	for _, c := range claims {
		l.refundOne(ctx, c)
	}
}

func (l *Limiter) refundOne(ctx context.Context, c *claim) {
	c.granted = false
	parts := c.parts()
	spare := make([][]store.Amount, len(parts))
	l.atOnce(len(parts), func(i int) {
		img, back := parts[i].Image, make([]store.Amount, 0, len(parts[i].Amounts))
		for _, a := range parts[i].Amounts {
			back = append(back, store.Amount{Limit: a.Limit, Milli: -a.Milli})
		}
		var err error
		if spare[i], err = l.adjust(ctx, img, back); isTurnedAway(err) {
			l.inBackground(func() {
				l.logKept(ctx, c.Bucket, l.insist(ctx, func(ctx context.Context) error { return l.giveBack(ctx, img, back) }))
			})
		} else {
			l.logKept(ctx, c.Bucket, err)
		}
	})
	l.logKept(ctx, c.Bucket, l.passOn(ctx, parts[0].Image, total(spare)))
}

// giveBack returns amounts to the shard that they were taken from. It credits other
// shards with the tokens that find no room there.
func (l *Limiter) giveBack(ctx context.Context, img *store.Image, back []store.Amount) error {
	over, err := l.adjust(ctx, img, back)
	if err != nil {
		return err
	}
	return l.passOn(ctx, img, over)
}

func (l *Limiter) logKept(ctx context.Context, b Bucket, err error) {
	if err != nil {
		l.logger.WarnContext(ctx, "tokens were not returned", "entity", b.Entity, "resource", b.Resource, "error", err)
	}
}

// isTurnedAway reports whether an error says that nothing was applied and that the
// same write may be accepted later.
func isTurnedAway(err error) bool { return errors.Is(err, ErrThrottled) || errors.Is(err, ErrConflict) }

// insist repeats a write while the store turns it away. It gets the limiter's time
// anew.
func (l *Limiter) insist(ctx context.Context, write func(context.Context) error) error {
	ctx = l.deadlines.Detach(ctx)
	for tries := 0; ; tries++ {
		err := write(ctx)
		if !isTurnedAway(err) {
			return err
		}
		if sleep(ctx, nil, min(memory.MinBrake<<min(tries, 10), memory.MaxBrake)) != nil {
			return err
		}
	}
}
