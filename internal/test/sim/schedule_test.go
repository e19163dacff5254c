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
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// The cast: keys that cascade to a project, a project that is also called directly, a key
// without a parent, and one whose requests bring their own limits.
var (
	cascading = map[string]string{"key-a": "project", "key-b": "project", "key-c": "project"}
	callers   = []string{"key-a", "key-a", "key-b", "key-b", "key-c", "project", "solo", guest}
	resources = []string{"api", "api", "api", "chat", "chat", "web", "own"}
	offered   = map[string][]string{
		"api": {"rps", "rpm", "daily"}, "chat": {"tpm", "daily"},
		"web": {"rps", "rpm"}, // nothing slow: its buckets expire within minutes
		"own": {"rpm"},        // configured for one key: its parent has no limits, or the system's
	}
)

// guest is the entity whose requests bring their own limits.
const guest = "guest"

const (
	clients     = 6
	callersEach = 2 // concurrent callers of each client
	rounds      = 3
	turns       = 4 // of a worker in a round
)

// drawLimit draws a limit's parameters. Limits per second, per minute and per day are on
// one item.
func drawLimit(r *rand.Rand, name string, scale int64) limiter.Limit {
	switch name {
	case "rps":
		if chance(r, 0.1) {
			return limiter.PerSecond(name, 1)
		}
		rate := scale * (1 + r.Int64N(3))
		return limiter.PerSecond(name, rate, limiter.Burst(rate+r.Int64N(8)))
	case "rpm":
		rate := scale * (20 + r.Int64N(100))
		return limiter.PerMinute(name, rate, limiter.Burst(max(1, rate/2+r.Int64N(rate))))
	case "tpm":
		rate := scale * (1000 + r.Int64N(9000))
		return limiter.PerMinute(name, rate, limiter.Burst(rate+r.Int64N(1000)))
	default:
		return limiter.PerDay(name, scale*(10+r.Int64N(20)))
	}
}

func (w *world) drawLimits(r *rand.Rand, scale int64, names ...string) []limiter.Limit {
	limits := make([]limiter.Limit, 0, len(names))
	for _, name := range names {
		limits = append(limits, drawLimit(r, name, scale))
	}
	return w.renewing(r, limits)
}

// A configChange is a new value of one level of configuration, in force from some instant
// between two.
type configChange struct {
	key      limiter.ConfigKey
	from, to time.Duration
	limits   []limiter.Limit
	switched string // an operator's switch on the level: "" is none, "off" and "on"
}

// A play is a run in progress.
type play struct {
	w     *world
	ttl   time.Duration // of cached configuration
	start [rounds]time.Duration
	spots [rounds]bucketKey // the hot bucket of each round, if any
	admin *client

	stream    *recording // of the table, if any aggregator follows it
	followers []*follower

	probes  int
	workers sync.WaitGroup
	mu      sync.Mutex
	cast    []*client // all clients so far, in order of birth
	configs map[limiter.ConfigKey][]limiter.Limit
	changes []configChange // to configs, in order
	// remade is when an operator first deleted an entity to create it again.
	remade map[string]time.Duration
}

func newPlay(seed uint64, o odds, broken breakage) *play {
	w := newWorld(seed, o)
	w.broken = broken
	p := &play{w: w, configs: map[limiter.ConfigKey][]limiter.Limit{}, remade: map[string]time.Duration{}}
	r := w.dice.stream("play")
	p.ttl = pick(r, -1, 2*time.Second, 10*time.Second, time.Minute)
	at := 15 * time.Second
	spot := pick(r, spots...)
	for i := range p.start {
		p.start[i], p.spots[i] = at, pick(r, spot, spot, spot, pick(r, spots...))
		at += pick(r, 5*time.Second, 30*time.Second, 5*time.Minute, 2*time.Hour, 26*time.Hour, 75*time.Hour)
		if i+1 < len(p.start) && len(w.edges) > 0 {
			edge := time.UnixMilli(w.edges[0].next(w.trueMS(at))).Sub(w.start)
			at = max(at, edge-span(r, time.Second, 10*time.Second))
		}
	}
	return p
}

// run plays every round and returns when all activity has ended.
func (p *play) run() {
	p.setUp()
	p.w.sleep(max(1, p.start[0]-p.w.now()-time.Second))
	var slots, sweeper sync.WaitGroup
	for i := range p.processes() {
		slots.Go(func() { p.slot(i) })
	}
	slots.Go(p.administer)
	if p.w.odds.hot {
		slots.Go(p.heat)
	}
	if p.w.odds.granted {
		slots.Go(p.grant)
	}
	stop := make(chan struct{})
	sweeper.Go(func() { p.sweep(stop) })
	if p.w.odds.aggregated {
		c := newClient(p.w, peerName, p.ttl)
		c.aggregator = true
		p.cast = append(p.cast, c)
		p.workers.Go(func() { p.aggregate(c, stop) })
		p.workers.Go(func() { p.upset(c, stop) })
	}
	unaccompanied := p.accompany()
	for i := range mergers {
		if p.w.odds.merged {
			p.workers.Go(func() { p.merge(i, stop) })
		}
	}
	if p.w.odds.dated {
		p.workers.Go(func() { p.stray(stop) })
	}
	slots.Wait()
	close(stop)
	unaccompanied()
	sweeper.Wait()
	// Background work and late requests have timeouts of their own.
	time.Sleep(time.Minute)
	p.quiet()
	p.drain()
	close(p.w.end)
	p.workers.Wait()
	for _, c := range p.cast {
		if err := c.close(); err != nil {
			panic(err)
		}
	}
	p.w.late.Wait()
}

// processes is the number of clients with callers.
func (p *play) processes() int {
	if p.w.odds.lone {
		return 1
	}
	return clients
}

func (p *play) setUp() {
	w := p.w
	admin := &client{w: w, name: "setup", reliable: true, offset: func(time.Duration) time.Duration { return 0 }}
	ctx := context.WithValue(context.Background(), callKey{}, &call{name: "setup", kind: administering, client: admin})
	must(dynamo.CreateTable(ctx, admin.api(), dynamo.TableOptions{Name: tableName, KeepExpired: true, Now: admin.clock, Stream: w.odds.followers > 0}))
	p.admin = newClient(w, "admin", p.ttl)
	p.admin.reliable = true
	p.cast = append(p.cast, p.admin)
	_, w.ns = p.admin.store.Namespace()
	for _, e := range append([]string{"project"}, slices.Sorted(maps.Keys(cascading))...) {
		p.makeEntity(ctx, e)
	}
	r := w.dice.stream("configuration")
	p.set(ctx, limiter.ConfigKey{Resource: "api"}, w.drawLimits(r, 1, offered["api"]...))
	p.set(ctx, limiter.ConfigKey{Resource: "chat"}, w.drawLimits(r, 1, offered["chat"]...))
	p.set(ctx, limiter.ConfigKey{Resource: "web"}, w.drawLimits(r, 1, offered["web"]...))
	p.set(ctx, limiter.ConfigKey{Entity: "key-a", Resource: "own"}, w.drawLimits(r, 1, offered["own"]...))
	if chance(r, 0.5) {
		p.set(ctx, limiter.ConfigKey{}, w.drawLimits(r, 2, "rps", "daily"))
	}
	p.set(ctx, limiter.ConfigKey{Entity: "project", Resource: "api"}, w.drawLimits(r, 3, offered["api"]...))
	if w.odds.hot {
		p.doubleTo(p.spots[0], pick(r, 1, 1, 1, 2, 2, 4, 8, 32), 10)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (p *play) makeEntity(ctx context.Context, id string) {
	parent := cascading[id]
	_, err := p.admin.store.CreateEntity(ctx, limiter.Entity{ID: id, Parent: parent, Cascade: parent != ""})
	must(err)
}

func (p *play) set(ctx context.Context, k limiter.ConfigKey, limits []limiter.Limit) {
	from := p.w.now()
	for { // until all shards of a hot bucket follow
		var err error
		if len(limits) > 0 {
			err = p.admin.store.SetLimits(ctx, k, limits)
		} else {
			err = p.admin.store.DeleteLimits(ctx, k)
		}
		if incomplete := (*limiter.IncompleteError)(nil); errors.As(err, &incomplete) {
			continue
		}
		must(err)
		break
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configs[k] = limits
	p.changes = append(p.changes, configChange{key: k, from: from, to: p.w.now(), limits: limits})
}

// configured is the current configuration of an entity's bucket.
func (p *play) configured(entity, resource string) []limiter.Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return inForce(p.configs, entity, resource)
}

// inForce is the first level that has limits.
func inForce(configs map[limiter.ConfigKey][]limiter.Limit, entity, resource string) []limiter.Limit {
	for _, k := range []limiter.ConfigKey{
		{Entity: entity, Resource: resource},
		{Entity: entity, Resource: limiter.DefaultResource},
		{Resource: resource},
		{},
	} {
		if len(configs[k]) > 0 {
			return configs[k]
		}
	}
	return nil
}

// wasConfigured reports whether a limit was configured all the time between two instants.
func (p *play) wasConfigured(id bucketID, name string, from, to time.Duration) bool {
	has := func(configs map[limiter.ConfigKey][]limiter.Limit) bool {
		return slices.ContainsFunc(inForce(configs, id.entity, id.resource), func(l limiter.Limit) bool { return l.Name == name })
	}
	configs := map[limiter.ConfigKey][]limiter.Limit{}
	for _, ch := range p.changes {
		if ch.from > to {
			break
		}
		all := has(configs)
		configs[ch.key] = ch.limits
		all = all && has(configs)
		if ch.to >= from && !all {
			return false
		}
	}
	return has(configs)
}

// administer changes the configuration while it is in use.
func (p *play) administer() {
	r := p.w.dice.stream("administer")
	for round := range rounds {
		p.sleepUntil(p.start[round] + span(r, 0, 3*time.Second))
		for range r.IntN(3) {
			p.w.sleep(span(r, 0, 5*time.Second))
			c := &call{name: "admin", kind: administering, client: p.admin}
			ctx := c.begin(p.w)
			if p.w.odds.operator && chance(r, 0.3) {
				p.remake(ctx, "key-b")
			} else {
				p.change(ctx, r)
			}
			c.finish(p.w, nil)
		}
	}
}

func (p *play) change(ctx context.Context, r *rand.Rand) {
	k := pick(r,
		limiter.ConfigKey{Resource: "api"}, limiter.ConfigKey{Resource: "chat"}, limiter.ConfigKey{Resource: "web"},
		limiter.ConfigKey{Entity: "project", Resource: "api"}, limiter.ConfigKey{Entity: "key-a", Resource: "api"},
		limiter.ConfigKey{Entity: "solo", Resource: limiter.DefaultResource}, limiter.ConfigKey{},
	)
	names := offered[k.Resource]
	if names == nil {
		names = []string{"rps", "daily"}
	}
	limits := p.w.drawLimits(r, 1+r.Int64N(3), names...)
	switch {
	case chance(r, 0.3) && len(limits) > 1:
		limits = limits[1:]
	case chance(r, 0.2) && k.Entity != "":
		limits = nil
	}
	p.set(ctx, k, limits)
}

// remake deletes an entity with everything it has and creates it again.
func (p *play) remake(ctx context.Context, id string) {
	p.mu.Lock()
	if _, ok := p.remade[id]; !ok {
		p.remade[id] = p.w.now()
	}
	p.mu.Unlock()
	_, err := p.admin.store.DeleteEntity(ctx, id)
	must(err)
	p.makeEntity(ctx, id)
}

// sweep deletes expired items now and then.
func (p *play) sweep(stop <-chan struct{}) {
	r := p.w.dice.stream("sweep")
	for {
		t := time.NewTimer(p.w.unique(span(r, time.Second, pick(r, time.Minute, time.Hour))))
		select {
		case <-stop:
			t.Stop()
			return
		case <-t.C:
			p.w.sweep()
		}
	}
}

func (p *play) sleepUntil(at time.Duration) {
	p.w.sleep(at - p.w.now())
}

// slot plays one of the clients. It restarts one that crashes.
func (p *play) slot(i int) {
	const most = 4
	r := p.w.dice.stream("slot", strconv.Itoa(i))
	p.w.sleep(time.Duration(i+1) * time.Millisecond)
	for life := range most {
		c := newClient(p.w, fmt.Sprintf("c%d.%d", i, life), p.ttl)
		p.mu.Lock()
		p.cast = append(p.cast, c)
		p.mu.Unlock()
		done := make(chan struct{}, callersEach)
		for j := range callersEach {
			p.workers.Go(func() {
				k := &worker{play: p, c: c, name: fmt.Sprintf("%s/%d", c.name, j), r: p.w.dice.stream("worker", c.name, strconv.Itoa(j))}
				k.work()
				done <- struct{}{}
			})
		}
		for range callersEach {
			select {
			case <-done:
			case <-c.dead:
			}
		}
		if !c.standsStill() {
			return
		}
		p.w.sleep(span(r, time.Second, 10*time.Second))
	}
}
