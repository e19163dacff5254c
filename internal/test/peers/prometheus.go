//go:build conformance

package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A Prometheus is a running Prometheus server that scrapes one target.
type Prometheus struct {
	// Endpoint is its URL, on loopback.
	Endpoint string
	server   *server
}

// scrapeConfig has the rules and the target in the place of %q.
const scrapeConfig = `global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs:
  - job_name: limiter
    scrape_timeout: 200ms
    static_configs: [{targets: [%q]}]
`

// NativeHistograms is the flag with which Prometheus stores native histograms, in place of the
// classic buckets of the same metric.
const NativeHistograms = "--enable-feature=native-histograms"

// ScrapeWithPrometheus starts a Prometheus server on a free loopback port, with a new
// database. It evaluates a file of rules, and scrapes /metrics of a target, host:port,
// five times a second. It ends with the test.
func ScrapeWithPrometheus(tb testing.TB, target, rules string, flags ...string) *Prometheus {
	tb.Helper()
	rules, err := filepath.Abs(rules)
	if err != nil {
		tb.Fatalf("peers: %v", err)
	}
	folder := tb.TempDir()
	config := filepath.Join(folder, "prometheus.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, scrapeConfig, rules, target), 0o600); err != nil {
		tb.Fatalf("peers: %v", err)
	}
	p := &Prometheus{}
	p.server, err = launch(tb, "prometheus", func(port string) []string {
		return append([]string{
			program(tb, "prometheus"), "--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(folder, "data"),
			"--web.listen-address=127.0.0.1:" + port,
		}, flags...)
	}, func(ctx context.Context, endpoint string) error {
		p.Endpoint = endpoint
		return p.get(ctx, "/-/ready", nil, nil)
	})
	if err != nil {
		tb.Fatalf("peers: start Prometheus: %v", err)
	}
	tb.Cleanup(func() { p.server.tell(tb) })
	return p
}

// A Sample is one series of the answer to a query. Its value is empty if the series is a
// native histogram.
type Sample struct {
	Metric map[string]string
	Value  []any // the time, and the value as text
}

// Query evaluates a query now.
func (p *Prometheus) Query(ctx context.Context, query string) ([]Sample, error) {
	var answer struct{ Data struct{ Result []Sample } }
	err := p.get(ctx, "/api/v1/query", url.Values{"query": {query}}, &answer)
	return answer.Data.Result, err
}

// Rules returns the health of the alert rules by name: "ok", "unknown" before the first
// evaluation, or "err".
func (p *Prometheus) Rules(ctx context.Context) (map[string]string, error) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health string }
			}
		}
	}
	health := map[string]string{}
	err := p.get(ctx, "/api/v1/rules", nil, &answer)
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			health[r.Name] = r.Health
		}
	}
	return health, err
}

// get sends a request, and decodes the answer unless into is nil.
func (p *Prometheus) get(ctx context.Context, path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Endpoint+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if answer.StatusCode != http.StatusOK {
		var failure struct{ Error string }
		_ = json.NewDecoder(answer.Body).Decode(&failure) // the status says enough
		return fmt.Errorf("%s: %s %s", path, answer.Status, failure.Error)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// Promtool runs promtool in a folder, and fails the test if promtool fails.
func Promtool(tb testing.TB, folder string, args ...string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), program(tb, "promtool"), args...)
	cmd.Dir = folder
	if output, err := cmd.CombinedOutput(); err != nil {
		tb.Errorf("promtool %v: %v\n%s", args, err, output)
	}
}

// program returns the path of an installed program, and fails the test without it.
func program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("peers: %v; install prometheus, version 2.42 or newer (Debian: prometheus)", err)
	}
	return path
}
