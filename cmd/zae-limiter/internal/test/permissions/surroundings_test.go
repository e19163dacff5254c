package permissions_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/aggregator/lambda"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/permissions"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/s3test"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// save writes a page of an entity's usage.
func (w *world) save(at time.Time) {
	w.Helper()
	w.Must(w.Store.Usage().Save(w.Context(), hoursOf("key", at)))
}

func hoursOf(entity string, at time.Time) usage.Diary {
	e := diary.Entry{Hour: diary.HourOf(at.UnixMilli()), Amounts: []store.Amount{{Milli: 1}, {Limit: "rph", Milli: 1000}}}
	return usage.Diary{Bucket: store.Bucket{Entity: entity, Resource: testbed.Resource}, Text: diary.Append("", e)}
}

// usages has the calls about usage.
func usages(w *world) {
	now := time.Now()
	snapshots := w.Store.Usage()
	w.System(hourly)
	w.acquire(w.Limiter, "key", 1)
	page := func(entity string) usage.Diary {
		text := ""
		for _, hour := range []int32{diary.HourOf(now.UnixMilli()) - 31*24, diary.HourOf(now.UnixMilli())} { // of two months
			text = diary.Append(text, diary.Entry{Hour: hour, Amounts: []store.Amount{{Milli: 1}}})
		}
		return usage.Diary{Bucket: store.Bucket{Entity: entity, Resource: testbed.Resource}, Text: text}
	}
	w.record("usage.Snapshots.Save", "of one bucket", func() { w.Must(snapshots.Save(w.Context(), page("key"))) })
	w.record("usage.Snapshots.Save", "of several", func() { w.Must(snapshots.Save(w.Context(), page("key"), page("key-2"))) })
	gone := page("key")
	gone.Gone = true
	w.record("usage.Snapshots.Save", "of one that has gone", func() { w.Must(snapshots.Save(w.Context(), gone)) })
	w.record("usage.Snapshots.ScopeOf", always, func() { w.Must(errOf(snapshots.ScopeOf(w.Context(), now.AddDate(0, 0, -7), now))) })
	w.record("usage.Snapshots.PeerCounts", always, func() { w.Must(errOf(snapshots.PeerCounts(w.Context()))) })
	image := w.Images("key")[0]
	w.record("usage.Snapshots.Restart", always, func() {
		w.Must(snapshots.Restart(w.Context(), image.Bucket, image.Hour, map[string]string{hourly.Name: "1000"}))
	})
	for name, q := range map[string]usage.Query{
		"of an entity":                 {Entity: "key"},
		"of a resource":                {Resource: testbed.Resource},
		"of an entity, for a resource": {Entity: "key", Resource: testbed.Resource},
	} {
		w.record("usage.Snapshots.Read", name, func() { w.Must(errOf(snapshots.Read(w.Context(), q))) })
		w.record("usage.Snapshots.Sum", name, func() { w.Must(errOf(snapshots.Sum(w.Context(), q))) })
		w.record("usage.Snapshots.Each", name, func() {
			w.Must(snapshots.Each(w.Context(), q, func([]usage.Snapshot) error { return nil }))
		})
	}
}

// aggregate returns an aggregator as the command makes it.
func (w *world) aggregate(o aggregator.Options) *aggregator.Aggregator {
	w.Helper()
	a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, w.StoreOptions(dynamo.Options{}), id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		ns := aggregator.Namespace{Store: calls{s}, Usage: s.Usage()}
		if s.IndexKeys() == dynamo.SharedKeys {
			ns.Peers = s.Usage()
		}
		return ns, nil
	}, o)
	w.Must(err)
	w.Cleanup(a.Close)
	return a
}

// records returns the records of the stream after a sequence number, and the last sequence
// number of all.
func (w *world) records(after string) (records []stream.Record, last string) {
	w.Helper()
	last = after
	arn := w.arn()
	d, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	w.Must(err)
	for _, sh := range d.StreamDescription.Shards {
		it, err := w.streams.GetShardIterator(w.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		w.Must(err)
		page, err := w.streams.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		w.Must(err)
		for _, r := range stream.Decode(page.Records) {
			if after == "" || stream.CompareSequences(r.Sequence, after) > 0 {
				records = append(records, r)
			}
			if last == "" || stream.CompareSequences(r.Sequence, last) > 0 {
				last = r.Sequence
			}
		}
	}
	return records, last
}

const batch = "aggregator.Aggregator.Process"

// aggregation has what an aggregator does with records.
func aggregation(w *world) {
	a := w.aggregate(aggregator.Options{})
	sum, last := aggregator.Result{}, ""
	take := func(name string) {
		var records []stream.Record
		records, last = w.records(last)
		w.record(batch, name, func() {
			result, err := a.Process(w.Context(), records)
			w.Must(err)
			sum.Pages += result.Pages
			sum.Refills += result.Refills
			sum.Doublings += result.Doublings
			sum.Mends += result.Mends
			sum.Merges += result.Merges
			sum.Errors += result.Errors
		})
	}
	w.System(limiter.PerSecond("rps", 600), hourly)
	take("nothing about buckets")
	w.Take(w.Limiter, testbed.AskAll("user", tokens{"rps": 400, "rph": 1}))
	time.Sleep(time.Second)
	take("a refill")
	w.use("user")
	take("a doubling")
	w.remove("user", 1)
	time.Sleep(time.Minute)
	w.acquire(w.Limiter, "user", 1)
	take("a shard is missing")
	for range 6 {
		time.Sleep(aggregator.DefaultQuiet/4 + time.Second)
		w.acquire(w.limiter(), "user", 1)
		take("shards are quiet")
	}
	for _, entity := range []string{"gone", "left"} {
		w.acquire(w.limiter(), entity, 1)
		w.remove(entity, 0)
	}
	take("buckets were deleted")
	if sum.Pages == 0 || sum.Refills == 0 || sum.Doublings == 0 || sum.Mends == 0 || sum.Merges == 0 || sum.Errors > 0 {
		w.Errorf("not everything was done: %+v", sum)
	}
}

// use spends the writes of an entity's bucket.
func (w *world) use(entity string) {
	w.Helper()
	_, ns := w.Store.Namespace()
	for _, img := range w.Images(entity) {
		w.Must(spendWrites(w.Context(), w.API, ns, img))
	}
}

// following has the calls that read the stream.
func following(w *world) {
	w.System(hourly)
	w.acquire(w.Limiter, "user", 1)
	follower := func() *stream.Follower {
		f, err := stream.NewFollower(stream.Options{API: w.API, Table: testbed.Table, Streams: w.streams})
		w.Must(err)
		return f
	}
	until := func(f func(context.Context) error) func() {
		return func() {
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			if err := f(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				w.Error(err)
			}
		}
	}
	w.record("stream.Follower.Check", always, func() { w.Must(follower().Check(w.Context())) })
	w.record("stream.Follower.Run", always, until(func(ctx context.Context) error {
		return follower().Run(ctx, func(context.Context, []stream.Record) ([]int, error) { return nil, nil }, nil)
	}))
	d, err := w.streams.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: w.arn()})
	w.Must(err)
	records, _ := w.records("")
	w.record("stream.Follower.ReadRange", always, func() {
		for _, sh := range d.StreamDescription.Shards { // the record is in one of them
			_, err = follower().ReadRange(w.Context(), stream.Range{ARN: *w.arn(), Shard: *sh.ShardId, First: records[0].Sequence, Last: records[0].Sequence})
			if err == nil {
				return
			}
		}
		w.Error(err)
	})
	w.acquire(w.Limiter, "user", 1)
	w.record("aggregator.Aggregator.Follow", always, until(func(ctx context.Context) error {
		return w.aggregate(aggregator.Options{}).Follow(ctx, follower())
	}))
}

// delivered has the handler of a Lambda function.
func delivered(w *world) {
	w.System(hourly)
	h := lambda.New(w.aggregate(aggregator.Options{}), lambda.Options{})
	_, ns := w.Store.Namespace()
	w.record("lambda.Handler.Handle", always, func() { w.Must(errOf(h.Handle(w.Context(), deletion(ns)))) })
	if sum, err := w.Store.Usage().Sum(w.Context(), usage.Query{Entity: "user"}); err != nil || sum.Snapshots == 0 {
		w.Errorf("%d snapshots, %v", sum.Snapshots, err)
	}
}

// deletion is an event with one record: a bucket expired.
func deletion(ns string) events.DynamoDBEvent {
	now := time.Now()
	key := map[string]events.DynamoDBAttributeValue{"PK": events.NewStringAttribute(ns + "/BUCKET#user#gpt-4#0"), "SK": events.NewStringAttribute("#STATE")}
	last := maps.Clone(key)
	for name, n := range map[string]string{
		"rf": "1000", "shard_count": "1", "b_rph_tk": "3599000", "b_rph_cp": "3600000", "b_rph_ra": "3600000", "b_rph_rp": "3600000", "b_rph_tc": "1000",
		"b_wcu_tk": "900000", "b_wcu_cp": "1000000", "b_wcu_ra": "1000000", "b_wcu_rp": "1000", "b_wcu_tc": "0",
		"dh": strconv.FormatInt(now.Unix()/3600, 10), "dn": "1",
	} {
		last[name] = events.NewNumberAttribute(n)
	}
	return events.DynamoDBEvent{Records: []events.DynamoDBEventRecord{{
		EventID: "1", EventName: "REMOVE",
		Change: events.DynamoDBStreamRecord{
			ApproximateCreationDateTime: events.SecondsEpochTime{Time: now}, SequenceNumber: strings.Repeat("1", 21), Keys: key, OldImage: last,
		},
	}}}
}

// archived records the calls of an archive. Its server is reached over HTTP, which a bubble
// cannot wait for.
func archived(recorder *permissions.Recorder) func(*testing.T) {
	return func(t *testing.T) {
		w := newWorld(t, recorder)
		namespaces, err := admin.NewNamespaces(w.StoreOptions(dynamo.Options{}))
		w.Must(err)
		_, ns := w.Store.Namespace()
		var a *archive.Archive
		record := func(call string, f func() error) {
			w.recorder.Began(call, always)
			w.at.Store(&branch{call, always})
			w.Must(f())
			w.at.Store(nil)
		}
		server := s3test.New(t, "trail")
		record("archive.Open", func() (err error) {
			a, err = archive.Open(w.Context(), archive.Options{
				API: s3.NewFromConfig(permissions.Config(w.seen, server.Client())), Location: archive.Location{Bucket: "trail", Prefix: "limits"}, NameOf: namespaces.NameOf,
			})
			return err
		})
		day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		expired := []audit.TrailEvent{{Event: audit.Event{ID: "01J00000000000000000000000", Time: day, Entity: "user", Action: audit.EntityCreated}, NamespaceID: ns}}
		record("archive.Archive.Put", func() error { return errOf(a.Put(w.Context(), day, expired)) })
	}
}
