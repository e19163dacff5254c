package redrive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/redrive"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A queue is an SQS queue in memory. Its receipts are the positions of messages.
type queue struct {
	messages []*queued
	lost     error // deletions fail with it
	endless  int   // messages that were shown again without a time limit
}

type queued struct {
	body              string
	deleted, hidden   bool
	receives, exposed int
}

func (q *queue) ReceiveMessage(_ context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out := &sqs.ReceiveMessageOutput{}
	for i, m := range q.messages {
		if m.deleted || m.hidden || len(out.Messages) == int(in.MaxNumberOfMessages) {
			continue
		}
		m.hidden = true
		m.receives++
		at := strconv.Itoa(i)
		out.Messages = append(out.Messages, types.Message{MessageId: aws.String("m" + at), ReceiptHandle: &at, Body: &m.body})
	}
	return out, nil
}

func (q *queue) at(receipt *string) *queued {
	i, err := strconv.Atoi(*receipt)
	if err != nil {
		panic(err)
	}
	return q.messages[i]
}

func (q *queue) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	if q.lost != nil {
		return nil, q.lost
	}
	q.at(in.ReceiptHandle).deleted = true
	return &sqs.DeleteMessageOutput{}, nil
}

func (q *queue) ChangeMessageVisibility(ctx context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	if _, limited := ctx.Deadline(); !limited {
		q.endless++
	}
	m := q.at(in.ReceiptHandle)
	m.hidden = false
	m.exposed++
	return &sqs.ChangeMessageVisibilityOutput{}, nil
}

// send adds the message of a mapping about a range.
func (q *queue) send(r stream.Range) {
	q.messages = append(q.messages, &queued{body: fmt.Sprintf(`{"requestContext":{"condition":"RetryAttemptsExhausted"},"version":"1.0",
		"DDBStreamBatchInfo":{"shardId":%q,"startSequenceNumber":%q,"endSequenceNumber":%q,"batchSize":1,"streamArn":%q}}`,
		r.Shard, r.First, r.Last, r.ARN)})
}

// A world is a table with a stream, and a queue of what no function has processed.
type world struct {
	*testbed.World
	*queue
	faults faults.Slot // between the aggregator and the table
	arn    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: testbed.New(t, testbed.Options{
		Table: dynamo.TableOptions{Stream: true, Principal: "tester"}, Store: dynamo.Options{Principal: "tester"}, Limiter: limiter.Options{InFlight: -1},
	}), queue: &queue{}}
	out, err := w.Engine.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(testbed.Table)})
	w.Must(err)
	w.arn = *out.Table.LatestStreamArn
	w.System(limiter.PerDay("rpd", 1000))
	return w
}

// deletions makes n buckets, deletes them, and returns the ranges of the records of that, a
// range for each record, in the order of the stream, and of those that cannot be read.
func (w *world) deletions(n int) (ranges []stream.Range) {
	w.Helper()
	_, ns := w.Store.Namespace()
	for i := range n {
		b := store.Bucket{Entity: fmt.Sprint("user", i), Resource: testbed.Resource}
		w.Serve(w.Limiter, testbed.Ask(b.Entity, "rpd", 2))
		_, err := w.Engine.DeleteItem(w.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, b).Item()})
		w.Must(err)
	}
	d, err := w.Engine.DescribeStream(w.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &w.arn})
	w.Must(err)
	for _, shard := range d.StreamDescription.Shards {
		it, err := w.Engine.GetShardIterator(w.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: &w.arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		w.Must(err)
		page, err := w.Engine.GetRecords(w.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		w.Must(err)
		for _, r := range stream.Decode(page.Records) {
			if r.Old != nil && r.New == nil || r.Err != nil {
				ranges = append(ranges, stream.Range{ARN: w.arn, Shard: *shard.ShardId, First: r.Sequence, Last: r.Sequence})
			}
		}
	}
	if len(ranges) < n {
		w.Fatalf("%d records of %d deletions", len(ranges), n)
	}
	return ranges
}

// run redrives the messages of the queue in memory.
func (w *world) run(o redrive.Options) []redrive.Outcome {
	w.Helper()
	o.Queue, o.URL = w.queue, "http://queue"
	return w.runOn(o)
}

// runOn redrives the messages of the queue in the options.
func (w *world) runOn(o redrive.Options) []redrive.Outcome {
	w.Helper()
	f, err := stream.NewFollower(stream.Options{API: w.Engine, Table: testbed.Table, Streams: w.Engine})
	w.Must(err)
	o.Reader, o.Table = f, testbed.Table
	o.Open = func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, dynamo.Options{API: faults.Wrap(w.Engine, w.faults.Apply), Table: testbed.Table}, id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		return aggregator.Namespace{Usage: s.Usage()}, nil
	}
	outcomes, err := redrive.Run(w.Context(), o)
	w.Must(err)
	return outcomes
}

// wantUsed compares the usage of deleted buckets that was saved.
func (w *world) wantUsed(events int64) {
	w.Helper()
	sum, err := w.Store.Usage().Sum(w.Context(), usage.Query{Resource: testbed.Resource, Window: usage.Daily, Now: true})
	w.Must(err)
	if sum.Events != events {
		w.Errorf("%d acquires were saved, want %d", sum.Events, events)
	}
}

func (w *world) wantStates(outcomes []redrive.Outcome, want ...redrive.State) {
	w.Helper()
	var got []redrive.State
	for _, o := range outcomes {
		got = append(got, o.State)
	}
	if !slices.Equal(got, want) {
		w.Errorf("states %q, want %q: %+v", got, want, outcomes)
	}
}

// left counts the messages in the queue. None may stay hidden.
func (w *world) left() (n int) {
	w.Helper()
	for i, m := range w.messages {
		if m.deleted {
			continue
		}
		n++
		if m.hidden {
			w.Errorf("message %d stays hidden", i)
		}
	}
	return n
}

// SQS keeps no order.
func TestMessagesAreProcessedInTheOrderOfTheStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ranges := w.deletions(25)
	want := slices.Clone(ranges)
	slices.SortFunc(want, func(a, b stream.Range) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), stream.CompareSequences(a.First, b.First))
	})
	slices.Reverse(ranges)
	for _, r := range ranges {
		w.send(r)
	}
	var got []stream.Range
	for _, o := range w.run(redrive.Options{}) {
		if o.State != redrive.Processed || !o.Deleted || o.Records != 1 || o.Pages != 1 || o.Err != nil {
			t.Errorf("got %+v", o)
		}
		got = append(got, o.Range)
	}
	if !slices.Equal(got, want) {
		t.Errorf("processed %v, want %v", got, want)
	}
	w.wantUsed(25)
	if n := w.left(); n > 0 {
		t.Errorf("%d messages are left", n)
	}
}

// The deletion of the message is lost. The next run saves the same.
func TestARangeThatComesAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(w.deletions(1)[0])
	w.lost = errors.New("lost")
	first := w.run(redrive.Options{})
	w.wantStates(first, redrive.Processed)
	if first[0].Deleted || !errors.Is(first[0].Err, w.lost) {
		t.Errorf("got %+v", first[0])
	}
	w.lost = nil
	w.messages[0].hidden = false // its time has passed
	again := w.run(redrive.Options{})
	w.wantStates(again, redrive.Processed)
	if !again[0].Deleted {
		t.Errorf("got %+v", again[0])
	}
	w.wantUsed(1)
}

func TestAFailedRangeIsKeptAndHoldsBackItsShard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ranges := w.deletions(20) // of which two are in one shard
	second := slices.IndexFunc(ranges, func(r stream.Range) bool { return r != ranges[0] && r.Shard == ranges[0].Shard })
	w.send(ranges[0])
	w.send(ranges[second])
	w.faults.Set(faults.On(faults.Fail(errors.New("down")), faults.UpdateItem))
	w.wantStates(w.run(redrive.Options{}), redrive.Failed, redrive.Failed)
	w.wantUsed(0)
	if n := w.left(); n != 2 || w.endless != 0 {
		t.Errorf("%d messages are left, of which %d may block the run for ever", n, w.endless)
	}
	// The outage ends between the two ranges. The second is held back all the same.
	w.faults.Set(func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if c.Op == faults.UpdateItem && w.messages[0].exposed < 2 {
			return errors.New("down")
		}
		return next(ctx)
	})
	w.wantStates(w.run(redrive.Options{}), redrive.Failed, redrive.Failed)
	w.wantUsed(0)
	w.wantStates(w.run(redrive.Options{}), redrive.Processed, redrive.Processed)
	w.wantUsed(2)
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(w.deletions(1)[0])
	w.send(stream.Range{ARN: w.arn, Shard: "shardId-00000001573689847184-864758bb", First: "000000000000000000512", Last: "000000000000000000512"})
	outcomes := w.run(redrive.Options{DryRun: true, DiscardExpired: true})
	slices.SortFunc(outcomes, func(a, b redrive.Outcome) int { return len(a.State) - len(b.State) })
	w.wantStates(outcomes, redrive.Expired, redrive.Readable)
	w.wantUsed(0)
	if n := w.left(); n != 2 {
		t.Errorf("%d messages are left", n)
	}
}

func TestARangeThatIsGoneIsKeptUnlessDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deletions(1)
	w.send(stream.Range{ARN: w.arn, Shard: "shardId-00000001573689847184-864758bb", First: "000000000000000000512", Last: "000000000000000000512"})
	outcomes := w.run(redrive.Options{})
	w.wantStates(outcomes, redrive.Expired)
	if !errors.Is(outcomes[0].Err, stream.ErrTrimmed) || w.left() != 1 {
		t.Errorf("got %+v", outcomes[0])
	}
	outcomes = w.run(redrive.Options{DiscardExpired: true})
	if w.wantStates(outcomes, redrive.Expired); !outcomes[0].Deleted || w.left() != 0 {
		t.Errorf("got %+v", outcomes[0])
	}
}

func TestForeignMessagesAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, body := range []string{
		"hello", `{}`, `{"DDBStreamBatchInfo":{"shardId":"s"}}`,
		`{"DDBStreamBatchInfo":{"shardId":"s","startSequenceNumber":"1","endSequenceNumber":"2","streamArn":"arn:aws:dynamodb:us-east-1:1:table/limits2/stream/x"}}`,
	} {
		w.messages = append(w.messages, &queued{body: body})
	}
	outcomes := w.run(redrive.Options{DiscardExpired: true, DiscardUnreadable: true})
	w.wantStates(outcomes, redrive.Foreign, redrive.Foreign, redrive.Foreign, redrive.Foreign)
	if n := w.left(); n != 4 {
		t.Errorf("%d messages are left", n)
	}
}

// A record that can never be read is why most messages come. The others of its range are
// counted, and the message is kept as a reminder.
func TestAnUnreadableRecordKeepsTheMessageUnlessDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, ns := w.Store.Namespace()
	broken := schema.BucketKey(ns, store.Bucket{Entity: "mallory", Resource: "gpt-4"}).Item()
	broken[schema.RF] = schema.S("yesterday")
	_, err := w.Engine.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(testbed.Table), Item: broken})
	w.Must(err)
	for _, r := range w.deletions(2) {
		w.send(r)
	}
	left := w.run(redrive.Options{})
	unreadable := slices.DeleteFunc(slices.Clone(left), func(o redrive.Outcome) bool { return o.State == redrive.Processed })
	w.wantStates(unreadable, redrive.Unreadable)
	w.wantUsed(2)
	if n := w.left(); n != 1 {
		t.Errorf("%d messages are left", n)
	}
	w.wantStates(w.run(redrive.Options{DiscardUnreadable: true}), redrive.Unreadable)
	if n := w.left(); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []redrive.Options{{}, {Queue: &queue{}}, {Queue: &queue{}, URL: "u"}} {
		if _, err := redrive.Run(t.Context(), o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
