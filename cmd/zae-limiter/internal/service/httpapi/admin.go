package httpapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/store"
)

// Administration over HTTP has the commands that concern one namespace (ADR 068). The path of a call
// has the words of the command, its body has the arguments and flags, and the answer is the document that
// the command prints with --output json. Package manage does the work for both.

// adminPath is how the paths of administration begin.
const adminPath = "/v1/admin/"

// Admin is what administration needs.
type Admin struct {
	Store   *dynamo.Store
	Limiter *limiter.Limiter
	// Now is the clock of the machine.
	Now func() time.Time
	// Table says where the store is, for what concerns the whole table; without an API, nothing of that is
	// served. Its principal is that of nobody in particular.
	Table dynamo.Options
}

// whoKey is that of a context with who makes a call.
type whoKey struct{}

// WithPrincipal is the context of a call by somebody: audit events name them. "" is nobody in
// particular.
func WithPrincipal(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

// A verb is a call of administration.
type verb struct {
	Route

	// maxBody is the largest body, in bytes.
	maxBody int64
	// begin makes an empty body, and returns what answers it.
	begin func() (in any, run func(context.Context, *order) (any, error))
}

// An order is a call of administration under way.
type order struct {
	*Admin

	store *dynamo.Store // as who makes the call
	who   string
	cause dynamo.Cause // without its reason
	seen  seen
	log   *slog.Logger
	tag   string // the field ETag of the answer; "" is none
}

// caused is why a change is made.
func (o *order) caused(reason string) dynamo.Cause {
	return dynamo.Cause{Reason: reason, Key: o.cause.Key}
}

// verbOf is a verb whose body is an In and whose answer is an Out.
func verbOf[In, Out any](path, summary, about string, run func(context.Context, *order, *In) (Out, error)) verb {
	return verb{
		Route: Route{
			Method: http.MethodPost, Path: adminPath + path, Name: nameOfOperation(path), Summary: summary, About: about,
			In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](), IsAdmin: true,
		},
		maxBody: MaxBody,
		begin: func() (any, func(context.Context, *order) (any, error)) {
			in := new(In)
			return in, func(ctx context.Context, o *order) (any, error) { return run(ctx, o, in) }
		},
	}
}

// nameOfOperation is entitySetLimits of entity/set-limits.
func nameOfOperation(path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '-' })
	for i := range words[1:] {
		words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
	}
	return "admin" + strings.ToUpper(words[0][:1]) + words[0][1:] + strings.Join(words[1:], "")
}

// serveAdmin serves a verb.
func (h *handler) serveAdmin(v *verb) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.Admin == nil {
			WriteProblem(w, problem(http.StatusNotFound, "this service has no administration"))
			return
		}
		in, run := v.begin()
		o, p := h.order(r, v)
		if p == nil {
			p = h.read(w, r, v.maxBody, in)
		}
		if p != nil {
			WriteProblem(w, p)
			return
		}
		ctx := r.Context()
		if !v.IsRead {
			ctx = context.WithoutCancel(ctx) // a change is completed, also if the client leaves
		}
		out, err := run(ctx, o)
		var text bytes.Buffer
		if err == nil {
			err = manage.Encode(&text, out)
		}
		if err != nil {
			h.refuseAdmin(ctx, w, v, err)
			return
		}
		if o.tag != "" {
			w.Header().Set("ETag", o.tag)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(text.Bytes()) // the client may have left
	}
}

// order reads the header of a call.
func (h *handler) order(r *http.Request, v *verb) (*order, *Problem) {
	who, _ := r.Context().Value(whoKey{}).(string)
	s, err := h.Admin.Store.As(who)
	if err != nil {
		return nil, problem(http.StatusForbidden, "audit events cannot have the subject of the token: "+err.Error())
	}
	o := &order{Admin: h.Admin, store: s, who: who, log: h.Logger}
	invalid := func(field, detail string) (*order, *Problem) {
		p := problem(http.StatusBadRequest, detail)
		p.Field = field
		return nil, p
	}
	const key, match, none = "Idempotency-Key", "If-Match", "If-None-Match"
	switch keys := r.Header.Values(key); {
	case len(keys) == 0, v.IsRead:
	case !v.IsKeyed:
		return invalid(key, "the call takes no key: leave it out, and repeat a call whose answer was lost")
	case len(keys) > 1 || unquoted(keys[0]) == "":
		return invalid(key, "give one key")
	default:
		o.cause.Key = unquoted(keys[0])
	}
	matches, nones := r.Header.Values(match), r.Header.Values(none)
	switch {
	case len(matches)+len(nones) == 0:
	case !v.IsConditional:
		return invalid(match, "the call takes no If-Match and no If-None-Match: leave them out")
	case len(nones) > 0 && (len(matches) > 0 || len(nones) > 1 || nones[0] != "*"):
		return invalid(none, "give *, and no If-Match: the change is made only if the level has nothing")
	default:
		o.seen = seenAs(matches, len(nones) > 0)
	}
	return o, nil
}

// errNoTable says that the service has no connection for administration of its table.
var errNoTable = errors.New("this service has no administration of its table")

// table is the table of the service.
func (o *order) table() (*admin.Table, error) {
	api, ok := o.Table.API.(admin.API)
	if !ok {
		return nil, errNoTable
	}
	return admin.New(admin.Options{API: api, Table: o.Table.Table, Now: o.Table.Now, Logger: o.Table.Logger})
}

// namespaces are those of the table, as who makes the call.
func (o *order) namespaces() (*admin.Namespaces, error) {
	if o.Table.API == nil {
		return nil, errNoTable
	}
	of := o.Table
	if o.who != "" {
		of.Principal = o.who
	}
	return admin.NewNamespaces(of)
}

// unquoted is a key without the quotes of a structured field.
func unquoted(key string) string {
	if inside, ok := strings.CutPrefix(key, `"`); ok && strings.HasSuffix(inside, `"`) {
		return strings.TrimSuffix(inside, `"`)
	}
	return key
}

// ProblemOf is what an operator is told of an error.
func ProblemOf(err error) *Problem {
	if p := adminProblem(err); p != nil {
		return p
	}
	return problemOf(err)
}

// refuseAdmin answers a call that has failed.
func (h *handler) refuseAdmin(ctx context.Context, w http.ResponseWriter, v *verb, err error) {
	p := adminProblem(err)
	if p == nil {
		a := h.failed(ctx, strings.TrimPrefix(v.Path, adminPath), err)
		h.write(ctx, w, "", "", a)
		return
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
		h.Logger.ErrorContext(ctx, "call failed", "call", strings.TrimPrefix(v.Path, adminPath), "code", p.Status, "error", err)
	}
	WriteProblem(w, p)
}

// adminProblem is the problem of an error that only administration has, or that it tells more of; nil
// if there is none.
func adminProblem(err error) *Problem {
	var (
		invalid   *store.ValidationError
		ambiguous *manage.AmbiguousError
		used      *dynamo.KeyUsedError
		missing   *store.NotFoundError
		partly    *store.IncompleteError
	)
	about := func(code int, field, detail string) *Problem {
		p := problem(code, detail)
		p.Field = field
		return p
	}
	switch {
	case errors.Is(err, errMoved):
		return about(http.StatusConflict, "If-Match", errMoved.Error())
	case errors.As(err, &partly):
		return problem(http.StatusServiceUnavailable, "the change was made, and not all buckets follow yet: repeat the call, with its key if it had one")
	case errors.As(err, &ambiguous):
		return about(http.StatusBadRequest, "keep_defaults", err.Error()+": give the limit "+ambiguous.Limit+", or set limits for one resource")
	case errors.As(err, &used):
		return about(http.StatusConflict, "Idempotency-Key", used.Error())
	case errors.As(err, &invalid):
		return about(http.StatusBadRequest, adminField(err, invalid.Field), invalid.Error())
	case errors.As(err, &missing):
		return problem(http.StatusNotFound, missing.Error())
	case errors.Is(err, errNoTable):
		return problem(http.StatusNotFound, err.Error())
	case errors.Is(err, admin.ErrNoBackups):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrNestedCascade), errors.Is(err, errBlocked), errors.Is(err, admin.ErrNamespaceInUse):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, store.ErrUnsupported), errors.Is(err, store.ErrIncompatible):
		return problem(http.StatusUnprocessableEntity, err.Error())
	}
	return nil
}

// adminField is the field of a call that a field of an error comes from. An error about one of several
// limits begins with its place.
func adminField(err error, field string) string {
	place, _, _ := strings.Cut(err.Error(), ": ")
	if !strings.HasPrefix(place, "limits.") {
		place = ""
	} else {
		place += "."
	}
	switch field {
	case "entity":
		return "entity_id"
	case "parent":
		return "parent_id"
	case "idempotency key":
		return "Idempotency-Key"
	case "manifest name":
		return "manifest"
	case "limit name":
		field = "limit_name"
	case "namespace ID":
		field = "namespace_id"
	case "backup name", "backup ARN":
		field = strings.ToLower(field)
	}
	field = strings.Replace(field, " of ", ".", 1) // slots of inflight
	return place + strings.ReplaceAll(field, " ", "_")
}
