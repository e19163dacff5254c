package httplimit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/internal/admission"
	"github.com/zeroae/zae-limiter-go/middleware/internal/hold"
)

// TransportOptions configure a [Transport]. The zero value takes one token of the limit
// "requests" of the resource "upstream/HOST" for each request.
type TransportOptions struct {
	// Base sends the requests. Default: [http.DefaultTransport].
	Base http.RoundTripper
	// Entity is who a request counts against: the account at the upstream, for instance.
	// Default: [DefaultOutbound] for all requests.
	Entity Key
	// Resource is what a request uses. Default: [Host].
	Resource Key
	// Consume and Cost are the tokens that a request takes, as in [Options].
	Consume map[string]int64
	Cost    func(*http.Request) (map[string]int64, error)
	// Settle returns what a request really used, by limit, when its response's body is
	// closed. Limits that it leaves out keep what they took. Default: nothing changes. The
	// caller may also call [Settle] with the context of the response's Request.
	Settle func(*http.Request, *Response) map[string]int64
	// Slots are the slots that a request holds until its response's body is closed, by limit, as
	// in [Options]. If they are lost, the request is canceled.
	Slots map[string]int64
	// ClampPercent cuts what a request takes at first, as in [Options].
	ClampPercent int
	// Fallback and SlotFallback are limits that hold only where no level configures any.
	Fallback     []limiter.Limit
	SlotFallback []limiter.SlotLimit
	// OnUnavailable is what happens when the store cannot be reached, as in [Options].
	OnUnavailable limiter.OnUnavailable
	// WaitHeld makes requests wait while the upstream has asked for a pause, unless their
	// context would end first. Default: they fail with a [*HeldError] at once.
	WaitHeld bool
	// MaxHold bounds the time for which the upstream is obeyed. Default [DefaultMaxHold].
	// Negative ignores what the upstream says.
	MaxHold time.Duration
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Logger gets, once for each cause, leases that were not settled. Default: [slog.Default].
	Logger *slog.Logger
}

// A Transport asks a limiter before it sends a request, and obeys what the upstream says
// about its own limits. It is safe for concurrent use.
//
// A request that the limiter refuses is not sent. RoundTrip fails with the limiter's error,
// which [http.Client] wraps, so that errors.As finds a [*limiter.ExceededError]. To wait
// instead, pass AcquirerFunc(limits.Wait).
//
// An error of the upstream with Retry-After or retry-after-ms holds further requests of the
// same entity and resource for that long. So does any response that says that nothing is left
// of a limit, and when it resets: in RateLimit (draft-ietf-httpapi-ratelimit-headers) or in a
// field like X-RateLimit-Reset. A 429 that says nothing holds them for a second. Each
// process learns this by itself. Only what the limiter counts is shared.
//
// What a request took is settled when the response's body is closed. It goes back if the
// upstream answers 429, and if the request failed before its header was written. Any other
// request is charged: the upstream may have counted it.
type Transport struct {
	ask   admission.Asker[*http.Request]
	o     TransportOptions
	holds *hold.Holds
}

// now is the local clock.
var now = time.Now //nolint:forbidigo // the default of the clock in TransportOptions

// NewTransport makes a transport. It fails with a [*limiter.ValidationError] if an option is
// invalid.
func NewTransport(limits Acquirer, o TransportOptions) (*Transport, error) {
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.Entity == nil {
		o.Entity = Constant(DefaultOutbound)
	}
	if o.Resource == nil {
		o.Resource = Host()
	}
	if o.MaxHold == 0 {
		o.MaxHold = DefaultMaxHold
	}
	if o.Now == nil {
		o.Now = now
	}
	ask, err := admission.NewAsker(admission.Asker[*http.Request]{
		Limits: limits, Entity: of(o.Entity), Resource: of(o.Resource), Cost: of(o.Cost),
		Base: limiter.Request{
			Consume: o.Consume, Fallback: o.Fallback, Slots: o.Slots, SlotFallback: o.SlotFallback, ClampPercent: o.ClampPercent, OnUnavailable: o.OnUnavailable,
		},
	}, DefaultLimit, o.Logger)
	if err != nil {
		return nil, err
	}
	return &Transport{ask, o, hold.New(o.MaxHold, o.Now)}, nil
}

// Host is the host of an outbound request, without its port, as the name of a resource:
// "upstream/api.example.com".
func Host() Key {
	return func(r *http.Request) (string, error) {
		return ResourceName("upstream/" + strings.ToLower(r.URL.Hostname())), nil
	}
}

// RoundTrip sends a request that the limiter admits. Errors are those of the limiter, a
// [*HeldError], and those of the base.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	lease, at, err := t.admit(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was read
		}
		return nil, fmt.Errorf("request to %s: %w", r.URL.Host, err)
	}
	var written atomic.Bool
	ctx, cancel := t.work(r.Context(), lease)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { written.Store(true) },
	})
	sent := r.WithContext(ctx)
	res, err := t.o.Base.RoundTrip(sent)
	if err != nil {
		if admission.SlotsLost(ctx) {
			err = fmt.Errorf("request to %s: %w: %w", r.URL.Host, limiter.ErrSlotsLost, err)
		}
		cancel()
		t.end(ctx, lease, written.Load())
		return nil, err
	}
	if t.o.MaxHold >= 0 {
		t.holds.Learn(at, pauseOf(res, t.o.Now(), t.o.MaxHold))
	}
	res.Request = sent
	if res.Body == nil { // http.Client tolerates such a base
		res.Body = http.NoBody
	}
	if res.StatusCode == http.StatusTooManyRequests {
		t.end(ctx, lease, false)
		res.Body = metered(res.Body, func(int64) { cancel() })
		return res, nil
	}
	res.Body = metered(res.Body, func(bytes int64) {
		cancel()
		t.settle(ctx, r, res, lease, bytes)
	})
	return res, nil
}

// work is the context of a request, with its lease. It ends if the lease loses slots. The caller
// must call cancel when the response's body is closed.
func (t *Transport) work(ctx context.Context, lease *limiter.Lease) (_ context.Context, cancel context.CancelFunc) {
	cancel = func() {}
	if len(t.o.Slots) > 0 {
		ctx, cancel = lease.Context(ctx)
	}
	return admission.With(ctx, &admission.Admission{Lease: lease}), cancel
}

// admit waits until nothing holds the request, and asks the limiter. at is what the upstream
// may hold.
func (t *Transport) admit(r *http.Request) (lease *limiter.Lease, at hold.Key, err error) {
	ctx := r.Context()
	req, err := t.ask.Request(ctx, r)
	if err != nil {
		return nil, at, err
	}
	at = hold.Key{Entity: req.Entity, Resource: req.Resource}
	rest, err := t.holds.Around(ctx, at, t.o.WaitHeld, func() (err error) {
		lease, err = t.ask.Limits.Acquire(ctx, req)
		return err
	})
	if rest > 0 && err == nil {
		err = &HeldError{Entity: at.Entity, Resource: at.Resource, RetryAfter: rest}
	}
	if err != nil && lease != nil {
		t.end(ctx, lease, false)
	}
	return lease, at, err
}

// end commits a lease, or returns what it took.
func (t *Transport) end(ctx context.Context, lease *limiter.Lease, charged bool) {
	settle := lease.Rollback
	if charged {
		settle = lease.Commit
	}
	t.report(ctx, settle(context.WithoutCancel(ctx)))
}

func (t *Transport) report(ctx context.Context, err error) {
	if err != nil {
		t.ask.Notices.Tell(ctx, "lease not settled", err)
	}
}

// CloseIdleConnections closes the idle connections of the base.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.o.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// settle ends the lease of a request whose response's body is closed.
func (t *Transport) settle(ctx context.Context, r *http.Request, res *http.Response, lease *limiter.Lease, bytes int64) {
	var used map[string]int64
	if t.o.Settle != nil {
		used = t.o.Settle(r, &Response{Status: res.StatusCode, Header: res.Header, Bytes: bytes})
	}
	t.report(ctx, admission.Settle(context.WithoutCancel(ctx), lease, used))
}

// metered wraps the body of a response, so that closing it calls settle.
func metered(of io.ReadCloser, settle func(bytes int64)) io.ReadCloser {
	b := &body{ReadCloser: of, settle: settle}
	if conn, ok := of.(io.Writer); ok { // of 101 Switching Protocols
		return struct {
			*body
			io.Writer
		}{b, conn}
	}
	return b
}

// A body counts what is read, and settles a lease once when it is closed.
type body struct {
	io.ReadCloser
	settle func(bytes int64)
	bytes  atomic.Int64
	closed atomic.Bool
}

// Read counts the bytes.
func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// Close closes the body and settles the lease.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed.Swap(true) {
		b.settle(b.bytes.Load())
	}
	return err
}
