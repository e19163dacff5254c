package schema

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// An Item is an item in the SDK's types.
type Item = map[string]types.AttributeValue

// S is a string attribute.
func S(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// N is a number attribute.
func N(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Bool is a boolean attribute.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func null() types.AttributeValue { return &types.AttributeValueMemberNULL{Value: true} }

// sOrNull writes "" as NULL, as the peer writes None.
func sOrNull(s string) types.AttributeValue {
	if s == "" {
		return null()
	}
	return S(s)
}

// Timestamp is an instant in the form of records: UTC, to the second.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// ParseTimestamp reads the form of [Timestamp] or of a peer, to the second.
func ParseTimestamp(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, err
	}
	return t.UTC().Truncate(time.Second), nil
}

// A Scalar is the content of an attribute.
type Scalar struct {
	Kind Kind
	Text string // a string, or the digits of a number
}

// A Kind is the type of a [Scalar].
type Kind uint8

// The types that matter here. An absent attribute, or one of another type, has Kind 0.
const (
	String Kind = iota + 1
	Number
	True // a boolean that is true
)

// str returns the string, "" for anything else.
func (v Scalar) str() string {
	if v.Kind == String {
		return v.Text
	}
	return ""
}

// integer returns a whole number of 64 bits.
func (v Scalar) integer() (int64, bool) {
	if v.Kind != Number {
		return 0, false
	}
	i, err := strconv.ParseInt(v.Text, 10, 64)
	return i, err == nil
}

// counter returns a whole number of any size, modulo 2^64. A store counts without bound,
// but only the difference of two counts matters. The same wrap-around keeps that difference
// exact.
func (v Scalar) counter() (int64, bool) {
	if n, ok := v.integer(); ok {
		return n, true
	}
	digits, isNegative := strings.CutPrefix(v.Text, "-")
	if v.Kind != Number || digits == "" {
		return 0, false
	}
	var n uint64
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = 10*n + uint64(d-'0')
	}
	if isNegative {
		n = -n
	}
	return int64(n), true
}

// balance returns a whole number of 64 bits, or leastBalance if the number is lower.
func (v Scalar) balance() (int64, bool) {
	n, ok := v.integer()
	if !ok && strings.HasPrefix(v.Text, "-") {
		_, ok = v.counter() // the number is whole, and below the 64-bit range
		n = leastBalance
	}
	return max(n, leastBalance), ok
}

// scalarOf returns the content of an attribute of the data plane.
func scalarOf(v types.AttributeValue) Scalar {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		if v != nil {
			return Scalar{Number, v.Value}
		}
	case *types.AttributeValueMemberS:
		if v != nil {
			return Scalar{String, v.Value}
		}
	case *types.AttributeValueMemberBOOL:
		if v != nil && v.Value {
			return Scalar{Kind: True}
		}
	}
	return Scalar{}
}

// str returns the string in an attribute, "" if it is absent or not a string.
func str(v types.AttributeValue) string { return scalarOf(v).str() }

// whole reads a number attribute with a whole number of any size.
func whole(v types.AttributeValue) (*big.Int, bool) {
	s := scalarOf(v)
	if _, ok := s.counter(); !ok {
		return nil, false
	}
	return new(big.Int).SetString(s.Text, 10) //nolint:mnd // decimal
}

// integer reads a number attribute with a whole number of 64 bits.
func integer(v types.AttributeValue) (int64, bool) { return scalarOf(v).integer() }

// corrupt reports an unreadable attribute of an item.
func corrupt(item Item, attr, reason string) error {
	return &store.CorruptError{Key: KeyOf(item).String(), Attr: attr, Reason: reason}
}

// Set is a set of strings.
func Set(members ...string) types.AttributeValue {
	return &types.AttributeValueMemberSS{Value: members}
}

// Map is a map of attributes; a nil one is empty.
func Map(m Item) types.AttributeValue {
	if m == nil {
		m = Item{}
	}
	return &types.AttributeValueMemberM{Value: m}
}

// Strings is a list of strings.
func Strings(elements ...string) types.AttributeValue {
	list := make([]types.AttributeValue, len(elements))
	for i, e := range elements {
		list[i] = S(e)
	}
	return &types.AttributeValueMemberL{Value: list}
}
