package dynamolite

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TransactGetItems reads up to 100 items as of one instant. A missing item is an empty response.
func (db *DB) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	return run(ctx, db, opTransactGetItems, in, (*DB).transactGetItems)
}

func (db *DB) transactGetItems(c *call, in *dynamodb.TransactGetItemsInput) (*dynamodb.TransactGetItemsOutput, error) {
	if err := checkConsumedCapacity(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	gets, err := db.newTransactGet(c, in.TransactItems)
	if err != nil {
		return nil, err
	}
	records, err := transactRead(db, c, gets)
	if err != nil {
		return nil, err
	}
	bs := bills{}
	bytes := 0
	responses := make([]types.ItemResponse, len(gets))
	for i, r := range records {
		b := bs.of(gets[i].table, bill{reads: true, doubled: true})
		b.units += transacted(readUnits(r.bytes(), true))
		bytes += r.bytes()
		if err := c.holds(r.bytes()); err != nil {
			return nil, err
		}
		responses[i].Item = r.image(gets[i].projection)
	}
	if bytes > maxTransactionBytes {
		return nil, validationf("The items of the transaction have %d bytes together, more than %d", bytes, maxTransactionBytes)
	}
	bs.enter(c.op)
	return &dynamodb.TransactGetItemsOutput{Responses: responses, ConsumedCapacity: bs.report(in.ReturnConsumedCapacity)}, nil
}

// newTransactGet validates a transaction. Keys that do not fit their table cancel it.
func (db *DB) newTransactGet(c *call, items []types.TransactGetItem) ([]get, error) {
	if err := checkTransactionSize(len(items)); err != nil {
		return nil, err
	}
	gets := make([]get, len(items))
	reasons := make([]types.CancellationReason, len(items))
	cancelled := false
	seen := make(map[transactKey]bool, len(items))
	for i := range items {
		g, err := db.newTransactedGet(c, items[i].Get)
		reasons[i] = reasonFor(err)
		if _, ok := errors.AsType[*misfitError](err); ok {
			cancelled = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := seenOnce(seen, g.table, g.key.full); err != nil {
			return nil, err
		}
		gets[i] = g
	}
	if cancelled {
		return nil, canceled(reasons)
	}
	return gets, nil
}

func (db *DB) newTransactedGet(c *call, it *types.Get) (g get, err error) {
	if it == nil {
		return g, missing("Get")
	}
	t, err := db.table(c, it.TableName)
	if err != nil {
		return g, err
	}
	if g, err = t.newGet(it.Key, it.ProjectionExpression, it.ExpressionAttributeNames); errors.Is(err, errKeyMismatch) {
		err = &misfitError{errKeyMismatch} // of a read, also a key with too many or too few attributes
	}
	return g, err
}

// transactRead reads all records under all locks. The reads are cancelled if a transaction is
// about to write one of the records, or if the partition of one has no capacity left.
func transactRead(db *DB, c *call, gets []get) ([]*record, error) {
	locks := lockSet(len(gets), func(i int) (*table, *itemKey) { return gets[i].table, &gets[i].key })
	for _, l := range locks {
		s := l.shard()
		s.mu.RLock()
		defer s.mu.RUnlock()
	}
	records := make([]*record, len(gets))
	reasons := make([]types.CancellationReason, len(gets))
	cancelled := false
	var demands []demand
	now := db.now()
	for i := range gets {
		g := &gets[i]
		s := g.table.shard(&g.key)
		c.sees(s.latest)
		records[i] = s.getLocked(g.key.full)
		var err error
		if s.takenLocked(g.key.full) {
			err, cancelled = conflict(), true
		}
		reasons[i] = reasonFor(err)
		if db.limited() {
			ds := []demand{g.table.readDemand(&g.key, transacted(readUnits(records[i].bytes(), true)))}
			if refusals := refusalsOf(now, ds); len(refusals) > 0 {
				reasons[i], cancelled = refusals[0].cancellation(), true
			}
			demands = append(demands, ds...)
		}
	}
	if cancelled {
		return nil, canceled(reasons)
	}
	charge(now, demands)
	return records, nil
}

// shardLock identifies the lock of a table shard.
type shardLock struct {
	table  *table
	number int
}

func (l shardLock) shard() *shard { return &l.table.shards[l.number] }

// lockSet returns the locks that a transaction of n items needs, each once. Every transaction
// takes them in this order: the older table first, then the lower shard.
func lockSet(n int, at func(int) (*table, *itemKey)) []shardLock {
	locks := make([]shardLock, n)
	for i := range locks {
		t, key := at(i)
		locks[i] = shardLock{t, key.shard}
	}
	slices.SortFunc(locks, func(a, b shardLock) int {
		return cmp.Or(cmp.Compare(a.table.number, b.table.number), cmp.Compare(a.number, b.number))
	})
	return slices.Compact(locks)
}
