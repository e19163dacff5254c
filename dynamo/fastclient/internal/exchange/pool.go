// Package exchange sends requests to DynamoDB over connections of HTTP/1.1 and reads
// their answers, on the caller's goroutine (ADR 016). Begin with [New].
package exchange

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

const (
	// idleConns is the number of connections to a host that are kept open: one for each
	// concurrent request up to it. The SDK keeps 10, and each concurrent request beyond
	// those makes a new connection, with TLS.
	idleConns = 256
	// answerTimeout bounds an exchange whose context sets no bound: a server that
	// disappears silently must not block the caller for ever.
	answerTimeout = time.Minute
	// sentAtOnce is the largest request that an idle socket takes without a wait. The least
	// buffer of a socket is larger.
	sentAtOnce = 4 << 10
)

// A Pool is an HTTP client for DynamoDB's only kind of exchange: a request that is sent
// at once and an answer that is read to its end. It writes and reads on the caller's
// goroutine. [http.Transport] has two goroutines for each connection, because requests
// may be streams and answers may come early. Passing a small request through them costs
// more CPU than sending it.
//
// [Pool.Exchange] takes a request as bytes. [Pool.Do] is the SDK's interface to the same
// connections. The requests of which [Pool.Takes] is false go through the SDK's client.
//
// A Pool never sends a request twice. It is safe for concurrent use.
//
// Invariant: a connection in idle has no exchange under way and no unread byte.
type Pool struct {
	stock  *awshttp.BuildableClient
	direct bool // whether any request is sent without stock
	proxy  func(*http.Request) (*url.URL, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	tls    *tls.Config

	handshake time.Duration // the longest TLS handshake; 0 is for ever
	answer    time.Duration // the longest exchange; 0 is for ever
	idleTime  time.Duration // how long an unused connection is kept; 0 is for ever
	now       func() time.Time

	mu   sync.Mutex
	idle map[Peer][]*link // in the order in which they became idle
}

// A Peer is the server at the other end of a connection, as in a URL.
type Peer struct{ Scheme, Host string }

// New returns a pool with the timeouts, dialer, TLS settings and proxy of the SDK's
// client. It keeps more connections, and resumes TLS sessions.
func New(stock *awshttp.BuildableClient) *Pool {
	stock = stock.WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns = max(t.MaxIdleConns, idleConns)
		t.MaxIdleConnsPerHost = max(t.MaxIdleConnsPerHost, idleConns)
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if t.TLSClientConfig.ClientSessionCache == nil {
			t.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
	})
	t := stock.GetTransport()
	p := &Pool{
		stock: stock, proxy: t.Proxy, dial: t.DialContext, tls: t.TLSClientConfig,
		handshake: t.TLSHandshakeTimeout, answer: answerTimeout, idleTime: t.IdleConnTimeout,
		now:  time.Now, //nolint:forbidigo // the default clock
		idle: make(map[Peer][]*link),
	}
	if timeout, ok := stock.GetReadTimeout(); ok {
		p.answer = timeout
	}
	p.tls.NextProtos = []string{"http/1.1"}
	p.direct = canProbe && t.DialContext != nil && t.DialTLSContext == nil && stock.GetTimeout() == 0 && t.ResponseHeaderTimeout == 0 &&
		!t.DisableKeepAlives && t.MaxConnsPerHost == awshttp.DefaultHTTPTransportMaxConnsPerHost && t.Protocols == nil
	return p
}

// Takes reports whether the pool sends a request over its own connections. It leaves to
// the SDK's client: requests through proxies, traced requests, transports with settings
// other than timeouts, dialer, TLS and proxy, and all requests on systems that cannot
// tell whether an idle connection was closed.
func (p *Pool) Takes(ctx context.Context, r *http.Request) bool {
	if !p.direct || r.Method != http.MethodPost || r.ContentLength < 0 || r.Close || r.URL.Scheme != "https" && r.URL.Scheme != "http" {
		return false
	}
	if httptrace.ContextClientTrace(ctx) != nil {
		return false
	}
	if p.proxy == nil {
		return true
	}
	proxy, err := p.proxy(r)
	return proxy == nil && err == nil
}

// Do sends a request and returns its answer, which has been read to its end.
func (p *Pool) Do(r *http.Request) (*http.Response, error) {
	if !p.Takes(r.Context(), r) {
		return p.passOn(r)
	}
	answer, err := p.send(r)
	if err != nil {
		return nil, &url.Error{Op: "Post", URL: r.URL.Redacted(), Err: err}
	}
	answer.Request = r
	return answer, nil
}

func (p *Pool) send(r *http.Request) (*http.Response, error) {
	var request bytes.Buffer
	err := r.Write(&request)
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	a, err := p.Exchange(r.Context(), Peer{r.URL.Scheme, r.URL.Host}, request.Bytes())
	if err != nil {
		return nil, err
	}
	defer a.Release()
	return a.HTTP()
}

// passOn sends a request with the SDK's client, and verifies the answer, too.
//
// The SDK closes the body of a request as soon as it is answered; the body's WriteTo then
// fails with io.EOF. An answer may arrive before the transport has tried to read past the
// body's end. The transport then takes io.EOF for a failed write and drops the
// connection. Without WriteTo, the transport sees only the end of the body.
func (p *Pool) passOn(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	answer, err := p.stock.Do(r)
	if err != nil {
		return nil, err
	}
	if _, err := readAll(answer); err != nil {
		return nil, &url.Error{Op: "Post", URL: r.URL.Redacted(), Err: err}
	}
	return answer, nil
}

// Exchange sends a request and reads its answer to the end. It fails with the
// connection's error, unwrapped, or with the context's error if the context ended. The
// caller must release the answer.
//
// If the caller of a [calls.Leavable] leaves meanwhile, or the request is only to be sent, the
// error is [calls.ErrGoesOn]. The answer is then valid after [Answer.GoOn]. Such an exchange
// makes no connection, and sends nothing that might wait for room in the socket, because nobody
// can leave that: the error is then [calls.ErrApart].
func (p *Pool) Exchange(ctx context.Context, to Peer, request []byte) (*Answer, error) {
	if len(request) > sentAtOnce && calls.MustLeave(ctx) {
		return nil, calls.ErrApart
	}
	l, err := p.connect(ctx, to)
	if err != nil {
		return nil, err
	}
	if calls.Begins(ctx) {
		if err := l.send(request); err != nil {
			l.cut()
			return nil, err
		}
		return &l.answer, calls.ErrGoesOn
	}
	return p.bounded(ctx, l, func() error { return l.exchange(request) })
}

// goOn goes on with an exchange that was interrupted, or only begun. If its time is up, another
// exchange may have taken that. So an answer that is there by now still counts.
func (p *Pool) goOn(ctx context.Context, l *link) error {
	const isThere = 50 * time.Millisecond
	p.allow(l, p.now())
	if ctx.Err() != nil {
		_ = l.SetReadDeadline(p.now().Add(isThere))
		ctx = context.WithoutCancel(ctx)
	}
	_, err := p.bounded(ctx, l, func() error { return l.answer.read(l.Conn) })
	return err
}

// bounded makes an exchange on a connection that is cut when the context ends.
func (p *Pool) bounded(ctx context.Context, l *link, exchange func() error) (*Answer, error) {
	stop, stopLeaving := noStop, noStop
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, l.cut)
	}
	if calls.MustLeave(ctx) {
		stopLeaving = calls.LeavableOf(ctx).OnLeave(l.interrupt)
	}
	err := exchange()
	left := !stopLeaving()
	if left {
		<-l.interrupted // the next deadline comes after this one
	}
	// If AfterFunc could not be stopped, the connection is cut now or soon.
	if uncut := stop(); err != nil || !uncut {
		l.answer.reusable = false
	}
	switch {
	case err == nil:
		return &l.answer, nil
	case left && l.sent && ctx.Err() == nil:
		return &l.answer, calls.ErrGoesOn
	}
	l.cut()
	if ctx.Err() != nil {
		err = ctx.Err() // the cause of the connection's error
	}
	return nil, err
}

func noStop() bool { return true }

// allow gives an exchange on a connection its time.
func (p *Pool) allow(l *link, now time.Time) {
	end := time.Time{}
	if p.answer > 0 {
		end = now.Add(p.answer)
	}
	_ = l.SetDeadline(end)
}

// connect returns an idle connection, or a new one.
func (p *Pool) connect(ctx context.Context, to Peer) (*link, error) {
	for {
		now := p.now()
		l := p.latest(to)
		if l == nil {
			break
		}
		// Set the deadline before the probe, which reads nothing after an expired
		// deadline.
		p.allow(l, now)
		if (p.idleTime == 0 || now.Sub(l.since) < p.idleTime) && l.quiet() {
			return l, nil
		}
		l.cut()
	}
	if calls.MustLeave(ctx) {
		return nil, calls.ErrApart
	}
	l, err := p.open(ctx, to)
	if err != nil {
		return nil, err
	}
	p.allow(l, p.now())
	return l, nil
}

// latest takes the most recently used connection, so that superfluous connections
// expire.
func (p *Pool) latest(of Peer) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[of]
	if len(idle) == 0 {
		return nil
	}
	l := idle[len(idle)-1]
	idle[len(idle)-1] = nil
	p.idle[of] = idle[:len(idle)-1]
	return l
}

// keep makes a connection idle if its last exchange allows it, and closes connections
// that were idle for too long.
func (p *Pool) keep(l *link) {
	if l.socket == nil || !l.answer.reusable {
		l.cut()
		return
	}
	l.since = p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := append(p.idle[l.peer], l)
	old := max(0, len(idle)-idleConns)
	for p.idleTime > 0 && old < len(idle) && l.since.Sub(idle[old].since) >= p.idleTime {
		old++
	}
	for _, l := range idle[:old] {
		l.cut()
	}
	p.idle[l.peer] = slices.Delete(idle, 0, old)
}
