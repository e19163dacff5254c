package limiter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Request asks for tokens of one resource on behalf of one entity.
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
	// OnUnavailable, if not "", overrides the system's configuration.
	OnUnavailable OnUnavailable
}

// op names an operation on a request, for errors.
func (r *Request) op(verb string) string { return verb + " " + r.Resource + " for " + r.Entity }

// clone returns a copy that may outlive the call.
func (r *Request) clone() Request {
	c := *r
	c.Consume, c.Fallback = maps.Clone(r.Consume), slices.Clone(r.Fallback)
	return c
}

// Validate reports the first invalid field, as a [*ValidationError]. Only the acquire
// finds out whether the bucket has the limits.
func (r *Request) Validate() error {
	if err := store.CheckEntity(r.Entity); err != nil {
		return err
	}
	if err := store.CheckResource(r.Resource); err != nil {
		return err
	}
	if len(r.Consume) == 0 {
		return &ValidationError{Field: "consume", Value: "", Reason: "name at least one limit; an amount of 0 declares it"}
	}
	if len(r.Consume) > 2*MaxLimits {
		return &ValidationError{
			Field: "consume", Value: strconv.Itoa(len(r.Consume)),
			Reason: fmt.Sprintf("name at most %d limits: an entity has up to %d, and its parent as many", 2*MaxLimits, MaxLimits),
		}
	}
	for name, tokens := range r.Consume {
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
	switch r.OnUnavailable {
	case "", Block, Allow:
	default:
		return &ValidationError{Field: "on unavailable", Value: string(r.OnUnavailable), Reason: `give "block" or "allow"`}
	}
	if err := store.ValidateLimits(r.Fallback); err != nil {
		if e, ok := errors.AsType[*ValidationError](err); ok && e.Field == "limits" {
			e.Field = "fallback"
		}
		return err
	}
	return nil
}
