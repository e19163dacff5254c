package dynamolite

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/streams"
)

// ListStreams lists streams, at most 100 at a time; for one table, the newest first. A stream
// stays listed for 24 hours after it is disabled or its table is deleted.
func (db *DB) ListStreams(ctx context.Context, in *dynamodbstreams.ListStreamsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.ListStreamsOutput, error) {
	return run(ctx, db, api.ListStreams, db.streams, in, (*streams.Registry).ListStreams)
}

// DescribeStream describes a stream and its shards, at most 100 at a time, the oldest shard
// first.
func (db *DB) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return run(ctx, db, api.DescribeStream, db.streams, in, (*streams.Registry).DescribeStream)
}

// GetShardIterator returns an iterator to read a shard with. It is valid for 15 minutes. A
// sequence number of a record that is gone is a *types.TrimmedDataAccessException. A shard that
// is not listed is a *types.ResourceNotFoundException.
func (db *DB) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return run(ctx, db, api.GetShardIterator, db.streams, in, (*streams.Registry).GetShardIterator)
}

// GetRecords reads a page of a shard: up to 1000 records and 1 MB of them. If there is no
// NextShardIterator, the shard is closed and has been read to its end; its children follow.
// Records that a crash could still undo are not returned. Errors: *types.ExpiredIteratorException
// for an iterator older than 15 minutes, *types.TrimmedDataAccessException if records after it
// are gone, *types.LimitExceededException for a Limit above 1000.
func (db *DB) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return run(ctx, db, api.GetRecords, db.streams, in, (*streams.Registry).GetRecords)
}
