package dynamolite_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

const (
	trimHorizon = streamtypes.ShardIteratorTypeTrimHorizon
	latest      = streamtypes.ShardIteratorTypeLatest
	atSequence  = streamtypes.ShardIteratorTypeAtSequenceNumber
	afterNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber
	atTimestamp = streamtypes.ShardIteratorTypeAtTimestamp
)

// streamFixture is a database with a main table that has a stream, and a clock that stands still.
type streamFixture struct {
	*fixture
	now *atomic.Int64 // nanoseconds since 1970
	arn string
}

func newStreamFixture(tb testing.TB, view types.StreamViewType) *streamFixture {
	tb.Helper()
	f := &streamFixture{now: new(atomic.Int64)}
	f.now.Store(time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC).UnixNano())
	f.fixture = &fixture{tb, dynamolite.New(dynamolite.Options{Now: f.time})}
	f.arn = f.create(mainTable, view)
	return f
}

func (f *streamFixture) time() time.Time { return time.Unix(0, f.now.Load()) }

// open opens the database in a directory and continues with it.
func (f *streamFixture) open(dir string) {
	f.t.Helper()
	var err error
	if f.db, err = dynamolite.Open(dynamolite.Options{Dir: dir, Now: f.time}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *streamFixture) pass(d time.Duration) { f.now.Add(int64(d)) }

func streaming(view types.StreamViewType) *types.StreamSpecification {
	return &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: view}
}

// create makes a table like the main one, with a stream, and returns the stream's ARN.
func (f *streamFixture) create(table string, view types.StreamViewType) string {
	f.t.Helper()
	in := mainInput()
	in.TableName, in.StreamSpecification = &table, streaming(view)
	out, err := f.db.CreateTable(f.t.Context(), in)
	if err != nil {
		f.t.Fatal(err)
	}
	return *out.TableDescription.LatestStreamArn
}

func (f *streamFixture) describe() *streamtypes.StreamDescription {
	f.t.Helper()
	out, err := f.db.DescribeStream(f.t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &f.arn})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.StreamDescription
}

// iterator requests an iterator; change, if not nil, changes the request.
func (f *streamFixture) iterator(shard string, from streamtypes.ShardIteratorType, change func(*dynamodbstreams.GetShardIteratorInput)) (*string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &f.arn, ShardId: &shard, ShardIteratorType: from}
	if change != nil {
		change(in)
	}
	out, err := f.db.GetShardIterator(f.t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

// from returns an iterator that must exist.
func (f *streamFixture) from(shard string, from streamtypes.ShardIteratorType) *string {
	f.t.Helper()
	it, err := f.iterator(shard, from, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return it
}

func (f *streamFixture) read(it *string, limit int32) (records []streamtypes.Record, next *string) {
	f.t.Helper()
	out, err := f.db.GetRecords(f.t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it, Limit: &limit})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Records, out.NextShardIterator
}

// records returns all records of the stream, shard by shard.
func (f *streamFixture) records() (all []streamtypes.Record) {
	f.t.Helper()
	for _, sh := range f.describe().Shards {
		page, it := f.read(f.from(*sh.ShardId, trimHorizon), 1000)
		all = append(all, page...)
		for it != nil && len(page) > 0 {
			page, it = f.read(it, 1000)
			all = append(all, page...)
		}
	}
	return all
}

// shardOfA returns the first shard that has a record of the partition "a".
func (f *streamFixture) shardOfA() string {
	f.t.Helper()
	for _, sh := range f.describe().Shards {
		page, _ := f.read(f.from(*sh.ShardId, trimHorizon), 1000)
		for _, r := range page {
			if partition(r) == "a" {
				return *sh.ShardId
			}
		}
	}
	f.t.Fatal("no record of a")
	return ""
}

func partition(r streamtypes.Record) string {
	return r.Dynamodb.Keys["pk"].(*streamtypes.AttributeValueMemberS).Value
}

// plain returns an image in the types of the data plane, for comparison.
func plain(item map[string]streamtypes.AttributeValue) attrs {
	if item == nil {
		return nil
	}
	out := attrs{}
	for name, v := range item {
		out[name] = plainValue(v)
	}
	return out
}

func plainValue(v streamtypes.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *streamtypes.AttributeValueMemberS:
		return str(v.Value)
	case *streamtypes.AttributeValueMemberN:
		return num(v.Value)
	case *streamtypes.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: v.Value}
	case *streamtypes.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Value}
	case *streamtypes.AttributeValueMemberNULL:
		return &types.AttributeValueMemberNULL{Value: v.Value}
	case *streamtypes.AttributeValueMemberSS:
		return strSet(v.Value...)
	case *streamtypes.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: v.Value}
	case *streamtypes.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: v.Value}
	case *streamtypes.AttributeValueMemberL:
		list := &types.AttributeValueMemberL{Value: []types.AttributeValue{}}
		for _, e := range v.Value {
			list.Value = append(list.Value, plainValue(e))
		}
		return list
	case *streamtypes.AttributeValueMemberM:
		return doc(plain(v.Value))
	}
	return nil
}

// wantCode checks for an error of the streams API, wrapped as the SDK's client wraps it.
func wantCode(tb testing.TB, what string, err error, code string) {
	tb.Helper()
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() != code || api.ErrorFault() != smithy.FaultClient {
		tb.Errorf("%s: got %v, want a %s", what, err, code)
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); !ok || op.Service() != dynamodbstreams.ServiceID || op.Operation() == "" {
		tb.Errorf("%s: %v does not name its operation", what, err)
	}
}

func (f *streamFixture) delete(key attrs) {
	f.t.Helper()
	if _, err := f.db.DeleteItem(f.t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}); err != nil {
		f.t.Fatal(err)
	}
}
