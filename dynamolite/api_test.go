package dynamolite_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// call is the signature of an operation of the SDK's client.
type call[In, Out, Options any] = func(context.Context, *In, ...func(*Options)) (*Out, error)

type tableAPI interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error)
}

type itemAPI interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

type manyAPI interface {
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactGetItems(context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

type settingsAPI interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	TagResource(context.Context, *dynamodb.TagResourceInput, ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error)
	UntagResource(context.Context, *dynamodb.UntagResourceInput, ...func(*dynamodb.Options)) (*dynamodb.UntagResourceOutput, error)
	ListTagsOfResource(context.Context, *dynamodb.ListTagsOfResourceInput, ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error)
}

type serviceAPI interface {
	DescribeLimits(context.Context, *dynamodb.DescribeLimitsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error)
	DescribeEndpoints(context.Context, *dynamodb.DescribeEndpointsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error)
}

type streamAPI interface {
	ListStreams(context.Context, *dynamodbstreams.ListStreamsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.ListStreamsOutput, error)
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// The engine can replace the SDK's client, so both have these methods.
var (
	_, _ tableAPI = (*dynamodb.Client)(nil), (*dynamolite.DB)(nil)
	_, _ itemAPI  = (*dynamodb.Client)(nil), (*dynamolite.DB)(nil)
	_, _ manyAPI  = (*dynamodb.Client)(nil), (*dynamolite.DB)(nil)

	_, _ settingsAPI = (*dynamodb.Client)(nil), (*dynamolite.DB)(nil)
	_, _ serviceAPI  = (*dynamodb.Client)(nil), (*dynamolite.DB)(nil)
	_, _ streamAPI   = (*dynamodbstreams.Client)(nil), (*dynamolite.DB)(nil)
)

// everyCall calls each operation with an input or, if nilInput, with nil.
func everyCall(db *dynamolite.DB, nilInput bool) map[string]func(context.Context) error {
	item, arn := keyed("a", "b"), "arn:aws:dynamodb:dynamolite:000000000000:table/"+mainTable
	write := types.TransactWriteItem{Put: &types.Put{TableName: ptr(mainTable), Item: item}}
	return map[string]func(context.Context) error{
		"CreateTable":   calling(db.CreateTable, mainInput(), nilInput),
		"DescribeTable": calling(db.DescribeTable, &dynamodb.DescribeTableInput{TableName: ptr(mainTable)}, nilInput),
		"DeleteTable":   calling(db.DeleteTable, &dynamodb.DeleteTableInput{TableName: ptr(mainTable)}, nilInput),
		"ListTables":    calling(db.ListTables, &dynamodb.ListTablesInput{}, nilInput),
		"GetItem":       calling(db.GetItem, &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: item}, nilInput),
		"PutItem":       calling(db.PutItem, &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: item}, nilInput),
		"UpdateItem":    calling(db.UpdateItem, &dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: item}, nilInput),
		"DeleteItem":    calling(db.DeleteItem, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: item}, nilInput),
		"Query": calling(db.Query, &dynamodb.QueryInput{
			TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("a")},
		}, nilInput),
		"BatchGetItem": calling(db.BatchGetItem, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{mainTable: {Keys: []attrs{item}}},
		}, nilInput),
		"BatchWriteItem": calling(db.BatchWriteItem, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{mainTable: {{PutRequest: &types.PutRequest{Item: item}}}},
		}, nilInput),
		"TransactGetItems": calling(db.TransactGetItems, &dynamodb.TransactGetItemsInput{
			TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: ptr(mainTable), Key: item}}},
		}, nilInput),
		"TransactWriteItems": calling(db.TransactWriteItems, &dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{write}, ClientRequestToken: ptr("token"),
		}, nilInput),
		"Scan":        calling(db.Scan, &dynamodb.ScanInput{TableName: ptr(mainTable)}, nilInput),
		"UpdateTable": calling(db.UpdateTable, &dynamodb.UpdateTableInput{TableName: ptr(mainTable), DeletionProtectionEnabled: ptr(true)}, nilInput),
		"UpdateTimeToLive": calling(db.UpdateTimeToLive, &dynamodb.UpdateTimeToLiveInput{
			TableName: ptr(mainTable), TimeToLiveSpecification: &types.TimeToLiveSpecification{Enabled: ptr(true), AttributeName: ptr("ttl")},
		}, nilInput),
		"DescribeTimeToLive": calling(db.DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: ptr(mainTable)}, nilInput),
		"TagResource":        calling(db.TagResource, &dynamodb.TagResourceInput{ResourceArn: &arn, Tags: []types.Tag{{Key: ptr("k"), Value: ptr("v")}}}, nilInput),
		"UntagResource":      calling(db.UntagResource, &dynamodb.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"k"}}, nilInput),
		"ListTagsOfResource": calling(db.ListTagsOfResource, &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn}, nilInput),
		"DescribeLimits":     calling(db.DescribeLimits, &dynamodb.DescribeLimitsInput{}, nilInput),
		"DescribeEndpoints":  calling(db.DescribeEndpoints, &dynamodb.DescribeEndpointsInput{}, nilInput),
		"ListStreams":        calling(db.ListStreams, &dynamodbstreams.ListStreamsInput{}, nilInput),
		"DescribeStream":     calling(db.DescribeStream, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}, nilInput),
		"GetShardIterator": calling(db.GetShardIterator, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: &arn, ShardId: ptr("shardId-00000000000000000000-00000000"), ShardIteratorType: streamtypes.ShardIteratorTypeLatest,
		}, nilInput),
		"GetRecords": calling(db.GetRecords, &dynamodbstreams.GetRecordsInput{ShardIterator: ptr("iterator")}, nilInput),
	}
}

func calling[In, Out, Options any](do call[In, Out, Options], in *In, nilInput bool) func(context.Context) error {
	if nilInput {
		in = nil
	}
	return func(ctx context.Context) error {
		_, err := do(ctx, in)
		return err
	}
}

func TestDoneContextAppliesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range everyCall(f.db, false) {
		err := call(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
		if c, ok := errors.AsType[*smithy.CanceledError](err); !ok || !c.CanceledError() {
			t.Errorf("%s: %v is not a canceled error", name, err)
		}
		if op, ok := errors.AsType[*smithy.OperationError](err); !ok || op.Operation() != name {
			t.Errorf("%s: %v names another operation", name, err)
		}
	}
	if item := f.get(keyed("a", "b")); item != nil {
		t.Errorf("a done context wrote %v", item)
	}
	if u := f.db.Ledger().Total(); u.WriteUnits != 0 {
		t.Errorf("a done context was billed %v", u)
	}
}

func TestClosedDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(keyed("a", "b"))
	for range 2 {
		if err := f.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, call := range everyCall(f.db, false) {
		if err := call(t.Context()); !errors.Is(err, dynamolite.ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
	if u := f.db.Ledger().Total(); u.WriteUnits != 1 {
		t.Errorf("the ledger of a closed database shows %v, want 1 WCU", u)
	}
}

func TestNilInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, call := range everyCall(f.db, true) {
		err := call(t.Context())
		switch name {
		case "ListTables", "ListStreams", "DescribeLimits", "DescribeEndpoints":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantInvalid(t, err, "")
	}
}

func TestUnknownTable(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	for name, call := range everyCall(db, false) {
		switch name {
		case "CreateTable", "ListTables", "ListStreams", "DescribeLimits", "DescribeEndpoints", "GetRecords":
			continue
		}
		err := call(t.Context())
		if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "ResourceNotFoundException" {
			t.Errorf("%s: got %v, want ResourceNotFoundException", name, err)
		}
	}
}

// A database can live in a bubble: its clock is virtual there, and no goroutine outlives the
// test.
func TestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		start := time.Now()
		for range 4 {
			go f.put(keyed("a", "b"))
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		out, err := f.db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: ptr("later"), BillingMode: types.BillingModePayPerRequest,
			KeySchema: schemaOf("id"), AttributeDefinitions: definitionsOf("id:S"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.TableDescription.CreationDateTime.Sub(start); got != time.Hour {
			t.Errorf("the table was created %v after the start, want 1h", got)
		}
	})
}

// changed calls an operation with a valid input after one change to it.
func changed[In, Out any](ctx context.Context, do call[In, Out, dynamodb.Options], in In, change func(*In)) func() error {
	change(&in)
	return func() error {
		_, err := do(ctx, &in)
		return err
	}
}
