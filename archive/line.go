package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A line is an event in an object.
type line struct {
	NamespaceID string         `json:"namespace_id"`
	Namespace   *string        `json:"namespace"`
	ID          string         `json:"event_id"`
	Time        time.Time      `json:"timestamp"`
	Action      string         `json:"action"`
	Entity      string         `json:"entity_id"`
	Principal   *string        `json:"principal"`
	Resource    *string        `json:"resource"`
	Details     map[string]any `json:"details"`
	Expires     *time.Time     `json:"expires_at"`
}

func lineOf(e *dynamo.TrailEvent) line {
	l := line{
		NamespaceID: e.NamespaceID, Namespace: orNull(e.Namespace), ID: e.ID, Time: e.Time.UTC(), Action: e.Action, Entity: e.Entity,
		Principal: orNull(e.Principal), Resource: orNull(e.Resource), Details: e.Details,
	}
	if !e.Expires.IsZero() {
		expires := e.Expires.UTC()
		l.Expires = &expires
	}
	return l
}

func (l *line) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	return b.Bytes(), err
}

// decodeLine reads an event. What it does not say stays empty, but for the ID,
// the time and what it is about.
func decodeLine(text []byte) (dynamo.TrailEvent, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&l); err != nil {
		return dynamo.TrailEvent{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if d.More() || l.ID == "" || l.Entity == "" || l.Time.IsZero() {
		return dynamo.TrailEvent{}, fmt.Errorf("%w: it is not one event with event_id, entity_id and timestamp", ErrDamaged)
	}
	e := dynamo.TrailEvent{NamespaceID: l.NamespaceID, Namespace: orEmpty(l.Namespace), AuditEvent: dynamo.AuditEvent{
		ID: l.ID, Time: l.Time.UTC(), Action: l.Action, Entity: l.Entity,
		Principal: orEmpty(l.Principal), Resource: orEmpty(l.Resource), Details: map[string]any{},
	}}
	for k, v := range l.Details {
		e.Details[k] = plain(v)
	}
	if l.Expires != nil {
		e.Expires = l.Expires.UTC()
	}
	return e, nil
}

// plain makes numbers what they are in the details of an event: int64 if they are
// whole, else float64.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // a number out of its range is the greatest
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
