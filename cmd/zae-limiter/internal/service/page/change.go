package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// editNames are the edits, each the word of a call of administration, with what it does.
var editNames = map[string]string{
	"set-limits": "Set limits", "delete-limits": "Delete limits", "top-up": "Top up", "reset": "Fill the limits",
	"disable": "Disable", "enable": "Enable", "bypass": "Bypass", "clear": "Undo disable, enable and bypass",
}

// The levels that an edit names besides entities.
const (
	ofResource = "resource"
	ofSystem   = "system"
)

// nothing is the version of a level that has nothing.
const nothing = "none"

// An edit is a change that an operator asks for, as the forms have it.
type edit struct {
	Do, Entity, Resource string
	Level                string // [ofResource] or [ofSystem]; "" is of the entity
	All                  bool   // it is about every resource of the entity
	Limits               string // to set
	Limit, Amount        string // to add
	Reason, Until        string
	// Version is the tag of the level when the operator saw the preview, and Key makes the change once. The key of
	// a change of balances is that of what the operator saw, too: see [handler.keyOf].
	Version, Key string
}

// editOf reads an edit from a form.
func editOf(f url.Values) edit {
	text := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	return edit{
		Do: text("do"), Entity: text("entity"), Resource: text("resource"), Level: text("level"), All: text("all") != "", Limits: text("limits"), Limit: text("limit"), Amount: text("amount"),
		Reason: text("reason"), Until: text("until"), Version: text("version"), Key: text("key"),
	}
}

// isOfLimits reports whether an edit sets or deletes limits: those calls take no key.
func (e *edit) isOfLimits() bool { return e.Do == "set-limits" || e.Do == "delete-limits" }

// isOfBucket reports whether an edit changes balances, and no level.
func (e *edit) isOfBucket() bool { return e.Do == "top-up" || e.Do == "reset" }

// level is the level that an edit changes, or whose limits the operator saw.
func (e *edit) level() store.ConfigKey {
	switch {
	case e.Level == ofSystem:
		return store.ConfigKey{}
	case e.Level == ofResource:
		return store.ConfigKey{Resource: e.Resource}
	case e.All && !e.isOfBucket():
		return manage.LevelOfAll(e.Entity)
	}
	return store.ConfigKey{Entity: e.Entity, Resource: e.Resource}
}

// Of says what an edit is of.
func (e *edit) Of() string {
	switch {
	case e.Level == ofSystem:
		return "every entity, for every resource"
	case e.Level == ofResource:
		return "every entity, for " + e.Resource
	case e.All:
		return e.Entity + ", for every resource"
	}
	return e.Entity + ", for " + e.Resource
}

// path is that of the call.
func (e *edit) path() string {
	switch {
	case e.Level == "":
		return "entity/" + e.Do
	case e.isOfLimits():
		return e.Level + "/" + strings.Replace(e.Do, "limits", "defaults", 1)
	}
	return e.Level + "/" + e.Do
}

// check refuses what no call can be made of. The calls check the rest.
func (e *edit) check() error {
	invalid := func(field, value, reason string) error {
		return &store.ValidationError{Field: field, Value: value, Reason: reason}
	}
	if e.Level == "" {
		if err := store.CheckEntity(e.Entity); err != nil {
			return err
		}
	}
	if e.Level != ofSystem {
		if err := store.CheckResource(e.Resource); err != nil {
			return err
		}
	}
	switch {
	case e.Level != "" && e.Level != ofResource && e.Level != ofSystem:
		return invalid("level", e.Level, "there is no such level")
	case editNames[e.Do] == "", e.Level != "" && e.isOfBucket(), e.Level == ofSystem && !e.isOfLimits():
		return invalid("do", e.Do, "there is no such edit")
	case !e.isOfLimits() && e.Reason == "":
		return invalid("reason", "", "say why, for the audit event")
	}
	return nil
}

// limits are those to set.
func (e *edit) limits() ([]store.Limit, error) {
	if e.Do != "set-limits" {
		return nil, nil
	}
	var all limitarg.Limits
	if err := all.Set(strings.ReplaceAll(e.Limits, ", ", ",")); err != nil {
		return nil, &store.ValidationError{Field: "limits", Value: e.Limits, Reason: err.Error()}
	}
	return all, nil
}

// body is the body of the call.
func (e *edit) body(dryRun bool) (map[string]any, error) {
	k := e.level()
	body := map[string]any{"dry_run": dryRun}
	if k.Entity != "" {
		body["entity_id"] = k.Entity
	}
	if k.Resource != "" && k.Resource != store.DefaultResource {
		body["resource"] = k.Resource
	}
	if !e.isOfLimits() {
		body["reason"] = e.Reason
	}
	switch e.Do {
	case "set-limits":
		limits, err := e.limits()
		if err != nil {
			return nil, err
		}
		set := make([]map[string]string, len(limits))
		for i, l := range limits {
			set[i] = map[string]string{"limit": limitarg.Format(l)}
		}
		body["limits"] = set
	case "top-up":
		n, err := strconv.ParseInt(e.Amount, 10, 64)
		if err != nil {
			return nil, &store.ValidationError{Field: "amount", Value: e.Amount, Reason: "give a whole number of tokens"}
		}
		body["amounts"] = map[string]int64{e.Limit: n}
	case "disable", "enable", "bypass":
		if e.Until != "" {
			body["until"] = e.Until
		}
	}
	return body, nil
}

// An answer is that of a call in the process.
type answer struct {
	code   int
	header http.Header
	bytes.Buffer
}

// Header has the fields.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the code.
func (a *answer) WriteHeader(code int) { a.code = code }

// call makes the call of an edit, as who visits.
func (h *handler) call(ctx context.Context, v visitor, e *edit, dryRun bool) (*answer, error) {
	body, err := e.body(dryRun)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(httpapi.WithPrincipal(ctx, v.Name), http.MethodPost, "/v1/admin/"+e.path(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if !e.isOfLimits() {
		r.Header.Set("Idempotency-Key", e.Key)
	}
	if e.Version == nothing {
		r.Header.Set("If-None-Match", "*")
	} else {
		r.Header.Set("If-Match", e.Version)
	}
	a := &answer{code: http.StatusOK, header: http.Header{}}
	h.API.ServeHTTP(a, r)
	return a, nil
}

// version is what a level has now: its tag, or nothing.
func (h *handler) version(ctx context.Context, k store.ConfigKey) (version string, was *manage.Level, err error) {
	l, err := manage.GetLimits(ctx, h.Store, k)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nothing, nil, nil
	case err != nil:
		return "", nil, err
	}
	return l.Tag(), &l, nil
}

// afterEvent begins the key of a change of balances.
const afterEvent = "after-"

// keyOf is the key of an edit that is previewed now. A change of balances leaves its level as it is, so its key
// names the last change of the entity that the operator could see. Of all who have seen the same, one makes a
// change, because the record of the key is written with it.
func (h *handler) keyOf(ctx context.Context, e *edit) (string, error) {
	if !e.isOfBucket() {
		return rand.Text(), nil
	}
	last, err := manage.ListEvents(ctx, h.Store, audit.Query{Entity: e.Entity, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(last.Events) == 0 {
		return afterEvent + nothing, nil
	}
	return afterEvent + last.Events[0].ID, nil
}

// isStale reports whether the entity was changed since an edit of its balances was previewed.
func (h *handler) isStale(ctx context.Context, e *edit) (bool, error) {
	if !e.isOfBucket() || !strings.HasPrefix(e.Key, afterEvent) {
		return false, nil
	}
	now, err := h.keyOf(ctx, e)
	was, _, _ := strings.Cut(e.Key, ".")
	return now != was, err
}

// isUsed reports whether an answer says that the key of the call was used before.
func (a *answer) isUsed() bool {
	var is struct {
		Repeated bool
		Field    string
	}
	return json.Unmarshal(a.Bytes(), &is) == nil && (is.Repeated || a.code == http.StatusConflict && is.Field == "Idempotency-Key")
}

// rehearse makes the dry run of an edit. An event may be older than the last one, if the clocks of two processes
// differ, and events expire before keys if the retention is short. So the key of a change of balances may have been
// used, although no later event is there. Then the next one is taken, which is the same for all who see that.
func (h *handler) rehearse(ctx context.Context, v visitor, e *edit) (*answer, error) {
	const most = 10
	key := e.Key
	a, err := h.call(ctx, v, e, true)
	for n := 2; n <= most && err == nil && e.isOfBucket() && a.isUsed(); n++ {
		e.Key = key + "." + strconv.Itoa(n)
		a, err = h.call(ctx, v, e, true)
	}
	return a, err
}

// A preview is what an edit would change.
type preview struct {
	edit

	Name  string
	Diff  []diffRow
	Notes []string
	Facts []string
}

// A diffRow is a limit before an edit and after it; "" is none.
type diffRow struct{ Name, Before, After string }

// preview shows an edit, and changes nothing.
func (h *handler) preview(w http.ResponseWriter, r *http.Request, v visitor) {
	p := preview{edit: editOf(r.PostForm)}
	p.Name = editNames[p.Do]
	err := p.check()
	if err == nil {
		p.Key, err = h.keyOf(r.Context(), &p.edit)
	}
	var was *manage.Level
	if err == nil {
		p.Version, was, err = h.version(r.Context(), p.level())
	}
	if err != nil {
		h.fail(w, r, v, err)
		return
	}
	a, err := h.rehearse(r.Context(), v, &p.edit)
	if err != nil {
		h.fail(w, r, v, err)
		return
	}
	if a.code != http.StatusOK {
		h.refuse(w, r, v, &p.edit, a)
		return
	}
	if err := p.fill(was, a, h.Now()); err != nil {
		h.fail(w, r, v, err)
		return
	}
	h.render(w, r, http.StatusOK, "preview.html", frame{Title: p.Name, Visitor: v, Body: &p})
}

// fill says what would change, from the level and the answer of a dry run.
func (p *preview) fill(was *manage.Level, a *answer, now time.Time) error {
	var would struct {
		Unconfigured []manage.Unconfigured
		Buckets      struct{ Reached int }
		Amounts      map[string]int64
		Ends         *time.Time `json:"switch_ends_at"`
	}
	if err := json.Unmarshal(a.Bytes(), &would); err != nil {
		return err
	}
	if p.isOfLimits() {
		limits, err := p.limits()
		if err != nil {
			return err
		}
		var stored *store.Config
		if was != nil {
			stored = was.Stored()
		}
		c := manage.EditOf(p.level(), stored, limits, now)
		p.Diff = diffOf(&c)
		if c.Note != "" {
			p.Notes = strings.Split(c.Note, "; ")
		}
		for _, u := range would.Unconfigured {
			p.Notes = append(p.Notes, "no longer in force: "+strings.Join(u.Limits, ", ")+" of the level "+manage.LevelName(store.ConfigKey(u.From)))
		}
		return nil
	}
	for name, n := range would.Amounts {
		p.Facts = append(p.Facts, name+" gets "+grouped(n))
	}
	slices.Sort(p.Facts)
	if !p.isOfBucket() {
		p.Facts = append(p.Facts, "buckets that follow: "+grouped(int64(would.Buckets.Reached)))
	}
	if would.Ends != nil {
		p.Facts = append(p.Facts, "ends by itself at "+instant(*would.Ends))
	}
	return nil
}

// diffOf is a planned change, limit by limit.
func diffOf(c *manage.PlannedChange) []diffRow {
	rows := map[string]*diffRow{}
	add := func(l *manage.PlannedLevel, set func(*diffRow, string)) {
		if l == nil {
			return
		}
		for _, limit := range l.Limits {
			if rows[limit.Name] == nil {
				rows[limit.Name] = &diffRow{Name: limit.Name}
			}
			set(rows[limit.Name], limit.Limit)
		}
	}
	add(c.Before, func(d *diffRow, text string) { d.Before = text })
	add(c.After, func(d *diffRow, text string) { d.After = text })
	all := make([]diffRow, 0, len(rows))
	for _, d := range rows {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b diffRow) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// apply makes an edit that the operator has seen, if what it changes still is as it was then: the write itself
// requires that (ADR 076).
func (h *handler) apply(w http.ResponseWriter, r *http.Request, v visitor) {
	e := editOf(r.PostForm)
	err := e.check()
	if err == nil && (e.Version == "" || e.Key == "") {
		err = &store.ValidationError{Field: "version", Reason: "preview the edit first"}
	}
	isStale := false
	if err == nil {
		isStale, err = h.isStale(r.Context(), &e)
	}
	var a *answer
	if err == nil && !isStale {
		a, err = h.call(r.Context(), v, &e, false)
	}
	switch {
	case err != nil:
		h.fail(w, r, v, err)
	case isStale, e.isOfBucket() && a.isUsed():
		h.moved(w, r, v, &e)
	case a.code == http.StatusOK:
		http.Redirect(w, r, e.Address()+"&done="+e.Do, http.StatusSeeOther)
	default:
		h.refuse(w, r, v, &e, a)
	}
}

// Address is that of the page with the form.
func (e *edit) Address() string {
	if e.Level != "" {
		return Root + "limits?" + url.Values{"resource": {e.Resource}}.Encode()
	}
	return Root + "entity?" + url.Values{"id": {e.Entity}, "resource": {e.Resource}}.Encode()
}

// moved says that somebody else was first.
func (h *handler) moved(w http.ResponseWriter, r *http.Request, v visitor, e *edit) {
	h.say(w, r, v, http.StatusConflict, notice{
		Text: "Somebody has changed this since the preview, and nothing was changed now: look at it again, and make a new preview.",
		Back: e.Address(), BackText: "As it is now",
	})
}

// refuse says why a call was refused.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, v visitor, e *edit, a *answer) {
	var p httpapi.Problem
	if err := json.Unmarshal(a.Bytes(), &p); err != nil {
		h.fail(w, r, v, err)
		return
	}
	if p.Field == "If-Match" {
		h.moved(w, r, v, e)
		return
	}
	h.say(w, r, v, a.code, notice{Text: p.Detail, Back: e.Address(), BackText: "Back"})
}
