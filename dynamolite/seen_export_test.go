package dynamolite

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// Unanswered executes an operation without waiting for the disk. It returns the entry of the log
// that the answer would wait for.
func (db *DB) Unanswered(in any) (seen uint64, err error) {
	c := &call{}
	switch in := in.(type) {
	case *dynamodb.GetItemInput:
		_, err = db.getItem(c, in)
	case *dynamodb.PutItemInput:
		_, err = db.putItem(c, in)
	case *dynamodb.DeleteItemInput:
		_, err = db.deleteItem(c, in)
	case *dynamodb.UpdateItemInput:
		_, err = db.updateItem(c, in)
	case *dynamodb.QueryInput:
		_, err = db.query(c, in)
	case *dynamodb.ScanInput:
		_, err = db.scan(c, in)
	case *dynamodb.BatchGetItemInput:
		_, err = db.batchGetItem(c, in)
	case *dynamodb.TransactGetItemsInput:
		_, err = db.transactGetItems(c, in)
	case *dynamodb.TransactWriteItemsInput:
		_, err = db.transactWriteItems(context.Background(), c, in)
	case *dynamodb.CreateTableInput:
		_, err = db.createTable(c, in)
	case *dynamodb.DescribeTableInput:
		_, err = db.describeTable(c, in)
	case *dynamodb.DeleteTableInput:
		_, err = db.deleteTable(c, in)
	case *dynamodb.ListTablesInput:
		_, err = db.listTables(c, in)
	case *dynamodb.UpdateTableInput:
		_, err = db.updateTable(c, in)
	case *dynamodb.UpdateTimeToLiveInput:
		_, err = db.updateTimeToLive(c, in)
	case *dynamodb.DescribeTimeToLiveInput:
		_, err = db.describeTimeToLive(c, in)
	case *dynamodb.TagResourceInput:
		_, err = db.tagResource(c, in)
	case *dynamodb.ListTagsOfResourceInput:
		_, err = db.listTagsOfResource(c, in)
	case *dynamodbstreams.ListStreamsInput:
		_, err = db.listStreams(c, in)
	case *dynamodbstreams.DescribeStreamInput:
		_, err = db.describeStream(c, in)
	default:
		panic(fmt.Sprintf("%T", in))
	}
	return uint64(c.seen), err
}

// CommitOnce executes a transaction up to the release of its items, before its caller gets the
// answer.
func (db *DB) CommitOnce(token string, items []types.TransactWriteItem) error {
	c := &call{op: opTransactWriteItems}
	writes, err := db.newTransactWrite(c, items)
	if err != nil {
		return err
	}
	use, _, err := db.tokens.begin(c, token, fingerprintOf(items), db.now())
	if err != nil {
		return err
	}
	_, err = db.transactWrite(context.Background(), c, writes, use)
	return err
}
