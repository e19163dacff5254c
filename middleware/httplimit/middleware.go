package httplimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
)

// Defaults of [Options] and [TransportOptions].
const (
	// DefaultResource is the resource of every request that a server gets.
	DefaultResource = "http"
	// DefaultLimit is the limit of which every request takes one token.
	DefaultLimit = "requests"
	// DefaultRetryUnavailable is what Retry-After says in an outage.
	DefaultRetryUnavailable = 5 * time.Second
	// DefaultOutbound is the entity of every request that a client sends.
	DefaultOutbound = "outbound"
	// DefaultMaxHold is the longest time for which an upstream is obeyed.
	DefaultMaxHold = 5 * time.Minute
)

// Options configure a [Middleware]. The zero value takes one token of the limit "requests"
// of the resource "http" for each request, from the address that opened the connection.
type Options struct {
	// Entity is who a request counts against. Default: [ClientAddr] without proxies.
	Entity Key
	// Resource is what a request uses. Default: [DefaultResource] for all requests.
	Resource Key
	// Consume are the tokens that each request takes, by limit. An amount of 0 declares a
	// limit that is settled later. Default: 1 of [DefaultLimit], or nothing if there are Slots.
	Consume map[string]int64
	// Cost returns the tokens that one request takes, in place of Consume. It must not read
	// the request's body.
	Cost func(*http.Request) (map[string]int64, error)
	// Settle returns what a request really used, by limit, after the handler has returned.
	// Limits that it leaves out keep what they took. The request must have named the limits.
	// What the handler settled itself is overwritten. Default: nothing changes.
	Settle func(*http.Request, *Response) map[string]int64
	// Slots are the slots that each request holds, by limit: how many requests run at a time. It
	// holds them until the handler returns, or until a connection that the handler took over is
	// closed. If they are lost, the context of the request ends with [limiter.ErrSlotsLost], and
	// such a connection is closed. Default: none.
	Slots map[string]int64
	// ClampPercent, if not 0, cuts what a request takes at first of each limit to that part of its
	// capacity, as in [limiter.Request]: for costs that are estimates. What Settle says counts in the end.
	// Default: no clamp.
	ClampPercent int
	// Fallback and SlotFallback are limits that hold only where no level configures any, as in
	// [limiter.Request].
	Fallback     []limiter.Limit
	SlotFallback []limiter.SlotLimit
	// OnUnavailable is what happens when the store cannot be reached. [limiter.Block] answers
	// 503. [limiter.Allow] serves the request, without header fields. [limiter.Share] decides it by
	// this process's share, and answers 503 if there is none. Default: as the system's configuration
	// says.
	OnUnavailable limiter.OnUnavailable
	// RetryUnavailable is what Retry-After says with a 503. Default
	// [DefaultRetryUnavailable]. It is rounded up to seconds.
	RetryUnavailable time.Duration
	// Skip says which requests are not limited: health checks, for instance. Default: none.
	// Preflights of CORS are never limited: see [Middleware].
	Skip func(*http.Request) bool
	// Shadow serves requests that the limiter refuses, and sends no header fields. The limiter
	// decides and counts as usual, so that Observe can tell what would happen. The handler
	// of a refused request has no lease, and lost slots end nothing.
	Shadow bool
	// Observe is told of each decision, before the handler or the answer. It must not block.
	Observe func(*http.Request, *Decision)
	// Refuse writes the answer to a request that is not admitted. The header fields are set
	// already, and [StatusOf] has the status. Default: a problem (RFC 9457) in JSON.
	Refuse func(http.ResponseWriter, *http.Request, error)
	// XHeaders adds X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset of the
	// limit that stops the client first. Limit is its capacity. Reset is in seconds from now.
	XHeaders bool
	// ExposeHeaders lets scripts of other origins read the fields: answers to requests with
	// Origin get Access-Control-Expose-Headers. Whether they may read answers at all is for
	// the middleware of CORS to say, outside this one.
	ExposeHeaders bool
	// Units are the units of limits, for the parameter qu of RateLimit-Policy:
	// "content-bytes" or "concurrent-requests". Default: no parameter, which means
	// "requests".
	Units map[string]string
	// Logger gets, once for each cause, what clients cannot correct: why the limiter cannot
	// decide, and leases that were not settled. Default: [slog.Default].
	Logger *slog.Logger
}

// A Decision is what the limiter decided about a request.
type Decision struct {
	// Request is what was asked. If Err is a Key's error, it is not complete.
	Request limiter.Request
	// Err is why the request is not admitted; nil if it is. A refusal is a
	// [*limiter.ExceededError] or a [*limiter.SlotsError].
	Err error
	// Degraded says that the request is admitted without the store.
	Degraded bool
	// Shadow says that the request is served whatever Err is.
	Shadow bool
}

// A Response is what was answered to a request.
type Response struct {
	// Status is the status code.
	Status int
	// Header has the header fields. Do not change it.
	Header http.Header
	// Bytes is the size of the body, as far as it was sent or read.
	Bytes int64
	// Hijacked says that the handler took over the connection. Status and Bytes say nothing
	// of what followed.
	Hijacked bool
}

// A Middleware limits the requests that handlers get. It is safe for concurrent use.
//
// Preflights of CORS go to the handler and take nothing: a browser sends them without a key. A
// preflight is an OPTIONS with Origin and Access-Control-Request-Method, without a body,
// Authorization or Cookie.
type Middleware struct {
	ask admission.Asker[*http.Request]
	o   Options
}

// New makes a middleware. It fails with a [*limiter.ValidationError] if an option is invalid.
func New(limits Acquirer, o Options) (*Middleware, error) {
	if o.Entity == nil {
		o.Entity, _ = ClientAddr(AddrOptions{}) // the zero value is valid
	}
	if o.Resource == nil {
		o.Resource = Constant(DefaultResource)
	}
	ask, err := admission.NewAsker(admission.Asker[*http.Request]{
		Limits: limits, Entity: of(o.Entity), Resource: of(o.Resource), Cost: of(o.Cost),
		Base: limiter.Request{
			Consume: o.Consume, Fallback: o.Fallback, Slots: o.Slots, SlotFallback: o.SlotFallback, ClampPercent: o.ClampPercent, OnUnavailable: o.OnUnavailable,
		},
		RetryUnavailable: cmp.Or(o.RetryUnavailable, DefaultRetryUnavailable),
	}, DefaultLimit, o.Logger)
	if err != nil {
		return nil, err
	}
	for limit, unit := range o.Units {
		if !isToken(unit) {
			return nil, &limiter.ValidationError{Field: "unit of " + limit, Value: unit, Reason: `give a unit of the draft's registry, "content-bytes" for instance`}
		}
	}
	return &Middleware{ask, o}, nil
}

// isToken reports whether a unit has letters, digits and "-" only.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Handler returns a handler that calls next for the requests that the limiter admits.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(next, w, r) })
}

func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if isPreflight(r) || m.o.Skip != nil && m.o.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	req, err := m.ask.Request(r.Context(), r)
	var lease *limiter.Lease
	if err == nil {
		lease, err = m.ask.Limits.Acquire(r.Context(), req)
	}
	outer := admission.From(r.Context())
	if !m.o.Shadow {
		m.expose(w.Header(), r)
		outer.Nest()
	}
	if err == nil {
		m.admit(next, w, r, &req, lease, outer)
		return
	}
	m.tell(r.Context(), &req, err)
	m.observe(r, &Decision{Request: req, Err: err, Shadow: m.o.Shadow})
	if m.o.Shadow {
		next.ServeHTTP(w, r)
		return
	}
	m.refuse(w, r, req.Entity, err, outer)
}

// isPreflight reports whether a browser asks what CORS permits.
func isPreflight(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodOptions && h.Get("Origin") != "" && h.Get("Access-Control-Request-Method") != "" &&
		r.ContentLength == 0 && len(h["Authorization"]) == 0 && len(h["Cookie"]) == 0
}

// expose lets scripts read the fields of an answer.
func (m *Middleware) expose(h http.Header, r *http.Request) {
	if !m.o.ExposeHeaders || r.Header.Get("Origin") == "" {
		return
	}
	names := "RateLimit, RateLimit-Policy, Retry-After"
	if m.o.XHeaders {
		names += ", X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	}
	h.Add("Access-Control-Expose-Headers", names)
}

// tell logs why requests are not decided, if the server is to blame, or may be: a Key of its
// own may have returned a name that is not valid.
func (m *Middleware) tell(ctx context.Context, req *limiter.Request, err error) {
	if ctx.Err() == nil && admission.IsDefect(err) && !errors.As(err, new(*RequestError)) {
		m.ask.Notices.Tell(ctx, "request not decided", err, "answer", StatusOf(err), "entity", req.Entity, "resource", req.Resource)
	}
}

func (m *Middleware) observe(r *http.Request, d *Decision) {
	if m.o.Observe != nil {
		m.o.Observe(r, d)
	}
}

// admit serves a request that was admitted, and settles its lease.
func (m *Middleware) admit(next http.Handler, w http.ResponseWriter, r *http.Request, req *limiter.Request, lease *limiter.Lease, outer *admission.Admission) {
	answer := &writer{ResponseWriter: w, admission: admission.Admission{Lease: lease, Outer: outer}}
	// The client may leave; what was taken is settled nevertheless. A panic goes on.
	ctx, returned := context.WithoutCancel(r.Context()), false
	defer func() { m.end(ctx, r, answer, req, returned) }()
	m.observe(r, &Decision{Request: *req, Degraded: lease.Degraded(), Shadow: m.o.Shadow})
	if !m.o.Shadow {
		answer.admission.Entity = req.Entity
		answer.fields = fields{units: m.o.Units, x: m.o.XHeaders, outer: outer}
		answer.fields.write(w.Header(), req.Entity, lease.Statuses(), noBound)
	}
	answer.mark = marked(w.Header())
	work := r.Context()
	if len(req.Slots) > 0 {
		answer.holds, answer.ends = true, !m.o.Shadow
		if answer.ends {
			var cancel context.CancelFunc
			work, cancel = lease.Context(work)
			defer cancel()
		}
	}
	next.ServeHTTP(answer.seen(), r.WithContext(admission.With(work, &answer.admission)))
	answer.prepare() // a handler may write nothing
	returned = true
}

// end settles a request once nobody works on it. returned says that the handler did not panic.
func (m *Middleware) end(ctx context.Context, r *http.Request, answer *writer, req *limiter.Request, returned bool) {
	if answer.conn != nil {
		answer.conn.end(returned, func() { m.report(ctx, req, m.settle(ctx, r, answer, returned)) })
		return
	}
	m.report(ctx, req, m.settle(ctx, r, answer, returned))
}

func (m *Middleware) report(ctx context.Context, req *limiter.Request, err error) {
	if err != nil {
		m.ask.Notices.Tell(ctx, "lease not settled", err, "entity", req.Entity, "resource", req.Resource)
	}
}

// settle ends the lease of a request.
func (m *Middleware) settle(ctx context.Context, r *http.Request, answer *writer, returned bool) error {
	lease := answer.admission.Lease
	if !returned && !answer.hasBegun() {
		return lease.Rollback(ctx)
	}
	var used map[string]int64
	if m.o.Settle != nil {
		if !answer.hijacked {
			answer.begin(http.StatusOK) // a server sends this for a handler that writes nothing
		}
		used = m.o.Settle(r, &Response{
			Status: answer.status, Header: answer.Header(), Bytes: answer.bytes, Hijacked: answer.hijacked,
		})
	}
	return admission.Settle(ctx, lease, used)
}

// LeaseFrom returns the lease of the request whose context this is: of a handler's request,
// or of the Request in a response of a [Transport]. There is none if the request was skipped,
// or if a shadow let a refused request through.
//
// The lease may be committed or rolled back early. Otherwise this is done when the handler
// returns, or when the response's body is closed.
func LeaseFrom(ctx context.Context) (lease *limiter.Lease, ok bool) {
	if a := admission.From(ctx); a != nil {
		return a.Lease, true
	}
	return nil, false
}

// Settle sets what the request of a context really used of a limit, in place of what was
// taken for it. It does nothing if the request has no lease, see [LeaseFrom]. The request
// must have named the limit. Errors are those of [limiter.Lease.Settle].
func Settle(ctx context.Context, limit string, used int64) error {
	lease, ok := LeaseFrom(ctx)
	if !ok {
		return nil
	}
	return lease.Settle(limit, used)
}
