package faults

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Pages bounds the items of a page, so that a query or a scan of more has several pages.
func Pages(items int) Hook {
	return func(ctx context.Context, c *Call, next Next) error {
		limit := aws.Int32(int32(items)) //nolint:gosec // a few
		switch in := c.Input.(type) {
		case *dynamodb.QueryInput:
			paged := *in
			paged.Limit = limit
			c.Input = &paged
		case *dynamodb.ScanInput:
			paged := *in
			paged.Limit = limit
			c.Input = &paged
		}
		return next(ctx)
	}
}

// Batches bounds the items that the table processes of a batch of one table. It leaves
// the rest unprocessed, as DynamoDB may. With 0, the table processes nothing.
func Batches(items int) Hook {
	return func(ctx context.Context, c *Call, next Next) error {
		switch in := c.Input.(type) {
		case *dynamodb.BatchGetItemInput:
			return getPart(ctx, c, in, items, next)
		case *dynamodb.BatchWriteItemInput:
			return writePart(ctx, c, in, items, next)
		default:
			return next(ctx)
		}
	}
}

func getPart(ctx context.Context, c *Call, in *dynamodb.BatchGetItemInput, items int, next Next) error {
	table, asked := single(in.RequestItems)
	if len(asked.Keys) <= items {
		return next(ctx)
	}
	part, rest := asked, asked
	part.Keys, rest.Keys = asked.Keys[:items], asked.Keys[items:]
	out := &dynamodb.BatchGetItemOutput{}
	if items > 0 {
		reduced := *in
		reduced.RequestItems = map[string]types.KeysAndAttributes{table: part}
		c.Input = &reduced
		if err := next(ctx); err != nil {
			return err
		}
		out, _ = c.Output.(*dynamodb.BatchGetItemOutput)
	}
	out.UnprocessedKeys = map[string]types.KeysAndAttributes{table: rest}
	c.Output = out
	return nil
}

func writePart(ctx context.Context, c *Call, in *dynamodb.BatchWriteItemInput, items int, next Next) error {
	table, asked := single(in.RequestItems)
	if len(asked) <= items {
		return next(ctx)
	}
	out := &dynamodb.BatchWriteItemOutput{}
	if items > 0 {
		reduced := *in
		reduced.RequestItems = map[string][]types.WriteRequest{table: asked[:items]}
		c.Input = &reduced
		if err := next(ctx); err != nil {
			return err
		}
		out, _ = c.Output.(*dynamodb.BatchWriteItemOutput)
	}
	out.UnprocessedItems = map[string][]types.WriteRequest{table: asked[items:]}
	c.Output = out
	return nil
}

// single returns the one entry of a map.
func single[V any](m map[string]V) (key string, value V) {
	if len(m) != 1 {
		panic("only batches of one table can be cut")
	}
	for key, value = range m {
		break
	}
	return key, value
}
