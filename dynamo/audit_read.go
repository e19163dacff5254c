package dynamo

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// AuditSystem is the entity of events about the system level: its limits, and the
// retention of events.
const AuditSystem = schema.AuditSystem

// AuditResource returns the entity of events about a resource's limits.
func AuditResource(name string) string { return schema.AuditResource(name) }

// AuditNamespace returns the entity of events about the namespace of a name. These
// events belong to the table: [Namespaces.AuditEvents] reads them.
func AuditNamespace(name string) string { return schema.AuditNamespace(name) }

// An AuditEvent is one administrative change: its actor, its subject and its time.
type AuditEvent struct {
	ID        string    // a ULID; IDs grow in the order of the events
	Time      time.Time // to the second
	Action    string    // see [ActionLimitsSet]; a peer may write others
	Entity    string    // or [AuditSystem], [AuditResource], or "$NAMESPACE:" and a name
	Principal string    // as asserted by the actor of the change; "" if unknown
	Resource  string    // "" if the event is not about a resource
	// Details depend on the action. Values are those of encoding/json, except that
	// whole numbers are int64.
	Details map[string]any
	Expires time.Time // to the second; zero if the event never expires
}

// An AuditQuery asks for events about one entity.
type AuditQuery struct {
	// Entity is an entity, [AuditSystem], or [AuditResource] of a resource.
	Entity string
	// Action selects events of this action; "" selects all.
	Action string
	// Limit is the maximum number of events to return, up to 10,000; 0 is 100.
	Limit int
	// Cursor is [AuditPage.Cursor] of the page before; "" begins with the newest event.
	Cursor string
}

// An AuditPage is a part of the requested events, newest first.
type AuditPage struct {
	Events []AuditEvent
	Cursor string // the cursor of the next page; "" if this is the last page
}

const (
	defaultAuditLimit = 100
	maxAuditLimit     = 10_000
	// auditScan is how many events one request of a filtered query evaluates.
	auditScan = 200
)

// AuditEvents reads events about an entity or a level of configuration, newest first,
// with consistent reads. Limit counts the returned events; AuditEvents sends as many
// requests as that takes. Expired events are included until the table deletes them.
//
// A Cursor of another entity is a [*store.ValidationError].
func (s *Store) AuditEvents(ctx context.Context, q AuditQuery) (AuditPage, error) {
	if err := schema.CheckAudited(q.Entity); err != nil {
		return AuditPage{}, err
	}
	return s.auditEvents(ctx, s.ns, q)
}

// AuditEvents reads events about the namespace of a name, for all ids that the name led
// to: its registrations and deletions. It reads as [Store.AuditEvents] does and ignores
// q.Entity.
func (n *Namespaces) AuditEvents(ctx context.Context, name string, q AuditQuery) (AuditPage, error) {
	if err := store.CheckNamespace(name); err != nil {
		return AuditPage{}, err
	}
	q.Entity = schema.AuditNamespace(name)
	return n.auditEvents(ctx, schema.TableNamespace, q)
}

func (c *conn) auditEvents(ctx context.Context, ns string, q AuditQuery) (AuditPage, error) {
	in, err := c.auditQuery(ns, &q)
	if err != nil {
		return AuditPage{}, err
	}
	var page AuditPage
	for {
		// One event more than asked for tells whether another page follows.
		in.Limit = aws.Int32(int32(q.Limit + 1 - len(page.Events)))
		if q.Action != "" {
			in.Limit = aws.Int32(auditScan)
		}
		out, err := call(ctx, c, "list audit events of "+q.Entity, func(o *dynamodb.QueryOutput) middleware.Metadata { return o.ResultMetadata },
			c.api.Query, in)
		if err != nil {
			return AuditPage{}, err
		}
		for _, it := range out.Items {
			if len(page.Events) == q.Limit {
				page.Cursor = auditCursor(schema.AuditPK(ns, q.Entity), page.Events[q.Limit-1].ID)
				return page, nil
			}
			if _, e, ok := schema.DecodeAuditEvent(it); ok {
				page.Events = append(page.Events, auditEvent(&e))
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return page, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// auditQuery returns the query for the first page, without its size. It validates q and
// fills in the defaults.
func (c *conn) auditQuery(ns string, q *AuditQuery) (in *dynamodb.QueryInput, err error) {
	if q.Limit == 0 {
		q.Limit = defaultAuditLimit
	}
	if q.Limit < 1 || q.Limit > maxAuditLimit {
		return nil, &store.ValidationError{
			Field: "limit", Value: strconv.Itoa(q.Limit), Reason: "give 1 to " + strconv.Itoa(maxAuditLimit) + " events",
		}
	}
	pk := schema.AuditPK(ns, q.Entity)
	in = &dynamodb.QueryInput{
		TableName:                 c.table,
		KeyConditionExpression:    aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: item{":pk": schema.S(pk), ":sk": schema.S(schema.AuditPrefix)},
		ScanIndexForward:          aws.Bool(false),
		ConsistentRead:            aws.Bool(true),
	}
	if q.Action != "" {
		in.FilterExpression = aws.String("#a = :a")
		in.ExpressionAttributeNames = map[string]string{"#a": schema.Action}
		in.ExpressionAttributeValues[":a"] = schema.S(q.Action)
	}
	if q.Cursor != "" {
		id, err := parseAuditCursor(pk, q.Cursor)
		if err != nil {
			return nil, err
		}
		in.ExclusiveStartKey = schema.AuditKey(ns, q.Entity, id).Item()
	}
	return in, nil
}

func auditEvent(e *schema.AuditEvent) AuditEvent {
	return AuditEvent{
		ID: e.ID, Time: e.Time, Action: e.Action, Entity: e.Entity, Principal: e.Principal,
		Resource: e.Resource, Details: schema.PlainMap(e.Details), Expires: e.Expires,
	}
}

// auditCursor encodes the partition key and the ID of the last event of a page.
func auditCursor(pk, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pk + "\n" + id))
}

func parseAuditCursor(pk, cursor string) (id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	of, id, _ := strings.Cut(string(raw), "\n")
	if err != nil || of != pk || id == "" {
		return "", &store.ValidationError{Field: "cursor", Value: cursor, Reason: "give the cursor of a page of the same entity's events"}
	}
	return id, nil
}
