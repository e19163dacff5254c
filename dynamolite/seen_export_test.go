package dynamolite

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/transact"
)

// Unanswered executes an operation without waiting for the disk. It returns the entry of the log
// that the answer would wait for.
func (db *DB) Unanswered(in any) (seen uint64, err error) {
	c := &api.Call{}
	switch in := in.(type) {
	case *dynamodb.GetItemInput:
		_, err = db.items.GetItem(c, in)
	case *dynamodb.PutItemInput:
		_, err = db.items.PutItem(c, in)
	case *dynamodb.DeleteItemInput:
		_, err = db.items.DeleteItem(c, in)
	case *dynamodb.UpdateItemInput:
		_, err = db.items.UpdateItem(c, in)
	case *dynamodb.QueryInput:
		_, err = db.items.Query(c, in)
	case *dynamodb.ScanInput:
		_, err = db.items.Scan(c, in)
	case *dynamodb.BatchGetItemInput:
		_, err = db.items.BatchGetItem(c, in)
	case *dynamodb.TransactGetItemsInput:
		_, err = db.transactions.TransactGetItems(c, in)
	case *dynamodb.TransactWriteItemsInput:
		_, err = db.transactions.TransactWriteItems(context.Background(), c, in)
	case *dynamodb.CreateTableInput:
		_, err = db.tables.CreateTable(c, in)
	case *dynamodb.DescribeTableInput:
		_, err = db.tables.DescribeTable(c, in)
	case *dynamodb.DeleteTableInput:
		_, err = db.tables.DeleteTable(c, in)
	case *dynamodb.ListTablesInput:
		_, err = db.tables.ListTables(c, in)
	case *dynamodb.UpdateTableInput:
		_, err = db.tables.UpdateTable(c, in)
	case *dynamodb.UpdateTimeToLiveInput:
		_, err = db.tables.UpdateTimeToLive(c, in)
	case *dynamodb.DescribeTimeToLiveInput:
		_, err = db.tables.DescribeTimeToLive(c, in)
	case *dynamodb.TagResourceInput:
		_, err = db.tables.TagResource(c, in)
	case *dynamodb.ListTagsOfResourceInput:
		_, err = db.tables.ListTagsOfResource(c, in)
	case *dynamodbstreams.ListStreamsInput:
		_, err = db.streams.ListStreams(c, in)
	case *dynamodbstreams.DescribeStreamInput:
		_, err = db.streams.DescribeStream(c, in)
	default:
		panic(fmt.Sprintf("%T", in))
	}
	return uint64(c.Seen), err
}

// CommitOnce executes a transaction up to the release of its items, before its caller gets the
// answer.
func (db *DB) CommitOnce(token string, items []types.TransactWriteItem) error {
	c := &api.Call{Op: api.TransactWriteItems}
	writes, err := db.transactions.NewTransactWrite(c, items)
	if err != nil {
		return err
	}
	use, _, err := db.transactions.Tokens.Begin(c, token, transact.FingerprintOf(items), db.log.Now())
	if err != nil {
		return err
	}
	_, err = db.transactions.TransactWrite(context.Background(), c, writes, use)
	return err
}
