// Package page serves the pages for people: who is near a limit, what an entity has left and why, who was
// refused, and edits with a preview (ADR 070). Pages are made on the server and work without scripts.
// Package manage reads what they show. An edit is a call of administration, made in the process, so it has
// the same checks and the same audit event as one over HTTP.
package page

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/chart"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Root is the path of the pages.
const Root = "/ui/"

// Options configure the pages.
type Options struct {
	Store   *dynamo.Store
	Limiter *limiter.Limiter
	// API serves administration. Edits are calls of it.
	API http.Handler
	// Refusals has the refusals of this process.
	Refusals *refusals.Log
	// Guard judges visitors by a token. Without one, every visitor is an operator: the server lets in only
	// those on this machine.
	Guard *access.Guard
	// Now is the clock of the machine.
	Now    func() time.Time
	Logger *slog.Logger
}

type handler struct {
	Options

	tops tops
}

// The texts of the pages, and the files that they name.
var (
	//go:embed templates/*.html
	templates embed.FS
	//go:embed static
	static embed.FS
)

// pages are the templates, parsed when a page is first made.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"wait": wait, "percent": percentOf, "grouped": grouped, "instant": instant, "clip": clip,
	}).ParseFS(templates, "templates/*.html"))
})

// New is the handler of all paths below [Root].
func New(o Options) http.Handler {
	h := &handler{Options: o, tops: tops{now: o.Now}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Root+"{$}", h.page(access.Look, h.overview))
	mux.HandleFunc("GET "+Root+"entity", h.page(access.Look, h.entity))
	mux.HandleFunc("GET "+Root+"limits", h.page(access.Observe, h.defaults))
	mux.HandleFunc("GET "+Root+"refusals", h.page(access.Observe, h.refused))
	mux.HandleFunc("POST "+Root+"preview", h.page(access.Manage, h.preview))
	mux.HandleFunc("POST "+Root+"apply", h.page(access.Manage, h.apply))
	mux.HandleFunc("POST "+Root+"login", h.login)
	mux.HandleFunc("POST "+Root+"logout", h.logout)
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET "+Root+"static/", http.StripPrefix(Root+"static/", http.FileServerFS(files)))
	mux.HandleFunc("GET "+Root+"static/charts.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write([]byte(chart.Style)) // the client may have left
	})
	return Secured(mux)
}

// Secured gives each answer the fields that keep a browser from running, framing or telling anything.
func Secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer") // addresses have names of entities
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// A frame is what every page has.
type frame struct {
	Title, Namespace string
	Visitor          visitor
	CSRF             string
	Now              time.Time
	Body             any
}

// render answers with a page. Nothing was written before.
func (h *handler) render(w http.ResponseWriter, r *http.Request, code int, name string, f frame) {
	f.CSRF = csrfOf(w, r)
	f.Now = h.Now().UTC()
	f.Namespace, _ = h.Store.Namespace()
	var text bytes.Buffer
	if err := pages().ExecuteTemplate(&text, name, f); err != nil {
		h.Logger.ErrorContext(r.Context(), "page failed", "error", err)
		http.Error(w, "the page cannot be made: the log of the service has the error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(bytes.ToValidUTF8(bytes.TrimSpace(text.Bytes()), []byte("\uFFFD"))) // the client may have left
}

// A notice is a page that says one thing.
type notice struct {
	Text string
	// Back is an address with which to go on; "" is the overview.
	Back, BackText string
}

// fail answers with what went wrong.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, v visitor, err error) {
	p := httpapi.ProblemOf(err)
	if p.Status >= http.StatusInternalServerError {
		h.Logger.ErrorContext(r.Context(), "page failed", "code", p.Status, "error", err)
	}
	h.say(w, r, v, p.Status, notice{Text: p.Detail})
}

func (h *handler) say(w http.ResponseWriter, r *http.Request, v visitor, code int, n notice) {
	n.Text = clip(n.Text)
	h.render(w, r, code, "notice.html", frame{Title: http.StatusText(code), Visitor: v, Body: n})
}

// patience is how long the reads of one page may take in all.
const patience = 20 * time.Second

// page serves those who may do something.
func (h *handler) page(do access.Action, serve func(http.ResponseWriter, *http.Request, visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := h.admit(r)
		if err != nil {
			h.turnAway(w, r, err)
			return
		}
		if !v.may(do) {
			h.say(w, r, v, http.StatusForbidden, notice{Text: "your token has no role for this: readers see, and operators change"})
			return
		}
		if r.Method == http.MethodPost && !isOwn(w, r) {
			h.say(w, r, v, http.StatusForbidden, notice{Text: "the form is not of this page, or too old, and nothing was changed: open the page again"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		serve(w, r.WithContext(ctx), v)
	}
}
