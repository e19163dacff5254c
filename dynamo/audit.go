package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Actions of audit events. Peers, which can change an entity's parent and the
// balance of a bucket, write entity_parent_changed, bucket_reset and
// bucket_topped_up besides.
const (
	ActionEntityCreated       = "entity_created"
	ActionEntityDeleted       = "entity_deleted"
	ActionLimitsSet           = "limits_set"
	ActionLimitsDeleted       = "limits_deleted"
	ActionRetentionSet        = "audit_retention_set"
	ActionNamespaceRegistered = "namespace_registered"
	ActionNamespaceDeleted    = "namespace_deleted"
)

// DefaultAuditRetention is how many days audit events are kept where nothing
// else is said.
const DefaultAuditRetention = schema.DefaultAuditRetention

// An auditor makes the events of a connection: it knows who makes the changes.
type auditor struct {
	principal string
	caller    *caller // nil if nobody is asked
	ids       *eventIDs
}

func newAuditor(o Options) *auditor {
	a := &auditor{principal: o.Principal, ids: o.ids}
	if o.Principal == "" {
		a.caller = newCaller(o)
	}
	return a
}

// eventIDs gives out ULIDs, each greater than the one before, whatever the clock
// does.
type eventIDs struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // ms, of the last ID
}

// processIDs are those of everybody in the process who goes by its clock. Who is
// given another one has IDs of their own, which say nothing about the process's.
var processIDs = newEventIDs()

func newEventIDs() *eventIDs { return &eventIDs{entropy: ulid.Monotonic(rand.Reader, 0)} }

func (g *eventIDs) next(now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = max(g.last, min(uint64(max(0, now.UnixMilli())), ulid.MaxTime()))
	id, err := ulid.New(g.last, g.entropy)
	for errors.Is(err, ulid.ErrMonotonicOverflow) {
		g.last++ // the millisecond has no IDs left
		id, err = ulid.New(g.last, g.entropy)
	}
	if err != nil {
		panic(err) // past the year 10889: random bytes never fail
	}
	return id.String()
}

// auditPut makes e an event of now, by whom the connection is, kept for a number
// of days, and returns the write of it, which goes into the transaction of the
// change.
func (c *conn) auditPut(ctx context.Context, ns string, days int, e *schema.AuditEvent) (types.TransactWriteItem, error) {
	e.Principal = c.audit.principal
	if e.Principal == "" {
		var err error
		if e.Principal, err = c.audit.caller.arn(ctx); err != nil {
			return types.TransactWriteItem{}, c.translate("find out who makes the change", err)
		}
	}
	e.Time = c.clock.now()
	e.ID, e.Expires = c.audit.ids.next(e.Time), e.Time.Add(time.Duration(days)*24*time.Hour)
	return types.TransactWriteItem{Put: &types.Put{TableName: c.table, Item: schema.EncodeAuditEvent(ns, e)}}, nil
}

// auditPut is the event of a change in the store's namespace.
func (s *Store) auditPut(ctx context.Context, e *schema.AuditEvent) (types.TransactWriteItem, error) {
	days, err := s.retention.days(ctx, s)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	return s.conn.auditPut(ctx, s.ns, days, e)
}

// CheckPrincipal reports why an event cannot name a principal, as a
// [*store.ValidationError]: a principal is at most 2048 bytes of printable
// UTF-8. "" is taken, and means that it is found out.
func CheckPrincipal(principal string) error {
	const most = 2048
	reason := ""
	switch {
	case len(principal) > most:
		reason = "use at most " + strconv.Itoa(most) + " bytes"
	case !utf8.ValidString(principal):
		reason = "it is not UTF-8"
	default:
		for _, r := range principal {
			if !unicode.IsPrint(r) {
				reason = "use printable characters only, and no spaces but the plain one"
			}
		}
	}
	if reason == "" {
		return nil
	}
	return &store.ValidationError{Field: "principal", Value: principal, Reason: reason}
}

// retentionTTL is for how long a namespace's retention of events is remembered:
// as long as configuration is.
const retentionTTL = time.Minute

// retention remembers for how long a namespace keeps its events.
type retention struct {
	mu    sync.Mutex
	last  int
	until time.Time // what is remembered holds before it
}

// days is what is remembered, or read in one request.
func (r *retention) days(ctx context.Context, s *Store) (int, error) {
	r.mu.Lock()
	days, fresh := r.last, s.clock.now().Before(r.until)
	r.mu.Unlock()
	if fresh {
		return days, nil
	}
	return s.AuditRetention(ctx)
}

func (r *retention) remember(days int, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.until = days, until
}

// learnRetention takes in the item of the system's configuration. What it says
// that cannot be read keeps nobody from changing things: the default holds.
func (s *Store) learnRetention(ctx context.Context, it item) int {
	days, ok := schema.AuditRetention(it)
	if !ok {
		s.log.WarnContext(ctx, "audit retention unreadable: set it again", "attribute", schema.AuditRetentionDays, "days", days)
	}
	s.retention.remember(days, s.clock.now().Add(retentionTTL))
	return days
}

// AuditRetention is for how many days the namespace keeps its audit events, as of
// now: 90 if nothing was set. Each event is kept for as long as was set when it
// was written, by this store or up to a minute before by another.
func (s *Store) AuditRetention(ctx context.Context) (days int, err error) {
	it, err := s.getItem(ctx, "read audit retention", schema.ConfigKey(s.ns, store.ConfigKey{}))
	if err != nil {
		return 0, err
	}
	return s.learnRetention(ctx, it), nil
}

// SetAuditRetention sets for how many days audit events are kept, from 1 to
// 36,500. It holds for events from now on, that of this change first; those that
// exist keep their expiry.
func (s *Store) SetAuditRetention(ctx context.Context, days int) error {
	if days < 1 || days > schema.MaxAuditRetention {
		return &store.ValidationError{
			Field: "audit retention", Value: strconv.Itoa(days),
			Reason: "give a number of days from 1 to " + strconv.Itoa(schema.MaxAuditRetention),
		}
	}
	system := store.ConfigKey{}
	return s.changeConfig(ctx, system, "set audit retention", func(old item) error {
		before, readable := schema.AuditRetention(old)
		if _, set := old[schema.AuditRetentionDays]; set && readable && before == days {
			return nil
		}
		event, err := s.conn.auditPut(ctx, s.ns, days, &schema.AuditEvent{
			Action: ActionRetentionSet, Entity: schema.AuditSystem,
			Details: schema.Item{"days": schema.N(int64(days)), "old_days": schema.N(int64(before))},
		})
		if err != nil {
			return err
		}
		err = s.transact(ctx, "write audit retention", &dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{{Update: s.retentionUpdate(old, days)}, event},
		})
		if err == nil {
			s.retention.remember(days, s.clock.now().Add(retentionTTL))
		}
		return err
	})
}

// retentionUpdate sets the retention if it is still what old says, on an item
// that has nothing else perhaps.
func (s *Store) retentionUpdate(old item, days int) *types.Update {
	update := &types.Update{
		TableName: s.table, Key: schema.ConfigKey(s.ns, store.ConfigKey{}).Item(),
		UpdateExpression: aws.String("SET audit_retention_days = :days, config_version = if_not_exists(config_version, :one), " +
			"GSI4PK = if_not_exists(GSI4PK, :pk), GSI4SK = if_not_exists(GSI4SK, :sk)"),
		ConditionExpression: aws.String("attribute_not_exists(audit_retention_days)"),
		ExpressionAttributeValues: item{
			":days": schema.N(int64(days)), ":one": schema.N(1),
			":pk": schema.S(s.ns), ":sk": schema.S(schema.SystemPK(s.ns)),
		},
	}
	if seen, set := old[schema.AuditRetentionDays]; set {
		update.ConditionExpression = aws.String("audit_retention_days = :seen")
		update.ExpressionAttributeValues[":seen"] = seen
	}
	return update
}
