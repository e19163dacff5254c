package dynamo

import (
	"context"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A TrailEvent is an audit event and the namespace whose trail it is of.
type TrailEvent struct {
	AuditEvent

	// NamespaceID is the namespace's id; that of events about namespaces is "_".
	NamespaceID string
	// Namespace is its name, or was when it was deleted; "" if it is not known.
	Namespace string
}

// ExpiredEvent is the audit event that a record tells the end of. ok is false
// unless the table's own sweep has deleted one that had expired: what people
// delete is theirs. It knows the id of the namespace, and not its name. An event
// without a time that can be read has that of its ID.
//
// An error is a [*store.CorruptError], or says that the stream does not show
// what was deleted.
func (r *Record) ExpiredEvent() (e TrailEvent, ok bool, err error) {
	key := schema.KeyOf(r.Item)
	if !r.ByTTL || !strings.HasPrefix(key.SK, schema.AuditPrefix) {
		return TrailEvent{}, false, nil
	}
	if len(r.Item) == 2 { // its key
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
		const lastYear = 9999 // that text has room for
		id, err := ulid.ParseStrict(e.ID)
		if e.Time = ulid.Time(id.Time()).UTC().Truncate(time.Second); err != nil || e.Time.Year() > lastYear {
			return corrupt(schema.EventTime, "neither it nor the ID of the event is a time")
		}
	}
	return e, true, nil
}

// NameOf is the name that leads to a namespace's id, or led to it until the
// namespace was deleted. It fails with [store.ErrNotFound] if there never was
// one, or the id was purged.
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
