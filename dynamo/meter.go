package dynamo

import (
	"maps"
	"sync"

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

// count adds one request.
func (m *Meter) count(op string, out any, err error) {
	u := Usage{Requests: 1}
	if err != nil {
		u.Failed, u.WCU = 1, conn.FailureUnits(err)
	} else {
		u.RCU, u.WCU = conn.Units(out)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.totals[op] = m.totals[op].plus(u)
}

// Immediate reports whether the API behind the meter says that it never waits.
func (m *Meter) Immediate() bool {
	api, ok := m.api.(store.ImmediateStore)
	return ok && api.Immediate()
}
