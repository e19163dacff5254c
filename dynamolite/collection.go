package dynamolite

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

const (
	// collectionUnit is a gigabyte, in which the sizes of item collections are given.
	collectionUnit = 1 << 30
	// collectionWalk is how many items or entries of a collection are looked at in one tree, to
	// estimate its size: some milliseconds of a shared lock.
	collectionWalk = 100_000
)

// collection is the metrics of the item collection that a write belongs to: all items with its
// partition key, in the table and in its local indexes. It is nil if they are not asked for, or if the table has
// no local index.
//
// AWS refuses a write with an ItemCollectionSizeLimitExceededException when its collection exceeds 10 GB. Here
// none is refused: the exact size would have to be kept for each partition and brought up to date by each write, for a limit
// that is beyond the memory of most machines this engine runs on.
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

// collections are the metrics of several writes, one for each, by table. It is nil if there are none to give.
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

// collectionSize is bounds of the size of a collection, in whole units. They are one unit apart but
// for a collection of more items than are looked at. As long as the shards that hold it have less than one unit, nothing
// is looked at.
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

// weigh is the sum of the sizes of the records in a range, of so many at most, and whether that is all.
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
