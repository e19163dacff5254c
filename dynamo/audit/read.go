package audit

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// System is the entity of events about the system level: its limits, and the
// retention of events.
const System = schema.AuditSystem

// Resource returns the entity of events about a resource's limits.
func Resource(name string) string { return schema.AuditResource(name) }

// Namespace returns the entity of events about the namespace of a name. These
// events belong to the table: the namespaces in package dynamo read them.
func Namespace(name string) string { return schema.AuditNamespace(name) }

// An Event is one administrative change: its actor, its subject and its time.
type Event struct {
	ID        string    // a ULID; IDs grow in the order of the events
	Time      time.Time // to the second
	Action    string    // see [LimitsSet]; a peer may write others
	Entity    string    // or [System], [Resource], or "$NAMESPACE:" and a name
	Principal string    // as asserted by the actor of the change; "" if unknown
	Resource  string    // "" if the event is not about a resource
	// Details depend on the action. Values are those of encoding/json, except that
	// whole numbers are int64.
	Details map[string]any
	Expires time.Time // to the second; zero if the event never expires
}

// A Query asks for events about one entity.
type Query struct {
	// Entity is an entity, [System], or [Resource] of a resource.
	Entity string
	// Action selects events of this action; "" selects all.
	Action string
	// Limit is the maximum number of events to return, up to 10,000; 0 is 100.
	Limit int
	// Cursor is [Page.Cursor] of the page before; "" begins with the newest event.
	Cursor string
}

// A Page is a part of the requested events, newest first.
type Page struct {
	Events []Event
	Cursor string // the cursor of the next page; "" if this is the last page
}

const (
	defaultLimit = 100
	maxLimit     = 10_000
	// scan is how many events one request of a filtered query evaluates.
	scan = 200
)

// Read reads events about q.Entity in a namespace, newest first, with consistent reads.
// q.Limit counts the returned events; Read sends as many requests as that takes. Expired
// events are included until the table deletes them.
//
// It fails with a [*store.ValidationError] if the query is invalid, or its cursor that
// of another entity.
func (t *Trail) Read(ctx context.Context, ns string, q Query) (Page, error) {
	in, err := t.query(ns, &q)
	if err != nil {
		return Page{}, err
	}
	var page Page
	for {
		// One event more than asked for tells whether another page follows.
		in.Limit = aws.Int32(int32(q.Limit + 1 - len(page.Events)))
		if q.Action != "" {
			in.Limit = aws.Int32(scan)
		}
		out, err := conn.Call(ctx, t.conn, "list audit events of "+q.Entity, t.conn.API.Query, in)
		if err != nil {
			return Page{}, err
		}
		for _, it := range out.Items {
			if len(page.Events) == q.Limit {
				page.Cursor = cursorAt(schema.AuditPK(ns, q.Entity), page.Events[q.Limit-1].ID)
				return page, nil
			}
			if _, e, ok := schema.DecodeAuditEvent(it); ok {
				page.Events = append(page.Events, decode(&e))
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return page, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// query returns the query for the first page, without its size. It validates q and
// fills in the defaults.
func (t *Trail) query(ns string, q *Query) (in *dynamodb.QueryInput, err error) {
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 1 || q.Limit > maxLimit {
		return nil, &store.ValidationError{
			Field: "limit", Value: strconv.Itoa(q.Limit), Reason: "give 1 to " + strconv.Itoa(maxLimit) + " events",
		}
	}
	pk := schema.AuditPK(ns, q.Entity)
	in = &dynamodb.QueryInput{
		TableName:                 t.conn.Table,
		KeyConditionExpression:    aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: schema.Item{":pk": schema.S(pk), ":sk": schema.S(schema.AuditPrefix)},
		ScanIndexForward:          aws.Bool(false),
		ConsistentRead:            aws.Bool(true),
	}
	if q.Action != "" {
		in.FilterExpression = aws.String("#a = :a")
		in.ExpressionAttributeNames = map[string]string{"#a": schema.Action}
		in.ExpressionAttributeValues[":a"] = schema.S(q.Action)
	}
	if q.Cursor != "" {
		id, err := parseCursor(pk, q.Cursor)
		if err != nil {
			return nil, err
		}
		in.ExclusiveStartKey = schema.AuditKey(ns, q.Entity, id).Item()
	}
	return in, nil
}

func decode(e *schema.AuditEvent) Event {
	return Event{
		ID: e.ID, Time: e.Time, Action: e.Action, Entity: e.Entity, Principal: e.Principal,
		Resource: e.Resource, Details: schema.PlainMap(e.Details), Expires: e.Expires,
	}
}

// cursorAt encodes the partition key and the ID of the last event of a page.
func cursorAt(pk, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pk + "\n" + id))
}

func parseCursor(pk, cursor string) (id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	of, id, _ := strings.Cut(string(raw), "\n")
	if err != nil || of != pk || id == "" {
		return "", &store.ValidationError{Field: "cursor", Value: cursor, Reason: "give the cursor of a page of the same entity's events"}
	}
	return id, nil
}
