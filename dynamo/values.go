package dynamo

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

type values = map[string]types.AttributeValue

// maxNumbers is how many numbers of a request share their storage. Those of an
// item with some fifteen limits do.
const maxNumbers = 96

// numbers makes the values of a bucket write, which are nearly all numbers, in a
// handful of allocations: one for all the structs and one for all the digits.
type numbers struct {
	values values
	slab   []types.AttributeValueMemberN // never grown: values points into it
	ends   [maxNumbers]uint16            // where in digits the numbers of slab end
	digits []byte
	room   [512]byte
}

// start makes room for n values.
func (s *numbers) start(n int) {
	s.values = make(values, n)
	s.slab = make([]types.AttributeValueMemberN, 0, min(n, maxNumbers))
	s.digits = s.room[:0]
}

func (s *numbers) put(alias string, n int64) {
	i := len(s.slab)
	if i == cap(s.slab) {
		s.values[alias] = schema.N(n)
		return
	}
	s.slab = s.slab[:i+1]
	s.digits = strconv.AppendInt(s.digits, n, 10)
	s.ends[i] = uint16(len(s.digits)) // 96 numbers have less than 2,000 digits
	s.values[alias] = &s.slab[i]
}

// done gives the numbers their digits.
func (s *numbers) done() values {
	digits, begin := string(s.digits), uint16(0)
	for i := range s.slab {
		s.slab[i].Value = digits[begin:s.ends[i]]
		begin = s.ends[i]
	}
	return s.values
}
