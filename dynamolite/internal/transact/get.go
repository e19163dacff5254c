package transact

import (
	"cmp"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

// TransactGetItems executes the operation of that name.
//
// The items are read at one instant, so no transaction is seen half done. Each is billed twice a
// consistent read, as AWS documents. The size is checked after the charge: it is known only then.
func (tr *Transactor) TransactGetItems(c *api.Call, in *dynamodb.TransactGetItemsInput) (*dynamodb.TransactGetItemsOutput, error) {
	if err := request.CheckConsumedCapacity(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	gets, err := tr.newTransactGet(c, in.TransactItems)
	if err != nil {
		return nil, err
	}
	records, err := transactRead(tr, c, gets)
	if err != nil {
		return nil, err
	}
	bs := request.Bills{}
	bytes := 0
	responses := make([]types.ItemResponse, len(gets))
	for i, r := range records {
		b := bs.Of(gets[i].Table, request.Bill{Reads: true, Doubled: true})
		b.Units += request.Transacted(table.ReadUnits(r.Bytes(), true))
		bytes += r.Bytes()
		if err := c.Hold(r.Bytes()); err != nil {
			return nil, err
		}
		responses[i].Item = request.Projected(r, gets[i].Projection)
	}
	if bytes > maxTransactionBytes {
		return nil, api.Validationf("The items of the transaction have %d bytes together, more than %d", bytes, maxTransactionBytes)
	}
	bs.Enter(c.Op)
	return &dynamodb.TransactGetItemsOutput{Responses: responses, ConsumedCapacity: bs.Report(in.ReturnConsumedCapacity)}, nil
}

// newTransactGet validates a transaction. Keys that do not fit their table cancel it. The reasons
// are complete: an item without a fault has the reason None. They are of use only if no fault
// refuses the request.
func (tr *Transactor) newTransactGet(c *api.Call, items []types.TransactGetItem) ([]request.Get, error) {
	if err := checkTransactionSize(len(items)); err != nil {
		return nil, err
	}
	gets := make([]request.Get, len(items))
	reasons := make([]types.CancellationReason, len(items))
	cancelled := false
	seen := make(map[request.ItemName]bool, len(items))
	for i := range items {
		g, err := tr.newTransactedGet(c, items[i].Get)
		reasons[i] = reasonFor(err)
		if _, ok := errors.AsType[*api.MisfitError](err); ok {
			cancelled = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := seenOnce(seen, g.Table, g.Key.Full); err != nil {
			return nil, err
		}
		gets[i] = g
	}
	if cancelled {
		return nil, canceled(reasons)
	}
	return gets, nil
}

func (tr *Transactor) newTransactedGet(c *api.Call, it *types.Get) (g request.Get, err error) {
	if it == nil {
		return g, api.Missing("Get")
	}
	t, err := tr.Tables.Find(c, it.TableName)
	if err != nil {
		return g, err
	}
	if g, err = request.NewGet(t, it.Key, it.ProjectionExpression, it.ExpressionAttributeNames); errors.Is(err, storage.ErrKeyMismatch) {
		err = &api.MisfitError{Err: storage.ErrKeyMismatch} // of a read, also a key with too many or too few attributes
	}
	return g, err
}

// transactRead reads all records under all locks. The reads are cancelled if a transaction is about
// to write one of the records, or if the partition of one has no capacity left. AWS cancels the
// reads, too, if they meet a transaction that writes. A plain GetItem does not conflict, and reads
// the item as it was.
//
// Records never change, so the items are decoded after the locks are released.
func transactRead(tr *Transactor, c *api.Call, gets []request.Get) ([]*storage.Record, error) {
	locks := lockSet(len(gets), func(i int) (*table.Table, *storage.ItemKey) { return gets[i].Table, &gets[i].Key })
	for _, l := range locks {
		s := l.shard()
		s.Mu.RLock()
		defer s.Mu.RUnlock()
	}
	records := make([]*storage.Record, len(gets))
	reasons := make([]types.CancellationReason, len(gets))
	cancelled := false
	var demands []request.Demand
	now := tr.Now()
	for i := range gets {
		g := &gets[i]
		s := g.Table.Shard(&g.Key)
		c.See(s.Latest)
		records[i] = s.GetLocked(g.Key.Full)
		var err error
		if s.TakenLocked(g.Key.Full) {
			err, cancelled = api.Conflict(), true
		}
		reasons[i] = reasonFor(err)
		if g.Table.Meter != nil {
			ds := []request.Demand{request.ReadDemand(g.Table, &g.Key, request.Transacted(table.ReadUnits(records[i].Bytes(), true)))}
			if refusals := request.RefusalsOf(now, ds); len(refusals) > 0 {
				reasons[i], cancelled = refusals[0].Cancellation(), true
			}
			demands = append(demands, ds...)
		}
	}
	if cancelled {
		return nil, canceled(reasons)
	}
	request.Charge(now, demands)
	return records, nil
}

// shardLock identifies the lock of a table shard.
//
// Two of them are equal if they are the same lock, so sorting brings duplicates together.
type shardLock struct {
	table  *table.Table
	number int
}

func (l shardLock) shard() *storage.Shard { return &l.table.Shards[l.number] }

// lockSet returns the locks that a transaction of n items needs, each once. Every transaction takes
// them in this order: the older table first, then the lower shard. Without an order, two
// transactions can wait for each other for ever:
//
//	A   lock 1 · wait for 2
//	B   lock 2 · wait for 1
//
// An alteration or a checkpoint locks the shards of a table in their order, and a checkpoint the
// tables in theirs. They fit into the same order.
func lockSet(n int, at func(int) (*table.Table, *storage.ItemKey)) []shardLock {
	locks := make([]shardLock, n)
	for i := range locks {
		t, key := at(i)
		locks[i] = shardLock{t, key.Shard}
	}
	slices.SortFunc(locks, func(a, b shardLock) int {
		return cmp.Or(cmp.Compare(a.table.Number, b.table.Number), cmp.Compare(a.number, b.number))
	})
	return slices.Compact(locks)
}
