package estimate

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// A simulation carries out one side of a scenario in virtual time, on a model of the limiter
// and its table. It knows what costs requests and units: what processes remember of
// buckets, how their callers share writes, which writes the table refuses, what is read
// to compare and to create buckets, and how buckets are doubled. Balances are exact.
//
// It leaves out what costs little: repairs, merges, brakes, clocks that differ, and what
// callers do whose time is up.
type simulation struct {
	timeline

	p    *scenario.Plan
	side scenario.Side
	o    *ScenarioOptions

	buckets map[bucketKey]*item
	crews   [][]*process       // by class
	levels  map[bucketKey]bool // levels of entities that calls have set

	books      book
	start      time.Duration // of the measurement
	scatters   bool          // operations of a rate meet random limiters, not one after another
	operations int64
	refused    int64
	stream     stream
	dice       dice
}

// A bucketKey is an entity and a resource of the plan, by index.
type bucketKey struct{ entity, resource int }

// none stands for no entity or no resource in the key of a level.
const none = -1

// never is an instant before all others.
const never = time.Duration(math.MinInt64 / 2)

// A process is one limiter with its store.
type process struct {
	fetched map[bucketKey]time.Duration // levels of configuration, and when their read began
	known   map[bucketKey]*known
}

// An item is a bucket as the table has it.
type item struct {
	key    bucketKey
	limits []bucket.Limit // in the order of the resource's; without capacity where the entity has none
	units  float64        // write units of a write
	parent *item          // to which the entity cascades
	exists bool
	shards []*shard
	// reshaping is set while the bucket is doubled; doubled is when it was.
	reshaping bool
	doubled   time.Duration
}

// A shard is one item of a bucket.
type shard struct {
	tokens  []int64 // millitokens
	stored  []int64 // the same without what was earned since the stamp
	at      int64   // the instant up to which they have accrued, in milliseconds
	writes  int64   // left of the hidden write limit, at planned
	planned int64   // the latest instant for which a write was worked out, in milliseconds

	count int // writes that were applied
	// stamp counts the moves of the stamp, and stamped is when it was last moved. A write that
	// needs what the item has earned since its stamp fails if the stamp has moved.
	stamp   int
	stamped time.Duration
	// cut is when a write last cut what the item had earned beyond its capacity, and taken is
	// how many writes it has taken since.
	cut   time.Duration
	taken int
}

// A known is what a process remembers of a bucket.
type known struct {
	of   *process
	item *item
	read time.Duration // when the configuration was read

	views        []*view // of the shards
	refusedMoves int     // of a stamp, times two, less those that were applied

	comparing bool
	compared  []func()
}

// A view is what a process remembers of a shard, and how its callers share writes to it.
type view struct {
	image          image
	takes, credits *queue

	sent      time.Duration // when this process last sent a write
	moved     time.Duration // when others were last found to move the stamp
	own       int           // writes of this process that were applied
	others    int           // writes of others, as far as it has seen them
	othersAt  time.Duration // when it last saw more of them
	load      load
	unheard   time.Duration // since when all writes were refused; never if they were not
	refusedAt time.Duration // when the last one was
}

// An image is a shard as a process has last seen it. Its fields are those of the shard.
type image struct {
	tokens, stored []int64
	at             int64

	writes, planned int64

	stamp   int
	stamped time.Duration

	cut   time.Duration
	taken int

	seen time.Duration // when the write or the read was sent; never if there was none
}

// A load is how a process measures the writes of all to a shard.
type load struct {
	since     time.Duration // since when it counts
	count     int           // of the shard then
	perSecond float64
}

// A claim is what a request asks of a bucket.
type claim struct {
	k       *known
	amounts []int64 // millitokens, by limit of the resource
	shard   int
	cause   int // the part that its writes are booked on
	tried   int
	done    func(granted bool)
}

func newSimulation(p *scenario.Plan, side scenario.Side, o *ScenarioOptions) *simulation {
	s := &simulation{p: p, side: side, o: o, buckets: map[bucketKey]*item{}, levels: map[bucketKey]bool{}, dice: newDice()}
	s.stream.init(s)
	crew := func() (of []*process) {
		for range p.Limiters {
			of = append(of, &process{fetched: map[bucketKey]time.Duration{}, known: map[bucketKey]*known{}})
		}
		return of
	}
	var shared []*process
	for i := range p.Classes {
		if p.Classes[i].Apart && side == scenario.Limiter {
			s.crews = append(s.crews, crew())
			continue
		}
		if shared == nil {
			shared = crew()
		}
		s.crews = append(s.crews, shared)
	}
	return s
}

// millis is an instant as balances count it.
func (s *simulation) millis(at time.Duration) int64 {
	const epoch = 1_000_000_000_000 // all instants come after 1970
	return epoch + at.Milliseconds()
}

// limitsOf are the limits of an entity for a resource.
func (s *simulation) limitsOf(entity, resource int) []store.Limit {
	if own := s.p.Entities[entity].Limits; own != nil {
		return own
	}
	return s.p.Resources[resource].Limits
}

// bucket returns an item, which may not exist yet.
func (s *simulation) bucket(key bucketKey) *item {
	if it := s.buckets[key]; it != nil {
		return it
	}
	e, named := &s.p.Entities[key.entity], s.p.Resources[key.resource].Limits
	held := s.limitsOf(key.entity, key.resource)
	it := &item{key: key, limits: make([]bucket.Limit, len(named)), doubled: never}
	it.units = unitsOf(s.size(it))
	for i := range named {
		for j := range held {
			if held[j].Name == named[i].Name {
				q := held[j].Params()
				it.limits[i] = bucket.Limit{Capacity: q.Capacity, Amount: q.Amount, Period: q.Period}
			}
		}
	}
	if e.Parent >= 0 {
		it.parent = s.bucket(bucketKey{e.Parent, key.resource})
	}
	s.buckets[key] = it
	return it
}

// knows returns what a process remembers of a bucket.
func (p *process) knows(it *item) *known {
	k := p.known[it.key]
	if k == nil {
		k = &known{of: p, item: it, read: never}
		k.grow(1)
		p.known[it.key] = k
	}
	return k
}

// grow makes room for shards.
func (k *known) grow(shards int) {
	for len(k.views) < shards {
		k.views = append(k.views, &view{
			image: image{seen: never}, takes: &queue{}, credits: &queue{}, sent: never, moved: never,
			othersAt: never, load: load{since: never}, unheard: never, refusedAt: never,
		})
	}
}

// isKnown reports whether a process has an image of a shard to plan on.
func (s *simulation) isKnown(k *known, shard int) bool {
	const imageAge = 5 * time.Minute
	return s.now-k.views[shard].image.seen <= imageAge
}

// balance is what an image of a shard holds of a limit by now.
func (s *simulation) balance(k *known, shard, limit int) int64 {
	l := k.item.limits[limit].Share(shard, len(k.item.shards))
	img := &k.views[shard].image
	return l.Balance(img.tokens[limit], img.at, s.millis(s.now))
}

// accrue brings a shard to an instant.
func (s *simulation) accrue(it *item, i int) *shard {
	sh, now := it.shards[i], s.millis(s.now)
	for j := range it.limits {
		if it.limits[j].Capacity > 0 {
			l := it.limits[j].Share(i, len(it.shards))
			sh.tokens[j] = l.Balance(sh.tokens[j], sh.at, now)
		}
	}
	sh.at = now
	return sh
}

// earn brings the hidden write limit to the instant for which a write was worked out.
func (sh *shard) earn(at int64) {
	if at > sh.planned {
		sh.writes, sh.planned = min(store.WritesPerSecond, sh.writes+at-sh.planned), at
	}
}

// take debits amounts.
func (sh *shard) take(amounts []int64) {
	for j, n := range amounts {
		sh.tokens[j] -= n
		sh.stored[j] -= n
	}
	sh.writes--
}

// copied is a shard as an answer has it.
func (sh *shard) copied() *shard {
	c := *sh
	c.tokens, c.stored = slices.Clone(sh.tokens), slices.Clone(sh.stored)
	return &c
}

// see makes a process remember a shard as it is after a write that was sent at an instant.
func (s *simulation) see(k *known, i int, sh *shard, sent time.Duration) {
	img := &k.views[i].image
	known := img.seen != never
	img.tokens, img.stored = append(img.tokens[:0], sh.tokens...), append(img.stored[:0], sh.stored...)
	img.at, img.writes, img.planned, img.seen = sh.at, sh.writes, sh.planned, sent
	k.measure(i, sh.count, s.now)
	if others := sh.count - k.views[i].own; others > k.views[i].others {
		if k.views[i].others = others; known {
			k.views[i].othersAt = s.now
		}
	}
	img.stamp, img.stamped, img.cut, img.taken = sh.stamp, sh.stamped, sh.cut, sh.taken
}

// born makes the item of a bucket, full.
func (s *simulation) born(it *item) {
	sh := &shard{tokens: make([]int64, len(it.limits)), at: s.millis(s.now), writes: store.WritesPerSecond, planned: s.millis(s.now), cut: never}
	for j := range it.limits {
		sh.tokens[j] = it.limits[j].Capacity
	}
	sh.stored = slices.Clone(sh.tokens)
	it.exists, it.shards = true, []*shard{sh}
}

// request books a request that takes the latency, and continues after it.
func (s *simulation) request(part int, writes, reads float64, then func()) {
	s.books.add(part, writes, reads)
	s.after(s.o.Latency, then)
}
