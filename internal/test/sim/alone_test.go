package sim_test

import (
	"context"
	"math"
	"slices"
	"time"
)

// attributable reports whether a call's effect can be read from the writes in its name.
// Callers of one process may share writes, which then have the name of one of them. So no
// other call of its process may have used the same buckets during the call, or during a
// call that settles its lease.
func (c *checker) attributable(k *call) bool {
	if k.kind != waiting && !k.client.shares && !c.wasSharded(bucketKey{k.req.Entity, k.req.Resource}) && !c.wasSharded(bucketKey{cascading[k.req.Entity], k.req.Resource}) {
		return true
	}
	// A caller that waits may be admitted with the lease of another.
	return c.alone(k) && !slices.ContainsFunc(c.settled[k], func(s *call) bool { return !c.alone(s) })
}

// wasSharded reports whether a bucket ever had several shards.
func (c *checker) wasSharded(key bucketKey) bool { return c.sharded[key] }

// alone reports whether no other call of the process used its buckets at the same time.
func (c *checker) alone(k *call) bool {
	mine := [...]string{k.req.Entity, cascading[k.req.Entity]}
	return !slices.ContainsFunc(c.byClient[k.client], func(o *call) bool {
		if o == k || o.req.Resource != k.req.Resource || o.start > k.over() || k.start > o.over() {
			return false
		}
		theirs := [...]string{o.req.Entity, cascading[o.req.Entity]}
		return slices.ContainsFunc(mine[:], func(e string) bool { return e != "" && slices.Contains(theirs[:], e) })
	})
}

// over is when a call's work ends. The limiter completes the work of a caller that left.
func (c *call) over() time.Duration {
	switch class(c.err) {
	case context.Canceled.Error(), context.DeadlineExceeded.Error():
		return c.end + worst
	}
	switch {
	case !c.answered:
		return math.MaxInt64
	case c.degraded() || c.deadline != 0 && c.err != nil:
		return c.end + worst
	}
	return c.end
}
