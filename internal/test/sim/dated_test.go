package sim_test

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/test/dated"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// strayName is the client whose clock is far ahead without correction.
	strayName = "stray"
	farAhead  = time.Hour
	// peerName is the client that plays a peer's aggregator, which corrects no clock.
	peerName = "aggregator"
	// honest is how far ahead a stamp may be without being moved back.
	honest = 30 * time.Second
	// learning is the maximum error of a clock that follows the dates of prompt answers.
	learning = 1500 * time.Millisecond
	// resolution is that of dates.
	resolution = time.Second
)

// clocked is a client's store with the clock of its limiter. With dates, that is the
// store's clock. Without dates, it is the local clock with all its errors, which no real
// store would pass on.
type clocked struct {
	*dynamo.Store

	c *client
}

func (s clocked) Now() time.Time {
	now, _ := s.CheckedNow()
	return now
}

func (s clocked) CheckedNow() (time.Time, bool) {
	if !s.c.keeps {
		return s.c.clock(), false
	}
	now, checked := s.Store.CheckedNow()
	off := time.Until(now)
	s.c.isOff(off)
	s.c.readings.add(s.c.w.now(), off)
	return now, checked
}

// carried is clocked for a process whose callers carry bucket writes themselves.
type carried struct {
	clocked
	testbed.Carrier
}

func (s carried) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	if calls.Begins(ctx) {
		s.c.w.begun.Add(1)
	}
	return s.Carry(ctx, func(ctx context.Context) (store.Outcome, error) { return s.clocked.Take(ctx, t) })
}

func (s carried) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	return s.Carry(ctx, func(ctx context.Context) (store.Outcome, error) { return s.clocked.Refill(ctx, r) })
}

// Leavable reports that callers can leave.
func (s carried) Leavable() bool { return s.Carrier.Leavable() }

// time is the time on the clock of the client's limiter.
func (c *client) time() time.Time { return clocked{c.store, c}.Now() }

// isTold records an answer with a date to a request.
func (c *client) isTold(sent time.Duration) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	now := c.w.now()
	c.told = append(c.told, reading{now, resolution + now - sent})
}

// learnt is the maximum error, at an instant, of a clock that follows dates. A date was true
// at some time while its request was away, so the most prompt answer tells most.
func (c *client) learnt(at time.Duration) time.Duration {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	least := time.Duration(math.MaxInt64)
	for _, a := range c.told {
		if a.at <= at {
			least = min(least, a.off+learning-resolution)
		}
	}
	return max(least, learning)
}

// readings are the errors of a clock at the instants when it was read.
type readings struct {
	mu  sync.Mutex
	all []reading
}

type reading struct{ at, off time.Duration }

func (r *readings) add(at, off time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.all); n == 0 || r.all[n-1].off != off {
		r.all = append(r.all, reading{at, off})
	}
}

// at is the clock's error at an instant.
func (r *readings) at(at time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, exact := slices.BinarySearchFunc(r.all, at, func(one reading, at time.Duration) int { return cmp.Compare(one.at, at) })
	for exact && i+1 < len(r.all) && r.all[i+1].at == at {
		i++
	}
	if !exact {
		i--
	}
	if len(r.all) == 0 {
		return 0
	}
	return r.all[max(0, i)].off
}

// within returns the smallest and largest error of the clock between two instants.
func (r *readings) within(from, to time.Duration) (least, most time.Duration) {
	least = r.at(from)
	most = least
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one.at >= from && one.at <= to {
			least, most = min(least, one.off), max(most, one.off)
		}
	}
	return least, most
}

// clientSpan returns the readings of a client's clock at two instants, in milliseconds.
func (c *checker) clientSpan(of *client, from, to time.Duration) (first, last int64) {
	if of.keeps {
		least, most := of.readings.within(from, to)
		return c.trueMS(from + least), c.trueMS(to + most)
	}
	// A clock may be set at any instant in between.
	before, after := of.offset(c.clockAt(from)), of.offset(c.clockAt(to))
	return c.trueMS(from + min(before, after)), c.trueMS(to + max(before, after))
}

// date gives an answer the Date header of a server that answers at an instant.
func (w *world) date(out any, err error, at time.Time) error {
	if err != nil {
		header := http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest, Header: header}}, Err: err}
	}
	reflect.ValueOf(out).Elem().FieldByName("ResultMetadata").Set(reflect.ValueOf(w.metadata(at.Truncate(time.Second))))
	return nil
}

// metadata is the metadata of an answer with a date.
func (w *world) metadata(date time.Time) middleware.Metadata {
	w.clocks.Lock()
	defer w.clocks.Unlock()
	md, ok := w.dates[date]
	if !ok {
		var err error
		md, err = dated.Metadata(context.Background(), date)
		must(err)
		w.dates[date] = md
	}
	return md
}

// stray makes a client acquire whose clock is far ahead.
func (p *play) stray(stop <-chan struct{}) {
	c := newClient(p.w, strayName, p.ttl)
	p.mu.Lock()
	p.cast = append(p.cast, c)
	p.mu.Unlock()
	k := &worker{play: p, c: c, name: strayName, r: p.w.dice.stream(strayName)}
	for round := range rounds {
		p.sleepUntil(p.start[round] + span(k.r, 0, 3*time.Second))
		k.spot = p.spots[round]
		for range 3 {
			select {
			case <-stop:
				return
			default:
			}
			if c.standsStill() {
				return
			}
			k.acquire()
			p.w.sleep(span(k.r, 0, 2*time.Second))
		}
		for len(k.held) > 0 && !c.standsStill() {
			k.settle(0)
		}
	}
}

// isFarAhead reports whether an item's stamp is further ahead than any honest clock.
func (c *checker) isFarAhead(s *state, at time.Duration) bool {
	return s != nil && s.rf-c.trueMS(at) > honest.Milliseconds()
}

// leaps reports whether a write moves a stamp far ahead.
func (c *checker) leaps(r *write) bool {
	return r.client != nil && r.client.strays && c.isFarAhead(r.after, r.at) && !c.isFarAhead(r.before, r.at)
}

// heals reports whether a write moves a stamp back.
func (w *write) heals() bool {
	return w.before != nil && w.after != nil && w.after.rf < w.before.rf
}

// legalHeal: only a client that knows the time moves a stamp back, to now, and only if the
// stamp lies further ahead than any honest clock. It takes back what was earned for the
// time until the stamp, as far as the balance has it; a debt stays. Nothing else changes.
// The hidden limit may be full.
func (c *checker) legalHeal(r *write, bad func(string, ...any)) {
	a, b := r.before, r.after
	early, late := c.trueMS(r.sent)-learning.Milliseconds(), c.trueMS(r.at)+learning.Milliseconds()
	switch {
	case !r.client.dated:
		bad("the stamp ran back from %d to %d, by a client that does not know the time", a.rf, b.rf)
	case a.rf-late < honest.Milliseconds()-2*learning.Milliseconds():
		bad("the stamp ran back from %d to %d, at %d", a.rf, b.rf, c.trueMS(r.at))
	case b.rf < early || b.rf > late:
		bad("the stamp was moved back from %d to %d, at %d", a.rf, b.rf, c.trueMS(r.at))
	case a.count != b.count:
		bad("was changed besides its stamp")
	}
	for _, name := range names(a, b) {
		was, had := a.share(r.id, name)
		is, has := b.share(r.id, name)
		earned := was.earned(b.rf, a.rf)
		most, least := was.tk, was.tk-min(earned, max(was.cp, was.tk))
		if was.tk > 0 {
			most = max(0, was.tk-earned)
		}
		if was.varies != nil { // the earlier piece may have less room
			most, least = min(most, is.cp), min(least, is.cp)
		}
		switch {
		case !had || !has || !was.sameParams(is):
			bad("%s was changed besides its balance", name)
		case name == hidden && (is.tc-was.tc != 1000 || is.tk > was.cp-1000):
			bad("the write counts as %d of %s and leaves %d", is.tc-was.tc, hidden, is.tk)
		case name != hidden && (is.tc != was.tc || is.tk > most || is.tk < least):
			bad("%s: %d at %d is %d at %d, must be %d to %d", name, was.tk, a.rf, is.tk, b.rf, least, most)
		}
	}
}

// asHealed returns a limit of an item with a stamp far ahead, as clients that know the time
// count it, between two instants.
func (c *checker) asHealed(l level, rf int64, shard int, from, to time.Duration) (all stock) {
	for _, at := range []int64{c.trueMS(from - learning), c.trueMS(to + learning)} { // by any honest clock
		if rf-at <= honest.Milliseconds()-2*learning.Milliseconds() {
			continue
		}
		healed := l
		healed.inStep = false
		if healed.tk > 0 {
			healed.tk = max(0, l.tk-l.earned(at, rf))
		}
		all = append(all, held{healed, at, shard})
	}
	return all
}

// TestLongSimWithDates plays a few seeds with dated answers and a client whose clock is far
// ahead, since not all seeds have them by chance.
func TestLongSimWithDates(t *testing.T) {
	t.Parallel()
	const seeds = 24
	var healed atomic.Int64
	playSeeds(t, seeds, func(s uint64) odds {
		o := drawOdds(dice(s))
		o.dated = true
		return o
	}, func(res result) {
		healed.Add(int64(res.healed))
	})
	if n := healed.Load(); n < seeds {
		t.Errorf("%d stamps were moved back in %d seeds", n, seeds)
	}
}

// healings changes writes that move a stamp back.
type healings struct {
	clocked

	change func(*store.Refill)
}

func (s healings) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if r.RefilledAt < r.Seen.RefilledAt {
		s.change(r)
	}
	return s.Store.Refill(ctx, r)
}

// late has a clock that is late, and claims to know the time.
type late struct {
	clocked

	by time.Duration
}

func (s late) CheckedNow() (time.Time, bool) {
	now, _ := s.clocked.CheckedNow()
	return now.Add(-s.by), true
}

// TestLongestBrokenHealingsAreSeen: each check of healed stamps fails when its subject is broken.
func TestLongestBrokenHealingsAreSeen(t *testing.T) {
	t.Parallel()
	with := func(f func(*store.Refill)) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store {
			known, _ := s.(clocked)
			return healings{known, f}
		}}
	}
	lately := func(by time.Duration) breakage {
		return breakage{store: func(s limiter.Store) limiter.Store {
			known, _ := s.(clocked)
			return late{known, by}
		}}
	}
	for name, c := range map[string]struct {
		dated  bool
		broken breakage
	}{
		"nothing is taken back": {true, with(func(r *store.Refill) {
			for i := range r.Changes {
				r.Changes[i].Earned = 0
			}
		})},
		"a debt is forgiven": {true, with(func(r *store.Refill) {
			for i := range r.Changes {
				if s, _ := r.Seen.Limit(r.Changes[i].Limit); s.Tokens < 0 {
					r.Changes[i].Earned = -s.Tokens
				}
			}
		})},
		"more is taken back":         {true, with(func(r *store.Refill) { r.Changes[0].Earned -= 1_000_000_000 })},
		"further back than to now":   {true, with(func(r *store.Refill) { r.RefilledAt -= 10_000 })},
		"not far enough":             {true, with(func(r *store.Refill) { r.RefilledAt += 10_000 })},
		"honest stamps":              {true, lately(time.Minute)},
		"by who does not know":       {false, lately(time.Minute)},
		"the hidden limit overflows": {true, with(func(r *store.Refill) { r.Writes.Earned += 2000; r.Writes.AtMost = math.MaxInt64 })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen(t, "bucket", odds{dated: c.dated, skew: 5 * time.Second}, c.broken)
		})
	}
}
