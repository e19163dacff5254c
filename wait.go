package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/waiting"
)

// Wait is [Limiter.Acquire] for a caller that would rather wait than be refused. It waits
// until the request is admitted, and returns the lease.
//
// Callers of one limiter that wait for the same limit of a bucket are admitted in the
// order of their arrival. A request of several resources waits for all that refuse it, and
// is admitted to all at once. A small request does not overtake a large one. A caller that
// names no limit for which an earlier one waits does not wait behind it. Callers in other
// processes compete: there is no order among processes, but their shares are about equal.
// Acquire knows nothing of the order.
//
// Wait gives up at once if no wait helps, and if the wait would not end before the deadline
// of ctx. The callers in front count, as if all of them stayed. The error is then the
// refusal: [ErrExceeded], with the wait in its [*ExceededError]. If so many callers wait
// already that [Options.MaxWaiters] is reached, it is [ErrQueueFull] too. If ctx ends
// while Wait waits, the error is that of ctx. It is also ErrExceeded if that was the
// deadline: then others took the tokens first. [Limiter.Close] ends the wait with
// [ErrClosed]. After [ErrConflict] Wait tries again. All other errors are those of Acquire,
// and end the wait. If the store cannot be reached, those behind a caller that gets the error
// try a second later.
//
// A request that names slots first waits for these, in the order of arrival for each limit, and
// holds them while it waits for tokens. How long it waits for slots is not known before, and it
// goes on waiting while the store cannot be reached. If ctx ends meanwhile, the error is
// [ErrSlotsFull], too.
//
// A caller that leaves has taken nothing, and those behind it move up. Nothing bounds the
// wait but ctx; [Options.Timeout] bounds each try to acquire, see docs/design/wait.md for
// how often that is.
func (l *Limiter) Wait(ctx context.Context, req Request) (*Lease, error) {
	ctx, seen := l.observe(ctx, Call{CallWait, req.Entity, req.Resource})
	lease, err := l.await(ctx, req)
	seen.endAcquire(ctx, &req, lease, err)
	return lease, err
}

// await acquires, or waits until it can.
func (l *Limiter) await(ctx context.Context, req Request) (*Lease, error) {
	if req.holds() {
		return l.hold(ctx, req, true, l.await)
	}
	if req.ClampPercent != 0 {
		return l.clamp(ctx, req, nil, l.await)
	}
	arrival := l.waiting.Arrive()
	if l.waiting.Size() > 0 {
		if err := req.Validate(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", req.op("wait for"), err)
		}
		if c := l.newWaiter(&req, arrival); l.mustWait(c) {
			return l.waitBehind(ctx, &req, c)
		}
	}
	lease, err := l.admit(ctx, req, nil)
	if errors.Is(err, ErrConflict) { // nothing was applied: a place in the order helps
		return l.waitBehind(ctx, &req, l.newWaiter(&req, arrival))
	}
	refusal, refused := errors.AsType[*ExceededError](err)
	if !refused {
		return lease, err
	}
	return l.waitAfter(ctx, &req, l.newWaiter(&req, arrival), refusal)
}

type waiter = waiting.Caller[*Lease]

const (
	// A waiter looks again before its wait has passed, because tokens may come back or a
	// limit may be raised: after lookPart of the wait, at least after leastLook and at most
	// after mostLook.
	lookPart  = 4
	leastLook = 5 * time.Second
	mostLook  = time.Minute
	// outagePause is how long the callers of a line do not try after the store did not
	// answer one of them.
	outagePause = time.Second
)

// newWaiter returns a waiter for a request, in the line of everybody that may take from
// the same buckets.
func (l *Limiter) newWaiter(req *Request, arrival uint64) *waiter {
	line, resources := waiting.Line(req.Entity), make([]string, 0, 1+len(req.Also))
	asks := make(map[waiting.Key]int64, 2*len(req.Consume))
	for p := range req.parts() {
		resources = append(resources, p.Resource)
		payer := l.driver.Payer(req.Entity, p.Resource)
		if payer != "" {
			line = waiting.Line(payer)
		}
		for limit, tokens := range p.Consume {
			if tokens == 0 { // it only declares the limit
				continue
			}
			asks[waiting.Key{Entity: req.Entity, Resource: p.Resource, Limit: limit}] = tokens
			if payer != "" {
				asks[waiting.Key{Entity: payer, Resource: p.Resource, Limit: limit}] = tokens
			}
		}
	}
	return waiting.NewCaller[*Lease](line, resources, arrival, classOf(req), asks)
}

// classOf is equal for requests that ask for exactly the same, so that one may have the
// other's lease.
func classOf(req *Request) string {
	var b strings.Builder
	b.WriteString(req.Entity + " " + string(req.OnUnavailable))
	for p := range req.parts() {
		b.WriteString(" " + p.Resource + ":")
		for _, name := range slices.Sorted(maps.Keys(p.Consume)) {
			fmt.Fprintf(&b, " %s=%d", name, p.Consume[name])
		}
		for _, limit := range p.Fallback {
			fmt.Fprintf(&b, " %v", limit)
		}
	}
	return b.String()
}

// mustWait reports whether earlier callers wait for limits that a request names.
func (l *Limiter) mustWait(c *waiter) bool {
	_, must := l.waiting.Ahead(c)
	return must
}

// waitBehind waits for a caller that has not been refused, behind earlier callers if there
// are any. It takes from memory what the caller is up against, or else reads it.
func (l *Limiter) waitBehind(ctx context.Context, req *Request, c *waiter) (*Lease, error) {
	refusal, _ := l.recallForWaiters(ctx, req, nil)
	switch {
	case refusal != nil:
	case l.sharesNow(req):
		refusal = &ExceededError{} // the try says more
	default:
		statuses, err := l.ask(ctx, *req)
		if err != nil && !errors.Is(err, ErrUnavailable) {
			return nil, err // the try would say the same
		}
		refusal = &ExceededError{Statuses: statuses}
	}
	return l.join(ctx, req, c, refusal, 0)
}

// waitAfter waits after a refusal.
func (l *Limiter) waitAfter(ctx context.Context, req *Request, c *waiter, refusal *ExceededError) (*Lease, error) {
	return l.join(ctx, req, c, refusal, l.due(refusal))
}

// join joins the line, unless the wait would be too long, and waits.
func (l *Limiter) join(ctx context.Context, req *Request, c *waiter, refusal *ExceededError, until time.Duration) (*Lease, error) {
	ahead, _ := l.waiting.Ahead(c)
	refusal = refusal.behind(ahead)
	if err := l.tooLate(ctx, req, refusal); err != nil {
		return nil, err
	}
	if n, joined := l.waiting.Join(c, exceeded(refusal), until, l.maxWaiters); !joined {
		return nil, fmt.Errorf("%s: %w: %d already: %w", req.op("wait for"), ErrQueueFull, n, refusal)
	}
	cloned := req.clone()
	return l.wait(ctx, &cloned, c, refusal)
}

// tooLate is the error of a caller whose wait would not end in time. It is nil if the wait
// would.
func (l *Limiter) tooLate(ctx context.Context, req *Request, refusal *ExceededError) error {
	wait := refusal.RetryAfter()
	if wait == Never {
		return refusal
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	if left := l.driver.Until(deadline); wait > left {
		return fmt.Errorf("%s: the wait of %v would end after the deadline of the context, which is in %v: %w",
			req.op("wait for"), wait, left, refusal)
	}
	return nil
}

// wait waits in the line until the request is admitted.
func (l *Limiter) wait(ctx context.Context, req *Request, c *waiter, refusal *ExceededError) (*Lease, error) {
	exact := l.exactly(refusal)
	closing, alarm := l.driver.Closing(), time.NewTimer(waiting.Forever)
	defer alarm.Stop()
	for {
		turn := l.waiting.Turn(c)
		up := l.driver.Uptime()
		switch {
		case turn.Gift != nil:
			return *turn.Gift, nil
		case ctx.Err() != nil:
			l.leaveLine(ctx, c)
			return nil, endOfWait(ctx, req, refusal)
		case l.driver.IsClosed() && !turn.Hopes:
			l.leaveLine(ctx, c)
			return nil, fmt.Errorf("%s: %w", req.op("wait for"), ErrClosed)
		case l.driver.IsClosed():
			closing = nil
		}
		if turn.Leads && turn.Until <= up {
			err := l.try(ctx, req, c, turn, &refusal, &exact)
			if err != nil {
				l.leaveLine(ctx, c)
				return nil, err
			}
			continue
		}
		if turn.Leads {
			alarm.Reset(turn.Until - up)
		} else {
			alarm.Stop()
		}
		select {
		case <-c.Wake:
		case <-alarm.C:
		case <-ctx.Done():
		case <-closing:
		}
	}
}

// try tries to acquire for the caller that leads, if memory does not tell that it is too
// early. last is the last refusal, and exact the instant at which its wait has passed. An
// error ends the wait.
func (l *Limiter) try(ctx context.Context, req *Request, c *waiter, turn waiting.Turn[*Lease], last **ExceededError, exact *time.Duration) error {
	early, knows := l.recallForWaiters(ctx, req, turn.Ahead)
	isBehind := turn.Ahead != nil
	if early == nil && !knows && !isBehind && l.driver.Uptime() < *exact && !l.sharesNow(req) {
		if early = l.look(ctx, req); early != nil {
			*last, *exact = early, l.exactly(early)
		}
	}
	switch {
	case !knows && isBehind && turn.Until == 0: // their answers will tell
		l.waiting.Postpone(c, l.driver.Uptime()+l.driver.Part(), isBehind)
		return nil
	case early != nil && isBehind && early.RetryAfter() == Never: // the bucket never holds enough for all of them
		l.waiting.Postpone(c, waiting.Forever, isBehind)
		return nil
	case early != nil:
		if err := l.tooLate(ctx, req, early); err != nil && !isBehind {
			return err
		}
		l.waiting.Postpone(c, l.due(early), isBehind)
		return nil
	case !l.waiting.Try(c, l.driver.Uptime()):
		return nil
	}
	return l.attempt(ctx, req, c, last, exact)
}

// attempt is a try of the caller that leads.
func (l *Limiter) attempt(ctx context.Context, req *Request, c *waiter, last **ExceededError, exact *time.Duration) error {
	lease, err := l.admit(ctx, *req, nil)
	if err == nil {
		l.returnSpare(ctx, l.waiting.Admit(c, lease))
		return nil
	}
	if errors.Is(err, ErrConflict) { // nothing was applied, and the caller would wait
		l.waiting.Refuse(c, nil, l.driver.Uptime())
		return nil
	}
	refusal, refused := errors.AsType[*ExceededError](err)
	if !refused {
		if errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
			l.waiting.Pause(c, l.driver.Uptime()+outagePause)
		}
		return err
	}
	*last, *exact = refusal, l.exactly(refusal)
	if err := l.tooLate(ctx, req, refusal); err != nil {
		return err
	}
	l.waiting.Refuse(c, exceeded(refusal), l.due(refusal))
	return nil
}

// exactly is the instant, by the limiter's uptime, at which the wait of a refusal has passed.
func (l *Limiter) exactly(refusal *ExceededError) time.Duration {
	return l.driver.Uptime() + min(refusal.RetryAfter(), longestEarned)
}

// look reads whether a request would be refused, and returns the refusal. It is nil if the
// request would be admitted, or if the read failed: a try then says why.
func (l *Limiter) look(ctx context.Context, req *Request) *ExceededError {
	statuses, _ := l.ask(ctx, *req)
	if refusal := (&ExceededError{Statuses: statuses}); len(exceeded(refusal)) > 0 {
		return refusal
	}
	return nil
}

// recallForWaiters returns the refusal of a request that comes after what others ask for, as
// far as memory can tell. Waiting longer is no decision, so it rests on memory even if
// [Options.Trust] forbids refusals from memory.
func (l *Limiter) recallForWaiters(ctx context.Context, req *Request, ahead map[waiting.Key]int64) (refusal *ExceededError, knows bool) {
	own := l.asked(ctx, req)
	payer := own
	if len(ahead) > 0 {
		payer.Also = slices.Clone(own.Also)
		for i := range own.Parts() {
			p := own.Part(i)
			payer.Part(i).Consume = asksAfter(p.Consume, ahead, waiting.Key{Entity: l.driver.Payer(req.Entity, p.Resource), Resource: p.Resource})
			p.Consume = asksAfter(p.Consume, ahead, waiting.Key{Entity: req.Entity, Resource: p.Resource})
		}
	}
	return l.recall(&own, &payer, max(l.driver.Trust(), DefaultTrust))
}

// asksAfter is what a request and what is ahead of it ask together of a bucket.
func asksAfter(consume map[string]int64, ahead map[waiting.Key]int64, of waiting.Key) map[string]int64 {
	all := make(map[string]int64, len(consume))
	for limit, tokens := range consume {
		if tokens > 0 {
			const tooMuch = MaxTokens + 1 // more than any capacity
			of.Limit = limit
			tokens += min(ahead[of], tooMuch-tokens)
		}
		all[limit] = tokens
	}
	return all
}

// due is the instant, by the limiter's uptime, at which a refused request is to be tried
// again: when the wait has passed, or earlier, to notice returned tokens and new limits.
func (l *Limiter) due(refusal *ExceededError) time.Duration {
	return l.driver.Uptime() + min(refusal.RetryAfter(), max(leastLook, min(refusal.RetryAfter()/lookPart, mostLook)))
}

// longestEarned is the longest time that earnedIn tells.
const longestEarned time.Duration = math.MaxInt64 / 4

// earnedIn is the time in which a limit earns tokens. A quota earns them all when it renews.
func earnedIn(s *Status, tokens int64) time.Duration {
	limit := &s.Limit
	if limit.Renews != nil && s.ResetsAt.IsZero() {
		return time.Duration(limit.Renews.Session()) * time.Millisecond // the caller before begins it
	}
	if limit.Renews != nil {
		return s.ResetsIn
	}
	ns := float64(tokens) / float64(max(1, limit.Amount)) * float64(limit.Period)
	return time.Duration(min(ns, float64(longestEarned))).Truncate(time.Millisecond)
}

// behind returns the refusal for a caller behind others, which take what they ask for
// first.
func (e *ExceededError) behind(ahead map[waiting.Key]int64) *ExceededError {
	if len(ahead) == 0 {
		return e
	}
	late := &ExceededError{Statuses: slices.Clone(e.Statuses)}
	for i := range late.Statuses {
		s := &late.Statuses[i]
		first := min(ahead[keyOf(s)], math.MaxInt64/4)
		switch missing := first + s.Requested - s.Available; {
		case first == 0 || s.RetryAfter == Never || missing <= 0:
		case s.Exceeded && s.Limit.Renews != nil && first+s.Requested <= s.Limit.Capacity: // all get theirs when it renews
		case s.Exceeded:
			s.RetryAfter = min(s.RetryAfter, Never-1-longestEarned) + earnedIn(s, first)
		default:
			s.Exceeded, s.RetryAfter = true, earnedIn(s, missing)
		}
	}
	return late
}

// exceeded are the limits that refused.
func exceeded(e *ExceededError) (keys []waiting.Key) {
	for i := range e.Statuses {
		if s := &e.Statuses[i]; s.Exceeded {
			keys = append(keys, keyOf(s))
		}
	}
	return keys
}

// keyOf names the limit of a status.
func keyOf(s *Status) waiting.Key {
	return waiting.Key{Entity: s.Entity, Resource: s.Resource, Limit: s.Limit.Name}
}

// endOfWait is the error of a caller whose context ended while it waited.
func endOfWait(ctx context.Context, req *Request, refusal *ExceededError) error {
	why := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", req.op("wait for"), why, refusal)
	}
	return fmt.Errorf("%s: %w", req.op("wait for"), why)
}

// leaveLine takes a caller out of its line.
func (l *Limiter) leaveLine(ctx context.Context, c *waiter) {
	l.returnSpare(ctx, l.waiting.Leave(c))
}

// returnSpare returns what was acquired for callers that have left, in the background.
func (l *Limiter) returnSpare(ctx context.Context, spare []*Lease) {
	ctx = context.WithoutCancel(ctx)
	for _, lease := range spare {
		if !l.driver.Begin() {
			for i := range lease.parts() {
				l.driver.Settler.LogKept(ctx, lease.part(i).bucket(), ErrClosed)
			}
			continue
		}
		l.driver.Run(func() {
			defer l.driver.End()
			lease.giveBack(ctx)
		})
	}
}

// rouse lets callers that wait for a bucket look again, because tokens may have come back.
func (l *Limiter) rouse(c *acquire.Claim) {
	l.waiting.Rouse(waiting.Line(cmp.Or(c.Parent, c.Entity)), c.Resource)
}

// rouse is [Limiter.rouse] for all that the lease took.
func (l *Lease) rouse() {
	for _, side := range l.sides {
		if side.Claim != nil {
			l.limiter.rouse(side.Claim)
		}
	}
}
