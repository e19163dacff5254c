//go:build conformance

package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// A real collector receives the spans of calls, in the traces of their callers, by either protocol of OTLP. The
// variables of OpenTelemetry say where it is, and what the service is called.
func TestACollectorReceivesTheSpansOfTheService(t *testing.T) { //nolint:paralleltest // the exporters read the environment of the process
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			collector := peers.OpenTelemetryCollector(t)
			endpoint := collector.Endpoint
			if protocol == "grpc" {
				endpoint = collector.GRPC
			}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			callForSpans(t)
			wanted := []string{
				"-> service.name: Str(zae-limiter)", "-> deployment.environment.name: Str(test)",
				"Trace ID       : 4bf92f3577b34da6a3ce929d0e0e4736", "Parent ID      : 00f067aa0ba902b7", "Kind           : Server",
				"Name           : /v1/acquire\n", "-> http.route: Str(/v1/acquire)", "-> http.response.status_code: Int(429)",
				"Name           : envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "-> rpc.response.status_code: Str(OK)",
				"Name           : acquire\n", "-> zae_limiter.result: Str(admitted)", "-> zae_limiter.result: Str(refused)", `-> zae_limiter.limit: Slice(["rpd"])`,
				"Name           : PutItem zae-limiter", "-> db.system.name: Str(aws.dynamodb)", "Kind           : Client",
			}
			var missing []string
			for range 100 { // the collector writes what it received soon after
				received := collector.Received(t)
				missing = nil
				for _, text := range wanted {
					if !strings.Contains(received, text) {
						missing = append(missing, text)
					}
				}
				if strings.Contains(received, "client-1") {
					t.Fatalf("the name of an entity was exported:\n%s", received)
				}
				if len(missing) == 0 {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("the collector did not receive %q:\n%s", missing, collector.Received(t))
		})
	}
}

// callForSpans runs a service in the environment of the process, and has a call admitted and one refused over HTTP,
// and the same over gRPC.
func callForSpans(t *testing.T) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(`domains: {gateway: [{entries: [tenant], entity: "{tenant}", resource: api, take: {rpd: hits}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startServing(cli.Options{Getenv: os.Getenv, Args: []string{
		"serve", "--local", ":memory:", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--config", rules, "--fallback", "rpd:5/day", "--drain-wait", "0s", "--output", "json",
	}})
	var shown struct{ GRPC string }
	if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
		_, stderr := b.end()
		t.Fatal(err, stderr)
	}
	const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, n := range []string{"5", "1"} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/acquire",
			strings.NewReader(`{"entity_id":"client-1","resource":"api","consume":{"rpd":`+n+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Traceparent", traceparent)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
	}
	conn, err := grpc.NewClient(shown.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), &rls.RateLimitRequest{
		Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "tenant", Value: "client-1"}}}},
	}); err != nil {
		t.Fatal(err)
	}
	if code, stderr := b.end(); code != 0 || strings.Contains(stderr, "spans") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
}
