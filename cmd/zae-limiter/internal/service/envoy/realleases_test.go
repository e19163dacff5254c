//go:build conformance

package envoy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// reserving is the configuration of Envoy with the rates of the page on tokens of models.
func reserving(t *testing.T, rates string) string {
	t.Helper()
	var whole, own any
	for text, to := range map[string]*any{examples(t, "envoy.md")[1]: &whole, rates: &own} {
		if err := yaml.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	route := dig(t, whole, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config", "route_config", "virtual_hosts", 0, "routes", 0)
	dig(t, route, "typed_per_filter_config", "envoy.filters.http.ratelimit").(map[string]any)["rate_limits"] = dig(t, own, "rate_limits")
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// leaves waits until so many tokens of a tenant are left: Envoy does not wait for a settlement.
func (m *mesh) leaves(tenant string, want int64) {
	m.Helper()
	for until := time.Now().Add(20 * time.Second); m.left(tenant, "tpm") != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			m.Errorf("%d tpm are left of %s, want %d", m.left(tenant, "tpm"), tenant, want)
			return
		}
	}
}

func (m *mesh) counted(outcome string) int {
	m.Helper()
	return countedIn(m, m.replicas[0].registry, "gateway", outcome)
}

// settled waits until so many settlements were counted.
func (m *mesh) settled(outcome string, want int) {
	m.Helper()
	for until := time.Now().Add(20 * time.Second); m.counted(outcome) < want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			m.Errorf("%d are %s, want %d", m.counted(outcome), outcome, want)
			return
		}
	}
}

// The real Envoy, as the page configures it, reserves at the request, and settles by the lease at the end of
// the stream, however that ends.
func TestEnvoySettlesLeases(t *testing.T) {
	t.Parallel()
	blocks := examples(t, "envoy-tokens.md")
	m := meshOf(t, (*mesh).newReplica, "30s", 1, blocks[0], reserving(t, blocks[1]))
	m.ready()

	// The count of the response replaces the estimate, and may lead into debt.
	if a := m.post("less", "", "X-Estimate", "60", "X-Use", "10"); a.code != http.StatusOK {
		t.Errorf("%d %q", a.code, a.body)
	}
	m.leaves("less", 90)
	m.post("more", "", "X-Estimate", "60", "X-Use", "250")
	m.leaves("more", -150)
	m.post("failed", "", "X-Estimate", "60", "X-Use", "1", "X-Fate", "fail")
	m.leaves("failed", 99)

	// Without a count, the estimate stays, and the lease ends: two more descriptors are settled.
	m.settled("settled", 6)
	m.post("silent", "", "X-Estimate", "60")
	m.settled("settled", 7)
	m.leaves("silent", 40)

	// A client that hangs up in the stream.
	ctx, hangUp := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, m.envoy.Load().Endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"X-Tenant": "gone", "X-Estimate": "60", "X-Use": "20", "X-Fate": "stream"} {
		q.Header.Set(key, value)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if _, err := io.ReadFull(a.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	// While it streams, its estimate is taken: another request does not pass.
	m.leaves("gone", 40)
	without := m.counted("no_lease")
	if a := m.post("gone", "", "X-Estimate", "60", "X-Use", "60"); a.code != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.code, a.header)
	}
	m.settled("no_lease", without+1) // of the refusal
	hangUp()
	m.leaves("gone", 80)

	// Without an estimate there is no lease, and the count is charged.
	if a := m.post("plain", "", "X-Use", "30"); a.code != http.StatusOK {
		t.Errorf("%d %q", a.code, a.body)
	}
	m.leaves("plain", 70)
}
