//go:build conformance

package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

// drainWait is longer than Envoy takes to see that a replica is no longer healthy: it asks five times a second.
const drainWait = 2 * time.Second

// A replica is one of the replicas of a service. Each life of it has the address of the one before.
type replica struct {
	addr     string
	registry *prometheus.Registry // of its present life
	refused  *refusals.Log        // of all its lives; nil if it is another process
	serve    func(ctx context.Context, at net.Listener, registry *prometheus.Registry) error
	stop     context.CancelFunc
	ended    chan error
}

// start starts a replica. It listens at once.
func (r *replica) start(t *testing.T) {
	t.Helper()
	var config net.ListenConfig
	at, err := config.Listen(t.Context(), "tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	r.addr, r.ended, r.registry = at.Addr().String(), make(chan error, 1), prometheus.NewRegistry()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = stop
	registry := r.registry
	go func() { r.ended <- r.serve(ctx, at, registry) }()
}

// end tells a replica to end, and waits for that.
func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// newReplica makes a replica with a limiter of its own, as another process has it.
func (m *mesh) newReplica() *replica {
	refused := refusals.New(time.Now)
	l := m.limits.NewLimiter(limiter.Options{Observer: refused, TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}})
	return &replica{addr: "127.0.0.1:0", refused: refused, serve: func(ctx context.Context, at net.Listener, registry *prometheus.Registry) error {
		log := slog.New(slog.DiscardHandler)
		service := envoy.New(envoy.Options{Limiter: l, Rules: m.rules, Refusals: refused, Logger: log, Now: time.Now}, registry)
		s := server.New(server.Options{Register: service.Register, Registry: registry, Logger: log, DrainWait: drainWait, DrainTime: time.Minute})
		return s.Serve(ctx, server.Listeners{GRPC: at})
	}}
}

// No call fails while three replicas behind the real Envoy are restarted in turn, under load, and each tenant
// gets what its limit admits: no more, and no less.
func TestEnvoyBesideARollingRestart(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "30s", 3)
	m.ready()
	const tenants = 40
	l := m.load(tenants)
	for _, r := range m.replicas {
		before := l.calls.Load()
		r.end(t)
		if l.calls.Load() == before {
			t.Error("there was no load")
		}
		r.start(t)
		for until := time.Now().Add(20 * time.Second); countedIn(t, r.registry, "gateway", "over_limit") == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("Envoy sends nothing to a replica that is back")
			}
		}
	}
	l.end()
	if n := l.admitted.Load(); n != tenants*5 || l.failed.Load() > 0 {
		t.Errorf("%d of %d calls were admitted, want %d, and %d failed", n, l.calls.Load(), tenants*5, l.failed.Load())
	}
	t.Logf("%d calls", l.calls.Load())
}

// loadClients is how many clients a load has.
const loadClients = 8

// A load is that of clients that ask for each tenant in turn.
type load struct {
	calls, admitted, failed atomic.Int64
	last                    atomic.Int64 // the number of the last call that was admitted
	all                     sync.WaitGroup
	stop                    chan struct{}
	stopped                 sync.Once
}

// load begins a load of requests with headers.
func (m *mesh) load(tenants int, header ...string) *load {
	l := &load{stop: make(chan struct{})}
	for client := range loadClients {
		l.all.Go(func() {
			for n := client; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				switch a, err := m.send(fmt.Sprintf("tenant-%d", n%tenants), "", header...); {
				case a.code == http.StatusOK && err == nil:
					l.admitted.Add(1)
					l.last.Store(l.calls.Load())
				case a.code == http.StatusTooManyRequests && err == nil:
				default:
					l.failed.Add(1)
					m.Logf("call %d failed: %d %.200q %v", l.calls.Load(), a.code, a.body, err)
					time.Sleep(50 * time.Millisecond) // Envoy may not be back yet
				}
				l.calls.Add(1)
			}
		})
	}
	return l
}

// end ends the load, if it was not ended before.
func (l *load) end() {
	l.stopped.Do(func() { close(l.stop) })
	l.all.Wait()
}

// endpoints are the endpoints of a cluster of Envoy.
func endpoints(replicas []*replica) string {
	var all []string
	for _, r := range replicas {
		all = append(all, "{"+endpointOf(r.addr)+"}")
	}
	return strings.Join(all, ", ")
}

func endpointOf(addr string) string {
	host, port, _ := strings.Cut(addr, ":")
	return fmt.Sprintf("endpoint: {address: {socket_address: {address: %s, port_value: %s}}}", host, port)
}
