package sim_test

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// transacts is the operation that writes several items at once.
const transacts = faults.TransactWriteItems

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

// subject returns what distinguishes requests that one caller sends at the same instant,
// and the bucket items that a call may change, or, for a read, that it reads. A query and a
// deletion of many items are not told apart.
func subject(q *faults.Call) (text string, ids []bucketID) {
	switch in := q.Input.(type) {
	case *dynamodb.GetItemInput:
		return target(in.Key), buckets(in.Key)
	case *dynamodb.PutItemInput:
		return target(in.Item), buckets(in.Item)
	case *dynamodb.UpdateItemInput:
		return target(in.Key) + *in.UpdateExpression, buckets(in.Key)
	case *dynamodb.BatchGetItemInput:
		keys := in.RequestItems[tableName].Keys
		return target(keys...), buckets(keys...)
	case *dynamodb.BatchWriteItemInput:
		var keys []item
		for _, r := range in.RequestItems[tableName] {
			if r.DeleteRequest != nil {
				keys = append(keys, r.DeleteRequest.Key)
			}
			if r.PutRequest != nil {
				keys = append(keys, r.PutRequest.Item)
			}
		}
		return "", buckets(keys...)
	case *dynamodb.TransactWriteItemsInput:
		return transaction(in)
	default:
		return "", nil
	}
}

// transaction is the subject of a transaction. It does not change the items that it only
// checks.
func transaction(in *dynamodb.TransactWriteItemsInput) (text string, ids []bucketID) {
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
	keys = slices.DeleteFunc(keys, func(k item) bool { _, is := bucketOf(k); return !is }) // those of records are random
	if ids = buckets(keys...); len(ids) == 0 {
		return "", nil
	}
	return target(keys...) + checked.String(), ids
}
