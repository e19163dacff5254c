package limiter

import (
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A claim is one bucket's part of a request: the entity's, or its parent's.
type claim struct {
	Bucket // the shard is the one to which the claim was last routed

	acct  *account   // what is remembered of the bucket and all its shards
	want  plan.Want  // what the request asks of the bucket
	terms plan.Terms // the want under the configuration known last
	outcome
}

// An outcome is what became of a claim.
type outcome struct {
	image    *store.Image   // the item after the debit, or the item that refused; nil if there is none
	images   []*store.Image // all shards of the bucket, if the limiter looked at several
	portions []plan.Portion // the debit of each shard, if several were debited
	behind   []int64        // for each amount, what later callers took in the same write
	at       int64          // the instant of image, in milliseconds
	granted  bool           // the amounts are debited
	refused  bool           // the bucket cannot serve the amounts
	short    bool           // the shard cannot serve the amounts, others may
	statuses []Status       // if refused without a bucket
	parent   string         // the parent to which the entity cascades
}

// refusedBy ends a claim that an item cannot serve. It refuses the claim if the item
// is the whole bucket, and otherwise marks it short.
func (c *claim) refusedBy(img *store.Image, now int64) {
	c.image, c.at, c.parent = img, now, plan.CascadeOf(img)
	c.short = img.ShardCount > 1
	c.refused = !c.short
}

// limitOf is p as users see it: whole tokens, and whole seconds where the stored values
// are whole.
func limitOf(p store.Params, name string) Limit {
	return Limit{
		Name: name, Capacity: max(1, p.Capacity/milli), Amount: p.Amount / milli,
		Period: time.Duration(p.Period) * time.Millisecond,
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
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
		amounts[i] = store.Amount{Limit: name, Milli: tokens * milli}
	}
	return amounts
}
