package dynamolite

import (
	"context"
	"sync"
	"time"

	"github.com/aws/smithy-go"
)

// Options configures a [DB]. The zero value works.
type Options struct {
	// Now tells the time: of a table's creation, and of the ten minutes for which a transaction's
	// token is remembered. Default: time.Now.
	Now func() time.Time
}

// DB is an in-memory database with the data plane of DynamoDB. Make one with [New]. All methods are
// safe for concurrent use; none blocks on anything but the locks of other calls, and none starts a
// goroutine, so a DB may live inside a testing/synctest bubble.
//
// An operation whose context is already done returns its error, wrapped in *smithy.CanceledError, and applies nothing.
// Every error is a *smithy.OperationError around the error type that the SDK's client would return;
// inspect it with errors.As.
type DB struct {
	now func() time.Time

	mu      sync.RWMutex
	tables  map[string]*table
	created int                     // tables made so far; numbers the next one
	ledgers map[string]*tableLedger // by table name; outlives the table
	closed  bool

	tokens tokens
}

// New returns an empty database.
func New(o Options) *DB {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	return &DB{
		now:     o.Now,
		tables:  map[string]*table{},
		ledgers: map[string]*tableLedger{},
	}
}

// Close drops all tables. Operations that begin afterwards return [ErrClosed]; the ledger stays
// readable. Closing twice is fine, and the error is always nil.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	db.tables = nil
	return nil
}

// run is what all operations have in common: the context is looked at first, a nil input means an
// empty one, and an error names the operation.
func run[In, Out any](ctx context.Context, db *DB, op operation, in *In, do func(*DB, *In) (*Out, error)) (*Out, error) {
	if err := ctx.Err(); err != nil {
		return nil, operationError(op, &smithy.CanceledError{Err: err})
	}
	if in == nil {
		in = new(In)
	}
	out, err := do(db, in)
	if err != nil {
		return nil, operationError(op, err)
	}
	return out, nil
}

// table finds a table by the name in a request. The name is checked first.
func (db *DB) table(name *string) (*table, error) {
	if name == nil {
		return nil, missing("TableName")
	}
	db.mu.RLock()
	t, ok := db.tables[*name]
	closed := db.closed
	db.mu.RUnlock()
	switch {
	case closed:
		return nil, ErrClosed
	case ok:
		return t, nil
	}
	if err := checkTableName(*name); err != nil {
		return nil, err
	}
	return nil, notFound(*name)
}
