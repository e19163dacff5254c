package stream

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/plainjson"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A reader reads the parts of records.
type reader struct{ plainjson.Reader }

// object reads an object. It calls value for each member, to read the member's value.
func (r *reader) object(value func(name string)) {
	r.Expect("{")
	for first := true; !r.Odd && !r.Skip("}"); first = false {
		if !first {
			r.Expect(",")
		}
		name := r.Text()
		r.Expect(":")
		value(name)
	}
}

// attribute reads the value of an attribute. It is empty if it is of a type that a
// [schema.Scalar] does not have.
func (r *reader) attribute() (v schema.Scalar) {
	switch {
	case r.Skip(`{"N":"`):
		v = schema.Scalar{Kind: schema.Number, Text: r.Tail()}
	case r.Skip(`{"S":"`):
		v = schema.Scalar{Kind: schema.String, Text: r.Tail()}
	case r.Skip(`{"BOOL":true`):
		v.Kind = schema.True
	default:
		r.value()
		return v
	}
	r.Expect("}")
	return v
}

// value reads any value and returns its text.
func (r *reader) value() string {
	depth, inString := 0, false
	for i := 0; i < len(r.Rest); i++ {
		switch c := r.Rest[i]; {
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
			text := r.Rest[:i+1]
			r.Rest = r.Rest[i+1:]
			return text
		}
	}
	r.Odd = true
	return ""
}

// number reads a number.
func (r *reader) number() float64 {
	end := strings.IndexAny(r.Rest, ",}")
	if end < 0 {
		r.Odd = true
		return 0
	}
	n, err := strconv.ParseFloat(r.Rest[:end], 64)
	r.Odd, r.Rest = r.Odd || err != nil, r.Rest[end:]
	return n
}

// integer reads a whole number, which a float64 holds.
func (r *reader) integer() int64 {
	const most = 1 << 53
	n := r.number()
	r.Odd = r.Odd || n != math.Trunc(n) || math.Abs(n) > most
	return int64(n)
}

// seconds reads an instant in whole seconds since the Unix epoch.
func (r *reader) seconds() time.Time { return time.Unix(r.integer(), 0).UTC() }
