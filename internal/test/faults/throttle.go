package faults

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Throttle refuses writes to buckets for which full returns an error, as the table would:
// they take no effect. A single write fails with that error. A transaction fails with a
// *types.TransactionCanceledException that names each refused item by the code
// ThrottlingError. nil lets a bucket pass.
func Throttle(full func(store.Bucket) error) Hook {
	return func(ctx context.Context, c *Call, next Next) error {
		if !c.Writes() {
			return next(ctx)
		}
		var refused error
		var reasons []types.CancellationReason
		for _, item := range c.items() {
			code := "None"
			if b, ok := bucketOf(item); ok {
				if err := full(b); err != nil {
					refused, code = err, "ThrottlingError"
				}
			}
			reasons = append(reasons, types.CancellationReason{Code: &code})
		}
		switch {
		case refused == nil:
			return next(ctx)
		case c.Op == TransactWriteItems:
			return &types.TransactionCanceledException{CancellationReasons: reasons}
		default:
			return refused
		}
	}
}

// HotPartition returns the table's error for too much load on an item's partition, with the reasons
// that DynamoDB gives.
func HotPartition() error {
	return &types.ThrottlingException{ThrottlingReasons: []types.ThrottlingReason{{
		Reason:   aws.String("TableWriteKeyRangeThroughputExceeded"),
		Resource: aws.String("arn:aws:dynamodb:eu-west-1:123456789012:table/limits"),
	}}}
}

// BusyTable returns the table's error for too much load on the whole table.
func BusyTable() error { return &types.ProvisionedThroughputExceededException{} }
