// Package server runs the decision service: its listeners, who may call, its health, its metrics,
// and its end, in which no call fails.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/access"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/httpapi"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/page"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/tracing"
)

// Bounds of connections.
const (
	// MaxConnections is how many connections of callers are open at the same time. Further ones
	// wait in the queue of the operating system.
	MaxConnections = 4096
	// headerTime is how long a client may take to send a header, and idleTime how long a connection
	// stays open without a request.
	headerTime = 5 * time.Second
	idleTime   = 2 * time.Minute
	// maxHeader is the largest header, in bytes.
	maxHeader = 16 << 10
)

// Options configure a [Server].
type Options struct {
	// API serves the calls over HTTP.
	API http.Handler
	// Pages serves the pages for people below [page.Root], at the address of calls; nil is none.
	Pages http.Handler
	// Register registers the services of gRPC.
	Register func(grpc.ServiceRegistrar)
	// TLS encrypts both listeners of callers; nil is not at all.
	TLS *tls.Config
	// Config serves the state of the rules in use, at the admin address; nil if there are none.
	Config http.Handler
	// Ready is closed once the service can decide what it is for. Until then it says that it is not
	// ready. Nil is ready at once.
	Ready <-chan struct{}
	// Guard judges callers; nil lets everybody call who addresses this machine by a name of loopback, or
	// has a certificate.
	Guard *access.Guard
	// Open lets everybody call who reaches the listeners if Guard is nil.
	Open bool
	// Exposed says that other machines reach the address of calls over HTTP.
	Exposed bool
	// AdminExposed says that other machines reach the admin address: it asks for proofs, too.
	AdminExposed bool
	// Spans makes a span for each call; nil makes none.
	Spans *tracing.Spans
	// Registry has the metrics.
	Registry *prometheus.Registry
	Logger   *slog.Logger
	// Now is the clock of the machine.
	Now func() time.Time
	// DrainWait is how long the service still takes calls after it has said that it is not ready:
	// until no balancer sends any more.
	DrainWait time.Duration
	// DrainTime is how long calls under way then may take.
	DrainTime time.Duration
}

// other is the path, in metrics, of calls whose path is none.
const other = "other"

// A Server serves calls, and tells how it is.
//
//	context             ends
//	/readyz   503 ──▶ 200 ──▶ 503; gRPC's health is NOT_SERVING when it is 503
//	calls     served, answers say Connection: close ── DrainWait ──▶ the listeners close, gRPC says GOAWAY
//	under way                                                        end ── DrainTime ──▶ cut off
type Server struct {
	o        Options
	draining atomic.Bool
	calls    *prometheus.CounterVec
	work     work
	methods  map[string]bool // of gRPC
	grpc     *grpc.Server
	health   *health.Server
	ending   chan struct{} // closed when the wait of a drain is over, for streams
}

// New makes a server. It starts nothing.
func New(o Options) *Server {
	s := &Server{o: o, ending: make(chan struct{}), calls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "zae_limiter_service_calls_total", Help: "Calls of the service by path and status code. A batch is one.",
	}, []string{"path", "code"})}
	o.Registry.MustRegister(s.calls)
	s.makeGRPC()
	return s
}

// Listeners are where a server listens. Those that are nil are not served.
type Listeners struct {
	HTTP, GRPC, Admin net.Listener
}

// Close closes them.
func (at Listeners) Close() error {
	var errs []error
	for _, l := range [...]net.Listener{at.HTTP, at.GRPC, at.Admin} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// Serve serves calls over HTTP and gRPC, and metrics, health and profiles for operators, until the
// context ends. It closes the listeners. Calls that did not end in time are an error.
func (s *Server) Serve(ctx context.Context, at Listeners) error {
	api, private := s.server(s.ofCallers()), s.server(s.ofAdmin())
	ended := make(chan error, 3)
	var running sync.WaitGroup
	defer running.Wait()
	serve := func(l net.Listener, serve func(net.Listener) error) {
		if l != nil {
			running.Go(func() { ended <- serve(netutil.LimitListener(l, MaxConnections)) })
		}
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() { s.awaitReady(waiting) })
	serve(at.HTTP, s.serveHTTP(api))
	serve(at.GRPC, s.grpc.Serve)
	serve(at.Admin, private.Serve)
	defer private.Close() //nolint:errcheck // a scrape in progress is cut off
	select {
	case err := <-ended: // a listener has failed
		s.grpc.Stop()
		return errors.Join(err, api.Close())
	case <-ctx.Done():
	}
	return s.drain(context.WithoutCancel(ctx), api)
}

// serveHTTP serves HTTP, with TLS if there is any.
func (s *Server) serveHTTP(api *http.Server) func(net.Listener) error {
	if s.o.TLS == nil {
		return api.Serve
	}
	api.TLSConfig = s.o.TLS.Clone()
	return func(l net.Listener) error { return api.ServeTLS(l, "", "") }
}

// drain ends the service without a call that fails.
func (s *Server) drain(ctx context.Context, api *http.Server) error {
	s.draining.Store(true)
	s.health.Shutdown()
	s.o.Logger.InfoContext(ctx, "draining", "wait_seconds", s.o.DrainWait.Seconds())
	time.Sleep(s.o.DrainWait)
	close(s.ending)
	ctx, cancel := context.WithTimeout(ctx, s.o.DrainTime)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	err := api.Shutdown(ctx)
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.grpc.Stop()
		<-ended
		return errors.Join(fmt.Errorf("calls that did not end within %v were cut off: %w", s.o.DrainTime, err), api.Close())
	}
	s.o.Logger.InfoContext(ctx, "drained")
	return nil
}

func (s *Server) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: s.timed(h), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ConnContext: s.aged,
		WriteTimeout: answerTime,                                              // of what the server itself refuses; timed has that of handlers
		ErrorLog:     slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelWarn), // a handler that panics, and what clients do wrong
	}
}

// ofCallers serves calls and health.
func (s *Server) ofCallers() http.Handler {
	mux := s.probes()
	mux.Handle("/", s.observed(s.guarded(s.bounded(s.o.API))))
	if s.o.Pages != nil {
		mux.Handle(page.Root, s.observed(page.Secured(s.onlyHere(s.bounded(s.o.Pages)))))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() || s.isAged(r) {
			w.Header().Set("Connection", "close") // the client's next call may go to another replica
		}
		mux.ServeHTTP(w, r)
	})
}

// ofAdmin serves metrics, profiles and health.
func (s *Server) ofAdmin() http.Handler {
	mux := s.probes()
	if s.o.Config != nil {
		mux.Handle("/config", s.forOperators(access.Observe, s.o.Config))
	}
	mux.Handle("/metrics", s.forOperators(access.Observe, promhttp.HandlerFor(s.o.Registry, promhttp.HandlerOpts{})))
	for path, serve := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace} {
		mux.Handle("/debug/pprof/"+path, s.forOperators(access.Profile, serve))
	}
	return mux
}

// probes serves the probes. The service is alive as long as it answers. It is ready once it can decide, and
// until it drains, also while the store is away: all replicas see the same store, and a balancer that takes
// them all out helps nobody. The operator chooses what callers get then.
func (s *Server) probes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case s.draining.Load():
			say(w, http.StatusServiceUnavailable, "draining")
		case !s.isReady():
			say(w, http.StatusServiceUnavailable, "waiting for rules")
		default:
			say(w, http.StatusOK, "ready")
		}
	})
	return mux
}

func say(w http.ResponseWriter, code int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(word + "\n")) // the client may have left
}

// observed counts the calls of a handler, and makes a span for each. Paths that are none are one.
func (s *Server) observed(next http.Handler) http.Handler {
	known := map[string]bool{}
	for _, route := range httpapi.Routes() {
		known[route.Path] = true
	}
	pathOf := func(r *http.Request) string {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, page.Root):
			return page.Root
		case known[path]:
			return path
		}
		return other
	}
	return s.o.Spans.HTTP(pathOf, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		labels := prometheus.Labels{"path": pathOf(r)}
		promhttp.InstrumentHandlerCounter(s.calls.MustCurryWith(labels), next).ServeHTTP(w, r)
	}))
}
