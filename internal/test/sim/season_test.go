package sim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A season is half an hour in which operators change configuration all the time: in
// processes of their own, at all levels, by this library's rules and by a peer's. Some
// buckets are used often, some once in five minutes, by any of several processes. The
// processes started at different times and cache configuration for different times.
type season struct {
	*play

	r         *rand.Rand
	operators []*client
	parents   []parentage // of the re-created entity, in order
	mu        sync.Mutex
	live      []*client
}

// A parentage is the parent that also pays for an entity, from some instant between two.
type parentage struct {
	from, to time.Duration
	parent   string
}

const (
	seasonLasts = 30 * time.Minute
	// movable is the entity that operators delete and create again with another parent.
	movable = "key-a"
	// lone is a resource that only one level configures.
	lone = "lone"
)

var (
	ages   = []time.Duration{-1, time.Second, time.Minute, 5 * time.Minute}
	payers = []string{"project", "other"}
	usages = []use{{bucketKey{"solo", "api"}, 2 * time.Second}, {bucketKey{movable, "api"}, 3 * time.Second}, {bucketKey{"key-b", "chat"}, 70 * time.Second}, {bucketKey{"key-c", "api"}, 5 * time.Minute}, {bucketKey{"key-c", "web"}, 70 * time.Second}, {bucketKey{"solo", "web"}, 4 * time.Minute}, {bucketKey{"solo", lone}, 10 * time.Second}, {bucketKey{guest, "chat"}, 5 * time.Second}}
)

// A use is a bucket, and its approximate interval of use.
type use struct {
	bucketKey

	every time.Duration
}

// seasonOdds are the odds of a season: half of the seasons have no faults.
func seasonOdds(seed uint64) odds {
	r := dice(seed).stream("season odds")
	o := odds{skew: pick(r, 0, 100*time.Millisecond)}
	if chance(r, 0.5) {
		o.throttled, o.conflict, o.unreachable = 0.02, 0.02, 0.01
		o.lostBefore, o.lostAfter, o.hangs, o.slow = 0.01, 0.01, 0.005, 0.02
	}
	if chance(dice(seed).stream("quotas"), 0.5) {
		o.quotas = seasonLasts / 2
	}
	o.carries = chance(dice(seed).stream("carries"), 0.5)
	if chance(dice(seed).stream("varied"), 0.4) {
		o.varied = seasonLasts / 2
	}
	o.soft = chance(dice(seed).stream("soft"), 0.3)
	o.modes = chance(dice(seed).stream("modes"), 0.3)
	return o
}

// seasoned plays a season.
func seasoned(t *testing.T, seed uint64, o odds, broken breakage) (res result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := &season{play: newPlay(seed, o, broken)}
		s.r = s.w.dice.stream("season")
		s.run()
		checkSeason(s)
		res = result{violations: s.w.violations, stats: s.w.stats()}
		var b strings.Builder
		fmt.Fprintf(&b, "seed %d: %v, %s\nreplay: go test ./internal/test/sim -run TestSeasons -sim.seed=%d -v\n", seed, o, res.stats, seed)
		for _, v := range res.violations[:min(5, len(res.violations))] {
			fmt.Fprintf(&b, "%s\n%s\n%s", v, s.w.excerpt(v), s.lately(v.at))
		}
		res.report = b.String()
	})
	return res
}

// lately lists the changes of configuration before an instant, for a report.
func (s *season) lately(at time.Duration) string {
	const most = 6
	var b strings.Builder
	before := slices.DeleteFunc(slices.Clone(s.changes), func(ch configChange) bool { return ch.from > at })
	for _, ch := range before[max(0, len(before)-most):] {
		fmt.Fprintf(&b, "%v to %v: %+v: %v %s\n", ch.from, ch.to, ch.key, ch.limits, ch.switched)
	}
	return b.String()
}

func (s *season) run() {
	s.setUp()
	ctx := s.acting("setup")
	_, err := s.admin.store.CreateEntity(ctx, limiter.Entity{ID: "other"})
	must(err)
	s.parents = []parentage{{parent: cascading[movable]}}
	s.set(ctx, limiter.ConfigKey{Resource: lone}, s.w.drawLimits(s.r, 1, "rps", "rpm", "daily"))
	for i := range 2 {
		c := newClient(s.w, "operator"+strconv.Itoa(i), time.Minute)
		c.reliable, c.operates = !s.w.odds.faulty() || i == 0, true
		s.operators, s.cast = append(s.operators, c), append(s.cast, c)
	}
	stop := make(chan struct{})
	var processes, users, sweeper sync.WaitGroup
	end := s.w.now() + seasonLasts
	for i := range 6 {
		processes.Go(func() { s.start(i) })
	}
	for i, u := range usages {
		users.Go(func() { s.use(u, s.w.dice.stream("use", strconv.Itoa(i)), end) })
	}
	users.Go(func() { s.operate(end) })
	sweeper.Go(func() { s.sweep(stop) })
	processes.Wait()
	users.Wait()
	close(stop)
	sweeper.Wait()
	time.Sleep(time.Minute)
	close(s.w.end)
	for _, c := range s.cast {
		must(c.close())
	}
	s.w.late.Wait()
}

// acting is the context of an operator's action.
func (s *season) acting(name string) context.Context {
	return context.WithValue(context.Background(), callKey{}, &call{name: name, kind: administering, client: s.admin})
}

// start starts a process: two at once, the others within ten minutes.
func (s *season) start(i int) {
	r := s.w.dice.stream("start", strconv.Itoa(i))
	s.w.sleep(time.Duration(i+1) * time.Millisecond)
	if i >= 2 {
		s.w.sleep(span(r, 0, 10*time.Minute))
	}
	c := newClient(s.w, "c"+strconv.Itoa(i), pick(r, ages...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.cast = append(s.live, c), append(s.cast, c)
	slices.SortFunc(s.live, func(a, b *client) int { return compare(a.name, b.name) })
}

// use lets one caller after another use a bucket, each in any of the processes.
func (s *season) use(u use, r *rand.Rand, end time.Duration) {
	var held *call
	for n := 0; s.w.now() < end; n++ {
		s.w.sleep(span(r, u.every*9/10, u.every*11/10))
		s.mu.Lock()
		c := pick(r, s.live...)
		s.mu.Unlock()
		names := slices.Clone(offered[u.resource])
		if u.resource == lone {
			names = []string{"rps", "rpm", "daily"}
		}
		req := limiter.Request{Entity: u.entity, Resource: u.resource, Consume: map[string]int64{}}
		for range 1 + r.IntN(2) {
			name := pick(r, names...)
			req.Consume[name] = pick(r, 0, 1, max(1, typical[name]/20), typical[name]/4)
		}
		if u.entity == guest && chance(r, 0.7) {
			req.Fallback = hard(s.w.drawLimits(s.w.dice.stream("guest", u.resource), 1, names...))
		}
		k := &call{name: fmt.Sprintf("%v#%d", u.bucketKey, n), kind: acquiring, client: c, req: req}
		ctx := k.begin(s.w)
		lease, err := c.limiter.Acquire(ctx, req)
		k.lease = lease
		if lease != nil {
			k.statuses = lease.Statuses()
		}
		k.finish(s.w, err)
		if lease != nil && chance(r, 0.1) {
			s.settle(k, r)
		} else if u.entity == movable {
			held = s.holdOn(k, held, s.w.dice.stream("hold", k.name))
		}
	}
}

// settle commits a lease with an additional debt.
func (s *season) settle(of *call, r *rand.Rand) {
	k := &call{name: of.name + "/commit", kind: committing, client: of.client, req: of.req, of: of, want: maps.Clone(of.req.Consume)}
	for _, name := range slices.Sorted(maps.Keys(k.want)) {
		more := r.Int64N(pick[int64](r, 1, 1, 1, 1, 3) * max(1, typical[name]/4))
		must(of.lease.Adjust(name, more))
		k.want[name] += more
	}
	k.finish(s.w, of.lease.Commit(k.begin(s.w)))
}

// operate changes something at intervals, one operator at a time.
func (s *season) operate(end time.Duration) {
	r := s.w.dice.stream("operate")
	for n := 0; s.w.now() < end; n++ {
		s.w.sleep(span(r, time.Second, pick(r, 10*time.Second, time.Minute, 4*time.Minute)))
		o := operator{s, pick(r, s.operators...), "operator#" + strconv.Itoa(n)}
		k := pick(r,
			limiter.ConfigKey{}, limiter.ConfigKey{Resource: "api"}, limiter.ConfigKey{Resource: "chat"}, limiter.ConfigKey{Resource: lone}, limiter.ConfigKey{Resource: "web"},
			limiter.ConfigKey{Entity: "solo", Resource: limiter.DefaultResource}, limiter.ConfigKey{Entity: movable, Resource: limiter.DefaultResource},
			limiter.ConfigKey{Entity: "solo", Resource: "api"}, limiter.ConfigKey{Entity: "key-c", Resource: "api"}, limiter.ConfigKey{Entity: "project", Resource: "api"}, limiter.ConfigKey{Entity: "key-b", Resource: "chat"}, limiter.ConfigKey{Entity: guest, Resource: "chat"},
		)
		byPeer := chance(r, 0.4) && s.hasPeers()
		switch x := r.Float64(); {
		case x < 0.1:
			o.remake(movable, pick(r, append(payers, "")...))
		case x < 0.2:
			o.move(movable, pick(r, append(payers, "")...))
		case x < 0.4 && k != (limiter.ConfigKey{}):
			o.flip(k, byPeer)
			if is := o.switched(k); is == "off" || is == "bypass" {
				s.w.sleep(span(r, time.Second, 2*time.Minute))
				o.flip(k, byPeer)
			}
		case x < 0.6:
			o.write(k, nil, byPeer)
			if k.Entity == "" {
				s.w.sleep(span(r, time.Second, 2*time.Minute))
				o.write(k, s.draw(k, r), byPeer)
			}
		default:
			o.write(k, s.draw(k, r), byPeer)
		}
	}
}

// hasPeers reports whether some operators are peers. How these edit quotas, timetables, soft
// limits and limits in a mode is not played.
func (s *season) hasPeers() bool { return len(s.w.edges) == 0 && !s.w.odds.soft && !s.w.odds.modes }

// draw draws limits for a level: not always all limits of its resource.
func (s *season) draw(k limiter.ConfigKey, r *rand.Rand) []limiter.Limit {
	names := slices.Clone(offered[k.Resource])
	if len(names) == 0 {
		names = []string{"rps", "rpm", "daily"}
	}
	if i := r.IntN(len(names) + 1); i < len(names) && len(names) > 1 {
		names = slices.Delete(names, i, i+1)
	}
	return s.w.drawLimits(r, 1+r.Int64N(3), names...)
}

// An operator is a process that changes configuration.
type operator struct {
	*season

	c    *client
	name string // of its action
}

// until repeats an operator's action until it succeeds.
func (o operator) until(do func() error) {
	const attempts = 100
	var err error
	for range attempts {
		err = do()
		if err == nil || errors.Is(err, limiter.ErrNotFound) || errors.Is(err, limiter.ErrExists) {
			return
		}
		o.w.sleep(100 * time.Millisecond)
	}
	panic(fmt.Sprintf("%s gave up: %v", o.name, err))
}

// carryOn carries out a command that marks items. The process that does so meets no faults, since
// it reads all partitions of an index, of which one would fail nearly always. But it may die
// half-way. Then another process gives the command again, with its key, and goes on.
func (o operator) carryOn(do func(context.Context, *client) error) {
	r := o.w.dice.stream("carry on", o.name)
	for deaths := 0; ; deaths++ {
		const most = 3
		if deaths == most || chance(r, 0.6) {
			o.until(func() error { return do(o.marking(), o.operators[0]) })
			return
		}
		c := newClient(o.w, fmt.Sprintf("mortal.%s.%d", o.name, deaths), time.Minute)
		c.reliable, c.operates = true, true
		o.w.mu.Lock()
		c.fuse = 1 + r.IntN(12)
		o.w.mu.Unlock()
		o.play.mu.Lock()
		o.cast = append(o.cast, c)
		o.play.mu.Unlock()
		done := make(chan error, 1)
		o.w.late.Go(func() { done <- do(o.marking(), c) })
		select {
		case err := <-done:
			if err == nil {
				return
			}
		case <-c.dead:
		}
		o.w.sleep(span(r, time.Millisecond, 3*time.Second))
	}
}

// changed records a change of a level.
func (o operator) changed(k limiter.ConfigKey, from time.Duration, limits []limiter.Limit, switched string) {
	o.play.mu.Lock()
	defer o.play.mu.Unlock()
	o.configs[k] = limits
	o.changes = append(o.changes, configChange{k, from, o.w.now(), limits, switched})
}

// switched is the current switch of a level.
func (o operator) switched(k limiter.ConfigKey) (s string) {
	for _, ch := range o.changes {
		if ch.key == k {
			s = ch.switched
		}
	}
	return s
}

// write sets the limits of a level, or deletes them if there are none.
func (o operator) write(k limiter.ConfigKey, limits []limiter.Limit, byPeer bool) {
	from := o.w.now()
	o.until(func() error {
		switch {
		case byPeer:
			o.writeAsPeer(k, limits)
			return nil
		case limits == nil:
			return o.c.store.DeleteLimits(o.acting(o.name), k)
		}
		return o.c.store.SetLimits(o.acting(o.name), k, limits)
	})
	o.changed(k, from, limits, o.switched(k))
}

// flip turns the switch of a level.
func (o operator) flip(k limiter.ConfigKey, byPeer bool) {
	from, next := o.w.now(), map[string]string{"": "off", "off": "on", "bypass": "on", "on": ""}[o.switched(k)]
	if r := o.w.dice.stream("bypass", o.name); next == "off" && !o.hasPeers() && chance(r, 0.4) {
		next = "bypass"
	}
	if !byPeer {
		var lasts time.Duration
		// A peer's edits drop the ends of switches, or leave them to its own.
		if r := o.w.dice.stream("end", o.name); (next == "off" || next == "bypass") && !o.hasPeers() && chance(r, 0.5) {
			lasts = span(r, 30*time.Second, 2*time.Minute) // longer than others need to carry on
		}
		o.turn(k, next, lasts)
		return
	}
	o.flipAsPeer(k, next)
	// The items that a peer stamps follow the switch.
	o.changed(k, from, o.configs[k], next)
	o.stampAll()
	o.changes[len(o.changes)-1].to = o.w.now()
}

// remake deletes an entity and creates it again, with another parent.
func (o operator) remake(id, parent string) {
	from := o.w.now()
	o.until(func() error {
		_, err := o.c.store.DeleteEntity(o.acting(o.name), id)
		return err
	})
	// The deletion also removed its configuration.
	for k, limits := range maps.Clone(o.configs) {
		if k.Entity == id && (limits != nil || o.switched(k) != "") {
			o.changed(k, from, nil, "")
		}
	}
	o.until(func() error {
		_, err := o.c.store.CreateEntity(o.acting(o.name), limiter.Entity{ID: id, Parent: parent, Cascade: parent != ""})
		return err
	})
	o.parents = append(o.parents, parentage{from, o.w.now(), parent})
}

// TestSeasons plays some seasons.
func TestSeasons(t *testing.T) {
	t.Parallel()
	const each = 20 // one season for this many seeds
	first, last := uint64(1), uint64(max(1, many()/each))
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for s := first; s <= last; s++ {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			t.Parallel()
			if res := seasoned(t, s, seasonOdds(s), breakage{}); len(res.violations) > 0 {
				t.Error(res.report)
			} else if *seed != 0 {
				t.Log(res.report)
			}
		})
	}
}
