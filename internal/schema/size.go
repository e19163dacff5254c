package schema

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ItemSize returns the size of an item by DynamoDB's rules, in bytes.
func ItemSize(it Item) int {
	n := 0
	for name, v := range it {
		n += len(name) + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) int {
	const container, element = 3, 1
	n := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		n = len(v.Value)
	case *types.AttributeValueMemberN:
		n = numberSize(v.Value)
	case *types.AttributeValueMemberB:
		n = len(v.Value)
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n += numberSize(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			n += len(b)
		}
	case *types.AttributeValueMemberL:
		n = container
		for _, e := range v.Value {
			n += element + valueSize(e)
		}
	case *types.AttributeValueMemberM:
		n = container + element*len(v.Value) + ItemSize(v.Value)
	default: // BOOL, NULL
		n = 1
	}
	return n
}

// numberSize is one byte for each pair of digits from the first significant digit to
// the last, one for the exponent, and one for a sign. Pairs are counted from the
// decimal point.
func numberSize(s string) int {
	if size := wholeSize(s); size > 0 {
		return size
	}
	mantissa, exponent, _ := strings.Cut(strings.ToUpper(s), "E")
	shift, _ := strconv.Atoi(exponent) // "" is 0, and DynamoDB returns no other
	size := 1
	if strings.HasPrefix(mantissa, "-") {
		size = 2
	}
	whole, fraction, _ := strings.Cut(strings.TrimLeft(mantissa, "+-"), ".")
	digits := whole + fraction
	first, last := strings.IndexAny(digits, "123456789"), strings.LastIndexAny(digits, "123456789")
	if first < 0 {
		return 1
	}
	pair := func(digit int) int { return (len(whole) - 1 - digit + shift) >> 1 }
	return size + pair(first) - pair(last) + 1
}

// wholeSize is [numberSize] of digits with or without a sign, 0 for anything else. Bucket items
// have only such numbers, and each image is measured.
func wholeSize(s string) int {
	size := 2 // the exponent, and the pair with the last digit
	if s != "" && s[0] == '-' {
		size, s = size+1, s[1:]
	}
	for i := range len(s) {
		if s[i] < '0' || '9' < s[i] {
			return 0
		}
	}
	zeros := 0
	for zeros < len(s) && s[len(s)-1-zeros] == '0' {
		zeros++
	}
	switch {
	case zeros == len(s):
		return min(1, zeros)
	case s[0] == '0':
		return 0
	}
	return size + (len(s)-1)/2 - zeros/2 //nolint:mnd // a byte has two digits
}

// size is the size of the content, as [ItemSize] counts it.
func (v Scalar) size() int {
	switch v.Kind {
	case String:
		return len(v.Text)
	case Number:
		return numberSize(v.Text)
	case True:
	}
	return 1
}
