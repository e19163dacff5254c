package dynamolite

import (
	"encoding/hex"
	"hash/fnv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/value"
)

// streamChange is a write as a stream keeps it: the images that its view shows, which are the table's own
// records and so cost nothing while the table has them, too.
type streamChange struct {
	old, new *record // nil: not shown, or no such item
	keys     *record // has the key, if neither image does
	event    types.OperationType
	expired  bool // the sweep for expired items did it
}

// newStreamChange keeps of a write what a view shows.
func newStreamChange(view dynamodbtypes.StreamViewType, old, updated *record, expired bool) streamChange {
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

// bytes is what the change is counted with: the images it holds on to, and about the size of its key.
func (c *streamChange) bytes() int {
	return c.old.bytes() + c.new.bytes() + c.keys.bytes() + len(c.keyed().key)
}

// keyed is a record that has the key.
func (c *streamChange) keyed() *record {
	switch {
	case c.new != nil:
		return c.new
	case c.old != nil:
		return c.old
	}
	return c.keys
}

// record makes the record that the API returns. The caller may keep and change all of it.
func (s *tableStream) record(r *stream.Record[streamChange]) types.Record {
	c := &r.Value
	old, updated := c.old.item(), c.new.item()
	keyed := updated
	switch {
	case keyed != nil:
	case old != nil:
		keyed = old
	default:
		keyed = c.keys.item()
	}
	keys := make(value.Item, s.key.attributes())
	for name, v := range keyed {
		if s.key.has(name) {
			keys[name] = v
		}
	}
	var k streamSlab
	number := sequenceNumber(r.Position)
	out := types.Record{
		AwsRegion: aws.String(s.region()),
		Dynamodb: &types.StreamRecord{
			ApproximateCreationDateTime: aws.Time(r.At.Truncate(time.Second)),
			Keys:                        k.copyItem(keys),
			NewImage:                    k.item(updated),
			OldImage:                    k.item(old),
			SequenceNumber:              aws.String(number),
			SizeBytes:                   aws.Int64(int64(value.Size(keys) + c.old.bytes() + c.new.bytes())),
			StreamViewType:              types.StreamViewType(s.view),
		},
		EventID:      aws.String(s.eventID(number)),
		EventName:    c.event,
		EventSource:  aws.String("aws:dynamodb"),
		EventVersion: aws.String("1.1"),
	}
	if c.expired {
		out.UserIdentity = &types.Identity{Type: aws.String("Service"), PrincipalId: aws.String("dynamodb.amazonaws.com")}
	}
	return out
}

// region is the one in the stream's ARN.
func (s *tableStream) region() string { return strings.SplitN(s.arn, ":", 5)[3] }

// eventID is 32 hexadecimal digits that no record of another stream or sequence number has, and that
// are the same whenever the record is read.
func (s *tableStream) eventID(number string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(s.arn)) // a hash does not fail
	_, _ = h.Write([]byte(number))
	return hex.EncodeToString(h.Sum(nil))
}

// streamSlab makes values of the streams' API out of values of the data plane, strings and numbers several to
// an allocation: a block lives as long as any value in it. What it is given must be the caller's to give
// away, as a decoded item is: lists of bytes and of strings change hands.
type streamSlab struct {
	s []types.AttributeValueMemberS
	n []types.AttributeValueMemberN
}

// take hands out the next of a block. more is how many values are still to be made, this one included.
func take[T any](block *[]T, more int) *T {
	if len(*block) == 0 {
		*block = make([]T, min(more, 32))
	}
	p := &(*block)[0]
	*block = (*block)[1:]
	return p
}

// item converts an item; nil for nil.
func (k *streamSlab) item(item value.Item) map[string]types.AttributeValue {
	if item == nil {
		return nil
	}
	out := make(map[string]types.AttributeValue, len(item))
	more := len(item)
	for name, v := range item {
		out[name] = k.value(v, more)
		more--
	}
	return out
}

// copyItem converts a key that stays part of another item, which is converted, too.
func (k *streamSlab) copyItem(keys value.Item) map[string]types.AttributeValue {
	return k.item(value.Clone(keys))
}

func (k *streamSlab) value(v dynamodbtypes.AttributeValue, more int) types.AttributeValue {
	switch v := v.(type) {
	case *dynamodbtypes.AttributeValueMemberS:
		p := take(&k.s, more)
		p.Value = v.Value
		return p
	case *dynamodbtypes.AttributeValueMemberN:
		p := take(&k.n, more)
		p.Value = v.Value
		return p
	case *dynamodbtypes.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: v.Value}
	case *dynamodbtypes.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Value}
	case *dynamodbtypes.AttributeValueMemberNULL:
		return &types.AttributeValueMemberNULL{Value: v.Value}
	case *dynamodbtypes.AttributeValueMemberSS:
		return &types.AttributeValueMemberSS{Value: v.Value}
	case *dynamodbtypes.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: v.Value}
	case *dynamodbtypes.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: v.Value}
	case *dynamodbtypes.AttributeValueMemberL:
		list := make([]types.AttributeValue, len(v.Value))
		for i, e := range v.Value {
			list[i] = k.value(e, len(v.Value)-i)
		}
		return &types.AttributeValueMemberL{Value: list}
	case *dynamodbtypes.AttributeValueMemberM:
		return &types.AttributeValueMemberM{Value: k.item(v.Value)}
	default:
		panic("dynamolite: a stored item has a value of type " + value.TypeName(v))
	}
}
