package value

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Encoded strings and binaries end in 0x00 0x01; a zero byte within is written as 0x00 0xff. No
// encoding is therefore a prefix of another, and a string sorts before the longer strings that
// begin with it.
const (
	escape     = 0x00
	terminator = 0x01
	escapedNul = 0xff
)

// First byte of an encoded number; zero is that byte alone.
const (
	keyNegative = 0x00
	keyZero     = 0x01
	keyPositive = 0x02
)

// AppendKey appends an encoding of v. bytes.Compare orders encodings as [Compare] orders values
// of one type. No encoding of a type is a prefix of another, so concatenated encodings still sort
// by their parts. v is a normalised S, N or B: the caller has checked it against the key schema.
// Any other type panics.
//
// The encodings of some keys, in hexadecimal and in their order:
//
//	"a"         61 00 01              -12     00 7c f2 ff
//	"a\x00"     61 00 ff 00 01        0       01
//	"ab"        61 62 00 01           1.5     02 82 10 00
//	"b"         62 00 01              12      02 83 0d 00
//
// The naive encoding of a string has its length before it. Short strings then sort before long
// ones. Without a terminator, a partition key and a sort key could not be told apart once they
// stand behind each other: "a" and "bc" would be "ab" and "c". The naive encoding of a number is
// its text, where 10 sorts before 9. Padded to a fixed width it would sort, and take some 290
// bytes: 126 before the point and 167 behind it.
//
// The tree of a shard compares encodings at each step of a descent. So comparing them must be
// comparing bytes.
func AppendKey(dst []byte, v AV) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS, *types.AttributeValueMemberB:
		return append(AppendKeyPrefix(dst, v), escape, terminator)
	case *types.AttributeValueMemberN:
		var d decimal
		if err := parseDecimal(v.Value, &d); err != nil {
			panic(fmt.Sprintf("value: key %q was not normalised: %v", v.Value, err))
		}
		return d.appendKey(dst)
	}
	panic(fmt.Sprintf("value: %T cannot be a key", v))
}

// AppendKeyPrefix appends the common prefix of the [AppendKey] encodings of all strings (or
// binaries) that begin with v. v is an S or a B: any other type panics.
//
// It is [AppendKey] without the terminator: begins_with on a sort key is a range of the tree. Most
// strings have no zero byte, and are copied whole.
func AppendKeyPrefix(dst []byte, v AV) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		if strings.IndexByte(v.Value, escape) < 0 {
			return append(dst, v.Value...)
		}
		for i := range len(v.Value) {
			dst = appendEscaped(dst, v.Value[i])
		}
		return dst
	case *types.AttributeValueMemberB:
		for _, c := range v.Value {
			dst = appendEscaped(dst, c)
		}
		return dst
	}
	panic(fmt.Sprintf("value: %T has no prefix", v))
}

// appendEscaped writes a byte of a string. 0x00 0xff sorts above the terminator 0x00 0x01. So a
// string sorts before one that goes on with a zero byte.
func appendEscaped(dst []byte, c byte) []byte {
	if c == escape {
		return append(dst, escape, escapedNul)
	}
	return append(dst, c)
}

// appendKey writes the sign, the exponent, the digits in pairs and an end mark that is less than
// any pair. The bytes of a negative number after the sign are complemented, so that the larger
// magnitude sorts first.
//
// The exponent is that of the first digit, so numbers of equal sign and exponent are ordered by
// their digits alone. Its 256 values just fit a byte. A pair is at least 1, so the end mark 0 sorts
// a number before those that go on. An odd last digit is padded with 0; since the last digit is not
// zero, no other number gets the same pairs.
func (d *decimal) appendKey(dst []byte) []byte {
	if d.n == 0 {
		return append(dst, keyZero)
	}
	sign, flip := byte(keyPositive), byte(0)
	if d.neg {
		sign, flip = keyNegative, 0xff
	}
	dst = append(dst, sign, byte(d.exp-minExponent)^flip)
	for i := 0; i < d.n; i += 2 {
		pair := (d.digits[i] - '0') * 10
		if i+1 < d.n {
			pair += d.digits[i+1] - '0'
		}
		dst = append(dst, (pair+1)^flip)
	}
	return append(dst, flip)
}
