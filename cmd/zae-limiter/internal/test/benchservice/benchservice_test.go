//go:build conformance

// Package benchservice compares the decision service with envoyproxy/ratelimit on Redis. make benchservice
// runs it.
package benchservice_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

var (
	sliceTime = flag.Duration("service.time", 5*time.Second, "how long each side is called in a round")
	rounds    = flag.Int("service.rounds", 5, "how many rounds there are; the sides are called in turn")
	clients   = flag.Int("service.clients", 64, "how many calls are under way at the same time")
	only      = flag.String("service.only", "", "a part of the names of the sides that are called; the default is all")
	base      = flag.String("service.base", "", "a program of another build, which is measured beside this one")
	profile   = flag.String("service.profile", "", "how the names of files begin with profiles of the processor, of our sides in the first round: their numbers follow")
)

const (
	connections = 4 // as a proxy with a few threads has them
	tenants     = 1000
	batch       = 100
)

// limits are the limits that both services read.
const limits = `domain: gateway
descriptors:
  - key: tenant
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: empty
    rate_limit: {unit: day, requests_per_unit: 1}
`

// A side is a service with what its calls took.
type side struct {
	name string
	of   *service // nil if it is not ours
	pids []int
	call func(ctx context.Context, n int) error // makes the call of a client
	// decisions are how many each call asks for.
	decisions int
	// inProcess says that the call works in this process, which has no other work: by one client.
	inProcess bool
	all       []figures
}

// figures are those of a round.
type figures struct {
	rate     float64 // decisions a second
	p50, p99 float64 // of a call, ms
	cpu      float64 // of the service for each decision, in microseconds
}

// The service on its embedded engine and envoyproxy/ratelimit on Redis read one file of limits, and the same
// client calls them in turn. A floor answers the same calls at once: no service on these transports costs less.
// Figures are printed, and not asserted.
func TestServicesSideBySide(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	this, theirs := build(t), peers.StartRatelimit(t, limits)
	services := map[string]*service{"zae-limiter": serve(t, this, file, false), "zae-limiter in memory": serve(t, this, file, true)}
	if *base != "" {
		services["base"], services["base in memory"] = serve(t, *base, file, false), serve(t, *base, file, true)
	}
	one := func(addr, key string, different int) func(context.Context, int) error {
		return decideBy(t, addr, func() *rls.RateLimitRequest {
			entry := &common.RateLimitDescriptor_Entry{Key: key, Value: strconv.Itoa(rand.IntN(different))} //nolint:gosec // a load
			return &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{entry}}}}
		})
	}
	sides := []*side{
		{name: "envoyproxy/ratelimit, gRPC", pids: theirs.PIDs, call: one(theirs.Addr, "tenant", tenants), decisions: 1},
		{name: "envoyproxy/ratelimit, refused", pids: theirs.PIDs, call: one(theirs.Addr, "empty", 1), decisions: 1},
		{name: "envoyproxy/ratelimit, through Envoy", pids: theirs.PIDs, call: throughEnvoy(t, theirs.Addr), decisions: 1},
	}
	for name, of := range services {
		pids := []int{of.pid}
		sides = append(sides,
			&side{name: name + ", gRPC", of: of, pids: pids, call: one(of.grpc, "tenant", tenants), decisions: 1},
			&side{name: name + ", refused", of: of, pids: pids, call: one(of.grpc, "empty", 1), decisions: 1},
			&side{name: name + ", through Envoy", of: of, pids: pids, call: throughEnvoy(t, of.grpc), decisions: 1},
			&side{name: name + ", HTTP in batches", of: of, pids: pids, call: batchBy(of.http), decisions: batch},
		)
	}
	floor := startFloor(t)
	sides = append(sides, bareUpdate(t),
		&side{name: "floor: gRPC alone", pids: []int{floor.pid}, call: one(floor.grpc, "tenant", tenants), decisions: 1},
		&side{name: "floor: JSON in batches", pids: []int{floor.pid}, call: batchBy(floor.http), decisions: batch},
	)
	slices.SortFunc(sides, func(a, b *side) int { return strings.Compare(a.name, b.name) })
	sides = slices.DeleteFunc(sides, func(s *side) bool { return !strings.Contains(s.name, *only) })
	for _, s := range sides { // entities that are new cost more
		s.run(t, 2*time.Second)
	}
	for round := range *rounds {
		for i, s := range sides {
			if round == 0 && s.of != nil && *profile != "" {
				go s.of.profile(t, fmt.Sprint(*profile, ".", i))
			}
			s.all = append(s.all, s.run(t, *sliceTime))
		}
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "medians of %d\tdecisions/s\tp50 ms\tp99 ms\tCPU µs a decision\n", *rounds)
	for _, s := range sides {
		m := s.median()
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.1f\n", s.name, m.rate, m.p50, m.p99, m.cpu)
	}
	_ = w.Flush()
	t.Logf("\n%s", &b)
}

// A service is our service.
type service struct {
	pid               int
	http, grpc, admin string
}

// build builds the program.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "zae-limiter")
	run(t, "go", "build", "-o", program, "../../..")
	return program
}

// run runs a command to its end.
func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // of this test
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// serve starts the service of a program on a table of its own: in a directory, or in memory.
func serve(t *testing.T, program, limits string, inMemory bool) *service {
	t.Helper()
	data := ":memory:"
	if !inMemory {
		data = filepath.Join(t.TempDir(), "data")
		run(t, program, "table", "create", "--local", data)
	}
	cmd := exec.Command(program, "serve", "--local", data, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", //nolint:noctx // it ends with the test
		"--ratelimit-config", limits, "--fallback", "rpm:1000000000/min", "--output", "json", "--log-level", "error")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	var printed struct{ Endpoint, GRPC, Admin string }
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&printed); err != nil {
		t.Fatal(err)
	}
	return &service{cmd.Process.Pid, printed.Endpoint, printed.GRPC, printed.Admin}
}

// profile writes a profile of the processor.
func (s *service) profile(t *testing.T, file string) {
	t.Helper()
	a, err := http.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", s.admin, int(sliceTime.Seconds())-1)) //nolint:noctx // it ends
	if err != nil {
		t.Error(err)
		return
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// decideBy makes calls over gRPC.
func decideBy(t *testing.T, addr string, request func() *rls.RateLimitRequest) func(context.Context, int) error {
	t.Helper()
	var stubs []rls.RateLimitServiceClient
	for range connections {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		stubs = append(stubs, rls.NewRateLimitServiceClient(conn))
	}
	return func(ctx context.Context, client int) error {
		_, err := stubs[client%connections].ShouldRateLimit(ctx, request())
		return err
	}
}

// behind is a configuration of Envoy that asks a service about each request before it goes to an application.
const behind = `
static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: in
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      rate_limits: [{actions: [{request_headers: {header_name: x-tenant, descriptor_key: tenant}}]}]
                      routes: [{match: {prefix: /}, route: {cluster: app}}]
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: gateway
                      timeout: 30s
                      failure_mode_deny: true
                      rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: limits}}}
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
    - name: limits
      connect_timeout: 1s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: limits
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]
    - name: app
      connect_timeout: 1s
      load_assignment:
        cluster_name: app
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]
`

// throughEnvoy makes requests to an Envoy of its own, which asks the service at an address.
func throughEnvoy(t *testing.T, addr string) func(context.Context, int) error {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(app.Close)
	portOf := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	url := peers.StartEnvoy(t, func(port string) string { return fmt.Sprintf(behind, port, portOf(addr), portOf(app.URL)) }).Endpoint
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	return func(ctx context.Context, _ int) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		q.Header.Set("X-Tenant", strconv.Itoa(rand.IntN(tenants))) //nolint:gosec // a load
		a, err := client.Do(q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if a.StatusCode != http.StatusNoContent {
			return fmt.Errorf("Envoy answered %s", a.Status)
		}
		return nil
	}
}

// batchBy makes batches of calls over HTTP.
func batchBy(url string) func(context.Context, int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	return func(ctx context.Context, _ int) error {
		calls := make([]string, batch)
		for i := range calls {
			calls[i] = fmt.Sprintf(`{"entity_id":"key-%d","resource":"api","consume":{"rpm":1}}`, rand.IntN(tenants)) //nolint:gosec // a load
		}
		body := strings.NewReader(`{"calls":[` + strings.Join(calls, ",") + "]}")
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/batch", body)
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		a, err := client.Do(q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if n := strings.Count(string(text), `"http_status":200`); err == nil && n != batch {
			err = fmt.Errorf("%d of %d calls of a batch: %.300s", n, batch, text)
		}
		return err
	}
}

// run calls a side for a while. Calls under way at the end count.
func (s *side) run(t *testing.T, lasts time.Duration) figures {
	t.Helper()
	var all sync.WaitGroup
	times := make([][]time.Duration, *clients)
	before, begun := s.cpu(t), time.Now()
	callers := *clients
	if s.inProcess {
		callers = 1
	}
	for n := range callers {
		all.Go(func() {
			for time.Since(begun) < lasts {
				at := time.Now()
				if err := s.call(t.Context(), n); err != nil {
					t.Errorf("%s: %v", s.name, err)
					return
				}
				times[n] = append(times[n], time.Since(at))
			}
		})
	}
	all.Wait()
	took, used := time.Since(begun), s.cpu(t)-before
	calls := slices.Concat(times...)
	if len(calls) == 0 || t.Failed() {
		t.Fatalf("%s: no figures", s.name)
	}
	slices.Sort(calls)
	decisions := float64(len(calls) * s.decisions)
	return figures{
		rate: decisions / took.Seconds(), p50: calls[len(calls)/2].Seconds() * 1000, p99: calls[len(calls)*99/100].Seconds() * 1000,
		cpu: used.Seconds() * 1e6 / decisions,
	}
}

// cpu is the time that the processes of a side have used: in ticks of 10 ms, as Linux has it.
func (s *side) cpu(t *testing.T) (used time.Duration) {
	t.Helper()
	if s.inProcess {
		return ownCPU(t)
	}
	for _, pid := range s.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			used += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return used
}

func (s *side) median() figures {
	of := func(value func(figures) float64) float64 {
		values := make([]float64, len(s.all))
		for i, f := range s.all {
			values[i] = value(f)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return figures{
		of(func(f figures) float64 { return f.rate }), of(func(f figures) float64 { return f.p50 }),
		of(func(f figures) float64 { return f.p99 }), of(func(f figures) float64 { return f.cpu }),
	}
}
