package schema

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
)

// An Item is an item as the SDK has it.
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

// Timestamp is an instant as records carry it: UTC, to the second.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// ParseTimestamp reads what [Timestamp] or a peer wrote, to the second.
func ParseTimestamp(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, err
	}
	return t.UTC().Truncate(time.Second), nil
}

// str is the string an attribute holds, "" if it is absent or no string.
func str(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok && s != nil {
		return s.Value
	}
	return ""
}

// integer reads a number attribute that holds a whole number of 64 bits.
func integer(v types.AttributeValue) (int64, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok || n == nil {
		return 0, false
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	return i, err == nil
}

// corrupt says what is wrong with an attribute of an item.
func corrupt(item Item, attr, reason string) error {
	return &limiter.CorruptError{Key: KeyOf(item).String(), Attr: attr, Reason: reason}
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
