// Package catalog holds the tables of a database: it creates, alters, finds and deletes them, fills
// their indexes, and keeps them on disk.
package catalog

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// ErrClosed is returned once the database is closed.
var ErrClosed = errors.New("dynamolite: database is closed")

// Tables are the tables of a database by name. A table is created, altered and deleted between two
// writes, and the log has each of these at its place among the writes. Reading the log from its
// start therefore gives every write the schema that it was made under.
//
// Locks, in this order: mu, altering of a table, the shards of tables, the shards of indexes. The
// registry of streams has a lock that is taken after mu and before that of a stream.
//
// A name leads to at most one table, and a table that was deleted never comes back. A request
// may have found a table that is deleted meanwhile. Its effects are then invisible, and no lock is
// needed to prevent it.
//
// A lock of all names for each request, held to its end, would be the naive design. A deletion
// would wait for all requests, and all later ones for it.
type Tables struct {
	Options

	mu     sync.RWMutex
	byName map[string]*table.Table
	// created is how many tables were made so far; it numbers the next one. A checkpoint has it, so
	// that a number is not used again after a restart.
	created int
	// latest is the position of the last creation or deletion of a table. Each answer depends on
	// it, even "not found": the table that is missing must stay missing after a crash.
	latest journal.Position
	// ledgers are by table name and outlive the table. The bill of a run then includes tables that
	// tests have deleted.
	ledgers map[string]*tableLedger
	closed  bool

	checkpointing atomic.Bool
	// checkpointFailed is the length of the log when a checkpoint failed; 0 if the last one
	// succeeded. Without it, a full disk would be tried again at every check.
	checkpointFailed atomic.Int64
}

// Options are the parts of a database that its tables use.
//
// All but CheckpointAfter and Limits must be set.
type Options struct {
	Log        *history.Log
	Streams    *streams.Registry
	Tokens     *history.Tokens
	Background *Background
	Logger     *slog.Logger
	// Limits makes a meter for a table or an index, or gives the meter that it has another capacity.
	// Nil: no limits.
	Limits func(has *wall.Meter, now time.Time, billing types.BillingMode, p types.ProvisionedThroughput) *wall.Meter
	// Wake tells the sweep for expired items of an expiry, in seconds since 1970.
	Wake func(at int64)
	// Expires is called when a table has got a time to live.
	Expires func()
	// CheckpointAfter is how many bytes of log are worth a checkpoint. Default: 64 MiB.
	CheckpointAfter int64
}

// New returns no tables.
//
// It connects the log to the tables. The log is below the tables and cannot import them.
func New(o Options) *Tables {
	o.CheckpointAfter = cmp.Or(o.CheckpointAfter, checkpointLog)
	ts := &Tables{Options: o, byName: map[string]*table.Table{}, ledgers: map[string]*tableLedger{}}
	ts.Log.Grown, ts.Log.Dropped = ts.checkpointIfDue, ts.reportDropped
	return ts
}

// Close forgets the tables. Later operations return an error. Operations that have found their
// table go on. A closed journal then refuses their writes.
func (ts *Tables) Close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed, ts.byName = true, nil
}

// All returns the tables in no order.
func (ts *Tables) All() []*table.Table {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return slices.Collect(maps.Values(ts.byName))
}

// Find finds a table by the name or ARN in a request, after validating it.
//
// The name is looked up as it is, first. An ARN is never the name of a table, so only a request
// that uses one pays for taking it apart.
//
// The name is validated only if no table has it. The order of AWS is kept: an invalid name is
// reported, and not that its table is missing.
func (ts *Tables) Find(c *api.Call, name *string) (*table.Table, error) {
	least := api.MinNameLength
	if c.Op < api.BilledOperations && aws.ToString(name) == "" {
		least = 1 // so AWS says of operations on items
	}
	switch {
	case name == nil && c.Op < api.BilledOperations:
		return nil, api.Unfit("null", "tableName", "Member must not be null")
	case name == nil:
		return nil, api.Missing("TableName")
	}
	ts.mu.RLock()
	t, ok := ts.byName[*name]
	if !ok {
		name = aws.String(api.PlainTableName(*name))
		t, ok = ts.byName[*name]
	}
	closed := ts.closed
	c.See(ts.latest)
	ts.mu.RUnlock()
	switch {
	case closed:
		return nil, ErrClosed
	case ok:
		c.See(journal.Position(t.Altered.Load()))
		return t, nil
	}
	if err := api.CheckName("tableName", *name, least); err != nil {
		return nil, err
	}
	return nil, api.NotFound(c.Op, *name)
}

// measure gives a table and its indexes meters for the limits of the database, or changes the
// capacity of the meters that they have. A meter that a table has is kept, because it has the
// consumption of the past. The caller holds all shards, or the table is not known yet.
func (ts *Tables) measure(t *table.Table, s *table.Schema) {
	if ts.Limits == nil {
		return
	}
	now := ts.Log.Now()
	measured := func(m **wall.Meter, p types.ProvisionedThroughput) {
		if has := ts.Limits(*m, now, s.Billing, p); *m == nil {
			*m = has
		}
	}
	measured(&t.Meter, s.Capacity)
	for _, x := range s.Indexes {
		if !x.Local {
			measured(&x.Meter, s.IndexCapacity[x.Name])
		}
	}
}

// reportDropped logs that a stream dropped records before they were a day old. Appends hold the
// locks of their items, so it does not wait for the log. A logger may do anything, and must not be
// called under locks.
func (ts *Tables) reportDropped(s *streams.Stream, records int) {
	ts.Background.Go(func() {
		ts.Logger.Warn("stream records were dropped before 24 hours; readers that have not read them miss them: raise StreamBytes, or read sooner",
			"table", s.Table, "stream", s.Label, "records", records, "stream_bytes", ts.Streams.Options.MaxBytes)
	})
}

// tableLedger holds the running sums of all tables that have had one name. Its counters are never
// replaced, so tables add to them without the lock of the map.
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

// openLedgerLocked gives a table and its indexes their counters and meters. The caller holds mu, or
// nobody else knows the tables yet.
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
