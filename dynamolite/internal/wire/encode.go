package wire

import (
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/document"
	"github.com/go-json-experiment/json/jsontext"
)

// An Encoder writes SDK types as JSON from their own descriptions. The zero value is ready. It is
// not safe for concurrent use.
//
// The SDK's shapes call it member by member: see their Serialize methods. The naive design lets a
// json package reflect over the outputs. It would write the Go structure of the union of attribute
// values, and allocate for each of them. This one writes into a single buffer and allocates nothing
// once that has grown.
//
// The calls must nest as JSON does. The SDK's generated code does so; nothing here checks it.
type Encoder struct {
	buf []byte
	// inside has the open containers, the innermost last. It is empty before and after a whole
	// value.
	inside []container
}

// container is the kind of the innermost open container. In a structure the name comes from the
// value's schema. In a map WriteKey has written it, and in a list there is none.
type container byte

const (
	structure container = iota // members have the name in their schema
	mapping                    // names are written by WriteKey
	list
)

var _ smithy.ShapeSerializer = (*Encoder)(nil)

// keptBytes is the largest buffer that an Encoder keeps when it is reset.
const keptBytes = 64 << 10

// Reset empties the encoder. Later writes overwrite the result of Bytes. A buffer that one large
// answer has grown is dropped. Otherwise every encoder would in time hold the largest answer that
// it ever wrote.
func (e *Encoder) Reset() {
	if cap(e.buf) > keptBytes {
		e.buf = nil
	}
	e.buf, e.inside = e.buf[:0], e.inside[:0]
}

// Bytes returns the output. The encoder owns it. It is valid until the next write or Reset.
func (e *Encoder) Bytes() []byte { return e.buf }

// A ModeledError is an error that the API's model describes.
type ModeledError interface {
	error
	ErrorCode() string
	SerializeMembers(smithy.ShapeSerializer)
}

// WriteModeledError writes an error with its members. Kind is the namespace and the code, as in
// "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException".
func (e *Encoder) WriteModeledError(kind string, err ModeledError) {
	e.openError(kind)
	err.SerializeMembers(e)
	e.close('}')
}

// WriteError writes an error that has only a message.
func (e *Encoder) WriteError(kind, message string) {
	e.openError(kind)
	e.name("message")
	e.text(message)
	e.close('}')
}

// openError begins an error, which is a structure with its type as the first member. It is
// outermost and needs no schema: only a value inside a structure has a name.
func (e *Encoder) openError(kind string) {
	e.open(nil, structure, '{')
	e.name("__type")
	e.text(kind)
}

// before writes the text between the previous token and a value: a comma, a name. The last byte
// shows whether a comma is needed: no value or name ends in an opening bracket or a colon,
// because those in strings are inside quotes.
func (e *Encoder) before(s *smithy.Schema) {
	if len(e.inside) > 0 && e.buf[len(e.buf)-1] != ':' {
		if e.inside[len(e.inside)-1] == structure {
			e.name(s.MemberName())
		} else {
			e.comma()
		}
	}
}

// comma separates a value or a name from the one before, if it is not the first in its container.
func (e *Encoder) comma() {
	if last := e.buf[len(e.buf)-1]; last != '{' && last != '[' {
		e.buf = append(e.buf, ',')
	}
}

// name writes the name of a structure's member, which needs no escapes.
func (e *Encoder) name(name string) {
	e.comma()
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, '"', ':')
}

// text writes a string. A caller in this process may have stored bytes that are not UTF-8; they
// become replacement characters. The ignored error reports nothing else.
func (e *Encoder) text(s string) { e.buf, _ = jsontext.AppendQuote(e.buf, s) }

// open begins a container, behind its name if it has one.
func (e *Encoder) open(s *smithy.Schema, c container, bracket byte) {
	e.before(s)
	e.buf = append(e.buf, bracket)
	e.inside = append(e.inside, c)
}

// close ends the innermost container.
func (e *Encoder) close(bracket byte) {
	e.buf = append(e.buf, bracket)
	e.inside = e.inside[:len(e.inside)-1]
}

// WriteStruct begins a structure.
func (e *Encoder) WriteStruct(s *smithy.Schema) { e.open(s, structure, '{') }

// CloseStruct ends a structure.
func (e *Encoder) CloseStruct() { e.close('}') }

// WriteUnion begins a union. Its only member, the variant, is the next value.
func (e *Encoder) WriteUnion(s, variant *smithy.Schema) {
	e.open(s, structure, '{')
	e.name(variant.MemberName())
}

// CloseUnion ends a union.
func (e *Encoder) CloseUnion() { e.close('}') }

// WriteList begins a list.
func (e *Encoder) WriteList(s *smithy.Schema) { e.open(s, list, '[') }

// CloseList ends a list.
func (e *Encoder) CloseList() { e.close(']') }

// WriteMap begins a map.
func (e *Encoder) WriteMap(s *smithy.Schema) { e.open(s, mapping, '{') }

// WriteKey writes the key of the value that comes next.
func (e *Encoder) WriteKey(_ *smithy.Schema, key string) {
	e.comma()
	e.text(key)
	e.buf = append(e.buf, ':')
}

// CloseMap ends a map.
func (e *Encoder) CloseMap() { e.close('}') }

// WriteString writes a string or a member of an enumeration.
func (e *Encoder) WriteString(s *smithy.Schema, v string) {
	e.before(s)
	e.text(v)
}

// WriteBlob writes bytes in base64.
func (e *Encoder) WriteBlob(s *smithy.Schema, v []byte) {
	e.before(s)
	e.buf = append(e.buf, '"')
	e.buf = base64.StdEncoding.AppendEncode(e.buf, v)
	e.buf = append(e.buf, '"')
}

// WriteBool writes a boolean.
func (e *Encoder) WriteBool(s *smithy.Schema, v bool) {
	e.before(s)
	e.buf = strconv.AppendBool(e.buf, v)
}

// WriteInt8 writes an integer.
func (e *Encoder) WriteInt8(s *smithy.Schema, v int8) { e.WriteInt64(s, int64(v)) }

// WriteInt16 writes an integer.
func (e *Encoder) WriteInt16(s *smithy.Schema, v int16) { e.WriteInt64(s, int64(v)) }

// WriteInt32 writes an integer.
func (e *Encoder) WriteInt32(s *smithy.Schema, v int32) { e.WriteInt64(s, int64(v)) }

// WriteInt64 writes an integer.
func (e *Encoder) WriteInt64(s *smithy.Schema, v int64) {
	e.before(s)
	e.buf = strconv.AppendInt(e.buf, v, 10)
}

// WriteFloat32 writes a number.
func (e *Encoder) WriteFloat32(s *smithy.Schema, v float32) { e.WriteFloat64(s, float64(v)) }

// WriteFloat64 writes a number without an exponent; infinities and NaN are written in quotes.
func (e *Encoder) WriteFloat64(s *smithy.Schema, v float64) {
	switch {
	case math.IsNaN(v):
		e.WriteString(s, "NaN")
	case math.IsInf(v, 1):
		e.WriteString(s, "Infinity")
	case math.IsInf(v, -1):
		e.WriteString(s, "-Infinity")
	default:
		e.before(s)
		e.buf = strconv.AppendFloat(e.buf, v, 'f', -1, 64)
	}
}

const perSecond = 1e3 // milliseconds

// WriteTime writes an instant in seconds since 1970, to the millisecond.
func (e *Encoder) WriteTime(s *smithy.Schema, v time.Time) {
	e.WriteFloat64(s, float64(v.UnixMilli())/perSecond)
}

// WriteNil writes null.
func (e *Encoder) WriteNil(s *smithy.Schema) {
	e.before(s)
	e.buf = append(e.buf, "null"...)
}

// WriteBigInt panics: no shape of DynamoDB holds one.
func (e *Encoder) WriteBigInt(s *smithy.Schema, _ *big.Int) { panic(noSuchShape(s)) }

// WriteBigFloat panics: no shape of DynamoDB holds one.
func (e *Encoder) WriteBigFloat(s *smithy.Schema, _ *big.Float) { panic(noSuchShape(s)) }

// WriteDocument panics: no shape of DynamoDB holds one.
func (e *Encoder) WriteDocument(s *smithy.Schema, _ document.Value) { panic(noSuchShape(s)) }

func noSuchShape(s *smithy.Schema) string { return "wire: no encoding for " + s.ID().String() }
