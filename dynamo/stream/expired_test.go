package stream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// removal returns the record of a deletion, by the table's sweep or by a client.
func removal(swept bool, key schema.Key, image map[string]streamtypes.AttributeValue) stream.Record {
	s := func(text string) streamtypes.AttributeValue { return &streamtypes.AttributeValueMemberS{Value: text} }
	r := streamtypes.Record{EventName: streamtypes.OperationTypeRemove, Dynamodb: &streamtypes.StreamRecord{
		Keys: map[string]streamtypes.AttributeValue{"PK": s(key.PK), "SK": s(key.SK)}, OldImage: image,
	}}
	if swept {
		r.UserIdentity = &streamtypes.Identity{Type: aws.String("Service"), PrincipalId: aws.String("dynamodb.amazonaws.com")}
	}
	return stream.Decode([]streamtypes.Record{r})[0]
}

// An audit event that the sweep has deleted is reported with its namespace. One that a
// client has deleted is not (peer defects 9.2 and 9.35). An event that cannot be
// decoded is an error.
func TestExpiredEvents(t *testing.T) {
	t.Parallel()
	s := func(text string) streamtypes.AttributeValue { return &streamtypes.AttributeValueMemberS{Value: text} }
	const id = "01M7YGVFY66932SWP0QKT1WNT2" // of 2026-11-21T07:41:39Z
	key := schema.AuditKey("ns1", "user", id)
	image := func(drop ...string) map[string]streamtypes.AttributeValue {
		m := map[string]streamtypes.AttributeValue{
			"PK": s(key.PK), "SK": s(key.SK), "action": s("limits_set"), "timestamp": s("2026-01-02T03:04:05Z"), "principal": s("jo"),
			"resource": &streamtypes.AttributeValueMemberNULL{Value: true}, "ttl": &streamtypes.AttributeValueMemberN{Value: "1800000000"},
			"details": &streamtypes.AttributeValueMemberM{Value: map[string]streamtypes.AttributeValue{"n": &streamtypes.AttributeValueMemberN{Value: "1"}}},
		}
		for _, name := range drop {
			delete(m, name)
		}
		return m
	}
	full := audit.TrailEvent{NamespaceID: "ns1", Event: audit.Event{
		ID: id, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Action: "limits_set", Entity: "user", Principal: "jo",
		Details: map[string]any{"n": int64(1)}, Expires: time.Unix(1800000000, 0).UTC(),
	}}
	timeless := full
	timeless.Time = time.Date(2026, 11, 21, 7, 41, 39, 0, time.UTC)
	for name, c := range map[string]struct {
		record stream.Record
		want   *audit.TrailEvent
		fails  bool
	}{
		"swept":                {removal(true, key, image()), &full, false},
		"deleted by somebody":  {removal(false, key, image()), nil, false},
		"without a time":       {removal(true, key, image("timestamp")), &timeless, false},
		"an entity":            {removal(true, schema.MetaKey("ns1", "user"), image()), nil, false},
		"of no entity":         {removal(true, schema.Key{PK: "ns1/AUDIT#", SK: key.SK}, image()), nil, true},
		"of another partition": {removal(true, schema.Key{PK: "ns1/ENTITY#user", SK: key.SK}, image()), nil, true},
		"of no namespace":      {removal(true, schema.Key{PK: "AUDIT#user", SK: key.SK}, image()), nil, true},
		"without an ID":        {removal(true, schema.Key{PK: key.PK, SK: "#AUDIT#"}, image()), nil, true},
		"of no time":           {removal(true, schema.AuditKey("ns1", "user", "x"), image("timestamp")), nil, true},
		"of a far time":        {removal(true, schema.AuditKey("ns1", "user", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), image("timestamp")), nil, true},
		"only its key is told": {removal(true, key, nil), nil, true},
	} {
		e, ok, err := c.record.ExpiredEvent()
		if ok != (c.want != nil || c.fails) || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if c.want != nil {
			if diff := cmp.Diff(*c.want, e); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		corrupt := (*store.CorruptError)(nil)
		if c.fails && name != "only its key is told" && (!errors.As(err, &corrupt) || corrupt.Key != c.record.Key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
