package faults

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// The operations of [Call].
const (
	GetItem            = "GetItem"
	PutItem            = "PutItem"
	UpdateItem         = "UpdateItem"
	Query              = "Query"
	Scan               = "Scan"
	BatchGetItem       = "BatchGetItem"
	BatchWriteItem     = "BatchWriteItem"
	TransactWriteItems = "TransactWriteItems"
	CreateTable        = "CreateTable"
	DescribeTable      = "DescribeTable"
	UpdateTimeToLive   = "UpdateTimeToLive"
	DescribeTimeToLive = "DescribeTimeToLive"
)

// A Call is one request on its way through the hooks.
type Call struct {
	Op string
	// Input is the operation's input, such as a *dynamodb.UpdateItemInput. It belongs to the
	// sender: a hook that changes it puts a changed copy here before it calls next.
	Input any
	// Output is the operation's output after next returned nil, such as a
	// *dynamodb.UpdateItemOutput. A hook may replace it. If a call succeeds and no hook set
	// an output, the sender gets an empty one.
	Output any
	// Options are those that the sender gave for this request.
	Options []func(*dynamodb.Options)
}

// Writes reports whether the operation changes items.
func (c *Call) Writes() bool {
	switch c.Op {
	case PutItem, UpdateItem, BatchWriteItem, TransactWriteItems:
		return true
	default:
		return false
	}
}

// Consistent reports whether the call is a consistent read of items, all of them.
func (c *Call) Consistent() bool {
	switch in := c.Input.(type) {
	case *dynamodb.GetItemInput:
		return aws.ToBool(in.ConsistentRead)
	case *dynamodb.BatchGetItemInput:
		for _, of := range in.RequestItems {
			if !aws.ToBool(of.ConsistentRead) {
				return false
			}
		}
		return true
	case *dynamodb.QueryInput:
		return aws.ToBool(in.ConsistentRead)
	case *dynamodb.ScanInput:
		return aws.ToBool(in.ConsistentRead)
	default:
		return false
	}
}

// Keys returns the keys of the items that the input names, in its order. That includes
// the items that a transaction only checks. A batch of several tables has its tables in
// order of their names. A query or a scan names no items.
func (c *Call) Keys() []schema.Key {
	var keys []schema.Key
	for _, item := range c.items() {
		keys = append(keys, schema.KeyOf(item))
	}
	return keys
}

// items returns the key, or the whole item, of everything that the input names.
func (c *Call) items() (items []schema.Item) {
	switch in := c.Input.(type) {
	case *dynamodb.GetItemInput:
		return []schema.Item{in.Key}
	case *dynamodb.PutItemInput:
		return []schema.Item{in.Item}
	case *dynamodb.UpdateItemInput:
		return []schema.Item{in.Key}
	case *dynamodb.BatchGetItemInput:
		for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
			items = append(items, in.RequestItems[table].Keys...)
		}
	case *dynamodb.BatchWriteItemInput:
		for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
			for _, w := range in.RequestItems[table] {
				if w.PutRequest != nil {
					items = append(items, w.PutRequest.Item)
				} else {
					items = append(items, w.DeleteRequest.Key)
				}
			}
		}
	case *dynamodb.TransactWriteItemsInput:
		for _, w := range in.TransactItems {
			items = append(items, transacted(w))
		}
	}
	return items
}

// transacted returns the key, or the whole item, that a part of a transaction names.
func transacted(w types.TransactWriteItem) schema.Item {
	switch {
	case w.Put != nil:
		return w.Put.Item
	case w.Update != nil:
		return w.Update.Key
	case w.Delete != nil:
		return w.Delete.Key
	default:
		return w.ConditionCheck.Key
	}
}

// Buckets returns the buckets among the items that the input names, in its order.
func (c *Call) Buckets() []store.Bucket {
	var buckets []store.Bucket
	for _, item := range c.items() {
		if b, ok := bucketOf(item); ok {
			buckets = append(buckets, b)
		}
	}
	return buckets
}

// Shards returns the numbers of the shards among the items that the input names.
func (c *Call) Shards() []int {
	var shards []int
	for _, b := range c.Buckets() {
		shards = append(shards, b.Shard)
	}
	return shards
}

// NamesBuckets reports whether the input names a bucket.
func (c *Call) NamesBuckets() bool { return len(c.Buckets()) > 0 }

func bucketOf(item schema.Item) (store.Bucket, bool) {
	_, b, ok := schema.ParseBucketPK(schema.KeyOf(item).PK)
	return b, ok
}
