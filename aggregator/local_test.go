//go:build conformance

package aggregator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// localStreams is a client of the streams of DynamoDB Local.
func localStreams(local *peers.Local) *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{
		Region: peers.Region, BaseEndpoint: aws.String(local.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	})
}

// Real records of DynamoDB Local give the same result as those of the embedded engine.
func TestOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t)
	w := newWorldOn(t, testbed.Options{API: local.Client}, localStreams(local))
	w.aggregator = w.aggregate(aggregator.Options{MaxAge: time.Hour}) // this test is not about time
	w.traffic(0)
	want := map[string]string{}
	for entity, events := range map[string]int{"user": 70, "key": 30, "team": 30} {
		want[entity] = fmt.Sprint(events, w.counted(entity))
		w.drop(entity)
	}
	saved := 0
	for late := time.Now().Add(time.Minute); saved < len(want) && time.Now().Before(late); { // the stream lags behind
		records := w.drain()
		saved += w.process(records).Pages
		w.process(records)
	}
	for entity := range want {
		w.wantUsage(entity, want[entity])
	}

	w.Must(w.Store.SetLimits(t.Context(), limiter.ConfigKey{Entity: "late", Resource: "gpt-4"}, []limiter.Limit{limiter.PerSecond("rps", 600), limiter.PerHour("rph", 3600)}))
	w.Take(w.Limiter, askAll("late", tokens{"rps": 400, "rph": 100}))
	records := w.drain()
	for len(records) == 0 {
		records = w.drain() // the stream lags behind
	}
	for now := w.Images("late")[0].RefilledAt; time.Now().UnixMilli() < now+1000; {
		w.Images("late") // until a second has passed on the clock that refills
	}
	if res := w.process(records); res.Refills != 1 {
		t.Errorf("%d refills", res.Refills)
	}
	img := w.Images("late")[0]
	if rps, _ := img.Limit("rps"); rps.Tokens != 600_000 {
		t.Errorf("refilled to %d", rps.Tokens)
	}

	w.set("late", 0, map[string]int64{"shard_count": 2})
	for mended := 0; mended == 0; {
		mended = w.process(w.drain()).Mends
	}
	if n := len(w.Images("late")); n != 2 {
		t.Errorf("%d shards", n)
	}
}

func TestABatchCostsOnDynamoDBLocal(t *testing.T) {
	t.Parallel()
	local := peers.DynamoDBLocal(t)
	checkBills(newWorldOn(t, testbed.Options{API: local.Client}, localStreams(local)), nil)
}
