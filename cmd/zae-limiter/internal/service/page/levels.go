package page

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// A defaults is the page of the limits that entities have which have none of their own: those of the system,
// and of a resource.
type defaults struct {
	Resource  string // "" if the visitor has named none
	Resources []string
	Done      string // the edit that has just been made
	Levels    []defaultLevel
}

// A defaultLevel is one level on that page.
type defaultLevel struct {
	Name, Level string // Level is [ofSystem] or [ofResource]
	Limits      []string
	Changes     []change
	Events      []event
}

// Text is the limits, as they are given.
func (l *defaultLevel) Text() string { return strings.Join(l.Limits, ", ") }

// IsOfResource reports whether the level has switches.
func (l *defaultLevel) IsOfResource() bool { return l.Level == ofResource }

// defaults serves the limits of the system, and of a resource.
func (h *handler) defaults(w http.ResponseWriter, r *http.Request, v visitor) {
	q := r.URL.Query()
	d := defaults{Resource: q.Get("resource"), Done: editNames[q.Get("done")]}
	var err error
	if d.Resource != "" {
		err = store.CheckResource(d.Resource)
	}
	if err == nil {
		err = h.readDefaults(r.Context(), &d)
	}
	if err != nil {
		h.fail(w, r, v, err)
		return
	}
	h.render(w, r, http.StatusOK, "limits.html", frame{Title: "Limits of all entities", Visitor: v, Body: &d})
}

func (h *handler) readDefaults(ctx context.Context, d *defaults) error {
	all, err := manage.ListResources(ctx, h.Store)
	if err != nil {
		return err
	}
	d.Resources = all.Resources
	if d.Resource != "" {
		if err := h.readDefault(ctx, d, store.ConfigKey{Resource: d.Resource}, defaultLevel{Name: "For " + d.Resource, Level: ofResource}, audit.Resource(d.Resource)); err != nil {
			return err
		}
	}
	return h.readDefault(ctx, d, store.ConfigKey{}, defaultLevel{Name: "For every resource", Level: ofSystem}, audit.System)
}

// readDefault adds a level. subject is that of its audit events.
func (h *handler) readDefault(ctx context.Context, d *defaults, k store.ConfigKey, is defaultLevel, subject string) error {
	const events = 20
	l, err := manage.GetLimits(ctx, h.Store, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, limit := range l.Limits {
		is.Limits = append(is.Limits, limit.Limit)
	}
	trail, err := manage.ListEvents(ctx, h.Store, audit.Query{Entity: subject, Limit: events})
	if err != nil {
		return err
	}
	is.Events = eventsOf(trail.Events)
	if c, ok := changeOf(&l, is.Name, trail.Events); ok {
		is.Changes = append(is.Changes, c)
	}
	d.Levels = append(d.Levels, is)
	return nil
}
