package expression

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Values are the values of a write by their aliases.
type Values = map[string]types.AttributeValue

// maxNumbers and maxDigits bound the shared memory for a request's numbers. The numbers
// of an item with about ten limits fit.
const (
	maxNumbers = 64
	maxDigits  = 1024
)

// longestNumber is the length of the longest 64-bit number.
const longestNumber = 20

// values makes the values of a write in few allocations: one for the structs of all
// numbers, one for all digits, and one for the structs of all strings. It holds no
// pointer into itself, so it stays on its user's stack.
type values struct {
	byAlias Values
	numbers []types.AttributeValueMemberN // never grown: byAlias points into it
	ends    [maxNumbers]uint16            // where in digits the numbers end
	digits  [maxDigits]byte
	used    int
	texts   []types.AttributeValueMemberS // never grown: byAlias points into it
}

// start makes room for as many numbers and strings.
func (v *values) start(numbers, texts int) {
	v.byAlias = make(Values, numbers+texts)
	v.numbers = make([]types.AttributeValueMemberN, 0, min(numbers, maxNumbers))
	if texts > 0 {
		v.texts = make([]types.AttributeValueMemberS, 0, texts)
	}
}

func (v *values) number(alias string, n int64) {
	i := len(v.numbers)
	if i == cap(v.numbers) || v.used+longestNumber > maxDigits {
		v.byAlias[alias] = schema.N(n)
		return
	}
	v.numbers = v.numbers[:i+1]
	v.used = len(strconv.AppendInt(v.digits[:v.used], n, 10))
	v.ends[i] = uint16(v.used)
	v.byAlias[alias] = &v.numbers[i]
}

func (v *values) text(s string) types.AttributeValue {
	i := len(v.texts)
	if i == cap(v.texts) {
		return schema.S(s)
	}
	v.texts = append(v.texts, types.AttributeValueMemberS{Value: s})
	return &v.texts[i]
}

// done gives the numbers their digits.
func (v *values) done() Values {
	digits, begin := string(v.digits[:v.used]), uint16(0)
	for i := range v.numbers {
		v.numbers[i].Value = digits[begin:v.ends[i]]
		begin = v.ends[i]
	}
	return v.byAlias
}
