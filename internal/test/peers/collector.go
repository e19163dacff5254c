//go:build conformance

package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Collector is a running OpenTelemetry collector.
type Collector struct {
	// Endpoint is its URL for OTLP over HTTP, on loopback.
	Endpoint string
	// GRPC is its URL for OTLP over gRPC.
	GRPC   string
	server *server
}

// collectorConfig has the addresses for HTTP and gRPC in the places of %q.
const collectorConfig = `receivers: {otlp: {protocols: {http: {endpoint: %q}, grpc: {endpoint: %q}}}}
exporters: {debug: {verbosity: detailed, sampling_initial: 100000}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
    metrics: {receivers: [otlp], exporters: [debug]}
`

// OpenTelemetryCollector starts a collector on a free loopback port. It ends with the
// test.
func OpenTelemetryCollector(tb testing.TB) *Collector {
	tb.Helper()
	binary, folder := require(tb, "otelcol", "otelcol"), tb.TempDir()
	port, err := freePort(tb.Context())
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	c := &Collector{GRPC: fmt.Sprintf("http://127.0.0.1:%d", port)}
	c.server, err = launch(tb, "otelcol", func(port string) []string {
		config := filepath.Join(folder, "collector.yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, collectorConfig, "127.0.0.1:"+port, strings.TrimPrefix(c.GRPC, "http://")), 0o600); err != nil {
			tb.Fatalf("peers: %v", err)
		}
		return []string{binary, "--config=file:" + config}
	}, func(ctx context.Context, endpoint string) error {
		c.Endpoint = endpoint
		var dial net.Dialer
		conn, err := dial.DialContext(ctx, "tcp", endpoint[len("http://"):])
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		tb.Fatalf("peers: start the collector: %v", err)
	}
	tb.Cleanup(func() { c.server.tell(tb) })
	return c
}

// Received returns what the collector has written about what it received.
func (c *Collector) Received(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(c.server.log)
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	return string(text)
}
