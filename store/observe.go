package store

import (
	"context"
	"sync"
	"time"
)

// An OperationKind names a method of a [Store].
type OperationKind string

// The operations of a store.
const (
	OpTake    OperationKind = "take"
	OpRefill  OperationKind = "refill"
	OpCreate  OperationKind = "create"
	OpAdjust  OperationKind = "adjust"
	OpBear    OperationKind = "bear"
	OpGather  OperationKind = "gather"
	OpMerge   OperationKind = "merge"
	OpBuckets OperationKind = "buckets"
	OpLoad    OperationKind = "load"
	OpHold    OperationKind = "hold" // of a [SlotStore], as the next one
	OpSlots   OperationKind = "slots"
	OpSettle  OperationKind = "settle" // of a [OnceStore]
)

// IsWrite reports whether the operation writes to items.
func (k OperationKind) IsWrite() bool { return k != OpBuckets && k != OpLoad && k != OpSlots }

// An Operation is a call of a method of a [Store], as observers see it.
type Operation struct {
	Kind OperationKind
	// Bucket is the bucket item, or the first of several. A [Load] of configuration alone
	// has the entity and resource of the levels that it reads.
	Bucket
	// Items is the number of bucket items that a write writes to; 0 for a read.
	Items int
}

// An OperationResult is how an [Operation] ended. Whoever gets one must not change what it
// refers to.
type OperationResult struct {
	Operation
	// Refused says that the state of an item refused the write, so that nothing was
	// written.
	Refused bool
	// Err is the reason why the store could not find out; nil if it answered.
	Err error
	// Latency is the time that the operation took.
	Latency time.Duration
	// ShardCount is the bucket's number of shards, as far as the answer shows it; 0 if it
	// does not.
	ShardCount int
	// Cost is what the operation cost. It is zero if the store does not tell.
	Cost Cost
	// Keys and Configs are the levels of configuration that a [Load] has read, and what
	// they set; nil where a level sets nothing.
	Keys    []ConfigKey
	Configs []*Config
}

// A Cost is what operations of a store cost.
type Cost struct {
	// Requests is the number of requests that the store sent. The repeats that an SDK's
	// client makes on its own count once.
	Requests int
	// ReadUnits and WriteUnits are consumed capacity units, index writes included.
	ReadUnits, WriteUnits float64
	// Name is the store's own name of the last request, for example "UpdateItem", and
	// Table is the table that it went to.
	Name, Table string
}

// A Bill collects what an operation costs. A limiter that is observed puts one in the
// context of the operation, and a store that knows its costs adds them. It is safe for
// concurrent use. The zero value is an empty bill.
type Bill struct {
	mu   sync.Mutex
	cost Cost
}

type billKey struct{}

// WithBill returns a context whose operations are charged to a bill.
func WithBill(ctx context.Context, b *Bill) context.Context {
	return context.WithValue(ctx, billKey{}, b)
}

// BillOf returns the bill that a context has, nil if it has none.
func BillOf(ctx context.Context) *Bill {
	b, _ := ctx.Value(billKey{}).(*Bill)
	return b
}

// Charge adds the cost of one or more requests.
func (b *Bill) Charge(c Cost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cost.Requests += c.Requests
	b.cost.ReadUnits += c.ReadUnits
	b.cost.WriteUnits += c.WriteUnits
	b.cost.Name, b.cost.Table = c.Name, c.Table
}

// Cost returns the sum of the charges.
func (b *Bill) Cost() Cost {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cost
}
