package dynamo

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// auditPut returns the write of an event in the store's namespace.
func (s *Store) auditPut(ctx context.Context, e *schema.AuditEvent) (types.TransactWriteItem, error) {
	days, err := s.retention.days(ctx, s)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	return s.audit.Put(ctx, s.ns, days, e)
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
	days, fresh := r.last, s.conn.Clock.Now().Before(r.until)
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
		s.conn.Log.WarnContext(ctx, "audit retention unreadable: set it again", "attribute", schema.AuditRetentionDays, "days", days)
	}
	s.retention.remember(days, s.conn.Clock.Now().Add(retentionTTL))
	return days
}

// AuditRetention reads the number of days for which the namespace keeps its audit
// events: 90 if none was set. The read is consistent. Each event is kept for the
// retention at the time of its writing. A store may learn up to a minute late of a
// retention set by another store.
func (s *Store) AuditRetention(ctx context.Context) (days int, err error) {
	it, err := s.conn.GetItem(ctx, "read audit retention", schema.ConfigKey(s.ns, store.ConfigKey{}))
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
		event, err := s.audit.Put(ctx, s.ns, days, &schema.AuditEvent{
			Action: audit.RetentionSet, Entity: schema.AuditSystem,
			Details: schema.Item{"days": schema.N(int64(days)), "old_days": schema.N(int64(before))},
		})
		if err != nil {
			return err
		}
		err = s.conn.Transact(ctx, "write audit retention", &dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{{Update: s.retentionUpdate(old, days)}, event},
		})
		if err == nil {
			s.retention.remember(days, s.conn.Clock.Now().Add(retentionTTL))
		}
		return err
	})
}

// retentionUpdate sets the retention if it is still as in old. The item may hold
// nothing else.
func (s *Store) retentionUpdate(old item, days int) *types.Update {
	update := &types.Update{
		TableName: s.conn.Table, Key: schema.ConfigKey(s.ns, store.ConfigKey{}).Item(),
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
