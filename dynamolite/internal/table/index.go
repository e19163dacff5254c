package table

import (
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// Index is a secondary index. For every item of the table that has all of the index's key
// attributes, it holds an entry with the projected attributes. All fields but its shards and
// filling are fixed.
//
// The naive entry is the key of its item. Each read of the index would then lock the shard of every
// item that it finds, in no order, and would return attributes that AWS does not project. An entry
// therefore has its attributes. It follows the item under the lock of the item's shard.
//
// An entry has the key of the index and after it the key of the table. Many items may have the same
// index key, and each has an entry of its own.
type Index struct {
	Name      string
	tableName string
	// Local is set if the index has the table's partition key. It is then part of the table's
	// partitions.
	Local bool
	Key   storage.KeySchema
	// table is the key of the table, which ends each key of the index.
	table      *storage.KeySchema
	projection types.ProjectionType
	// Include has the attributes that are projected beside the keys, in the order of the request.
	// They are described in this order.
	Include []string
	// Projected has all projected attributes, the keys of index and table included; nil:
	// everything.
	Projected map[string]struct{}
	// Shards hold the entries, by the hash of the index's partition key. Their locks are taken
	// after that of the item's table shard, one at a time.
	Shards [storage.Shards]storage.Shard
	// Counters are those of all indexes of the table's name that have had this name.
	Counters *Counters
	// Meter is that of a global index; nil: no limits, or a local index. It is made before the
	// index is known.
	Meter *wall.Meter
	// Filling is set while items older than the index are being entered. Writes maintain the index
	// already, but no reading is admitted: it would miss items. It is set before the index is in a
	// schema, and cleared once.
	Filling atomic.Bool
}

func (x *Index) arn() string { return api.IndexARN(api.TableARN(x.tableName), x.Name) }

// Projects reports whether an attribute is part of the entries. A local index that lacks an
// attribute can fetch it from the table, and a global one cannot: see package request.
func (x *Index) Projects(attribute string) bool {
	if x.Projected == nil {
		return true
	}
	_, ok := x.Projected[attribute]
	return ok
}

// EntryKey returns the place of the entry of an item; item is the decoded record or nil. Ok is
// false if the item is not in the index. An item that is older than the index may have attributes
// that cannot be its keys; such an item is not in the index. Numbers always fit: there is no number
// that is too long for a key.
//
// The key is built on the stack: a write asks for the keys of its old and its new item, in each
// index.
func (x *Index) EntryKey(r *storage.Record, item value.Item) (shard int, key string, ok bool) {
	if r == nil {
		return 0, "", false
	}
	hash := r.Attribute(item, x.Key.Hash.Name)
	if !x.Key.Hash.Fits(hash) {
		return 0, "", false
	}
	var buf [512]byte
	enc := value.AppendKey(buf[:0], hash)
	shard = storage.ShardOf(enc)
	if x.Key.Rng.Name != "" {
		rng := r.Attribute(item, x.Key.Rng.Name)
		if !x.Key.Rng.Fits(rng) {
			return 0, "", false
		}
		enc = value.AppendKey(enc, rng)
	}
	return shard, string(append(enc, r.Key...)), true
}

// Entry returns the part of an item that the index stores. An entry that projects everything shares
// its data with the item. It costs a key and no copy.
func (x *Index) Entry(key string, r *storage.Record, item value.Item) *storage.Record {
	if x.Projected == nil {
		return &storage.Record{Key: key, Data: r.Data, Size: r.Size}
	}
	if item == nil {
		item = r.Item()
	}
	projected := make(value.Item, len(x.Projected))
	for name := range x.Projected {
		if v, ok := item[name]; ok {
			projected[name] = v
		}
	}
	return storage.NewRecord(key, projected, value.Size(projected))
}

// EntrySize returns the size of an entry without making it. Its price is needed for entries that
// are only removed.
func (x *Index) EntrySize(r *storage.Record, item value.Item) int {
	if x.Projected == nil {
		return r.Size
	}
	if item == nil {
		item = r.Item()
	}
	size := 0
	for name := range x.Projected {
		if v, ok := item[name]; ok {
			size += storage.AttributeSize(name, v)
		}
	}
	return size
}

// localOverhead is the size of an entry of a local index beyond its attributes. AWS documents it
// for storage. DynamoDB Local counts it in writes, but not in reads or for global indexes.
const localOverhead = 100

// WriteUnits returns the price of writing an entry of so many bytes.
func (x *Index) WriteUnits(bytes int) Units {
	if x.Local {
		bytes += localOverhead
	}
	return WriteUnits(bytes)
}

// Partition returns the place of an item's entry among the partitions of the index, if the index
// has one.
func (x *Index) Partition(r *storage.Record, item value.Item) wall.Partition {
	if r == nil {
		return wall.NoPartition
	}
	hash := r.Attribute(item, x.Key.Hash.Name)
	if !x.Key.Hash.Fits(hash) {
		return wall.NoPartition
	}
	var buf [256]byte
	return wall.PartitionOf(value.AppendKey(buf[:0], hash))
}

// CheckIndexKeys returns an error for an item whose attributes cannot be keys of the indexes that
// use them. Names are the attributes to check, nil for all. An update checks only what it writes.
// An older item may have an unfit attribute in another place, and must stay writable.
func (s *Schema) CheckIndexKeys(item value.Item, names []string) error {
	if names == nil {
		for i := range s.indexKeys {
			if err := s.indexKeys[i].fitsIn(item); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range names {
		if !s.keysIndex[name] {
			continue
		}
		for i := range s.indexKeys {
			if s.indexKeys[i].Name == name {
				if err := s.indexKeys[i].fitsIn(item); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// indexKey is one key attribute of one index. An attribute may be a key of several indexes. Its
// limit is 2,048 bytes as a partition key and 1,024 as a sort key.
type indexKey struct {
	storage.KeyAttribute
	index string
}

// A missing attribute fits: the item is then not in the index, as AWS documents for sparse indexes.
func (k *indexKey) fitsIn(item value.Item) error {
	v, ok := item[k.Name]
	if !ok {
		return nil
	}
	_, problem, err := k.Check(v)
	switch {
	case err != nil:
		return err
	case problem == storage.KeyMistyped:
		return api.Misfit("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", k.Name, k.Kind, value.TypeName(v), k.index)
	case problem == storage.KeyEmpty:
		return api.Validationf("One or more parameter values are not valid. A value specified for a secondary index key is not supported. "+
			"The AttributeValue for a key attribute cannot contain an empty string value. IndexName: %s, IndexKey: %s", k.index, k.Name)
	case problem == storage.KeyTooLong:
		return api.Misfit("Size of %s of index %s has exceeded the maximum size limit of %d bytes", k.Name, k.index, k.Max)
	}
	return nil
}

// FillFrom enters all items of a table that is not in use yet. It takes no lock of the table and
// needs no position: the items are on disk, and nobody reads yet.
func (x *Index) FillFrom(t *Table) {
	for i := range t.Shards {
		t.Shards[i].AscendLocked(storage.Range{}, func(r *storage.Record) bool {
			x.Fill(r, 0)
			return true
		})
	}
}

// Fill enters an item that has no entry in the index yet. In a table that is in use, the caller
// holds the shard of the item: no write may come between its reading and its entry. Pos is a
// position at or after the item's write: a reader of the entry waits for it.
func (x *Index) Fill(r *storage.Record, pos journal.Position) {
	item := r.Item()
	shard, key, ok := x.EntryKey(r, item)
	if !ok {
		return
	}
	s := &x.Shards[shard]
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.SetLocked(x.Entry(key, r, item), pos)
}
