package acquire

import (
	"context"
	"maps"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Clamp returns what a request asks for, cut to a part of each limit's capacity, in percent. Of the
// entity's limit and its parent's, the smaller capacity counts, as it is in force. At least one token
// is left of what is not 0. over is what was cut off, by limit; it is empty if nothing was.
//
// It reads what the acquire after it needs as well. What no configuration has is left for that to
// refuse.
func (d *Driver) Clamp(ctx context.Context, req *Request, percent int64) (consume, over map[string]int64, err error) {
	w, err := d.wanted(ctx, store.Bucket{Entity: req.Entity, Resource: req.Resource})
	if err != nil {
		return nil, nil, err
	}
	limits := [2][]store.Limit{w.Limits}
	if len(limits[0]) == 0 {
		limits[0] = req.Fallback
	}
	if payer := plan.PayerOf(&w.Owner); payer != "" {
		pw, err := d.wanted(ctx, store.Bucket{Entity: payer, Resource: req.Resource})
		if err != nil {
			return nil, nil, err
		}
		limits[1] = pw.Limits
	}
	consume, over = d.cut(req, percent, func(name string, most func(store.Params)) {
		for i := range limits {
			if l := plan.Find(limits[i], name); l != nil {
				most(l.Params())
			}
		}
	})
	return consume, over, nil
}

// ClampSeen is [Driver.Clamp] by the buckets as the process saw them last, as its shares are: it asks
// nobody. Buckets never seen are left whole.
func (d *Driver) ClampSeen(req *Request, percent int64) (consume, over map[string]int64) {
	var seen []memory.Seen
	for entity := req.Entity; entity != ""; {
		acct, ok := d.accounts.cache.Get(memory.Key{Entity: entity, Resource: req.Resource})
		if !ok {
			break
		}
		of, parent := acct.LastSeen()
		if seen = append(seen, of...); entity != req.Entity {
			break
		}
		entity = parent
	}
	return d.cut(req, percent, func(name string, most func(store.Params)) {
		for i := range seen {
			if l, ok := seen[i].Image.Limit(name); ok {
				most(*l.Params)
			}
		}
	})
}

// cut cuts what a request asks for. limitsOf tells the function it is given each limit that has a name.
func (d *Driver) cut(req *Request, percent int64, limitsOf func(name string, most func(store.Params))) (consume, over map[string]int64) {
	consume, over = req.Consume, map[string]int64{}
	now := d.Now()
	for name, tokens := range req.Consume {
		most := tokens
		limitsOf(name, func(of store.Params) {
			most = min(most, max(1, percentOf(plan.InForce(of, now).Capacity/store.Milli, percent)))
		})
		if most < tokens {
			over[name] = tokens - most
		}
	}
	if len(over) > 0 {
		consume = maps.Clone(consume)
		for name, n := range over {
			consume[name] -= n
		}
	}
	return consume, over
}

// percentOf is a part of a number, in percent, rounded down. It does not overflow.
func percentOf(n, percent int64) int64 {
	const all = 100
	return n/all*percent + n%all*percent/all
}
