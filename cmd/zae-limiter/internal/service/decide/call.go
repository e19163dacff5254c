// Package decide maps the calls of the decision service to requests of a limiter, and maps what
// the limiter says to answers. Encoders of protocols stand on it: they read a call, and write an
// answer. The package has no I/O of its own and keeps no state (ADR 056).
package decide

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Limiter decides requests. A [*limiter.Limiter] is one.
type Limiter interface {
	Acquire(ctx context.Context, req limiter.Request) (*limiter.Lease, error)
	Wait(ctx context.Context, req limiter.Request) (*limiter.Lease, error)
	Available(ctx context.Context, req limiter.Request) ([]limiter.Status, error)
	Limits(ctx context.Context, entity, resource string) (*limiter.EffectiveLimits, error)
	Return(ctx context.Context, req limiter.Request) error
	Resume(token string) (*limiter.Lease, error)
}

var _ Limiter = (*limiter.Limiter)(nil)

// A Call asks for tokens of a resource, or of several, on behalf of one entity.
type Call struct {
	Question

	// Wait is how long the call waits at most until it is admitted; 0, the default, is not at all.
	Wait int64 `json:"wait_ms,omitempty"`
	// DryRun asks for the answer that the call would get now, and takes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Slots has the slots that the call holds of each limit of slots, by the limit's name, until its lease is
	// settled or its time is over.
	Slots map[string]int64 `json:"slots,omitempty"`
	// Lease asks for a lease, which is expected to be settled within so many milliseconds; 0, the
	// default, is none: what the call takes is final. With slots, it is needed, and at least 30,000.
	Lease int64 `json:"lease_ms,omitempty"`
}

// A Question asks for the balance of a resource, or of several, and for the wait of a request.
type Question struct {
	Entity   string `json:"entity_id"`
	Resource string `json:"resource"`
	// Consume has the tokens asked of each limit, by the limit's name.
	Consume map[string]int64 `json:"consume,omitempty"`
	// Also has what is asked of further resources. The call is admitted for all or for none.
	Also []Part `json:"also,omitempty"`
}

// A Part is what a call asks of one further resource.
type Part struct {
	Resource string `json:"resource"`
	// Consume has the tokens asked of each limit, by the limit's name.
	Consume map[string]int64 `json:"consume,omitempty"`
	// Slots has the slots that an acquire holds of this resource, as those of the call.
	Slots map[string]int64 `json:"slots,omitempty"`
}

// A Policy is what the operator of a service decides for all calls.
type Policy struct {
	// Fallback has the limits of entities and resources for which none are configured.
	Fallback []limiter.Limit
	// OnUnavailable, if not "", overrides the system's configuration.
	OnUnavailable limiter.OnUnavailable
	// ClampPercent is that of a [limiter.Request] for calls that ask for a lease: those take an
	// estimate. All others take what they need.
	ClampPercent int
	// MaxWait is the longest wait that a call may ask for.
	MaxWait time.Duration
}

// Request is the request of a call, and how long it may wait. It fails with a
// [*limiter.ValidationError] that names a field of the call.
func (p *Policy) Request(c *Call) (req limiter.Request, wait time.Duration, err error) {
	req = p.request(&c.Question)
	req.Slots = c.Slots
	if c.Lease != 0 {
		req.ClampPercent = p.ClampPercent
	}
	if err := req.Validate(); err != nil {
		return req, 0, err
	}
	invalid := func(reason string) error {
		return &limiter.ValidationError{Field: "wait_ms", Value: strconv.FormatInt(c.Wait, 10), Reason: reason}
	}
	switch most := p.MaxWait.Milliseconds(); {
	case c.Wait < 0 || c.Wait > most:
		return req, 0, invalid(fmt.Sprintf("give from 0 to %d, the longest wait that the server permits", most))
	case c.Wait > 0 && c.DryRun:
		return req, 0, invalid("a dry run never waits: leave it out")
	case c.Lease != 0 && c.DryRun:
		return req, 0, invalidLease(c.Lease, "a dry run takes nothing, and has no lease: leave it out")
	case c.DryRun && c.holds():
		return req, 0, noSlots("a dry run asks for tokens only: leave slots out. The calls of administration show who holds them")
	case c.Lease != 0 || c.holds():
		if _, err := LeaseTime(c.Lease, c.holds()); err != nil {
			return req, 0, err
		}
	}
	return req, time.Duration(c.Wait) * time.Millisecond, nil
}

// LeaseTime is within which time a lease is expected to be settled. Slots are held until then at most.
func LeaseTime(ms int64, hasSlots bool) (time.Duration, error) {
	least, why := time.Second.Milliseconds(), ""
	if hasSlots {
		least, why = limiter.MinSlotsToken.Milliseconds(), "slots are held until the lease is settled, or for this time: "
	}
	if most := limiter.MaxTokenTime.Milliseconds(); ms < least || ms > most {
		return 0, invalidLease(ms, fmt.Sprintf("%sgive from %d to %d", why, least, most))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// holds reports whether a call names slots.
func (c *Call) holds() bool { return len(c.Slots) > 0 || HaveSlots(c.Also) }

// HaveSlots reports whether parts of a call name slots.
func HaveSlots(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return len(p.Slots) > 0 })
}

// noSlots is the error of slots where there can be none.
func noSlots(reason string) error { return &limiter.ValidationError{Field: "slots", Reason: reason} }

func invalidLease(ms int64, reason string) error {
	return &limiter.ValidationError{Field: "lease_ms", Value: strconv.FormatInt(ms, 10), Reason: reason}
}

// request is the request of a question.
func (p *Policy) request(q *Question) limiter.Request {
	req := limiter.Request{
		Entity: q.Entity, Resource: q.Resource, Consume: q.Consume, Fallback: p.Fallback, OnUnavailable: p.OnUnavailable,
	}
	for _, part := range q.Also {
		req.Also = append(req.Also, limiter.Part{Resource: part.Resource, Consume: part.Consume, Fallback: p.Fallback, Slots: part.Slots})
	}
	return req
}

// Look answers a question: the status of each limit that it names, or of all limits of its
// resource if it names none.
func (p *Policy) Look(ctx context.Context, l Limiter, q *Question) ([]limiter.Status, error) {
	if HaveSlots(q.Also) {
		return nil, noSlots("a check shows balances of tokens: leave slots out. The calls of administration show who holds them")
	}
	req := p.request(q)
	if len(req.Consume) == 0 {
		if len(req.Also) > 0 {
			return nil, &limiter.ValidationError{Field: "consume", Reason: "also needs it: give what to ask of the first resource, too"}
		}
		var err error
		if req.Consume, err = EveryLimit(ctx, l, &req); err != nil {
			return nil, err
		}
	}
	return l.Available(ctx, req)
}

// EveryLimit asks for 0 of each limit of a request's entity, and of its parent if it cascades.
func EveryLimit(ctx context.Context, l Limiter, req *limiter.Request) (map[string]int64, error) {
	if err := store.ValidateLimits(req.Fallback); err != nil {
		return nil, err
	}
	own, err := l.Limits(ctx, req.Entity, req.Resource)
	if err != nil {
		return nil, err
	}
	consume := declared(own.Limits)
	if len(consume) == 0 {
		consume = declared(req.Fallback)
	}
	if own.Parent != nil {
		maps.Copy(consume, declared(own.Parent.Limits))
	}
	if len(consume) == 0 {
		return nil, &limiter.NotConfiguredError{Entity: req.Entity, Resource: req.Resource}
	}
	return consume, nil
}

// declared requests 0 of each limit.
func declared(limits []limiter.Limit) map[string]int64 {
	consume := make(map[string]int64, len(limits))
	for _, l := range limits {
		consume[l.Name] = 0
	}
	return consume
}

// Acquire takes what a request names, or waits for it. If the store did not answer within the
// wait, the error is [limiter.ErrUnavailable].
func Acquire(ctx context.Context, l Limiter, req limiter.Request, wait time.Duration) (*limiter.Lease, error) {
	if wait == 0 {
		return l.Acquire(ctx, req)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	lease, err := l.Wait(waiting, req)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && waiting.Err() != nil && !errors.Is(err, limiter.ErrExceeded) {
		return nil, fmt.Errorf("%w: DynamoDB did not answer within the wait of %v: %w", limiter.ErrUnavailable, wait, err)
	}
	return lease, err
}
