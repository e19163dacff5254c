package dynamo_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// forgetsShards makes shard 0 of a bucket believe that it is the only one, as a peer does that
// makes it again.
func forgetsShards(ctx context.Context, api dynamo.API, s *dynamo.Store, entity, resource string) error {
	_, ns := s.Namespace()
	return errOf(api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, store.Bucket{Entity: entity, Resource: resource}).Item(),
		UpdateExpression: aws.String("SET shard_count = :one"), ExpressionAttributeValues: map[string]types.AttributeValue{":one": schema.N(1)},
	}))
}

// A change of an operator reaches all shards of a bucket, also those of which shard 0 does not
// know. Clients that know of them go on taking from them.
func TestChangesReachForgottenShards(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, everything, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				w.must(w.asks(w.client(w.api.Table), "user"))
				w.doubles(w.Store)
				w.must(forgetsShards(w.Context(), w.api.Table, w.Store, "user", "gpt-4"))
				w.sets(k, store.Yes)
				w.wantAll(func(img *store.Image) bool { return img.Disabled })
				if k == theResource {
					return // its limits reach a bucket with the next acquire
				}
				w.sets(k, store.Inherit)
				fixture.SetLimits(w.T, w.Store, k, perHour(500))
				w.wantAll(func(img *store.Image) bool { return img.Limits[0].Capacity == 500*store.Milli })
			})
		})
	}
}

// wantAll checks both shards of the user's bucket.
func (w *township) wantAll(is func(*store.Image) bool) {
	w.Helper()
	images, err := w.Buckets(w.Context(), "user", "gpt-4", limiter.MaxShards)
	w.must(err)
	if len(images) != 2 {
		w.Fatalf("the bucket has %d shards", len(images))
	}
	for _, img := range images {
		if !is(img) {
			w.Errorf("the change did not reach %+v", img)
		}
	}
}
