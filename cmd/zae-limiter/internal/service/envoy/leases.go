package envoy

import (
	"context"
	"errors"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// A call that reserves gets its lease in the dynamic metadata of the answer. The proxy sends it back
// when the response has ended, in the descriptors of a settlement (ADR 064):
//
//	proxy   request ──▶ take, lease: 10m ──▶ metadata {lease: TOKEN} … stream … settle with TOKEN and the true count
//	any replica                                                                 one settlement for all its descriptors

// separator stands between the leases of several entities. No lease has it.
const separator = "."

// handOver writes the lease of a group down. One that cannot be written down, because it took from
// too many shards, has no settlement: what it took is final, and the true count is charged beside it. The
// end of the call gives its slots back then.
func (s *Service) handOver(ctx context.Context, g *group) {
	token, err := g.lease.Token(ctx, g.within)
	if err != nil {
		s.o.Logger.WarnContext(ctx, "lease not written down: what it took is final", "error", err)
		return
	}
	g.token = token
}

// token has the leases of a call that was admitted; "" if it has none.
func (c *call) token() string {
	var tokens []string
	for _, g := range c.takes {
		if g.token != "" {
			tokens = append(tokens, g.token)
		}
	}
	return strings.Join(tokens, separator)
}

// settleLeases carries out the settlements of a call, whatever else becomes of it: what they count
// has happened. The proxy does not send them again, and may have left, so its deadline is not theirs:
// each ends within the time of the limiter.
func (s *Service) settleLeases(ctx context.Context, c *call) (err error) {
	for _, g := range c.settles {
		err = errors.Join(err, s.settleLease(context.WithoutCancel(ctx), g))
	}
	return err
}

// settleLease sets what a lease took to what a group says, and charges what no lease has. A lease
// that was settled before, or is too old to be, stays as it is: so a repetition takes nothing.
func (s *Service) settleLease(ctx context.Context, g *group) error {
	lease, err := s.resume(ctx, g)
	if err != nil || g.settled {
		return err
	}
	rest := &group{entity: g.entity}
	for _, p := range g.parts {
		if left := settled(lease, &p); len(left) > 0 {
			rest.parts = append(rest.parts, part{p.resource, left, p.fallback, nil})
		}
	}
	if lease != nil {
		err := lease.Commit(ctx)
		wasSettled := errors.Is(err, limiter.ErrSettled)
		if err != nil && !wasSettled {
			return err
		}
		if g.settled = true; wasSettled {
			return nil
		}
	}
	if len(rest.parts) == 0 {
		return nil
	}
	return s.charge(ctx, rest)
}

// settled sets what a lease took of a resource, and returns the amounts of limits that it does not
// have. The lease may be nil.
func settled(lease *limiter.Lease, p *part) (left map[string]int64) {
	left = map[string]int64{}
	of := lease
	if lease != nil {
		of, _ = lease.Resource(p.resource) // nil if it has none
	}
	for limit, used := range p.amounts {
		if of == nil || of.Settle(limit, used) != nil {
			left[limit] = used
		}
	}
	return left
}

// resume makes a lease of the one that a group's entity has; nil if there is none, because the call
// was refused, or nobody has written the lease down.
func (s *Service) resume(ctx context.Context, g *group) (*limiter.Lease, error) {
	for token := range strings.SplitSeq(g.token, separator) {
		lease, err := s.o.Limiter.Resume(token)
		g.settled = g.settled || errors.Is(err, limiter.ErrTokenExpired)
		switch {
		case err == nil && lease.Entity() == g.entity:
			return lease, nil
		case err == nil, g.settled, errors.Is(err, limiter.ErrTokenInvalid): // of another entity, or the proxy's word for none
		case errors.Is(err, limiter.ErrToken):
			s.o.Logger.WarnContext(ctx, "lease is of no use here: the count is charged beside it", "error", err)
		default:
			return nil, err
		}
	}
	return nil, nil
}

// settlement is the outcome of a descriptor that settles a lease.
func (a *ask) settlement() string {
	switch {
	case a.in.settled:
		return "settled"
	case len(a.Amounts) > 0:
		return "charged"
	}
	return "no_lease"
}
