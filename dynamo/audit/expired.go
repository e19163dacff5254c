package audit

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A TrailEvent is an audit event and the namespace to which it belongs.
type TrailEvent struct {
	Event

	// NamespaceID is the namespace's id; "_" for events about namespaces.
	NamespaceID string
	// Namespace is the namespace's name, also after its deletion; "" if it is not
	// known.
	Namespace string
}

// Decode decodes the item of an event. The result has the id of the namespace, but not
// its name. An event without a readable time gets that of its ID. Decode fails with a
// [*store.CorruptError].
func Decode(it map[string]types.AttributeValue) (TrailEvent, error) {
	corrupt := func(attr, reason string) (TrailEvent, error) {
		return TrailEvent{}, &store.CorruptError{Key: schema.KeyOf(it).String(), Attr: attr, Reason: reason}
	}
	ns, event, isEvent := schema.DecodeAuditEvent(it)
	if !isEvent {
		return corrupt(schema.PK, "it is not the key of an audit event")
	}
	e := TrailEvent{Event: decode(&event), NamespaceID: ns}
	if e.Time.IsZero() {
		const lastYear = 9999 // the last that fits the text form
		id, err := ulid.ParseStrict(e.ID)
		if e.Time = ulid.Time(id.Time()).UTC().Truncate(time.Second); err != nil || e.Time.Year() > lastYear {
			return corrupt(schema.EventTime, "neither it nor the ID of the event is a time")
		}
	}
	return e, nil
}
