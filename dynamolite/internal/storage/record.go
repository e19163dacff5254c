package storage

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// Record is an item at rest, encoded. The garbage collector sees two strings instead of a map and
// a value for each attribute. The item takes little more memory than AWS counts for it. The
// memory that a decoded item shares with it cannot be written to. A record is never changed:
// readers keep it after they release the lock.
//
// The naive design keeps the decoded item. It saves the decoding of each read, but an item of 25
// attributes is then some fifty objects. A million of them take several times the memory, and the
// collector walks through all of them again and again (ADR 008).
type Record struct {
	Key  string // in the tree of its shard
	Data string // the item, encoded
	Size int    // bytes of the item, by AWS's rules
}

// NewRecord encodes an item, whose size the caller knows.
func NewRecord(key string, item value.Item, size int) *Record {
	return &Record{Key: key, Data: value.Encode(item), Size: size}
}

// Item decodes the record; nil if there is none. The caller may keep and change the result.
func (r *Record) Item() value.Item {
	if r == nil {
		return nil
	}
	return value.Decode(r.Data)
}

// StreamItem is item for the streams API.
func (r *Record) StreamItem() value.StreamItem {
	if r == nil {
		return nil
	}
	return value.DecodeStream(r.Data)
}

// Attribute returns one attribute of the record, nil if it has none of that name. Item is the
// decoded record, or nil if it is not decoded.
func (r *Record) Attribute(item value.Item, name string) value.AV {
	if item != nil {
		return item[name]
	}
	return value.Lookup(r.Data, name)
}

// Bytes returns the size of a record, 0 if there is none.
func (r *Record) Bytes() int {
	if r == nil {
		return 0
	}
	return r.Size
}

// Own returns a copy of the record whose strings have their own memory. The key and the data are
// separate copies, because later records of the item share the key but not the data.
func (r *Record) Own() *Record {
	if r == nil {
		return nil
	}
	return &Record{Key: strings.Clone(r.Key), Data: strings.Clone(r.Data), Size: r.Size}
}

// AttributeSize returns the share of one attribute in an item's size.
func AttributeSize(name string, v value.AV) int { return len(name) + value.SizeOf(v) }
