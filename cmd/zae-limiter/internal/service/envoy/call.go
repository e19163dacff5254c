package envoy

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/store"
)

// A call has what its descriptors ask for.
type call struct {
	domain  string
	isKnown bool  // the domain has rules
	asks    []ask // one for each descriptor
	// takes are one request for each entity, in the order of the descriptors; the call gets all or
	// none. The others are decided beside them, each alone.
	takes, counted, shadows, charges, returns []*group
	settles                                   []*group // of one lease each
	// blocked is a group of its own with the refusal by a limit in a descriptor that admits nothing: the limiter is
	// not asked. It is nil if there is none that refuses the call.
	blocked *group
}

// An ask is what a descriptor asks for.
type ask struct {
	mapping.Ask

	in *group // nil if no rule fits, or if the limit in the descriptor admits nothing
	// override is the limit of the descriptor, with the amount and period, for limits that no level
	// configures; nil if it has none.
	override *limiter.Limit
	isMapped bool
}

// isBlocked reports whether the limit of the descriptor admits nothing.
func (a *ask) isBlocked() bool {
	return a.isMapped && (a.Mode == mapping.Take || a.Mode == mapping.Shadow) && a.override != nil && a.override.Amount == 0
}

// A group is what a call asks of one entity.
type group struct {
	entity string
	parts  []part // by resource
	// within is when a lease of a take is expected to be settled; 0 if it has none. token is the lease
	// as it was written down: of a take, that in the answer, and of a settlement, those in the call.
	within time.Duration
	token  string

	counts   bool           // a refusal takes too
	quota    bool           // it refuses only if all quotas do
	isAsked  bool           // the limiter was asked
	lease    *limiter.Lease // nil if it was refused, or not asked
	statuses []limiter.Status
	refusal  *limiter.ExceededError // by tokens; nil if it was admitted
	full     *limiter.SlotsError    // by slots
	id       string                 // of the refusal; "" if nobody remembers it
	disabled bool                   // an operator has disabled the bucket
	failed   bool                   // nobody knows whether a shadow would be admitted
	settled  bool                   // a lease was settled, now or before
}

// A part is what a group asks of one resource.
type part struct {
	resource string
	amounts  map[string]int64
	fallback []limiter.Limit
	slots    map[string]int64 // nil for none
}

// read maps the descriptors of a call.
func (s *Service) read(in *rls.RateLimitRequest, rules *mapping.Rules) (*call, error) {
	c := &call{domain: in.GetDomain(), isKnown: rules.Has(in.GetDomain()), asks: make([]ask, len(in.GetDescriptors()))}
	var replaced []string
	for i, d := range in.GetDescriptors() {
		a, of := &c.asks[i], descriptorOf(in, d)
		a.Ask, a.isMapped = rules.Map(c.domain, &of)
		if err := a.read(d.GetLimit()); err != nil {
			return nil, fmt.Errorf("descriptors[%d].limit: %w", i, err)
		}
		replaced = append(replaced, a.Replaces...)
	}
	for i := range c.asks {
		a := &c.asks[i]
		if a.isMapped = a.isMapped && !slices.Contains(replaced, a.Name); a.isMapped && !a.isBlocked() && !a.Unlimited {
			c.add(a, a.fallback(&s.o.Policy))
		}
	}
	return c, nil
}

// add adds what a descriptor asks for.
func (c *call) add(a *ask, fallback []limiter.Limit) {
	switch {
	case a.Mode == mapping.Return:
		c.returns, a.in = join(c.returns, a, fallback)
	case a.Mode == mapping.Settle:
		c.settles, a.in = join(c.settles, a, fallback)
	case a.Mode == mapping.Charge:
		c.charges, a.in = join(c.charges, a, fallback)
	case a.Mode == mapping.Take && !a.Counts:
		c.takes, a.in = join(c.takes, a, fallback)
	default: // alone: none refuses for another one
		_, a.in = join(nil, a, fallback)
		a.in.counts, a.in.quota = a.Counts, a.Quota
		if a.Mode == mapping.Shadow {
			c.shadows = append(c.shadows, a.in)
		} else {
			c.counted = append(c.counted, a.in)
		}
	}
}

// deciding are the groups that may refuse a call.
func (c *call) deciding() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for _, groups := range [...][]*group{c.takes, c.counted} {
			for _, g := range groups {
				if !yield(g) {
					return
				}
			}
		}
	}
}

// descriptorOf is a descriptor. Its own hits go before those of the call, where 0 is not set.
func descriptorOf(in *rls.RateLimitRequest, d *common.RateLimitDescriptor) mapping.Descriptor {
	hits := uint64(max(1, in.GetHitsAddend()))
	if own := d.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	to := mapping.Descriptor{
		Entries: make([]mapping.Entry, len(d.GetEntries())), Hits: int64(min(hits, limiter.MaxTokens)), //nolint:gosec // it is at most MaxTokens
		Returns: d.GetIsNegativeHits(), IsLimited: d.GetLimit() != nil,
	}
	for i, e := range d.GetEntries() {
		to.Entries[i] = mapping.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return to
}

const day = 24 * time.Hour

// periods are the periods of units. A month has 30 days, as in envoyproxy/ratelimit.
var periods = map[kind.RateLimitUnit]time.Duration{
	kind.RateLimitUnit_SECOND: time.Second, kind.RateLimitUnit_MINUTE: time.Minute, kind.RateLimitUnit_HOUR: time.Hour,
	kind.RateLimitUnit_DAY: day, kind.RateLimitUnit_MONTH: 30 * day, kind.RateLimitUnit_YEAR: 365 * day,
}

// read reads the limit of a descriptor.
func (a *ask) read(o *common.RateLimitDescriptor_RateLimitOverride) error {
	if o == nil {
		a.override = a.Limit
		return nil
	}
	period, ok := periods[o.GetUnit()]
	if !ok {
		return fmt.Errorf("the unit %v is none: give SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.GetUnit())
	}
	l := limiter.Custom("", int64(o.GetRequestsPerUnit()), period)
	a.override = &l
	return nil
}

// fallback has the limits that hold where no level configures any: that of the descriptor for the
// limits that it asks of, and those of the service.
func (a *ask) fallback(p *decide.Policy) []limiter.Limit {
	if a.override == nil {
		return p.Fallback
	}
	limits := make([]limiter.Limit, 0, len(a.Amounts)+len(p.Fallback))
	for name := range a.Amounts {
		l := *a.override
		l.Name = name
		limits = append(limits, l)
	}
	slices.SortFunc(limits, func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
	for i := range p.Fallback {
		if _, ok := a.Amounts[p.Fallback[i].Name]; !ok {
			limits = append(limits, p.Fallback[i])
		}
	}
	return limits
}

// join adds what a descriptor asks for to the group of its entity, and of its lease if it settles one.
func join(groups []*group, a *ask, fallback []limiter.Limit) (all []*group, in *group) {
	i := slices.IndexFunc(groups, func(g *group) bool { return g.entity == a.Entity && g.token == a.Lease })
	if i < 0 {
		i, groups = len(groups), append(groups, &group{entity: a.Entity, token: a.Lease})
	}
	in = groups[i]
	in.within = max(in.within, a.Within)
	for k := range in.parts {
		if p := &in.parts[k]; p.resource == a.Resource {
			p.amounts = sum(p.amounts, a.Amounts, limiter.MaxTokens)
			p.slots = sum(p.slots, a.Slots, store.MaxSlots)
			return groups, in
		}
	}
	in.parts = append(in.parts, part{a.Resource, a.Amounts, fallback, a.Slots})
	return groups, in
}

// sum adds numbers by limit, each up to a bound. It changes neither of them: they are those of a descriptor, or of a rule.
func sum(numbers, more map[string]int64, most int64) map[string]int64 {
	switch {
	case len(more) == 0:
		return numbers
	case len(numbers) == 0:
		return more
	}
	numbers = maps.Clone(numbers)
	for limit, n := range more {
		numbers[limit] = min(numbers[limit]+n, most)
	}
	return numbers
}

// request asks for amounts of a group, by what each becomes; nil leaves them as they are.
func (g *group) request(p *decide.Policy, becomes func(int64) int64) limiter.Request {
	req := limiter.Request{Entity: g.entity, OnUnavailable: p.OnUnavailable}
	for i, part := range g.parts {
		consume := part.amounts
		if becomes != nil {
			consume = make(map[string]int64, len(part.amounts))
			for limit, n := range part.amounts {
				consume[limit] = becomes(n)
			}
		}
		if i == 0 {
			req.Resource, req.Consume, req.Fallback, req.Slots = part.resource, consume, part.fallback, part.slots
			continue
		}
		req.Also = append(req.Also, limiter.Part{Resource: part.resource, Consume: consume, Fallback: part.fallback, Slots: part.slots})
	}
	return req
}
