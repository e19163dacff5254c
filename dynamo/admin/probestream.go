package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

const ofStream = "stream"

// errNotTried is the result of a trial that needs the answer of one before it.
var errNotTried = errors.New("not tried")

// tryStream makes the trials of a stream, each with what the one before it answered:
// DescribeStream names a shard, GetShardIterator gives an iterator at its end, and
// GetRecords reads nothing or the newest records there, which changes nothing.
func (t *Table) tryStream(ctx context.Context, arn string) []Permission {
	var shard, iterator *string
	trials := []trial{
		{"dynamodb:DescribeStream", ofStream, UseAggregation, func(ctx context.Context) error {
			out, err := t.o.Streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
			if err == nil && out.StreamDescription != nil && len(out.StreamDescription.Shards) > 0 {
				shards := out.StreamDescription.Shards
				shard = shards[len(shards)-1].ShardId
			}
			return err
		}},
		{"dynamodb:GetShardIterator", ofStream, UseAggregation, func(ctx context.Context) error {
			if shard == nil {
				return fmt.Errorf("%w: DescribeStream named no shard", errNotTried)
			}
			out, err := t.o.Streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
				StreamArn: &arn, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeLatest,
			})
			if err == nil {
				iterator = out.ShardIterator
			}
			return err
		}},
		{"dynamodb:GetRecords", ofStream, UseAggregation, func(ctx context.Context) error {
			if iterator == nil {
				return fmt.Errorf("%w: GetShardIterator gave no iterator", errNotTried)
			}
			_, err := t.o.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(1)})
			return err
		}},
	}
	permissions := make([]Permission, len(trials))
	for i, trial := range trials {
		err := t.conn.Translate("check "+trial.action, trial.send(ctx))
		permissions[i] = Permission{trial.action, trial.resource, trial.use, err}
	}
	return permissions
}
