package dynamolite

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// indexShards is how many locks an index has. Its entries are spread by the index's partition key.
const indexShards = 16

// index is a global secondary index. It holds, for every item of the table that has all of the
// index's key attributes, an entry with the projected attributes.
type index struct {
	name       string
	position   int // in table.indexes
	key        keySchema
	table      *keySchema
	projection types.ProjectionType
	include    []string            // attributes projected beside the keys
	projected  map[string]struct{} // all projected attributes; nil: everything
	shards     [indexShards]shard
	counters   *counters
}

// projects tells whether an attribute is part of the entries.
func (x *index) projects(attribute string) bool {
	if x.projected == nil {
		return true
	}
	_, ok := x.projected[attribute]
	return ok
}

// entryKey is where an item's entry lives; ok is false if the item is not in the index.
func (x *index) entryKey(r *record) (shard int, key string, ok bool) {
	if r == nil {
		return 0, "", false
	}
	hash, ok := r.item[x.key.hash.name]
	if !ok {
		return 0, "", false
	}
	var buf [512]byte
	enc := value.AppendKey(buf[:0], hash)
	shard = shardOf(enc, len(x.shards))
	if x.key.rng.name != "" {
		rng, ok := r.item[x.key.rng.name]
		if !ok {
			return 0, "", false
		}
		enc = value.AppendKey(enc, rng)
	}
	return shard, string(append(enc, r.key...)), true
}

// entry is what the index stores of an item.
func (x *index) entry(key string, r *record) *record {
	if x.projected == nil {
		return &record{key: key, item: r.item, size: r.size}
	}
	item := make(value.Item, len(x.projected))
	for name := range x.projected {
		if v, ok := r.item[name]; ok {
			item[name] = v
		}
	}
	return &record{key: key, item: item, size: value.Size(item)}
}

// entrySize is the size of an entry without making it.
func (x *index) entrySize(r *record) int {
	if x.projected == nil {
		return r.size
	}
	size := 0
	for name := range x.projected {
		if v, ok := r.item[name]; ok {
			size += attributeSize(name, v)
		}
	}
	return size
}

// attributeSize is the share of one attribute in an item's size.
func attributeSize(name string, v value.AV) int { return len(name) + value.SizeOf(v) }

// indexChange is what a write does to one index.
type indexChange struct {
	index     *index
	drop      string // key of the entry to remove, or ""
	dropShard int
	put       *record // entry to store, or nil
	putShard  int
	units     units
}

// change works out what the step from old to next does to the index; ok is false if nothing. Touched
// are the attributes that may differ, nil if any may.
func (x *index) change(old, next *record, touched []string) (c indexChange, ok bool) {
	if touched != nil && !x.affected(touched) {
		return c, false
	}
	oldShard, oldKey, wasIn := x.entryKey(old)
	newShard, newKey, isIn := x.entryKey(next)
	c.index = x
	switch {
	case wasIn && isIn && oldKey == newKey:
		if x.same(old.item, next.item, touched) {
			return c, false
		}
		c.put, c.putShard = x.entry(newKey, next), newShard
		c.units = writeUnits(max(x.entrySize(old), c.put.size))
		return c, true
	case wasIn:
		c.drop, c.dropShard = oldKey, oldShard
		c.units = writeUnits(x.entrySize(old))
	}
	if isIn {
		c.put, c.putShard = x.entry(newKey, next), newShard
		c.units += writeUnits(c.put.size)
	}
	return c, wasIn || isIn
}

func (x *index) affected(touched []string) bool {
	return slices.ContainsFunc(touched, x.projects)
}

// same tells whether two images look alike to the index.
func (x *index) same(old, next value.Item, touched []string) bool {
	if touched != nil {
		for _, name := range touched {
			if x.projects(name) && !sameAttribute(old, next, name) {
				return false
			}
		}
		return true
	}
	if x.projected == nil {
		return value.EqualItems(old, next)
	}
	for name := range x.projected {
		if !sameAttribute(old, next, name) {
			return false
		}
	}
	return true
}

func sameAttribute(a, b value.Item, name string) bool {
	va, inA := a[name]
	vb, inB := b[name]
	return inA == inB && (!inA || value.Equal(va, vb))
}

// apply carries a change out. The caller holds the item's table shard.
func (c *indexChange) apply() {
	if c.drop != "" {
		s := &c.index.shards[c.dropShard]
		s.mu.Lock()
		s.deleteLocked(c.drop)
		s.mu.Unlock()
	}
	if c.put != nil {
		s := &c.index.shards[c.putShard]
		s.mu.Lock()
		s.setLocked(c.put)
		s.mu.Unlock()
	}
}

// checkIndexKeys refuses an item whose attributes cannot be keys of the indexes that want them.
// Names are the attributes to look at, nil for all.
func (t *table) checkIndexKeys(item value.Item, names []string) error {
	if names == nil {
		for i := range t.indexKeys {
			if err := t.indexKeys[i].check(item); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range names {
		if !t.keysIndex[name] {
			continue
		}
		for i := range t.indexKeys {
			if t.indexKeys[i].name == name {
				if err := t.indexKeys[i].check(item); err != nil {
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
