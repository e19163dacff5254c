package sim_test

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// transacts is the operation that writes several items at once.
const transacts = "TransactWriteItems"

// target is a key without the namespace, which is random.
func target(keys ...item) string {
	var b strings.Builder
	for _, k := range keys {
		_, path, _ := strings.Cut(text(k["PK"]), "/")
		b.WriteString(path + " " + text(k["SK"]) + ";")
	}
	return b.String()
}

// buckets are the bucket items among keys.
func buckets(keys ...item) (ids []bucketID) {
	for _, k := range keys {
		if id, ok := bucketOf(k); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func sortedBuckets(ids []bucketID) []bucketID {
	return slices.SortedFunc(slices.Values(ids), func(a, b bucketID) int { return strings.Compare(a.String(), b.String()) })
}

func (l *link) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return exchange(ctx, l, "GetItem", in, o, target(in.Key), buckets(in.Key), l.w.db.GetItem)
}

func (l *link) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return exchange(ctx, l, "PutItem", in, o, target(in.Item), buckets(in.Item), l.w.db.PutItem)
}

func (l *link) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return exchange(ctx, l, "UpdateItem", in, o, target(in.Key)+*in.UpdateExpression, buckets(in.Key), l.w.db.UpdateItem)
}

func (l *link) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := exchange(ctx, l, "Query", in, o, "", nil, l.w.db.Query)
	if err != nil { // the query concerns an unknown bucket
		l.c.callOf(ctx).met(l.w, []bucketID{{}}, notApplied)
	}
	return out, err
}

func (l *link) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	keys := in.RequestItems[tableName].Keys
	return exchange(ctx, l, "BatchGetItem", in, o, target(keys...), buckets(keys...), l.w.db.BatchGetItem)
}

func (l *link) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	var keys []item
	for _, r := range in.RequestItems[tableName] {
		if r.DeleteRequest != nil {
			keys = append(keys, r.DeleteRequest.Key)
		}
		if r.PutRequest != nil {
			keys = append(keys, r.PutRequest.Item)
		}
	}
	return exchange(ctx, l, "BatchWriteItem", in, o, "", buckets(keys...), l.w.db.BatchWriteItem)
}

func (l *link) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	var keys []item
	var checked strings.Builder
	for _, a := range in.TransactItems {
		switch {
		case a.Put != nil:
			keys = append(keys, a.Put.Item)
		case a.Update != nil:
			keys = append(keys, a.Update.Key)
			checked.WriteString(*a.Update.UpdateExpression)
		case a.Delete != nil:
			keys = append(keys, a.Delete.Key)
		case a.ConditionCheck != nil:
			checked.WriteString(target(a.ConditionCheck.Key))
		}
	}
	ids := buckets(keys...)
	if len(ids) == 0 {
		return exchange(ctx, l, transacts, in, o, "", nil, l.w.db.TransactWriteItems) // keys of records are random
	}
	return exchange(ctx, l, transacts, in, o, target(keys...)+checked.String(), ids, l.w.db.TransactWriteItems)
}

func (l *link) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, o ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return exchange(ctx, l, "CreateTable", in, o, "", nil, l.w.db.CreateTable)
}

func (l *link) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return exchange(ctx, l, "DescribeTable", in, o, "", nil, l.w.db.DescribeTable)
}

func (l *link) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return exchange(ctx, l, "UpdateTimeToLive", in, o, "", nil, l.w.db.UpdateTimeToLive)
}

func (l *link) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return exchange(ctx, l, "DescribeTimeToLive", in, o, "", nil, l.w.db.DescribeTimeToLive)
}
