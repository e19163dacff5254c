package dynamolite

import (
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/expr"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// record is an item at rest, encoded. The garbage collector sees two strings instead of a map and
// a value for each attribute. The item takes little more memory than AWS counts for it. The
// memory that a decoded item shares with it cannot be written to. A record is never changed:
// readers keep it after they release the lock.
type record struct {
	key  string // in the tree of its shard
	data string // the item, encoded
	size int    // bytes of the item, by AWS's rules
}

func newRecord(key string, item value.Item, size int) *record {
	return &record{key: key, data: value.Encode(item), size: size}
}

// item decodes the record; nil if there is none. The caller may keep and change the result.
func (r *record) item() value.Item {
	if r == nil {
		return nil
	}
	return value.Decode(r.data)
}

// streamItem is item for the streams API.
func (r *record) streamItem() value.StreamItem {
	if r == nil {
		return nil
	}
	return value.DecodeStream(r.data)
}

// attribute returns one attribute of the record, nil if it has none of that name. Item is the
// decoded record, or nil if it is not decoded.
func (r *record) attribute(item value.Item, name string) value.AV {
	if item != nil {
		return item[name]
	}
	return value.Lookup(r.data, name)
}

// image returns the part of a record that a projection selects. The caller may keep and change
// it.
func (r *record) image(p *expr.Projection) value.Item {
	item := r.item()
	if item == nil || p == nil {
		return item
	}
	return p.Apply(item)
}

// bytes returns the size of a record, 0 if there is none.
func (r *record) bytes() int {
	if r == nil {
		return 0
	}
	return r.size
}
