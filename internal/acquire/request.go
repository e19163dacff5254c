package acquire

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Request is what a caller asks of one entity's buckets, and of its parent's.
type Request struct {
	Entity, Resource string
	Consume          map[string]int64 // tokens by limit name
	Fallback         []store.Limit    // see [plan.Want]
	// Also has a request for each further resource that is debited with this one, or not at
	// all. They are the same entity's, have the same At and By, and have no further ones.
	Also []Request
	// At is when the caller came. A request that only looks has none.
	At memory.Moment
	// By is until when the caller waits for its turn at a shared bucket, and for tokens
	// that the bucket has not earned yet, by the uptime. See [Driver.WaitsUntil].
	By time.Duration
}

// Come sets when the caller came, and until when it waits.
func (r *Request) Come(at memory.Moment, by time.Duration) {
	for i := range r.Parts() {
		p := r.Part(i)
		p.At, p.By = at, by
	}
}

// Parts is the number of resources that a request names.
func (r *Request) Parts() int { return 1 + len(r.Also) }

// Part returns the request for one of the resources, the first of which is r's own.
func (r *Request) Part(i int) *Request {
	if i == 0 {
		return r
	}
	return &r.Also[i-1]
}

// A Part is what became of a request for one resource: the claims as they were decided, and
// the error of either. The parent's is nil if the entity does not cascade.
type Part struct {
	Child, Parent *Claim
	Err           error
}

// claim makes the claim of a request on its entity's bucket.
func (a *accounts) claim(req *Request) *Claim {
	c := a.newClaim(req, req.Entity)
	if len(req.Fallback) > 0 {
		c.want.Fallback = slices.SortedFunc(slices.Values(plan.LimitsOf(req.Entity, req.Fallback)), func(a, b store.Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	return c
}

// parentClaim makes the claim of a request on the bucket of the entity's parent, if
// the parent has limits.
func (a *accounts) parentClaim(req *Request, parent string) *Claim {
	c := a.newClaim(req, parent)
	c.want.Optional = true
	return c
}

// newClaim makes a claim, in one allocation with its amounts if these are few.
func (a *accounts) newClaim(req *Request, entity string) *Claim {
	c := new(struct {
		Claim
		room [2]store.Amount
	})
	asked := appendAmounts(c.room[:0], req.Consume)
	c.Claim = Claim{
		Bucket: store.Bucket{Entity: entity, Resource: req.Resource}, acct: a.of(entity, req.Resource),
		want: plan.Want{Asked: asked}, by: req.By, Terms: plan.Terms{Amounts: asked},
	}
	return &c.Claim
}

// appendAmounts appends a request's amounts by limit name, in millitokens, to none.
func appendAmounts(amounts []store.Amount, consume map[string]int64) []store.Amount {
	for name, tokens := range consume {
		i := len(amounts)
		amounts = append(amounts, store.Amount{})
		for ; i > 0 && strings.Compare(amounts[i-1].Limit, name) > 0; i-- {
			amounts[i] = amounts[i-1]
		}
		amounts[i] = store.Amount{Limit: name, Milli: tokens * store.Milli}
	}
	return amounts
}
