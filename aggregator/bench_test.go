package aggregator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// nobody accepts usage and keeps nothing.
type nobody struct{ calls atomic.Int64 }

func (n *nobody) Save(context.Context, ...usage.Diary) error {
	n.calls.Add(1)
	return nil
}

// stocked is an engine with a table whose stream has that many records of that many
// buckets.
func stocked(tb testing.TB, records, buckets int) (*dynamolite.DB, *string) {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	db := dynamolite.New(dynamolite.Options{})
	tb.Cleanup(func() { must(db.Close()) })
	must(dynamo.CreateTable(tb.Context(), db, dynamo.TableOptions{Name: table, Stream: true}))
	s, err := dynamo.Open(tb.Context(), dynamo.Options{API: db, Table: table})
	must(err)
	must(s.SetSystem(tb.Context(), []limiter.Limit{limiter.PerMinute("rpm", 1_000_000), limiter.PerMinute("tpm", 90_000_000)}, ""))
	l, err := limiter.New(s, limiter.Options{})
	must(err)
	defer l.Close()
	for i := range records {
		lease, err := l.Acquire(tb.Context(), askAll(fmt.Sprint("user", i%buckets), tokens{"rpm": 1, "tpm": 100}))
		must(err)
		must(lease.Commit(tb.Context()))
	}
	out, err := db.DescribeTable(tb.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	must(err)
	return db, out.Table.LatestStreamArn
}

// pages are the records of a stream, as read.
func pages(tb testing.TB, db *dynamolite.DB, arn *string) (all []streamtypes.Record) {
	tb.Helper()
	d, err := db.DescribeStream(tb.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		tb.Fatal(err)
	}
	for _, sh := range d.StreamDescription.Shards {
		it, err := db.GetShardIterator(tb.Context(), &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon})
		if err != nil {
			tb.Fatal(err)
		}
		page, err := db.GetRecords(tb.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, page.Records...)
	}
	return all
}

// ofBuckets selects records of that many different buckets.
func ofBuckets(all []streamtypes.Record, n int) (some []streamtypes.Record) {
	seen := map[string]bool{}
	for i := range all {
		keys := all[i].Dynamodb.Keys
		pk, _ := keys["PK"].(*streamtypes.AttributeValueMemberS)
		sk, _ := keys["SK"].(*streamtypes.AttributeValueMemberS)
		if sk.Value == "#STATE" && !seen[pk.Value] && len(some) < n && all[i].EventName == streamtypes.OperationTypeModify {
			seen[pk.Value] = true
			some = append(some, all[i])
		}
	}
	return some
}

// unattended is an aggregator whose writes cost nothing.
func unattended(tb testing.TB, api dynamo.API, usage aggregator.Usage) *aggregator.Aggregator {
	tb.Helper()
	s, err := dynamo.Open(tb.Context(), dynamo.Options{API: api, Table: table})
	if err != nil {
		tb.Fatal(err)
	}
	a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) {
		return aggregator.Namespace{Store: s, Usage: usage}, nil
	}, aggregator.Options{Concurrency: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(a.Close)
	return a
}

// A batch as AWS Lambda delivers it: 100 records of 100 buckets, from the stream's types to
// the resulting writes.
func BenchmarkBatch(b *testing.B) {
	db, arn := stocked(b, 200, 100)
	page := ofBuckets(pages(b, db, arn), 100)
	counts := &nobody{}
	a := unattended(b, db, counts)
	b.ReportAllocs()
	for b.Loop() {
		if res, err := a.Process(b.Context(), stream.Decode(page)); err != nil || res.Buckets != 100 {
			b.Fatal(err, res.Buckets)
		}
	}
	b.ReportMetric(float64(counts.calls.Load())/float64(b.N), "writes/op")
}

// Following the stream of an engine in the same process.
func BenchmarkFollow(b *testing.B) {
	const records = 40_000
	for _, buckets := range []int{1, 10, 100, 1_000} {
		b.Run(fmt.Sprint("buckets=", buckets), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				db, _ := stocked(b, records, buckets)
				b.StartTimer()
				follow(b, db, db, records)
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// follow reads a stream from its beginning until that many records of buckets have been
// processed.
func follow(tb testing.TB, api dynamo.API, streams stream.API, records int64) {
	tb.Helper()
	s, err := dynamo.Open(tb.Context(), dynamo.Options{API: api, Table: table})
	if err != nil {
		tb.Fatal(err)
	}
	a := unattended(tb, api, s.Usage())
	f, err := stream.NewFollower(stream.Options{API: api, Table: table, Streams: streams})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(tb.Context())
	defer stop()
	var got atomic.Int64
	err = f.Run(ctx, func(ctx context.Context, page []stream.Record) ([]int, error) {
		res, err := a.Process(context.WithoutCancel(ctx), page)
		if len(res.Failed) > 0 {
			tb.Error(res.Failed[0].Err)
		}
		for i := range page {
			if page[i].New != nil {
				got.Add(1)
			}
		}
		if got.Load() >= records {
			stop()
		}
		return nil, err
	}, nil)
	if err != nil && ctx.Err() == nil {
		tb.Fatal(err)
	}
}

// A batch allocates in proportion to its records, and keeps nothing of them.
func TestABatchIsCheap(t *testing.T) {
	db, arn := stocked(t, 200, 100)
	page := ofBuckets(pages(t, db, arn), 100)
	a := unattended(t, db, &nobody{})
	const most = 24 // allocations for each record, under the race detector
	got := testing.AllocsPerRun(20, func() {
		if _, err := a.Process(t.Context(), stream.Decode(page)); err != nil {
			t.Fatal(err)
		}
	})
	if got > most*100 {
		t.Errorf("%.0f allocations for 100 records", got)
	} else {
		t.Logf("%.0f allocations for 100 records", got)
	}
}
