package dynamolite

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

func pend[In, Out any](*DB, *call, *In) (*Out, error) {
	return nil, unsupported("this operation", "wait")
}

func (db *DB) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return run(ctx, db, opScan, in, pend[dynamodb.ScanInput, dynamodb.ScanOutput])
}

func (db *DB) UpdateTable(ctx context.Context, in *dynamodb.UpdateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error) {
	return run(ctx, db, opUpdateTable, in, pend[dynamodb.UpdateTableInput, dynamodb.UpdateTableOutput])
}

func (db *DB) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return run(ctx, db, opUpdateTimeToLive, in, pend[dynamodb.UpdateTimeToLiveInput, dynamodb.UpdateTimeToLiveOutput])
}

func (db *DB) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return run(ctx, db, opDescribeTimeToLive, in, pend[dynamodb.DescribeTimeToLiveInput, dynamodb.DescribeTimeToLiveOutput])
}

func (db *DB) TagResource(ctx context.Context, in *dynamodb.TagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	return run(ctx, db, opTagResource, in, pend[dynamodb.TagResourceInput, dynamodb.TagResourceOutput])
}

func (db *DB) UntagResource(ctx context.Context, in *dynamodb.UntagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.UntagResourceOutput, error) {
	return run(ctx, db, opUntagResource, in, pend[dynamodb.UntagResourceInput, dynamodb.UntagResourceOutput])
}

func (db *DB) ListTagsOfResource(ctx context.Context, in *dynamodb.ListTagsOfResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	return run(ctx, db, opListTagsOfResource, in, pend[dynamodb.ListTagsOfResourceInput, dynamodb.ListTagsOfResourceOutput])
}

func (db *DB) DescribeLimits(ctx context.Context, in *dynamodb.DescribeLimitsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error) {
	return run(ctx, db, opDescribeLimits, in, pend[dynamodb.DescribeLimitsInput, dynamodb.DescribeLimitsOutput])
}

func (db *DB) DescribeEndpoints(ctx context.Context, in *dynamodb.DescribeEndpointsInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error) {
	return run(ctx, db, opDescribeEndpoints, in, pend[dynamodb.DescribeEndpointsInput, dynamodb.DescribeEndpointsOutput])
}

func (db *DB) ListStreams(ctx context.Context, in *dynamodbstreams.ListStreamsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.ListStreamsOutput, error) {
	return run(ctx, db, opListStreams, in, pend[dynamodbstreams.ListStreamsInput, dynamodbstreams.ListStreamsOutput])
}

func (db *DB) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return run(ctx, db, opDescribeStream, in, pend[dynamodbstreams.DescribeStreamInput, dynamodbstreams.DescribeStreamOutput])
}

func (db *DB) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return run(ctx, db, opGetShardIterator, in, pend[dynamodbstreams.GetShardIteratorInput, dynamodbstreams.GetShardIteratorOutput])
}

func (db *DB) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return run(ctx, db, opGetRecords, in, pend[dynamodbstreams.GetRecordsInput, dynamodbstreams.GetRecordsOutput])
}

type tableStream struct {
	view       types.StreamViewType
	arn, label string
	created    time.Time
}

func (s *tableStream) append(position, time.Time, uint32, *record, *record, bool) {}
func (s *tableStream) disable(position, time.Time)                                {}

type streamRegistry struct{}

func newStreamRegistry(func() position) *streamRegistry { return nil }

type streamImage struct{}

func (g *streamRegistry) images() []streamImage            { return nil }
func (im *streamImage) write(put func([]byte) error) error { return nil }
func (l *loader) streamPart(string) error                  { return nil }

func (db *DB) restoredStream(t *table, before *schema, state *streamState, at position) *tableStream {
	return nil
}
func (db *DB) startSweeping() {}

func (t *table) newStream(*types.StreamSpecification, time.Time) (*tableStream, error) {
	return nil, nil
}

func newTags([]types.Tag) (map[string]string, error) { return nil, nil }
