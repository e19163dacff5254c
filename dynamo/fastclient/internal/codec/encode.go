// Package codec writes requests to DynamoDB and reads its answers with little garbage
// (ADR 037). It reports what it does not know, and the SDK does that.
package codec

import (
	"encoding/base64"
	"math/big"
	"strconv"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/document"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
)

// A Writer writes a request as JSON, as the SDK's own serializer does. The SDK's inputs
// describe themselves to it with their method Serialize, so it has every member of a
// request. The zero Writer is usable after [Writer.Start].
//
// The last byte says what may follow: after ':' a value, after '{' or '[' an element, and
// after anything else a comma. A string ends in '"', so its content does not matter.
type Writer struct {
	body  []byte
	room  int
	depth int
	lists uint64 // bit i: the container at depth i is a list
	odd   bool   // something was written that the Writer cannot write
}

var _ smithy.ShapeSerializer = (*Writer)(nil)

// maxDepth bounds the depth to the bits of Writer.lists. DynamoDB has 32 levels.
const maxDepth = 63

// Start begins a request with as many bytes of room before it.
func (w *Writer) Start(room int) {
	if cap(w.body) < room {
		w.body = make([]byte, room, 2*room)
	}
	*w = Writer{body: w.body[:room], room: room}
}

// Done returns the room and the request. It reports whether the SDK would have written
// the same.
func (w *Writer) Done() (all []byte, plain bool) { return w.body, !w.odd && w.depth == 0 }

// Write writes a whole request, which appendTo appends.
func (w *Writer) Write(appendTo func(body []byte) []byte) { w.body = appendTo(w.body) }

// Bytes returns the request.
func (w *Writer) Bytes() []byte { return w.body[w.room:] }

// Cap is the memory that the Writer keeps.
func (w *Writer) Cap() int { return cap(w.body) }

// last is the last byte, 0 at the beginning.
func (w *Writer) last() byte {
	if len(w.body) == w.room {
		return 0
	}
	return w.body[len(w.body)-1]
}

func (w *Writer) comma() {
	if c := w.last(); c != '{' && c != '[' {
		w.body = append(w.body, ',')
	}
}

// value begins a value: the member of a structure with its name, or the element of a
// list.
func (w *Writer) value(s *smithy.Schema) {
	if w.depth == 0 || w.last() == ':' {
		return
	}
	w.comma()
	if w.lists>>w.depth&1 == 0 {
		w.name(s)
	}
}

func (w *Writer) name(s *smithy.Schema) {
	w.body = append(append(append(w.body, '"'), s.MemberName()...), '"', ':')
}

func (w *Writer) open(bracket byte) {
	w.body = append(w.body, bracket)
	if w.depth++; w.depth > maxDepth {
		w.odd = true
		return
	}
	w.lists &^= 1 << w.depth
	if bracket == '[' {
		w.lists |= 1 << w.depth
	}
}

// end closes a container. A name without a value is left by a nil attribute.
func (w *Writer) end(bracket byte) {
	w.odd = w.odd || w.last() == ':'
	w.depth--
	w.body = append(w.body, bracket)
}

// WriteStruct begins a structure.
func (w *Writer) WriteStruct(s *smithy.Schema) { w.value(s); w.open('{') }

// CloseStruct ends it.
func (w *Writer) CloseStruct() { w.end('}') }

// WriteMap begins a map.
func (w *Writer) WriteMap(s *smithy.Schema) { w.value(s); w.open('{') }

// CloseMap ends it.
func (w *Writer) CloseMap() { w.end('}') }

// WriteKey writes a key of a map.
func (w *Writer) WriteKey(_ *smithy.Schema, key string) {
	w.odd = w.odd || w.last() == ':'
	w.comma()
	w.body = append(direct.AppendText(w.body, key), ':')
}

// WriteList begins a list.
func (w *Writer) WriteList(s *smithy.Schema) { w.value(s); w.open('[') }

// CloseList ends it.
func (w *Writer) CloseList() { w.end(']') }

// WriteUnion begins an attribute with its type.
func (w *Writer) WriteUnion(s, variant *smithy.Schema) {
	w.value(s)
	w.open('{')
	w.name(variant)
}

// CloseUnion ends it.
func (w *Writer) CloseUnion() { w.end('}') }

// WriteString writes a string.
func (w *Writer) WriteString(s *smithy.Schema, v string) {
	w.value(s)
	w.body = direct.AppendText(w.body, v)
}

// WriteBool writes a boolean.
func (w *Writer) WriteBool(s *smithy.Schema, v bool) {
	w.value(s)
	w.body = strconv.AppendBool(w.body, v)
}

// WriteBlob writes bytes.
func (w *Writer) WriteBlob(s *smithy.Schema, v []byte) {
	w.odd = w.odd || v == nil
	w.value(s)
	w.body = append(base64.StdEncoding.AppendEncode(append(w.body, '"'), v), '"')
}

// WriteNil and the methods below write what no request here has.
func (w *Writer) WriteNil(*smithy.Schema) { w.odd = true }

// WriteInt8 is one of them.
func (w *Writer) WriteInt8(*smithy.Schema, int8) { w.odd = true }

// WriteInt16 is one of them.
func (w *Writer) WriteInt16(*smithy.Schema, int16) { w.odd = true }

// WriteInt32 is one of them.
func (w *Writer) WriteInt32(*smithy.Schema, int32) { w.odd = true }

// WriteInt64 is one of them.
func (w *Writer) WriteInt64(*smithy.Schema, int64) { w.odd = true }

// WriteFloat32 is one of them.
func (w *Writer) WriteFloat32(*smithy.Schema, float32) { w.odd = true }

// WriteFloat64 is one of them.
func (w *Writer) WriteFloat64(*smithy.Schema, float64) { w.odd = true }

// WriteBigInt is one of them.
func (w *Writer) WriteBigInt(*smithy.Schema, *big.Int) { w.odd = true }

// WriteBigFloat is one of them.
func (w *Writer) WriteBigFloat(*smithy.Schema, *big.Float) { w.odd = true }

// WriteTime is one of them.
func (w *Writer) WriteTime(*smithy.Schema, time.Time) { w.odd = true }

// WriteDocument is one of them.
func (w *Writer) WriteDocument(*smithy.Schema, document.Value) { w.odd = true }
