package limiter

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Request asks for tokens of a resource, or of several, on behalf of one entity.
type Request struct {
	// Entity is the consumer. It need not have been created.
	Entity string
	// Resource is the thing consumed, "gpt-4" for instance.
	Resource string
	// Consume maps limit names to tokens, from 0 to [MaxTokens]. An amount of 0
	// declares a limit for a later [Lease.Adjust] and is always admitted. A request
	// names at least one limit, and at most [MaxLimits] for the entity and as many for
	// its parent.
	Consume map[string]int64
	// Fallback is the last level of limits. They hold only where no level of the
	// configuration has limits for the resource and the entity. They hold only for the
	// entity's own bucket, never for its parent's. They do not override configured
	// limits, and they remove no limit from a bucket.
	//
	// The bucket gets those of these limits that it lacks, full. If two requests bring
	// the same limit with different parameters, the later request's parameters hold. A
	// balance is trimmed to a lower capacity and never raised. Without Fallback, a
	// request for limits that no level configures is [ErrNotConfigured].
	Fallback []Limit
	// Also has what the request asks of further resources. The request is admitted for all
	// its resources or for none, and gets one lease: [Lease.Resource] has the part of each.
	// It names at most [MaxResources] resources, none twice. Parents do not count. Each part names
	// tokens, slots or both.
	Also []Part
	// Slots maps names of limits to slots that the request holds until its lease ends: how
	// many requests run at a time, see [Slots]. They are of the request's own resource. A request
	// that names slots need not name tokens. It gets all slots and tokens of all its resources, or
	// none.
	Slots map[string]int64
	// SlotFallback is as Fallback, for Slots: it holds where no level of the configuration has
	// slots for the resource and the entity.
	SlotFallback []SlotLimit
	// ClampPercent, if not 0, cuts what the acquire takes of each limit to that part of its
	// capacity, in percent from 1 to 100, rounded down, and at least a token. So no estimate holds a
	// whole limit. The rest is an adjustment of the lease, see [Lease.Clamped]: the commit takes it,
	// into debt if necessary, unless [Lease.Settle] says that less was used. Of an entity's limit
	// and its parent's, the smaller capacity counts.
	ClampPercent int
	// OnUnavailable, if not "", overrides the system's configuration.
	OnUnavailable OnUnavailable
}

// A Part is what a [Request] asks of one further resource.
type Part struct {
	// Resource, Consume and Fallback are as in a Request, for this resource.
	Resource string
	Consume  map[string]int64
	Fallback []Limit
	// Slots and SlotFallback are as in a Request, for this resource.
	Slots        map[string]int64
	SlotFallback []SlotLimit
}

// MaxResources is the most resources that a request names.
const MaxResources = 16

// op names an operation on a request, for errors.
func (r *Request) op(verb string) string {
	if n := len(r.Also); n > 0 {
		return fmt.Sprintf("%s %s and %d more for %s", verb, r.Resource, n, r.Entity)
	}
	return verb + " " + r.Resource + " for " + r.Entity
}

// own is what a request asks of its own resource.
func (r *Request) own() Part {
	return Part{r.Resource, r.Consume, r.Fallback, r.Slots, r.SlotFallback}
}

// holds reports whether the request names slots.
func (r *Request) holds() bool {
	return len(r.Slots) > 0 || slices.ContainsFunc(r.Also, func(p Part) bool { return len(p.Slots) > 0 })
}

// parts yields what a request asks of each resource, first of its own.
func (r *Request) parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if !yield(r.own()) {
			return
		}
		for i := range r.Also {
			if !yield(r.Also[i]) {
				return
			}
		}
	}
}

// clone returns a copy that may outlive the call.
func (r *Request) clone() Request {
	c := *r
	c.Consume, c.Fallback, c.Also = maps.Clone(r.Consume), slices.Clone(r.Fallback), slices.Clone(r.Also)
	c.Slots, c.SlotFallback = maps.Clone(r.Slots), slices.Clone(r.SlotFallback)
	for i := range c.Also {
		p := &c.Also[i]
		p.Consume, p.Fallback = maps.Clone(p.Consume), slices.Clone(p.Fallback)
		p.Slots, p.SlotFallback = maps.Clone(p.Slots), slices.Clone(p.SlotFallback)
	}
	return c
}

// Validate reports the first invalid field, as a [*ValidationError]. Only the acquire
// finds out whether the bucket has the limits.
func (r *Request) Validate() error {
	if err := store.CheckEntity(r.Entity); err != nil {
		return err
	}
	if err := store.CheckOnUnavailable(r.OnUnavailable); err != nil {
		return err
	}
	if err := r.validateClamp(); err != nil {
		return err
	}
	own := r.own()
	if err := own.validate(); err != nil || len(r.Also) == 0 {
		return err
	}
	return r.validateAlso()
}

// validateClamp checks to what part of a capacity a request is cut.
func (r *Request) validateClamp() error {
	const all = 100
	if r.ClampPercent < 0 || r.ClampPercent > all {
		return &ValidationError{Field: "clamp percent", Value: strconv.Itoa(r.ClampPercent), Reason: "give from 1 to 100 percent of the capacity, or 0 for no clamp"}
	}
	return nil
}

// validateSlots checks what the part asks for of slots.
func (p *Part) validateSlots() error {
	if len(p.Slots) > MaxLimits {
		return &ValidationError{Field: "slots", Value: strconv.Itoa(len(p.Slots)), Reason: fmt.Sprintf("name at most %d limits", MaxLimits)}
	}
	for name, n := range p.Slots {
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		if n < 1 || n > store.MaxSlots {
			return &ValidationError{
				Field: "slots of " + name, Value: strconv.FormatInt(n, 10), Reason: fmt.Sprintf("give from 1 to %d slots", store.MaxSlots),
			}
		}
	}
	return store.ValidateSlots(p.SlotFallback)
}

// validateAlso checks the further parts. The reason names the resource, and the field does
// not: a client may have chosen the name.
func (r *Request) validateAlso() error {
	if n := 1 + len(r.Also); n > MaxResources {
		return &ValidationError{
			Field: "also", Value: strconv.Itoa(n),
			Reason: fmt.Sprintf("name at most %d resources in one request; make several requests for more", MaxResources),
		}
	}
	named := map[string]bool{r.Resource: true}
	for i := range r.Also {
		p := &r.Also[i]
		if named[p.Resource] {
			return &ValidationError{Field: "also", Value: p.Resource, Reason: "name each resource once; add the amounts up"}
		}
		named[p.Resource] = true
		if err := p.validate(); err != nil {
			if e, ok := errors.AsType[*ValidationError](err); ok {
				e.Field, e.Reason = "also: "+e.Field, fmt.Sprintf("for %.50q, %s", p.Resource, e.Reason)
			}
			return err
		}
	}
	return nil
}

// validate reports the first invalid field.
func (p *Part) validate() error {
	if len(p.Slots) > 0 {
		if err := p.validateSlots(); err != nil {
			return err
		}
	}
	if err := store.CheckResource(p.Resource); err != nil {
		return err
	}
	if len(p.Consume) == 0 && len(p.Slots) == 0 {
		return &ValidationError{Field: "consume", Value: "", Reason: "name at least one limit; an amount of 0 declares it"}
	}
	if len(p.Consume) > 2*MaxLimits {
		return &ValidationError{
			Field: "consume", Value: strconv.Itoa(len(p.Consume)),
			Reason: fmt.Sprintf("name at most %d limits: an entity has up to %d, and its parent as many", 2*MaxLimits, MaxLimits),
		}
	}
	for name, tokens := range p.Consume {
		if err := store.CheckLimitName(name); err != nil {
			return err
		}
		if tokens < 0 || tokens > MaxTokens {
			return &ValidationError{
				Field: "consume " + name, Value: strconv.FormatInt(tokens, 10),
				Reason: fmt.Sprintf("give from 0 to %d tokens; the lease that took tokens returns them, by Release or Adjust", int64(MaxTokens)),
			}
		}
	}
	if err := store.ValidateLimits(p.Fallback); err != nil {
		if e, ok := errors.AsType[*ValidationError](err); ok && e.Field == "limits" {
			e.Field = "fallback"
		}
		return err
	}
	return nil
}
