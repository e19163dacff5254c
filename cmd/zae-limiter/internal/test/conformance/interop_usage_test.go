//go:build conformance

package conformance_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/store"
)

// A peerSnapshot is a usage snapshot in the peer's form.
type peerSnapshot struct {
	Entity   string `json:"entity_id"`
	Resource string
	Start    string           `json:"window_start"`
	End      string           `json:"window_end"`
	Window   string           `json:"window_type"`
	Counters map[string]int64 `json:"counters"`
	Events   int64            `json:"total_events"`
}

// snapshots queries the peer.
func (b *both) snapshots(query args) (snapshots []peerSnapshot) {
	b.Helper()
	var answer []json.RawMessage // the snapshots, and where to continue
	b.py.call("get_usage_snapshots", query, &answer)
	b.must(json.Unmarshal(answer[0], &snapshots))
	return snapshots
}

var usageCases = []interopCase{
	{"Python reads the usage that Go counts", func(b *both) {
		newYear := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, w := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
			for i, at := range []time.Time{newYear, newYear.AddDate(0, 0, 40)} {
				b.must(b.store.Usage().Add(b.Context(), &usage.Delta{
					Key: usage.Key{Entity: "user", Resource: "gpt-4", Window: w, Start: w.Start(at)},
					Steps: []usage.Step{
						{Shard: i, Sequence: "300000000000000499659", Events: 1, Tokens: []store.Amount{{Limit: "rpm", Milli: 1000}, {Limit: "tpm", Milli: 500_000}}},
						{Shard: 2, Sequence: "300000000000000499660", Events: 1, Tokens: []store.Amount{{Limit: "rpm", Milli: 1000}, {Limit: "ttl", Milli: 3000}}},
					},
				}))
			}
		}
		shows := func(window, start, end string) peerSnapshot {
			return peerSnapshot{"user", "gpt-4", start, end, window, map[string]int64{"rpm": 2, "tpm": 500, "#ttl": 3}, 2}
		}
		want := []peerSnapshot{
			shows("daily", "2025-02-10T00:00:00Z", "2025-02-10T23:59:59Z"),
			shows("daily", "2025-01-01T00:00:00Z", "2025-01-01T23:59:59Z"),
		}
		query := args{"entity_id": "user", "resource": "gpt-4", "window_type": "daily"}
		if diff := cmp.Diff(want, b.snapshots(query)); diff != "" {
			b.Errorf("by entity and resource (-want +Python):\n%s", diff)
		}
		if got := b.snapshots(args{"entity_id": "user", "window_type": "monthly"}); len(got) != 2 {
			b.Errorf("by entity: %+v", got)
		}
		if b.table == tableMadeBy("python") { // our table keeps only keys in the index that the peer queries
			if diff := cmp.Diff(want, b.snapshots(args{"resource": "gpt-4", "window_type": "daily"})); diff != "" {
				b.Errorf("by resource (-want +Python):\n%s", diff)
			}
		}
		var sum struct {
			Snapshots int `json:"snapshot_count"`
			Total     map[string]int64
			Average   map[string]float64
		}
		b.py.call("get_usage_summary", query, &sum)
		if diff := cmp.Diff(map[string]int64{"rpm": 4, "tpm": 1000, "#ttl": 6}, sum.Total); diff != "" || sum.Snapshots != 2 || sum.Average["tpm"] != 500 {
			b.Errorf("the summary is %+v", sum)
		}
	}},
	{"Python reads the usage that an aggregator of ours takes from the stream", func(b *both) {
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 1000), perDay("tpd", 100_000)}))
		for range 5 {
			b.take("user", "gpt-4", args{"rpd": 1, "tpd": 500})
			b.py.take("user", "gpt-4", args{"rpd": 1, "tpd": 70})
			b.take("other", "gpt-4", args{"rpd": 2})
		}
		a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
			s, err := dynamo.OpenID(ctx, dynamo.Options{API: b.api, Table: b.table}, id)
			return aggregator.Namespace{Usage: s.Usage()}, err
		}, aggregator.Options{})
		b.must(err)
		records := b.records(15)
		start := records[0].At.UTC().Truncate(24 * time.Hour)
		for i := range records {
			records[i].At = start // one window, however late the test runs
		}
		for range 2 {
			res, err := a.Process(b.Context(), records)
			b.must(err)
			if len(res.Failed)+len(res.Poisoned) > 0 || res.Buckets != 2 {
				b.Fatalf("%+v", res)
			}
		}
		day := start.Format("2006-01-02")
		want := []peerSnapshot{{"user", "gpt-4", day + "T00:00:00Z", day + "T23:59:59Z", "daily", map[string]int64{"rpd": 10, "tpd": 2850}, 10}}
		if diff := cmp.Diff(want, b.snapshots(args{"entity_id": "user", "resource": "gpt-4", "window_type": "daily"})); diff != "" {
			b.Errorf("(-want +Python):\n%s", diff)
		}
		b.readUsage("user", want[0].Counters)
		b.readUsage("other", map[string]int64{"rpd": 10})
	}},
}

// records waits for count bucket records of the namespace, and reads them from the table's
// stream.
func (b *both) records(count int) (records []stream.Record) {
	b.Helper()
	streams := dynamodbstreams.New(dynamodbstreams.Options{
		Region: peers.Region, BaseEndpoint: aws.String(b.py.local.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider(peers.AccessKey, peers.SecretKey, ""),
	})
	table, err := b.api.DescribeTable(b.Context(), &dynamodb.DescribeTableInput{TableName: &b.table})
	b.must(err)
	arn := table.Table.LatestStreamArn
	_, ns := b.store.Namespace()
	for late := time.Now().Add(time.Minute); len(records) < count && time.Now().Before(late); {
		records = nil
		d, err := streams.DescribeStream(b.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
		b.must(err)
		for _, sh := range d.StreamDescription.Shards {
			it, err := streams.GetShardIterator(b.Context(), &dynamodbstreams.GetShardIteratorInput{
				StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
			})
			b.must(err)
			for next := it.ShardIterator; next != nil; {
				page, err := streams.GetRecords(b.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: next})
				b.must(err)
				if len(page.Records) == 0 {
					break
				}
				for _, r := range stream.DecodeAll(page.Records) {
					if r.Namespace == ns && r.IsOfInterest() {
						records = append(records, r)
					}
				}
				next = page.NextShardIterator
			}
		}
	}
	if len(records) != count {
		b.Fatalf("%d records, want %d", len(records), count)
	}
	return records
}

// readUsage checks the usage of an entity as Go sums it up.
func (b *both) readUsage(entity string, want map[string]int64) {
	b.Helper()
	for _, q := range []usage.Query{{Entity: entity}, {Entity: entity, Resource: "gpt-4"}, {Resource: "gpt-4"}} {
		q.Window = usage.Daily
		page, err := b.store.Usage().Read(b.Context(), q)
		b.must(err)
		got := map[string]int64{}
		for _, u := range page.Snapshots {
			for _, a := range u.Tokens {
				if u.Entity == entity {
					got[a.Limit] += a.Milli.Int64() / 1000
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("%+v (-want +Go):\n%s", q, diff)
		}
	}
}
