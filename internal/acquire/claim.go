package acquire

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Claim is one bucket's part of a request: the entity's, or its parent's.
type Claim struct {
	store.Bucket // the shard is the one to which the claim was last routed

	acct  *account   // what is remembered of the bucket and all its shards
	want  plan.Want  // what the request asks of the bucket
	Terms plan.Terms // the want under the configuration known last
	Outcome
}

// An Outcome is what became of a claim.
type Outcome struct {
	Granted bool    // the amounts are debited
	Refused bool    // the bucket cannot serve the amounts
	Looked  bool    // the claim was only to look at the bucket, see [Driver.Look]
	At      int64   // the instant for which it was decided, in milliseconds
	Parent  string  // the parent to which the entity cascades
	Behind  []int64 // for each amount, what later callers took in the same write

	image    *store.Image   // the item after the debit, or the item that refused; nil if there is none
	images   []*store.Image // all shards of the bucket, if the driver looked at several
	portions []plan.Portion // the debit of each shard, if several were debited
	short    bool           // the shard cannot serve the amounts, others may
}

// refusedBy ends a claim that an item cannot serve. It refuses the claim if the item
// is the whole bucket, and otherwise marks it short.
func (c *Claim) refusedBy(img *store.Image, now int64) {
	c.image, c.At, c.Parent = img, now, plan.CascadeOf(img)
	c.short = img.ShardCount > 1
	c.Refused = !c.short
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
