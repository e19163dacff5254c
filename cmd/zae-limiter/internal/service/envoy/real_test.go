//go:build conformance

package envoy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// fence is a block of YAML of a page.
var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// examples are the blocks of YAML of a page. That on Envoy has the rules, the configuration of Envoy, a file of
// envoyproxy/ratelimit, and the examples for Istio and Envoy Gateway.
func examples(tb testing.TB, name string) (blocks []string) {
	tb.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", name))
	if err != nil {
		tb.Fatal(err)
	}
	for _, found := range fence.FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// A mesh is an application behind the real Envoy of the page, which asks a service.
type mesh struct {
	*testing.T

	envoy    atomic.Pointer[peers.Envoy] // of its present life
	start    func()                      // starts it
	limits   *limitertest.Limits
	rules    func() *mapping.Rules
	replicas []*replica
	served   atomic.Int64 // how many requests reached the application
	servedTo sync.Map     // the same by tenant, as *atomic.Int64
}

// newMesh starts a mesh whose Envoy waits so long for an answer. Its limits come back in an hour, so that
// nothing depends on how long the test takes.
func newMesh(t *testing.T, patience string, replicas int) *mesh {
	t.Helper()
	blocks := examples(t, "envoy.md")
	return meshOf(t, (*mesh).newReplica, patience, replicas, blocks[0], blocks[1])
}

// meshOf starts a mesh with replicas of a service that have rules, and a configuration of Envoy.
func meshOf(t *testing.T, newReplica func(*mesh) *replica, patience string, replicas int, rulesText, config string) *mesh {
	t.Helper()
	m := &mesh{T: t, limits: limitertest.New(t, limiter.PerHour("rpm", 5), limiter.PerHour("bytes", 1000), limiter.PerHour("tpm", 100))}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.served.Add(1)
		m.of(r.Header.Get("X-Tenant")).Add(1)
		if used := r.Header.Get("X-Use"); used != "" {
			w.Header().Set("X-Tokens-Used", used)
		}
		switch r.Header.Get("X-Fate") {
		case "fail":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "stream":
			_, _ = io.WriteString(w, "some")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(app.Close)
	rules, err := mapping.Parse(hot.Files{"rules.yaml": []byte(rulesText)})
	if err != nil {
		t.Fatal(err)
	}
	m.rules = func() *mapping.Rules { return rules }
	for range replicas {
		r := newReplica(m)
		r.start(t)
		t.Cleanup(func() { r.end(t) })
		m.replicas = append(m.replicas, r)
	}
	first := m.replicas[0].addr
	m.start = func() {
		m.envoy.Store(peers.StartEnvoy(t, func(port string) string {
			// A busy machine answers a check of health late. Envoy would send nothing for as long as a replica is unhealthy.
			return strings.NewReplacer("timeout: 0.1s", "timeout: "+patience, "timeout: 1s, interval: 2s", "timeout: 30s, interval: 0.2s",
				"interval: 2s", "interval: 0.2s", "10000", port, "9000", portOf(app.Listener.Addr()),
				"{"+endpointOf("127.0.0.1:8081")+"}", endpoints(m.replicas), "8081", first[strings.LastIndexByte(first, ':')+1:]).Replace(config)
		}))
	}
	m.start()
	return m
}

// of is how many requests of a tenant reached the application.
func (m *mesh) of(tenant string) *atomic.Int64 {
	n, _ := m.servedTo.LoadOrStore(tenant, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func portOf(a net.Addr) string { return strconv.Itoa(a.(*net.TCPAddr).Port) }

// A reply is what a client gets.
type reply struct {
	code   int
	header http.Header
	body   string
}

// post sends a request of a tenant.
func (m *mesh) post(tenant, body string, header ...string) reply {
	m.Helper()
	a, err := m.send(tenant, body, header...)
	if err != nil {
		m.Fatal(err)
	}
	return a
}

// send sends a request of a tenant to an Envoy that may be gone.
func (m *mesh) send(tenant, body string, header ...string) (to reply, err error) {
	q, err := http.NewRequestWithContext(m.Context(), http.MethodPost, m.envoy.Load().Endpoint, strings.NewReader(body))
	if err != nil {
		return to, err
	}
	q.Header.Set("X-Tenant", tenant)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return to, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return reply{a.StatusCode, a.Header, string(text)}, err
}

// ready waits until Envoy has found the service healthy: before, it answers 503.
func (m *mesh) ready() {
	m.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if a := m.post("first", ""); a.code != http.StatusServiceUnavailable {
			return
		}
	}
	m.Fatal("Envoy does not reach the service")
}

// The real Envoy, as the page configures it, shows our fields, refuses with the exact wait, takes what a
// request costs, and charges what a response says (facts 1, 2, 4, 6, 8, 9 and 11).
func TestEnvoy(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "30s", 1)
	m.ready()

	// Five requests, with fields on each.
	for left := 4; left >= 0; left-- {
		a := m.post("acme", "hello")
		limit := a.header.Values("RateLimit")
		if a.code != http.StatusOK || a.body != "hello" || len(limit) != 1 || !strings.Contains(limit[0], fmt.Sprintf(`"rpm";r=%d;`, left)) ||
			!strings.Contains(a.header.Get("RateLimit-Policy"), `"rpm";q=5;w=3600`) || a.header.Get("Retry-After") != "" {
			t.Errorf("%d %v %q", a.code, a.header, a.body)
		}
	}
	before := m.served.Load()
	a := m.post("acme", "hello", "X-Request-Id", "of-the-client")
	seconds, err := strconv.Atoi(strings.Join(a.header.Values("Retry-After"), ", "))
	if a.code != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 720 || a.header.Get("Content-Type") != "application/problem+json" ||
		a.header.Get("X-Envoy-Ratelimited") != "true" || !strings.Contains(a.body, `"violated-policies":["rpm"]`) || len(a.header.Values("RateLimit")) != 1 {
		t.Errorf("%d %v %q", a.code, a.header, a.body)
	}
	if found := m.replicas[0].refused.Last(refusals.Query{ID: a.header.Get("X-Refusal-Id")}, 2); len(found) != 1 || found[0].Entity != "acme" || found[0].Request != "of-the-client" {
		t.Errorf("the refusal %q: %+v", a.header.Get("X-Refusal-Id"), found)
	}
	if m.served.Load() != before {
		t.Error("the application got a request that was refused")
	}

	// A body costs what its header says. Without the header, the fixed number beside it counts.
	if a := m.post("large", strings.Repeat("x", 1001)); a.code != http.StatusTooManyRequests || !strings.Contains(a.body, `"bytes"`) || a.header.Get("Retry-After") != "" {
		t.Errorf("%d %q", a.code, a.body)
	}
	if left := m.left("large", "rpm"); left != 5 {
		t.Errorf("a refusal has cost requests: %d are left", left)
	}
	m.post("large", strings.Repeat("x", 600))
	if rpm, bytes := m.left("large", "rpm"), m.left("large", "bytes"); rpm != 4 || bytes < 400 || bytes > 500 {
		t.Errorf("%d rpm and %d bytes are left", rpm, bytes)
	}

	// The response says what it cost. The charge leads into debt, and the next check refuses.
	if a := m.post("llm", "", "X-Use", "250"); a.code != http.StatusOK || a.header.Get("X-Tokens-Used") != "" {
		t.Errorf("%d %v", a.code, a.header)
	}
	for until := time.Now().Add(20 * time.Second); m.left("llm", "tpm") > 0 && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		continue // Envoy does not wait for the answer to a charge
	}
	if a := m.post("llm", ""); a.code != http.StatusTooManyRequests || !strings.Contains(a.body, `"tpm"`) || a.header.Get("Retry-After") == "" {
		t.Errorf("%d tpm are left: %d %q", m.left("llm", "tpm"), a.code, a.body)
	}

	// Many at a time get what there is, and no more.
	var all sync.WaitGroup
	var admitted atomic.Int64
	for range 64 {
		all.Go(func() {
			if a := m.post("busy", ""); a.code == http.StatusOK {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if n := admitted.Load(); n != 5 {
		t.Errorf("%d of 64 were admitted", n)
	}
}

// Envoy that gets no answer in time answers itself, and has no fields of ours (fact 5).
func TestEnvoyDoesNotWait(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "0.1s", 1)
	m.ready()
	m.limits.Stall()
	defer m.limits.Restore()
	if a := m.post("late", ""); a.code != http.StatusServiceUnavailable || a.header.Get("RateLimit") != "" || a.header.Get("Retry-After") != "" {
		t.Errorf("%d %v", a.code, a.header)
	}
	if n := m.served.Load(); n > 1 { // the first one was ready
		t.Errorf("the application got %d requests", n)
	}
}

// dig is a value inside maps and lists.
func dig(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch at := step.(type) {
		case string:
			value = value.(map[string]any)[at]
		case int:
			value = value.([]any)[at]
		}
		if value == nil {
			t.Fatalf("there is no %v", path)
		}
	}
	return value
}

// The real Envoy takes the filters, rates and clusters of the examples for Istio and Envoy Gateway.
func TestEnvoyTakesTheExamples(t *testing.T) {
	t.Parallel()
	blocks := examples(t, "envoy.md")
	const istio = "outbound|8081||limits.limits.svc.cluster.local" // a cluster that Istio makes
	var parsed [5]any
	for i, block := range blocks {
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(block, istio, "limits")), &parsed[i]); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(filters, host, clusters map[string]any){
		"Istio": func(filters, host, _ map[string]any) {
			patches := dig(t, parsed[3], "spec", "configPatches").([]any)
			filters["http_filters"].([]any)[1] = dig(t, patches, 0, "patch", "value")
			host["typed_per_filter_config"] = dig(t, patches, 1, "patch", "value", "typed_per_filter_config")
		},
		"Envoy Gateway": func(filters, _, static map[string]any) {
			patches := dig(t, parsed[4], "spec", "jsonPatches").([]any)
			filters["http_filters"].([]any)[1] = dig(t, patches, 0, "operation", "value")
			static["clusters"].([]any)[0] = dig(t, patches, 1, "operation", "value")
		},
	} {
		var whole any
		if err := yaml.Unmarshal([]byte(blocks[1]), &whole); err != nil {
			t.Fatal(err)
		}
		manager := dig(t, whole, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config").(map[string]any)
		host := dig(t, manager, "route_config", "virtual_hosts", 0).(map[string]any)
		change(manager, host, dig(t, whole, "static_resources").(map[string]any))
		text, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		if err := peers.ValidateEnvoy(t, string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := peers.ValidateEnvoy(t, strings.Replace(blocks[1], "domain: gateway", "domains: gateway", 1)); err == nil {
		t.Error("Envoy takes a mistake")
	}
}

// left is the balance of a limit of a tenant.
func (m *mesh) left(tenant, limit string) int64 {
	m.Helper()
	statuses, err := m.limits.Available(m.Context(), limiter.Request{Entity: tenant, Resource: "llm", Consume: map[string]int64{limit: 0}})
	if err != nil {
		m.Fatal(err)
	}
	return statuses[0].Available
}
