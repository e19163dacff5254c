package archive

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// A line is an event in an object.
type line struct {
	NamespaceID string          `json:"namespace_id"`
	Namespace   *string         `json:"namespace"`
	ID          string          `json:"event_id"`
	Time        time.Time       `json:"timestamp"`
	Action      string          `json:"action"`
	Entity      string          `json:"entity_id"`
	Principal   *string         `json:"principal"`
	Resource    *string         `json:"resource"`
	Details     json.RawMessage `json:"details"`
	Expires     *time.Time      `json:"expires_at"`
}

func lineOf(e *audit.TrailEvent) (line, error) {
	details, err := encode(e.Details)
	l := line{
		NamespaceID: e.NamespaceID, Namespace: orNull(e.Namespace), ID: e.ID, Time: e.Time.UTC(), Action: e.Action, Entity: e.Entity,
		Principal: orNull(e.Principal), Resource: orNull(e.Resource), Details: details,
	}
	if !e.Expires.IsZero() {
		expires := e.Expires.UTC()
		l.Expires = &expires
	}
	return l, err
}

// encode writes a value as JSON that people can read, with a line end.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
