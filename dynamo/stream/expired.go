package stream

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// ExpiredEvent returns the audit event whose expiry a record shows. ok is false unless
// the table's own sweep deleted an expired event. Events that an operator deletes do not
// count. The result has the id of the namespace, but not its name. An event without a
// readable time gets that of its ID.
//
// An error is a [*store.CorruptError], or says that the stream does not show the
// deleted item.
func (r *Record) ExpiredEvent() (e audit.TrailEvent, ok bool, err error) {
	if !r.ByTTL || !strings.HasPrefix(schema.KeyOf(r.Item).SK, schema.AuditPrefix) {
		return audit.TrailEvent{}, false, nil
	}
	if len(r.Item) == 2 { // only its key
		return audit.TrailEvent{}, true, errNoImages
	}
	e, err = audit.Decode(r.Item)
	return e, true, err
}
