package request

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
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
func (w *Write) collection(c *api.Call, want types.ReturnItemCollectionMetrics) *types.ItemCollectionMetrics {
	if want != types.ReturnItemCollectionMetricsSize || !w.Table.Schema().HasLocal() {
		return nil
	}
	low, high := CollectionSize(w.Table, c, w.Key.Hash, collectionUnit, collectionWalk)
	return &types.ItemCollectionMetrics{
		ItemCollectionKey:   value.Item{w.Table.Key.Hash.Name: value.CloneValue(w.Key.Hash)},
		SizeEstimateRangeGB: []float64{low, high},
	}
}

// Collections holds the metrics of several writes, one entry for each, by table. It is nil if
// there are none to return.
type Collections map[string][]types.ItemCollectionMetrics

// Add adds the metrics of a write, if the request asks for them.
func (cs *Collections) Add(c *api.Call, w *Write, want types.ReturnItemCollectionMetrics) {
	m := w.collection(c, want)
	if m == nil {
		return
	}
	if *cs == nil {
		*cs = Collections{}
	}
	(*cs)[w.Table.Name] = append((*cs)[w.Table.Name], *m)
}

// CollectionSize returns bounds of the size of a collection, in whole units. They are one unit
// apart, unless the collection has more items than the function counts. While the shards that
// hold the collection have less than one unit, it counts nothing.
//
// The sizes are as of several instants: one shard is locked at a time. AWS calls them an estimate,
// too. Shards have a sum of their sizes, but collections have none. Counting is therefore left out
// while the shard is smaller than the unit, which is nearly always.
func CollectionSize(t *table.Table, c *api.Call, hash value.AV, unit int64, walk int) (low, high float64) {
	partition := value.AppendKey(nil, hash)
	shards := []*storage.Shard{&t.Shards[storage.ShardOf(partition)]}
	for _, x := range t.Schema().Indexes {
		if x.Local {
			shards = append(shards, &x.Shards[storage.ShardOf(partition)])
		}
	}
	var most int64
	for _, s := range shards {
		s.Mu.RLock()
		c.See(s.Latest)
		most += s.Bytes
		s.Mu.RUnlock()
	}
	if most < unit {
		return 0, 1
	}
	var seen int64
	whole := true
	for _, s := range shards {
		bytes, all := s.Weigh(storage.Range{Low: string(partition), High: storage.PrefixEnd(string(partition))}, walk)
		seen += bytes
		whole = whole && all
	}
	low = float64(seen / unit)
	if whole {
		return low, low + 1
	}
	return low, float64(max(most, seen)/unit) + 1
}
