package stream

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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// An API is the part of DynamoDB Streams that this package calls, with the SDK's
// own signatures. *[dynamodbstreams.Client] implements it, and so does the embedded
// engine.
type API interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

var _ API = (*dynamodbstreams.Client)(nil)

// Defaults of [Options].
const (
	DefaultReader     = "aggregator"
	DefaultPoll       = time.Second
	DefaultBatch      = 1000
	DefaultCheckpoint = 5 * time.Second
)

const (
	discover = 10 * time.Second // between two searches for new shards
	// idleCheckpoint is the age at which a checkpoint is renewed when only records of
	// no interest follow it. Writes of checkpoints are such records: if each of them
	// led to a checkpoint, the stream would never end.
	idleCheckpoint = time.Hour
	// checkpointLife is how long a checkpoint is kept. The stream forgets after a day
	// the records that a checkpoint points to.
	checkpointLife = 7 * 24 * time.Hour
	retryPause     = 100 * time.Millisecond
)

// Options say which stream to follow and how. API, Table and Streams are required.
type Options struct {
	// API, Table, Now, Logger and Timeout are as in [dynamo.Options].
	API     dynamo.API
	Table   string
	Now     func() time.Time
	Logger  *slog.Logger
	Timeout time.Duration

	// Streams is asked for the records. The follower decodes the answers to a
	// *[dynamodbstreams.Client] itself, at a fraction of the cost. Middleware of that client
	// sees no records in them.
	Streams API
	// Reader names the checkpoints, so that several readers do not share them. It
	// consists of letters, digits and "_.-". Default [DefaultReader].
	Reader string
	// Poll is the pause after a shard was read to its present end. A shorter pause
	// lowers the delay, a longer one makes larger batches. DynamoDB accepts five
	// requests a second for a shard. Default [DefaultPoll].
	Poll time.Duration
	// Batch is the maximum number of records delivered at a time, 1 to 1000. Default
	// [DefaultBatch].
	Batch int
	// Checkpoint is the minimum time between two checkpoints of a shard. It bounds how
	// much is read again after a crash. Default [DefaultCheckpoint].
	Checkpoint time.Duration
	// Lost is told of each gap: records of a shard, after the last one that was read, that the
	// stream no longer has. A stream keeps records for 24 hours, the embedded engine perhaps not
	// as long. The follower also logs the gap, and goes on with the records that remain. Calls
	// may be concurrent. Default: none.
	Lost func(shard string)
	// Progress is told when the follower begins to read a shard, and after each page of it that
	// was read and delivered, an empty one too. It is told with ended when the follower leaves
	// the shard. A shard of which it hears nothing for longer than Poll and the time of a batch
	// is stuck. Calls may be concurrent. Default: none.
	Progress func(shard string, ended bool)
}

// withDefaults validates the options, except what [conn.New] validates, and fills in the
// defaults.
func (o Options) withDefaults() (Options, error) {
	o.Reader = cmp.Or(o.Reader, DefaultReader)
	o.Poll, o.Batch, o.Checkpoint = cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Batch, DefaultBatch), cmp.Or(o.Checkpoint, DefaultCheckpoint)
	switch {
	case o.Streams == nil:
		return o, &store.ValidationError{Field: "Streams", Value: "nil", Reason: "give a client of DynamoDB Streams"}
	case strings.Trim(o.Reader, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "":
		return o, &store.ValidationError{Field: "reader", Value: o.Reader, Reason: `use letters, digits and "_.-"`}
	case o.Batch < 1 || o.Batch > DefaultBatch:
		return o, &store.ValidationError{Field: "batch", Value: strconv.Itoa(o.Batch), Reason: fmt.Sprintf("give 1 to %d, or 0 for %d", DefaultBatch, DefaultBatch)}
	}
	return o, cmp.Or(store.CheckNotNegative("Poll", o.Poll), store.CheckNotNegative("Checkpoint", o.Checkpoint))
}

// A Follower reads a table's stream from its last checkpoint. It reads the stream shard
// by shard, parents before their children, so that the records of an item arrive in the
// order of its writes. It keeps its checkpoints in the table.
//
// It holds no lease: two followers of one name both read everything. Consumers of the
// records tolerate that, since records are delivered at least once anyway.
type Follower struct {
	conn *conn.Conn
	o    Options
	log  *slog.Logger
}

// NewFollower returns a follower. It sends no request.
func NewFollower(o Options) (*Follower, error) {
	c, err := conn.New(conn.Options{API: o.API, Table: o.Table, Now: o.Now, Logger: o.Logger, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	return &Follower{c, o, c.Log}, nil
}

// Check reports whether Run could start; use it to fail fast. It fails as Run would if
// there is no table or no stream to follow. It sends a request that Run sends, too.
func (f *Follower) Check(ctx context.Context) error {
	_, err := f.streamARN(ctx)
	return err
}

// Run delivers records to handle until the context ends, one page of one shard at a
// time. It reads several shards at once. handle may change the records but not move
// them. If handle returns an error before the context has ended, Run delivers the same
// records again after a pause. It delivers nothing else of that shard until handle has
// accepted them.
//
// handle may defer records by returning their indexes, in order. Run delivers them to
// later some seconds afterwards, in batches and concurrently with the records that
// follow. After an error it repeats the delivery until it succeeds. Deferred records are
// not lost if the follower ends before: the next follower starts at the first of them,
// and delivers all records after it once more. A shard defers up to 10,000 records at a
// time; then it waits. later may be nil if handle never defers a record.
//
// Run returns nil when the context has ended, after the batches under way were handled
// and checkpoints were written. It returns an error for conditions that waiting does
// not resolve: there is no table, no stream of the right view ([store.ErrNotFound]), or
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
			pause = retryPause + conn.Backoff(retryPause, tries)
		}
		r.wait(ctx, pause)
	}
	r.readers.Wait()
	return f.ended(ctx, context.Cause(ctx))
}

// ended returns the result of Run: nil if the caller has ended it.
func (*Follower) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// isFinal reports whether an error will not go away without intervention.
func isFinal(err error) bool {
	return errors.Is(err, store.ErrAccessDenied) || errors.Is(err, store.ErrNotFound)
}

// streamARN finds the table's stream.
func (f *Follower) streamARN(ctx context.Context) (*string, error) {
	op := "find the stream of " + *f.conn.Table
	out, err := conn.Call(ctx, f.conn, op, f.o.API.DescribeTable, &dynamodb.DescribeTableInput{TableName: f.conn.Table})
	if err != nil {
		return nil, err
	}
	spec := out.Table.StreamSpecification
	if spec == nil || !aws.ToBool(spec.StreamEnabled) || spec.StreamViewType != types.StreamViewTypeNewAndOldImages || out.Table.LatestStreamArn == nil {
		return nil, fmt.Errorf("%s: %w", op, &store.NotFoundError{
			Kind: "stream", Name: *f.conn.Table, Hint: "enable one with the view NEW_AND_OLD_IMAGES on the table; zae-limiter table create --stream makes new tables with one",
		})
	}
	return out.Table.LatestStreamArn, nil
}

// readCheckpoints returns the reader's checkpoints, by shard.
func (f *Follower) readCheckpoints(ctx context.Context) (map[string]schema.Checkpoint, error) {
	all := map[string]schema.Checkpoint{}
	err := f.conn.Query(ctx, "read the checkpoints of "+f.o.Reader, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: schema.Item{":pk": schema.S(schema.CheckpointPK(f.o.Reader))},
		ConsistentRead:            aws.Bool(true),
	}, func(it schema.Item) error {
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
	begun       map[string]bool // shards whose reading was started

	mu       sync.Mutex
	finished map[string]bool // shards that were read to their end
	readers  sync.WaitGroup
	ends     chan struct{} // signals that a shard has just been read to its end
}

// place finds the stream and the checkpoints. It retries as long as necessary.
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
		if err := conn.Sleep(ctx, retryPause+conn.Backoff(retryPause, tries)); err != nil {
			return err
		}
	}
}

// shards lists the stream's shards, with their parents.
func (r *reading) shards(ctx context.Context) (shards []streamtypes.Shard, err error) {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: r.arn}
	for {
		ctx, cancel := r.conn.Bounded(ctx)
		out, err := r.o.Streams.DescribeStream(ctx, in)
		cancel()
		if err != nil {
			return nil, r.translate("describe stream", err)
		}
		shards = append(shards, out.StreamDescription.Shards...)
		if out.StreamDescription.LastEvaluatedShardId == nil {
			return shards, nil
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
}

// begin starts reading the shards whose parents have been read or no longer exist. It also
// starts reading the shards that an earlier run had not read to their end and that no longer
// exist: their readers find what is lost, and write a last checkpoint.
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
		r.startLocked(ctx, id)
	}
	for id := range r.checkpoints {
		if !r.begun[id] && !r.finished[id] && !listed[id] {
			r.startLocked(ctx, id)
		}
	}
}

// startLocked starts reading a shard after its checkpoint.
func (r *reading) startLocked(ctx context.Context, id string) {
	r.begun[id] = true
	s := &shardReader{reading: r, id: id, after: r.checkpoints[id].Sequence, savedAt: r.conn.Clock.Local(), queue: laterQueue{taken: make(chan struct{}, 1)}}
	s.saved = s.after
	r.progress(id, false)
	r.readers.Go(func() { s.run(ctx) })
}

// wait waits until it is time to search for shards again.
func (r *reading) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-r.ends:
	case <-t.C:
	}
}

// translate is [conn.Conn.Translate] for the streams' API, which has the same errors
// under other types.
func (f *Follower) translate(op string, err error) error {
	if missing := (*streamtypes.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return fmt.Errorf("%s: %w: %w", op, &store.NotFoundError{Kind: "stream", Name: *f.conn.Table, Hint: "it was disabled, or the table deleted"}, err)
	}
	return f.conn.Translate(op, err)
}

// A shardReader reads one shard of the stream.
type shardReader struct {
	*reading
	id       string
	after    string  // the sequence number of the last record handled, "" at the beginning
	iterator *string // nil if a new one must be requested

	saved   string // the sequence number of the last checkpoint
	savedAt time.Time
	dirty   bool // a record of interest was read since the last checkpoint
	queue   laterQueue
}

// run reads the shard until its end, or until the context ends.
func (s *shardReader) run(ctx context.Context) {
	defer s.progress(s.id, true)
	err := s.read(ctx)
	if err == nil && s.queue.waits() {
		s.pass() // child shards need not wait for the deferred records
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

// pass releases the child shards for reading.
func (s *shardReader) pass() {
	s.mu.Lock()
	s.finished[s.id] = true
	s.mu.Unlock()
	select {
	case s.ends <- struct{}{}:
	default: // the next search finds them anyway
	}
}

// read delivers the records of the shard. It returns nil at the shard's end.
func (s *shardReader) read(ctx context.Context) error {
	for tries := 0; ; {
		p, more, err := s.page(ctx)
		if err == nil && len(p.records) > 0 {
			err = s.deliver(ctx, p.records)
		}
		expired, trimmed, gone := (*streamtypes.ExpiredIteratorException)(nil), (*streamtypes.TrimmedDataAccessException)(nil), (*streamtypes.ResourceNotFoundException)(nil)
		pause := time.Duration(0)
		switch {
		case err == nil && !more:
			return nil
		case err == nil:
			tries = 0
			s.progress(s.id, false)
			s.saveIfDue(ctx, s.o.Checkpoint)
			if !s.isFull(&p) {
				pause = s.o.Poll
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &expired):
			s.iterator = nil
		case errors.As(err, &trimmed):
			s.lost(ctx, s.id, s.after)
			s.iterator, s.after = nil, ""
		case errors.As(err, &gone):
			s.lost(ctx, s.id, s.after) // it was listed, and the follower had not reached its end
			return nil
		case isFinal(err):
			return err
		default:
			tries++
			s.log.WarnContext(ctx, "stream shard not read", "shard", s.id, "after", s.after, "error", err)
			s.iterator, pause = nil, retryPause+conn.Backoff(retryPause, tries)
		}
		if pause > 0 {
			if err := conn.Sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
}

// lost reports records that are gone before they were read.
func (f *Follower) lost(ctx context.Context, shard, after string) {
	f.log.ErrorContext(ctx, "stream records were dropped before they were read, and are lost", "shard", shard, "after", after)
	if f.o.Lost != nil {
		f.o.Lost(shard)
	}
}

// progress reports that a shard goes on.
func (f *Follower) progress(shard string, ended bool) {
	if f.o.Progress != nil {
		f.o.Progress(shard, ended)
	}
}

// isFull reports whether more records probably follow a page. A page ends at a number
// of records, or at a size of 1 MB.
func (s *shardReader) isFull(p *page) bool {
	const most = 1 << 20
	return len(p.records) == s.o.Batch || p.size > most/2
}

// page reads the next records. more reports that the shard has not ended.
func (s *shardReader) page(ctx context.Context) (p page, more bool, err error) {
	ctx, cancel := s.conn.Bounded(ctx)
	defer cancel()
	if s.iterator == nil {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: s.arn, ShardId: &s.id, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if s.after != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &s.after
		}
		out, err := s.o.Streams.GetShardIterator(ctx, in)
		if err != nil {
			return page{}, false, s.translate("find a place in the stream", err)
		}
		if out.ShardIterator == nil {
			return page{}, false, nil
		}
		s.iterator = out.ShardIterator
	}
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: s.iterator, Limit: aws.Int32(int32(s.o.Batch))} //nolint:gosec // 1000 at most
	p, s.iterator, err = getRecords(ctx, s.o.Streams, in)
	if err != nil {
		return page{}, false, s.translate("read the stream", err)
	}
	return p, s.iterator != nil, nil
}

// deliver delivers a page until handle accepts it, and notes the new position.
func (s *shardReader) deliver(ctx context.Context, records []Record) error {
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
		s.log.WarnContext(ctx, "records not processed", "shard", s.id, "records", len(records), "error", err)
		if err := conn.Sleep(ctx, retryPause+conn.Backoff(retryPause, tries)); err != nil {
			return err
		}
	}
	s.after = records[len(records)-1].Sequence
	return nil
}

// position is the sequence number up to which every record was processed.
func (s *shardReader) position() string {
	if after, waits := s.queue.first(); waits {
		return after
	}
	return s.after
}

// saveIfDue writes a checkpoint if the position has changed and the last checkpoint has
// at least the age old. After idleCheckpoint it also writes one without records of
// interest.
func (s *shardReader) saveIfDue(ctx context.Context, old time.Duration) {
	at, age := s.position(), s.conn.Clock.Local().Sub(s.savedAt)
	if at != s.saved && (s.dirty && age >= old || age >= idleCheckpoint) {
		s.save(ctx, at, false)
	}
}

// save writes a checkpoint. If the write fails, records may be read again and processed
// twice, which does no harm.
func (s *shardReader) save(ctx context.Context, at string, finished bool) {
	now := s.conn.Clock.Now()
	err := s.conn.PutItem(ctx, "write a checkpoint", &dynamodb.PutItemInput{Item: schema.EncodeCheckpoint(s.o.Reader, schema.Checkpoint{
		Shard: s.id, Sequence: at, Finished: finished, Updated: now, Expires: now.Add(checkpointLife),
	})})
	if err != nil {
		s.log.WarnContext(ctx, "checkpoint not written", "shard", s.id, "after", at, "error", err)
		return
	}
	s.saved, s.savedAt, s.dirty = at, s.conn.Clock.Local(), at != s.after // deferred records are of interest
}
