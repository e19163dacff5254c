// Package stream reads the stream of a table: it decodes records of writes to buckets,
// and follows a stream from a checkpoint in the table. Begin with [NewFollower], or with
// [DecodeAll] where AWS Lambda delivers the records.
package stream

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Record is one write to an item of the table, as the table's stream shows it.
// Records without meaning for a limiter's environment (of entities, configuration,
// usage) have none of Old, New, Item and Err.
type Record struct {
	// ID is the event's id. Sequence is the record's position in the stream; the
	// sequence numbers of one item increase. See [CompareSequences].
	ID, Sequence string
	// At is the time of the write, truncated to the second.
	At time.Time
	// Key is the item's key, for messages.
	Key string
	// Namespace is the id of the item's namespace, "" if its key has none.
	Namespace string
	// Old and New are a bucket item before and after the write. They are nil where the
	// item did not exist, and if the item is not a bucket.
	Old, New *store.Image
	// Hours are what a bucket item that was deleted kept of its hours, the open one
	// included, as the text of a [usage.Diary]. It is "" in other records, and if the item
	// had no hours.
	Hours string
	// Restarts are the limits of a bucket item that lost their counts in the write, or got new
	// ones, although the diary has older counts of them, as numbers: a peer removes a limit
	// with its count, and leaves the diary alone. See [usage.Snapshots.Restart].
	Restarts map[string]string
	// PeerUsage reports that the write is one of the peer's aggregator to a usage snapshot.
	PeerUsage bool
	// ByTTL reports that the item had expired and that the table's own sweep deleted
	// it.
	ByTTL bool
	// Item is an expired item other than a bucket, as it was before its deletion. It is
	// only the key if the stream shows no more. See [Record.ExpiredEvent].
	Item map[string]types.AttributeValue
	// Err is the reason why a bucket's record could not be read. The record can never
	// be read; the other fields hold as much as could be read.
	Err error
}

// IsOfInterest reports whether the record holds a bucket, an expired item, a write of the peer's
// aggregator or an error.
func (r *Record) IsOfInterest() bool {
	return r.Old != nil || r.New != nil || r.Item != nil || r.PeerUsage || r.Err != nil
}

// CompareSequences orders two sequence numbers: it is negative if a comes before b.
// Sequence numbers are decimals of up to 40 digits, some with leading zeros.
func CompareSequences(a, b string) int {
	for len(a) > len(b) && a[0] == '0' {
		a = a[1:]
	}
	for len(b) > len(a) && b[0] == '0' {
		b = b[1:]
	}
	switch {
	case len(a) != len(b):
		return len(a) - len(b)
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Decode decodes records of the table's stream, which must show old and new images. It reports a record that it
// cannot read in its Err.
func Decode(rs []streamtypes.Record) []Record {
	records := make([]Record, len(rs))
	for i := range rs {
		records[i] = decode(&rs[i])
	}
	return records
}

// errNoImages is the Err of a record that shows only keys, or only one image.
var errNoImages = errors.New("the stream does not show old and new images: enable it with the view NEW_AND_OLD_IMAGES")

// decode decodes a record of the table's stream, which must show old and new
// images. It reports a record that it cannot read in the record's Err.
func decode(r *streamtypes.Record) Record {
	out := Record{ID: aws.ToString(r.EventID)}
	if r.Dynamodb == nil {
		out.Err = errors.New("the record says nothing")
		return out
	}
	out.Sequence = aws.ToString(r.Dynamodb.SequenceNumber)
	out.At = aws.ToTime(r.Dynamodb.ApproximateCreationDateTime)
	out.ByTTL = r.UserIdentity != nil && aws.ToString(r.UserIdentity.PrincipalId) == "dynamodb.amazonaws.com"
	key := schema.KeyAs(r.Dynamodb.Keys, scalarFromStream)
	out.Key = key.String()
	out.Namespace = schema.NamespaceOf(key.PK)
	if key.SK != schema.StateSK {
		if out.ByTTL {
			out.Item = fromStream(r.Dynamodb.OldImage)
			maps.Copy(out.Item, fromStream(r.Dynamodb.Keys))
		}
		out.PeerUsage = isPeerUsage(key, r)
		return out
	}
	if out.Old, out.Err = bucketFromStream(r.Dynamodb.OldImage); out.Err == nil {
		out.New, out.Err = bucketFromStream(r.Dynamodb.NewImage)
	}
	if out.Err == nil && !shows(r.EventName, out.Old, out.New) {
		out.Err = errNoImages
	}
	if out.Err == nil && out.Old != nil && out.New != nil && out.New.Hour != 0 {
		out.Restarts = restarts(r.Dynamodb.OldImage, r.Dynamodb.NewImage)
	}
	if out.Err == nil && out.New == nil {
		out.Hours, out.Err = hoursOf(r.Dynamodb.OldImage)
	}
	if out.Err != nil {
		out.Old, out.New = nil, nil
		out.Err = fmt.Errorf("read a %s of %s: %w", r.EventName, out.Key, out.Err)
	}
	return out
}

// shows reports whether a record has the images that its event leaves.
func shows(event streamtypes.OperationType, old, now *store.Image) bool {
	switch event {
	case streamtypes.OperationTypeInsert:
		return now != nil
	case streamtypes.OperationTypeRemove:
		return old != nil
	case streamtypes.OperationTypeModify:
	}
	return old != nil && now != nil
}

// hoursOf returns the hours of a bucket item that was deleted. Nothing is added to them any
// more, so the open one has ended, too (ADR 039).
func hoursOf(last map[string]streamtypes.AttributeValue) (string, error) {
	d, err := schema.DecodeDiary(fromStream(last))
	if err != nil {
		return "", err
	}
	return schema.TextOf(d.Entries()), nil
}

// restarts returns the counts in the diary that belong to limits whose own counts came or went.
func restarts(before, after map[string]streamtypes.AttributeValue) (found map[string]string) {
	for attr, v := range after {
		limit, is := schema.OpenedLimit(attr)
		if !is {
			continue
		}
		count := schema.LimitAttr(limit, schema.FieldConsumed)
		if _, had := before[count]; had == (after[count] != nil) {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[limit] = scalarFromStream(v).Text
	}
	return found
}

// isPeerUsage reports whether a record shows a write to a usage snapshot whose key is of the
// peer's form that is not one of ours: each of ours sets another mark.
func isPeerUsage(key schema.Key, r *streamtypes.Record) bool {
	if u, ok := schema.ParseUsageKey(key); !ok || !u.Peer || r.EventName == streamtypes.OperationTypeRemove {
		return false
	}
	mark := scalarFromStream(r.Dynamodb.NewImage[schema.DayRead]).Text
	return mark == "" || mark == scalarFromStream(r.Dynamodb.OldImage[schema.DayRead]).Text
}

// bucketFromStream decodes an image of a bucket; nil for nil.
func bucketFromStream(image map[string]streamtypes.AttributeValue) (*store.Image, error) {
	if len(image) == 0 {
		return nil, nil
	}
	return schema.DecodeBucketAs(image, scalarFromStream, nil)
}

func scalarFromStream(v streamtypes.AttributeValue) schema.Scalar {
	switch v := v.(type) {
	case *streamtypes.AttributeValueMemberN:
		if v != nil {
			return schema.Scalar{Kind: schema.Number, Text: v.Value}
		}
	case *streamtypes.AttributeValueMemberS:
		if v != nil {
			return schema.Scalar{Kind: schema.String, Text: v.Value}
		}
	case *streamtypes.AttributeValueMemberBOOL:
		if v != nil && v.Value {
			return schema.Scalar{Kind: schema.True}
		}
	}
	return schema.Scalar{}
}

// fromStream converts an item to the types of the data plane.
func fromStream(image map[string]streamtypes.AttributeValue) schema.Item {
	it := make(schema.Item, len(image))
	for name, v := range image {
		it[name] = valueFromStream(v)
	}
	return it
}

func valueFromStream(v streamtypes.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *streamtypes.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: v.Value}
	case *streamtypes.AttributeValueMemberN:
		return &types.AttributeValueMemberN{Value: v.Value}
	case *streamtypes.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: v.Value}
	case *streamtypes.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Value}
	case *streamtypes.AttributeValueMemberSS:
		return &types.AttributeValueMemberSS{Value: v.Value}
	case *streamtypes.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: v.Value}
	case *streamtypes.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: v.Value}
	case *streamtypes.AttributeValueMemberL:
		list := make([]types.AttributeValue, len(v.Value))
		for i, e := range v.Value {
			list[i] = valueFromStream(e)
		}
		return &types.AttributeValueMemberL{Value: list}
	case *streamtypes.AttributeValueMemberM:
		return &types.AttributeValueMemberM{Value: fromStream(v.Value)}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}
