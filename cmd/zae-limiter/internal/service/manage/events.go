package manage

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Event is an audit event in JSON.
type Event struct {
	ID        string         `json:"event_id"`
	Time      *time.Time     `json:"timestamp"`
	Action    string         `json:"action"`
	Entity    string         `json:"entity_id"`
	Principal *string        `json:"principal"`
	Resource  *string        `json:"resource"`
	Details   map[string]any `json:"details"` // what was changed, by kind of event
	Expires   *time.Time     `json:"expires_at"`
}

// Events is a page of audit events in JSON.
type Events struct {
	Events []Event `json:"events"` // the events, the newest first
	Cursor *string `json:"cursor"`
	Note   string  `json:"note,omitempty"` // why there are none
}

// EventsOf is a page of the answer to a query as a document.
func EventsOf(page audit.Page, q audit.Query) Events {
	v := Events{Events: make([]Event, len(page.Events)), Cursor: orNull(page.Cursor)}
	for i := range page.Events {
		e := &page.Events[i]
		v.Events[i] = Event{
			ID: e.ID, Time: orNull(e.Time), Action: e.Action, Entity: e.Entity,
			Principal: orNull(e.Principal), Resource: orNull(e.Resource), Details: e.Details, Expires: orNull(e.Expires),
		}
	}
	switch {
	case len(page.Events) > 0 || page.Cursor != "":
	case q.Action != "" && !slices.Contains(audit.Actions(), q.Action):
		v.Note = fmt.Sprintf("No event here has the action %s, and this version does not know it. It knows %s.", q.Action, strings.Join(audit.Actions(), ", "))
	default:
		v.Note = "the table has no such event: nothing was changed, the subject is spelled otherwise, or the events have expired; docs/audit.md says how to read an archive of expired events"
	}
	return v
}

// ListEvents lists the audit events of a subject of the store's namespace.
func ListEvents(ctx context.Context, s *dynamo.Store, q audit.Query) (Events, error) {
	page, err := s.AuditEvents(ctx, q)
	if err != nil {
		return Events{}, err
	}
	return EventsOf(page, q), nil
}

// actionForm is the form of all actions that this project and the Python package write.
var actionForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckAction refuses what has not the form of an action. Another word stays searchable, because a peer of
// another version may write it.
func CheckAction(action string) error {
	if action == "" || actionForm.MatchString(action) {
		return nil
	}
	return &store.ValidationError{Field: "action", Value: action, Reason: "give one of " + strings.Join(audit.Actions(), ", ")}
}
