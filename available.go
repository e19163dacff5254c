package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
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
	switch w := c.want; {
	case w.Disabled || exists && shards[0].Disabled:
		return c.disabled()
	case !exists && w.Foreign != "":
		return &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: w.Foreign}
	case exists && (w.Foreign != "" || shards[0].Foreign != ""):
		c.parent = plan.CascadeOf(shards[0]) // a foreign item is not repaired: its own cascade holds
	default:
		c.parent = plan.PayerOf(&w.Owner)
	}
	c.statuses = c.standing(plan.WholeSet(shards), l.now())
	if len(c.statuses) < len(c.amounts) {
		return &UnsupportedError{Entity: c.Entity, Resource: c.Resource, Feature: cmp.Or(c.want.Foreign, shards[0].Foreign)}
	}
	return nil
}

// wholeBucket reads all shards of a claim's bucket.
func (l *Limiter) wholeBucket(ctx context.Context, c *claim) ([]*store.Image, error) {
	shards, err := l.store.Buckets(ctx, c.Entity, c.Resource, c.acct.shardCount())
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
	w := c.acct.wanted()
	if w == nil || !l.isYoung(w, l.uptime()) {
		epoch := l.epoch.Load()
		r, err := l.config.resolve(ctx, c.Entity, c.Resource, nil)
		if err != nil {
			return err
		}
		w = l.wantedOf(&r, epoch)
		c.acct.want(w)
	}
	c.adopt(w)
	return nil
}

// standing returns the status of each limit of the claim on the shards of a bucket,
// by number. The amounts may be debited already, or not. A nil shard is missing and
// will open empty. If the claim was granted, a nil shard was only not read: standing
// assumes that it holds as much as the others.
func (c *claim) standing(shards []*store.Image, now int64) []Status {
	statuses := make([]Status, 0, len(c.amounts))
	for k, a := range c.amounts {
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
	var room [1]holding
	params, parts := c.holdings(room[:0], a.Limit, shards, now)
	if len(parts) == 0 {
		return statuses
	}
	held, unseen := balance(parts, now), plan.MissingOf(shards)
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
			parts = append(parts, holding{plan.Share(params, i, len(shards)), 0, now})
		}
		st.RetryAfter = wait(parts, now, a.Milli)
		st.Exceeded = st.RetryAfter > 0
	}
	return append(statuses, st)
}

// A holding is the balance of one limit on one shard.
type holding struct {
	bucket.Limit
	tokens, at int64
}

// holdings returns the holdings of a limit that an acquire would find, shard by
// shard.
func (c *claim) holdings(parts []holding, limit string, shards []*store.Image, now int64) (params store.Params, _ []holding) {
	for _, img := range shards {
		if img == nil {
			continue
		}
		if h, p, ok := c.holding(img, limit, now); ok {
			params, parts = p, append(parts, h)
		}
	}
	if len(shards) == 0 && c.want != nil {
		if w := c.want.Find(limit); w != nil {
			params = w.Params()
			parts = append(parts, holding{plan.Share(params, 0, 1), params.Capacity, now})
		}
	}
	return params, parts
}

// holding returns the holding of a limit that an acquire would find on one shard. It
// is as on the item, repaired to the wanted parameters, or new and full.
func (c *claim) holding(img *store.Image, limit string, now int64) (h holding, params store.Params, ok bool) {
	var w *Limit
	if c.want != nil {
		w = c.want.Find(limit)
	}
	s, ok := img.Limit(limit)
	switch {
	case ok && (w == nil || w.Params() == s.Params):
		return holding{plan.ShareOf(img, s.Params), s.Tokens, img.RefilledAt}, s.Params, true
	case ok:
		part := plan.ShareOf(img, w.Params())
		earned := plan.ShareOf(img, s.Params).Balance(s.Tokens, img.RefilledAt, now)
		return holding{part, min(earned, part.Capacity), max(now, img.RefilledAt)}, w.Params(), true
	case w != nil:
		part := plan.ShareOf(img, w.Params())
		return holding{part, part.Capacity, now}, w.Params(), true
	}
	return holding{}, store.Params{}, false
}

// balance returns the tokens that the shards can be debited together. If there are
// none, it returns the sum of their debts, saturated at 64 bits. A shard in debt does
// not reduce what the others can be debited.
func balance(parts []holding, now int64) int64 {
	var held, owed int64
	for i := range parts {
		b := parts[i].Balance(parts[i].tokens, parts[i].at, now)
		held += max(0, b)
		owed = max(owed, math.MinInt64-min(0, b)) + min(0, b)
	}
	if held == 0 {
		return owed
	}
	return held
}

// wait returns the least time, in whole milliseconds, after which the parts together
// hold what is needed. Their sum only grows with time, so a binary search finds it.
func wait(parts []holding, now, need int64) time.Duration {
	if len(parts) == 1 {
		return retryAfter(parts[0].Limit, parts[0].tokens, parts[0].at, now, need)
	}
	lo, hi := int64(0), math.MaxInt64/int64(time.Millisecond)-now
	if balance(parts, now+hi) < need {
		return Never
	}
	for lo < hi {
		if mid := lo + (hi-lo)/2; balance(parts, now+mid) >= need {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return time.Duration(lo) * time.Millisecond
}
