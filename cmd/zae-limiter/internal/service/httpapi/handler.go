package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/tracing"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// Bounds of a call.
const (
	// MaxBody is the largest body of a call, in bytes. The largest valid one has two thirds of it.
	MaxBody = 128 << 10
	// MaxBatch is the largest number of calls in a batch.
	MaxBatch = 100
	// MaxBatchBody is the largest body of a batch, in bytes.
	MaxBatchBody = 1 << 20
	// BodyTime is how long a client may take to send a body. The server sets the deadline.
	BodyTime = 10 * time.Second
	// retryUnavailable is how long a client is asked to wait while the store cannot be reached.
	retryUnavailable = time.Second
)

// Options configure the handler.
type Options struct {
	Limiter decide.Limiter
	Policy  decide.Policy
	// Admin serves administration; nil is none.
	Admin *Admin
	// Refusals has observed Limiter, and gives refusals their IDs; nil gives none.
	Refusals *refusals.Log
	// Logger gets the errors that clients are not told. It must not get names of entities:
	// server.Logger has none.
	Logger *slog.Logger
}

// A Batch has calls that are decided side by side.
type Batch struct {
	// Calls are the calls, 1 to 100.
	Calls []decide.Call `json:"calls"`
}

// A BatchAnswer has the results of a batch.
type BatchAnswer struct {
	// Results has the result of each call, in the order of the calls.
	Results []Result `json:"results"`
}

// A Result is what one call of a batch would be answered alone.
type Result struct {
	// Status is the status code of the answer.
	Status   int              `json:"http_status"`
	Decision *decide.Decision `json:"decision,omitempty"` // the answer, if the code is 200
	Failure  *Problem         `json:"failure,omitempty"`  // the answer with any other code
}

// Document is the description of the interface, in OpenAPI 3.1.
//
//go:embed openapi.json
var Document []byte

type handler struct{ Options }

// New is the handler of all [Routes].
func New(o Options) http.Handler {
	h := &handler{o}
	serves := map[string]http.HandlerFunc{
		"/v1/acquire": h.acquire, "/v1/check": h.check, "/v1/batch": h.batch, "/v1/openapi.json": h.document,
		"/v1/leases/settle": h.settle, "/v1/leases/release": h.release, "/v1/leases/extend": h.extend,
	}
	mux := http.NewServeMux()
	for i := range verbs() {
		v := &verbs()[i]
		mux.HandleFunc(v.Path, only(v.Method, h.serveAdmin(v)))
	}
	for _, route := range Routes() {
		if route.IsAdmin {
			continue
		}
		mux.HandleFunc(route.Path, only(route.Method, serves[route.Path]))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, problem(http.StatusNotFound, "there is no such path: GET /v1/openapi.json has all"))
	})
	return mux
}

// only serves requests of one method.
func only(method string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			WriteProblem(w, problem(http.StatusMethodNotAllowed, "use "+method))
			return
		}
		serve(w, r)
	}
}

func (*handler) document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(Document) // the client may have left
}

// acquire takes tokens.
func (h *handler) acquire(w http.ResponseWriter, r *http.Request) {
	c := &decide.Call{}
	if p := h.read(w, r, MaxBody, c); p != nil {
		WriteProblem(w, p)
		return
	}
	a := h.decided(h.Refusals.Follow(r.Context(), r.Header.Get(requestID)), c)
	tracing.Decided(r.Context(), a)
	h.write(r.Context(), w, c.Entity, c.Resource, a)
}

// requestID is the field with the ID that a client gives to a request.
const requestID = "X-Request-Id"

// check asks for balances.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	q := &decide.Question{}
	if p := h.read(w, r, MaxBody, q); p != nil {
		WriteProblem(w, p)
		return
	}
	statuses, err := h.Policy.Look(r.Context(), h.Limiter, q)
	if err != nil {
		h.write(r.Context(), w, "", "", h.failed(r.Context(), "check", err))
		return
	}
	h.write(r.Context(), w, q.Entity, q.Resource, &answer{code: http.StatusOK, statuses: statuses, decision: decide.Foreseen(statuses)})
}

// batch decides many calls at the same time. The calls of a batch that take from one bucket share
// its writes. A call that fails, or is not valid, fails alone.
func (h *handler) batch(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Calls []raw `json:"calls"`
	}
	if p := h.read(w, r, MaxBatchBody, &in); p != nil {
		WriteProblem(w, p)
		return
	}
	if n := len(in.Calls); n == 0 || n > MaxBatch {
		p := problem(http.StatusBadRequest, "give 1 to "+strconv.Itoa(MaxBatch)+" calls; make several batches of more")
		p.Field = "calls"
		WriteProblem(w, p)
		return
	}
	results := make([]Result, len(in.Calls))
	ctx, id := r.Context(), r.Header.Get(requestID)
	sideBySide(len(results), func(i int) { results[i] = h.result(h.Refusals.Follow(ctx, id), in.Calls[i]) })
	send(w, http.StatusOK, "application/json", BatchAnswer{results})
}

// sideBySide does n things, none of which waits for another one (ADR 077). Each goroutine goes on with what nobody
// has begun. So there are as many as wait for something, and few where nothing does: a stack that has grown is
// used again.
//
//	caller   begins the next, and does 0, 2, 3, …
//	next     begins the next, and does 1: it waits for a write
//	next     does 4, …
func sideBySide(n int, do func(int)) {
	var all sync.WaitGroup
	var begun atomic.Int64
	var work func()
	work = func() {
		for isFirst := true; ; isFirst = false {
			i := int(begun.Add(1)) - 1
			if i >= n {
				return
			}
			if isFirst && i+1 < n {
				all.Go(work)
			}
			do(i)
		}
	}
	work()
	all.Wait()
}

// result is what becomes of one call of a batch.
func (h *handler) result(ctx context.Context, text raw) Result {
	c := &decide.Call{}
	if p := decode(text, c); p != nil {
		return Result{Status: p.Status, Failure: p}
	}
	a := h.decided(ctx, c)
	if a.problem != nil {
		return Result{Status: a.code, Failure: a.problem}
	}
	return Result{Status: a.code, Decision: &a.decision}
}

// An answer is what a client is told.
type answer struct {
	code     int
	statuses []limiter.Status
	decision decide.Decision
	problem  *Problem // nil if the code is 200
	retry    string   // the field Retry-After; "" is none
}

// Outcome is what became of a call, as observers of a limiter are told, and which limits refused it.
func (a *answer) Outcome() (result limiter.Result, refusing []string) {
	switch {
	case a.code == http.StatusTooManyRequests:
		return limiter.Refused, a.problem.Violated
	case a.problem != nil:
		return limiter.Failed, nil
	case a.decision.Degraded != "":
		return limiter.Degraded, nil
	}
	return limiter.Admitted, nil
}

// decided answers a call.
func (h *handler) decided(ctx context.Context, c *decide.Call) *answer {
	req, wait, err := h.Policy.Request(c)
	if err != nil {
		return h.failed(ctx, "acquire", err)
	}
	if c.DryRun {
		return h.foreseen(ctx, &req)
	}
	lease, err := decide.Acquire(ctx, h.Limiter, req, wait)
	if err != nil {
		return h.failed(ctx, "acquire", err)
	}
	// The client may have gone meanwhile, and does not get what it asked for.
	if err := ctx.Err(); err != nil {
		return h.failed(ctx, "acquire", errors.Join(err, lease.Rollback(context.WithoutCancel(ctx))))
	}
	a := &answer{code: http.StatusOK, statuses: lease.Statuses(), decision: decide.Admitted(lease)}
	if c.Lease == 0 {
		err = lease.Commit(ctx)
	} else if a.decision.Lease, err = lease.Token(ctx, time.Duration(c.Lease)*time.Millisecond); err != nil {
		err = errors.Join(err, lease.Rollback(context.WithoutCancel(ctx)))
	}
	if errors.Is(err, limiter.ErrSlotsLost) { // before anybody was told of them
		err = fmt.Errorf("%w: the slots were lost before the lease was written down", limiter.ErrUnavailable)
	}
	if err != nil {
		return h.failed(ctx, "acquire", err)
	}
	return a
}

// foreseen answers a dry run as the call itself would be answered now.
func (h *handler) foreseen(ctx context.Context, req *limiter.Request) *answer {
	statuses, err := h.Limiter.Available(ctx, *req)
	if err != nil {
		return h.failed(ctx, "dry run", err)
	}
	if d := decide.Foreseen(statuses); d.Admitted {
		return &answer{code: http.StatusOK, statuses: statuses, decision: d}
	}
	return h.failed(ctx, "dry run", &limiter.ExceededError{Statuses: statuses})
}

// write sends an answer about an entity and a resource, whose limits the fields RateLimit-Policy
// and RateLimit tell. Limits of further resources may have the same names, and are in the body
// only.
func (h *handler) write(ctx context.Context, w http.ResponseWriter, entity, resource string, a *answer) {
	if a.code == httplimit.StatusClientGone {
		w.WriteHeader(a.code)
		return
	}
	var own []limiter.Status
	for _, s := range a.statuses {
		if s.Resource == resource {
			own = append(own, s)
		}
	}
	if policy, limit := httplimit.Fields(ctx, entity, own); policy != "" {
		w.Header().Set("RateLimit-Policy", policy)
		w.Header().Set("RateLimit", limit)
	}
	if a.retry != "" {
		w.Header().Set("Retry-After", a.retry)
	}
	if a.problem != nil {
		send(w, a.code, problemType, a.problem)
		return
	}
	send(w, a.code, "application/json", a.decision)
}

func send(w http.ResponseWriter, code int, form string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the types have nothing that cannot be encoded
	}
	w.Header().Set("Content-Type", form)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(text) // the client may have left
}

// failed is the answer to a call that has failed, or was refused.
func (h *handler) failed(ctx context.Context, call string, err error) *answer {
	exceeded, full := (*limiter.ExceededError)(nil), (*limiter.SlotsError)(nil)
	if ctx.Err() != nil && !errors.As(err, &exceeded) {
		return &answer{code: httplimit.StatusClientGone, problem: problem(httplimit.StatusClientGone, "the client has left")}
	}
	p := problemOf(err)
	p.Instance = h.Refusals.IDOf(ctx)
	a := &answer{code: p.Status, problem: p}
	switch {
	case exceeded != nil || errors.As(err, &exceeded):
		a.statuses = exceeded.Statuses
		if seconds, ok := exceeded.RetryAfterSeconds(); ok {
			a.retry = strconv.FormatInt(seconds, 10)
		}
	case errors.As(err, &full): // nobody knows the wait
	case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusTooManyRequests:
		a.retry = strconv.FormatInt(int64(retryUnavailable/time.Second), 10)
	}
	if p.Status >= http.StatusInternalServerError {
		h.Logger.ErrorContext(ctx, "call failed", "call", call, "code", p.Status, "error", err)
	}
	return a
}
