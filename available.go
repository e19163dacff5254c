package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Available returns the status of every limit that the request names: the balance,
// and whether and how long the request would have to wait now. The entity's limits
// come first and then, if the entity cascades, its parent's. An entity that never
// acquired has its configured capacity.
//
// Available takes nothing. It writes only if a bucket's stamp lies far ahead of the
// clock: then it moves the stamp back.
//
// It returns by its context's deadline and within [Options.Timeout], with
// [ErrUnavailable].
func (l *Limiter) Available(ctx context.Context, req Request) ([]Status, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	req = req.clone()
	return inTime(ctx, l, req.op("ask for the balance of"), func(ctx context.Context) ([]Status, error) { return l.stand(ctx, &req) })
}

// stand returns the status of every limit that a request names.
func (l *Limiter) stand(ctx context.Context, req *Request) ([]Status, error) {
	child, parent := l.claim(req), (*claim)(nil)
	if err := l.inspect(ctx, child); err != nil {
		return nil, err
	}
	if child.parent != "" {
		parent = l.parentClaim(req, child.parent)
		if err := l.inspect(ctx, parent); err != nil {
			return nil, err
		}
	}
	if err := verdict(child, parent, l.uptime()); err != nil {
		return nil, err
	}
	statuses := child.statuses
	if parent != nil {
		statuses = append(statuses, parent.statuses...)
	}
	return statuses, nil
}

// TimeUntilAvailable returns the smallest wait after which the limiter admits the
// request if nobody else consumes, to the millisecond. It is 0 if the limiter would
// admit the request now, and [Never] if the request asks for more than a limit's
// capacity. It writes under the same condition as [Limiter.Available].
func (l *Limiter) TimeUntilAvailable(ctx context.Context, req Request) (time.Duration, error) {
	statuses, err := l.Available(ctx, req)
	if err != nil {
		return 0, err
	}
	return longestWait(statuses), nil
}

// inspect computes the statuses of a claim, on the bucket as an acquire would find
// it: repaired to its configuration, or made anew.
func (l *Limiter) inspect(ctx context.Context, c *claim) error {
	var shards []*store.Image
	var errs [2]error
	l.atOnce(len(errs), func(i int) {
		if i == 0 {
			shards, errs[i] = l.wholeBucket(ctx, c)
		} else {
			errs[i] = l.inform(ctx, c)
		}
	})
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	exists := len(shards) > 0
	switch w := c.terms.Target; {
	case w.Disabled || exists && shards[0].Disabled:
		return disabledError(c.Bucket)
	case !exists && w.Foreign != "":
		return &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: w.Foreign}
	case exists && (w.Foreign != "" || shards[0].Foreign != ""):
		c.parent = plan.CascadeOf(shards[0]) // a foreign item is not repaired: its own cascade holds
	default:
		c.parent = plan.PayerOf(&w.Owner)
	}
	c.statuses = c.standing(plan.WholeSet(shards), l.now())
	if len(c.statuses) < len(c.terms.Amounts) {
		return &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: cmp.Or(c.terms.Target.Foreign, shards[0].Foreign)}
	}
	return nil
}

// wholeBucket reads all shards of a claim's bucket.
func (l *Limiter) wholeBucket(ctx context.Context, c *claim) ([]*store.Image, error) {
	shards, err := l.store.Buckets(ctx, c.Entity, c.Resource, c.acct.ShardCount())
	if err == nil && len(shards) > 0 && !plan.IsWhole(shards) { // or the read crossed a merge
		shards, err = l.store.Buckets(ctx, c.Entity, c.Resource, plan.CountOf(shards))
	}
	if err != nil {
		return nil, fmt.Errorf("read the bucket of %s for %s: %w", c.Entity, c.Resource, err)
	}
	return shards, nil
}

// inform gives a claim the wanted bucket, read within the time to live.
func (l *Limiter) inform(ctx context.Context, c *claim) error {
	w := c.acct.Wanted()
	if w == nil || !l.isYoung(w, l.uptime()) {
		epoch := l.epoch.Load()
		r, err := l.config.resolve(ctx, c.Entity, c.Resource, nil)
		if err != nil {
			return err
		}
		w = l.wantedOf(&r, epoch)
		c.acct.Want(w)
	}
	c.adopt(w)
	return nil
}

// standing returns the status of each limit of the claim on the shards of a bucket,
// by number. The amounts may be debited already, or not. A nil shard is missing and
// will open empty. If the claim was granted, a nil shard was only not read: standing
// assumes that it holds as much as the others.
func (c *claim) standing(shards []*store.Image, now int64) []Status {
	statuses := make([]Status, 0, len(c.terms.Amounts))
	for k, a := range c.terms.Amounts {
		var behind int64
		if c.behind != nil {
			behind = c.behind[k]
		}
		statuses = c.appendStatus(statuses, a, behind, shards, now)
	}
	return statuses
}

// appendStatus appends the status of one limit, if the bucket has or is to have it.
// behind is the amount that later callers took of the limit in the same write.
func (c *claim) appendStatus(statuses []Status, a store.Amount, behind int64, shards []*store.Image, now int64) []Status {
	var room [1]plan.Holding
	params, parts := c.terms.Holdings(room[:0], a.Limit, shards, now)
	if len(parts) == 0 {
		return statuses
	}
	held, unseen := plan.Balance(parts, now), plan.MissingOf(shards)
	if c.granted && len(unseen) > 0 {
		count := int64(len(shards))
		held = max(held/(count-int64(len(unseen))), math.MinInt64/count) * count // saturates a debt at 64 bits
	}
	st := Status{
		Entity: c.Entity, Resource: c.Resource, Limit: limitOf(params, a.Limit),
		Available: floorDiv(held+behind, milli), Requested: a.Milli / milli,
	}
	if !c.granted && a.Milli > 0 {
		for _, i := range unseen {
			parts = append(parts, plan.Holding{Limit: plan.Share(params, i, len(shards)), At: now})
		}
		st.RetryAfter = plan.WaitFor(parts, now, a.Milli)
		st.Exceeded = st.RetryAfter > 0
	}
	return append(statuses, st)
}
