package aggregator

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// A batch is the records of one call, grouped by item.
type batch struct {
	now        time.Time
	records    []stream.Record
	namespaces map[string]opened
	items      []*item // in the order of the first record of each
	lag        time.Duration
	poisoned   []Failure

	archived, archivedBytes                   int
	updates, healed, braked                   int
	refills, doublings, mends, merges, errors atomic.Int64

	mu     sync.Mutex
	failed map[int]error // by record
}

type opened struct {
	ns  *namespace
	err error
}

type itemKey struct {
	ns string
	store.Bucket
}

// An item is a bucket item, with the batch's writes to it.
type item struct {
	itemKey

	tended *namespace
	writes []write      // ordered by sequence number, each once
	last   *store.Image // after the last write; nil if the item was deleted
	at     time.Time    // time of the last write
}

// A write is what one record shows as consumed.
type write struct {
	record   int
	consumed []store.Amount // by limit; nil if nothing
	counted  bool           // the item's hidden limit counts it as a write
}

// newBatch groups records by item.
func newBatch(records []stream.Record, now time.Time) *batch {
	b := &batch{now: now, records: records, namespaces: map[string]opened{}, failed: map[int]error{}}
	items := make(map[itemKey]*item, len(records))
	store := make([]item, 0, len(records)) // one allocation; items point into it
	for i := range records {
		r := &records[i]
		if !r.At.IsZero() {
			b.lag = max(b.lag, now.Sub(r.At))
		}
		if r.Err != nil {
			b.poisoned = append(b.poisoned, Failure{i, r.ID, r.Sequence, r.Err})
			continue
		}
		img := cmp.Or(r.New, r.Old)
		if img == nil {
			continue
		}
		key := itemKey{r.Namespace, img.Bucket}
		it := items[key]
		if it == nil {
			store = append(store, item{itemKey: key})
			it = &store[len(store)-1]
			items[key] = it
			b.items = append(b.items, it)
			b.namespaces[r.Namespace] = opened{}
		}
		it.writes = append(it.writes, write{record: i})
	}
	for _, it := range b.items {
		b.order(it)
	}
	return b
}

// order sorts the writes of an item by the time they took place, drops duplicates, and
// computes what each consumed.
func (b *batch) order(it *item) {
	compare := func(v, w write) int {
		return stream.CompareSequences(b.records[v.record].Sequence, b.records[w.record].Sequence)
	}
	if !slices.IsSortedFunc(it.writes, compare) {
		slices.SortStableFunc(it.writes, compare)
	}
	it.writes = slices.CompactFunc(it.writes, func(v, w write) bool { return compare(v, w) == 0 })
	for i := range it.writes {
		w := &it.writes[i]
		r := &b.records[w.record]
		w.consumed, w.counted = consumed(r.Old, r.New)
		it.last, it.at = r.New, r.At
	}
}

// consumed computes what the write between two images of an item consumed of each limit. A
// new limit counts from 0. Deleting an item consumes nothing.
func consumed(before, after *store.Image) (amounts []store.Amount, counted bool) {
	if after == nil {
		return nil, false
	}
	var none store.Image
	if before == nil {
		before = &none
	}
	for i := range after.Limits {
		s := &after.Limits[i]
		was, _ := before.Limit(s.Name)
		if d := s.Consumed - was.Consumed; d != 0 {
			amounts = append(amounts, store.Amount{Limit: s.Name, Milli: d})
		}
	}
	return amounts, after.Writes.Consumed != before.Writes.Consumed
}

// opened are the namespaces in use.
func (b *batch) opened() (all []*namespace) {
	for _, o := range b.namespaces {
		if o.ns != nil { // otherwise it could not be opened
			all = append(all, o.ns)
		}
	}
	return all
}

// indexes are the records of an item.
func (it *item) indexes() []int {
	all := make([]int, len(it.writes))
	for i := range it.writes {
		all[i] = it.writes[i].record
	}
	return all
}

// demand estimates the next debits: as much as in this batch.
func (it *item) demand() (d upkeep.Demand) {
	for i := range it.writes {
		w := &it.writes[i]
		if w.counted && w.consumed != nil { // not a refill: no request asked for it
			d.Writes++
		}
		for _, a := range w.consumed {
			k := slices.IndexFunc(d.Amounts, func(b store.Amount) bool { return b.Limit == a.Limit })
			if k < 0 {
				d.Amounts = append(d.Amounts, a)
				continue
			}
			if sum := d.Amounts[k].Milli + a.Milli; (sum > d.Amounts[k].Milli) == (a.Milli > 0) {
				d.Amounts[k].Milli = sum // otherwise it is more than any bucket holds
			}
		}
	}
	return d
}

// A sum is what the batch adds to one sum of usage.
type sum struct {
	delta   usage.Delta
	records []int // one for each step
	usage   Usage
}

type sumKey struct {
	ns, entity, resource string
	window               usage.Window
	start                int64
}

// usage is what the batch adds to sums of usage, one addition for all limits and shards of
// a sum.
func (b *batch) usage(windows []usage.Window) []*sum {
	sums := make(map[sumKey]*sum, len(b.items)*len(windows))
	list := make([]*sum, 0, len(b.items)*len(windows))
	for _, it := range b.items {
		if it.tended.Usage == nil {
			continue
		}
		for i := range it.writes {
			w := &it.writes[i]
			r := &b.records[w.record]
			if w.consumed == nil && !usage.Restarts(r.Old, r.New) {
				continue
			}
			step := usage.Step{
				Shard: it.Shard, Sequence: r.Sequence, Events: events(w.consumed), Tokens: w.consumed, Before: r.Old, After: r.New,
			}
			for _, window := range windows {
				start := window.Start(r.At)
				key := sumKey{it.ns, it.Entity, it.Resource, window, start.Unix()}
				s := sums[key]
				if s == nil {
					s = &sum{usage: it.tended.Usage}
					s.delta.Key = usage.Key{Entity: it.Entity, Resource: it.Resource, Window: window, Start: start}
					sums[key] = s
					list = append(list, s)
				}
				s.delta.Steps = append(s.delta.Steps, step)
				s.records = append(s.records, w.record)
			}
		}
	}
	return list
}

// events is 1 for a write that took tokens of any limit.
func events(amounts []store.Amount) int64 {
	if slices.ContainsFunc(amounts, func(a store.Amount) bool { return a.Milli > 0 }) {
		return 1
	}
	return 0
}

// A bucketGroup is the items of a batch that are shards of one bucket.
type bucketGroup struct {
	entity, resource string
	keeper           *upkeep.Keeper
	items            []*item
	grew             bool // a record shows a change of the number of shards
	anew             bool // a record shows a shard 0 that a peer created
}

// buckets groups the items of a batch by bucket.
func (b *batch) buckets() []bucketGroup {
	index := make(map[itemKey]int, len(b.items))
	groups := make([]bucketGroup, 0, len(b.items))
	for _, it := range b.items {
		key := it.itemKey
		key.Shard = 0
		i, ok := index[key]
		if !ok {
			i = len(groups)
			index[key] = i
			groups = append(groups, bucketGroup{entity: it.Entity, resource: it.Resource, keeper: it.tended.keeper})
		}
		g := &groups[i]
		g.items = append(g.items, it)
		for _, w := range it.writes {
			r := &b.records[w.record]
			g.grew = g.grew || r.Old != nil && r.New != nil && r.Old.ShardCount != r.New.ShardCount
			g.anew = g.anew || isMadeByPeer(r)
		}
	}
	return groups
}

// isUneven reports whether the shards of a bucket may disagree about their number: one
// record changed the number, or the last images of two shards differ in it.
func (g *bucketGroup) isUneven() bool {
	count := 0
	for _, it := range g.items {
		if it.last == nil {
			continue
		}
		if count != 0 && count != it.last.ShardCount {
			return true
		}
		count = it.last.ShardCount
	}
	return g.grew
}

// fail marks records as failed.
func (b *batch) fail(records []int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range records {
		if b.failed[i] == nil {
			b.failed[i] = err
		}
	}
}

func (b *batch) result() Result {
	res := Result{
		Records: len(b.records), Buckets: len(b.items), Updates: b.updates, Lag: b.lag, Poisoned: b.poisoned,
		Archived: b.archived, ArchivedBytes: b.archivedBytes,
		Refills: int(b.refills.Load()), Doublings: int(b.doublings.Load()), Mends: int(b.mends.Load()), Merges: int(b.merges.Load()), Errors: int(b.errors.Load()),
		Healed: b.healed, Braked: b.braked,
	}
	for i, err := range b.failed {
		res.Failed = append(res.Failed, Failure{i, b.records[i].ID, b.records[i].Sequence, err})
	}
	inOrder := func(f, g Failure) int { return cmp.Compare(f.Index, g.Index) }
	slices.SortFunc(res.Failed, inOrder)
	slices.SortFunc(res.Poisoned, inOrder)
	return res
}
