// Package admission has what the servers of every protocol share: the lease of a request in
// its context, names of policies that do not collide, and what they say about errors that
// only the server's operator can correct.
package admission

import (
	"context"
	"errors"
	"slices"
	"strconv"

	limiter "github.com/zeroae/zae-limiter-go"
)

// An Admission is a request that a limiter has admitted.
type Admission struct {
	Lease *limiter.Lease
	// Entity is whose limits the client is told; "" if it is told none.
	Entity string
	// Outer is the admission by a middleware around this one; nil if there is none.
	Outer  *Admission
	nested bool
}

// Nest notes, for all admissions of a request, that a middleware inside answers or has admitted.
func (a *Admission) Nest() {
	for ; a != nil; a = a.Outer {
		a.nested = true
	}
}

// IsNested reports whether a middleware inside has set its own fields.
func (a *Admission) IsNested() bool { return a.nested }

type key struct{}

// With is a context with an admission.
func With(ctx context.Context, a *Admission) context.Context {
	return context.WithValue(ctx, key{}, a)
}

// From is the innermost admission of a context; nil if there is none.
func From(ctx context.Context) *Admission {
	a, _ := ctx.Value(key{}).(*Admission)
	return a
}

// SlotsLost reports whether the context of the work under a lease has ended because its slots are
// lost.
func SlotsLost(ctx context.Context) bool { return errors.Is(context.Cause(ctx), limiter.ErrSlotsLost) }

// Policy is the name by which clients know a limit of a middleware inside this admission, which
// may be nil. It is the limit's name. If a middleware around it has given that to another
// limit, the resource's name comes first.
func (a *Admission) Policy(s *limiter.Status) string { return a.PolicyOf(s.Resource, s.Limit.Name) }

// PolicyOf is Policy for a limit of a resource.
func (a *Admission) PolicyOf(resource, limit string) string {
	name := limit
	for n := 1; a.has(name); n++ {
		name = resource + "/" + limit
		if n > 1 {
			name += "/" + strconv.Itoa(n)
		}
	}
	return name
}

func (a *Admission) has(policy string) bool {
	for ; a != nil; a = a.Outer {
		if slices.ContainsFunc(a.Own(), func(s limiter.Status) bool { return a.Outer.Policy(&s) == policy }) {
			return true
		}
	}
	return false
}

// Full tells a client that slots are held, and what to do. How many there are may be another
// tenant's business: the limit may be a parent's.
func Full(e *limiter.SlotsError) string {
	if e.Slots > e.Of {
		return "The request asks for more slots of " + e.Limit + " of " + e.Resource + " than there are: ask for fewer."
	}
	return "Other requests hold the slots of " + e.Limit + " of " + e.Resource + ". Retry when some of them have ended."
}

// Own are the limits that the client is told: the entity's, without its parent's.
func (a *Admission) Own() []limiter.Status {
	return slices.DeleteFunc(a.Lease.Statuses(), func(s limiter.Status) bool { return s.Entity != a.Entity })
}
