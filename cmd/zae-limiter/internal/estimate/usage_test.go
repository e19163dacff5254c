package estimate_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// An aggregator takes the records of each batch window, as an event source mapping would.
// The hour and the day stay the same, so that no window is opened while the bill runs.
func TestLongUsageCostsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]trial{
		"few records of few buckets":    {rate: 10, buckets: 5, run: 5 * time.Minute},
		"many records of few buckets":   {rate: 200, buckets: 10, run: 30 * time.Second},
		"many records of many buckets":  {rate: 100, buckets: 300, run: 30 * time.Second},
		"children and parents, batches": {rate: 7, buckets: 50, cascade: true, parents: 5, run: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr.limits, tr.latency = wide(1), 5*ms
			tr.tokens = each(tr.limits)
			checkUsage(t, &tr)
		})
	}
}

func checkUsage(t *testing.T, tr *trial) {
	t.Helper()
	var spent, requests float64
	synctest.Test(t, func(t *testing.T) { spent, requests = spend(t, tr) })
	l := estimate.Load{Rate: requests / tr.run.Seconds(), Buckets: tr.buckets, Limits: 1, Windows: 2}
	if tr.cascade {
		l.Cascade, l.Parents = 1, tr.parents
	}
	e, err := estimate.New(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range e.Parts {
		if p.Name == estimate.PartUsage {
			// Requests leave out the units for new windows.
			within(t, "write units of usage", p.Requests, spent/tr.run.Seconds())
		}
	}
}

// spend puts a trial on the engine, and returns what an aggregator spends for it, and the number
// of requests.
func spend(t *testing.T, tr *trial) (spent, requests float64) {
	t.Helper()
	w := testbed.New(t, testbed.Options{
		Remote: true, Table: dynamo.TableOptions{Stream: true}, Engine: dynamolite.Options{Latency: dynamolite.Latency{P50: tr.latency}},
	})
	w.System(tr.limits...)
	for i := range tr.parents {
		create(w, limiter.Entity{ID: fmt.Sprint("team-", i)})
	}
	if tr.cascade {
		for i := range tr.buckets {
			create(w, limiter.Entity{ID: fmt.Sprint("key-", i), Parent: fmt.Sprint("team-", i%tr.parents), Cascade: true})
		}
	}
	window := 5 * time.Second
	a := counter(w)
	f := &feed{World: w, after: map[string]string{}}
	dice := rand.New(rand.NewPCG(3, 4))
	limiters := []*limiter.Limiter{w.Limiter}
	put(w, limiters, dice, tr, 30*time.Second)
	f.process(a, f.drain()) // opens the windows
	for range int(tr.run / window) {
		requests += float64(put(w, limiters, dice, tr, window).requests)
		records := f.drain()
		before := w.Engine.Ledger()
		f.process(a, records)
		spent += w.Engine.Ledger().Since(before).Total().WriteUnits
	}
	return spent, requests
}

// counter returns an aggregator that counts usage by hour and by day.
func counter(w *testbed.World) *aggregator.Aggregator {
	w.Helper()
	a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, w.StoreOptions(dynamo.Options{}), id)
		return aggregator.Namespace{Store: s, Usage: s.Usage()}, err
	}, aggregator.Options{Windows: []usage.Window{usage.Hourly, usage.Daily}, Quiet: -1})
	w.Must(err)
	w.Cleanup(a.Close)
	return a
}

// A feed reads the stream of a world's table.
type feed struct {
	*testbed.World

	after map[string]string // the last sequence number, by stream shard
}

// drain reads the records of buckets since the last call, in the order of the writes. A
// table of little traffic has one stream shard on AWS; the engine has several.
func (f *feed) drain() (records []stream.Record) {
	f.Helper()
	table, err := f.Engine.DescribeTable(f.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(testbed.Table)})
	f.Must(err)
	arn := table.Table.LatestStreamArn
	d, err := f.Engine.DescribeStream(f.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	f.Must(err)
	for _, sh := range d.StreamDescription.Shards {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if after := f.after[*sh.ShardId]; after != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &after
		}
		it, err := f.Engine.GetShardIterator(f.Context(), in)
		f.Must(err)
		for next := it.ShardIterator; next != nil; {
			page, err := f.Engine.GetRecords(f.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			f.Must(err)
			if len(page.Records) == 0 {
				break
			}
			for _, r := range stream.DecodeAll(page.Records) {
				f.after[*sh.ShardId] = r.Sequence
				if r.New != nil {
					records = append(records, r)
				}
			}
			next = page.NextShardIterator
		}
	}
	slices.SortFunc(records, func(a, b stream.Record) int {
		return cmp.Or(len(a.Sequence)-len(b.Sequence), strings.Compare(a.Sequence, b.Sequence))
	})
	return records
}

// process hands records to an aggregator in batches of 100.
func (f *feed) process(a *aggregator.Aggregator, records []stream.Record) {
	f.Helper()
	const batch = 100
	for len(records) > 0 {
		n := min(batch, len(records))
		_, err := a.Process(f.Context(), records[:n])
		f.Must(err)
		records = records[n:]
	}
}
