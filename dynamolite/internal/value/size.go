package value

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Size returns how many bytes DynamoDB counts for an item: the UTF-8 bytes of its attribute names
// and the sizes of their values. The bill and the limits of items, keys and pages are in these
// bytes. They are not the bytes of [Encode], which has lengths and tags.
func Size(item Item) int {
	size := 0
	for name, v := range item {
		size += len(name) + SizeOf(v)
	}
	return size
}

// SizeOf returns how many bytes DynamoDB counts for a value. Strings and binaries count their
// bytes, booleans and nulls 1. A number counts one byte per two significant digits, and one or two
// more. Sets count their members. Lists and maps count 3, and one more per element. The source is
// "DynamoDB item sizes and formats". AWS calls its figure for numbers approximate; numberSize says
// how the pairs are counted here.
func SizeOf(v AV) int {
	size := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return 1
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			size += len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			size += numberSize(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			size += len(b)
		}
	case *types.AttributeValueMemberL:
		size = 3
		for _, e := range v.Value {
			size += 1 + SizeOf(e)
		}
	case *types.AttributeValueMemberM:
		size = 3
		for name, e := range v.Value {
			size += 1 + len(name) + SizeOf(e)
		}
	}
	return size
}

// numberSize expects stored form, which has no exponent. A number takes a byte for each pair of
// digits from the first significant one to the last. Pairs are counted from the decimal point: 12
// has one and 1.5 has two.
//
// A sign takes one more byte, and zero takes one in all. So 15 takes two bytes, 1.5 three and -1.5
// four.
func numberSize(s string) int {
	size := 1
	if len(s) > 0 && s[0] == '-' {
		s, size = s[1:], 2
	}
	point := len(s)
	for i := range len(s) {
		if s[i] == '.' {
			point = i
		}
	}
	first, last := 0, 0 // pairs, from the point; those of the integer part are below 0
	found := false
	for i := range len(s) {
		if s[i] == '.' || s[i] == '0' {
			continue
		}
		at := i - point // the digit before the point is -1, the one after it 1
		if at > 0 {
			at--
		}
		if last = at >> 1; !found {
			first, found = last, true
		}
	}
	if !found {
		return 1
	}
	return size + last - first + 1
}
