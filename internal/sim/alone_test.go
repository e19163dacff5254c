package sim_test

import (
	"context"
	"math"
	"slices"
	"time"
)

// attributable reports whether what a call did can be told from the writes that
// bear its name. Callers of one process may share writes, which then bear the
// name of one of them: so nobody else of its process may have been at the same
// buckets while the call, or one that settles its lease, went on.
func (c *checker) attributable(k *call) bool {
	if !k.client.shares && !c.wasSharded(bucketKey{k.req.Entity, k.req.Resource}) && !c.wasSharded(bucketKey{cascading[k.req.Entity], k.req.Resource}) {
		return true
	}
	return c.alone(k) && !slices.ContainsFunc(c.settled[k], func(s *call) bool { return !c.alone(s) })
}

// wasSharded reports whether a bucket ever had several shards.
func (c *checker) wasSharded(key bucketKey) bool { return c.sharded[key] }

// alone reports whether no other call of the process was at its buckets
// meanwhile.
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

// over is when nothing of a call goes on any more. One whose caller left is
// seen through.
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
