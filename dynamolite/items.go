package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/transact"
)

// GetItem reads one item. A missing item is not an error: Item is nil. Every read sees all writes
// acknowledged before it; ConsistentRead only doubles the price.
func (db *DB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return run(ctx, db, api.GetItem, db.items, in, (*request.Executor).GetItem)
}

// PutItem stores an item and replaces the item with the same key, if there is one.
func (db *DB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return run(ctx, db, api.PutItem, db.items, in, (*request.Executor).PutItem)
}

// UpdateItem changes attributes of an item. It creates a missing item from the key. Without an
// UpdateExpression it creates the item or leaves it unchanged.
func (db *DB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return run(ctx, db, api.UpdateItem, db.items, in, (*request.Executor).UpdateItem)
}

// DeleteItem removes an item. The removal of a missing item succeeds and costs one unit.
func (db *DB) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return run(ctx, db, api.DeleteItem, db.items, in, (*request.Executor).DeleteItem)
}

// BatchGetItem reads up to 100 items, each separately. When they exceed 16 MB, the keys of the
// rest come back in UnprocessedKeys. Keys whose partition is throttled come back there too. If
// all keys are throttled, the call fails with that error.
func (db *DB) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return run(ctx, db, api.BatchGetItem, db.items, in, (*request.Executor).BatchGetItem)
}

// BatchWriteItem puts and deletes up to 25 items, each separately and without a condition. It
// validates all of them before it writes any. Writes that meet a throttled partition or a
// transaction in progress come back in UnprocessedItems.
func (db *DB) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return run(ctx, db, api.BatchWriteItem, db.items, in, (*request.Executor).BatchWriteItem)
}

// TransactGetItems reads up to 100 items as of one instant. A missing item is an empty response.
func (db *DB) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	return run(ctx, db, api.TransactGetItems, db.transactions, in, (*transact.Transactor).TransactGetItems)
}

// TransactWriteItems applies up to 100 puts, updates, deletes and condition checks, all or none.
// If one fails, the error is a *types.TransactionCanceledException with a reason for each. The
// items are taken from the check of the conditions until all are written. Meanwhile another
// transaction that names one of them is cancelled, and another write gets a
// *types.TransactionConflictException. With a ClientRequestToken, a repetition within ten minutes
// succeeds and changes nothing. Unlike the SDK's client, a DB does not generate a missing token.
func (db *DB) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return run(ctx, db, api.TransactWriteItems, db.transactions, in, func(tr *transact.Transactor, c *api.Call, in *dynamodb.TransactWriteItemsInput) (*dynamodb.TransactWriteItemsOutput, error) {
		return tr.TransactWriteItems(ctx, c, in)
	})
}
