package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
)

// metered sends a request, which asks on a copy what it consumes, and counts it.
func metered[In, Out any](
	ctx context.Context, m *Meter, op string,
	send func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In, opts []func(*dynamodb.Options),
) (*Out, error) {
	ask := *in
	conn.AskForUnits(&ask)
	out, err := send(ctx, &ask, opts...)
	m.count(op, out, err)
	return out, err
}

// GetItem passes the request on and counts it.
func (m *Meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return metered(ctx, m, "GetItem", m.api.GetItem, in, opts)
}

// PutItem passes the request on and counts it.
func (m *Meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return metered(ctx, m, "PutItem", m.api.PutItem, in, opts)
}

// UpdateItem passes the request on and counts it.
func (m *Meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return metered(ctx, m, "UpdateItem", m.api.UpdateItem, in, opts)
}

// Query passes the request on and counts it.
func (m *Meter) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return metered(ctx, m, "Query", m.api.Query, in, opts)
}

// Scan passes the request on and counts it.
func (m *Meter) Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return metered(ctx, m, "Scan", m.api.Scan, in, opts)
}

// BatchGetItem passes the request on and counts it.
func (m *Meter) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return metered(ctx, m, "BatchGetItem", m.api.BatchGetItem, in, opts)
}

// BatchWriteItem passes the request on and counts it.
func (m *Meter) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return metered(ctx, m, "BatchWriteItem", m.api.BatchWriteItem, in, opts)
}

// TransactWriteItems passes the request on and counts it.
func (m *Meter) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return metered(ctx, m, "TransactWriteItems", m.api.TransactWriteItems, in, opts)
}

// CreateTable passes the request on and counts it; it consumes nothing.
func (m *Meter) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return metered(ctx, m, "CreateTable", m.api.CreateTable, in, opts)
}

// DescribeTable passes the request on and counts it; it consumes nothing.
func (m *Meter) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return metered(ctx, m, "DescribeTable", m.api.DescribeTable, in, opts)
}

// UpdateTimeToLive passes the request on and counts it; it consumes nothing.
func (m *Meter) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return metered(ctx, m, "UpdateTimeToLive", m.api.UpdateTimeToLive, in, opts)
}

// DescribeTimeToLive passes the request on and counts it; it consumes nothing.
func (m *Meter) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return metered(ctx, m, "DescribeTimeToLive", m.api.DescribeTimeToLive, in, opts)
}
