package dynamo_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// halving returns the merge of n shards into half as many.
func halving(images []*store.Image) (pairs []*store.Pair) {
	half := len(images) / 2
	for i, img := range images[:half] {
		survivor, retired := oneToken(img), images[i+half]
		survivor.ShardCount = half
		pairs = append(pairs, &store.Pair{Survivor: survivor, Retired: retired, AtLeast: []int64{retired.Limits[0].Tokens}})
	}
	return pairs
}

// checkMergePlanted merges shards of which one was changed, without its stamp, as only
// a peer or an operator does. No shard may be deleted.
func checkMergePlanted(t *testing.T, api dynamo.API) {
	t.Helper()
	for i, update := range []string{
		"SET disabled = :v", "SET vu = :v", "SET shard_count = :v", "SET b_rpm_cp = :v", "SET b_rpm_ra = :v", "SET b_rpm_rp = :v",
		"SET b_rpm_tk = b_rpm_tk + :v", "REMOVE b_rpm_tk", "REMOVE shard_count", "",
	} {
		for who := range 2 {
			if who == 0 && i > 2 && i < 6 {
				continue // a survivor's parameters change under its stamp
			}
			s := openNamespace(t, api, fmt.Sprintf("merge-%d-%d", i, who))
			images := shardsOf(t, s, "user", 2)
			_, ns := s.Namespace()
			if update != "" {
				in := &dynamodb.UpdateItemInput{TableName: aws.String(table), Key: schema.BucketKey(ns, images[who].Bucket).Item(), UpdateExpression: &update}
				if update[:3] == "SET" {
					in.ExpressionAttributeValues = schema.Item{":v": schema.N(7)}
				}
				if _, err := api.UpdateItem(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			j, err := s.Merge(t.Context(), halving(images))
			if err != nil || j.Applied != (update == "") {
				t.Errorf("after %q of shard %d: %+v, %v", update, who, j, err)
			}
			if left := fixture.Get(t, api, schema.BucketKey(ns, images[1].Bucket)); (left == nil) != (update == "") {
				t.Errorf("after %q of shard %d shard 1 is %v", update, who, left)
			}
		}
	}
}

func TestMergePlanted(t *testing.T) {
	t.Parallel()
	checkMergePlanted(t, newLiteTable(t))
}
