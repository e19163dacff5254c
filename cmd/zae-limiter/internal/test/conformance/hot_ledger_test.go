//go:build conformance

package conformance_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// update updates one shard of a bucket without the libraries' knowledge.
func (b *both) update(entity, resource string, shard int, expression string, values schema.Item) {
	b.Helper()
	_, ns := b.store.Namespace()
	_, err := b.api.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
		TableName:        &b.table,
		Key:              schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: resource, Shard: shard}).Item(),
		UpdateExpression: &expression, ExpressionAttributeValues: values,
		ConditionExpression: aws.String("attribute_exists(PK)"),
	})
	b.must(err)
}

// shardItem reads one shard as stored; nil if there is none.
func (b *both) shardItem(entity, resource string, shard int) schema.Item {
	b.Helper()
	_, ns := b.store.Namespace()
	out, err := b.api.GetItem(b.Context(), &dynamodb.GetItemInput{
		TableName: &b.table, ConsistentRead: aws.Bool(true),
		Key: schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: resource, Shard: shard}).Item(),
	})
	b.must(err)
	return out.Item
}

// double lets our client double a bucket up to a number of shards.
func (b *both) double(entity, resource string, count int) {
	b.Helper()
	double(b.T, b.store, b.api, b.table, limiter.Bucket{Entity: entity, Resource: resource}, count)
	b.shards(entity, resource, count)
}

// shards reads the shards of a bucket. All must exist, with the same count and the whole
// limit's parameters, and hold at most their share.
func (b *both) shards(entity, resource string, count int) []*store.Image {
	b.Helper()
	images := b.images(entity, resource, count)
	for _, img := range images {
		l, _ := img.Limit("rpd")
		first, _ := images[0].Limit("rpd")
		if img.ShardCount != count || *l.Params != *first.Params || l.Tokens > l.Capacity/int64(count) || !img.IsEvaluable() {
			b.Errorf("shard %d of %d holds %d of %v; features %q", img.Shard, img.ShardCount, l.Tokens, l.Params, img.Features)
		}
	}
	return images
}

// images reads the given number of shards of a bucket.
func (b *both) images(entity, resource string, count int) []*store.Image {
	b.Helper()
	images, err := b.store.Buckets(b.Context(), entity, resource, count)
	b.must(err)
	if len(images) != count {
		b.Fatalf("%d shards of %s of %s, want %d", len(images), resource, entity, count)
	}
	return images
}

// ledger checks that, over all shards of a bucket, everything that is not held was
// consumed, and that both libraries report so.
func (b *both) ledger(entity string, count int, capacity, consumed int64) {
	b.Helper()
	b.settled(entity, count, capacity*1000, consumed)
	var available map[string]int64
	b.py.do("available", args{"entity": entity, "resource": "gpt-4"}, &available)
	statuses, err := b.Available(b.Context(), request(entity, "gpt-4", args{"rpd": 0}))
	b.must(err)
	// The peer sums the rest of each shard, rounded down.
	ours, theirs := statuses[0].Available, available["rpd"]
	if ours != capacity-consumed || theirs > ours || theirs <= ours-int64(count) {
		b.Errorf("of %d less %d, Go says %d are available of %s, Python %d", capacity, consumed, ours, entity, theirs)
	}
	if statuses[0].Limit.Capacity != capacity {
		b.Errorf("Go says the limit of %s is %v", entity, statuses[0].Limit)
	}
}

// settled checks the books of a bucket that had milli millitokens in total.
func (b *both) settled(entity string, count int, milli, consumed int64) {
	b.Helper()
	held, gone := sums(b.images(entity, "gpt-4", count))
	// The test earns less than a token of a limit per day.
	if gone != consumed*1000 || held < milli-gone || held >= milli-gone+1000 {
		b.Errorf("%s: %d millitokens held and %d consumed of %d, want %d tokens consumed", entity, held, gone, milli, consumed)
	}
}

// drain takes user's tokens one at a time, with both libraries in turn, until neither gets
// one, and returns the number taken.
func (b *both) drain(resource string) (admitted int64) {
	b.Helper()
	for theirs, ours := true, true; theirs || ours; {
		// A refusal by the peer is not final: it asks at most three shards.
		if theirs = !b.py.take("user", resource, args{"rpd": 1}); theirs {
			admitted++
		}
		if ours = b.take("user", resource, args{"rpd": 1}) == nil; ours {
			admitted++
		}
	}
	return admitted
}

// raise doubles a bucket as the peer does: shard 0 first, then the other existing ones. A
// new shard is created when a client picks it.
func (b *both) raise(entity, resource string, from int) {
	b.Helper()
	var count int
	b.py.call("bump_shard_count", args{"entity_id": entity, "resource": resource, "current_count": from}, &count)
	if count != 2*from {
		b.Fatalf("Python made %d shards of %d", count, from)
	}
}

// fresh replaces our client by one with an empty memory, once the old one's work is done.
func (b *both) fresh() {
	b.Helper()
	b.must(b.Close())
	b.Limiter = b.limiter()
}

// reopen clears the peer's memory.
func (b *both) reopen() {
	b.Helper()
	name, _ := b.store.Namespace()
	b.py.open(b.table, name)
}

// finds checks that the peer finds all shards of user's bucket, with their
// balances and the whole limit.
func (b *both) finds(count int) {
	b.Helper()
	type state struct {
		Resource   string
		Limit      string `json:"limit_name"`
		Tokens     int64  `json:"tokens_milli"`
		Capacity   int64  `json:"capacity_milli"`
		Consumed   int64  `json:"total_consumed_milli"`
		ShardCount int    `json:"shard_count"`
	}
	want := map[state]int{}
	for _, img := range b.images("user", "gpt-4", count) {
		l, _ := img.Limit("rpd")
		one := state{"gpt-4", "rpd", l.Tokens, l.Capacity, l.Consumed, count}
		want[one]++
		var states []state
		b.py.call("get_buckets", args{"entity_id": "user", "resource": "gpt-4", "shard_id": img.Shard}, &states)
		if len(states) != 1 || states[0] != one {
			b.Errorf("Python reads of shard %d: %+v, want %+v", img.Shard, states, one)
		}
	}
	var states []state
	b.py.call("get_buckets", args{"entity_id": "user"}, &states)
	for _, s := range states {
		want[s]--
	}
	for s, n := range want {
		if n != 0 {
			b.Errorf("Python discovers %+v %d times less than it is there", s, n)
		}
	}
}

// some are the existing shards of user's bucket.
func (b *both) some() []*store.Image {
	b.Helper()
	images, err := b.store.Buckets(b.Context(), "user", "gpt-4", schema.MaxShards)
	b.must(err)
	return images
}

// even reports whether all existing shards have a count.
func (b *both) even(count int) bool {
	b.Helper()
	for _, img := range b.some() {
		if img.ShardCount != count {
			return false
		}
	}
	return true
}

// sums are the millitokens of rpd that shards hold and have consumed.
func sums(images []*store.Image) (held, consumed int64) {
	for _, img := range images {
		l, _ := img.Limit("rpd")
		held, consumed = held+l.Tokens, consumed+l.Consumed
	}
	return held, consumed
}

// stamps are the attributes of a bucket item that are equal for shards created at about the
// same time with the same history.
func stamps(item schema.Item) map[string]string {
	same := map[string]string{}
	for name, value := range item {
		switch v := value.(type) {
		case *types.AttributeValueMemberN:
			same[name] = "N " + v.Value
		case *types.AttributeValueMemberS:
			same[name] = "S " + strings.ReplaceAll(v.Value, "ours", "theirs")
		default:
			same[name] = fmt.Sprintf("%T", value)
		}
	}
	for _, moves := range []string{
		"rf", "ttl", schema.WCUTokens, schema.WCUConsumed,
		schema.LimitAttr("rpd", schema.FieldTokens), schema.LimitAttr("rpd", schema.FieldConsumed),
	} {
		if _, ok := same[moves]; ok {
			same[moves] = "moves"
		}
	}
	return same
}
