package table

import (
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
)

// Units is consumed capacity, counted in halves because an eventually consistent read costs half a
// unit. Sums of it are exact. Counters add it without a lock, and Go has no atomic float.
type Units int64

// Unit is one unit of capacity: an RCU or a WCU.
const Unit Units = 2 // one RCU or WCU

// Float returns the units in the API's form.
func (u Units) Float() float64 { return float64(u) / float64(Unit) }

// The blocks of AWS: 1 KB for a write, 4 KB for a read ("Provisioned capacity mode", developer
// guide).
const (
	writeBlock = 1024     // bytes that one WCU writes
	readBlock  = 4 * 1024 // bytes that one RCU reads
)

// WriteUnits returns the price of writing an item of so many bytes: the larger of its sizes before
// and after. Even a missing item costs one unit. A delete of a missing item was measured on AWS: it
// costs one unit (deviations_test.go of package differential).
func WriteUnits(bytes int) Units {
	return Unit * Units(max(1, (bytes+writeBlock-1)/writeBlock))
}

// ReadUnits returns the price of reading so many bytes at once. Bytes is the size of whole items,
// whatever the projection returns. A missing item costs as much as a small one. An empty Query is
// billed the minimum too: AWS documents no exception, but DynamoDB Local bills 0. A measurement
// on AWS is still open.
func ReadUnits(bytes int, consistent bool) Units {
	blocks := Units(max(1, (bytes+readBlock-1)/readBlock))
	if consistent {
		return blocks * Unit
	}
	return blocks * Unit / 2
}

// Counters are the sums of a table or an index, by operation. Writers only add, without a lock.
// Every request of a table meets here, so a lock would be one for the whole table. A reader may see
// a request of which the units are not added yet. Sums are exact once the requests have returned.
type Counters [api.BilledOperations]struct{ requests, reads, writes atomic.Int64 } // reads and writes in half units

// Add adds a request that consumed so much.
func (c *Counters) Add(op api.Operation, read bool, u Units) {
	row := &c[op]
	row.requests.Add(1)
	if read {
		row.reads.Add(int64(u))
	} else {
		row.writes.Add(int64(u))
	}
}

// Each calls do with the sums of each operation that has any.
//
// The sums of an operation may be of two instants. A program that needs exact sums waits for its
// requests first.
func (c *Counters) Each(do func(op api.Operation, requests int64, reads, writes Units)) {
	for op := range api.BilledOperations {
		row := &c[op]
		if n := row.requests.Load(); n > 0 {
			do(op, n, Units(row.reads.Load()), Units(row.writes.Load()))
		}
	}
}
