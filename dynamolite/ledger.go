package dynamolite

import "sync/atomic"

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
	db.mu.RLock()
	defer db.mu.RUnlock()
	l := Ledger{}
	for name, tl := range db.ledgers {
		tl.counters.read(l, LedgerKey{Table: name})
		for index, c := range tl.indexes {
			c.read(l, LedgerKey{Table: name, Index: index})
		}
	}
	return l
}

// tableLedger holds the running sums of all tables that have had one name.
type tableLedger struct {
	counters counters
	indexes  map[string]*counters // guarded by DB.mu; a table keeps pointers to its own counters
}

// openLedgerLocked gives a table and its indexes their counters and meters.
func (db *DB) openLedgerLocked(t *table, s *schema) {
	l, ok := db.ledgers[t.name]
	if !ok {
		l = &tableLedger{indexes: map[string]*counters{}}
		db.ledgers[t.name] = l
	}
	t.counters = &l.counters
	db.measure(t, s)
	for _, x := range s.indexes {
		x.counters = l.index(x.name)
	}
}

func (l *tableLedger) index(name string) *counters {
	c, ok := l.indexes[name]
	if !ok {
		c = &counters{}
		l.indexes[name] = c
	}
	return c
}

// counters are the sums of a table or an index, by operation. Writers only add, without a lock.
type counters [operations]struct{ requests, reads, writes atomic.Int64 } // reads and writes in half units

func (c *counters) add(op operation, read bool, u units) {
	row := &c[op]
	row.requests.Add(1)
	if read {
		row.reads.Add(int64(u))
	} else {
		row.writes.Add(int64(u))
	}
}

func (c *counters) read(into Ledger, key LedgerKey) {
	for op := range operations {
		row := &c[op]
		if n := row.requests.Load(); n > 0 {
			key.Operation = op.String()
			into[key] = Usage{
				Requests:   n,
				ReadUnits:  units(row.reads.Load()).float(),
				WriteUnits: units(row.writes.Load()).float(),
			}
		}
	}
}
