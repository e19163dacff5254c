package acquire

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Request is what a caller asks of one entity's bucket, and of its parent's.
type Request struct {
	Entity, Resource string
	Consume          map[string]int64 // tokens by limit name
	Fallback         []store.Limit    // see [plan.Want]
}

// claim makes the claim of a request on its entity's bucket.
func (d *Driver) claim(req *Request) *Claim {
	asked := claimAmounts(req.Consume)
	c := &Claim{
		Bucket: store.Bucket{Entity: req.Entity, Resource: req.Resource}, acct: d.account(req.Entity, req.Resource),
		want: plan.Want{Asked: asked},
	}
	if len(req.Fallback) > 0 {
		c.want.Fallback = slices.SortedFunc(slices.Values(req.Fallback), func(a, b store.Limit) int { return strings.Compare(a.Name, b.Name) })
	}
	c.Terms = c.want.Under(nil)
	return c
}

// parentClaim makes the claim of a request on the bucket of the entity's parent, if
// the parent has limits.
func (d *Driver) parentClaim(req *Request, parent string) *Claim {
	asked := claimAmounts(req.Consume)
	c := &Claim{
		Bucket: store.Bucket{Entity: parent, Resource: req.Resource}, acct: d.account(parent, req.Resource),
		want: plan.Want{Asked: asked, Optional: true},
	}
	c.Terms = c.want.Under(nil)
	return c
}
