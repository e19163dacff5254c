package envoy

import (
	"context"
	"errors"
	"maps"
	"slices"

	"google.golang.org/grpc/metadata"

	"github.com/zeroae/zae-limiter-go"
)

// run decides a call.
//
// A call makes one request for each entity. Several entities are asked in turn. If one of them
// refuses, the tokens of those before it are returned: a refused call takes nothing. Until then,
// others see the tokens as taken. So the documents say: put the narrowest first.
//
// Charges and returns are carried out whatever becomes of the takes: what they count has happened.
// They come last, because nothing undoes them if something else fails.
func (s *Service) run(ctx context.Context, c *call) error {
	s.block(ctx, c)
	err := s.take(ctx, c)
	if err == nil {
		err = ctx.Err() // the proxy has gone meanwhile, and does not get what it asked for
	}
	for _, g := range c.counted {
		if err == nil {
			err = s.askAlone(ctx, g)
		}
	}
	if err == nil {
		s.shadow(ctx, c)
		err = s.settle(ctx, c)
	}
	err = errors.Join(err, s.settleLeases(ctx, c))
	for _, g := range c.takes {
		err = errors.Join(err, s.end(ctx, g, err != nil || c.isRefused()))
	}
	return err
}

// shadow asks for what the call takes in shadow. One that fails disturbs nobody.
func (s *Service) shadow(ctx context.Context, c *call) {
	for _, g := range c.shadows {
		if err := s.askAlone(ctx, g); err != nil {
			g.failed = true
			s.o.Logger.WarnContext(ctx, "shadow failed", "error", err)
		}
	}
}

// askAlone asks for what a group takes, whatever becomes of the call.
func (s *Service) askAlone(ctx context.Context, g *group) error {
	err := s.ask(ctx, g)
	if err = errors.Join(err, s.end(ctx, g, err != nil || g.isRefused())); err != nil || !g.counts || g.refusal == nil {
		return err
	}
	return s.overrun(ctx, g)
}

// overrun takes what a group was refused, if there was anything left, into a debt of at most one
// capacity. Else a charge after the response would be free whenever it is more than what is left.
func (s *Service) overrun(ctx context.Context, g *group) error {
	for _, st := range g.statuses {
		if amount := min(st.Requested, st.Available+st.Limit.Capacity); st.Available > 0 {
			p := g.parts[0]
			p.amounts = maps.Clone(p.amounts) // those of the descriptor stay
			p.amounts[st.Limit.Name] = amount
			return s.charge(ctx, &group{entity: g.entity, parts: []part{p}})
		}
	}
	return nil
}

// settle carries out the charges and returns of a call.
func (s *Service) settle(ctx context.Context, c *call) error {
	for _, g := range c.charges {
		if err := s.charge(ctx, g); err != nil {
			return err
		}
	}
	for _, g := range c.returns {
		g.isAsked = true
		if err := s.o.Limiter.Return(ctx, g.request(&s.o.Policy, nil)); err != nil {
			return err
		}
	}
	return nil
}

// end ends the lease of a group, if it has one: with a refusal it returns what was taken, and else
// that stays taken, or the lease goes to the proxy.
func (s *Service) end(ctx context.Context, g *group, isRefused bool) error {
	switch {
	case g.lease == nil:
		return nil
	case isRefused:
		return g.lease.Rollback(context.WithoutCancel(ctx))
	case g.within > 0:
		s.handOver(ctx, g)
	}
	if g.token != "" {
		return nil
	}
	return g.lease.Commit(ctx)
}

// index is the number of the first descriptor of which something is true; -1 if there is none.
func (c *call) index(is func(*ask) bool) int {
	for i := range c.asks {
		if is(&c.asks[i]) {
			return i
		}
	}
	return -1
}

// block refuses a call by a limit in a descriptor that admits nothing. The limiter is not asked, so the refusal is
// told here, unless it is one of a quota, and another quota may admit the call.
func (s *Service) block(ctx context.Context, c *call) {
	i := c.index(func(a *ask) bool { return a.isOver() && !a.Quota })
	if i < 0 && c.isRefused() {
		i = c.index((*ask).isOver)
	}
	if i < 0 {
		return
	}
	a := &c.asks[i]
	g := &group{entity: a.Entity, quota: a.Quota}
	for _, name := range slices.Sorted(maps.Keys(a.Amounts)) {
		l := *a.override
		l.Name = name
		g.statuses = append(g.statuses, limiter.Status{Entity: a.Entity, Resource: a.Resource, Limit: l, Requested: a.Amounts[name], Exceeded: true, RetryAfter: limiter.Never})
	}
	g.refusal = &limiter.ExceededError{Statuses: g.statuses}
	ctx = s.follow(ctx)
	s.tell(ctx, limiter.CallAcquire, g, a.Resource)
	g.id, c.blocked = s.o.Refusals.IDOf(ctx), g
}

// tell tells the record of refusals of one that the limiter has not made.
func (s *Service) tell(ctx context.Context, kind limiter.CallKind, g *group, resource string) {
	s.o.Refusals.EndCall(ctx, limiter.CallResult{
		Call: limiter.Call{Kind: kind, Entity: g.entity, Resource: resource}, Result: limiter.Refused, Err: g.refusal, Statuses: g.statuses,
	})
}

// follow is the context of a request to the limiter, whose refusal has an ID.
func (s *Service) follow(ctx context.Context) context.Context {
	id := ""
	if sent := metadata.ValueFromIncomingContext(ctx, requestID); len(sent) == 1 {
		id = sent[0]
	}
	return s.o.Refusals.Follow(ctx, id)
}

// take asks for what the call takes, until an entity refuses.
func (s *Service) take(ctx context.Context, c *call) error {
	if c.isRefused() {
		return nil // by a limit in a descriptor
	}
	for _, g := range c.takes {
		if err := s.ask(ctx, g); err != nil || g.isRefused() {
			return err
		}
	}
	return nil
}

func (g *group) isRefused() bool { return g.refusal != nil || g.full != nil || g.disabled }

// isRefused reports whether the call is over a limit: of quotas, over all of them.
func (c *call) isRefused() bool {
	quotas, over := 0, 0
	for i := range c.asks {
		a := &c.asks[i]
		switch isOver := a.isOver(); {
		case isOver && !a.Quota:
			return true
		case isOver:
			over++
		}
		if a.Quota {
			quotas++
		}
	}
	return over > 0 && over == quotas
}

// requestID is the metadata in which a proxy sends the ID of a request, if it is told to: the field of HTTP has that name.
const requestID = "x-request-id"

// ask asks for what a group takes. A refusal is no error. Each group has an ID of its own, if it is refused.
func (s *Service) ask(ctx context.Context, g *group) error {
	g.isAsked = true
	ctx = s.follow(ctx)
	err := s.acquire(ctx, g)
	g.id = s.o.Refusals.IDOf(ctx)
	return err
}

func (s *Service) acquire(ctx context.Context, g *group) error {
	lease, err := s.o.Limiter.Acquire(ctx, g.request(&s.o.Policy, nil))
	switch {
	case errors.As(err, &g.refusal):
		g.statuses = g.refusal.Statuses
		return nil
	case errors.As(err, &g.full):
		return nil
	case errors.Is(err, limiter.ErrDisabled):
		g.disabled = true
		return nil
	case err != nil:
		return err
	}
	g.lease, g.statuses = lease, lease.Statuses()
	return s.check(ctx, g)
}

// check refuses a group that asks whether there is anything left, where there is nothing: the
// limiter admits an amount of 0 always. The statuses are then those of a request for one token, with
// the wait for it. The limiter has refused nothing, so the refusal is told here.
func (s *Service) check(ctx context.Context, g *group) error {
	if !isDry(g.statuses) {
		return nil
	}
	statuses, err := s.o.Limiter.Available(ctx, g.request(&s.o.Policy, func(n int64) int64 { return max(1, n) }))
	if err != nil {
		return err
	}
	g.refusal, g.statuses = &limiter.ExceededError{Statuses: statuses}, statuses
	s.tell(ctx, limiter.CallAvailable, g, g.parts[0].resource)
	return nil
}

func isDry(statuses []limiter.Status) bool {
	for i := range statuses {
		if s := &statuses[i]; s.Requested == 0 && s.Available <= 0 && s.Limit.Refuses() && !s.Bypassed {
			return true
		}
	}
	return false
}

// charge takes what a group names in any case, into debt. The limiter admits an amount of 0
// always, and refuses no adjustment of a lease.
func (s *Service) charge(ctx context.Context, g *group) error {
	lease, err := s.o.Limiter.Acquire(ctx, g.request(&s.o.Policy, func(int64) int64 { return 0 }))
	if err != nil {
		return err
	}
	for _, part := range g.parts {
		of, err := lease.Resource(part.resource)
		if err != nil {
			return err
		}
		for limit, n := range part.amounts {
			if err := of.Adjust(limit, n); err != nil {
				return err
			}
		}
	}
	g.isAsked = true
	return lease.Commit(ctx)
}
