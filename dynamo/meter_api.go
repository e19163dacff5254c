package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
)

// GetItem passes the request on and counts it.
func (m *Meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.GetItem(ctx, &ask, opts...)
	if err != nil {
		m.count("GetItem", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("GetItem", nil, read, write)
	return out, nil
}

// PutItem passes the request on and counts it.
func (m *Meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.PutItem(ctx, &ask, opts...)
	if err != nil {
		m.count("PutItem", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("PutItem", nil, read, write)
	return out, nil
}

// UpdateItem passes the request on and counts it.
func (m *Meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.UpdateItem(ctx, &ask, opts...)
	if err != nil {
		m.count("UpdateItem", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("UpdateItem", nil, read, write)
	return out, nil
}

// Query passes the request on and counts it.
func (m *Meter) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.Query(ctx, &ask, opts...)
	if err != nil {
		m.count("Query", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("Query", nil, read, write)
	return out, nil
}

// Scan passes the request on and counts it.
func (m *Meter) Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.Scan(ctx, &ask, opts...)
	if err != nil {
		m.count("Scan", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("Scan", nil, read, write)
	return out, nil
}

// BatchGetItem passes the request on and counts it.
func (m *Meter) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.BatchGetItem(ctx, &ask, opts...)
	if err != nil {
		m.count("BatchGetItem", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("BatchGetItem", nil, read, write)
	return out, nil
}

// BatchWriteItem passes the request on and counts it.
func (m *Meter) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.BatchWriteItem(ctx, &ask, opts...)
	if err != nil {
		m.count("BatchWriteItem", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("BatchWriteItem", nil, read, write)
	return out, nil
}

// TransactWriteItems passes the request on and counts it.
func (m *Meter) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	ask := *in
	ask.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := m.api.TransactWriteItems(ctx, &ask, opts...)
	if err != nil {
		m.count("TransactWriteItems", err, 0, 0)
		return out, err
	}
	read, write := conn.Units(out)
	m.count("TransactWriteItems", nil, read, write)
	return out, nil
}

// CreateTable passes the request on and counts it; it consumes nothing.
func (m *Meter) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	out, err := m.api.CreateTable(ctx, in, opts...)
	m.count("CreateTable", err, 0, 0)
	return out, err
}

// DescribeTable passes the request on and counts it; it consumes nothing.
func (m *Meter) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := m.api.DescribeTable(ctx, in, opts...)
	m.count("DescribeTable", err, 0, 0)
	return out, err
}

// UpdateTimeToLive passes the request on and counts it; it consumes nothing.
func (m *Meter) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	out, err := m.api.UpdateTimeToLive(ctx, in, opts...)
	m.count("UpdateTimeToLive", err, 0, 0)
	return out, err
}

// DescribeTimeToLive passes the request on and counts it; it consumes nothing.
func (m *Meter) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	out, err := m.api.DescribeTimeToLive(ctx, in, opts...)
	m.count("DescribeTimeToLive", err, 0, 0)
	return out, err
}
