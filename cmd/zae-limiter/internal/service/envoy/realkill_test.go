//go:build conformance

package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// endpointVariable makes the test binary a replica: it says where the table is.
const endpointVariable = "ENVOY_REPLICA_ENDPOINT"

// serveReplica is a replica in this process: it serves on the listener that it inherits, until it is killed.
func serveReplica(t *testing.T, endpoint string) {
	t.Helper()
	inherited := os.NewFile(3, "listener")
	at, err := net.FileListener(inherited)
	if err != nil {
		t.Fatal(err)
	}
	api := fastclient.New(aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})
	log := slog.New(slog.DiscardHandler)
	store, err := dynamo.Open(t.Context(), dynamo.Options{API: api, Table: testbed.Table, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.New(store, limiter.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := mapping.Parse(hot.Files{"rules.yaml": []byte(examples(t, "envoy.md")[0])})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	service := envoy.New(envoy.Options{Limiter: l, Rules: func() *mapping.Rules { return rules }, Logger: log, Now: time.Now}, registry)
	s := server.New(server.Options{Register: service.Register, Registry: registry, Logger: log})
	if err := s.Serve(t.Context(), server.Listeners{GRPC: at}); err != nil {
		t.Fatal(err)
	}
}

// newProcess makes a replica in a process of its own. It ends by kill -9.
func (m *mesh) newProcess() *replica {
	engine := httptest.NewServer(dynamolite.NewHandler(m.limits.Engine, dynamolite.HandlerOptions{}))
	m.Cleanup(engine.Close)
	return &replica{addr: "127.0.0.1:0", serve: func(ctx context.Context, at net.Listener, _ *prometheus.Registry) error {
		file, err := at.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestReplicasAreKilled$", "-test.timeout=0")
		cmd.Env = append(os.Environ(), endpointVariable+"="+engine.URL)
		cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, os.Stderr
		err = cmd.Start()
		_, _ = file.Close(), at.Close() // the child has it
		if err != nil {
			return err
		}
		if err := cmd.Wait(); ctx.Err() == nil {
			return fmt.Errorf("a replica ended by itself: %w", err)
		}
		return nil
	}}
}

// Replicas behind the real Envoy are killed in turn, under load, and come back. No tenant gets more than its limit
// admits. A call whose answer is lost may have taken its token: no more tokens are lost than calls were under way.
func TestReplicasAreKilled(t *testing.T) {
	if endpoint := os.Getenv(endpointVariable); endpoint != "" {
		serveReplica(t, endpoint)
		return
	}
	t.Parallel()
	blocks := examples(t, "envoy.md")
	m := meshOf(t, (*mesh).newProcess, "30s", 3, blocks[0], blocks[1])
	m.ready()
	const tenants, kills = 300, 6
	l := m.load(tenants)
	for n := range kills {
		r := m.replicas[n%len(m.replicas)]
		for before := l.calls.Load(); l.calls.Load() < before+200; {
			time.Sleep(10 * time.Millisecond)
		}
		r.end(t)
		r.start(t)
	}
	for l.calls.Load() < l.last.Load()+tenants*loadClients { // until every client was refused for every tenant
		time.Sleep(10 * time.Millisecond)
	}
	l.end()
	most := int64(tenants * 5)
	if n := l.admitted.Load(); n > most || n < most-kills*loadClients {
		t.Errorf("%d of %d calls were admitted, want %d less at most %d", n, l.calls.Load(), most, kills*loadClients)
	}
	t.Logf("%d calls, %d admitted, %d failed", l.calls.Load(), l.admitted.Load(), l.failed.Load())
}
