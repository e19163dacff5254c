package expression

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/direct"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Values are the values of a write by their aliases.
type Values = map[string]types.AttributeValue

// maxNumbers and maxDigits bound the memory for a request's numbers that is not on the
// heap. The numbers of an item with about ten limits fit.
const (
	maxNumbers = 64
	maxDigits  = 1024
)

// longestNumber is the length of the longest 64-bit number.
const longestNumber = 20

// values records the values of a write. It makes the map of them in few allocations: one
// for the structs of all numbers, and one for all digits. It holds no pointer into itself,
// so it stays on its user's stack.
type values struct {
	aliases [maxNumbers]string // of the numbers
	ends    [maxNumbers]uint16 // where in digits the numbers end
	digits  [maxDigits]byte
	numbers int
	used    int // of digits
	texts   []text
	others  []other
}

// A text is a string with its alias.
type text struct {
	alias string
	types.AttributeValueMemberS
}

// Another value is a boolean, or a number that did not fit.
type other struct {
	alias string
	types.AttributeValue
}

func (v *values) number(alias string, n int64) {
	if v.numbers == maxNumbers || v.used+longestNumber > maxDigits {
		v.other(alias, schema.N(n))
		return
	}
	v.used = len(strconv.AppendInt(v.digits[:v.used], n, 10))
	v.aliases[v.numbers], v.ends[v.numbers] = alias, uint16(v.used)
	v.numbers++
}

func (v *values) text(alias, s string) {
	const most = 16 // that most writes have
	if v.texts == nil {
		v.texts = make([]text, 0, most)
	}
	v.texts = append(v.texts, text{alias, types.AttributeValueMemberS{Value: s}})
}

func (v *values) other(alias string, value types.AttributeValue) {
	v.others = append(v.others, other{alias, value})
}

// byAlias returns the values as the SDK takes them.
func (v *values) byAlias() Values {
	m := make(Values, v.numbers+len(v.texts)+len(v.others))
	numbers := make([]types.AttributeValueMemberN, v.numbers)
	digits, begin := string(v.digits[:v.used]), uint16(0)
	for i := range numbers {
		numbers[i].Value = digits[begin:v.ends[i]]
		m[v.aliases[i]], begin = &numbers[i], v.ends[i]
	}
	for i := range v.texts {
		m[v.texts[i].alias] = &v.texts[i].AttributeValueMemberS
	}
	for _, o := range v.others {
		m[o.alias] = o.AttributeValue
	}
	return m
}

// appendJSON appends the values as members of an object.
func (v *values) appendJSON(to []byte) []byte {
	begin, empty := uint16(0), len(to)
	member := func(to []byte, alias string) []byte {
		if len(to) > empty {
			to = append(to, ',')
		}
		return append(append(append(to, '"'), alias...), `":{"`...)
	}
	for i, end := range v.ends[:v.numbers] {
		to = append(member(to, v.aliases[i]), `N":"`...)
		to = append(append(to, v.digits[begin:end]...), `"}`...)
		begin = end
	}
	for i := range v.texts {
		to = append(member(to, v.texts[i].alias), `S":`...)
		to = append(direct.AppendText(to, v.texts[i].Value), '}')
	}
	for _, o := range v.others {
		to = member(to, o.alias)
		switch value := o.AttributeValue.(type) {
		case *types.AttributeValueMemberN:
			to = append(append(append(to, `N":"`...), value.Value...), `"}`...)
		case *types.AttributeValueMemberBOOL:
			to = append(strconv.AppendBool(append(to, `BOOL":`...), value.Value), '}')
		}
	}
	return to
}
