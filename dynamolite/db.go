package dynamolite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/sweep"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/transact"
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
	log        *history.Log
	background *catalog.Background
	latencies  *latencies // nil: none

	streams      *streams.Registry
	tables       *catalog.Tables
	items        *request.Executor
	transactions *transact.Transactor
	sweeper      *sweep.Sweeper

	// closing makes a second Close wait for the first: the journal and the background close once.
	closing sync.Once
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
	log, work := history.New(o.Now), catalog.NewBackground()
	db := &DB{
		log: log, background: work, latencies: o.Latency.sampler(),
		streams: streams.NewRegistry(o.Now, log.Durable, log.ShowAll, stream.Options{MaxBytes: cmp.Or(o.StreamBytes, defaultStreamBytes)}),
		sweeper: sweep.New(log, work, o.SweepInterval, polls),
	}
	to := catalog.Options{
		Log: log, Streams: db.streams, Tokens: &history.Tokens{}, Background: work, Logger: o.Logger,
		Wake: db.sweeper.Wake, Expires: db.sweeper.Start, CheckpointAfter: o.checkpointAfter,
	}
	if o.Limits != (Limits{}) {
		to.Limits = o.Limits.meter
	}
	db.tables = catalog.New(to)
	db.sweeper.Tables = db.tables
	db.items = request.New(db.tables, log, o.Now)
	db.transactions = transact.New(db.items, to.Tokens, db.hold)
	return db, nil
}

// Close ends the database: it stops background work and releases the directory. Operations that
// begin afterwards return [ErrClosed]; the ledger stays readable. Closing twice is allowed, and
// the second call waits for the first. An error is about the disk; acknowledged writes are safe
// all the same.
func (db *DB) Close() (err error) {
	db.closing.Do(func() {
		// The order: operations find no tables any more. Then background work ends, which may still
		// write to the log. The log comes last and puts everything on disk. An operation that
		// already has its table goes on: it gets into the log before that, or ErrClosed from it.
		db.tables.Close()
		db.background.Close()
		err = diskError(db.log.Close())
	})
	return err
}

// Err returns the reason for which the database answers no operation: [ErrClosed], or
// [ErrDiskFailed], wrapped with the error of the disk. It is nil while the database works.
func (db *DB) Err() error {
	if err := db.background.Stopped(); err != nil {
		return err
	}
	return diskError(db.log.Err())
}

// Immediate reports whether operations return without any wait except for each other's short
// critical sections: no I/O and no timer. Callers may then call them where they must not wait.
func (db *DB) Immediate() bool { return !db.log.OnDisk() && db.latencies == nil }

// run is the part that all operations share: on is the part of the database that does the work. It
// checks the context first and treats a nil input as an empty one. It waits for everything that the
// answer depends on, and adds the operation's name to an error.
//
// The wait for the disk follows the work, and comes after a failure as well. A failed condition
// shows an item that another caller may have just written. If a crash took that write back, the
// answer would have been about nothing. The disk's error replaces that of the operation, because
// the operation's result is then not known to last.
func run[On, In, Out any](
	ctx context.Context, db *DB, op api.Operation, on *On, in *In, do func(*On, *api.Call, *In) (*Out, error),
) (*Out, error) {
	if err := ctx.Err(); err != nil {
		return nil, api.Named(op, &smithy.CanceledError{Err: err})
	}
	if err := db.background.Stopped(); err != nil {
		return nil, api.Named(op, err)
	}
	if in == nil {
		in = new(In)
	}
	before, after := db.latencies.next()
	if err := wait(ctx, before); err != nil {
		return nil, api.Named(op, canceledOr(err))
	}
	c := api.NewCall(ctx, op)
	out, err := do(on, c, in)
	if lost := db.log.Wait(c.Seen); lost != nil {
		err = lost
	}
	if late := wait(ctx, after); late != nil {
		err = canceledOr(late)
	}
	if err != nil {
		return nil, api.Named(op, diskError(err))
	}
	return out, nil
}

// hold waits for the time that a transaction spends between its two steps: a second latency.
func (db *DB) hold(ctx context.Context) error {
	before, after := db.latencies.next()
	return canceledOr(wait(ctx, before+after))
}

func canceledOr(err error) error {
	if err != nil {
		return &smithy.CanceledError{Err: err}
	}
	return nil
}

// Open returns the database in Options.Dir in its last state, or an empty database in memory if
// Options.Dir is not set. It creates a missing directory.
//
// Errors: [ErrInUse] if another process or database has the directory open; [ErrDamaged] if the
// files cannot be trusted (nothing has then been changed); an error about the options; or a file
// system error.
func Open(o Options) (*DB, error) {
	db, err := newDB(o)
	if err != nil || o.Dir == "" {
		return db, err
	}
	if err := db.tables.Load(o.Dir); err != nil {
		return nil, fmt.Errorf("open the database in %s: %w", o.Dir, diskError(err))
	}
	return db, nil
}

// Exists reports whether a directory has a database. It opens and changes nothing. A missing
// directory has none.
func Exists(dir string) (bool, error) {
	there, err := journal.Exists(dir)
	if err != nil {
		return false, fmt.Errorf("look for a database in %s: %w", dir, err)
	}
	return there, nil
}

// diskError translates a journal error into an error of the database. The original stays wrapped
// inside, with the place and the remedy.
func diskError(err error) error {
	for _, known := range []struct{ its, ours error }{
		{journal.ErrLocked, ErrInUse}, {journal.ErrDamaged, ErrDamaged}, {journal.ErrFailed, ErrDiskFailed}, {journal.ErrClosed, ErrClosed},
	} {
		if errors.Is(err, known.its) {
			return fmt.Errorf("%w: %w", known.ours, err)
		}
	}
	return err
}
