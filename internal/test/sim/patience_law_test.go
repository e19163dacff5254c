package sim_test

import (
	"context"
	"errors"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// waited checks the answer to a caller that waited.
func (c *checker) waited(k *call) {
	c.inBound(k)
	if !k.answered {
		return
	}
	switch {
	case k.admitted():
		c.inOrder(k)
	case errors.Is(k.err, limiter.ErrQueueFull):
		c.turnedAway(k)
	case k.refusal() != nil:
		c.gaveUp(k)
	}
}

// inOrder: callers of a process are admitted in the order of their arrival. Only callers
// count that were in line when this one began, and that wait for nothing but what this one
// names, too. While an operator makes an entity again it has no parent, and so another line.
func (c *checker) inOrder(k *call) {
	if _, remade := c.play.remade[k.req.Entity]; remade {
		return
	}
	for _, first := range k.lined {
		if first.answered && first.end <= k.end || first.req.Entity != k.req.Entity || first.req.Resource != k.req.Resource {
			continue
		}
		waits := false
		covered := true
		for name, tokens := range first.req.Consume {
			waits = waits || tokens > 0
			covered = covered && (tokens == 0 || k.req.Consume[name] > 0)
		}
		if waits && covered {
			id := bucketKey{k.req.Entity, k.req.Resource}.shard(0)
			c.violate("order", k.end, &id, "%s overtook %s", k, first)
		}
	}
}

// gaveUp: a caller gives up before its context ends only if no wait helps, or if the wait
// would end after its deadline.
func (c *checker) gaveUp(k *call) {
	wait := k.refusal().RetryAfter()
	switch {
	case errors.Is(k.err, context.DeadlineExceeded) && k.deadline != 0 && k.end >= k.deadline:
	case wait == limiter.Never:
	case k.deadline != 0 && k.end+wait > k.deadline:
	default:
		c.violate("patience", k.end, nil, "%s gave up", k)
	}
}

// bound is the maximum number of callers in a line of a process.
func (c *client) bound() int {
	if c.maxWaiters == 0 {
		return limiter.DefaultMaxWaiters
	}
	return c.maxWaiters
}

// turnedAway: a caller finds the line full only if so many others of it wait.
func (c *checker) turnedAway(k *call) {
	if others := c.waitingBeside(k, k.end); len(others) < k.client.bound() {
		c.violate("queue", k.end, nil, "%s found the line full, of %d", k, len(others))
	}
}

// waitingBeside are the other calls of a process that may have been in line at an instant
// of a call.
func (c *checker) waitingBeside(k *call, at time.Duration) (others []*call) {
	for _, o := range c.byClient[k.client] {
		if o != k && o.kind == waiting && o.start <= at && (!o.answered || at <= o.end) {
			others = append(others, o)
		}
	}
	return others
}

// inBound: no more callers wait than the lines of a process may have.
func (c *checker) inBound(k *call) {
	lines := map[bucketKey]bool{}
	for _, o := range c.waitingBeside(k, k.start) {
		lines[bucketKey{o.req.Entity, o.req.Resource}] = true
		if parent := cascading[o.req.Entity]; parent != "" {
			lines[bucketKey{parent, o.req.Resource}] = true
		}
	}
	if most := len(lines) * k.client.bound(); k.queued > most {
		c.violate("queue", k.start, nil, "%d wait before %s, in at most %d lines of %d", k.queued, k, len(lines), k.client.bound())
	}
}

// emptyLines: a wait that has ended leaves nobody in line.
func (c *checker) emptyLines() {
	for _, p := range c.play.cast {
		if n := p.limiter.Stats().Waiting; n > 0 && !p.standsStill() {
			c.violate("queue", c.now(), nil, "%d callers of %s wait at the end", n, p.name)
		}
	}
}

// closedMeanwhile reports whether a call that found its lease closed began before another
// call that ended the lease had ended, or after that one's caller had left.
func (c *checker) closedMeanwhile(k *call) bool {
	return k.of != nil && slices.ContainsFunc(c.settled[k.of], func(s *call) bool {
		return (s.kind == committing || s.kind == returning) && s.start <= k.end
	})
}

// admitsWaiter: in quiet times a caller that waits is admitted within its quoted wait,
// and the time over which the processes of a shared bucket spread their tries.
func (p *play) admitsWaiter(c *client, id bucketID, limits []limiter.Limit) {
	if len(limits) == 0 {
		return
	}
	r := p.w.dice.stream("waiter", id.String())
	l := pick(r, limits...)
	req := limiter.Request{Entity: id.entity, Resource: id.resource, Consume: map[string]int64{l.Name: 1 + r.Int64N(l.Capacity)}}
	var wait, spread time.Duration
	for range 6 {
		at := c.time().UnixMilli()
		k := p.probe(c, req)
		if k.admitted() {
			continue
		}
		e := k.refusal()
		if e == nil || e.RetryAfter() == limiter.Never || e.RetryAfter() > 24*time.Hour {
			return
		}
		if wait = e.RetryAfter(); !p.isTogether(k, id, e, at) {
			return
		}
		for _, st := range e.Statuses {
			const spreadAsks = 8
			earned := time.Duration(float64(st.Requested) / float64(st.Limit.Amount) * float64(st.Limit.Period))
			spread = max(spread, spreadAsks*earned+time.Millisecond)
		}
		break
	}
	if wait == 0 {
		return
	}
	p.probes++
	k := &call{name: c.name + "/waiter#" + id.String(), kind: waiting, client: c, req: req}
	ctx := k.begin(p.w)
	k.deadline = k.start + wait + spread + time.Second
	ctx, cancel := context.WithTimeout(ctx, k.deadline-k.start)
	defer cancel()
	lease, err := c.wait(ctx, req)
	k.lease = lease
	k.finish(p.w, err)
	if !k.admitted() && !p.reshaped(k, id.whole()) && !p.reshaped(k, bucketKey{cascading[id.entity], id.resource}) {
		p.w.violate("patience", k.end, &id, "%s: the wait was %v, the spread %v, and then: %v", k, wait, spread, err)
	}
}
