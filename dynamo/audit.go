package dynamo

import (
	"context"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
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
