package sim_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// waitFunc is a way to wait, as that of the limiter.
type waitFunc func(context.Context, *limiter.Limiter, limiter.Request) (*limiter.Lease, error)

// patientTurn is a turn of a patient worker: it waits, alone or with others, or changes an
// open lease. It returns false if the turn is to be one of all workers.
func (k *worker) patientTurn() bool {
	r := k.w.dice.stream("patient", k.name, strconv.Itoa(k.n))
	x, held := r.Float64(), len(k.held) > 0
	switch {
	case x < 0.15:
		k.wait(k.request(), r)
	case x < 0.3:
		k.line(r)
	case x < 0.45 && held:
		k.extend(r.IntN(len(k.held)), r)
	case x < 0.55 && held:
		k.release(r.IntN(len(k.held)), r)
	case x < 0.65 && held:
		k.race(r.IntN(len(k.held)), r)
	default:
		return false
	}
	return true
}

// wait waits for a request, for up to a few seconds.
func (k *worker) wait(req limiter.Request, r *rand.Rand) {
	k.n++
	c := &call{name: fmt.Sprintf("%s#%d", k.name, k.n), kind: waiting, client: k.c, req: req}
	ctx := c.begin(k.w)
	d := k.w.unique(span(r, time.Millisecond, pick(r, 50*time.Millisecond, 2*time.Second, 20*time.Second)))
	var cancel context.CancelFunc
	if chance(r, 0.5) {
		c.deadline = c.start + d
		ctx, cancel = context.WithTimeout(ctx, d)
	} else {
		c.leaves = c.start + d
		ctx, cancel = context.WithCancel(ctx)
		t := time.AfterFunc(d, cancel)
		defer t.Stop()
	}
	k.c.lines(c)
	lease, err := k.c.wait(ctx, req)
	cancel()
	k.c.unlines(c)
	if c.lease = lease; lease != nil {
		c.statuses = lease.Statuses()
	}
	c.finish(k.w, err)
	k.hold(c)
}

// wait waits, in the way that the run has.
func (c *client) wait(ctx context.Context, req limiter.Request) (*limiter.Lease, error) {
	if wait := c.w.broken.wait; wait != nil {
		return wait(ctx, c.limiter, req)
	}
	return c.limiter.Wait(ctx, req)
}

// lines notes that a call is about to wait, and behind whom.
func (c *client) lines(k *call) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	// Nobody begins to wait or ends while the lock is held, and who is in line has begun. So
	// equal numbers mean that all of them are in line.
	k.queued = c.limiter.Stats().Waiting
	if k.queued == len(c.waits) {
		k.lined = slices.Collect(maps.Keys(c.waits))
	}
	c.waits[k] = true
}

// unlines notes that a call has ended to wait.
func (c *client) unlines(k *call) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	delete(c.waits, k)
}

// line has several callers wait for the tokens of one bucket.
func (k *worker) line(r *rand.Rand) {
	k.n++
	req := k.request()
	var all sync.WaitGroup
	for i := range 2 + r.IntN(5) {
		name := fmt.Sprintf("%s.%d.%d", k.name, k.n, i)
		one := &worker{play: k.play, c: k.c, name: name, r: k.w.dice.stream("line", name), spot: k.spot}
		mine := req
		mine.Consume = maps.Clone(req.Consume)
		if chance(one.r, 0.5) { // another amount, or another limit
			limit := pick(one.r, offered[req.Resource]...)
			mine.Consume[limit] = 1 + one.r.Int64N(max(1, typical[limit]/2))
		}
		all.Go(func() {
			k.w.sleep(span(one.r, 0, 50*time.Millisecond))
			one.wait(mine, one.r)
			for len(one.held) > 0 && !k.c.standsStill() {
				one.settle(0)
			}
		})
	}
	all.Wait()
}

// more is what an open lease is to take in addition.
func (k *worker) more(of *call, r *rand.Rand) limiter.Request {
	req := limiter.Request{Entity: of.req.Entity, Resource: of.req.Resource, Fallback: of.req.Fallback, Consume: map[string]int64{}}
	for range 1 + r.IntN(2) {
		limit := pick(r, offered[req.Resource]...)
		req.Consume[limit] = r.Int64N(max(2, typical[limit]/pick[int64](r, 4, 50)))
	}
	return req
}

// take makes one call of a lease's Take. It returns the tokens that the lease has then in
// addition.
func (k *worker) take(of *call, req limiter.Request) map[string]int64 {
	c, ctx, done := k.call(extending, req)
	c.of = of
	err := of.lease.Take(ctx, req.Consume)
	done()
	if err == nil {
		c.lease = of.lease
	}
	c.finish(k.w, err)
	if !c.admitted() {
		return nil
	}
	return req.Consume
}

// extend takes more for an open lease.
func (k *worker) extend(i int, r *rand.Rand) {
	of := k.held[i]
	for name, tokens := range k.take(of, k.more(of, r)) {
		of.keeps[name] += tokens
	}
}

// release returns a part of an open lease.
func (k *worker) release(i int, r *rand.Rand) {
	of := k.held[i]
	part := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(of.keeps)) {
		if chance(r, 0.7) {
			part[name] = r.Int64N(of.keeps[name] + 1)
		}
	}
	c, ctx, done := k.call(releasing, of.req)
	c.of, c.want = of, maps.Clone(of.keeps)
	for name, tokens := range part {
		c.want[name] -= tokens
	}
	err := of.lease.Release(ctx, part)
	done()
	c.finish(k.w, err)
	of.keeps = maps.Clone(c.want) // an error of the store leaves an adjustment
}

// race takes more for a lease while it is being committed or rolled back. What Take took
// in time belongs to the lease, and the rest is returned.
func (k *worker) race(i int, r *rand.Rand) {
	of := k.held[i]
	k.held = slices.Delete(k.held, i, i+1)
	kind, want := k.adjust(of)
	name := fmt.Sprintf("%s.%d.take", k.name, k.n)
	other := &worker{play: k.play, c: k.c, name: name, r: k.w.dice.stream("race", name), spot: k.spot}
	req, late := k.more(of, other.r), span(other.r, 0, 30*time.Millisecond)
	var taken map[string]int64
	var both sync.WaitGroup
	both.Go(func() {
		k.w.sleep(late)
		taken = other.take(of, req)
	})
	k.w.sleep(span(r, 0, 30*time.Millisecond))
	k.end(of, kind, want)
	both.Wait()
	for limit, tokens := range taken {
		if kind == returning {
			tokens = 0
		}
		want[limit] += tokens
	}
}
