//go:build conformance

package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// stream begins a request that lasts until Envoy ends it.
func (m *mesh) stream(tenant string) {
	m.Helper()
	for until := time.Now().Add(20 * time.Second); !m.begins(tenant); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			m.Fatal("Envoy does not reach the service")
		}
	}
}

// begins tries to begin such a request. It fails while Envoy has not found the service yet.
func (m *mesh) begins(tenant string) bool {
	m.Helper()
	q, err := http.NewRequestWithContext(m.Context(), http.MethodPost, m.envoy.Load().Endpoint, nil)
	if err != nil {
		m.Fatal(err)
	}
	for key, value := range map[string]string{"X-Tenant": tenant, "X-Estimate": "1", "X-Fate": "stream"} {
		q.Header.Set(key, value)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = a.Body.Close() })
	if a.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	if _, err := io.ReadFull(a.Body, make([]byte, 4)); err != nil || a.StatusCode != http.StatusOK {
		m.Fatalf("%d %v", a.StatusCode, err)
	}
	return true
}

// Envoy itself is killed under load, with streams whose ends it never tells, and comes back. No tenant is charged less than
// what the application served it, whatever was under way: overspend is 0. A kill loses the estimates of the calls that were under way, and
// no more. Streams that were lost hold their slots until the time of their leases, and then none.
func TestEnvoyIsKilled(t *testing.T) {
	t.Parallel()
	const (
		tenants, kills, streams = 100, 3, 4
		slots                   = 20
		limit, estimate, used   = 100, 30, 20
		lease                   = 10 * time.Minute
	)
	blocks := examples(t, "envoy-tokens.md")
	rules := strings.Replace(blocks[0], "lease: 10m", "slots: {inflight: 1}\n      lease: 10m", 1)
	m := meshOf(t, (*mesh).newReplica, "30s", 2, rules, reserving(t, blocks[1]))
	if err := m.limits.Store.SetSlots(t.Context(), limiter.ConfigKey{}, []limiter.SlotLimit{limiter.Slots("inflight", slots)}, ""); err != nil {
		t.Fatal(err)
	}
	m.ready()
	begun := time.Now()
	l := m.load(tenants, "X-Estimate", strconv.Itoa(estimate), "X-Use", strconv.Itoa(used))
	defer l.end()
	for n := range kills {
		for range streams {
			m.stream(fmt.Sprintf("stream-%d", n))
		}
		for before := l.calls.Load(); l.calls.Load() < before+tenants; {
			time.Sleep(10 * time.Millisecond)
		}
		m.envoy.Load().Kill()
		m.start()
		m.ready()
	}
	for l.calls.Load() < l.last.Load()+tenants*loadClients { // until every client was refused for every tenant
		time.Sleep(10 * time.Millisecond)
	}
	l.end()
	// lost is what tenants were charged beyond what the application served them.
	lost := func() (all int64) {
		back := int64(time.Since(begun)*limit/time.Hour) + 1 // came back meanwhile, at most
		for n := range tenants {
			tenant := fmt.Sprintf("tenant-%d", n)
			left := m.left(tenant, "tpm")
			over := limit - left - used*m.of(tenant).Load()
			if left < 0 || over < -back {
				t.Errorf("%s: %d were served, and %d tokens are left", tenant, m.of(tenant).Load(), left)
			}
			all += max(0, over)
		}
		return all
	}
	const most = kills * loadClients * estimate
	for until := time.Now().Add(20 * time.Second); lost() > most && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		continue // Envoy does not wait for the answer to a settlement
	}
	if n := lost(); n > most {
		t.Errorf("%d tokens are lost, want at most %d: the estimates of the calls under way", n, most)
	}
	later := m.laterBy(lease + time.Minute)
	for n := range kills {
		tenant := fmt.Sprintf("stream-%d", n)
		now, err := m.limits.Standing(t.Context(), tenant, "llm")
		if err != nil || len(now.Slots) != 1 || now.Slots[0].Held < streams {
			t.Errorf("%s before its time: %v %v", tenant, now, err)
		}
		all, err := later.Acquire(t.Context(), limiter.Request{Entity: tenant, Resource: "llm", Slots: map[string]int64{"inflight": slots}})
		if err != nil {
			t.Errorf("%s after its time: %v", tenant, err)
			continue
		}
		if err := all.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d calls, %d admitted, %d failed, %d tokens lost", l.calls.Load(), l.admitted.Load(), l.failed.Load(), lost())
}

// laterBy is a limiter on the table whose clock is so far ahead.
func (m *mesh) laterBy(d time.Duration) *limiter.Limiter {
	m.Helper()
	store, err := dynamo.Open(m.Context(), dynamo.Options{API: m.limits.Engine, Table: testbed.Table, Now: func() time.Time { return time.Now().Add(d) }})
	if err != nil {
		m.Fatal(err)
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = l.Close() })
	return l
}
