package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
)

// startService runs zae-limiter serve at an address, on a table of its own in a directory.
func startService(t *testing.T, addr string, args ...string) *background {
	t.Helper()
	data := filepath.Join(t.TempDir(), "limits")
	if code, _, stderr := run(t.Context(), strings.NewReader(""), "table", "create", "--local", data); code != 0 {
		t.Fatal(stderr)
	}
	b := startServing(cli.Options{
		Getenv: func(string) string { return "" },
		Args:   append([]string{"serve", "--local", data, "--http", addr, "--output", "json"}, args...),
	})
	if b.url == "" {
		code, stderr := b.end()
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return b
}

// The process ends without a call that fails, though many clients call it: they stop once it is no
// longer ready. The limiter admits its capacity. The log has no name of a client.
func TestServeDrainsUnderLoad(t *testing.T) {
	t.Parallel()
	const capacity, clients, enough, drainWait = 100, 8, 25, time.Second
	b := startService(t, "127.0.0.1:0", "--fallback", fmt.Sprintf("rpd:%d/day", capacity), "--drain-wait", drainWait.String())
	var printed struct{ Endpoint string }
	if err := errors.Join(json.Unmarshal([]byte(b.printed), &printed), validate("serve", []byte(b.printed))); err != nil || printed.Endpoint != b.url {
		t.Errorf("%v: %s", err, b.printed)
	}
	var admitted, calls atomic.Int64
	var all, warm sync.WaitGroup
	warm.Add(clients)
	for range clients {
		all.Go(func() {
			reached := sync.OnceFunc(warm.Done)
			defer reached()
			for n := 0; ; n++ {
				looked := time.Now()
				ready := isReady(b.url)
				d, code, err := decide.Decision{}, 0, error(nil)
				if ready {
					d, code, err = acquireBy(b.url)
				}
				if !ready && n <= enough {
					t.Error("the service is not ready")
				}
				if !ready || err != nil && time.Since(looked) > drainWait { // no balancer takes as long to call
					return
				}
				if err != nil || code != http.StatusOK && code != http.StatusTooManyRequests || d.Admitted != (code == http.StatusOK) {
					t.Errorf("%d: %v", code, err)
					return
				}
				if calls.Add(1); d.Admitted {
					admitted.Add(1)
				}
				if n == enough {
					reached()
				}
			}
		})
	}
	warm.Wait()
	code, stderr := b.end()
	all.Wait()
	if code != 0 || admitted.Load() != capacity || calls.Load() < 2*capacity {
		t.Errorf("exit code %d, admitted %d of %d calls: %s", code, admitted.Load(), calls.Load(), stderr)
	}
	if strings.Contains(stderr, "client-1") || !strings.Contains(stderr, `"drained"`) {
		t.Errorf("the log: %s", stderr)
	}
	for line := range strings.Lines(stderr) {
		if err := validate("log", []byte(line)); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// A service in memory needs no table: it begins with an empty one, in the default namespace only.
func TestServeInMemory(t *testing.T) {
	t.Parallel()
	args := []string{"serve", "--local", ":memory:", "--http", "127.0.0.1:0", "--output", "json", "--drain-wait", "0s", "--fallback", "rpd:1/day"}
	for range 2 { // nothing stays
		b := startServing(cli.Options{Getenv: func(string) string { return "" }, Args: args})
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			if _, code, err := acquireBy(b.url); code != want || err != nil {
				t.Errorf("%d, %v, want %d", code, err, want)
			}
		}
		if code, stderr := b.end(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	if code, _, stderr := run(t.Context(), strings.NewReader(""), append(args, "--namespace", "tenant")...); code == 0 || !strings.Contains(stderr, "tenant") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// isReady reports whether a service says that it takes calls.
func isReady(url string) bool {
	a, err := http.Get(url + "/readyz") //nolint:noctx // the service ends
	if err != nil {
		return false
	}
	return a.Body.Close() == nil && a.StatusCode == http.StatusOK
}

func acquireBy(url string) (d decide.Decision, code int, err error) {
	const call = `{"entity_id":"client-1","resource":"gpt-4","consume":{"rpd":1}}`
	a, err := http.Post(url+"/v1/acquire", "application/json", strings.NewReader(call)) //nolint:noctx // the service ends
	if err != nil {
		return d, 0, err
	}
	text, err := io.ReadAll(a.Body)
	return d, a.StatusCode, errors.Join(err, a.Body.Close(), json.Unmarshal(text, &d))
}

// An address of other machines needs tokens, and is then served.
func TestServeNeedsTokensForOthers(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startService(t, "0.0.0.0:0", "--token-file", tokens, "--drain-wait", "0s", "--admin", "127.0.0.1:0")
	defer b.end()
	if _, code, err := acquireBy(b.url); code != http.StatusUnauthorized {
		t.Errorf("%d %v", code, err)
	}
	var shown struct{ Endpoint, Admin string }
	if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
		t.Fatal(err)
	}
	metrics, err := http.Get(shown.Admin + "/metrics") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	if text, err := io.ReadAll(metrics.Body); err != nil || !bytes.Contains(text, []byte(`zae_limiter_service_calls_total{code="401",path="/v1/acquire"} 1`)) {
		t.Errorf("%v: %s", err, text)
	}
}

// The service that finds its address taken says so, and leaves the table alone.
func TestServeAtATakenAddress(t *testing.T) {
	t.Parallel()
	b := startService(t, "127.0.0.1:0", "--drain-wait", "0s")
	defer b.end()
	data := filepath.Join(t.TempDir(), "limits")
	run(t.Context(), strings.NewReader(""), "table", "create", "--local", data)
	code, _, stderr := run(t.Context(), strings.NewReader(""), "serve", "--local", data, "--http", strings.TrimPrefix(b.url, "http://"))
	if code != 1 || !strings.Contains(stderr, "--http "+strings.TrimPrefix(b.url, "http://")) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// Envoy is served by rules in a file, and their state is shown to operators.
func TestServeEnvoy(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`domains: {gateway: [{entries: [tenant], entity: "{tenant}", resource: api, take: {rpd: hits}}]}`)
	b := startService(t, "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--config", rules, "--fallback", "rpd:5/day", "--drain-wait", "0s", "--admin", "127.0.0.1:0")
	defer b.end()
	var shown struct{ GRPC, Admin string }
	if err := errors.Join(json.Unmarshal([]byte(b.printed), &shown), validate("serve", []byte(b.printed))); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(shown.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for hits, want := range []rls.RateLimitResponse_Code{1: rls.RateLimitResponse_OK, 4: rls.RateLimitResponse_OK, 5: rls.RateLimitResponse_OVER_LIMIT} {
		if want == 0 {
			continue
		}
		out, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: "gateway", HitsAddend: uint32(hits), //nolint:gosec // it is small
			Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "tenant", Value: "client-1"}}}},
		})
		if err != nil || out.GetOverallCode() != want {
			t.Errorf("%d hits: %v %v, want %v", hits, out, err, want)
		}
	}
	for path, want := range map[string]string{"/config": `"files":["` + rules + `"]`, "/metrics": "\nzae_limiter_service_config_valid 1\n"} {
		a, err := http.Get(shown.Admin + path) //nolint:noctx // it ends with the test
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(a.Body); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: %v: %s", path, err, text)
		}
		_ = a.Body.Close()
	}
	write("domains: {gateway: [{entries: [tenant], entity: who, take: {rpd: 1}}]}")
	code, _, stderr := run(t.Context(), strings.NewReader(""), "serve", "--local", filepath.Join(filepath.Dir(rules), "none"), "--grpc", "127.0.0.1:0", "--config", rules)
	if code == 0 || !strings.Contains(stderr, rules+":1:21: domains.gateway[0].resource: this key is missing") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
