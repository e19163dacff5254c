package value

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Size is how many bytes DynamoDB counts for an item: the UTF-8 bytes of its
// attribute names and the sizes of their values.
func Size(item Item) int {
	size := 0
	for name, v := range item {
		size += len(name) + SizeOf(v)
	}
	return size
}

// SizeOf is how many bytes DynamoDB counts for a value: strings and binaries
// their bytes, a number one byte per two significant digits and one or two
// more, booleans and nulls 1, sets their members, lists and maps 3 and one more
// per element.
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

// numberSize expects stored form, where only the zeros at either end, the sign
// and the point are no significant digits.
func numberSize(s string) int {
	if s == "0" {
		return 1
	}
	size := 1
	if len(s) > 0 && s[0] == '-' {
		size = 2
	}
	digits, trailing := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '0' && digits > 0:
			trailing++
		case c >= '1' && c <= '9':
			digits += trailing + 1
			trailing = 0
		}
	}
	return size + (digits+1)/2
}
