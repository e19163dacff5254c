package dynamolite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

const (
	maxStreams       = 100  // of a page of ListStreams
	maxStreamShards  = 100  // of a page of DescribeStream
	maxStreamRecords = 1000 // of a page of GetRecords
	minShardID       = 28   // characters
	maxShardID       = 65
	minSequence      = 21 // characters of a sequence number
	maxSequence      = 40
)

// reportInterval is the least time between two reports of records that one stream dropped.
const reportInterval = time.Minute

// tableStream is a current or former stream of a table. All fields but its records are fixed once
// it is in the registry.
type tableStream struct {
	table      string
	arn, label string
	created    time.Time
	view       dynamodbtypes.StreamViewType
	key        keySchema
	log        *stream.Stream[streamChange]
	pending    bool // not in the log yet and not visible; guarded by the registry

	// Records that were dropped early since the last report, and when that was. Appends come one
	// at a time and need no lock.
	dropped  int
	reported time.Time
}

// newStream makes the stream that spec asks for, or returns nil if it asks for none. It keeps at
// most so many bytes of records.
func (t *table) newStream(spec *dynamodbtypes.StreamSpecification, now time.Time, o stream.Options) (*tableStream, error) {
	switch {
	case spec == nil:
		return nil, nil
	case spec.StreamEnabled == nil:
		return nil, missing("StreamSpecification.StreamEnabled")
	case !*spec.StreamEnabled && spec.StreamViewType != "":
		return nil, invalid("StreamViewType is allowed only if StreamEnabled is true")
	case !*spec.StreamEnabled:
		return nil, nil
	}
	switch spec.StreamViewType {
	case dynamodbtypes.StreamViewTypeKeysOnly, dynamodbtypes.StreamViewTypeNewImage, dynamodbtypes.StreamViewTypeOldImage, dynamodbtypes.StreamViewTypeNewAndOldImages:
		return newTableStream(t, spec.StreamViewType, now, o), nil
	case "":
		return nil, invalid("StreamViewType is required when StreamEnabled is true")
	default:
		return nil, badEnum("streamSpecification.streamViewType", string(spec.StreamViewType), "NEW_IMAGE, OLD_IMAGE, NEW_AND_OLD_IMAGES, KEYS_ONLY")
	}
}

// newTableStream makes an empty, enabled stream for a table.
func newTableStream(t *table, view dynamodbtypes.StreamViewType, now time.Time, o stream.Options) *tableStream {
	s := &tableStream{table: t.name, created: now.UTC(), view: view, key: t.key, log: stream.New[streamChange](t.name, now, o)}
	s.name(streamLabel(s.created))
	return s
}

func streamLabel(at time.Time) string { return at.Format("2006-01-02T15:04:05.000") }

func (s *tableStream) name(label string) {
	s.label = label
	s.arn = tableARN(s.table) + "/stream/" + label
}

// append adds the record of a write. Position is the write's place in the order of all writes.
// Calls come in that order, one write at a time. Hash is the hash of the partition key: writes
// with equal hashes stay in order. TTL says that the sweep for expired items deleted the item.
// It returns how many records were dropped early, for want of room, if it is time to report them.
func (s *tableStream) append(pos position, at time.Time, hash uint32, old, updated *record, ttl bool) (dropped int) {
	c := newStreamChange(s.view, old, updated, ttl)
	s.dropped += s.log.Append(hash, stream.Record[streamChange]{Position: uint64(pos), At: at, Size: c.bytes(), Value: c})
	if s.dropped == 0 || at.Sub(s.reported).Abs() < reportInterval {
		return 0
	}
	dropped, s.dropped, s.reported = s.dropped, 0, at
	return dropped
}

// reportDropped logs that a stream dropped records before they were a day old. Appends hold the
// locks of their items, so it does not wait for the log.
func (db *DB) reportDropped(s *tableStream, records int) {
	db.goes(func() {
		db.logger.Warn("stream records were dropped before 24 hours; readers that have not read them miss them: raise StreamBytes, or read sooner",
			"table", s.table, "stream", s.label, "records", records, "stream_bytes", db.streams.options.MaxBytes)
	})
}

// disable ends the stream on behalf of the write at a position, or 0 if that write has no
// position. The stream stays readable for another 24 h.
func (s *tableStream) disable(pos position, now time.Time) { s.log.Close(uint64(pos), now) }

// streamRegistry holds all streams of a database that can be read, including those of deleted
// tables. Its lock is taken after the database's lock and before a stream's lock.
type streamRegistry struct {
	durable func() position // durable returns the last change that a crash cannot undo
	options stream.Options  // of every stream

	mu      sync.RWMutex
	streams map[string]*tableStream // by ARN
}

func newStreamRegistry(durable func() position, o stream.Options) *streamRegistry {
	return &streamRegistry{durable: durable, options: o, streams: map[string]*tableStream{}}
}

// add registers a stream. If another stream of the same table has the same creation time, to the
// millisecond, it keeps its label. The new stream then gets the next free label.
func (g *streamRegistry) add(s *tableStream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for at := s.created; ; at = at.Add(time.Millisecond) {
		s.name(streamLabel(at))
		if _, taken := g.streams[s.arn]; !taken {
			break
		}
	}
	g.streams[s.arn], s.pending = s, true
}

// publish makes a stream visible after the log has the entry of its table. A nil stream is none.
// It also forgets streams whose records are all gone.
func (g *streamRegistry) publish(s *tableStream, now time.Time) {
	if s != nil {
		g.mu.Lock()
		s.pending = false
		g.mu.Unlock()
	}
	g.expire(now)
}

// remove forgets a stream whose creation failed; nil is none.
func (g *streamRegistry) remove(s *tableStream) {
	if s == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, s.arn)
}

// expire forgets streams that were disabled so long ago that all their records are gone.
func (g *streamRegistry) expire(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for arn, s := range g.streams {
		if s.log.Expired(now) {
			delete(g.streams, arn)
		}
	}
}

// find finds a stream by its ARN.
func (g *streamRegistry) find(arn string, now time.Time) (*tableStream, bool) {
	g.mu.RLock()
	s, ok := g.streams[arn]
	ok = ok && !s.pending
	g.mu.RUnlock()
	return s, ok && !s.log.Expired(now)
}

// all lists the streams by ARN, the highest first; for one table, the newest first.
func (g *streamRegistry) all() []*tableStream {
	g.mu.RLock()
	defer g.mu.RUnlock()
	list := make([]*tableStream, 0, len(g.streams))
	for _, s := range g.streams {
		if !s.pending {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *tableStream) int { return cmp.Compare(b.arn, a.arn) })
	return list
}

// stream finds a stream by the ARN in a request.
func (db *DB) stream(arn *string, now time.Time) (*tableStream, error) {
	if arn == nil {
		return nil, missing("StreamArn")
	}
	db.mu.RLock()
	closed := db.closed
	db.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	s, ok := db.streams.find(*arn, now)
	if !ok {
		return nil, streamResource("Stream: " + *arn)
	}
	return s, nil
}

func streamResource(what string) error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: " + what + " not found")}
}

// streamLimit parses a Limit between 1 and a maximum, which is also the default.
func streamLimit(limit *int32, most int) (int, error) {
	switch {
	case limit == nil:
		return most, nil
	case *limit < 1 || int(*limit) > most:
		return 0, validationf("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and %d", *limit, most)
	}
	return int(*limit), nil
}

// ListStreams lists streams, at most 100 at a time; for one table, the newest first. A stream
// stays listed for 24 hours after it is disabled or its table is deleted.
func (db *DB) ListStreams(ctx context.Context, in *dynamodbstreams.ListStreamsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.ListStreamsOutput, error) {
	return run(ctx, db, opListStreams, in, (*DB).listStreams)
}

func (db *DB) listStreams(c *call, in *dynamodbstreams.ListStreamsInput) (*dynamodbstreams.ListStreamsOutput, error) {
	defer c.seesAll(db)
	limit, err := streamLimit(in.Limit, maxStreams)
	if err != nil {
		return nil, err
	}
	if in.TableName != nil {
		if err := checkTableName(*in.TableName); err != nil {
			return nil, err
		}
	}
	db.mu.RLock()
	closed := db.closed
	db.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	db.streams.expire(db.now())
	out := &dynamodbstreams.ListStreamsOutput{Streams: []types.Stream{}}
	for _, s := range db.streams.all() {
		switch {
		case in.TableName != nil && s.table != *in.TableName:
		case in.ExclusiveStartStreamArn != nil && s.arn >= *in.ExclusiveStartStreamArn:
		case len(out.Streams) == limit:
			out.LastEvaluatedStreamArn = aws.String(*out.Streams[limit-1].StreamArn)
			return out, nil
		default:
			out.Streams = append(out.Streams, types.Stream{
				StreamArn: aws.String(s.arn), StreamLabel: aws.String(s.label), TableName: aws.String(s.table),
			})
		}
	}
	return out, nil
}

// DescribeStream describes a stream and its shards, at most 100 at a time, the oldest shard
// first.
func (db *DB) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	return run(ctx, db, opDescribeStream, in, (*DB).describeStream)
}

func (db *DB) describeStream(c *call, in *dynamodbstreams.DescribeStreamInput) (*dynamodbstreams.DescribeStreamOutput, error) {
	defer c.seesAll(db)
	now := db.now()
	s, err := db.stream(in.StreamArn, now)
	if err != nil {
		return nil, err
	}
	limit, err := streamLimit(in.Limit, maxStreamShards)
	if err != nil {
		return nil, err
	}
	after := aws.ToString(in.ExclusiveStartShardId)
	if n := len(after); in.ExclusiveStartShardId != nil && (n < minShardID || n > maxShardID) {
		return nil, validationf("1 validation error detected: Value '%s' at 'exclusiveStartShardId' failed to satisfy constraint: Member must have length between %d and %d",
			after, minShardID, maxShardID)
	}
	childrenOf, err := childrenOf(in.ShardFilter)
	if err != nil {
		return nil, err
	}
	d := s.describe()
	out := &dynamodbstreams.DescribeStreamOutput{StreamDescription: d}
	for _, sh := range s.log.Shards(uint64(db.streams.durable()), now) {
		switch {
		case sh.ID <= after || childrenOf != "" && sh.Parent != childrenOf:
		case len(d.Shards) == limit:
			d.LastEvaluatedShardId = aws.String(*d.Shards[limit-1].ShardId)
			return out, nil
		default:
			d.Shards = append(d.Shards, describeShard(&sh))
		}
	}
	return out, nil
}

// childrenOf parses a ShardFilter. It returns the shard whose children are requested, "" for all
// shards.
func childrenOf(f *types.ShardFilter) (string, error) {
	switch {
	case f == nil:
		return "", nil
	case f.Type != types.ShardFilterTypeChildShards:
		return "", badEnum("shardFilter.type", string(f.Type), "CHILD_SHARDS")
	case aws.ToString(f.ShardId) == "":
		return "", missing("ShardFilter.ShardId")
	}
	return *f.ShardId, nil
}

// describe returns the description without shards.
func (s *tableStream) describe() *types.StreamDescription {
	d := &types.StreamDescription{
		StreamArn:               aws.String(s.arn),
		StreamLabel:             aws.String(s.label),
		StreamStatus:            types.StreamStatusEnabled,
		StreamViewType:          types.StreamViewType(s.view),
		CreationRequestDateTime: aws.Time(s.created),
		TableName:               aws.String(s.table),
		Shards:                  []types.Shard{},
	}
	if s.log.Closed() {
		d.StreamStatus = types.StreamStatusDisabled
	}
	for _, e := range s.key.describe() {
		d.KeySchema = append(d.KeySchema, types.KeySchemaElement{AttributeName: e.AttributeName, KeyType: types.KeyType(e.KeyType)})
	}
	return d
}

func describeShard(sh *stream.Shard) types.Shard {
	d := types.Shard{
		ShardId:             aws.String(sh.ID),
		SequenceNumberRange: &types.SequenceNumberRange{StartingSequenceNumber: aws.String(sequenceNumber(sh.Start))},
	}
	if sh.Parent != "" {
		d.ParentShardId = aws.String(sh.Parent)
	}
	if sh.End != 0 {
		d.SequenceNumberRange.EndingSequenceNumber = aws.String(sequenceNumber(sh.End))
	}
	return d
}

// GetShardIterator returns an iterator to read a shard with. It is valid for 15 minutes. A
// sequence number of a record that is gone is a *types.TrimmedDataAccessException. A shard that
// is not listed is a *types.ResourceNotFoundException.
func (db *DB) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	return run(ctx, db, opGetShardIterator, in, (*DB).getShardIterator)
}

func (db *DB) getShardIterator(_ *call, in *dynamodbstreams.GetShardIteratorInput) (*dynamodbstreams.GetShardIteratorOutput, error) {
	now := db.now()
	s, err := db.stream(in.StreamArn, now)
	if err != nil {
		return nil, err
	}
	if in.ShardId == nil {
		return nil, missing("ShardId")
	}
	from, err := streamStart(in)
	if err != nil {
		return nil, err
	}
	it, err := s.log.Find(s.arn, *in.ShardId, from, uint64(db.streams.durable()), now)
	if err != nil {
		return nil, streamError(err, *in.ShardId)
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String(it.String())}, nil
}

// streamStart parses the position where a request wants to start.
func streamStart(in *dynamodbstreams.GetShardIteratorInput) (from stream.Start, err error) {
	numbered, timed := false, false
	switch in.ShardIteratorType {
	case types.ShardIteratorTypeTrimHorizon:
		from.From = stream.TrimHorizon
	case types.ShardIteratorTypeLatest:
		from.From = stream.Latest
	case types.ShardIteratorTypeAtSequenceNumber:
		from.From, numbered = stream.At, true
	case types.ShardIteratorTypeAfterSequenceNumber:
		from.From, numbered = stream.After, true
	case types.ShardIteratorTypeAtTimestamp:
		from.From, timed = stream.Since, true
	case "":
		return from, missing("ShardIteratorType")
	default:
		return from, badEnum("shardIteratorType", string(in.ShardIteratorType), "AFTER_SEQUENCE_NUMBER, AT_SEQUENCE_NUMBER, AT_TIMESTAMP, LATEST, TRIM_HORIZON")
	}
	switch {
	case numbered != (in.SequenceNumber != nil):
		return from, invalid("SequenceNumber is allowed only with the types AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER")
	case timed != (in.Timestamp != nil):
		return from, invalid("Timestamp is allowed only with the type AT_TIMESTAMP")
	case numbered:
		from.Position, err = parseSequenceNumber(*in.SequenceNumber)
	case timed:
		from.Time = *in.Timestamp
	}
	return from, err
}

// GetRecords reads a page of a shard: up to 1000 records and 1 MB of them. If there is no
// NextShardIterator, the shard is closed and has been read to its end; its children follow.
// Records that a crash could still undo are not returned. Errors: *types.ExpiredIteratorException
// for an iterator older than 15 minutes, *types.TrimmedDataAccessException if records after it
// are gone, *types.LimitExceededException for a Limit above 1000.
func (db *DB) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	return run(ctx, db, opGetRecords, in, (*DB).getRecords)
}

func (db *DB) getRecords(c *call, in *dynamodbstreams.GetRecordsInput) (*dynamodbstreams.GetRecordsOutput, error) {
	if in.ShardIterator == nil {
		return nil, missing("ShardIterator")
	}
	if in.Limit != nil && *in.Limit > maxStreamRecords {
		return nil, &types.LimitExceededException{Message: aws.String(fmt.Sprintf("Limit must be at most %d", maxStreamRecords))}
	}
	limit, err := streamLimit(in.Limit, maxStreamRecords)
	if err != nil {
		return nil, err
	}
	it, err := stream.ParseIterator(*in.ShardIterator)
	if err != nil {
		return nil, streamError(err, "")
	}
	now := db.now()
	s, err := db.stream(&it.Stream, now)
	if err != nil {
		return nil, err
	}
	records, next, more, err := s.log.Read(it, limit, uint64(db.streams.durable()), now)
	if err != nil {
		return nil, streamError(err, it.Shard)
	}
	out := &dynamodbstreams.GetRecordsOutput{Records: make([]types.Record, len(records))}
	for i := range records {
		if err := c.holds(records[i].Size); err != nil {
			return nil, err
		}
		out.Records[i] = s.record(&records[i])
	}
	if more {
		out.NextShardIterator = aws.String(next.String())
	}
	return out, nil
}

// streamError translates a stream's error into an error of the API.
func streamError(err error, shard string) error {
	message := aws.String(err.Error())
	switch {
	case errors.Is(err, stream.ErrTrimmed):
		return &types.TrimmedDataAccessException{Message: message}
	case errors.Is(err, stream.ErrExpiredIterator):
		return &types.ExpiredIteratorException{Message: message}
	case errors.Is(err, stream.ErrNoShard):
		return streamResource("Shard: " + shard)
	case errors.Is(err, stream.ErrBadIterator):
		return validation("Invalid ShardIterator")
	case errors.Is(err, stream.ErrOutsideShard):
		return validation("Invalid SequenceNumber for the shard")
	case errors.Is(err, stream.ErrFuture):
		return validation("Invalid Timestamp: it is in the future")
	}
	return err
}

// sequenceNumber returns a position in the API's form.
func sequenceNumber(position uint64) string { return fmt.Sprintf("%0*d", minSequence, position) }

func parseSequenceNumber(s string) (uint64, error) {
	if len(s) < minSequence || len(s) > maxSequence {
		return 0, validationf("1 validation error detected: Value '%s' at 'sequenceNumber' failed to satisfy constraint: Member must have length between %d and %d",
			s, minSequence, maxSequence)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, invalid("Invalid SequenceNumber: %s is not a number that a record can have", s)
	}
	return n, nil
}
