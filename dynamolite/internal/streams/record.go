package streams

import (
	"encoding/hex"
	"hash/fnv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// streamChange is a write as a stream keeps it: the images that its view shows. They are the
// table's own records, so they cost nothing while the table also has them. The naive design makes
// the API's record with the write. Each write would then decode two images under the lock of its
// item, although most records are read later or never.
type streamChange struct {
	old, new *storage.Record // nil: not shown, or no such item
	// keys is a record that has the key, if neither image is shown. It is a whole item: a record of
	// only the key would have to be encoded under the lock.
	keys    *storage.Record
	event   types.OperationType
	expired bool // the sweep for expired items deleted it
}

// newStreamChange keeps the parts of a write that a view shows. A put of an item that existed is
// MODIFY, as on AWS.
func newStreamChange(view dynamodbtypes.StreamViewType, old, updated *storage.Record, expired bool) streamChange {
	c := streamChange{event: types.OperationTypeModify, expired: expired, keys: updated}
	switch {
	case old == nil:
		c.event = types.OperationTypeInsert
	case updated == nil:
		c.event, c.keys = types.OperationTypeRemove, old
	}
	if view == dynamodbtypes.StreamViewTypeOldImage || view == dynamodbtypes.StreamViewTypeNewAndOldImages {
		c.old = old
	}
	if view == dynamodbtypes.StreamViewTypeNewImage || view == dynamodbtypes.StreamViewTypeNewAndOldImages {
		c.new = updated
	}
	if c.old != nil || c.new != nil {
		c.keys = nil
	}
	return c
}

// bytes returns the size that the change counts for: its images, and about the size of its key. It
// depends on the record alone, so a restart counts the same and drops the same records.
func (c *streamChange) bytes() int {
	return c.old.Bytes() + c.new.Bytes() + c.keys.Bytes() + len(c.keyed().Key)
}

// keyed returns a record that has the key. A change always has one: some image, or keys.
func (c *streamChange) keyed() *storage.Record {
	switch {
	case c.new != nil:
		return c.new
	case c.old != nil:
		return c.old
	}
	return c.keys
}

// streamParts holds everything that a record points at, in one allocation. The API's types have
// pointers everywhere. A page of 1,000 records would otherwise make many thousand small objects.
type streamParts struct {
	types.StreamRecord

	region, id, source, version, number string
	at                                  time.Time
	size                                int64
}

// record returns the record in the API's form. The caller may keep and change all of it. Time is in
// whole seconds, as on AWS. The record of an expired item has the identity of the service. Readers
// tell it from a client's delete by that ("DynamoDB Streams and Time to Live").
func (s *Stream) record(r *stream.Record[streamChange]) types.Record {
	c := &r.Value
	keys, size := s.keys(c.keyed())
	number := sequenceNumber(r.Position)
	p := &streamParts{
		region: s.region(), id: s.eventID(number), source: "aws:dynamodb", version: "1.1", number: number,
		// Rounded down, as AWS documents for ApproximateCreationDateTime.
		at: r.At.Truncate(time.Second), size: int64(size + c.old.Bytes() + c.new.Bytes()),
	}
	p.StreamRecord = types.StreamRecord{
		ApproximateCreationDateTime: &p.at,
		Keys:                        keys,
		NewImage:                    c.new.StreamItem(),
		OldImage:                    c.old.StreamItem(),
		SequenceNumber:              &p.number,
		SizeBytes:                   &p.size,
		StreamViewType:              types.StreamViewType(s.View),
	}
	out := types.Record{
		AwsRegion: &p.region, Dynamodb: &p.StreamRecord, EventID: &p.id, EventName: c.event, EventSource: &p.source, EventVersion: &p.version,
	}
	if c.expired {
		out.UserIdentity = &types.Identity{Type: aws.String("Service"), PrincipalId: aws.String("dynamodb.amazonaws.com")}
	}
	return out
}

// keys returns the key of an item, and its size. The size counts names and values by AWS's rules,
// so it needs the numbers in the form of items.
func (s *Stream) keys(r *storage.Record) (keys value.StreamItem, size int) {
	keys = make(value.StreamItem, s.key.Attributes())
	for _, a := range [...]*storage.KeyAttribute{&s.key.Hash, &s.key.Rng} {
		if a.Name == "" {
			continue
		}
		keys[a.Name] = value.LookupStream(r.Data, a.Name)
		size += len(a.Name)
		switch v := keys[a.Name].(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += value.SizeOf(&dynamodbtypes.AttributeValueMemberN{Value: v.Value})
		}
	}
	return keys, size
}

// region returns the region in the stream's ARN. The engine has one region, but the record must
// agree with the ARN that its reader knows.
func (s *Stream) region() string { return strings.SplitN(s.ARN, ":", 5)[3] }

// eventID returns 32 hexadecimal digits. No record of another stream or sequence number has the
// same ones, and they stay the same each time the record is read. The naive ID is random. A reader
// that sees a record twice, after a crash of its own, could then not tell.
func (s *Stream) eventID(number string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(s.ARN)) // a hash never fails
	_, _ = h.Write([]byte(number))
	return hex.EncodeToString(h.Sum(nil))
}
