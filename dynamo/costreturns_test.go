package dynamo_test

import (
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// returns makes the limits of a path return what is lost. Each process then makes its bucket's first
// write.
func (c *till) returns() {
	c.Helper()
	c.must(c.admin.SetSystem(c.Context(), []store.Limit{limiter.PerDay("rpd", 86_400, limiter.Returning(100))}, ""))
	c.limiter.InvalidateConfig()
	c.other.InvalidateConfig()
	for _, l := range []*limiter.Limiter{c.limiter, c.other} {
		c.must(c.acquire(l, "rpd", 1).Rollback(c.Context()))
	}
	c.must(c.acquire(c.limiter, "rpd", 1).Rollback(c.Context())) // the image is of the last write
}

// returnCosts are the paths of limits that return what is lost (ADR 071). Beside these, they cost what others do.
var returnCosts = []cost{
	{"warm acquire of a limit that returns what is lost", price{1, 1, 0, 1}, nil, func(c *till) {
		c.returns()
		c.start()
		c.acquire(c.limiter, "rpd", 5000)
	}},
	{"the same, and a commit with adjustments", price{2, 2, 0, 2}, nil, func(c *till) {
		c.returns()
		c.start()
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.must(lease.Settle("rpd", 20))
		c.must(lease.Commit(c.Context()))
	}},
	{"the same, and a commit without, and another acquire", price{2, 2, 0, 2}, nil, func(c *till) {
		c.returns()
		c.start()
		c.must(c.acquire(c.limiter, "rpd", 5000).Commit(c.Context()))
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"a commit without adjustments that no write follows", price{1, 1, 0, 1}, nil, func(c *till) {
		c.returns()
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.must(lease.Commit(c.Context()))
		time.Sleep(4 * time.Minute)
	}},
	{"a lease that is held for 16 minutes", price{3, 3, 0, 3}, nil, func(c *till) {
		c.returns()
		c.acquire(c.limiter, "rpd", 5000)
		c.start()
		time.Sleep(16 * time.Minute)
	}},
	{"such a lease is written down", price{1, 1, 0, 1}, nil, func(c *till) {
		c.returns()
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.writtenDown(lease)
	}},
	{"acquire that gives back what a lost process took", price{1, 1, 0, 1}, nil, func(c *till) {
		c.returns()
		c.acquire(c.other, "rpd", 5000)
		c.must(c.other.Close())
		time.Sleep(16 * time.Minute)
		c.must(c.acquire(c.limiter, "rpd", 0).Commit(c.Context())) // an image that is not too old
		c.limiter.InvalidateConfig()
		lease := c.acquire(c.limiter, "rpd", 0)
		c.must(lease.Rollback(c.Context()))
		c.start()
		c.acquire(c.limiter, "rpd", 1)
		if got := c.limiter.Stats().LostReturned; got != 5000 {
			c.Errorf("%d tokens went back", got)
		}
	}},
}
