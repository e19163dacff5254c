package value

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// A Slab makes values, several to an allocation: an item of 25 attributes costs a handful of
// allocations instead of 25. A block lives as long as any value in it. The zero Slab is ready; it
// is not for concurrent use.
//
// Each field is the rest of a block of one type: elements that nothing uses yet. A value that is
// handed out is never taken back or reused, so values of one Slab are as independent as any others.
//
// The price is memory that a single surviving value keeps alive. Items at rest are encoded (ADR
// 008), so few values outlive their request, and maxBlock bounds what each can hold. Lists, maps
// and sets are taken one at a time: their contents are allocations of their own, beside which the
// value does not count.
type Slab struct {
	s  []types.AttributeValueMemberS
	n  []types.AttributeValueMemberN
	b  []types.AttributeValueMemberB
	bo []types.AttributeValueMemberBOOL
	nu []types.AttributeValueMemberNULL
	ss []types.AttributeValueMemberSS
	ns []types.AttributeValueMemberNS
	bs []types.AttributeValueMemberBS
	l  []types.AttributeValueMemberL
	m  []types.AttributeValueMemberM
}

// maxBlock limits the waste in one block, in values. Callers can only guess how many they need of
// one type.
const maxBlock = 32

// take returns the next element of a block. more is how many values are still to be made,
// including this one; it sets the size of a new block.
func take[T any](block *[]T, more int) *T {
	if len(*block) == 0 {
		*block = make([]T, min(max(more, 1), maxBlock))
	}
	p := &(*block)[0]
	*block = (*block)[1:]
	return p
}

// Number returns a number in stored form. About more of them are to be made.
func (k *Slab) Number(s string, more int) AV {
	p := take(&k.n, more)
	p.Value = s
	return p
}

// Clone returns a copy of a normalised v that shares no writable memory. more is about how many
// values are to be made, including this one.
func (k *Slab) Clone(v AV, more int) AV {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		p := take(&k.s, more)
		p.Value = v.Value
		return p
	case *types.AttributeValueMemberN:
		return k.Number(v.Value, more)
	case *types.AttributeValueMemberB:
		p := take(&k.b, more)
		p.Value = cloneBytes(v.Value)
		return p
	case *types.AttributeValueMemberBOOL:
		p := take(&k.bo, more)
		p.Value = v.Value
		return p
	case *types.AttributeValueMemberNULL:
		p := take(&k.nu, more)
		p.Value = v.Value
		return p
	case *types.AttributeValueMemberL:
		p := take(&k.l, 1)
		p.Value = make([]AV, len(v.Value))
		for i, e := range v.Value {
			p.Value[i] = k.Clone(e, len(v.Value)-i)
		}
		return p
	case *types.AttributeValueMemberM:
		p := take(&k.m, 1)
		p.Value = k.cloneItem(v.Value)
		return p
	}
	return k.cloneSet(v)
}

// cloneSet copies a set. The members of an SS or NS are strings, which nobody can change, so only
// the slice is copied.
func (k *Slab) cloneSet(v AV) AV {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		p := take(&k.ss, 1)
		p.Value = append(make([]string, 0, len(v.Value)), v.Value...)
		return p
	case *types.AttributeValueMemberNS:
		p := take(&k.ns, 1)
		p.Value = append(make([]string, 0, len(v.Value)), v.Value...)
		return p
	case *types.AttributeValueMemberBS:
		p := take(&k.bs, 1)
		p.Value = make([][]byte, len(v.Value))
		for i, b := range v.Value {
			p.Value[i] = cloneBytes(b)
		}
		return p
	}
	return v
}

// cloneItem copies a map with all its values.
func (k *Slab) cloneItem(item Item) Item {
	out := make(Item, len(item))
	more := len(item)
	for name, v := range item {
		out[name] = k.Clone(v, more)
		more--
	}
	return out
}

// cloneBytes is never nil: an empty binary is a value.
func cloneBytes(b []byte) []byte {
	return append(make([]byte, 0, len(b)), b...)
}

// Clone returns a copy of a normalised item that shares no writable memory; nil for nil.
func Clone(item Item) Item {
	if item == nil {
		return nil
	}
	var k Slab
	return k.cloneItem(item)
}

// CloneValue returns a copy of a normalised value that shares no writable memory.
func CloneValue(v AV) AV {
	var k Slab
	return k.Clone(v, 1)
}
