package dynamo_test

import (
	"bytes"
	"errors"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// tokenCosts are the paths of leases that are written down.
var tokenCosts = []cost{
	{"a lease is written down, and extended", price{}, nil, func(c *till) {
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.writtenDown(c.resumed(c.limiter, c.writtenDown(lease)))
	}},
	{"a resumed lease is committed, by a process that uses the bucket", price{1, 1, 0, 4}, nil, func(c *till) {
		lease := c.resumed(c.limiter, c.writtenDown(c.acquire(c.limiter, "rpd", 5000)))
		c.must(lease.Settle("rpd", 20))
		c.start()
		c.must(lease.Commit(c.Context()))
	}},
	{"a resumed lease is rolled back, by a process that does not use the bucket", price{2, 2, 1, 4}, nil, func(c *till) {
		lease := c.resumed(c.limiter, c.writtenDown(c.acquire(c.other, "rpd", 5000)))
		c.start()
		c.must(lease.Rollback(c.Context()))
	}},
	{"a resumed lease is committed without adjustments", price{1, 1, 0, 2}, nil, func(c *till) {
		lease := c.resumed(c.limiter, c.writtenDown(c.acquire(c.other, "rpd", 5000)))
		c.start()
		c.must(lease.Commit(c.Context()))
	}},
	{"a resumed lease is rolled back, cascading", price{1, 1, 0, 6}, nil, func(c *till) {
		c.cascade()
		lease := c.resumed(c.limiter, c.writtenDown(c.acquire(c.limiter, "rpd", 5000)))
		c.start()
		c.must(lease.Rollback(c.Context()))
	}},
	{"a resumed lease is settled again, with the same amounts", price{2, 2, 1, 4}, nil, func(c *till) {
		text := c.writtenDown(c.acquire(c.limiter, "rpd", 5000))
		c.must(c.resumed(c.other, text).Rollback(c.Context()))
		c.acquire(c.limiter, "rpd", 1)
		c.start()
		c.must(c.resumed(c.limiter, text).Rollback(c.Context()))
	}},
	{"a resumed lease is settled again, with others", price{2, 2, 1, 2}, nil, func(c *till) {
		text := c.writtenDown(c.acquire(c.limiter, "rpd", 5000))
		c.must(c.resumed(c.other, text).Rollback(c.Context()))
		c.start()
		if err := c.resumed(c.limiter, text).Commit(c.Context()); !errors.Is(err, limiter.ErrSettled) {
			c.Error(err)
		}
	}},
}

// tokenKeys are the keys of every path.
var tokenKeys = [][]byte{bytes.Repeat([]byte{1}, limiter.MinTokenKey)}

// writtenDown writes a lease down.
func (c *till) writtenDown(lease *limiter.Lease) string {
	c.Helper()
	text, err := lease.Token(c.Context(), time.Minute)
	c.must(err)
	return text
}

// resumed makes a lease of a token.
func (c *till) resumed(l *limiter.Limiter, text string) *limiter.Lease {
	c.Helper()
	lease, err := l.Resume(text)
	c.must(err)
	return lease
}
