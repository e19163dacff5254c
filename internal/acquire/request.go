package acquire

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Request is what a caller asks of one entity's bucket, and of its parent's.
type Request struct {
	Entity, Resource string
	Consume          map[string]int64 // tokens by limit name
	Fallback         []store.Limit    // see [plan.Want]
	// At is when the caller came. A request that only looks has none.
	At memory.Moment
	// By is until when the caller waits for its turn at a shared bucket, and for tokens
	// that the bucket has not earned yet, by the uptime. See [Driver.WaitsUntil].
	By time.Duration
}

// claim makes the claim of a request on its entity's bucket.
func (a *accounts) claim(req *Request) *Claim {
	want := plan.Want{Asked: claimAmounts(req.Consume)}
	if len(req.Fallback) > 0 {
		want.Fallback = slices.SortedFunc(slices.Values(req.Fallback), func(a, b store.Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	return a.newClaim(req, req.Entity, want)
}

// parentClaim makes the claim of a request on the bucket of the entity's parent, if
// the parent has limits.
func (a *accounts) parentClaim(req *Request, parent string) *Claim {
	return a.newClaim(req, parent, plan.Want{Asked: claimAmounts(req.Consume), Optional: true})
}

func (a *accounts) newClaim(req *Request, entity string, want plan.Want) *Claim {
	return &Claim{
		Bucket: store.Bucket{Entity: entity, Resource: req.Resource}, acct: a.of(entity, req.Resource),
		want: want, by: req.By, Terms: want.Under(nil),
	}
}

// claimAmounts returns a request's amounts by limit name, in millitokens.
func claimAmounts(consume map[string]int64) []store.Amount {
	amounts := make([]store.Amount, 0, len(consume))
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
