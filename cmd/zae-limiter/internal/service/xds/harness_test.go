package xds_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/xds"
	"github.com/zeroae/zae-limiter-go/internal/test/pipes"
)

const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// A world is a client, whose connections go to where dial leads.
type world struct {
	*testing.T

	rules *hot.Value[*mapping.Rules]
	mu    sync.Mutex
	log   strings.Builder
	dial  func(ctx context.Context) (net.Conn, error)
}

// Write writes to the log.
func (w *world) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(text)
}

// inBubble runs f with a client in a bubble. Nobody answers it until there is a server.
func inBubble(t *testing.T, f func(*world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, rules: hot.Await[*mapping.Rules](time.Now)}
		nowhere := pipes.New()
		_ = nowhere.Close()
		w.leadTo(nowhere)
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		defer running.Wait()
		defer stop()
		client := xds.New(xds.Options{
			Server: "127.0.0.1:18000", Node: "envoy-ratelimit", Cluster: "east", Rules: w.rules, Logger: slog.New(slog.NewTextHandler(w, nil)),
			Dial: func(ctx context.Context, _ string) (net.Conn, error) { return w.connect(ctx) },
		})
		running.Go(func() { client.Run(ctx) })
		f(w)
	})
}

func (w *world) connect(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	dial := w.dial
	w.mu.Unlock()
	return dial(ctx)
}

// leadTo leads further connections to a listener.
func (w *world) leadTo(l *pipes.Listener) {
	w.through(func(ctx context.Context) (net.Conn, error) { return l.Dial(ctx, "", "") })
}

func (w *world) through(dial func(ctx context.Context) (net.Conn, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dial = dial
}

// serve leads further connections to a server of gRPC, until the function that it returns ends it.
func (w *world) serve(register func(*grpc.Server)) (end func()) {
	l, s := pipes.New(), grpc.NewServer()
	register(s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	w.leadTo(l)
	return sync.OnceFunc(func() {
		s.Stop()
		serving.Wait()
	})
}

// expect compares the state, once everybody waits.
func (w *world) expect(what, version, problem string, loads int, domains ...string) {
	w.Helper()
	synctest.Wait()
	s := w.rules.State()
	if s.Version != version || s.Loads != loads || problem == "" != (s.Error == "") || !strings.Contains(s.Error, problem) {
		w.Errorf("%s: %+v, want version %s, %d loads, error %q", what, s, version, loads, problem)
	}
	rules := w.rules.Get()
	for _, domain := range []string{"a", "b", "c"} {
		if has := rules != nil && rules.Has(domain); has != strings.Contains(strings.Join(domains, " "), domain) {
			w.Errorf("%s: rules of %s: %v", what, domain, has)
		}
	}
}

// A script is a server whose words a test gives.
type script struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer

	requests  chan *discovery.DiscoveryRequest
	responses chan *discovery.DiscoveryResponse // nil ends the stream
}

func newScript() *script {
	return &script{requests: make(chan *discovery.DiscoveryRequest, 1), responses: make(chan *discovery.DiscoveryResponse)}
}

func (s *script) register(to *grpc.Server) {
	discovery.RegisterAggregatedDiscoveryServiceServer(to, s)
}

func (s *script) StreamAggregatedResources(stream grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		s.requests <- request
		select {
		case response := <-s.responses:
			if response == nil {
				return nil
			}
			if err := stream.Send(response); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// domain is a resource with the limit of a domain, of as many requests a day.
func domain(name string, requests uint32) *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{Name: name, Domain: name, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: "tenant", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: requests},
	}}}
}

// response is a response with resources.
func (w *world) response(version, nonce string, resources ...*ratelimit.RateLimitConfig) *discovery.DiscoveryResponse {
	w.Helper()
	r := &discovery.DiscoveryResponse{VersionInfo: version, Nonce: nonce, TypeUrl: typeURL}
	for _, resource := range resources {
		packed, err := anypb.New(resource)
		if err != nil {
			w.Fatal(err)
		}
		r.Resources = append(r.Resources, packed)
	}
	return r
}
