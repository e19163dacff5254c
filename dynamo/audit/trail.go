package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/oklog/ulid/v2"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Trail writes and reads the audit events of a table. It is safe for concurrent use.
type Trail struct {
	conn      *conn.Conn
	principal string
	caller    *caller // nil if the principal is given or STS cannot be asked
	ids       *eventIDs
}

// New returns the trail of a connection's table. principal names the actor of changes;
// see [CheckPrincipal]. With "", the trail asks STS once, before the first change. New
// sends no request.
func New(c *conn.Conn, principal string) *Trail {
	t := &Trail{conn: c, principal: principal, ids: processIDs}
	if !c.Clock.IsMachines() {
		t.ids = newEventIDs()
	}
	if principal == "" {
		t.caller = newCaller(c)
	}
	return t
}

// As is the trail of another actor; "" is the same one. principal must be valid: see [CheckPrincipal].
func (t *Trail) As(principal string) *Trail {
	of := *t
	if principal != "" {
		of.principal, of.caller = principal, nil
	}
	return &of
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

// Put completes e as an event of now, with the trail's principal, kept for a number of
// days. It returns the event's write, which belongs in the transaction of the change.
func (t *Trail) Put(ctx context.Context, ns string, days int, e *schema.AuditEvent) (types.TransactWriteItem, error) {
	e.Principal = t.principal
	if e.Principal == "" {
		var err error
		if e.Principal, err = t.caller.arn(ctx); err != nil {
			return types.TransactWriteItem{}, t.conn.Translate("find out who makes the change", err)
		}
	}
	e.Time = t.conn.Clock.Now()
	e.ID, e.Expires = t.ids.next(e.Time), e.Time.Add(time.Duration(days)*24*time.Hour)
	return types.TransactWriteItem{Put: &types.Put{TableName: t.conn.Table, Item: schema.EncodeAuditEvent(ns, e)}}, nil
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
