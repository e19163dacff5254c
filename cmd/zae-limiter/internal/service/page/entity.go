package page

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/store"
)

// An entity is the page of one.
type entity struct {
	ID, Resource string
	Resources    []string
	Done         string // the edit that has just been made
	// Live has the balances, which the script reads again.
	Live live
	// Details are for readers only.
	Details *details
	// Form is for operators only.
	Form *form
}

// live is the part of the page that changes by itself.
type live struct {
	Standing *manage.Standing
	Rows     []row
	Sides    []string // what is to be said of the entity, and of its parent
	ReadAt   time.Time
}

// details are what readers see of an entity besides its balances.
type details struct {
	Record      *manage.Entity // nil if the entity was not created
	Levels      []level
	Changes     []change
	Hours, Days []diagram
	Events      []event
	Refusals    []refusals.Refusal
}

// A form has what the forms of an entity begin with.
type form struct {
	Limits string   // the entity's own, as they are given
	Names  []string // of the limits in force
}

// entity serves the page of an entity, or its live part alone.
func (h *handler) entity(w http.ResponseWriter, r *http.Request, v visitor) {
	q := r.URL.Query()
	e := entity{ID: q.Get("id"), Resource: q.Get("resource"), Done: editNames[q.Get("done")]}
	err := store.CheckEntity(e.ID)
	if err == nil && e.Resource != "" {
		err = store.CheckResource(e.Resource)
	}
	isPart := q.Get("part") == "live" && e.Resource != ""
	if err == nil && !isPart {
		err = h.choose(r.Context(), &e)
	}
	if err == nil && e.Resource != "" {
		err = h.look(r.Context(), &e)
	}
	if err == nil && v.Observes && !isPart {
		e.Details = &details{}
		err = h.detail(r.Context(), &e)
	}
	switch {
	case err != nil:
		h.fail(w, r, v, err)
		return
	case isPart:
		h.render(w, r, http.StatusOK, "live", frame{Visitor: v, Body: &e})
		return
	case v.Manages && e.Resource != "":
		e.Form = formOf(&e)
	}
	h.render(w, r, http.StatusOK, "entity.html", frame{Title: e.ID, Visitor: v, Body: &e})
}

// choose finds the resources of an entity, and the one to show if the visitor has named none.
func (h *handler) choose(ctx context.Context, e *entity) error {
	all, err := manage.ListEntityResources(ctx, h.Store, e.ID)
	if err != nil {
		return err
	}
	for _, r := range all.Resources {
		if r.Resource != store.DefaultResource {
			e.Resources = append(e.Resources, r.Resource)
		}
	}
	if e.Resource == "" && len(e.Resources) > 0 {
		e.Resource = e.Resources[0]
	}
	return nil
}

// look reads the balances.
func (h *handler) look(ctx context.Context, e *entity) error {
	s, err := manage.GetStanding(ctx, h.Limiter, e.ID, e.Resource)
	if err != nil {
		return err
	}
	e.Live = live{Standing: s, Rows: rowsOf(s.Is()), ReadAt: h.Now().UTC()}
	for side := s; side != nil; side = side.Parent {
		if text := remarkOf(side); text != "" {
			e.Live.Sides = append(e.Live.Sides, text)
		}
	}
	return nil
}

// remarkOf says what no balance of an entity says; "" for nothing.
func remarkOf(s *manage.Standing) string {
	var text string
	switch {
	case s.Disabled:
		text = s.Entity + " is disabled: every request is refused"
	case s.Bypassed:
		text = s.Entity + " is bypassed: every request is admitted, and counted"
	case s.Level == limiter.LevelNone:
		return "no level configures limits of " + s.Resource + " for " + s.Entity
	default:
		return ""
	}
	if s.DisabledBy != nil && *s.DisabledBy != limiter.LevelNone {
		text += ", by the level " + s.DisabledBy.String()
	}
	if s.SwitchEndsAt != nil {
		text += ", until " + instant(*s.SwitchEndsAt)
	}
	return text
}

// detail reads what readers see.
func (h *handler) detail(ctx context.Context, e *entity) error {
	d := e.Details
	record, err := manage.GetEntity(ctx, h.Store, e.ID)
	switch {
	case err == nil:
		d.Record = &record
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	const events = 20
	trail, err := manage.ListEvents(ctx, h.Store, audit.Query{Entity: e.ID, Limit: events})
	if err != nil {
		return err
	}
	d.Events = eventsOf(trail.Events)
	d.Refusals = h.Refusals.Last(refusals.Query{Entity: e.ID, Resource: e.Resource}, events)
	if e.Resource == "" {
		return nil
	}
	if err := h.levels(ctx, e, trail.Events); err != nil {
		return err
	}
	d.Hours, err = h.used(ctx, e, usage.Hourly)
	if err == nil {
		d.Days, err = h.used(ctx, e, usage.Daily)
	}
	return err
}

// levels reads the levels of configuration, in the order in which they hold.
func (h *handler) levels(ctx context.Context, e *entity, events []manage.Event) error {
	const trail = 100
	for i, at := range []struct {
		name    string
		key     store.ConfigKey
		subject string // of its audit events
	}{
		{"the entity, for " + e.Resource, store.ConfigKey{Entity: e.ID, Resource: e.Resource}, ""},
		{"the entity, for every resource", manage.LevelOfAll(e.ID), ""},
		{"resource " + e.Resource, store.ConfigKey{Resource: e.Resource}, audit.Resource(e.Resource)},
		{"system", store.ConfigKey{}, audit.System},
	} {
		l, err := manage.GetLimits(ctx, h.Store, at.key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		is := level{Name: at.name, Holds: e.Live.Standing.Level == limiter.LevelEntityResource+limiter.Level(i)} //nolint:gosec // there are four
		for _, limit := range l.Limits {
			is.Limits = append(is.Limits, limit.Limit)
		}
		e.Details.Levels = append(e.Details.Levels, is)
		if l.Disabled == nil && !l.Bypassed {
			continue
		}
		if at.subject != "" {
			of, err := manage.ListEvents(ctx, h.Store, audit.Query{Entity: at.subject, Limit: trail})
			if err != nil {
				return err
			}
			events = of.Events
		}
		if c, ok := changeOf(&l, at.name, events); ok {
			e.Details.Changes = append(e.Details.Changes, c)
		}
	}
	return nil
}

// used draws what the entity has used in the last windows.
func (h *handler) used(ctx context.Context, e *entity, w usage.Window) ([]diagram, error) {
	const hours, days = 48, 31
	now, n := h.Now().UTC(), hours
	first := now.Truncate(time.Hour).Add(-(hours - 1) * time.Hour)
	if w == usage.Daily {
		n = days
		first = now.Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	}
	u, err := manage.ListUsage(ctx, h.Store, usage.Query{Entity: e.ID, Resource: e.Resource, Window: w, From: first, Limit: n})
	if err != nil {
		return nil, err
	}
	return diagramsOf(w, first, n, u.Page().Snapshots), nil
}

// formOf fills the forms of an entity.
func formOf(e *entity) *form {
	f := &form{}
	if d := e.Details; d != nil && len(d.Levels) > 0 {
		f.Limits = strings.Join(d.Levels[0].Limits, ", ")
	}
	for _, r := range e.Live.Rows {
		if r.Own != nil {
			f.Names = append(f.Names, r.Limit)
		}
	}
	slices.Sort(f.Names)
	return f
}
