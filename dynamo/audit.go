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

// Actions of audit events. Peers can also change an entity's parent and the balance of
// a bucket. They then write entity_parent_changed, bucket_reset and bucket_topped_up.
const (
	ActionEntityCreated       = "entity_created"
	ActionEntityDeleted       = "entity_deleted"
	ActionLimitsSet           = "limits_set"
	ActionLimitsDeleted       = "limits_deleted"
	ActionRetentionSet        = "audit_retention_set"
	ActionNamespaceRegistered = "namespace_registered"
	ActionNamespaceDeleted    = "namespace_deleted"
)

// DefaultAuditRetention is the number of days for which audit events are kept by
// default.
const DefaultAuditRetention = schema.DefaultAuditRetention

// An auditor makes the events of a connection and knows the principal of its changes.
type auditor struct {
	principal string
	caller    *caller // nil if the principal is given or STS cannot be asked
	ids       *eventIDs
}

func newAuditor(o Options) *auditor {
	a := &auditor{principal: o.Principal, ids: o.ids}
	if o.Principal == "" {
		a.caller = newCaller(o)
	}
	return a
}

// eventIDs issues ULIDs, each greater than the one before, whatever the clock does.
type eventIDs struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // ms, of the last ID
}

// processIDs are the IDs of all stores that use the process's clock. A store with
// another clock has IDs of its own, which do not affect the process's.
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

// auditPut completes e as an event of now, with the connection's principal, kept for a
// number of days. It returns the event's write, which belongs in the transaction of the
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

// auditPut returns the write of an event in the store's namespace.
func (s *Store) auditPut(ctx context.Context, e *schema.AuditEvent) (types.TransactWriteItem, error) {
	days, err := s.retention.days(ctx, s)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	return s.conn.auditPut(ctx, s.ns, days, e)
}

// CheckPrincipal reports why an event cannot name a principal, as a
// [*store.ValidationError]. A principal is at most 2048 bytes of printable UTF-8. "" is
// valid, and means that the store finds out the principal.
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

// retentionTTL is how long a namespace's retention of events is remembered: as long as
// configuration is.
const retentionTTL = time.Minute

// retention remembers how long a namespace keeps its events.
type retention struct {
	mu    sync.Mutex
	last  int
	until time.Time // last is valid before this instant
}

// days returns the remembered retention, or reads it in one request.
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

// learnRetention remembers the retention that the system's configuration item holds. A
// retention that cannot be read blocks no change: the default holds.
func (s *Store) learnRetention(ctx context.Context, it item) int {
	days, ok := schema.AuditRetention(it)
	if !ok {
		s.log.WarnContext(ctx, "audit retention unreadable: set it again", "attribute", schema.AuditRetentionDays, "days", days)
	}
	s.retention.remember(days, s.clock.now().Add(retentionTTL))
	return days
}

// AuditRetention reads the number of days for which the namespace keeps its audit
// events: 90 if none was set. The read is consistent. Each event is kept for the
// retention at the time of its writing. A store may learn up to a minute late of a
// retention set by another store.
func (s *Store) AuditRetention(ctx context.Context) (days int, err error) {
	it, err := s.getItem(ctx, "read audit retention", schema.ConfigKey(s.ns, store.ConfigKey{}))
	if err != nil {
		return 0, err
	}
	return s.learnRetention(ctx, it), nil
}

// SetAuditRetention sets the number of days for which audit events are kept, from 1 to
// 36,500. It holds for later events, beginning with the event of this change. Existing
// events keep their expiry.
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

// retentionUpdate sets the retention if it is still as in old. The item may hold
// nothing else.
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
