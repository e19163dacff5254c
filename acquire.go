package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// Acquire debits every amount that the request names, or none. It debits the entity
// and, if the entity cascades, its parent. It returns an open [Lease] for what it
// debited.
//
// A request of several resources debits their buckets at the same time. If one refuses or
// fails, the limiter returns what it took from the others before Acquire returns. Others
// may be refused meanwhile because of tokens that come back. If several resources fail, the
// error is the first of: ErrDisabled, ErrNotConfigured, the refusal with the statuses of all
// resources, ErrAccessDenied, any other.
//
// A refusal is an [*ExceededError] with the wait. [ErrInvalid] is for a malformed
// request, and [ErrNotConfigured] for a limit that neither the configuration nor
// [Request.Fallback] has. [ErrUnavailable] says that the store could not be reached. If
// the request or the configuration says to allow, the caller gets a degraded lease
// instead. If it says to share, the limiter decides by this process's share, see [ShareOptions]. Other errors are [ErrAccessDenied], [ErrConflict] under extreme contention,
// [ErrDisabled], [ErrUnsupported], and [ErrClosed] after [Limiter.Close].
//
// If other processes take from the same bucket and it holds too little, the processes take
// turns. In its turn, the limiter may debit what the bucket earns within the next 2 seconds.
// The call then returns once the bucket has earned it. If that takes more than four fifths of
// [Options.Timeout], or of the time to its context's deadline, the call is refused instead.
//
// A call returns by its context's deadline and within [Options.Timeout]. Reaching
// either counts as the store not answering in time. If the caller leaves, by
// cancellation or deadline, the limiter finishes the write under way and then returns
// its tokens. If the caller got a degraded lease, the lease decides about them
// instead, see [Lease.Degraded].
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if l.observer == nil {
		return l.admit(ctx, req, nil)
	}
	ctx, seen := l.observe(ctx, Call{CallAcquire, req.Entity, req.Resource})
	lease, err := l.admit(ctx, req, seen)
	seen.endAcquire(ctx, &req, lease, err)
	return lease, err
}

// admit acquires, and notes what seen is to tell the observer.
func (l *Limiter) admit(ctx context.Context, req Request, seen *observation) (*Lease, error) {
	if req.holds() {
		return l.hold(ctx, req, false, func(ctx context.Context, req Request) (*Lease, error) { return l.admit(ctx, req, seen) })
	}
	if req.ClampPercent != 0 {
		return l.clamp(ctx, req, seen, func(ctx context.Context, req Request) (*Lease, error) { return l.admit(ctx, req, seen) })
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if l.driver.IsClosed() {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), err)
	}
	if l.driver.Outage.IsBusy() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.driver.Time()) // for what an outage has left and the acquire
		defer cancel()
		if lease, decided, err := l.inOutage(ctx, &req, seen); decided {
			return lease, err
		}
	}
	asked := l.asked(ctx, &req)
	if refusal, _ := l.recall(&asked, &asked, l.driver.Trust()); refusal != nil {
		l.driver.Counts.Refused.Add(1)
		seen.recalled()
		return nil, refusal
	}
	if !l.driver.Begin() {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), ErrClosed)
	}
	a := &acquisition{bound: l.driver.NewLeavable(ctx), left: ctx.Done(), asked: asked, seen: seen}
	a.makeParts()
	return l.begin(ctx, req, a)
}

// hold acquires slots, and tokens in the way that the parameter says. A request that does not wait
// for slots asks for both at the same time, unless memory knows what becomes of the slots. What
// the one got goes back if there is no room for the other (ADR 055).
func (l *Limiter) hold(ctx context.Context, req Request, waits bool, tokens func(context.Context, Request) (*Lease, error)) (lease *Lease, err error) {
	op := req.op("acquire")
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if !l.driver.Begin() {
		return nil, fmt.Errorf("%s: %w", op, ErrClosed)
	}
	defer l.driver.End()
	if away, why := l.driver.Outage.IsAway(); away && !waits && l.shares(&req) {
		return nil, fmt.Errorf("%s: slots have no shares: %w", op, why)
	}
	bound, cancel := ctx, func() {}
	if !waits {
		bound, cancel = context.WithTimeout(ctx, l.driver.Time())
	}
	defer cancel()
	held, err := l.driver.BeginSlots(bound, slotsAsked(&req, waits))
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	if err == nil && (waits || held.IsDecided()) {
		err = held.Wait(bound)
	}
	if err = l.withoutSlots(bound, &req, err); err != nil {
		return nil, err
	}
	if rest, ok := tokensOf(&req); ok {
		if lease, err = tokens(ctx, rest); err != nil {
			return nil, err
		}
	}
	if err = l.withoutSlots(bound, &req, held.Wait(bound)); err != nil {
		if lease != nil {
			err = errors.Join(err, lease.settleUneven(ctx, rollBack, nil))
		}
		return nil, err
	}
	return l.holding(&req, lease, held), nil
}

// slotsAsked is what a request asks of slots.
func slotsAsked(req *Request, waits bool) *acquire.SlotRequest {
	asked := &acquire.SlotRequest{Entity: req.Entity, Waits: waits}
	for p := range req.parts() {
		if len(p.Slots) > 0 {
			asked.Parts = append(asked.Parts, acquire.SlotPart{Resource: p.Resource, Slots: p.Slots, Fallback: p.SlotFallback})
		}
	}
	return asked
}

// tokensOf is what a request asks of tokens; ok is false if it asks for none.
func tokensOf(req *Request) (rest Request, ok bool) {
	rest = *req
	rest.Also = nil
	for p := range req.parts() {
		if len(p.Consume) == 0 {
			continue
		}
		p.Slots, p.SlotFallback = nil, nil
		if ok {
			rest.Also = append(rest.Also, p)
			continue
		}
		rest.Resource, rest.Consume, rest.Fallback, rest.Slots, rest.SlotFallback = p.Resource, p.Consume, p.Fallback, nil, nil
		ok = true
	}
	return rest, ok
}

// holding is the lease of all resources of a request, of what a lease has of tokens and of the slots
// that are held. Each part has its own slots, so that it may end alone.
func (l *Limiter) holding(req *Request, tokens *Lease, held *acquire.HeldSlots) *Lease {
	taken, parts := 0, make([]*Lease, 0, 1+len(req.Also))
	for p := range req.parts() {
		var part *Lease
		if len(p.Consume) > 0 {
			part = tokens.part(taken)
			taken++
		} else {
			part = l.makeLease(req.Entity, p.Resource, p.Fallback)
		}
		if len(p.Slots) > 0 {
			part.slots = held.Of(p.Resource)
			runtime.AddCleanup(part, (*acquire.HeldSlots).Abandon, part.slots) // of a lease that nobody ends
		}
		parts = append(parts, part)
	}
	for _, part := range parts[1:] {
		part.also = nil
	}
	parts[0].also = parts[1:]
	return parts[0]
}

// withoutSlots is the error of a request that does not get its slots because of err. It is nil if
// the request goes on without them, because the store cannot be reached.
func (l *Limiter) withoutSlots(ctx context.Context, req *Request, err error) error {
	full, isFull := errors.AsType[*acquire.FullError](err)
	switch {
	case err == nil:
		return nil
	case isFull:
		refusal := &SlotsError{Entity: full.Entity, Resource: full.Resource, Limit: full.Limit, Slots: full.Slots, Of: full.Of}
		if ctx.Err() == nil {
			return refusal
		}
		return fmt.Errorf("%s: %w: %w", req.op("wait for"), context.Cause(ctx), refusal)
	case ctx.Err() != nil:
		err = process.OutOfTime(ctx, req.op("acquire"))
	}
	if !l.degrades(req, err) {
		if acquire.IsOutage(err) && l.shares(req) {
			l.driver.Outage.Doubt()
		}
		return err
	}
	l.driver.Logger.WarnContext(ctx, "admitted without slots", "entity", req.Entity, "resource", req.Resource, "error", err)
	return nil
}

// clamp acquires, in the way that the parameter says, no more than a part of each capacity. The
// rest of the estimate is an adjustment of the lease: the commit takes it (ADR 063).
func (l *Limiter) clamp(ctx context.Context, req Request, seen *observation, take func(context.Context, Request) (*Lease, error)) (*Lease, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", req.op("acquire"), err)
	}
	clamped, over, err := l.clamped(ctx, &req)
	if err != nil {
		if !l.degrades(&req, err) {
			return nil, err
		}
		seen.degraded(err)
		return l.degraded(ctx, &req, nil, err), nil
	}
	lease, err := take(ctx, clamped)
	if err != nil {
		return nil, err
	}
	for i := range lease.parts() {
		lease.part(i).owe(over[i])
	}
	return lease, nil
}

// clamped is a request without a clamp that asks for no more than that, and what it leaves out of
// each resource.
func (l *Limiter) clamped(ctx context.Context, req *Request) (clamped Request, over []map[string]int64, err error) {
	if !l.driver.Begin() {
		return clamped, nil, fmt.Errorf("%s: %w", req.op("acquire"), ErrClosed)
	}
	defer l.driver.End()
	bound, cancel := context.WithTimeout(ctx, l.driver.Time())
	defer cancel()
	clamped = req.clone()
	clamped.ClampPercent = 0
	asked, percent := asks(req), int64(req.ClampPercent)
	over, errs := make([]map[string]int64, asked.Parts()), make([]error, asked.Parts())
	cut := func(by func(i int) map[string]int64) {
		l.driver.AtOnce(len(over), func(i int) {
			if consume := by(i); i == 0 {
				clamped.Consume = consume
			} else {
				clamped.Also[i-1].Consume = consume
			}
		})
	}
	if !l.sharesNow(req) {
		cut(func(i int) (consume map[string]int64) {
			consume, over[i], errs[i] = l.driver.Clamp(bound, asked.Part(i), percent)
			return consume
		})
		if err = errors.Join(errs...); err != nil && bound.Err() != nil {
			err = process.OutOfTime(bound, req.op("acquire"))
		}
		if err == nil || !acquire.IsOutage(err) || !l.shares(req) || !l.hasLost(ctx, bound.Done(), err) {
			return clamped, over, err
		}
	}
	cut(func(i int) (consume map[string]int64) {
		consume, over[i] = l.driver.ClampSeen(asked.Part(i), percent)
		return consume
	})
	return clamped, over, nil
}

// asked is what a request asks of buckets, for a caller that comes now.
func (l *Limiter) asked(ctx context.Context, req *Request) acquire.Request {
	at, asked := l.driver.Moment(), asks(req)
	asked.Come(at, l.driver.WaitsUntil(ctx, at.Up))
	return asked
}

// asks is what a request asks of buckets.
func asks(req *Request) acquire.Request {
	asked := acquire.Request{Entity: req.Entity, Resource: req.Resource, Consume: req.Consume, Fallback: req.Fallback}
	for i := range req.Also {
		p := &req.Also[i]
		asked.Also = append(asked.Also, acquire.Request{Entity: req.Entity, Resource: p.Resource, Consume: p.Consume, Fallback: p.Fallback})
	}
	return asked
}

// acquireHere runs an acquisition on the caller's goroutine, because the store never
// waits.
func (l *Limiter) acquireHere(ctx context.Context, req Request, a *acquisition) (*Lease, error) {
	defer l.driver.End()
	all := func(ctx context.Context) { l.driver.Acquire(ctx, &a.asked, a.left, a.parts) }
	a.lease, a.err = l.acquire(&a.bound.Detached, a, all) //nolint:contextcheck // it has the values of ctx
	return l.answer(ctx, &req, a)
}

// An acquisition runs on a goroutine of its own, but for what its caller can do itself (see
// [acquire.Driver.Start]). Its caller may leave while a write is under way, and the limiter must
// still learn the outcome of that write:
//
//	caller          run
//	  │ ── go ──────▶ │ writes …
//	  │ ctx done      │
//	  │ abandons      │ finds itself abandoned: returns what it took
//
// The side that first moves state away from underWay decides.
type acquisition struct {
	bound calls.Leavable  // ends this call
	left  <-chan struct{} // closed when the caller leaves
	asked acquire.Request // what is asked of the buckets
	parts []acquire.Part  // what became of that, for each resource
	room  [1]acquire.Part
	seen  *observation // what the observer will be told; nil if there is no observer
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

// makeParts makes a place for what becomes of each resource.
func (a *acquisition) makeParts() {
	if a.parts = a.room[:]; len(a.asked.Also) > 0 {
		a.parts = make([]acquire.Part, a.asked.Parts())
	}
}

// acquireApart runs what the caller cannot do of an acquisition on a goroutine of its own. The
// request may outlive the call (ADR 005).
func (l *Limiter) acquireApart(ctx context.Context, req Request, a *acquisition) (*Lease, error) {
	rest := l.driver.Start(&a.bound, &a.asked, a.left, a.parts) //nolint:contextcheck // it has the values of ctx
	if rest == nil {
		defer l.driver.End()
		return l.debited(a), nil
	}
	own := req.clone()
	at, by := a.asked.At, a.asked.By
	a.asked, a.done = asks(&own), make(chan struct{})
	a.asked.Come(at, by)
	l.driver.Run(func() { a.run(ctx, l, rest) })
	select {
	case <-a.done:
	case <-ctx.Done():
		return l.leave(ctx, ctx, &req, a)
	case <-a.bound.Detached.Done():
		return l.leave(ctx, &a.bound.Detached, &req, a)
	}
	return l.answer(ctx, &req, a)
}

func (a *acquisition) run(ctx context.Context, l *Limiter, rest acquire.Rest) {
	defer l.driver.End()
	a.lease, a.err = l.acquire(&a.bound.Detached, a, rest) //nolint:contextcheck // it has the values of ctx
	isAbandoned := !a.state.CompareAndSwap(underWay, answered) && a.state.Load() == abandoned
	close(a.done)
	if isAbandoned && a.lease != nil {
		a.lease.giveBack(context.WithoutCancel(ctx))
	}
}

// giveBack returns what a lease took, because its caller has gone.
func (l *Lease) giveBack(ctx context.Context) {
	d := l.limiter.driver
	d.AtOnce(l.parts(), func(i int) {
		p := l.part(i)
		err := d.Insist(ctx, func(ctx context.Context) error { return p.settleNow(ctx, rollBack) })
		d.Settler.LogKept(ctx, p.bucket(), err)
	})
}

// answer returns to the caller the result of an acquisition that has ended.
func (l *Limiter) answer(ctx context.Context, req *Request, a *acquisition) (*Lease, error) {
	err := a.err
	if errors.Is(err, calls.ErrLeft) {
		err = process.OutOfTime(ctx, req.op("acquire"))
	}
	switch {
	case l.degrades(req, err):
		a.seen.degraded(err)
		return l.degraded(ctx, req, nil, err), nil
	case acquire.IsOutage(err) && l.shares(req):
		return l.shareAfter(ctx, req, a, err)
	}
	return a.lease, err
}

// leave answers a caller whose time is up before its acquisition has ended. ended is
// the context that is done.
func (l *Limiter) leave(ctx, ended context.Context, req *Request, a *acquisition) (*Lease, error) {
	err, to := process.OutOfTime(ended, req.op("acquire")), abandoned
	degrades := l.degrades(req, err)
	if degrades {
		to = kept
	}
	switch {
	case !a.state.CompareAndSwap(underWay, to): // it has ended in the meantime
		<-a.done
		return l.answer(ctx, req, a)
	case degrades:
		a.seen.degraded(err)
		return l.degraded(ctx, req, a, err), nil
	case acquire.IsOutage(err) && l.shares(req):
		return l.shareInTime(ctx, req, a, err)
	}
	return nil, err
}

// degrades reports whether a failed acquire still yields a lease that meters nothing, because the
// request or the configuration allows it.
func (l *Limiter) degrades(req *Request, err error) bool {
	return errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrAccessDenied) && l.driver.Config.OnUnavailable(req.OnUnavailable) == Allow
}

// degraded makes a lease that meters nothing, granted because of err. pending is the
// acquisition that may still debit the amounts; nil if none will.
func (l *Limiter) degraded(ctx context.Context, req *Request, pending *acquisition, err error) *Lease {
	l.driver.Logger.WarnContext(ctx, "admitted without the store", "entity", req.Entity, "resource", req.Resource, "error", err)
	var lease *Lease
	for p := range req.parts() {
		part := l.makeLease(req.Entity, p.Resource, p.Fallback)
		part.degraded, part.pending = true, pending
		part.addSide().Assume(p.Consume)
		lease = lease.with(part)
	}
	return lease
}

// acquire debits the entity and its parent, and makes the lease.
func (l *Limiter) acquire(ctx context.Context, a *acquisition, rest acquire.Rest) (*Lease, error) {
	rest(ctx)
	a.seen.decided(a.parts[0].Child)
	err := outcome(a.parts, l.driver.Uptime())
	if err == nil {
		return l.debited(a), nil
	}
	claims := make([]*acquire.Claim, 0, 2*len(a.parts))
	for i := range a.parts {
		claims = append(claims, a.parts[i].Child, a.parts[i].Parent)
	}
	l.driver.Settler.Refund(ctx, claims...)
	for i := range a.parts {
		l.rouse(a.parts[i].Child)
	}
	return nil, err
}

// outcome is the error that follows from what became of each resource; nil if the request is
// admitted. A refusal is an answer, whatever happened to the others. But no wait helps with
// what is disabled, or not configured.
func outcome(parts []acquire.Part, up time.Duration) (err error) {
	for i := range parts {
		switch e := parts[i].Err; {
		case errors.Is(e, ErrDisabled):
			return e
		case err == nil || errors.Is(e, ErrAccessDenied) && !errors.Is(err, ErrAccessDenied):
			err = e
		}
	}
	return cmp.Or(verdict(parts, up), err)
}

// recall returns the refusal of a request, if the images of its buckets that were seen up
// to trust ago show that it would be refused. payer is what the request asks of the
// parent. recall returns nil if the limiter must ask the store: either it knows that the
// images suffice, or they cannot tell.
//
// The last image of a bucket, refilled to now, shows the most that the bucket can hold,
// unless somebody returned tokens or merged shards. So such an image may refuse, for a
// short time; it never admits. There must be an image of every shard, compared with its
// configuration within the time to live. No item may need a write. Then the answer is
// the same as the store's, with the same wait.
func (l *Limiter) recall(req, payer *acquire.Request, trust time.Duration) (refusal *ExceededError, knows bool) {
	if len(req.Also) > 0 {
		return l.recallAll(req, payer, trust)
	}
	var room [2][1]*store.Image
	seen, refuses, knows := l.driver.Recall(&room, req, payer, trust)
	if !refuses {
		return nil, knows
	}
	most := len(req.Consume)
	if len(seen[1]) > 0 {
		most *= 2
	}
	e := newRefusal(most)
	demands := e.quote(nil, seen, req, payer)
	e.wait = plan.WaitForAll(demands, req.At.Now, longestWait(e.Statuses))
	return e, true
}

// recallAll is recall for several resources. If memory cannot tell of one of them, the limiter
// must ask the store for all: a refusal by the others might quote too short a wait.
func (l *Limiter) recallAll(req, payer *acquire.Request, trust time.Duration) (refusal *ExceededError, knows bool) {
	rooms, all, refused := make([][2][1]*store.Image, req.Parts()), make([][2][]*store.Image, req.Parts()), false
	for i := range all {
		seen, refuses, knows := l.driver.Recall(&rooms[i], req.Part(i), payer.Part(i), trust)
		if !knows {
			return nil, false
		}
		all[i], refused = seen, refused || refuses
	}
	if !refused {
		return nil, true
	}
	e, demands := &ExceededError{}, []plan.Demand(nil)
	for i := range all {
		demands = e.quote(demands, all[i], req.Part(i), payer.Part(i))
	}
	e.wait = plan.WaitForAll(demands, req.At.Now, longestWait(e.Statuses))
	return e, true
}

// quote adds the status of each limit that a request for one resource names and that the
// remembered images of the entity's bucket, and of its parent's, have. It adds the demands of
// those with a schedule.
func (e *ExceededError) quote(demands []plan.Demand, seen [2][]*store.Image, req, payer *acquire.Request) []plan.Demand {
	for i, images := range seen {
		if len(images) == 0 {
			continue
		}
		c, limits, consume := acquire.Claim{Bucket: images[0].Bucket}, images[0].Limits, [...]*acquire.Request{req, payer}[i].Consume
		for k := range limits {
			if tokens, asked := consume[limits[k].Name]; asked {
				a := store.Amount{Limit: limits[k].Name, Milli: tokens * milli}
				e.Statuses = appendStatus(e.Statuses, &c, a, 0, images, req.At.Now)
				if limits[k].Varies != nil {
					demands = c.Terms.Demands(demands, []store.Amount{a}, false, images, req.At.Now)
				}
			}
		}
	}
	return demands
}
