package table

import (
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
)

// Counters are the sums of a table or an index, by operation. Writers only add, without a lock.
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
func (c *Counters) Each(do func(op api.Operation, requests int64, reads, writes Units)) {
	for op := range api.BilledOperations {
		row := &c[op]
		if n := row.requests.Load(); n > 0 {
			do(op, n, Units(row.reads.Load()), Units(row.writes.Load()))
		}
	}
}
