package catalog

import "github.com/zeroae/zae-limiter-go/dynamolite/internal/table"

// tableLedger holds the running sums of all tables that have had one name.
type tableLedger struct {
	counters table.Counters
	indexes  map[string]*table.Counters // guarded by Tables.mu; a table keeps pointers to its own counters
}

// EachLedger calls do with the sums of every table and index that there was.
func (ts *Tables) EachLedger(do func(table, index string, c *table.Counters)) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	for name, l := range ts.ledgers {
		do(name, "", &l.counters)
		for index, c := range l.indexes {
			do(name, index, c)
		}
	}
}

// openLedgerLocked gives a table and its indexes their counters and meters.
func (ts *Tables) openLedgerLocked(t *table.Table, s *table.Schema) {
	l, ok := ts.ledgers[t.Name]
	if !ok {
		l = &tableLedger{indexes: map[string]*table.Counters{}}
		ts.ledgers[t.Name] = l
	}
	t.Counters = &l.counters
	ts.measure(t, s)
	for _, x := range s.Indexes {
		x.Counters = l.index(x.Name)
	}
}

func (l *tableLedger) index(name string) *table.Counters {
	c, ok := l.indexes[name]
	if !ok {
		c = &table.Counters{}
		l.indexes[name] = c
	}
	return c
}
