package acquire

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

// RefuseRest refuses the callers of a crowd that come too late for an image of an item that other
// processes write to, too. Each caller asks for tokens of one limit. It returns what those ask for
// who stay.
func RefuseRest(d *Driver, img *store.Image, limit string, asks ...int64) (stay []int64) {
	up := d.Uptime()
	var cr crowd
	for _, n := range asks {
		c := d.accounts.claim(&Request{Entity: img.Entity, Resource: img.Resource, Consume: map[string]int64{limit: n}, By: up + 4*time.Second})
		c.adopt(c.acct.Wanted())
		cr.callers = append(cr.callers, &ticket{Claim: c})
	}
	cr.p = pursuit{wr: d.writer, c: cr.callers[0].Claim.common(), img: img}
	cr.refuseRest(nil, d.Now()) //nolint:staticcheck // it sends nothing
	for _, t := range cr.callers {
		stay = append(stay, amounts(t)[0].Milli/store.Milli)
	}
	return stay
}

// FirstToSettle is the shard that a credit goes to first which was taken of another shard, when the
// bucket has these shards.
func FirstToSettle(taken int, shards ...*store.Image) int {
	t := Restore(store.Bucket{Entity: "user", Resource: "gpt-4"}, []token.Held{{Shard: taken}})
	return t.lots(shards, false)[0].image.Shard
}
