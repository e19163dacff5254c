package stream

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A reader reads from the beginning of rest what DynamoDB sends: JSON without spaces. Once
// something is odd it reads nothing that counts.
type reader struct {
	rest string
	odd  bool
}

// skip reads a text if it is the next one.
func (r *reader) skip(text string) bool {
	rest, ok := strings.CutPrefix(r.rest, text)
	r.rest = rest
	return ok
}

// expect reads a text.
func (r *reader) expect(text string) { r.odd = !r.skip(text) || r.odd }

// object reads an object. It calls value for each member, to read the member's value.
func (r *reader) object(value func(name string)) {
	r.expect("{")
	for first := true; !r.odd && !r.skip("}"); first = false {
		if !first {
			r.expect(",")
		}
		name := r.text()
		r.expect(":")
		value(name)
	}
}

// text reads a string without escapes.
func (r *reader) text() string {
	r.expect(`"`)
	return r.tail()
}

// tail reads the rest of a string and the quote at its end.
func (r *reader) tail() string {
	for i := range len(r.rest) {
		switch c := r.rest[i]; {
		case c == '"':
			text := r.rest[:i]
			r.rest = r.rest[i+1:]
			return text
		case c == '\\' || c < ' ':
			r.odd = true
			return ""
		}
	}
	r.odd = true
	return ""
}

// attribute reads the value of an attribute. It is empty if it is of a type that a
// [schema.Scalar] does not have.
func (r *reader) attribute() (v schema.Scalar) {
	switch {
	case r.skip(`{"N":"`):
		v = schema.Scalar{Kind: schema.Number, Text: r.tail()}
	case r.skip(`{"S":"`):
		v = schema.Scalar{Kind: schema.String, Text: r.tail()}
	case r.skip(`{"BOOL":true`):
		v.Kind = schema.True
	default:
		r.value()
		return v
	}
	r.expect("}")
	return v
}

// value reads any value and returns its text.
func (r *reader) value() string {
	depth, inString := 0, false
	for i := 0; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 1:
			depth--
		case c == '}' || c == ']':
			text := r.rest[:i+1]
			r.rest = r.rest[i+1:]
			return text
		}
	}
	r.odd = true
	return ""
}

// number reads a number.
func (r *reader) number() float64 {
	end := strings.IndexAny(r.rest, ",}")
	if end < 0 {
		r.odd = true
		return 0
	}
	n, err := strconv.ParseFloat(r.rest[:end], 64)
	r.odd, r.rest = r.odd || err != nil, r.rest[end:]
	return n
}

// integer reads a whole number, which a float64 holds.
func (r *reader) integer() int64 {
	const most = 1 << 53
	n := r.number()
	r.odd = r.odd || n != math.Trunc(n) || math.Abs(n) > most
	return int64(n)
}

// seconds reads an instant in whole seconds since the Unix epoch.
func (r *reader) seconds() time.Time { return time.Unix(r.integer(), 0).UTC() }
