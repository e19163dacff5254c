package dynamolite

import (
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// LedgerKey names one row of a [Ledger].
type LedgerKey struct {
	Table     string
	Index     string // the global secondary index, or "" for the table itself
	Operation string // as in the API: "UpdateItem", "Query", …
}

// Usage is the sums in one row of a [Ledger].
type Usage struct {
	Requests   int64   // requests that were billed to this row
	ReadUnits  float64 // RCU
	WriteUnits float64 // WCU
}

func (u Usage) plus(v Usage, sign float64) Usage {
	return Usage{
		Requests:   u.Requests + int64(sign)*v.Requests,
		ReadUnits:  u.ReadUnits + sign*v.ReadUnits,
		WriteUnits: u.WriteUnits + sign*v.WriteUnits,
	}
}

// Ledger is the bill: the capacity that the operations have consumed by AWS's rules. It includes
// failed conditions and cancelled transactions. It excludes requests refused before or during
// their evaluation (validation, unknown table) and the management of tables. An index has a row
// only if it was charged. The table has a row for every request, of 0 units when an index was
// queried.
type Ledger map[LedgerKey]Usage

// Total sums the ledger. Its requests are those of the tables, because a request that also wrote
// to indexes is one request. A request that spans two tables counts once for each.
func (l Ledger) Total() Usage {
	var sum Usage
	for key, u := range l {
		if key.Index != "" {
			u.Requests = 0
		}
		sum = sum.plus(u, 1)
	}
	return sum
}

// Since returns the usage added to the ledger after an earlier reading of it. It leaves out rows
// without a change.
func (l Ledger) Since(earlier Ledger) Ledger {
	added := Ledger{}
	for key, u := range l {
		if u = u.plus(earlier[key], -1); u != (Usage{}) {
			added[key] = u
		}
	}
	return added
}

// Ledger returns the bill of all requests since the database was made, including those to deleted
// tables. A row is consistent as of one instant only while no operation runs.
func (db *DB) Ledger() Ledger {
	l := Ledger{}
	db.tables.EachLedger(func(name, index string, c *table.Counters) {
		c.Each(func(op api.Operation, requests int64, reads, writes table.Units) {
			l[LedgerKey{name, index, op.String()}] = Usage{Requests: requests, ReadUnits: reads.Float(), WriteUnits: writes.Float()}
		})
	})
	return l
}
