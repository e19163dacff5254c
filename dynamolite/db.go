package dynamolite

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

// Options configures a [DB]. The zero value is a database in memory without limits.
type Options struct {
	// Dir is the directory of the data. Acknowledged operations are then on disk, and so
	// is everything that a read has returned. Neither is lost when the process is killed
	// or the machine loses power. One process uses a directory at a time. Default: none;
	// the data is in memory and is gone when the process ends.
	Dir string
	// Now returns the time. The engine uses it for a table's creation, stream records, the expiry
	// of items and the capacity that partitions have left. It also ends the ten minutes for which
	// a transaction's token is remembered. Default: time.Now.
	Now func() time.Time
	// Logger receives what no operation can return: data that recovery cut off, a checkpoint that
	// failed, and stream records that were dropped early. Default: discard.
	Logger *slog.Logger
	// Limits throttles requests as DynamoDB does. Default: no limits.
	Limits Limits
	// Latency is how long requests take beyond their work. Default: nothing.
	Latency Latency
	// SweepInterval is the time between two sweeps for expired items, counted from when the first table got a time to
	// live. A sweep in which no item has expired is left out. Without Now, the database may notice ten minutes late
	// that the machine's clock was set forward. Default: a minute; on AWS an item may outlive its expiry by days.
	SweepInterval time.Duration
	// StreamBytes limits the records that the stream of each table keeps in memory and on disk:
	// their size, and 128 bytes for each. Beyond it the stream drops the oldest records although
	// they are younger than 24 hours, and Logger is told so, at most once a minute. A reader that
	// has not read them gets a TrimmedDataAccessException. Default: 256 MiB.
	StreamBytes int64

	checkpointAfter int64 // bytes of log; default: checkpointLog
}

const defaultStreamBytes = 256 << 20

// DB is a database with the data plane of DynamoDB. Make one with [New] or [Open]. All methods are
// safe for concurrent use.
//
// A database in memory blocks only on the locks of other calls. It starts a goroutine only when a
// table gets a time to live or another index, and to log that a stream dropped records. It may therefore live inside a testing/synctest
// bubble; end it there with [DB.Close].
//
// An operation whose context is already done applies nothing and returns the context's error,
// wrapped in *smithy.CanceledError.
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
	latest  position                // position of the last creation or deletion of a table
	ledgers map[string]*tableLedger // by table name; outlives the table
	closed  bool

	closing       sync.Once
	stopping      chan struct{} // closed by Close
	life          sync.Mutex    // guards background: nothing is added once Close waits for it; a leaf
	background    sync.WaitGroup
	checkpointing atomic.Bool
	// checkpointFailed is the length of the log when a checkpoint failed; 0 if the last one
	// succeeded.
	checkpointFailed atomic.Int64
	sweeper          sweeper
	// checkpointAfter is how many bytes of log are worth a checkpoint.
	checkpointAfter int64
}

// New returns an empty database in memory. It panics if the options are not valid or name a
// directory. For a directory, use [Open].
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
		return nil, &OptionError{Option: "SweepInterval", Value: o.SweepInterval.String(), Problem: "is negative; 0 means one minute"}
	}
	if o.StreamBytes < 0 {
		return nil, &OptionError{Option: "StreamBytes", Value: strconv.FormatInt(o.StreamBytes, 10), Problem: "is negative; 0 means 256 MiB"}
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
	db.streams = newStreamRegistry(db.durable, stream.Options{MaxBytes: cmp.Or(o.StreamBytes, defaultStreamBytes)})
	return db, nil
}

// Close ends the database: it stops background work and releases the directory. Operations that
// begin afterwards return [ErrClosed]; the ledger stays readable. Closing twice is allowed, and
// the second call waits for the first. An error is about the disk; acknowledged writes are safe
// all the same.
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

// Err returns the reason for which the database answers no operation: [ErrClosed], or
// [ErrDiskFailed], wrapped with the error of the disk. It is nil while the database works.
func (db *DB) Err() error {
	if err := db.stopped(); err != nil || db.journal == nil {
		return err
	}
	return diskError(db.journal.Err())
}

// stopped returns ErrClosed once the database is being closed.
func (db *DB) stopped() error {
	select {
	case <-db.stopping:
		return ErrClosed
	default:
		return nil
	}
}

// goes runs work in the background, unless the database is closed. The work must end soon after
// stopping is closed; Close waits for it.
func (db *DB) goes(work func()) {
	db.life.Lock()
	defer db.life.Unlock()
	if db.stopped() == nil {
		db.background.Go(work)
	}
}

// call is one operation in progress.
type call struct {
	op operation
	// seen is the latest write that the answer depends on, including the operation's own. The
	// engine answers only after that write is on disk.
	seen position
	// answer counts what an HTTP answer will hold; nil in process.
	answer *exchange
}

// holds counts an item or a stream record of the answer. It fails if too much is in flight.
func (c *call) holds(bytes int) error {
	if c.answer == nil {
		return nil
	}
	return c.answer.answerBytes(bytes)
}

// sees records a write that the answer depends on.
func (c *call) sees(pos position) { c.seen = max(c.seen, pos) }

// seesAll is for rare answers that depend on the whole database.
func (c *call) seesAll(db *DB) {
	if db.journal != nil {
		c.sees(db.journal.Appended())
	}
}

// run is the part that all operations share. It checks the context first and treats a nil input
// as an empty one. It waits for everything that the answer depends on, and adds the operation's
// name to an error.
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
	c := call{op: op, answer: answerOf(ctx)}
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

// table finds a table by the name or ARN in a request, after validating it.
func (db *DB) table(c *call, name *string) (*table, error) {
	least := minNameLength
	if c.op < operations && aws.ToString(name) == "" {
		least = 1 // so AWS says of operations on items
	}
	switch {
	case name == nil && c.op < operations:
		return nil, unfit("null", "tableName", "Member must not be null")
	case name == nil:
		return nil, missing("TableName")
	}
	db.mu.RLock()
	t, ok := db.tables[*name]
	if !ok {
		name = aws.String(plainTableName(*name))
		t, ok = db.tables[*name]
	}
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
	if err := checkName("tableName", *name, least); err != nil {
		return nil, err
	}
	return nil, notFound(c.op, *name)
}
