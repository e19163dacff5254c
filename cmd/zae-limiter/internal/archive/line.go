package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// decodeLine reads an event, without its details. Missing fields stay empty, but the ID,
// the time and the subject are required.
func decodeLine(text []byte) (e audit.TrailEvent, details json.RawMessage, err error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return e, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if l.ID == "" || l.Entity == "" || l.Time.IsZero() {
		return e, nil, fmt.Errorf("%w: it is not an event with event_id, entity_id and timestamp", ErrDamaged)
	}
	e = audit.TrailEvent{NamespaceID: l.NamespaceID, Namespace: orEmpty(l.Namespace), Event: audit.Event{
		ID: l.ID, Time: l.Time.UTC(), Action: l.Action, Entity: l.Entity, Principal: orEmpty(l.Principal), Resource: orEmpty(l.Resource),
	}}
	if l.Expires != nil {
		e.Expires = l.Expires.UTC()
	}
	return e, l.Details, nil
}

// decodeDetails reads the details of an event; without any, the map is empty.
func decodeDetails(text json.RawMessage) (map[string]any, error) {
	details := map[string]any{}
	if len(text) == 0 {
		return details, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&details); err != nil {
		return nil, fmt.Errorf("%w: details: %w", ErrDamaged, err)
	}
	if details == nil { // JSON null
		return map[string]any{}, nil
	}
	for k, v := range details {
		details[k] = plain(v)
	}
	return details, nil
}

// plain gives numbers the types that an event's details have: int64 if they are whole,
// otherwise float64.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // a number out of range becomes the largest
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
