package sim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A worker is one goroutine that calls a client's limiter, one call at a time.
type worker struct {
	*play
	c    *client
	name string
	r    *rand.Rand
	n    int
	spot bucketKey // the bucket of most requests
	held []*call   // calls with open leases
}

func (k *worker) work() {
	for round := range rounds {
		const lateness = 30 * time.Second
		if k.w.now() > k.start[round]+lateness {
			continue // restarted too late for it
		}
		k.w.sleep(max(0, k.start[round]-k.w.now()) + span(k.r, 0, 300*time.Millisecond))
		k.spot = k.spots[round]
		for range turns * clients / k.processes() {
			if k.c.standsStill() {
				return
			}
			k.turn()
			most := pick(k.r, 50*time.Millisecond, 400*time.Millisecond, 2*time.Second)
			if len(k.w.edges) > 0 {
				most = 8 * time.Second // past an edge
			}
			k.w.sleep(span(k.r, 0, most))
		}
	}
	for len(k.held) > 0 && !k.c.standsStill() {
		k.settle(0)
	}
}

func (k *worker) turn() {
	if k.w.odds.patient && k.patientTurn() {
		return
	}
	switch x := k.r.Float64(); {
	case x < 0.05:
		k.ask()
	case x < 0.06:
		k.c.limiter.InvalidateConfig()
	case x < 0.2 && k.w.odds.crowds:
		k.crowd()
	case x < 0.25 && len(k.held) > 0:
		k.settle(k.r.IntN(len(k.held)))
	default:
		k.acquire()
	}
}

// call creates a call and its context.
func (k *worker) call(kind kind, req limiter.Request, also ...limiter.Request) (*call, context.Context, func()) {
	k.n++
	c := &call{name: fmt.Sprintf("%s#%d", k.name, k.n), kind: kind, client: k.c, req: req}
	c.asks(also)
	ctx := c.begin(k.w)
	switch x := k.r.Float64(); {
	case x < 0.6:
		return c, ctx, func() {}
	case x < 0.85:
		d := k.w.unique(span(k.r, 5*time.Millisecond, pick(k.r, 60*time.Millisecond, 3*time.Second)))
		for _, part := range c.parts() {
			part.deadline = c.start + d
		}
		ctx, cancel := context.WithTimeout(ctx, d)
		return c, ctx, cancel
	default:
		d := k.w.unique(span(k.r, time.Millisecond, 60*time.Millisecond))
		for _, part := range c.parts() {
			part.leaves = c.start + d
		}
		ctx, cancel := context.WithCancel(ctx)
		t := time.AfterFunc(d, cancel)
		return c, ctx, func() { t.Stop(); cancel() }
	}
}

// typical is the approximate capacity of each limit.
var typical = map[string]int64{"rps": 4, "rpm": 80, "tpm": 5000, "daily": 20}

func (k *worker) request() limiter.Request {
	r := k.r
	req := limiter.Request{Entity: pick(r, callers...), Resource: pick(r, resources...), Consume: map[string]int64{}}
	if req.Resource == "own" {
		req.Entity = "key-a"
	}
	if k.w.odds.hot && chance(r, 0.5) {
		req.Entity, req.Resource = k.spot.entity, k.spot.resource
	}
	available := offered[req.Resource]
	for range 1 + r.IntN(len(available)) {
		name := pick(r, available...)
		full := typical[name]
		unit := max(1, full/100)
		if name == "daily" && len(k.w.recurrences) > 0 {
			unit = full / 8 // quotas last for a round, and run out
		}
		amount := unit * pick[int64](r, 0, 1, 1, 1, 1, 2, 3)
		switch x := r.Float64(); {
		case x < 0.15:
			amount = 1 + r.Int64N(full/2)
		case x < 0.2:
			amount = full
		case x < 0.22:
			amount = 20 * full
		}
		req.Consume[name] = amount
	}
	if chance(r, 0.005) {
		req.Consume[hidden] = 1
	}
	if req.Entity == guest {
		variant := k.w.dice.stream(guest, req.Resource, pick(r, "1", "1", "1", "2"))
		req.Fallback = hard(k.w.drawLimits(variant, 1, available...))
		if some := k.w.dice.stream("fallback", k.name, strconv.Itoa(k.n)); chance(some, 0.2) {
			req.Fallback = slices.DeleteFunc(req.Fallback, func(l limiter.Limit) bool { return req.Consume[l.Name] == 0 && chance(some, 0.7) })
		}
	}
	if chance(r, 0.05) {
		req.OnUnavailable = limiter.Allow
	}
	return req
}

// crowd sends several callers to one bucket at once.
func (k *worker) crowd() {
	k.n++
	var all sync.WaitGroup
	for i := range 3 + k.r.IntN(6) {
		name := fmt.Sprintf("%s.%d.%d", k.name, k.n, i)
		one := &worker{play: k.play, c: k.c, name: name, r: k.w.dice.stream("crowd", name), spot: k.spot}
		all.Go(func() {
			k.w.sleep(span(one.r, 0, 5*time.Millisecond))
			one.acquire()
			for len(one.held) > 0 && !k.c.standsStill() {
				one.settle(0)
			}
		})
	}
	all.Wait()
}

func (k *worker) acquire() {
	also := k.further()
	c, ctx, done := k.call(acquiring, k.request(), also...)
	lease, err := k.c.limiter.Acquire(ctx, c.whole())
	done()
	c.lease = lease
	if lease != nil {
		c.statuses = lease.Statuses()
		for _, part := range c.also {
			part.lease, _ = lease.Resource(part.req.Resource)
		}
	}
	c.finish(k.w, err)
	k.hold(c)
}

// hold holds the lease of an admitted call, and often settles it soon.
func (k *worker) hold(c *call) {
	if !c.admitted() {
		return
	}
	for _, part := range c.parts() {
		part.keeps = maps.Clone(part.req.Consume)
	}
	switch x := k.r.Float64(); {
	case x < 0.2: // dropped, which counts as committed
	case x < 0.5:
		k.held = append(k.held, c)
	default:
		k.held = append(k.held, c)
		k.w.sleep(span(k.r, 0, 500*time.Millisecond))
		if !k.c.standsStill() {
			k.settle(len(k.held) - 1)
		}
	}
}

// settle commits a lease after an adjustment, or rolls it back.
func (k *worker) settle(i int) {
	of := k.held[i]
	k.held = slices.Delete(k.held, i, i+1)
	kind, want := k.adjust(of)
	k.end(of, kind, want)
}

// adjust chooses how to end a lease, and makes its adjustments. want is what the lease
// should keep.
func (k *worker) adjust(of *call) (kind kind, want map[string]int64) {
	want = maps.Clone(of.keeps)
	if !chance(k.r, 0.6) {
		for name := range want {
			want[name] = 0
		}
		return returning, want
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !chance(k.r, 0.6) {
			continue
		}
		most := max(want[name], typical[name]/10)
		delta := k.r.Int64N(want[name]+most+1) - want[name]
		if deep := k.w.dice.stream("debt", k.name, strconv.Itoa(k.n), name); chance(deep, 0.04) {
			delta = deep.Int64N(20 * typical[name]) // a debt for a very long time
		}
		change, by := of.lease.Adjust, delta
		if k.w.odds.patient && chance(k.w.dice.stream("absolute", k.name, strconv.Itoa(k.n), name), 0.5) {
			change, by = of.lease.Settle, want[name]+delta
		}
		must(change(name, by))
		want[name] += delta
	}
	return committing, want
}

// end commits a lease or rolls it back. It tries again if nothing was applied.
func (k *worker) end(of *call, kind kind, want map[string]int64) {
	settle := of.lease.Commit
	if kind == returning {
		settle = of.lease.Rollback
	}
	wants := k.adjustAlso(of, kind)
	for range 3 {
		c, ctx, done := k.call(kind, of.req)
		c.of, c.want = of, want
		c.settles(k.w, of.also, wants)
		err := settle(ctx)
		done()
		c.finish(k.w, err)
		if k.c.standsStill() || !errors.Is(err, limiter.ErrThrottled) && !errors.Is(err, limiter.ErrConflict) {
			return
		}
	}
}

// ask reads the available balances.
func (k *worker) ask() {
	c, ctx, done := k.call(asking, k.request())
	statuses, err := k.c.limiter.Available(ctx, c.req)
	done()
	c.statuses = statuses
	c.finish(k.w, err)
}
