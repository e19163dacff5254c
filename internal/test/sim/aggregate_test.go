package sim_test

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// double doubles a bucket ahead of need, as an aggregator does: pair by pair, shard 0 last.
// A failed step is left for others to finish.
func (c *client) double(ctx context.Context, key bucketKey) {
	images, err := c.store.Buckets(ctx, key.entity, key.resource, 1)
	if err != nil || len(images) == 0 || 2*len(images) > mostShards || c.standsStill() {
		return
	}
	for _, img := range append(images[1:], images[0]) {
		if img.ShardCount != len(images) || img.HasValidUntil || img.Disabled || c.standsStill() {
			return
		}
		if joint, err := c.store.Bear(ctx, halved(img)); err != nil || !joint.Applied {
			return
		}
	}
}

// halved is the birth in which a shard gives half of its balance, and of its share, to a
// new shard.
func halved(img *store.Image) *store.Birth {
	count := 2 * img.ShardCount
	donor := &store.Refill{
		Bucket: img.Bucket, Seen: img, RefilledAt: img.RefilledAt, ShardCount: count,
		Writes: store.Change{Limit: hidden, Debit: 1000, AtLeast: math.MinInt64, AtMost: math.MaxInt64},
	}
	writes := img.Writes.Params
	b := &store.Birth{
		Create: store.Create{
			Bucket: img.Bucket, Now: img.RefilledAt, ShardCount: count, ExpiresAt: img.ExpiresAt,
			Writes: store.NewLimit{NamedParams: store.NamedParams{Limit: hidden, Params: *writes}, Tokens: writes.Capacity - 1000, Consumed: 1000},
			Owner:  store.Owner{Cascade: img.Cascade, Parent: img.Parent, Generation: img.ParentGeneration, Incarnation: img.Incarnation},
		},
		Donor: donor, Sibling: img.Shard,
	}
	b.Shard += img.ShardCount
	for _, s := range img.Limits {
		whole := level{params: params{s.Capacity, s.Amount, s.Period}}
		most := whole.of(img.Shard, count).cp
		given := max(0, min(s.Tokens/2, whole.of(b.Shard, count).cp))
		lost := max(0, s.Tokens-given-most)
		ch := store.Change{Limit: s.Name, Params: *s.Params, Earned: -given - lost, AtLeast: math.MinInt64, AtMost: most + given + lost}
		if given > 0 {
			ch.AtLeast = given + lost
		}
		donor.Changes = append(donor.Changes, ch)
		b.Limits = append(b.Limits, store.NewLimit{NamedParams: store.NamedParams{Limit: s.Name, Params: *s.Params}, Tokens: given})
	}
	return b
}

// raise doubles a bucket as the peer does: shard 0 gets the new number, and the other
// shards wait for the next client that finds them.
func (c *client) raise(ctx context.Context, key bucketKey) {
	api, id := c.api(), key.shard(0)
	got, err := api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(tableName), Key: c.w.key(id), ConsistentRead: aws.Bool(true)})
	if err != nil || got.Item == nil || got.Item["shard_count"] == nil || c.standsStill() {
		return
	}
	n := readState(got.Item).count
	if 2*n > mostShards {
		return
	}
	number := func(n int) types.AttributeValue { return &types.AttributeValueMemberN{Value: strconv.Itoa(n)} }
	_, _ = api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: c.w.key(id),
		UpdateExpression: aws.String("SET shard_count = :more"), ConditionExpression: aws.String("shard_count = :n"),
		ExpressionAttributeValues: item{":n": number(n), ":more": number(2 * n)},
	})
}

// upset doubles a bucket from outside while its users use it.
func (p *play) upset(c *client, stop <-chan struct{}) {
	r := p.w.dice.stream("upset")
	for round := range rounds {
		p.sleepUntil(p.start[round] + span(r, 0, 3*time.Second))
		select {
		case <-stop:
			return
		default:
		}
		if c.standsStill() {
			return
		}
		k := &call{name: "upset#" + strconv.Itoa(round), kind: administering, client: c}
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), callKey{}, k), storeTimeout)
		key := pick(r, p.spots[round], p.spots[round], pick(r, spots...))
		pick(r, c.double, c.raise)(ctx, key)
		cancel()
	}
}
