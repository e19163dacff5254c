package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/store"
)

// rowsOfPage is how many limits, or refusals, a page shows.
const rowsOfPage = 50

// An overview shows the limits that are nearest to their ends.
type overview struct {
	Resource, Limit string
	Shadow          bool
	Resources       []string // that have defaults, to choose from
	Note            string
	Rows            []near
	Page, Pages     int
	Found, Most     int
	ReadAt          time.Time
}

// overview serves the first page.
func (h *handler) overview(w http.ResponseWriter, r *http.Request, v visitor) {
	q := r.URL.Query()
	o := overview{Resource: q.Get("resource"), Limit: q.Get("limit"), Shadow: q.Get("shadow") != "", Page: 1, Most: limiter.MaxTop}
	f := frame{Title: "Near a limit", Visitor: v, Body: &o}
	if !v.Observes {
		h.render(w, r, http.StatusOK, "overview.html", f)
		return
	}
	err := error(nil)
	if text := q.Get("page"); text != "" {
		if o.Page, err = strconv.Atoi(text); err != nil || o.Page < 1 {
			err = &store.ValidationError{Field: "page", Value: text, Reason: "give 1 or more"}
		}
	}
	if err == nil {
		err = h.fill(r.Context(), &o)
	}
	if err != nil {
		h.fail(w, r, v, err)
		return
	}
	h.render(w, r, http.StatusOK, "overview.html", f)
}

// fill reads what an overview shows.
func (h *handler) fill(ctx context.Context, o *overview) error {
	namespace, _ := h.Store.Namespace()
	top, at, err := h.tops.get(ctx, topKey{o.Resource, o.Shadow}, func(ctx context.Context, k topKey) (manage.Top, error) {
		return manage.GetTop(ctx, h.Limiter, manage.TopQuery{TopQuery: limiter.TopQuery{Resource: k.resource, Most: limiter.MaxTop, Shadow: k.shadow}}, namespace)
	})
	if err != nil {
		return err
	}
	resources, err := manage.ListResources(ctx, h.Store)
	if err != nil {
		return err
	}
	o.Resources, o.Note, o.ReadAt = resources.Resources, top.Note, at
	o.cut(top.Balances())
	return nil
}

// cut takes the rows of one page.
func (o *overview) cut(all []limiter.Balance) {
	if o.Limit != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(b limiter.Balance) bool { return b.Limit.Name != o.Limit })
	}
	o.Found = len(all)
	o.Pages = max(1, (len(all)+rowsOfPage-1)/rowsOfPage)
	o.Page = min(o.Page, o.Pages)
	from := (o.Page - 1) * rowsOfPage
	o.Rows = nearOf(all[from:min(from+rowsOfPage, len(all))])
}

// Previous and Next are the pages beside this one; 0 is none.
func (o *overview) Previous() int { return o.Page - 1 }

// Next is the page after this one; 0 is none.
func (o *overview) Next() int {
	if o.Page == o.Pages {
		return 0
	}
	return o.Page + 1
}

// topsAge is how old the answer may be that visitors share. Reading it costs half a read unit for each
// bucket of the resource.
const topsAge = 10 * time.Second

// maxTops is how many answers are kept: visitors choose what they ask for.
const maxTops = 16

type topKey struct {
	resource string
	shadow   bool
}

// A topAnswer is one that visitors share. The visitor that holds the turn reads it. The turn is a channel, so the
// others can give up when their requests end.
type topAnswer struct {
	turn chan struct{}
	top  manage.Top
	at   time.Time
}

// tops are the last answers.
type tops struct {
	now func() time.Time
	mu  sync.Mutex
	all map[topKey]*topAnswer
}

// get returns an answer, and when it was read. Visitors who ask at the same time read it once.
func (t *tops) get(ctx context.Context, k topKey, read func(context.Context, topKey) (manage.Top, error)) (manage.Top, time.Time, error) {
	t.mu.Lock()
	a := t.all[k]
	if a == nil {
		if len(t.all) >= maxTops || t.all == nil {
			t.all = map[topKey]*topAnswer{}
		}
		a = &topAnswer{turn: make(chan struct{}, 1)}
		t.all[k] = a
	}
	t.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return manage.Top{}, time.Time{}, fmt.Errorf("%w: the limits are still being read: %w", limiter.ErrUnavailable, ctx.Err())
	}
	if !a.at.IsZero() && t.now().Sub(a.at) < topsAge {
		return a.top, a.at, nil
	}
	at := t.now()
	top, err := read(ctx, k)
	if err != nil {
		return top, at, err
	}
	a.top, a.at = top, at
	return top, at, nil
}
