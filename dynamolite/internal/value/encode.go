package value

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Tags of encoded values. They are on disk: their meanings must never change.
const (
	tagS byte = iota + 1
	tagN
	tagB
	tagFalse
	tagTrue
	tagNull
	tagSS
	tagNS
	tagBS
	tagL
	tagM
)

// Encode returns a normalised item as a string, little longer than the size that AWS counts. The
// string has the number of attributes, and the name and the value of each. A value has a tag and
// its content, with a length before each part of variable size. The order of the attributes is
// arbitrary.
//
//	item    count   { name  value } …
//	name    length  bytes
//	value   tag     content: nothing, length and bytes, or count and elements
//
// Two encodings of one item may differ, so they must not be compared. Sorting the names would give
// every item one encoding, at the cost of a sort for each write. Nothing needs that: the key of an
// item is encoded apart, by [AppendKey].
//
// The naive design stores the JSON of the wire. It repeats the names of types, escapes strings, and
// makes a reader go through a value to skip it. [Lookup] and [Update] skip most values.
//
// An item with the number 12 as its only attribute n is 01, 01 6e, 02 02 31 32.
func Encode(item Item) string {
	b := scratch()
	defer done(b)
	*b = AppendItem(*b, item)
	return string(*b)
}

// scratches are buffers to encode in; the result is then copied into a string of exactly the right
// length. A new buffer has room for a typical item, so it costs two allocations and not one per
// doubling. The length is known only at the end; a strings.Builder would leave spare room in every
// stored item.
var scratches = sync.Pool{New: func() any {
	b := make([]byte, 0, minScratch)
	return &b
}}

const (
	minScratch = 1 << 10  // bytes of a new buffer
	maxScratch = 64 << 10 // bytes of the largest buffer that is reused
)

// scratch returns an empty buffer; done takes it back.
func scratch() *[]byte {
	b, _ := scratches.Get().(*[]byte)
	return b
}

// done keeps a buffer for the next encoding. A large one is left to the collector, so that one
// large item does not leave its buffer to small ones.
func done(b *[]byte) {
	if cap(*b) > maxScratch {
		return
	}
	*b = (*b)[:0]
	scratches.Put(b)
}

// Update returns the encoding of an item that differs from an encoded one only in the touched
// attributes. It copies the unchanged attributes as they are.
//
// touched must name all attributes that differ, those that are gone and those that are new
// included. An attribute that differs and is not named keeps its old bytes, unnoticed. The naive
// design encodes the new item as a whole. A counter in an item of 25 attributes then costs 25
// encodings instead of one.
func Update(data string, item Item, touched []string) string {
	b := scratch()
	defer done(b)
	dst := binary.AppendUvarint(*b, uint64(len(item)))
	d := decoder{rest: data}
	for range d.number() {
		start := d.rest
		name := d.text()
		d.skip(0)
		if !slices.Contains(touched, name) {
			dst = append(dst, start[:len(start)-len(d.rest)]...)
		}
	}
	if d.bad {
		panic(ErrEncoding)
	}
	for _, name := range touched {
		if v, ok := item[name]; ok {
			dst = appendValue(appendText(dst, name), v)
		}
	}
	*b = dst
	return string(dst)
}

// AppendItem appends the encoding that [Encode] returns. A nested map has this form behind its tag.
func AppendItem(dst []byte, item Item) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(item)))
	for name, v := range item {
		dst = appendValue(appendText(dst, name), v)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendValue panics for a value that is not normalised. Such a value is a broken invariant of this
// process: stored, it could not be read again.
func appendValue(dst []byte, v AV) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return appendText(append(dst, tagS), v.Value)
	case *types.AttributeValueMemberN:
		return appendText(append(dst, tagN), v.Value)
	case *types.AttributeValueMemberB:
		return appendBytes(append(dst, tagB), v.Value)
	case *types.AttributeValueMemberBOOL:
		if v.Value {
			return append(dst, tagTrue)
		}
		return append(dst, tagFalse)
	case *types.AttributeValueMemberNULL:
		return append(dst, tagNull)
	case *types.AttributeValueMemberSS:
		return appendTexts(append(dst, tagSS), v.Value)
	case *types.AttributeValueMemberNS:
		return appendTexts(append(dst, tagNS), v.Value)
	case *types.AttributeValueMemberBS:
		dst = binary.AppendUvarint(append(dst, tagBS), uint64(len(v.Value)))
		for _, b := range v.Value {
			dst = appendBytes(dst, b)
		}
		return dst
	case *types.AttributeValueMemberL:
		dst = binary.AppendUvarint(append(dst, tagL), uint64(len(v.Value)))
		for _, e := range v.Value {
			dst = appendValue(dst, e)
		}
		return dst
	case *types.AttributeValueMemberM:
		return AppendItem(append(dst, tagM), v.Value)
	default:
		panic("value: cannot encode a value that is not normalised: " + TypeName(v))
	}
}

// appendTexts writes the members of a set: their count, and each with its length.
func appendTexts(dst []byte, elements []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(elements)))
	for _, s := range elements {
		dst = appendText(dst, s)
	}
	return dst
}
