package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// A batch is the records of one call as work. Each list has one consumer, which does not
// look at the records again:
//
//	records ──▶ items ──▶ remains    save
//	        │         ├─▶ buckets    tend, and watch.note those with several shards
//	        │         ├─▶ followed   followPeers, on a table that peers share, and
//	        │         └─▶ copies     the days that it copies
//	        └───────────▶ days       archive
type batch struct {
	now        time.Time
	records    []stream.Record
	namespaces map[string]opened
	remains    []*remains
	buckets    []bucket
	followed   []*followed
	copies     []*dayCopy
	days       []*expiry

	mu     sync.Mutex
	result Result  // of the work done so far, without Failed
	failed []error // by record; nil while no record has failed

	bucketOf map[itemKey]int
}

// An opened is a namespace that a batch uses until its end, or why it cannot.
type opened struct {
	*namespace

	err error
}

// Remains are the hours of deleted items of one namespace, saved together.
type remains struct {
	ns      string
	usage   Usage
	diaries []usage.Diary
	records []int // one for each diary
}

// mostRemains is how many items one request of DynamoDB writes.
const mostRemains = 25

// A bucket is the items of a batch that are shards of one bucket.
type bucket struct {
	itemKey // the shard is the one with the highest number

	keeper     *upkeep.Keeper // nil leaves it alone
	items      []*item
	shardCount int // the largest that a last image has
	// uneven reports that the shards may disagree about their number: one record changed
	// the number, or the last images of two shards differ in it.
	uneven bool
	anew   bool // a record shows a shard 0 that a peer created
}

// An expiry is the expired events of one day in a batch.
type expiry struct {
	day     time.Time
	events  []audit.TrailEvent
	records []int // one for each event
}

// An item is a bucket item, with the batch's writes to it.
type item struct {
	itemKey

	records []int         // of its writes, ordered by sequence number, each once
	last    *store.Image  // after the last write; nil if the item was deleted
	at      time.Time     // time of the last write
	next    upkeep.Demand // the debits to expect: as much as in this batch
}

type itemKey struct {
	ns string
	store.Bucket
}

// sort makes work of records. It opens their namespaces, which stay in use until tell. It
// drops the records of a namespace that does not exist, and fails those of one that cannot
// be opened.
func (a *Aggregator) sort(ctx context.Context, records []stream.Record) *batch {
	b := &batch{now: a.o.Now(), records: records, namespaces: map[string]opened{}}
	b.result.Records = len(records)
	items := b.group(a.o.Archive != nil)
	b.buckets, b.bucketOf = make([]bucket, 0, len(items)), make(map[itemKey]int, len(items))
	for i := range items {
		it := &items[i]
		b.order(it)
		ns, known := b.namespaces[it.ns]
		if !known {
			ns.namespace, ns.err = a.namespaces.get(ctx, it.ns, b.now)
			b.namespaces[it.ns] = ns
		}
		switch {
		case ns.err != nil:
			b.fail(it.records, ns.err)
		case !ns.missing:
			b.result.Buckets++
			b.addItem(it, ns.namespace)
		}
	}
	return b
}

// group groups the records of buckets by item, in the order of the first record of each,
// and those of expired events by day, if there is an archive.
func (b *batch) group(archives bool) []item {
	items := make([]item, 0, len(b.records))
	index := make(map[itemKey]int, len(b.records))
	for i := range b.records {
		r := &b.records[i]
		if !r.At.IsZero() {
			b.result.Lag = max(b.result.Lag, b.now.Sub(r.At))
		}
		if r.PeerUsage {
			b.result.PeerUsage++
		}
		switch img := cmp.Or(r.New, r.Old); {
		case r.Err != nil:
			b.poison(i, r.Err)
		case img != nil:
			key := itemKey{r.Namespace, img.Bucket}
			k, ok := index[key]
			if !ok {
				k = len(items)
				index[key] = k
				items = append(items, item{itemKey: key})
			}
			items[k].records = append(items[k].records, i)
		case archives && r.Item != nil:
			b.addEvent(i, r)
		}
	}
	return items
}

// addEvent adds the event whose expiry a record shows, if it shows one.
func (b *batch) addEvent(i int, r *stream.Record) {
	e, ok, err := r.ExpiredEvent()
	if err != nil {
		b.poison(i, fmt.Errorf("read the end of %s: %w", r.Key, err))
	}
	if err != nil || !ok {
		return
	}
	day := e.Time.UTC().Truncate(24 * time.Hour)
	k := slices.IndexFunc(b.days, func(d *expiry) bool { return d.day.Equal(day) })
	if k < 0 {
		k = len(b.days)
		b.days = append(b.days, &expiry{day: day})
	}
	d := b.days[k]
	d.events, d.records = append(d.events, e), append(d.records, i)
}

// order sorts the records of an item by the time of their writes, and drops duplicates.
func (b *batch) order(it *item) {
	compare := func(i, j int) int { return stream.CompareSequences(b.records[i].Sequence, b.records[j].Sequence) }
	if !slices.IsSortedFunc(it.records, compare) {
		slices.SortStableFunc(it.records, compare)
	}
	it.records = slices.CompactFunc(it.records, func(i, j int) bool { return compare(i, j) == 0 })
	last := &b.records[it.records[len(it.records)-1]]
	it.last, it.at = last.New, last.At
}

// addItem adds the work of an item: its hours, if it was deleted, and its upkeep, to its
// bucket.
func (b *batch) addItem(it *item, ns *namespace) {
	key := it.itemKey
	key.Shard = 0
	at, known := b.bucketOf[key]
	if !known {
		at = len(b.buckets)
		b.bucketOf[key] = at
		b.buckets = append(b.buckets, bucket{itemKey: key, keeper: ns.keeper})
	}
	bk := &b.buckets[at]
	bk.add(it)
	for _, i := range it.records {
		r := &b.records[i]
		it.expect(consumed(r.Old, r.New))
		bk.uneven = bk.uneven || r.Old != nil && r.New != nil && r.Old.ShardCount != r.New.ShardCount
		bk.anew = bk.anew || isMadeByPeer(r)
		if ns.Usage != nil && r.Hours != "" {
			b.addRemains(ns.Usage, i)
		}
	}
	if ns.Peers != nil {
		b.addFollowed(it, ns)
	}
}

// addRemains adds the hours of a deleted item, whose record is i.
func (b *batch) addRemains(to Usage, i int) {
	r := &b.records[i]
	k := slices.IndexFunc(b.remains, func(m *remains) bool { return m.ns == r.Namespace && len(m.diaries) < mostRemains })
	if k < 0 {
		k = len(b.remains)
		b.remains = append(b.remains, &remains{ns: r.Namespace, usage: to})
	}
	m := b.remains[k]
	m.diaries = append(m.diaries, usage.Diary{Bucket: r.Old.Bucket, Life: r.Old.CreatedAt, Text: r.Hours, Gone: true})
	m.records = append(m.records, i)
}

// add adds an item to its bucket.
func (bk *bucket) add(it *item) {
	bk.items, bk.Shard = append(bk.items, it), max(bk.Shard, it.Shard)
	if it.last != nil {
		bk.uneven = bk.uneven || bk.shardCount != 0 && bk.shardCount != it.last.ShardCount
		bk.shardCount = max(bk.shardCount, it.last.ShardCount)
	}
}

// consumed computes what the write between two images of an item consumed of each limit,
// and whether the item's hidden limit counts it as a write. A new limit counts from 0.
// Deleting an item consumes nothing.
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

// isMadeByPeer reports whether a record shows a shard 0 that a peer created as the only
// one. It recognizes it by the write count: this library counts every write to an item,
// including the first.
func isMadeByPeer(r *stream.Record) bool {
	return r.Old == nil && r.New != nil && r.New.Shard == 0 && r.New.ShardCount == 1 && r.New.Writes.Consumed == 0
}

// expect adds what a write consumed to the debits that are to be expected.
func (it *item) expect(consumed []store.Amount, counted bool) {
	if counted && consumed != nil { // not a refill: no request asked for it
		it.next.Writes++
	}
	if it.next.Amounts == nil {
		it.next.Amounts = slices.Clone(consumed)
		return
	}
	for _, a := range consumed {
		k := slices.IndexFunc(it.next.Amounts, func(b store.Amount) bool { return b.Limit == a.Limit })
		if k < 0 {
			it.next.Amounts = append(it.next.Amounts, a)
			continue
		}
		if sum := it.next.Amounts[k].Milli + a.Milli; (sum > it.next.Amounts[k].Milli) == (a.Milli > 0) {
			it.next.Amounts[k].Milli = sum // otherwise it is more than any bucket holds
		}
	}
}

func (b *batch) failure(i int, err error) Failure {
	return Failure{i, b.records[i].ID, b.records[i].Sequence, err}
}

// poison notes that a record can never be read. Only sort does.
func (b *batch) poison(i int, err error) {
	b.result.Poisoned = append(b.result.Poisoned, b.failure(i, err))
}

// fail marks records as failed, each with its first error.
func (b *batch) fail(records []int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = make([]error, len(b.records))
	}
	for _, i := range records {
		if b.failed[i] == nil {
			b.failed[i] = err
		}
	}
}

// tally counts work that was done.
func (b *batch) tally(count func(*Result)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count(&b.result)
}
