package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/internal/test/pipes"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// A running server has a limiter of its own, 60 rpm for everybody.
type running struct {
	*testing.T
	limits             *limitertest.Limits
	calls, grpc, admin *pipes.Listener
	client             *http.Client
	stop               context.CancelFunc
	ended              chan error
}

// serve runs f with a server in a bubble, and then ends the server.
func serve(t *testing.T, o server.Options, f func(*running)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := &running{T: t, limits: limitertest.New(t, limiter.PerMinute("rpm", 60)), calls: pipes.New(), admin: pipes.New(), grpc: pipes.New(), stop: stop, ended: make(chan error, 1)}
		o.Registry = prometheus.NewRegistry()
		if o.Logger == nil {
			o.Logger = slog.New(slog.DiscardHandler)
		}
		o.Now = time.Now
		if o.DrainTime == 0 {
			o.DrainTime = time.Second
		}
		if o.API == nil {
			decides := decide.Limiter(r.limits)
			if o.Spans != nil {
				decides = r.limits.NewLimiter(limiter.Options{Observer: o.Spans.Observer})
			}
			o.API = httpapi.New(httpapi.Options{
				Limiter: decides, Policy: decide.Policy{MaxWait: time.Minute}, Logger: o.Logger,
				Admin: &httpapi.Admin{Store: r.limits.Store, Limiter: r.limits.Limiter, Now: time.Now},
			})
		}
		s := server.New(o)
		go func() { r.ended <- s.Serve(ctx, server.Listeners{HTTP: r.calls, GRPC: r.grpc, Admin: r.admin}) }()
		r.client = r.newClient(r.calls)
		f(r)
		stop()
		if err, ok := <-r.ended; ok && err != nil {
			t.Error(err)
		}
	})
}

// guard knows the tokens of a file.
func guard(t *testing.T, text string) *access.Guard {
	t.Helper()
	tokens, err := access.ParseTokens(text)
	if err != nil {
		t.Fatal(err)
	}
	return &access.Guard{Namespace: "shop", Tokens: func() *access.Tokens { return tokens }}
}

func (r *running) newClient(p *pipes.Listener) *http.Client {
	transport := &http.Transport{DialContext: p.Dial}
	r.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get asks for a path, and returns the code and the body.
func (r *running) get(client *http.Client, path string) (code int, body string) {
	r.Helper()
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
	if err != nil {
		r.Fatal(err)
	}
	a, err := client.Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		r.Fatal(err)
	}
	return a.StatusCode, string(text)
}

const aCall = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`

// A reply is the answer to a call.
type reply struct {
	code   int
	closes bool // the connection
	header http.Header
}

// call sends a call, with headers.
func (r *running) call(host, body string, header ...string) (*reply, error) {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+host+"/v1/acquire", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := r.client.Do(q)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, a.Body)
	return &reply{a.StatusCode, a.Close, a.Header}, errors.Join(err, a.Body.Close())
}

// say opens a connection, and writes the beginning of a request.
func (r *running) say(text string) net.Conn {
	r.Helper()
	c, err := r.calls.Dial(r.Context(), "", "")
	if err != nil {
		r.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		r.Fatal(err)
	}
	return c
}

// codeOf reads the answer of a connection; 0 if it was closed instead.
func codeOf(c net.Conn) int {
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_ = a.Body.Close()
	return a.StatusCode
}
