package dynamolite

import (
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// indexShards is how many locks an index has. The index's partition key spreads its entries over
// them.
const indexShards = 64

// index is a secondary index. For every item of the table that has all of the index's key
// attributes, it holds an entry with the projected attributes. All fields but its shards and
// filling are fixed.
type index struct {
	name       string
	tableName  string
	local      bool // it has the table's partition key and is part of the table's partitions
	key        keySchema
	table      *keySchema
	projection types.ProjectionType
	include    []string            // attributes projected beside the keys
	projected  map[string]struct{} // all projected attributes; nil: everything
	shards     [indexShards]shard
	counters   *counters
	meter      *wall.Meter // nil: no limits; made before the index is known
	filling    atomic.Bool // items older than the index are still being entered
}

func (x *index) arn() string { return indexARN(tableARN(x.tableName), x.name) }

// projects reports whether an attribute is part of the entries.
func (x *index) projects(attribute string) bool {
	if x.projected == nil {
		return true
	}
	_, ok := x.projected[attribute]
	return ok
}

// entryKey returns the place of the entry of an item; item is the decoded record or nil. Ok is
// false if the item is not in the index. An item that is older than the index may have attributes
// that cannot be its keys; such an item is not in the index.
func (x *index) entryKey(r *record, item value.Item) (shard int, key string, ok bool) {
	if r == nil {
		return 0, "", false
	}
	hash := r.attribute(item, x.key.hash.name)
	if !x.key.hash.fits(hash) {
		return 0, "", false
	}
	var buf [512]byte
	enc := value.AppendKey(buf[:0], hash)
	shard = shardOf(enc, len(x.shards))
	if x.key.rng.name != "" {
		rng := r.attribute(item, x.key.rng.name)
		if !x.key.rng.fits(rng) {
			return 0, "", false
		}
		enc = value.AppendKey(enc, rng)
	}
	return shard, string(append(enc, r.key...)), true
}

// fits reports whether the value of a stored attribute, nil if there is none, can be a key.
func (a *keyAttribute) fits(v value.AV) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return a.kind == types.ScalarAttributeTypeS && v.Value != "" && len(v.Value) <= a.max
	case *types.AttributeValueMemberN:
		return a.kind == types.ScalarAttributeTypeN
	case *types.AttributeValueMemberB:
		return a.kind == types.ScalarAttributeTypeB && len(v.Value) > 0 && len(v.Value) <= a.max
	default:
		return false
	}
}

// entry returns the part of an item that the index stores.
func (x *index) entry(key string, r *record, item value.Item) *record {
	if x.projected == nil {
		return &record{key: key, data: r.data, size: r.size}
	}
	if item == nil {
		item = r.item()
	}
	projected := make(value.Item, len(x.projected))
	for name := range x.projected {
		if v, ok := item[name]; ok {
			projected[name] = v
		}
	}
	return newRecord(key, projected, value.Size(projected))
}

// entrySize returns the size of an entry without making it.
func (x *index) entrySize(r *record, item value.Item) int {
	if x.projected == nil {
		return r.size
	}
	if item == nil {
		item = r.item()
	}
	size := 0
	for name := range x.projected {
		if v, ok := item[name]; ok {
			size += attributeSize(name, v)
		}
	}
	return size
}

// localOverhead is the size of an entry of a local index beyond its attributes. AWS documents it
// for storage. DynamoDB Local counts it in writes, but not in reads or for global indexes.
const localOverhead = 100

// writeUnits returns the price of writing an entry of so many bytes.
func (x *index) writeUnits(bytes int) units {
	if x.local {
		bytes += localOverhead
	}
	return writeUnits(bytes)
}

// attributeSize returns the share of one attribute in an item's size.
func attributeSize(name string, v value.AV) int { return len(name) + value.SizeOf(v) }

// indexChange is the effect of a write on one index.
type indexChange struct {
	index     *index
	drop      string // key of the entry to remove, or ""
	dropShard int
	put       *record // entry to store, or nil
	putShard  int
	units     units // including dropUnits
	dropUnits units // for removing an entry under another key

	dropPartition, putPartition wall.Partition // of the index, if it has a meter
}

// change computes the effect of a write on the index; ok is false if there is none.
func (x *index) change(e *effect) (c indexChange, ok bool) {
	if e.touched != nil && x.same(e) {
		return c, false // its keys are projected too
	}
	oldShard, oldKey, wasIn := x.entryKey(e.old, e.was)
	newShard, newKey, isIn := x.entryKey(e.new, e.is)
	c.index = x
	if x.meter != nil {
		c.dropPartition, c.putPartition = x.partition(e.old, e.was), x.partition(e.new, e.is)
	}
	switch {
	case wasIn && isIn && oldKey == newKey:
		if e.touched == nil && x.same(e) {
			return c, false
		}
		c.put, c.putShard = x.entry(newKey, e.new, e.is), newShard
		c.units = x.writeUnits(max(x.entrySize(e.old, e.was), c.put.size))
		return c, true
	case wasIn:
		c.drop, c.dropShard = oldKey, oldShard
		c.dropUnits = x.writeUnits(x.entrySize(e.old, e.was))
		c.units = c.dropUnits
	}
	if isIn {
		c.put, c.putShard = x.entry(newKey, e.new, e.is), newShard
		c.units += x.writeUnits(c.put.size)
	}
	return c, wasIn || isIn
}

// partition returns the place of an item's entry among the partitions of the index, if the index
// has one.
func (x *index) partition(r *record, item value.Item) wall.Partition {
	if r == nil {
		return wall.NoPartition
	}
	hash := r.attribute(item, x.key.hash.name)
	if !x.key.hash.fits(hash) {
		return wall.NoPartition
	}
	var buf [256]byte
	return wall.PartitionOf(value.AppendKey(buf[:0], hash))
}

// same reports whether an item looks unchanged to the index. The keys must be unchanged or among
// the touched attributes.
func (x *index) same(e *effect) bool {
	names := x.include
	switch {
	case e.touched != nil:
		names = e.touched
	case x.projected == nil:
		e.decode()
		return value.EqualItems(e.was, e.is)
	}
	for _, name := range names {
		if x.projects(name) && !sameAttribute(e.old.attribute(e.was, name), e.new.attribute(e.is, name)) {
			return false
		}
	}
	return true
}

// sameAttribute reports whether two values, nil if there is none, are equal.
func sameAttribute(a, b value.AV) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return value.Equal(a, b)
}

// apply applies a change that has its place in the order of writes at pos. The caller holds the
// item's table shard.
func (c *indexChange) apply(pos position) {
	if c.drop != "" {
		s := &c.index.shards[c.dropShard]
		s.mu.Lock()
		s.deleteLocked(c.drop, pos)
		if c.put != nil && c.putShard == c.dropShard { // a reader sees one of the two
			s.setLocked(c.put, pos)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
	if c.put != nil {
		s := &c.index.shards[c.putShard]
		s.mu.Lock()
		s.setLocked(c.put, pos)
		s.mu.Unlock()
	}
}

// checkIndexKeys returns an error for an item whose attributes cannot be keys of the indexes that
// use them. Names are the attributes to check, nil for all.
func (s *schema) checkIndexKeys(item value.Item, names []string) error {
	if names == nil {
		for i := range s.indexKeys {
			if err := s.indexKeys[i].check(item); err != nil {
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
			if s.indexKeys[i].name == name {
				if err := s.indexKeys[i].check(item); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// indexKey is one key attribute of one index.
type indexKey struct {
	keyAttribute
	index string
}

func (k *indexKey) check(item value.Item) error {
	v, ok := item[k.name]
	if !ok {
		return nil
	}
	_, problem, err := k.keyAttribute.check(v)
	switch {
	case err != nil:
		return err
	case problem == keyMistyped:
		return misfit("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", k.name, k.kind, value.TypeName(v), k.index)
	case problem == keyEmpty:
		return validationf("One or more parameter values are not valid. A value specified for a secondary index key is not supported. "+
			"The AttributeValue for a key attribute cannot contain an empty string value. IndexName: %s, IndexKey: %s", k.index, k.name)
	case problem == keyTooLong:
		return misfit("Size of %s of index %s has exceeded the maximum size limit of %d bytes", k.name, k.index, k.max)
	}
	return nil
}
