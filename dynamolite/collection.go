package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

const (
	// collectionUnit is a gigabyte, the unit in which the sizes of item collections are given.
	collectionUnit = 1 << 30
	// collectionWalk is how many items or entries of a collection are counted in one tree to
	// estimate its size. This takes some milliseconds under a shared lock.
	collectionWalk = 100_000
)

// collection returns the metrics of the item collection that a write belongs to: all items with
// its partition key, in the table and in its local indexes. It is nil if the request does not ask
// for them, or if the table has no local index.
//
// AWS refuses a write with an ItemCollectionSizeLimitExceededException when its collection
// exceeds 10 GB. This engine refuses none. It would have to keep the exact size for each
// partition and update it on each write. Most machines that it runs on have less memory than the
// limit.
func (w *write) collection(c *call, want types.ReturnItemCollectionMetrics) *types.ItemCollectionMetrics {
	if want != types.ReturnItemCollectionMetricsSize || !w.table.schema().hasLocal() {
		return nil
	}
	low, high := w.table.collectionSize(c, w.key.hash, collectionUnit, collectionWalk)
	return &types.ItemCollectionMetrics{
		ItemCollectionKey:   value.Item{w.table.key.hash.name: value.CloneValue(w.key.hash)},
		SizeEstimateRangeGB: []float64{low, high},
	}
}

// collections holds the metrics of several writes, one entry for each, by table. It is nil if
// there are none to return.
type collections map[string][]types.ItemCollectionMetrics

func (cs *collections) add(c *call, w *write, want types.ReturnItemCollectionMetrics) {
	m := w.collection(c, want)
	if m == nil {
		return
	}
	if *cs == nil {
		*cs = collections{}
	}
	(*cs)[w.table.name] = append((*cs)[w.table.name], *m)
}

// collectionSize returns bounds of the size of a collection, in whole units. They are one unit
// apart, unless the collection has more items than the function counts. While the shards that
// hold the collection have less than one unit, it counts nothing.
func (t *table) collectionSize(c *call, hash value.AV, unit int64, walk int) (low, high float64) {
	partition := value.AppendKey(nil, hash)
	shards := []*shard{&t.shards[shardOf(partition, len(t.shards))]}
	for _, x := range t.schema().indexes {
		if x.local {
			shards = append(shards, &x.shards[shardOf(partition, len(x.shards))])
		}
	}
	var most int64
	for _, s := range shards {
		s.mu.RLock()
		c.sees(s.latest)
		most += s.bytes
		s.mu.RUnlock()
	}
	if most < unit {
		return 0, 1
	}
	var seen int64
	whole := true
	for _, s := range shards {
		bytes, all := s.weigh(keyRange{string(partition), prefixEnd(string(partition))}, walk)
		seen += bytes
		whole = whole && all
	}
	low = float64(seen / unit)
	if whole {
		return low, low + 1
	}
	return low, float64(max(most, seen)/unit) + 1
}

// weigh returns the sum of the sizes of the records in a range, of at most so many records, and
// whether that is all of them.
func (s *shard) weigh(keys keyRange, records int) (bytes int64, all bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all = true
	s.ascendLocked(keys, func(r *record) bool {
		if records == 0 {
			all = false
			return false
		}
		records--
		bytes += int64(r.size)
		return true
	})
	return bytes, all
}
