package fastclient_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
)

// Each concurrent request keeps a connection, up to the number of connections that are
// kept.
func TestClientKeepsConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ clients, rounds, connections int }{{64, 5, 64}, {300, 2, 300 + (300 - 256)}} {
		t.Run(strconv.Itoa(c.clients), func(t *testing.T) {
			t.Parallel()
			var inside sync.WaitGroup
			d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inside.Done()
				inside.Wait() // until all requests of a round are here
				empty(w, r)
			})).started()
			client := fastclient.New(clientConfig(d.URL))
			for range c.rounds {
				inside.Add(c.clients)
				var wg sync.WaitGroup
				for range c.clients {
					wg.Go(func() {
						if err := getSomething(t.Context(), client, once); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			}
			if n := d.connections.Load(); n != int64(c.connections) {
				t.Errorf("%d rounds took %d connections, want %d", c.rounds, n, c.connections)
			}
		})
	}
}

// The client does not use a connection that the server closed while it was idle. A
// write that failed that way would not be sent again.
func TestClientSeesThatAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, empty).started()
	c := fastclient.New(clientConfig(d.URL))
	for range 20 {
		if err := getSomething(t.Context(), c, once); err != nil {
			t.Fatal(err)
		}
		d.CloseClientConnections()
	}
}

// The client does not use a connection that was idle for longer than allowed.
func TestClientForgetsOldConnections(t *testing.T) {
	t.Parallel()
	d := newDesk(t, empty).started()
	cfg := clientConfig(d.URL)
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = 1 })
	c := fastclient.New(cfg)
	for range 3 {
		if err := getSomething(t.Context(), c, once); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.connections.Load(); n != 3 {
		t.Errorf("3 requests took %d connections, want 3", n)
	}
}

// rawDesk gives each connection the raw answers in turn, one for each request.
func rawDesk(t *testing.T, answers ...string) (endpoint string, connections *atomic.Int64) {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int64)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			wg.Go(func() {
				<-done
				_ = conn.Close()
			})
			wg.Go(func() {
				in := bufio.NewReader(conn)
				for _, answer := range answers {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(conn, answer)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(done)
		wg.Wait()
	})
	return "http://" + l.Addr().String(), connections
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

// The client reads answers in every form of HTTP/1.1. After an answer that leaves the
// connection in doubt, the next request uses another connection.
func TestClientReadsAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first       string
		fails       bool
		connections int64
	}{
		"plain":              {okAnswer, false, 1},
		"chunked":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", false, 1},
		"after early hints":  {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + okAnswer, false, 1},
		"its last":           {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", false, 2},
		"of HTTP/1.0":        {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", false, 2},
		"with more after it": {okAnswer + okAnswer, false, 2},
		"no HTTP":            {"{}\r\n\r\n", true, 2},
		"endless header":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000) + "\r\nContent-Length: 2\r\n\r\n{}", true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint, connections := rawDesk(t, c.first, okAnswer)
			client := fastclient.New(clientConfig(endpoint))
			if err := getSomething(t.Context(), client, once); (err != nil) != c.fails {
				t.Errorf("got %v, fails: %t", err, c.fails)
			}
			if err := getSomething(t.Context(), client, once); (err != nil) && !c.fails {
				t.Error(err)
			}
			if n := connections.Load(); n != c.connections {
				t.Errorf("two requests took %d connections, want %d", n, c.connections)
			}
		})
	}
}

// A caller that leaves does not wait for the answer, and no other caller gets that
// answer.
func TestClientIsCancelled(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"before the answer": "", "within it": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			var n atomic.Int64
			d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) > 1 {
					empty(w, r)
					return
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, answer)
				cancel()
				_, _ = io.Copy(io.Discard, conn) // until the client closes
				_ = conn.Close()
			})).started()
			c := fastclient.New(clientConfig(d.URL))
			wantErr(t, getSomething(ctx, c), context.Canceled)
			if err := getSomething(t.Context(), c, once); err != nil {
				t.Error(err)
			}
			if n := d.connections.Load(); n != 2 {
				t.Errorf("%d connections, want 2", n)
			}
		})
	}
}

// The client keeps to a read timeout if the context has no deadline.
func TestClientTimesOut(t *testing.T) {
	t.Parallel()
	endpoint, _ := rawDesk(t, "HTTP/1.1 200 OK\r\n")
	cfg := clientConfig(endpoint)
	cfg.HTTPClient = awshttp.NewBuildableClient().WithReadTimeout(10 * time.Millisecond)
	err := getSomething(t.Context(), fastclient.New(cfg), once)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

// Requests go through the configured proxy, over connections that are kept.
func TestClientUsesAProxy(t *testing.T) {
	t.Parallel()
	proxy := newDesk(t, empty).started()
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientConfig("http://db.example")
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = http.ProxyURL(to) })
	c := fastclient.New(cfg)
	for range 100 {
		if err := getSomething(t.Context(), c, once); err != nil {
			t.Fatal(err)
		}
	}
	requests := proxy.taken()
	if len(requests) != 100 || requests[0].Line != "POST http://db.example/ HTTP/1.1" || proxy.connections.Load() != 1 {
		t.Errorf("the proxy got %d requests, first %+v, over %d connections", len(requests), requests[:1], proxy.connections.Load())
	}
}

// A damaged answer fails, also if it came through a proxy.
func TestClientSeesADamagedAnswer(t *testing.T) {
	t.Parallel()
	damaged := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Crc32", "1")
		_, _ = io.WriteString(w, "{}")
	})).started()
	through, err := url.Parse(damaged.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxied := clientConfig("http://db.example")
	proxied.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = http.ProxyURL(through) })
	for name, cfg := range map[string]aws.Config{"directly": clientConfig(damaged.URL), "through a proxy": proxied} {
		err := getSomething(t.Context(), fastclient.New(cfg), once)
		if err == nil || !strings.Contains(err.Error(), "damaged on its way") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Over TLS, the client authenticates the server, uses HTTP/1.1 and resumes sessions.
func TestClientSpeaksTLS(t *testing.T) {
	t.Parallel()
	var resumed []bool
	d := newDesk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.TLS.DidResume)
		empty(w, r)
	}))
	d.EnableHTTP2 = true
	d.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that refuses
	d.StartTLS()
	trusting := x509.NewCertPool()
	trusting.AddCert(d.Certificate())
	client := func(roots *x509.CertPool) dynamo.API {
		cfg := clientConfig(strings.Replace(d.URL, "127.0.0.1", "example.com", 1)) // a name in the certificate
		cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
			tr.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, d.Listener.Addr().String())
			}
			tr.IdleConnTimeout = 1 // each request uses a new connection
		})
		// The SDK replaces the dialer of a BuildableClient with its own.
		return fastclient.New(cfg)
	}
	c := client(trusting)
	for range 2 {
		if err := getSomething(t.Context(), c, once); err != nil {
			t.Fatal(err)
		}
	}
	requests := d.taken()
	if len(requests) != 2 || !strings.HasSuffix(requests[0].Line, " HTTP/1.1") || !slices.Equal(resumed, []bool{false, true}) {
		t.Errorf("got %+v, resumed: %v", requests, resumed)
	}
	unknown := (*tls.CertificateVerificationError)(nil)
	if err := getSomething(t.Context(), client(x509.NewCertPool()), once); !errors.As(err, &unknown) {
		t.Errorf("got %v from a server that nobody knows", err)
	}
}
