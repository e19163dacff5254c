package fastclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const (
	// idleConns is the number of connections to a host that are kept open: one for each
	// concurrent request up to it. The SDK keeps 10, and each concurrent request beyond
	// those makes a new connection, with TLS.
	idleConns = 256
	// answerTimeout bounds an exchange whose context sets no bound: a server that
	// disappears silently must not block the caller for ever.
	answerTimeout = time.Minute
	// maxHeader is the largest header of an answer. DynamoDB's have 300 bytes.
	maxHeader = 64 << 10
	// keptBody is the largest answer that is read in one piece.
	keptBody = 1 << 20
)

// An exchanger is an HTTP client for DynamoDB's only kind of exchange: a request that
// is sent at once and an answer that is read to its end. It writes and reads on the
// caller's goroutine. [http.Transport] has two goroutines for each connection, because
// requests may be streams and answers may come early. Passing a small request through
// them costs more CPU than sending it.
//
// Everything else goes through the SDK's client: requests through proxies, traced
// requests, and transports with settings other than timeouts, dialer, TLS and proxy. So
// do all requests on systems that cannot tell whether an idle connection was closed.
//
// Invariant: a connection in idle has no exchange under way and no unread byte.
type exchanger struct {
	stock  dynamodb.HTTPClient
	direct bool // whether any request is sent without stock
	proxy  func(*http.Request) (*url.URL, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	tls    *tls.Config

	handshake time.Duration // the longest TLS handshake; 0 is for ever
	answer    time.Duration // the longest exchange; 0 is for ever
	idleTime  time.Duration // how long an unused connection is kept; 0 is for ever
	now       func() time.Time

	mu   sync.Mutex
	idle map[peer][]*link // in the order in which they became idle
}

var _ dynamodb.HTTPClient = (*exchanger)(nil)

// A peer is the server at the other end of a connection.
type peer struct{ scheme, host string }

// A link is a connection.
type link struct {
	net.Conn // with TLS
	peer     peer
	raw      net.Conn        // without TLS
	socket   syscall.RawConn // nil: raw is no socket
	probe    probe
	since    time.Time // when it became idle
	r        *bufio.Reader
	w        *bufio.Writer
	allowed  int64  // the number of bytes that may still be read
	cut      func() // closes raw
}

func newExchanger(stock *awshttp.BuildableClient) *exchanger {
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
	e := &exchanger{
		stock: detacher{stock}, proxy: t.Proxy, dial: t.DialContext, tls: t.TLSClientConfig,
		handshake: t.TLSHandshakeTimeout, answer: answerTimeout, idleTime: t.IdleConnTimeout,
		now:  time.Now, //nolint:forbidigo // the default clock
		idle: make(map[peer][]*link),
	}
	if timeout, ok := stock.GetReadTimeout(); ok {
		e.answer = timeout
	}
	e.tls.NextProtos = []string{"http/1.1"}
	e.direct = canProbe && t.DialContext != nil && t.DialTLSContext == nil && stock.GetTimeout() == 0 && t.ResponseHeaderTimeout == 0 &&
		!t.DisableKeepAlives && t.MaxConnsPerHost == awshttp.DefaultHTTPTransportMaxConnsPerHost && t.Protocols == nil
	return e
}

// Do sends a request and returns its answer, which has been read to its end.
func (e *exchanger) Do(r *http.Request) (*http.Response, error) {
	if !e.takes(r) {
		return e.passOn(r)
	}
	answer, err := e.exchange(r)
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if err != nil {
		return nil, &url.Error{Op: "Post", URL: r.URL.Redacted(), Err: err}
	}
	return answer, nil
}

// passOn sends a request with the SDK's client, and verifies the answer, too.
func (e *exchanger) passOn(r *http.Request) (*http.Response, error) {
	answer, err := e.stock.Do(r)
	if err != nil {
		return nil, err
	}
	if err := readAll(answer); err != nil {
		return nil, &url.Error{Op: "Post", URL: r.URL.Redacted(), Err: err}
	}
	return answer, nil
}

// takes reports whether e sends a request itself.
func (e *exchanger) takes(r *http.Request) bool {
	if !e.direct || r.Method != http.MethodPost || r.ContentLength < 0 || r.Close || r.URL.Scheme != "https" && r.URL.Scheme != "http" {
		return false
	}
	if httptrace.ContextClientTrace(r.Context()) != nil {
		return false
	}
	if e.proxy == nil {
		return true
	}
	proxy, err := e.proxy(r)
	return proxy == nil && err == nil
}

func (e *exchanger) exchange(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	l, err := e.connect(ctx, peer{r.URL.Scheme, r.URL.Host})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, l.cut)
	answer, reusable, err := l.exchange(r)
	// If AfterFunc could not be stopped, the connection is cut now or soon.
	if uncut := stop(); err != nil || !reusable || !uncut {
		l.cut()
	} else {
		e.keep(l)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the cause of the connection's error
	}
	return answer, err
}

// exchange sends a request and reads the answer. It reports whether the connection is
// ready for the next exchange. It returns the connection's errors unwrapped: they say
// what failed, and [url.Error] asks them whether it was a timeout.
func (l *link) exchange(r *http.Request) (answer *http.Response, reusable bool, err error) {
	if err := r.Write(l.w); err != nil {
		return nil, false, err
	}
	if err := l.w.Flush(); err != nil {
		return nil, false, err
	}
	l.allowed = maxHeader
	for answer == nil || answer.StatusCode < http.StatusOK { // no request here can end with a 1xx
		if answer, err = http.ReadResponse(l.r, r); err != nil {
			return nil, false, err
		}
	}
	l.allowed = math.MaxInt64
	if err := readAll(answer); err != nil {
		return nil, false, err
	}
	return answer, !answer.Close && l.r.Buffered() == 0, nil
}

// readAll reads the body of an answer, verifies it, and replaces it by what it has read.
func readAll(answer *http.Response) error {
	var data []byte
	var err error
	if n := answer.ContentLength; n >= 0 && n <= keptBody {
		data = make([]byte, n)
		_, err = io.ReadFull(answer.Body, data)
	} else {
		data, err = io.ReadAll(answer.Body)
	}
	_ = answer.Body.Close()
	if err != nil {
		return err
	}
	body := new(answerBody)
	body.Reset(data)
	answer.Body = body
	return verify(answer.Header, data)
}

// verify compares an answer with its checksum. AWS sends one with every answer, other
// endpoints do not.
func verify(header http.Header, data []byte) error {
	text := header.Get("X-Amz-Crc32")
	if text == "" {
		return nil
	}
	if sum := crc32.ChecksumIEEE(data); text != strconv.FormatUint(uint64(sum), 10) {
		return fmt.Errorf("the answer was damaged on its way: its checksum is %d, want %s", sum, text)
	}
	return nil
}

// An answerBody is the body of an answer that has been read.
type answerBody struct{ bytes.Reader }

// Close does nothing.
func (*answerBody) Close() error { return nil }

// connect returns an idle connection, or a new one.
func (e *exchanger) connect(ctx context.Context, p peer) (*link, error) {
	for {
		now := e.now()
		l := e.latest(p)
		if l == nil {
			break
		}
		// Set the deadline before the probe, which reads nothing after an expired
		// deadline.
		if e.answer > 0 {
			_ = l.SetDeadline(now.Add(e.answer))
		}
		if (e.idleTime == 0 || now.Sub(l.since) < e.idleTime) && l.quiet() {
			return l, nil
		}
		l.cut()
	}
	l, err := e.open(ctx, p)
	if err == nil && e.answer > 0 {
		err = l.SetDeadline(e.now().Add(e.answer))
	}
	return l, err
}

// latest takes the most recently used connection, so that superfluous connections
// expire.
func (e *exchanger) latest(p peer) *link {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := e.idle[p]
	if len(idle) == 0 {
		return nil
	}
	l := idle[len(idle)-1]
	idle[len(idle)-1] = nil
	e.idle[p] = idle[:len(idle)-1]
	return l
}

// keep makes a connection idle, and closes connections that were idle for too long.
func (e *exchanger) keep(l *link) {
	if l.socket == nil {
		l.cut()
		return
	}
	l.since = e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := append(e.idle[l.peer], l)
	old := max(0, len(idle)-idleConns)
	for e.idleTime > 0 && old < len(idle) && l.since.Sub(idle[old].since) >= e.idleTime {
		old++
	}
	for _, l := range idle[:old] {
		l.cut()
	}
	e.idle[l.peer] = slices.Delete(idle, 0, old)
}

// open connects.
func (e *exchanger) open(ctx context.Context, p peer) (*link, error) {
	host, port, err := net.SplitHostPort(p.host)
	if err != nil {
		if port = "443"; p.scheme == "http" {
			port = "80"
		}
		host = (&url.URL{Host: p.host}).Hostname() // without the brackets of an IPv6 address
	}
	raw, err := e.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	l := &link{Conn: raw, peer: p, raw: raw, cut: func() { _ = raw.Close() }}
	if c, ok := raw.(syscall.Conn); ok {
		if l.socket, err = c.SyscallConn(); err != nil {
			l.cut()
			return nil, err
		}
		l.probe.init()
	}
	if p.scheme == "https" {
		config := e.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = host
		}
		secure := tls.Client(raw, config)
		if err := e.shake(ctx, secure); err != nil {
			l.cut()
			return nil, err
		}
		l.Conn = secure
	}
	l.r, l.w = bufio.NewReader(l), bufio.NewWriter(l)
	return l, nil
}

func (e *exchanger) shake(ctx context.Context, c *tls.Conn) error {
	if e.handshake > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.handshake)
		defer cancel()
	}
	return c.HandshakeContext(ctx)
}

// Read reads at most the allowed number of bytes.
func (l *link) Read(p []byte) (int, error) {
	if l.allowed <= 0 {
		return 0, errLongHeader
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), l.allowed)])
	l.allowed -= int64(n)
	return n, err
}

var errLongHeader = errors.New("the header of the answer is too long")

// quiet reports whether an idle connection is still open: the server has sent nothing,
// not even the end of the connection.
func (l *link) quiet() bool { return l.socket.Read(l.probe.look) == nil && l.probe.quiet }

// A detacher is the SDK's client with request bodies that end in only one way. The SDK
// closes the body of a request as soon as it is answered; the body's WriteTo then fails
// with io.EOF. An answer may arrive before the transport has tried to read past the
// body's end. The transport then takes io.EOF for a failed write and drops the
// connection. Without WriteTo, the transport sees only the end of the body.
type detacher struct{ *awshttp.BuildableClient }

// Do sends a request.
func (d detacher) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return d.BuildableClient.Do(r)
}
