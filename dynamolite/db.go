package dynamolite

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
)

// Options configures a [DB]. The zero value is a database in memory without limits.
type Options struct {
	// Dir is where the data is kept. What an operation has acknowledged is then on disk, and what a
	// read has returned too: neither is lost when the process is killed or the machine loses power. One
	// process uses a directory at a time. Default: none, the data is held in memory and is gone when the process ends.
	Dir string
	// Now tells the time: of a table's creation, of stream records, of the expiry of items, of what partitions have
	// left, and of the ten minutes for which a transaction's token is remembered. Default: time.Now.
	Now func() time.Time
	// Logger is told what no operation can return: what recovery cut off, a checkpoint that
	// failed. Default: nobody is.
	Logger *slog.Logger
	// Limits throttle as DynamoDB does. Default: none.
	Limits Limits
	// Latency is how long requests take beyond their work. Default: nothing.
	Latency Latency
	// SweepInterval is the time between two sweeps for expired items, counted from when the first table got a time to
	// live. A sweep in which no item has expired is left out. Without Now, the database may notice ten minutes late
	// that the machine's clock was set forward. Default: a minute; on AWS an item may outlive its expiry by days.
	SweepInterval time.Duration

	checkpointAfter int64 // bytes of log; default: checkpointLog
}

// DB is a database with the data plane of DynamoDB. Make one with [New] or [Open]. All methods are
// safe for concurrent use.
//
// A database in memory blocks on nothing but the locks of other calls, and starts a goroutine only
// when a table gets a time to live or another index, so it may live inside a testing/synctest bubble; end it
// there with [DB.Close].
//
// An operation whose context is already done returns its error, wrapped in *smithy.CanceledError, and applies nothing.
// Every error is a *smithy.OperationError around the error type that the SDK's client would return;
// inspect it with errors.As.
type DB struct {
	now     func() time.Time
	logger  *slog.Logger
	journal *journal.Journal // nil: in memory
	order   order            // of writes, without a journal
	limits  Limits
	streams *streamRegistry
	tokens  tokens

	latencies *latencies // nil: none

	mu      sync.RWMutex // taken before the locks of tables
	tables  map[string]*table
	created int                     // tables made so far; numbers the next one
	latest  position                // of what made or deleted a table
	ledgers map[string]*tableLedger // by table name; outlives the table
	closed  bool

	closing       sync.Once
	stopping      chan struct{} // closed by Close
	life          sync.Mutex    // guards background against its beginning to wait; a leaf
	background    sync.WaitGroup
	checkpointing atomic.Bool
	// checkpointFailed is how long the log was when a checkpoint failed; 0: the last did not.
	checkpointFailed atomic.Int64
	sweeper          sweeper
	// checkpointAfter is how many bytes of log are worth a checkpoint.
	checkpointAfter int64
}

// New returns an empty database in memory. It panics if the options are not valid or name a
// directory: use [Open] for those.
func New(o Options) *DB {
	if o.Dir != "" {
		panic("dynamolite: New makes databases in memory; use Open for one in a directory")
	}
	db, err := newDB(o)
	if err != nil {
		panic(err)
	}
	return db
}

func newDB(o Options) (*DB, error) {
	if err := errors.Join(o.Limits.validate(), o.Latency.validate()); err != nil {
		return nil, err
	}
	if o.SweepInterval < 0 {
		return nil, &OptionError{Option: "SweepInterval", Value: o.SweepInterval.String(), Problem: "is negative; 0 is a minute"}
	}
	polls := o.Now != nil
	if !polls {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{
		now:    o.Now,
		logger: o.Logger,
		limits: o.Limits,

		latencies: o.Latency.sampler(),

		tables:   map[string]*table{},
		ledgers:  map[string]*tableLedger{},
		stopping: make(chan struct{}),

		sweeper:         sweeper{every: cmp.Or(o.SweepInterval, sweepInterval), polls: polls, woken: make(chan struct{}, 1)},
		checkpointAfter: cmp.Or(o.checkpointAfter, checkpointLog),
	}
	db.streams = newStreamRegistry(db.durable)
	return db, nil
}

// Close ends the database: work in the background, and what keeps its directory. Operations that begin
// afterwards return [ErrClosed]; the ledger stays readable. Closing twice is fine, and the second waits for
// the first. An error is about the disk; what was acknowledged is there all the same.
func (db *DB) Close() (err error) {
	db.closing.Do(func() { err = db.close() })
	return err
}

func (db *DB) close() error {
	db.mu.Lock()
	db.closed = true
	db.tables = nil
	db.mu.Unlock()
	db.life.Lock()
	close(db.stopping)
	db.life.Unlock()
	db.background.Wait()
	if db.journal == nil {
		return nil
	}
	return diskError(db.journal.Close())
}

// stopped is ErrClosed once the database is being closed.
func (db *DB) stopped() error {
	select {
	case <-db.stopping:
		return ErrClosed
	default:
		return nil
	}
}

// goes runs work in the background, unless the database is closed. The work ends soon after
// stopping is closed, and Close waits for it.
func (db *DB) goes(work func()) {
	db.life.Lock()
	defer db.life.Unlock()
	if db.stopped() == nil {
		db.background.Go(work)
	}
}

// call is one operation under way.
type call struct {
	op operation
	// seen is the latest write that the answer depends on, the operation's own included. The answer
	// is not given before that write is on disk.
	seen position
}

// sees notes a write that the answer depends on.
func (c *call) sees(pos position) { c.seen = max(c.seen, pos) }

// seesAll is for answers that depend on the database as a whole, and are rare.
func (c *call) seesAll(db *DB) {
	if db.journal != nil {
		c.sees(db.journal.Appended())
	}
}

// run is what all operations have in common: the context is looked at first, a nil input means an
// empty one, the answer waits for what it depends on, and an error names the operation.
func run[In, Out any](ctx context.Context, db *DB, op operation, in *In, do func(*DB, *call, *In) (*Out, error)) (*Out, error) {
	if err := ctx.Err(); err != nil {
		return nil, operationError(op, &smithy.CanceledError{Err: err})
	}
	if err := db.stopped(); err != nil {
		return nil, operationError(op, err)
	}
	if in == nil {
		in = new(In)
	}
	before, after := db.latencies.next()
	if err := wait(ctx, before); err != nil {
		return nil, operationError(op, canceledOr(err))
	}
	c := call{op: op}
	out, err := do(db, &c, in)
	if db.journal != nil {
		if lost := db.journal.Wait(c.seen); lost != nil {
			err = diskError(lost)
		}
	}
	if late := wait(ctx, after); late != nil {
		err = canceledOr(late)
	}
	if err != nil {
		return nil, operationError(op, err)
	}
	return out, nil
}

// table finds a table by the name in a request. The name is checked first.
func (db *DB) table(c *call, name *string) (*table, error) {
	if name == nil {
		return nil, missing("TableName")
	}
	db.mu.RLock()
	t, ok := db.tables[*name]
	closed := db.closed
	c.sees(db.latest)
	db.mu.RUnlock()
	switch {
	case closed:
		return nil, ErrClosed
	case ok:
		c.sees(position(t.altered.Load()))
		return t, nil
	}
	if err := checkTableName(*name); err != nil {
		return nil, err
	}
	return nil, notFound(*name)
}
