//go:build conformance

package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An Envoy is a running Envoy.
type Envoy struct {
	// Endpoint is the URL of the port of its configuration.
	Endpoint string
	server   *server
}

// Kill ends Envoy by kill -9, and waits for its end.
func (e *Envoy) Kill() { e.server.stop() }

// StartEnvoy starts Envoy with a configuration for a port of loopback. It listens there when StartEnvoy
// returns, and ends with the test.
func StartEnvoy(tb testing.TB, config func(port string) string) *Envoy {
	tb.Helper()
	e := &Envoy{}
	binary, folder := require(tb, "envoy", "bin", "envoy"), tb.TempDir()
	var err error
	e.server, err = launch(tb, "envoy", func(port string) []string {
		file := filepath.Join(folder, "envoy.yaml")
		if err := os.WriteFile(file, []byte(config(port)), 0o600); err != nil {
			tb.Fatalf("peers: %v", err)
		}
		return []string{binary, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"}
	}, func(ctx context.Context, at string) error {
		e.Endpoint = at
		return dial(ctx, strings.TrimPrefix(at, "http://"))
	})
	if err != nil {
		tb.Fatalf("peers: start Envoy: %v", err)
	}
	tb.Cleanup(func() { e.server.tell(tb) })
	return e
}

// ValidateEnvoy reports why Envoy does not take a configuration.
func ValidateEnvoy(tb testing.TB, config string) error {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatalf("peers: %v", err)
	}
	check := exec.CommandContext(tb.Context(), require(tb, "envoy", "bin", "envoy"), "--mode", "validate", "-c", file, "--use-dynamic-base-id")
	if output, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
