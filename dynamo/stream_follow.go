package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A StreamAPI is the part of DynamoDB Streams that this package calls, with the
// SDK's own signatures: *[dynamodbstreams.Client] is one and so is the embedded
// engine.
type StreamAPI interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

var _ StreamAPI = (*dynamodbstreams.Client)(nil)

// Defaults of [FollowOptions].
const (
	DefaultReader     = "aggregator"
	DefaultPoll       = time.Second
	DefaultBatch      = 1000
	DefaultCheckpoint = 5 * time.Second
)

const (
	discover = 10 * time.Second // between two looks for new shards
	// idleCheckpoint is how old a checkpoint gets where records are of no
	// interest. Those that tell of checkpoints are among them: if each led to
	// another one, there would be no end.
	idleCheckpoint = time.Hour
	// checkpointLife is for how long a checkpoint is kept: the stream has
	// forgotten after a day what it leads to.
	checkpointLife = 7 * 24 * time.Hour
	retryPause     = 100 * time.Millisecond
)

// FollowOptions say which stream to follow and how. API, Table and Streams are
// required; Namespace is not used.
type FollowOptions struct {
	Options

	Streams StreamAPI
	// Reader names the checkpoints, so that several readers do not share them:
	// letters, digits and "_.-". Default [DefaultReader].
	Reader string
	// Poll is how long a shard is left alone once it has been read to its present
	// end: shorter is sooner, longer makes larger batches. DynamoDB takes five
	// requests for a shard a second. Default [DefaultPoll].
	Poll time.Duration
	// Batch is the most records handed on at a time, 1 to 1000. Default
	// [DefaultBatch].
	Batch int
	// Checkpoint is the least time between two checkpoints of a shard, and so
	// what is read again after a crash. Default [DefaultCheckpoint].
	Checkpoint time.Duration
}

// A Follower reads a table's stream from where it last came to, shard by shard,
// parents before their children, so that the records of an item come in the
// order of its writes. How far it has come it keeps in the table.
//
// It holds no lease: two followers of one name both read everything. What hangs
// on the records bears that, since records are delivered at least once anyway.
type Follower struct {
	*conn
	o   FollowOptions
	log *slog.Logger
}

// NewFollower makes a follower. It sends nothing.
func NewFollower(o FollowOptions) (*Follower, error) {
	options, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Options = options
	o.Reader = cmp.Or(o.Reader, DefaultReader)
	o.Poll, o.Batch, o.Checkpoint = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Batch, DefaultBatch), cmp.Or(o.Checkpoint, DefaultCheckpoint)
	switch {
	case o.Streams == nil:
		return nil, &store.ValidationError{Field: "Streams", Value: "nil", Reason: "give a client of DynamoDB Streams"}
	case strings.Trim(o.Reader, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "":
		return nil, &store.ValidationError{Field: "reader", Value: o.Reader, Reason: `use letters, digits and "_.-"`}
	case o.Batch < 1 || o.Batch > DefaultBatch:
		return nil, &store.ValidationError{Field: "batch", Value: strconv.Itoa(o.Batch), Reason: fmt.Sprintf("give 1 to %d, or 0 for %d", DefaultBatch, DefaultBatch)}
	case o.Poll < 0 || o.Checkpoint < 0:
		return nil, &store.ValidationError{Field: "options", Value: fmt.Sprintf("Poll %v, Checkpoint %v", o.Poll, o.Checkpoint), Reason: "use 0 for the default, or a positive value"}
	}
	return &Follower{newConn(o.Options), o, o.Logger}, nil
}

// Check fails as Run would if there is no table or no stream to follow. It is a
// request that Run makes as well: for who wants to know before.
func (f *Follower) Check(ctx context.Context) error {
	_, err := f.streamARN(ctx)
	return err
}

// Run hands on records until the context ends, a page of one shard at a time;
// several shards are read at once. An error of handle, which may change the
// records but not move them, unless the context has
// ended, makes the same records come again after a pause: nothing of the shard is
// handed on before they are taken in.
//
// What need not keep others waiting, handle may put off: it returns the indexes of
// those records, in order. They are handed on to later, in batches, some seconds afterwards and
// beside what comes after them; if that fails, again and again. They are not lost if the
// follower ends before: the next one comes back to them, and hands on all that came
// after them once more. Up to 10,000 of a shard are put off at a time; then the shard
// waits. later may be nil for who puts nothing off.
//
// It returns nil when the context has ended, after the batches under way have
// been handled and checkpoints written, and an error for what waiting does not
// mend: there is no table, no stream of the right view ([store.ErrNotFound]), or
// no access.
func (f *Follower) Run(ctx context.Context, handle func(context.Context, []Record) (putOff []int, err error), later func(context.Context, []Record) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &reading{Follower: f, handle: handle, later: later, stop: stop, begun: map[string]bool{}, finished: map[string]bool{}, ends: make(chan struct{}, 1)}
	if err := r.place(ctx); err != nil {
		return f.ended(ctx, err)
	}
	for id, c := range r.checkpoints {
		r.finished[id] = c.Finished
	}
	for tries := 0; ctx.Err() == nil; {
		pause := discover
		switch shards, err := r.shards(ctx); {
		case err == nil:
			r.begin(ctx, shards)
			tries = 0
		case isFinal(err):
			stop(err)
		default:
			r.log.WarnContext(ctx, "stream not described", "error", err)
			tries++
			pause = retryPause + backoff(retryPause, tries)
		}
		r.wait(ctx, pause)
	}
	r.readers.Wait()
	return f.ended(ctx, context.Cause(ctx))
}

// ended is what Run returns: nil where its caller has ended it.
func (*Follower) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// isFinal reports whether an error will not go away by itself.
func isFinal(err error) bool {
	return errors.Is(err, store.ErrAccessDenied) || errors.Is(err, store.ErrNotFound)
}

// streamARN finds the table's stream.
func (f *Follower) streamARN(ctx context.Context) (*string, error) {
	op := "find the stream of " + *f.table
	out, err := call(ctx, f.conn, op, func(o *dynamodb.DescribeTableOutput) middleware.Metadata { return o.ResultMetadata },
		f.api.DescribeTable, &dynamodb.DescribeTableInput{TableName: f.table})
	if err != nil {
		return nil, err
	}
	spec := out.Table.StreamSpecification
	if spec == nil || !aws.ToBool(spec.StreamEnabled) || spec.StreamViewType != streamView || out.Table.LatestStreamArn == nil {
		return nil, fmt.Errorf("%s: %w", op, &store.NotFoundError{
			Kind: "stream", Name: *f.table, Hint: "enable one with the view NEW_AND_OLD_IMAGES on the table; zae-limiter table create --stream makes new tables with one",
		})
	}
	return out.Table.LatestStreamArn, nil
}

// readCheckpoints is where the reader has come to, by shard.
func (f *Follower) readCheckpoints(ctx context.Context) (map[string]schema.Checkpoint, error) {
	all := map[string]schema.Checkpoint{}
	err := f.query(ctx, "read the checkpoints of "+f.o.Reader, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": schema.S(schema.CheckpointPK(f.o.Reader))},
		ConsistentRead:            aws.Bool(true),
	}, func(it item) error {
		c, err := schema.DecodeCheckpoint(it)
		all[c.Shard] = c
		return err
	})
	return all, err
}

// A reading is one run of a follower.
type reading struct {
	*Follower
	arn         *string
	handle      func(context.Context, []Record) ([]int, error)
	later       func(context.Context, []Record) error
	stop        context.CancelCauseFunc
	checkpoints map[string]schema.Checkpoint
	begun       map[string]bool // shards that are being read, or were

	mu       sync.Mutex
	finished map[string]bool // shards that were read to their end
	readers  sync.WaitGroup
	ends     chan struct{} // one of them has just been
}

// place finds the stream and how far it was read, however often that takes.
func (r *reading) place(ctx context.Context) (err error) {
	for tries := 1; ; tries++ {
		if r.arn, err = r.streamARN(ctx); err == nil {
			r.checkpoints, err = r.readCheckpoints(ctx)
		}
		passes := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrConflict)
		if !passes || ctx.Err() != nil {
			return err
		}
		r.log.WarnContext(ctx, "stream not found yet", "error", err)
		if err := sleep(ctx, retryPause+backoff(retryPause, tries)); err != nil {
			return err
		}
	}
}

// shards are those that the stream has, with their parents.
func (r *reading) shards(ctx context.Context) (shards []streamtypes.Shard, err error) {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: r.arn}
	for {
		ctx, cancel := r.bounded(ctx)
		out, err := r.o.Streams.DescribeStream(ctx, in)
		cancel()
		if err != nil {
			return nil, r.translateStream("describe stream", err)
		}
		shards = append(shards, out.StreamDescription.Shards...)
		if out.StreamDescription.LastEvaluatedShardId == nil {
			return shards, nil
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
}

// begin reads the shards whose parents have been read, or are gone.
func (r *reading) begin(ctx context.Context, shards []streamtypes.Shard) {
	listed := make(map[string]bool, len(shards))
	for i := range shards {
		listed[aws.ToString(shards[i].ShardId)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range shards {
		id, parent := aws.ToString(shards[i].ShardId), aws.ToString(shards[i].ParentShardId)
		if r.begun[id] || r.finished[id] || listed[parent] && !r.finished[parent] {
			continue
		}
		r.begun[id] = true
		s := &shardReader{reading: r, id: id, after: r.checkpoints[id].Sequence, savedAt: r.o.Now(), queue: laterQueue{taken: make(chan struct{}, 1)}}
		s.saved = s.after
		r.readers.Go(func() { s.run(ctx) })
	}
}

// wait waits until it is time to look for shards again.
func (r *reading) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-r.ends:
	case <-t.C:
	}
}

// translateStream is [conn.translate] for the streams' API, which has the same
// errors under other types.
func (c *conn) translateStream(op string, err error) error {
	if missing := (*streamtypes.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return fmt.Errorf("%s: %w: %w", op, &store.NotFoundError{Kind: "stream", Name: *c.table, Hint: "it was disabled, or the table deleted"}, err)
	}
	return c.translate(op, err)
}

// A shardReader reads one shard of the stream.
type shardReader struct {
	*reading
	id       string
	after    string  // the sequence number that it has come to, "" at the beginning
	iterator *string // nil if one has to be asked for

	saved   string // the sequence number of the last checkpoint
	savedAt time.Time
	dirty   bool // anything of interest was read since
	queue   laterQueue
}

// run reads the shard until its end, or until the context ends.
func (s *shardReader) run(ctx context.Context) {
	err := s.read(ctx)
	if err == nil && s.queue.waits() {
		s.pass() // those that begin where it ended need not wait for that
		for err == nil && s.queue.waits() {
			err = s.queue.shrinks(ctx)
		}
	}
	switch {
	case err == nil:
		s.save(context.WithoutCancel(ctx), s.after, true)
		s.pass()
	case ctx.Err() != nil:
		s.saveIfDue(context.WithoutCancel(ctx), 0)
	default:
		s.stop(err)
	}
}

// pass lets the shards be read that begin where this one ended.
func (s *shardReader) pass() {
	s.mu.Lock()
	s.finished[s.id] = true
	s.mu.Unlock()
	select {
	case s.ends <- struct{}{}:
	default: // it will be looked for anyway
	}
}

// read hands on the records of the shard; nil at its end.
func (s *shardReader) read(ctx context.Context) error {
	for tries := 0; ; {
		records, more, err := s.page(ctx)
		if err == nil && len(records) > 0 {
			err = s.deliver(ctx, records)
		}
		expired, trimmed, gone := (*streamtypes.ExpiredIteratorException)(nil), (*streamtypes.TrimmedDataAccessException)(nil), (*streamtypes.ResourceNotFoundException)(nil)
		pause := time.Duration(0)
		switch {
		case err == nil && !more:
			return nil
		case err == nil:
			tries = 0
			s.saveIfDue(ctx, s.o.Checkpoint)
			if !s.isFull(records) {
				pause = s.o.Poll
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &expired):
			s.iterator = nil
		case errors.As(err, &trimmed):
			s.log.ErrorContext(ctx, "records were trimmed before they were read", "shard", s.id, "after", s.after)
			s.iterator, s.after = nil, ""
		case errors.As(err, &gone):
			s.log.WarnContext(ctx, "stream shard is gone", "shard", s.id, "after", s.after)
			return nil
		case isFinal(err):
			return err
		default:
			tries++
			s.log.WarnContext(ctx, "stream shard not read", "shard", s.id, "after", s.after, "error", err)
			s.iterator, pause = nil, retryPause+backoff(retryPause, tries)
		}
		if pause > 0 {
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
}

// isFull reports whether a page is likely not to be the last one there is: pages
// end at so many records, or at a size of 1 MB.
func (s *shardReader) isFull(page []streamtypes.Record) bool {
	const most = 1 << 20
	var size int64
	for i := range page {
		if d := page[i].Dynamodb; d != nil {
			size += aws.ToInt64(d.SizeBytes)
		}
	}
	return len(page) == s.o.Batch || size > most/2
}

// page reads the records that come next; more says that the shard has not ended.
func (s *shardReader) page(ctx context.Context) (records []streamtypes.Record, more bool, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.iterator == nil {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: s.arn, ShardId: &s.id, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if s.after != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &s.after
		}
		out, err := s.o.Streams.GetShardIterator(ctx, in)
		if err != nil {
			return nil, false, s.translateStream("find a place in the stream", err)
		}
		if out.ShardIterator == nil {
			return nil, false, nil
		}
		s.iterator = out.ShardIterator
	}
	out, err := s.o.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: s.iterator, Limit: aws.Int32(int32(s.o.Batch))}) //nolint:gosec // 1000 at most
	if err != nil {
		return nil, false, s.translateStream("read the stream", err)
	}
	s.iterator = out.NextShardIterator
	return out.Records, out.NextShardIterator != nil, nil
}

// deliver hands on a page until it is taken in, and notes how far that is.
func (s *shardReader) deliver(ctx context.Context, page []streamtypes.Record) error {
	records := DecodeRecords(page)
	for i := range records {
		s.dirty = s.dirty || records[i].IsOfInterest()
	}
	for tries := 0; ; tries++ {
		putOff, err := s.handle(ctx, records)
		if err == nil {
			err = s.putOff(ctx, records, putOff)
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.log.WarnContext(ctx, "records not taken in", "shard", s.id, "records", len(records), "error", err)
		if err := sleep(ctx, retryPause+backoff(retryPause, tries)); err != nil {
			return err
		}
	}
	s.after = records[len(records)-1].Sequence
	return nil
}

// position is the sequence number up to which everything was taken in.
func (s *shardReader) position() string {
	if after, waits := s.queue.first(); waits {
		return after
	}
	return s.after
}

// saveIfDue writes a checkpoint if there is something new and the last one is that
// old.
func (s *shardReader) saveIfDue(ctx context.Context, old time.Duration) {
	at, age := s.position(), s.o.Now().Sub(s.savedAt)
	if at != s.saved && (s.dirty && age >= old || age >= idleCheckpoint) {
		s.save(ctx, at, false)
	}
}

// save writes a checkpoint. What is read again because it could not be written
// is taken in twice, which does no harm.
func (s *shardReader) save(ctx context.Context, at string, finished bool) {
	now := s.clock.now()
	err := s.putItem(ctx, "write a checkpoint", &dynamodb.PutItemInput{Item: schema.EncodeCheckpoint(s.o.Reader, schema.Checkpoint{
		Shard: s.id, Sequence: at, Finished: finished, Updated: now, Expires: now.Add(checkpointLife),
	})})
	if err != nil {
		s.log.WarnContext(ctx, "checkpoint not written", "shard", s.id, "after", at, "error", err)
		return
	}
	s.saved, s.savedAt, s.dirty = at, s.o.Now(), at != s.after // what was put off is of interest
}
