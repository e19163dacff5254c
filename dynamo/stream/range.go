package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/store"
)

// ErrTrimmed says that a stream no longer has records: it keeps them for 24 hours.
var ErrTrimmed = errors.New("the stream no longer has the records")

// A Range is a part of one shard of a stream, with both ends.
type Range struct {
	ARN, Shard  string
	First, Last string // sequence numbers
}

// Bounds of a read at the tip of a shard, where records that exist may take a moment to
// appear.
const (
	rangePause    = 200 * time.Millisecond
	rangePatience = 25
)

// ReadRange reads all records of a range, in order. It fails with [ErrTrimmed] if the
// stream, its shard or the first record is gone; it then returns no records. It fails
// with a [*store.ValidationError] if the shard has no such range.
func (f *Follower) ReadRange(ctx context.Context, r Range) ([]Record, error) {
	op := fmt.Sprintf("read %s from %s to %s", r.Shard, r.First, r.Last)
	iterator, err := f.rangeStart(ctx, op, r)
	var all []Record
	for empty := 0; err == nil && iterator != nil; {
		var page []streamtypes.Record
		if page, iterator, err = f.rangePage(ctx, op, iterator); err != nil {
			break
		}
		for _, record := range Decode(page) {
			switch order := CompareSequences(record.Sequence, r.Last); {
			case order < 0:
				all = append(all, record)
			case order == 0:
				return append(all, record), nil
			default:
				return all, nil
			}
		}
		if len(page) > 0 {
			empty = 0
			continue
		}
		if empty++; empty == rangePatience {
			return nil, &store.ValidationError{Field: "last sequence number", Value: r.Last, Reason: "the shard " + r.Shard + " has not reached it"}
		}
		err = conn.Sleep(ctx, rangePause)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// rangeStart finds the first record of a range.
func (f *Follower) rangeStart(ctx context.Context, op string, r Range) (*string, error) {
	ctx, cancel := f.conn.Bounded(ctx)
	defer cancel()
	out, err := f.o.Streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &r.ARN, ShardId: &r.Shard, SequenceNumber: &r.First, ShardIteratorType: streamtypes.ShardIteratorTypeAtSequenceNumber,
	})
	if err != nil {
		return nil, f.rangeError(op, err)
	}
	return out.ShardIterator, nil
}

func (f *Follower) rangePage(ctx context.Context, op string, iterator *string) ([]streamtypes.Record, *string, error) {
	ctx, cancel := f.conn.Bounded(ctx)
	defer cancel()
	out, err := f.o.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(int32(f.o.Batch))}) //nolint:gosec // 1000 at most
	if err != nil {
		return nil, nil, f.rangeError(op, err)
	}
	return out.Records, out.NextShardIterator, nil
}

// rangeError translates an error. A stream or shard that is gone has no records either.
func (f *Follower) rangeError(op string, err error) error {
	trimmed, gone := (*streamtypes.TrimmedDataAccessException)(nil), (*streamtypes.ResourceNotFoundException)(nil)
	if errors.As(err, &trimmed) || errors.As(err, &gone) {
		return fmt.Errorf("%s: %w: %w", op, ErrTrimmed, err)
	}
	return f.conn.Translate(op, err)
}
