package dynamo

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Usage is the cost of a number of requests.
type Usage struct {
	Requests int64 // sent; the repeats that an SDK client makes on its own count once
	Failed   int64 // the requests among them that returned an error
	// RCU and WCU are consumed capacity units, index writes included.
	RCU, WCU float64
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Requests + v.Requests, u.Failed + v.Failed, u.RCU + v.RCU, u.WCU + v.WCU}
}

// Totals are the costs of requests by operation, for example "UpdateItem".
type Totals map[string]Usage

// Sum returns the cost of all operations together.
func (t Totals) Sum() Usage {
	var sum Usage
	for _, u := range t {
		sum = sum.plus(u)
	}
	return sum
}

// Sub returns what was added to t since earlier. Operations without a request since
// then are left out.
func (t Totals) Sub(earlier Totals) Totals {
	diff := Totals{}
	for op, u := range t {
		e := earlier[op]
		if d := u.plus(Usage{-e.Requests, -e.Failed, -e.RCU, -e.WCU}); d.Requests != 0 {
			diff[op] = d
		}
	}
	return diff
}

// A Meter is an [API] that counts the requests that go through it. It asks for consumed
// capacity with every request, on a copy of the caller's input, and returns answers
// unchanged. It is safe for concurrent use.
//
// The answer to a failed condition carries no consumed capacity. The meter charges by
// DynamoDB's rule: one write unit for each started KB of the item that failed the
// condition, at least one. The item's size is known if the request asked for the item;
// otherwise the meter charges one unit. It charges a cancelled transaction two units
// for each action, the cost of the smallest items.
type Meter struct {
	api API

	mu     sync.Mutex
	totals Totals
}

var _ API = (*Meter)(nil)

// NewMeter returns a meter of the requests to api, at zero.
func NewMeter(api API) *Meter { return &Meter{api: api, totals: Totals{}} }

// Totals returns the counts so far.
func (m *Meter) Totals() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.totals)
}

const (
	readUnits  = true
	writeUnits = false
)

// count adds one request. read tells the kind of the units in consumed.
func (m *Meter) count(op string, read bool, err error, consumed ...*types.ConsumedCapacity) {
	u := Usage{Requests: 1}
	if err != nil {
		u.Failed, u.WCU = 1, failureUnits(err)
	}
	for _, c := range consumed {
		switch {
		case c == nil || c.CapacityUnits == nil:
		case c.ReadCapacityUnits != nil || c.WriteCapacityUnits != nil:
			u.RCU += value(c.ReadCapacityUnits)
			u.WCU += value(c.WriteCapacityUnits)
		case read:
			u.RCU += *c.CapacityUnits
		default:
			u.WCU += *c.CapacityUnits
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.totals[op] = m.totals[op].plus(u)
}

func value(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

// failureUnits returns the cost of a write that a condition refused.
func failureUnits(err error) float64 {
	const kb, transactional = 1024, 2
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		return float64(max(1, (itemSize(failed.Item)+kb-1)/kb))
	}
	return float64(transactional * len(conn.Cancellation(err)))
}

// itemSize returns the size of an item by DynamoDB's rules, in bytes.
func itemSize(it item) int {
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
		n = container + element*len(v.Value) + itemSize(v.Value)
	default: // BOOL, NULL
		n = 1
	}
	return n
}

// numberSize is one byte for each pair of digits from the first significant digit to
// the last, one for the exponent, and one for a sign. Pairs are counted from the
// decimal point.
func numberSize(s string) int {
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

func pointers(consumed []types.ConsumedCapacity) []*types.ConsumedCapacity {
	all := make([]*types.ConsumedCapacity, len(consumed))
	for i := range consumed {
		all[i] = &consumed[i]
	}
	return all
}

// Immediate reports whether the API behind the meter says that it never waits.
func (m *Meter) Immediate() bool {
	api, ok := m.api.(store.ImmediateStore)
	return ok && api.Immediate()
}
