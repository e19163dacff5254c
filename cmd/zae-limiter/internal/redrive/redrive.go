// Package redrive processes again what a stream's event source mapping gave up on. AWS
// Lambda then sends a message to the mapping's destination, an SQS queue. The message has
// no records, only their place in the stream. This package reads that place while the
// stream lives, which is 24 hours, and gives the records to an aggregator.
//
// Doing work again that was done has no further effect. What is lost without a redrive is
// the usage of buckets that were deleted in the range, and expired audit events. A limiter
// makes up for the rest.
package redrive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Queue is the part of SQS that this package calls, with the SDK's own signatures.
// *[sqs.Client] implements it.
type Queue interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

var _ Queue = (*sqs.Client)(nil)

// DefaultMax is the default of [Options.Max].
const DefaultMax = 1000

const (
	receiveBatch = 10 // messages in a request, SQS's limit
	// hidden is how long received messages stay hidden from other readers. A run that is
	// killed leaves them hidden for that time. If a run takes longer, another run may
	// process the same messages, which does no harm.
	hidden = 15 * time.Minute
	// showTime bounds the request that makes a message visible again.
	showTime = 5 * time.Second
)

// Options say what to process. Queue, URL, Reader, Table and Open are required.
type Options struct {
	Queue Queue
	URL   string // of the queue
	// Reader reads ranges of streams; a [*stream.Follower] is one.
	Reader interface {
		ReadRange(ctx context.Context, r stream.Range) ([]stream.Record, error)
	}
	// Table is the name of the table. Messages about other tables are left alone.
	Table string
	// Open opens namespaces, as for [aggregator.New].
	Open aggregator.Opener
	// Aggregator are the options of the aggregator that processes the records.
	Aggregator aggregator.Options
	// Max is the largest number of messages to receive; 0 is [DefaultMax].
	Max int
	// DryRun reads the ranges, and processes and deletes nothing.
	DryRun bool
	// DiscardExpired deletes the messages of ranges that the stream no longer has.
	DiscardExpired bool
	// DiscardUnreadable deletes the messages of ranges that were processed except for
	// records that can never be read.
	DiscardUnreadable bool
	// DropEvents processes ranges with expired audit events without an archive. The events
	// are then lost.
	DropEvents bool
}

func (o *Options) check() error {
	missing := func(field, reason string) error { return &store.ValidationError{Field: field, Reason: reason} }
	switch {
	case o.Queue == nil:
		return missing("Queue", "give a client of SQS")
	case o.URL == "":
		return missing("URL", "give the URL of the queue")
	case o.Reader == nil:
		return missing("Reader", "give a follower of the table's stream")
	case o.Table == "":
		return missing("Table", "name the table")
	}
	return store.CheckNotNegative("Max", o.Max)
}

// A State is what became of a message.
type State string

// The values of [State]. Only messages that are Processed, and those that an option says
// to discard, are deleted.
const (
	Processed  State = "processed"
	Readable   State = "readable"   // in a dry run: the stream has the range
	Expired    State = "expired"    // the stream no longer has the range
	Unreadable State = "unreadable" // some records can never be read; the others were processed
	Events     State = "events"     // there are expired audit events, and no archive
	Foreign    State = "foreign"    // the message is about another table, or nothing known
	Failed     State = "failed"     // try again later
)

// An Outcome is what became of one message.
type Outcome struct {
	MessageID string
	Range     stream.Range
	State     State
	Deleted   bool
	// Records are those of the range, Unreadable of them cannot be read.
	Records, Unreadable int
	// Pages are deleted buckets whose usage was saved.
	Pages, Archived int
	Err             error // why the message was kept; nil if it was processed
}

// A message is one received message.
type message struct {
	id, receipt string
	of          stream.Range
	err         error // why it is foreign
}

// Run receives messages until the queue gives no more, or Max of them, and processes them
// in the order of the stream. It returns an outcome for each, in that order. It makes
// messages that it keeps visible again. A message is deleted only after its range was
// processed; if the deletion fails, the next run does the same again.
//
// The error is that of receiving, or the context's; failures of messages are outcomes.
func Run(ctx context.Context, o Options) ([]Outcome, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &run{o: o}
	r.o.Max = cmp.Or(o.Max, DefaultMax)
	var err error
	o.Aggregator.Quiet = -1 // a run is too short to know what is quiet
	if r.aggregator, err = aggregator.New(o.Open, o.Aggregator); err != nil {
		return nil, err
	}
	defer r.aggregator.Close()
	messages, err := r.receive(ctx)
	slices.SortStableFunc(messages, func(a, b message) int {
		return cmp.Or(cmp.Compare(a.of.ARN, b.of.ARN), cmp.Compare(a.of.Shard, b.of.Shard), stream.CompareSequences(a.of.First, b.of.First))
	})
	outcomes := make([]Outcome, 0, len(messages))
	blocked := map[string]bool{} // shards of which a message failed: later ones must wait
	for i := range messages {
		outcomes = append(outcomes, r.handle(ctx, &messages[i], blocked))
	}
	return outcomes, cmp.Or(err, ctx.Err())
}

// A run is one call of Run.
type run struct {
	o          Options
	aggregator *aggregator.Aggregator
}

// receive receives all messages before any is processed, so that they can be ordered.
func (r *run) receive(ctx context.Context) (all []message, err error) {
	seen := map[string]int{}
	for len(all) < r.o.Max {
		out, err := r.o.Queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &r.o.URL, MaxNumberOfMessages: int32(min(receiveBatch, r.o.Max-len(all))), //nolint:gosec // 10 at most
			VisibilityTimeout: int32(hidden.Seconds()), WaitTimeSeconds: 1,
		})
		if err != nil {
			return all, fmt.Errorf("receive from %s: %w", r.o.URL, err)
		}
		if len(out.Messages) == 0 {
			break
		}
		for i := range out.Messages {
			m := parse(&out.Messages[i], r.o.Table)
			if at, again := seen[m.id]; again {
				all[at].receipt = m.receipt // SQS may deliver twice; the last receipt counts
				continue
			}
			seen[m.id] = len(all)
			all = append(all, m)
		}
	}
	return all, nil
}

// parse reads the message of an event source mapping.
func parse(m *types.Message, table string) message {
	out := message{id: aws.ToString(m.MessageId), receipt: aws.ToString(m.ReceiptHandle)}
	var body struct {
		Batch *struct {
			Shard string `json:"shardId"`
			First string `json:"startSequenceNumber"`
			Last  string `json:"endSequenceNumber"`
			ARN   string `json:"streamArn"`
		} `json:"DDBStreamBatchInfo"`
	}
	if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &body); err != nil {
		out.err = fmt.Errorf("the message is not JSON: %w", err)
		return out
	}
	if body.Batch == nil || body.Batch.ARN == "" || body.Batch.Shard == "" || body.Batch.First == "" || body.Batch.Last == "" {
		out.err = errors.New("the message has no complete DDBStreamBatchInfo: no mapping of a DynamoDB stream sent it")
		return out
	}
	out.of = stream.Range{ARN: body.Batch.ARN, Shard: body.Batch.Shard, First: body.Batch.First, Last: body.Batch.Last}
	if !strings.Contains(out.of.ARN, ":table/"+table+"/stream/") {
		out.err = fmt.Errorf("the message is about the stream %s, not of table %s", out.of.ARN, table)
	}
	return out
}

// handle processes one message, and deletes it or makes it visible again.
func (r *run) handle(ctx context.Context, m *message, blocked map[string]bool) Outcome {
	out := Outcome{MessageID: m.id, Range: m.of, State: Foreign, Err: m.err}
	shard := m.of.ARN + " " + m.of.Shard
	switch {
	case m.err != nil:
	case blocked[shard]:
		out.State, out.Err = Failed, errors.New("an earlier range of the same shard failed, and comes first")
	default:
		r.process(ctx, &out)
		blocked[shard] = out.State == Failed || out.State == Events
	}
	if !r.o.DryRun && (out.State == Processed || out.State == Expired && r.o.DiscardExpired || out.State == Unreadable && r.o.DiscardUnreadable) {
		_, err := r.o.Queue.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.o.URL, ReceiptHandle: &m.receipt})
		if out.Deleted = err == nil; err != nil {
			out.Err = errors.Join(out.Err, fmt.Errorf("delete the message: %w", err))
		}
		return out
	}
	r.show(ctx, m)
	return out
}

// show makes a message visible again, also if the run was interrupted. A failure only
// delays the next reader.
func (r *run) show(ctx context.Context, m *message) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showTime)
	defer cancel()
	_, _ = r.o.Queue.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &r.o.URL, ReceiptHandle: &m.receipt})
}

// process reads the range of a message and gives it to the aggregator.
func (r *run) process(ctx context.Context, out *Outcome) {
	records, err := r.o.Reader.ReadRange(ctx, out.Range)
	out.Records = len(records)
	switch {
	case errors.Is(err, stream.ErrTrimmed):
		out.State, out.Err = Expired, err
		return
	case err != nil:
		out.State, out.Err = Failed, err
		return
	}
	if n := r.events(records); n > 0 && !r.o.DropEvents {
		out.State, out.Err = Events, fmt.Errorf("the range has %d expired audit events, and no archive is given", n)
		return
	}
	if r.o.DryRun {
		out.State = Readable
		return
	}
	res, err := r.aggregator.Process(ctx, records)
	out.Pages, out.Archived, out.Unreadable = res.Pages, res.Archived, len(res.Poisoned)
	switch {
	case len(res.Failed) > 0:
		out.State, out.Err = Failed, fmt.Errorf("%d of %d records were not processed: %w", len(res.Failed), len(records), res.Failed[0].Err)
	case err != nil:
		out.State, out.Err = Failed, err
	case len(res.Poisoned) > 0:
		out.State, out.Err = Unreadable, fmt.Errorf("%d of %d records can never be read: %w", len(res.Poisoned), len(records), res.Poisoned[0].Err)
	default:
		out.State = Processed
	}
}

// events counts the expired audit events that no archive would keep.
func (r *run) events(records []stream.Record) (n int) {
	if r.o.Aggregator.Archive != nil {
		return 0
	}
	for i := range records {
		if records[i].Item == nil {
			continue
		}
		if _, ok, _ := records[i].ExpiredEvent(); ok {
			n++
		}
	}
	return n
}
