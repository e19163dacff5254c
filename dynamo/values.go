package dynamo

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

type values = map[string]types.AttributeValue

// maxNumbers and maxDigits bound the shared memory for a request's numbers. The numbers
// of an item with about ten limits fit.
const (
	maxNumbers = 64
	maxDigits  = 1024
)

// longestNumber is the length of the longest 64-bit number.
const longestNumber = 20

// numbers makes the values of a bucket write, nearly all of them numbers, in few
// allocations: one for all structs and one for all digits. It holds no pointer into
// itself, so it stays on its user's stack.
type numbers struct {
	values values
	slab   []types.AttributeValueMemberN // never grown: values points into it
	ends   [maxNumbers]uint16            // where in digits the numbers of slab end
	digits [maxDigits]byte
	used   int
}

// start makes room for n values.
func (s *numbers) start(n int) {
	s.values = make(values, n)
	s.slab = make([]types.AttributeValueMemberN, 0, min(n, maxNumbers))
}

func (s *numbers) put(alias string, n int64) {
	i := len(s.slab)
	if i == cap(s.slab) || s.used+longestNumber > maxDigits {
		s.values[alias] = schema.N(n)
		return
	}
	s.slab = s.slab[:i+1]
	s.used = len(strconv.AppendInt(s.digits[:s.used], n, 10))
	s.ends[i] = uint16(s.used)
	s.values[alias] = &s.slab[i]
}

// done gives the numbers their digits.
func (s *numbers) done() values {
	digits, begin := string(s.digits[:s.used]), uint16(0)
	for i := range s.slab {
		s.slab[i].Value = digits[begin:s.ends[i]]
		begin = s.ends[i]
	}
	return s.values
}

// texts makes string values in one allocation, up to its capacity.
type texts []types.AttributeValueMemberS

func (t *texts) value(s string) types.AttributeValue {
	*t = append(*t, types.AttributeValueMemberS{Value: s})
	return &(*t)[len(*t)-1]
}
