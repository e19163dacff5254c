package deploy_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// Of the writes to ordinary buckets, only few reach the function, and those are what an estimate
// counts.
func TestFewWritesReachTheFunction(t *testing.T) {
	t.Parallel()
	patterns := patternsOf(t, newStack(t, withCode()))
	for _, load := range []struct {
		name  string
		limit limiter.Limit
		apart time.Duration
		most  float64 // records for each acquire
	}{
		{"once an hour", limiter.PerMinute("rpm", 600), time.Hour, 0},
		{"once a minute", limiter.PerMinute("rpm", 600), time.Minute, 0},
		{"1 a second, of 10 a second", limiter.PerMinute("rpm", 600), time.Second, 0.12},
		{"50 a second, of 100 a second", limiter.PerSecond("rps", 100), 20 * time.Millisecond, 0.12},
		{"1,000 a second, of far more", limiter.PerSecond("rps", 1_000_000), time.Millisecond, 0.12},
	} {
		synctest.Test(t, func(t *testing.T) {
			const acquires = 900 // a page of the stream
			w := testbed.New(t, testbed.Options{Table: dynamo.TableOptions{Stream: true}})
			w.System(load.limit)
			admitted, buckets := 0, 0
			for range acquires {
				w.Take(w.Limiter, testbed.Ask("key", load.limit.Name, 1))
				time.Sleep(load.apart)
			}
			for _, r := range drain(t, w) {
				if r.Dynamodb.Keys[schema.SK].(*streamtypes.AttributeValueMemberS).Value != schema.StateSK {
					continue
				}
				buckets++
				reaches := isAdmitted(patterns, asLambda(&r))
				if reaches {
					admitted++
				}
				if decoded := stream.Decode([]streamtypes.Record{r}); reaches != estimate.Reaches(&decoded[0]) {
					t.Errorf("record %d reaches the function: %v, but it is priced otherwise", buckets, reaches)
				}
			}
			t.Logf("%s: of %d writes to buckets, %d reach the function: %.0f for a million", load.name, buckets, admitted, 1e6*float64(admitted)/float64(max(1, buckets)))
			if got := float64(admitted) / float64(max(1, buckets)); buckets == 0 || got > load.most {
				t.Errorf("%s: %d of %d records", load.name, admitted, buckets)
			}
		})
	}
}

// A bucket uses up its hidden write limit. Between four fifths and nine tenths of it, every
// write reaches the function, which doubles the bucket. So do writes of several shards, and
// of a bucket that is made full.
func TestPressureReachesTheFunction(t *testing.T) {
	t.Parallel()
	patterns := patternsOf(t, newStack(t, withCode()))
	record := func(event streamtypes.OperationType, image map[string]string) map[string]any {
		r := &streamtypes.Record{EventName: event, Dynamodb: &streamtypes.StreamRecord{
			Keys:     map[string]streamtypes.AttributeValue{schema.SK: &streamtypes.AttributeValueMemberS{Value: schema.StateSK}},
			NewImage: map[string]streamtypes.AttributeValue{},
		}, EventID: aws.String("1")}
		for name, number := range image {
			r.Dynamodb.NewImage[name] = &streamtypes.AttributeValueMemberN{Value: number}
		}
		return asLambda(r)
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	tokens, count := schema.LimitAttr(schema.WCU, schema.FieldTokens), schema.LimitAttr(schema.WCU, schema.FieldConsumed)
	for _, c := range []struct {
		event                streamtypes.OperationType
		tokens, count, shard string
		want                 bool
	}{
		{"MODIFY", "999000", "1000", "1", false},
		{"MODIFY", "200000", "800000", "1", false},
		{"MODIFY", "199000", "801000", "1", true},
		{"MODIFY", "100000", "900000", "1", true},
		{"MODIFY", "999000", "1000", "2", true},
		{"INSERT", "999000", "1000", "1", false},
		{"INSERT", "999000", "1000", "4", true},
		{"INSERT", "1000000", "0", "1", true},
		{"MODIFY", "999000", "0", "1", false},
	} {
		if got := isAdmitted(patterns, record(c.event, map[string]string{tokens: c.tokens, count: c.count, schema.ShardCount: c.shard})); got != c.want {
			t.Errorf("%+v is admitted: %v", c, got)
		}
		image := store.Image{ShardCount: number(c.shard), Writes: store.LimitState{Tokens: int64(number(c.tokens))}}
		if got := estimate.Reaches(&stream.Record{New: &image}); got != c.want {
			t.Errorf("%+v is priced: %v", c, got)
		}
	}
}
