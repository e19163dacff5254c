package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A severable is a service with --on-unavailable share, at HTTP and for Envoy, whose table may be lost.
type severable struct {
	*testing.T

	table      faults.Slot
	url, admin string
	envoy      rls.RateLimitServiceClient
}

// An outcome is the answer to a call, whichever way it came.
type outcome struct {
	admitted bool
	degraded bool          // as the answer says; Envoy's says nothing
	wait     time.Duration // in whole seconds, as the header has it
}

// servesShares starts the service as one of two processes.
func servesShares(t *testing.T) *severable {
	t.Helper()
	s := &severable{T: t}
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	options := cli.Options{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" },
		Connect: func(context.Context, app.Endpoint) (dynamo.API, error) {
			return faults.Wrap(engine, s.table.Apply), nil
		},
	}
	create := options
	create.Args = []string{"table", "create"}
	if code := cli.Run(t.Context(), create); code != 0 {
		t.Fatalf("no table: exit code %d", code)
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(`domains: {gateway: [{entries: [tenant], entity: "{tenant}", resource: api, take: {rpd: hits}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	options.Args = []string{
		"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--config", rules, "--admin", "127.0.0.1:0", "--drain-wait", "0s",
		"--fallback", "rpd:10/day", "--on-unavailable", "share", "--processes", "2", "--output", "json",
	}
	b := startServing(options)
	t.Cleanup(func() {
		if code, stderr := b.end(); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	var shown struct{ GRPC, Admin string }
	if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
		t.Fatalf("%v: %s", err, b.printed)
	}
	conn, err := grpc.NewClient(shown.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.url, s.admin, s.envoy = b.url, shown.Admin, rls.NewRateLimitServiceClient(conn)
	return s
}

// byHTTP takes tokens of an entity by a call over HTTP.
func (s *severable) byHTTP(entity string, tokens uint32) (o outcome) {
	s.Helper()
	body := fmt.Sprintf(`{"entity_id":%q,"resource":"api","consume":{"rpd":%d}}`, entity, tokens)
	a, err := http.Post(s.url+"/v1/acquire", "application/json", strings.NewReader(body)) //nolint:noctx // the service ends
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	var d decide.Decision
	if err := errors.Join(err, a.Body.Close(), json.Unmarshal(text, &d)); err != nil || a.StatusCode != http.StatusOK && a.StatusCode != http.StatusTooManyRequests {
		s.Fatalf("%d %v: %s", a.StatusCode, err, text)
	}
	o = outcome{admitted: a.StatusCode == http.StatusOK, degraded: d.Degraded != "", wait: seconds(a.Header.Get("Retry-After"))}
	if exact := d.RetryAfter; !o.admitted && (exact == nil || o.wait-time.Duration(*exact)*time.Millisecond >= time.Second) {
		s.Errorf("a header of %v: %s", o.wait, text)
	}
	return o
}

// byEnvoy takes tokens of an entity as a proxy does.
func (s *severable) byEnvoy(entity string, tokens uint32) (o outcome) {
	s.Helper()
	out, err := s.envoy.ShouldRateLimit(s.Context(), &rls.RateLimitRequest{
		Domain: "gateway", HitsAddend: tokens,
		Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "tenant", Value: entity}}}},
	})
	if err != nil {
		s.Fatal(err)
	}
	o.admitted = out.GetOverallCode() == rls.RateLimitResponse_OK
	for _, h := range out.GetResponseHeadersToAdd() {
		if h.GetKey() == "retry-after" {
			o.wait = seconds(h.GetValue())
		}
	}
	return o
}

func seconds(header string) time.Duration {
	n, _ := strconv.Atoi(header) // 0 without one
	return time.Duration(n) * time.Second
}

// metric is the value of a series.
func (s *severable) metric(series string) (value string) {
	s.Helper()
	a, err := http.Get(s.admin + "/metrics") //nolint:noctx // the service ends
	if err != nil {
		s.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if of, is := strings.CutPrefix(line, series+" "); is {
			return strings.TrimSpace(of)
		}
	}
	return ""
}

// The service loses its table, and goes on with its share of what each limit had left. It says which
// decisions are those, and refuses with the wait of the share, which is twice that of the whole limit. Once
// the table is back, both ways see what the outage took.
func TestServeSharesInAnOutage(t *testing.T) {
	t.Parallel()
	const wholeLimit = 24 * time.Hour / 10 // for a token
	for name, take := range map[string]func(*severable, string, uint32) outcome{"HTTP": (*severable).byHTTP, "Envoy": (*severable).byEnvoy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servesShares(t)
			if got := take(s, "client-1", 2); !got.admitted || got.degraded {
				s.Fatalf("at first: %+v", got)
			}
			s.table.Set(faults.Fail(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}))
			if got := take(s, "client-1", 4); !got.admitted || got.degraded != (name == "HTTP") {
				s.Errorf("of a share of 4: %+v", got)
			}
			if got := take(s, "client-1", 1); got.admitted || got.wait <= wholeLimit || got.wait > 2*wholeLimit {
				s.Errorf("one more: %+v", got)
			}
			if away, n := s.metric("zae_limiter_store_away"), s.metric(`zae_limiter_decisions_total{resource="api",result="degraded",source="store"}`); away != "1" || n != "1" {
				s.Errorf("away %q, %q degraded decisions", away, n)
			}
			s.table.Set(nil)
			for s.metric("zae_limiter_store_away") != "0" {
				time.Sleep(10 * time.Millisecond)
			}
			if got := take(s, "client-1", 4); !got.admitted || got.degraded {
				s.Errorf("the table is back: %+v", got)
			}
			if got := take(s, "client-1", 1); got.admitted || got.wait <= 0 || got.wait > wholeLimit {
				s.Errorf("ten are taken: %+v", got)
			}
			if n := s.metric("zae_limiter_degraded_spent_tokens_total"); n != "4" {
				s.Errorf("the outage took %q", n)
			}
		})
	}
}
