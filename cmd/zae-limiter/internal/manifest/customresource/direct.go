package customresource

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A call is a request of the peer's command line.
type call struct {
	Action      string          `json:"action"`
	TableName   string          `json:"table_name"`
	NamespaceID string          `json:"namespace_id"`
	Manifest    json.RawMessage `json:"manifest"`
}

// A reply is what the peer's command line reads.
type reply struct {
	Status  string        `json:"status"`
	Changes []replyChange `json:"changes"`
	Created int           `json:"created"`
	Updated int           `json:"updated"`
	Deleted int           `json:"deleted"`
	// Unchanged counts the levels that are as declared, and Pending those that an apply
	// before left unfinished.
	Unchanged int `json:"unchanged"`
	Pending   int `json:"pending"`
	// Full and Resumed are of the peer's way to finish an apply. Here every apply compares
	// with the table, and finishes what is pending.
	Full    bool     `json:"full"`
	Resumed bool     `json:"resumed"`
	Errors  []string `json:"errors"`
}

type replyChange struct {
	Action string  `json:"action"`
	Level  string  `json:"level"`
	Target *string `json:"target"`
}

// direct serves a call. As the peer's does, it deletes owned levels that the manifest
// does not declare.
func (h *Handler) direct(ctx context.Context, raw json.RawMessage) (*reply, error) {
	ctx, cancel := h.working(ctx)
	defer cancel()
	var c call
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	of, err := manifest.Parse("manifest", c.Manifest)
	if err != nil {
		return nil, err
	}
	s, err := h.open(ctx, c.TableName, of.Namespace, c.NamespaceID)
	if err != nil {
		return nil, err
	}
	m, err := manifest.New(s)
	if err != nil {
		return nil, err
	}
	switch c.Action {
	case "plan":
		p, err := m.Plan(ctx, of, true)
		if err != nil {
			return nil, err
		}
		r := &reply{
			Status: "planned", Changes: []replyChange{}, Errors: []string{},
			Unchanged: p.Count(manifest.Unchanged, manifest.Adopt), Pending: p.Count(manifest.Resume),
		}
		for i := range p.Changes {
			r.add(&p.Changes[i])
		}
		return r, nil
	case "apply":
		result, err := m.Apply(ctx, of, manifest.ApplyOptions{Prune: true})
		if err != nil {
			return nil, err
		}
		h.warn(ctx, result)
		return replyTo(result), nil
	}
	return nil, &store.ValidationError{Field: "action", Value: c.Action, Reason: "give plan or apply"}
}

func replyTo(result *manifest.Result) *reply {
	r := &reply{
		Status: "applied", Changes: []replyChange{}, Errors: []string{}, Unchanged: result.Count(manifest.Unchanged, manifest.Adopt),
		Created: result.Count(manifest.Create), Updated: result.Count(manifest.Update, manifest.Resume), Deleted: result.Count(manifest.Delete),
	}
	for i := range result.Outcomes {
		o := &result.Outcomes[i]
		r.add(&o.Change)
		if o.Err != nil {
			r.Errors = append(r.Errors, reason(o).Error())
		}
	}
	return r
}

// add adds a change in the peer's words, which know three actions.
func (r *reply) add(c *manifest.Change) {
	action := ""
	switch c.Action {
	case manifest.Create, manifest.Update, manifest.Delete:
		action = string(c.Action)
	case manifest.Resume:
		action = string(manifest.Update)
	case manifest.Conflict, manifest.Adopt, manifest.Forget, manifest.Keep, manifest.Unchanged:
		return
	}
	level, target := c.Level()
	change := replyChange{Action: action, Level: level}
	if target != "" {
		change.Target = &target
	}
	r.Changes = append(r.Changes, change)
}
