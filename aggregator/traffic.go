package aggregator

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// trafficMinute is the time that a [Traffic] is about.
	trafficMinute = time.Minute
	// shardWrites is how many writes a shard takes in a minute, and busyWrites is how many make
	// a bucket busy: a hundredth of that.
	shardWrites = store.WritesPerSecond * 60
	busyWrites  = shardWrites / 100
	// DefaultBusiest is the default of Options.Busiest.
	DefaultBusiest = 10
	// trafficPlaces is the number of buckets whose traffic is counted at a time.
	trafficPlaces = 256
)

// Traffic is what records showed of the buckets in a minute. A record counts in the minute in
// which it is processed, if it is not older than Options.MaxAge.
type Traffic struct {
	// From and To are the minute; To is zero if none has ended.
	From, To time.Time
	// Shards are those of the busiest buckets, Options.Busiest at most, the busiest bucket
	// first. A bucket with fewer than 10 writes a second is not among them, nor is a shard
	// without records.
	Shards []ShardTraffic
	// Other are all other buckets together. It has no name.
	Other ShardTraffic
}

// ShardTraffic is the traffic of one bucket item.
type ShardTraffic struct {
	Namespace string // its id
	store.Bucket
	// Writes is the number of writes to the item, whoever wrote, by the count of its hidden
	// write limit. So writes count, too, whose records did not arrive between two that did.
	Writes int64
	// WritesLeft is the least that was left of the hidden write limit after a write, at most
	// [store.WritesPerSecond]. Instants of records are whole seconds, so what the limit earned
	// in the current second is missing: up to a second's writes. Doublings are decided by the
	// same figure.
	WritesLeft int64
	// Doublings of the number of shards, whoever doubled. Shard 0 has those of the bucket.
	Doublings int
	// Throttles are writes of the aggregator itself to the bucket that the store throttled.
	// No record shows what the store refused to clients.
	Throttles int
}

// PerSecond is the number of writes a second.
func (s *ShardTraffic) PerSecond() float64 { return float64(s.Writes) / trafficMinute.Seconds() }

// Add adds the traffic of another item.
func (s *ShardTraffic) Add(o *ShardTraffic) {
	s.Writes += o.Writes
	s.WritesLeft = min(s.WritesLeft, o.WritesLeft)
	s.Doublings += o.Doublings
	s.Throttles += o.Throttles
}

// Traffic returns the traffic of the last minute in which there were records and that has ended.
func (a *Aggregator) Traffic() Traffic { return a.traffic.read(a.o.Now()) }

// A traffic counts the writes to the busiest buckets, in a fixed number of places.
//
// The naive design counts each bucket, and grows with the entities that anybody invents.
// Here a bucket without a place gets that of the bucket with the lowest score, and its score
// (the algorithm Space-Saving). A score is never below the writes of the minute, and the
// lowest is at most the mean. So each bucket with more than 1/256 of a minute's writes has a
// place at the end. A bucket that loses its place leaves its counts to
// Traffic.Other.
type traffic struct {
	most   int           // buckets to tell by shard
	maxAge time.Duration // of records

	mu     sync.Mutex
	from   time.Time // of the minute; zero before the first batch
	places []place
	at     map[itemKey]int // the place of a bucket, by the key of its shard 0
	scores []int64         // of the places
	other  ShardTraffic    // of the minute, of buckets that lost their places
	last   Traffic
}

// A place has the traffic of a bucket.
type place struct {
	key    itemKey
	shards []shard // at most [store.MaxShards], as records named them
}

// A shard is a bucket item, and what its last record showed.
type shard struct {
	ShardTraffic

	sequence string // of that record: an earlier one was counted. It outlives the minute
	isSeen   bool   // in this minute; count and life are valid
	count    int64  // of consumed writes, in millitokens
	life     int64
}

func newTraffic(most int, maxAge time.Duration) *traffic {
	return &traffic{most: most, maxAge: maxAge, other: noTraffic, at: make(map[itemKey]int, trafficPlaces)}
}

// noTraffic is that of an item without records.
var noTraffic = ShardTraffic{WritesLeft: store.WritesPerSecond}

// note counts the writes of a batch. Batches run at the same time, but those with records of
// one item come one after another. They may come again:
//
//	batch        notes 5, 6 ── fails for another record ── comes again: 5, 6 are not after 6
//	other batch       notes another shard of the bucket
//	reader                 ends the minute: counts begin at 0, and 6 stays
//
// A record that comes again after its bucket lost its place is counted again.
func (t *traffic) note(b *batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(b.now)
	for i := range b.buckets {
		at := -1
		for _, it := range b.buckets[i].items {
			for _, k := range it.records {
				r := &b.records[k]
				if r.New == nil || b.now.Sub(r.At) > t.maxAge {
					continue
				}
				if at < 0 {
					at = t.placeOf(b.buckets[i].itemKey)
				}
				if s := t.places[at].shard(it.itemKey); s != nil {
					t.scores[at] += s.note(r)
				}
			}
		}
	}
}

// placeOf returns the place of a bucket. A new bucket may get that of another one.
func (t *traffic) placeOf(key itemKey) int {
	key.Shard = 0
	at, ok := t.at[key]
	switch {
	case ok:
		return at
	case len(t.places) < trafficPlaces:
		at = len(t.places)
		t.places, t.scores = append(t.places, place{}), append(t.scores, 0)
	default:
		at = slices.Index(t.scores, slices.Min(t.scores))
		delete(t.at, t.places[at].key)
		for i := range t.places[at].shards {
			t.other.Add(&t.places[at].shards[i].ShardTraffic)
		}
	}
	t.at[key] = at
	t.places[at] = place{key: key, shards: t.places[at].shards[:0]}
	return at
}

// shard returns an item of the bucket, nil if the bucket has more of them than any of ours.
func (p *place) shard(key itemKey) *shard {
	for i := range p.shards {
		if p.shards[i].Shard == key.Shard {
			return &p.shards[i]
		}
	}
	if len(p.shards) == store.MaxShards {
		return nil
	}
	s := shard{ShardTraffic: noTraffic}
	s.Namespace, s.Bucket = key.ns, key.Bucket
	p.shards = append(p.shards, s)
	return &p.shards[len(p.shards)-1]
}

// note counts the write that a record shows, and those since the last record of the minute.
// It returns their number.
func (s *shard) note(r *stream.Record) (writes int64) {
	if stream.CompareSequences(r.Sequence, s.sequence) <= 0 {
		return 0
	}
	var before int64
	if r.Old != nil {
		before = r.Old.Writes.Consumed
		if s.Shard == 0 && r.Old.ShardCount < r.New.ShardCount { // shard 0 comes last
			s.Doublings++
		}
	}
	if s.isSeen && s.life == r.New.CreatedAt && before-s.count > 0 {
		before = s.count
	}
	writes = (r.New.Writes.Consumed - before) / store.Milli
	if writes < 1 || writes > shardWrites {
		writes = 1 // not counted, or the count is damaged
	}
	s.Writes += writes
	if r.New.Writes.Name != "" {
		s.WritesLeft = min(s.WritesLeft, plan.WritesLeft(r.New, r.At.UnixMilli())/store.Milli)
	}
	s.sequence, s.isSeen, s.count, s.life = r.Sequence, true, r.New.Writes.Consumed, r.New.CreatedAt
	return writes
}

// throttled counts a write of the aggregator that the store throttled.
func (t *traffic) throttled(key itemKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row := &t.other
	if at, ok := t.at[itemKey{key.ns, store.Bucket{Entity: key.Entity, Resource: key.Resource}}]; ok {
		if s := t.places[at].shard(key); s != nil {
			row = &s.ShardTraffic
		}
	}
	row.Throttles++
}

// turn begins another minute if the last one has ended.
func (t *traffic) turn(now time.Time) {
	if t.from.IsZero() {
		t.from = now
	}
	open := now.Sub(t.from)
	if open < trafficMinute {
		return
	}
	if last := t.sum(); last.Other != noTraffic || len(last.Shards) > 0 {
		t.last = last
	}
	t.from = now.Add(-(open % trafficMinute))
	t.other = noTraffic
	clear(t.scores)
	for i := range t.places {
		for k := range t.places[i].shards {
			s := &t.places[i].shards[k]
			row := noTraffic
			row.Namespace, row.Bucket = s.Namespace, s.Bucket
			*s = shard{ShardTraffic: row, sequence: s.sequence}
		}
	}
}

// sum is the traffic of the minute.
func (t *traffic) sum() Traffic {
	out := Traffic{From: t.from, To: t.from.Add(trafficMinute), Other: t.other}
	writes := func(p *place) (sum int64) {
		for i := range p.shards {
			sum += p.shards[i].Writes
		}
		return sum
	}
	busiest := make([]*place, len(t.places))
	for i := range t.places {
		busiest[i] = &t.places[i]
	}
	slices.SortFunc(busiest, func(a, b *place) int {
		return cmp.Or(cmp.Compare(writes(b), writes(a)), strings.Compare(a.key.Entity, b.key.Entity), strings.Compare(a.key.Resource, b.key.Resource))
	})
	for i, p := range busiest {
		isBusy := i < t.most && writes(p) >= busyWrites
		for k := range p.shards {
			switch s := &p.shards[k]; {
			case !isBusy:
				out.Other.Add(&s.ShardTraffic)
			case s.isSeen || s.Throttles > 0:
				out.Shards = append(out.Shards, s.ShardTraffic)
			}
		}
	}
	return out
}

func (t *traffic) read(now time.Time) Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	return t.last
}
