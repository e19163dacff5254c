package dynamo

import (
	"context"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A TrailEvent is an audit event and the namespace to which it belongs.
type TrailEvent struct {
	AuditEvent

	// NamespaceID is the namespace's id; "_" for events about namespaces.
	NamespaceID string
	// Namespace is the namespace's name, also after its deletion; "" if it is not
	// known.
	Namespace string
}

// ExpiredEvent returns the audit event whose expiry a record shows. ok is false unless
// the table's own sweep deleted an expired event: events that an operator deletes do
// not count. The result has the id of the namespace, but not its name. An event without
// a readable time gets that of its ID.
//
// An error is a [*store.CorruptError], or says that the stream does not show the
// deleted item.
func (r *Record) ExpiredEvent() (e TrailEvent, ok bool, err error) {
	key := schema.KeyOf(r.Item)
	if !r.ByTTL || !strings.HasPrefix(key.SK, schema.AuditPrefix) {
		return TrailEvent{}, false, nil
	}
	if len(r.Item) == 2 { // only its key
		return TrailEvent{}, true, errNoImages
	}
	corrupt := func(attr, reason string) (TrailEvent, bool, error) {
		return TrailEvent{}, true, &store.CorruptError{Key: r.Key, Attr: attr, Reason: reason}
	}
	ns, event, isEvent := schema.DecodeAuditEvent(r.Item)
	if !isEvent {
		return corrupt(schema.PK, "it is not the key of an audit event")
	}
	e = TrailEvent{AuditEvent: auditEvent(&event), NamespaceID: ns}
	if e.Time.IsZero() {
		const lastYear = 9999 // the last that fits the text form
		id, err := ulid.ParseStrict(e.ID)
		if e.Time = ulid.Time(id.Time()).UTC().Truncate(time.Second); err != nil || e.Time.Year() > lastYear {
			return corrupt(schema.EventTime, "neither it nor the ID of the event is a time")
		}
	}
	return e, true, nil
}

// NameOf finds the name that leads to a namespace's id, or led to it until the
// namespace was deleted. It fails with [store.ErrNotFound] if the id was never
// registered, or was purged.
func (n *Namespaces) NameOf(ctx context.Context, id string) (string, error) {
	it, err := n.getItem(ctx, "find the namespace with the id "+id, schema.NamespaceIDKey(id))
	if err != nil {
		return "", err
	}
	if it == nil {
		return "", &store.NotFoundError{Kind: "namespace", Name: id, Hint: "it was purged, or never registered"}
	}
	ns, err := schema.DecodeNamespace(it)
	return ns.Name, err
}
