// Package streams holds the streams of tables: what a stream records of a write, which streams there
// are, and the operations that read them. Package stream keeps the records of one of them.
//
// Invariants: records come in the order of the writes of a database, and no reader gets a record of a
// write that a crash could still undo.
package streams

import (
	"cmp"
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

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/journal"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
)

// The limits of the API reference of DynamoDB Streams: pages of ListStreams, DescribeStream and
// GetRecords, and the lengths of identifiers.
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

// Stream is a current or former stream of a table. All fields but its records are fixed once
// it is in the registry.
//
// A table has at most one that is enabled. A disabled one stays readable for 24 hours, even if the
// table has another by then or is deleted.
//
// The naive design reads the stream from the log. The log is cut at every checkpoint and has no
// images of earlier items. A database in memory has no log.
type Stream struct {
	Table string
	// ARN and Label name the stream. The label is the time of its creation. Readers keep the ARN in
	// their iterators, so a restart must restore the same one.
	ARN, Label string
	// Created is in UTC, because the label is made of it.
	Created time.Time
	// View decides which images a record keeps, and not only which ones it shows.
	View dynamodbtypes.StreamViewType
	// key is that of the table, which may be deleted before the stream.
	key storage.KeySchema
	log *stream.Stream[streamChange]
	// pending: the stream is not in the log yet and not visible. Guarded by the registry. A crash now
	// would undo the stream, so a reader that had found it would have records of no table.
	pending bool

	// Records that were dropped early since the last report, and when that was. Appends come one
	// at a time and need no lock.
	dropped  int
	reported time.Time
}

// New makes the stream that spec asks for, or returns nil if it asks for none. It keeps at
// most so many bytes of records.
//
// The checks are those of CreateTable and of UpdateTable.
func New(table string, key *storage.KeySchema, spec *dynamodbtypes.StreamSpecification, now time.Time, o stream.Options) (*Stream, error) {
	switch {
	case spec == nil:
		return nil, nil
	case spec.StreamEnabled == nil:
		return nil, api.Missing("StreamSpecification.StreamEnabled")
	case !*spec.StreamEnabled && spec.StreamViewType != "":
		return nil, api.Invalid("StreamViewType is allowed only if StreamEnabled is true")
	case !*spec.StreamEnabled:
		return nil, nil
	}
	if spec.StreamViewType == "" {
		return nil, api.Invalid("StreamViewType is required when StreamEnabled is true")
	}
	if err := api.OneOf("streamSpecification.streamViewType", spec.StreamViewType,
		dynamodbtypes.StreamViewTypeNewImage, dynamodbtypes.StreamViewTypeOldImage, dynamodbtypes.StreamViewTypeNewAndOldImages, dynamodbtypes.StreamViewTypeKeysOnly); err != nil {
		return nil, err
	}
	return Empty(table, key, spec.StreamViewType, now, o), nil
}

// Empty makes an empty, enabled stream for a table.
//
// It is not registered, so nobody can read it yet.
func Empty(table string, key *storage.KeySchema, view dynamodbtypes.StreamViewType, now time.Time, o stream.Options) *Stream {
	s := &Stream{Table: table, Created: now.UTC(), View: view, key: *key, log: stream.New[streamChange](table, now, o)}
	s.Name(streamLabel(s.Created))
	return s
}

// streamLabel returns a label in the form of AWS's: milliseconds, without a zone.
func streamLabel(at time.Time) string { return at.Format("2006-01-02T15:04:05.000") }

// Name gives the stream its label and with it its ARN. Only the registry may call it once others
// know the stream: the label must be unique for the table.
func (s *Stream) Name(label string) {
	s.Label = label
	s.ARN = api.TableARN(s.Table) + "/stream/" + label
}

// Append adds the record of a write. Position is the write's place in the order of all writes.
// Calls come in that order, one write at a time. Hash is the hash of the partition key: writes with
// equal hashes stay in order. TTL says that the sweep for expired items deleted the item. It
// returns how many records were dropped early, for want of room, if it is time to report them. The
// caller holds the lock of the order of writes, so nothing is copied or encoded here.
//
// A report each minute at most: under load a full stream drops records with each write.
func (s *Stream) Append(pos journal.Position, at time.Time, hash uint32, old, updated *storage.Record, ttl bool) (dropped int) {
	c := newStreamChange(s.View, old, updated, ttl)
	s.dropped += s.log.Append(hash, stream.Record[streamChange]{Position: uint64(pos), At: at, Size: c.bytes(), Value: c})
	if s.dropped == 0 || at.Sub(s.reported).Abs() < reportInterval {
		return 0
	}
	dropped, s.dropped, s.reported = s.dropped, 0, at
	return dropped
}

// Disable ends the stream on behalf of the write at a position, or 0 if that write has no position.
// The stream stays readable for another 24 h. Readers that do not see that position yet find its
// shards open, because a crash could still undo the write.
func (s *Stream) Disable(pos journal.Position, now time.Time) { s.log.Close(uint64(pos), now) }

// Registry holds all streams of a database that can be read, including those of deleted tables. Its
// lock is taken after the database's lock and before a stream's lock. A stream belongs to the
// registry and not to its table, because it outlives it.
type Registry struct {
	now func() time.Time
	// durable returns the last change that a crash cannot undo. Readers see no record after it:
	//
	//	write     note · stream has the record ············· on disk
	//	reader                             nothing yet              the record
	//
	// Without it, a consumer could act on a write that a crash then undoes. After the restart,
	// other writes would get the sequence numbers that it has seen.
	durable func() journal.Position
	showAll func(*api.Call) // makes an answer wait for the whole log
	Options stream.Options  // of every stream

	mu      sync.RWMutex
	streams map[string]*Stream // by ARN
}

// NewRegistry returns a registry without streams. See the fields for its arguments.
func NewRegistry(now func() time.Time, durable func() journal.Position, showAll func(*api.Call), o stream.Options) *Registry {
	return &Registry{now: now, durable: durable, showAll: showAll, Options: o, streams: map[string]*Stream{}}
}

// Add registers a stream. If another stream of the same table has the same creation time, to the
// millisecond, it keeps its label. The new stream then gets the next free label. A program may
// delete and create a table within a millisecond. Without another label, readers of the first
// stream would continue in the second.
//
// The stream is pending until [Registry.Publish] or [Registry.Remove].
func (g *Registry) Add(s *Stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for at := s.Created; ; at = at.Add(time.Millisecond) {
		s.Name(streamLabel(at))
		if _, taken := g.streams[s.ARN]; !taken {
			break
		}
	}
	g.streams[s.ARN], s.pending = s, true
}

// Publish makes a stream visible after the log has the entry of its table. A nil stream is none. It
// also forgets streams whose records are all gone. Creating streams is rare, so it is the time to
// forget old ones. A timer would be one more thing to end.
func (g *Registry) Publish(s *Stream, now time.Time) {
	if s != nil {
		g.mu.Lock()
		s.pending = false
		g.mu.Unlock()
	}
	g.Expire(now)
}

// Remove forgets a stream whose creation failed; nil is none. The note of its table failed, and
// nobody has seen it: it was pending.
func (g *Registry) Remove(s *Stream) {
	if s == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, s.ARN)
}

// Expire forgets streams that were disabled so long ago that all their records are gone. Only
// streams that were disabled can expire: an enabled one without records is empty.
func (g *Registry) Expire(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for arn, s := range g.streams {
		if s.log.Expired(now) {
			delete(g.streams, arn)
		}
	}
}

// find finds a stream by its ARN. A stream whose records have expired is not found, even before it
// is forgotten. The answer must not depend on who came by in between.
func (g *Registry) find(arn string, now time.Time) (*Stream, bool) {
	g.mu.RLock()
	s, ok := g.streams[arn]
	ok = ok && !s.pending
	g.mu.RUnlock()
	return s, ok && !s.log.Expired(now)
}

// all lists the streams by ARN, the highest first; for one table, the newest first. A fixed order
// makes pages possible: the next page begins after an ARN.
func (g *Registry) all() []*Stream {
	g.mu.RLock()
	defer g.mu.RUnlock()
	list := make([]*Stream, 0, len(g.streams))
	for _, s := range g.streams {
		if !s.pending {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *Stream) int { return cmp.Compare(b.ARN, a.ARN) })
	return list
}

// stream finds a stream by the ARN in a request. A stream that is pending or expired has the error
// of one that never was.
func (g *Registry) stream(arn *string, now time.Time) (*Stream, error) {
	if arn == nil {
		return nil, api.Missing("StreamArn")
	}
	s, ok := g.find(*arn, now)
	if !ok {
		return nil, streamResource("Stream: " + *arn)
	}
	return s, nil
}

// AWS has one error for missing streams and missing shards. Only the text tells them apart.
func streamResource(what string) error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: " + what + " not found")}
}

// streamLimit parses a Limit between 1 and a maximum, which is also the default. An absent limit is
// the largest, as AWS documents.
func streamLimit(limit *int32, most int) (int, error) {
	switch {
	case limit == nil:
		return most, nil
	case *limit < 1 || int(*limit) > most:
		return 0, api.Validationf("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and %d", *limit, most)
	}
	return int(*limit), nil
}

// ListStreams executes the operation of that name.
//
// The list depends on every creation of a table, so the answer waits for the whole log. It takes
// only the name of a table, not its ARN, as on AWS.
func (g *Registry) ListStreams(c *api.Call, in *dynamodbstreams.ListStreamsInput) (*dynamodbstreams.ListStreamsOutput, error) {
	defer g.showAll(c)
	limit, err := streamLimit(in.Limit, maxStreams)
	if err != nil {
		return nil, err
	}
	if in.TableName != nil {
		if err := api.CheckTableName(*in.TableName); err != nil {
			return nil, err
		}
	}
	g.Expire(g.now())
	out := &dynamodbstreams.ListStreamsOutput{Streams: []types.Stream{}}
	for _, s := range g.all() {
		switch {
		case in.TableName != nil && s.Table != *in.TableName:
		case in.ExclusiveStartStreamArn != nil && s.ARN >= *in.ExclusiveStartStreamArn:
		case len(out.Streams) == limit:
			out.LastEvaluatedStreamArn = aws.String(*out.Streams[limit-1].StreamArn)
			return out, nil
		default:
			out.Streams = append(out.Streams, types.Stream{
				StreamArn: aws.String(s.ARN), StreamLabel: aws.String(s.Label), TableName: aws.String(s.Table),
			})
		}
	}
	return out, nil
}

// DescribeStream executes the operation of that name.
//
// A shard whose closing is not durable is shown as open, and its child not at all.
func (g *Registry) DescribeStream(c *api.Call, in *dynamodbstreams.DescribeStreamInput) (*dynamodbstreams.DescribeStreamOutput, error) {
	defer g.showAll(c)
	now := g.now()
	s, err := g.stream(in.StreamArn, now)
	if err != nil {
		return nil, err
	}
	limit, err := streamLimit(in.Limit, maxStreamShards)
	if err != nil {
		return nil, err
	}
	after := aws.ToString(in.ExclusiveStartShardId)
	if n := len(after); in.ExclusiveStartShardId != nil && (n < minShardID || n > maxShardID) {
		return nil, api.Validationf("1 validation error detected: Value '%s' at 'exclusiveStartShardId' failed to satisfy constraint: Member must have length between %d and %d",
			after, minShardID, maxShardID)
	}
	childrenOf, err := childrenOf(in.ShardFilter)
	if err != nil {
		return nil, err
	}
	d := s.describe()
	out := &dynamodbstreams.DescribeStreamOutput{StreamDescription: d}
	// Shards come by age, and their ids have the same order, so a page continues after an id.
	for _, sh := range s.log.Shards(uint64(g.durable()), now) {
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
// shards. AWS added the filter so that readers need not list all shards to find the next one.
// CHILD_SHARDS is its only type.
func childrenOf(f *types.ShardFilter) (string, error) {
	switch {
	case f == nil:
		return "", nil
	case f.Type != types.ShardFilterTypeChildShards:
		return "", api.OneOf("shardFilter.type", f.Type, types.ShardFilterTypeChildShards)
	case aws.ToString(f.ShardId) == "":
		return "", api.Missing("ShardFilter.ShardId")
	}
	return *f.ShardId, nil
}

// describe returns the description without shards. There is no ENABLING or DISABLING: the engine
// needs no time for either.
func (s *Stream) describe() *types.StreamDescription {
	d := &types.StreamDescription{
		StreamArn:               aws.String(s.ARN),
		StreamLabel:             aws.String(s.Label),
		StreamStatus:            types.StreamStatusEnabled,
		StreamViewType:          types.StreamViewType(s.View),
		CreationRequestDateTime: aws.Time(s.Created),
		TableName:               aws.String(s.Table),
		Shards:                  []types.Shard{},
	}
	if s.log.Closed() {
		d.StreamStatus = types.StreamStatusDisabled
	}
	for _, e := range s.key.Describe() {
		d.KeySchema = append(d.KeySchema, types.KeySchemaElement{AttributeName: e.AttributeName, KeyType: types.KeyType(e.KeyType)})
	}
	return d
}

// An open shard has no end, which tells the reader to come back.
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

// GetShardIterator executes the operation of that name.
//
// An iterator is a text with all that reading needs. The engine remembers no readers, so a restart
// does not end an iterator.
func (g *Registry) GetShardIterator(_ *api.Call, in *dynamodbstreams.GetShardIteratorInput) (*dynamodbstreams.GetShardIteratorOutput, error) {
	now := g.now()
	s, err := g.stream(in.StreamArn, now)
	if err != nil {
		return nil, err
	}
	if in.ShardId == nil {
		return nil, api.Missing("ShardId")
	}
	from, err := streamStart(in)
	if err != nil {
		return nil, err
	}
	it, err := s.log.Find(s.ARN, *in.ShardId, from, uint64(g.durable()), now)
	if err != nil {
		return nil, streamError(err, *in.ShardId)
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String(it.String())}, nil
}

// streamStart parses the position where a request wants to start. A member that the type does not
// use is an error. Ignoring it would start the reader at another place than it asked for.
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
		return from, api.Missing("ShardIteratorType")
	default:
		return from, api.OneOf("shardIteratorType", in.ShardIteratorType, types.ShardIteratorTypeAfterSequenceNumber,
			types.ShardIteratorTypeAtSequenceNumber, types.ShardIteratorTypeAtTimestamp, types.ShardIteratorTypeLatest, types.ShardIteratorTypeTrimHorizon)
	}
	switch {
	case numbered != (in.SequenceNumber != nil):
		return from, api.Invalid("SequenceNumber is allowed only with the types AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER")
	case timed != (in.Timestamp != nil):
		return from, api.Invalid("Timestamp is allowed only with the type AT_TIMESTAMP")
	case numbered:
		from.Position, err = parseSequenceNumber(*in.SequenceNumber)
	case timed:
		from.Time = *in.Timestamp
	}
	return from, err
}

// GetRecords executes the operation of that name.
//
// It waits for no disk, because it shows only what is durable. A reader at the end of an open shard
// gets an empty page and another iterator, as on AWS. At the end of a closed one it gets none, and
// goes on with the child.
//
// A limit above 1,000 has an error of its own, as AWS documents.
func (g *Registry) GetRecords(c *api.Call, in *dynamodbstreams.GetRecordsInput) (*dynamodbstreams.GetRecordsOutput, error) {
	if in.ShardIterator == nil {
		return nil, api.Missing("ShardIterator")
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
	now := g.now()
	s, err := g.stream(&it.Stream, now)
	if err != nil {
		return nil, err
	}
	records, next, more, err := s.log.Read(it, limit, uint64(g.durable()), now)
	if err != nil {
		return nil, streamError(err, it.Shard)
	}
	out := &dynamodbstreams.GetRecordsOutput{Records: make([]types.Record, len(records))}
	for i := range records {
		// Counted before the images are decoded, which is what takes the memory.
		if err := c.Hold(records[i].Size); err != nil {
			return nil, err
		}
		out.Records[i] = s.record(&records[i])
	}
	if more {
		out.NextShardIterator = aws.String(next.String())
	}
	return out, nil
}

// streamError translates a stream's error into an error of the API. Package stream knows no errors
// of the API, so that its tests need no SDK.
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
		return api.Validation("Invalid ShardIterator")
	case errors.Is(err, stream.ErrOutsideShard):
		return api.Validation("Invalid SequenceNumber for the shard")
	case errors.Is(err, stream.ErrFuture):
		return api.Validation("Invalid Timestamp: it is in the future")
	}
	return err
}

// sequenceNumber returns a position in the API's form. AWS gives at least 21 characters. The zeros
// in front keep the order of texts that of numbers.
func sequenceNumber(position uint64) string { return fmt.Sprintf("%0*d", minSequence, position) }

// AWS allows 40 digits. A number beyond 64 bits is none of the engine's, and has an error that says
// so.
func parseSequenceNumber(s string) (uint64, error) {
	if len(s) < minSequence || len(s) > maxSequence {
		return 0, api.Validationf("1 validation error detected: Value '%s' at 'sequenceNumber' failed to satisfy constraint: Member must have length between %d and %d",
			s, minSequence, maxSequence)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, api.Invalid("Invalid SequenceNumber: %s is not a number that a record can have", s)
	}
	return n, nil
}
