package limiter

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Available is how every limit the request names stands, its entity's first
// and then, if it cascades, its parent's: the balances, and whether and how
// long the request would have to wait now. Nothing is taken or written. An
// entity that never acquired stands at its configured capacity.
func (l *Limiter) Available(ctx context.Context, req Request) ([]Status, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience.time)
	defer cancel()
	child, err := l.inspect(ctx, &req, req.Entity)
	if err != nil {
		return nil, err
	}
	var parent *claim
	if child.parent != "" {
		if parent, err = l.inspect(ctx, &req, child.parent); err != nil {
			return nil, err
		}
	}
	if err := verdict(&req, child, parent); err != nil {
		return nil, err
	}
	statuses := child.statuses
	if parent != nil {
		statuses = append(statuses, parent.statuses...)
	}
	return statuses, nil
}

// TimeUntilAvailable is the smallest wait after which the request is admitted
// if nobody else consumes, to the millisecond: 0 if it would be now, [Never] if
// it asks for more than a limit's capacity. Nothing is taken or written.
func (l *Limiter) TimeUntilAvailable(ctx context.Context, req Request) (time.Duration, error) {
	statuses, err := l.Available(ctx, req)
	if err != nil {
		return 0, err
	}
	return longestWait(statuses), nil
}

// inspect works out the statuses of a request for one entity. Configuration is
// asked only for what no bucket tells.
func (l *Limiter) inspect(ctx context.Context, req *Request, entity string) (*claim, error) {
	c := l.claim(req, entity)
	shards, err := l.store.Buckets(ctx, entity, req.Resource, c.acct.shardCount())
	if err != nil {
		return nil, fmt.Errorf("read the bucket of %s for %s: %w", entity, req.Resource, err)
	}
	exists := len(shards) > 0
	if exists {
		c.parent = cascadeOf(shards[0])
		if shards[0].Disabled {
			return nil, &DisabledError{Entity: entity, Resource: req.Resource}
		}
	}
	if !exists || c.want == nil && c.lacks(shards[0]) {
		r, err := l.config.resolve(ctx, entity, req.Resource, !exists, nil)
		if err != nil {
			return nil, fmt.Errorf("read the configuration of %s for %s: %w", req.Resource, entity, err)
		}
		if owner := ownerFrom(&r); owner.Cascade {
			c.parent = owner.Parent
		}
		if c.want == nil {
			c.want = l.wantedOf(&r)
		}
	}
	now := l.now()
	for _, a := range c.amounts {
		params, parts := c.holdings(a.Limit, shards, now)
		if len(parts) == 0 {
			c.unknown = append(c.unknown, a.Limit)
			continue
		}
		st := Status{
			Entity: entity, Resource: req.Resource, Limit: params.limit(a.Limit),
			Available: floorDiv(balance(parts, now), milli), Requested: a.Milli / milli,
		}
		if a.Milli > 0 {
			st.RetryAfter = wait(parts, now, a.Milli)
			st.Exceeded = st.RetryAfter > 0
		}
		c.statuses = append(c.statuses, st)
	}
	return c, nil
}

// A holding is what one shard has of a limit.
type holding struct {
	bucket.Limit
	tokens, at int64
}

// holdings are what an acquire would find of a limit, shard by shard: as it is
// on the item, repaired to what is wanted, or new and full.
func (c *claim) holdings(limit string, shards []*Image, now int64) (params Params, parts []holding) {
	var w *Limit
	if c.want != nil {
		w = c.want.find(limit)
	}
	for _, img := range shards {
		s, ok := img.Limit(limit)
		switch {
		case ok && (w == nil || w.params() == s.Params):
			params = s.Params
			parts = append(parts, holding{share(params, img.Shard, img.ShardCount), s.Tokens, img.RefilledAt})
		case ok:
			params = w.params()
			l := share(params, img.Shard, img.ShardCount)
			earned := share(s.Params, img.Shard, img.ShardCount).Balance(s.Tokens, img.RefilledAt, now)
			parts = append(parts, holding{l, min(earned, l.Capacity), max(now, img.RefilledAt)})
		case w != nil:
			params = w.params()
			l := share(params, img.Shard, img.ShardCount)
			parts = append(parts, holding{l, l.Capacity, now})
		}
	}
	if len(shards) == 0 && w != nil {
		params = w.params()
		parts = append(parts, holding{share(params, 0, 1), params.Capacity, now})
	}
	return params, parts
}

func balance(parts []holding, now int64) (sum int64) {
	for _, h := range parts {
		sum += h.Balance(h.tokens, h.at, now)
	}
	return sum
}

// wait is the least time, in whole milliseconds, after which the parts together
// hold what is needed. The sum only grows with time, so it is searched for.
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
