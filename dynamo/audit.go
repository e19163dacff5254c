package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// AuditEvents reads events about an entity or a level of configuration, newest first,
// with consistent reads. Limit counts the returned events; AuditEvents sends as many
// requests as that takes. Expired events are included until the table deletes them.
//
// A Cursor of another entity is a [*store.ValidationError].
func (s *Store) AuditEvents(ctx context.Context, q audit.Query) (audit.Page, error) {
	if err := schema.CheckAudited(q.Entity); err != nil {
		return audit.Page{}, err
	}
	return s.audit.Read(ctx, s.ns, q)
}

// AuditEvents reads events about the namespace of a name, for all ids that the name led
// to: its registrations and deletions. It reads as [Store.AuditEvents] does and ignores
// q.Entity.
func (n *Namespaces) AuditEvents(ctx context.Context, name string, q audit.Query) (audit.Page, error) {
	if err := store.CheckNamespace(name); err != nil {
		return audit.Page{}, err
	}
	q.Entity = schema.AuditNamespace(name)
	return n.audit.Read(ctx, schema.TableNamespace, q)
}
