package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
)

// writes is an event with one write to a shard of a bucket, whose hidden limit counts n writes
// since the bucket was made.
func writes(t *testing.T, sequence int, entity string, shard, n int) (e events.DynamoDBEvent) {
	t.Helper()
	now := time.Now()
	pk, err := json.Marshal(fmt.Sprintf("ns1/BUCKET#%s#gpt-4#%d", entity, shard))
	if err != nil {
		t.Fatal(err)
	}
	err = json.Unmarshal(fmt.Appendf(nil, `{"Records": [{"eventID": "1", "eventName": "INSERT", "dynamodb": {
		"ApproximateCreationDateTime": %d, "SequenceNumber": "%d", "Keys": {"PK": {"S": %s}, "SK": {"S": "#STATE"}},
		"NewImage": {"PK": {"S": %s}, "SK": {"S": "#STATE"}, "shard_count": {"N": "2"}, "rf": {"N": "%d"},
		 "b_wcu_tk": {"N": "123000"}, "b_wcu_cp": {"N": "1000000"}, "b_wcu_ra": {"N": "1000000"}, "b_wcu_rp": {"N": "1000"}, "b_wcu_tc": {"N": "%d"}}}}]}`,
		now.Unix(), sequence, pk, pk, now.UnixMilli(), 1000*n), &e)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The traffic of a minute is one line, in which only the table is a dimension, whatever the
// entities are called and however many there are.
func TestTrafficIsALineForEachMinute(t *testing.T) {
	t.Parallel()
	const odd, wrong = "user:a@b.c_d-e", `"},{"_aws":1`
	synctest.Test(t, func(t *testing.T) {
		a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) { return aggregator.Namespace{}, nil }, aggregator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		h := lambda.New(a, lambda.Options{Table: "limits", Metrics: &out})
		handle := func(e events.DynamoDBEvent) {
			t.Helper()
			if res, err := h.Handle(t.Context(), e); err != nil || len(res.BatchItemFailures) > 0 {
				t.Errorf("%+v, %v", res, err)
			}
		}
		traffic := func() (lines []string) {
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, `"Shards"`) {
					lines = append(lines, line)
				}
			}
			return lines
		}
		handle(writes(t, 1, odd, 1, 1_200))
		handle(writes(t, 2, odd, 0, 30_000))
		for n := range 300 {
			handle(writes(t, 10+n, fmt.Sprint("user-", n), 0, 6))
		}
		if lines := traffic(); len(lines) != 0 {
			t.Errorf("before the end of the minute: %q", lines)
		}
		if res, err := h.Handle(t.Context(), writes(t, 1_000, wrong, 0, 30_000)); err != nil || len(res.BatchItemFailures) != 1 {
			t.Errorf("a name that no entity has: %+v, %v", res, err)
		}
		ends := time.Now().Add(time.Minute)
		time.Sleep(90 * time.Second)
		handle(events.DynamoDBEvent{})
		handle(events.DynamoDBEvent{})
		lines := traffic()
		if len(lines) != 1 {
			t.Fatalf("%d lines: %q", len(lines), lines)
		}
		d, values := embedded(t, []byte(lines[0]))
		for name, want := range map[string]float64{"BusiestShardWrites": 500, "FewestWritesLeft": 123, "AllDoublings": 0, "UpkeepThrottles": 0} {
			if d[name] != want {
				t.Errorf("%s is %v, want %v", name, d[name], want)
			}
		}
		if len(d) != 4 || values["OtherWrites"] != 30.0 {
			t.Errorf("%v of %v", d, values)
		}
		var got struct {
			AWS struct {
				Timestamp         int64
				CloudWatchMetrics []struct{ Dimensions [][]string }
			} `json:"_aws"`
			Shards []struct {
				NamespaceID, Entity, Resource string
				Shard                         int
				WritesPerSecond               float64
				WritesLeft                    int
			}
		}
		if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
			t.Fatal(err)
		}
		if got.AWS.Timestamp != ends.UnixMilli() || fmt.Sprint(got.AWS.CloudWatchMetrics[0].Dimensions) != "[[Table]]" {
			t.Errorf("%+v", got.AWS)
		}
		if want := fmt.Sprintf("[{ns1 %s gpt-4 1 20 123} {ns1 %s gpt-4 0 500 123}]", odd, odd); fmt.Sprint(got.Shards) != want {
			t.Errorf("%v, want %v", got.Shards, want)
		}
	})
}
