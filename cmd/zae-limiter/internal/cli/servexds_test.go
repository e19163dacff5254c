package cli_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// twoADay are rules of a version, in which each client has two calls a day.
func twoADay(t *testing.T, version string) *cache.Snapshot {
	t.Helper()
	s, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: {&ratelimit.RateLimitConfig{
		Name: "default/eg/http", Domain: "default/eg/http",
		Descriptors: []*ratelimit.RateLimitDescriptor{{Key: "rule-0-match-0", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: 2}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A management server says what Envoy's descriptors mean. The service is not ready before, and shows the
// version that is in use.
func TestServeByAManagementServer(t *testing.T) {
	t.Parallel()
	ours, folder := newAuthority(t), t.TempDir()
	ours.files(folder, time.Now().Add(time.Hour))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := startService(t, "127.0.0.1:0", append(flagsOf(l.Addr().String(), folder), "--xds-node", "envoy-ratelimit")...)
	var shown struct{ GRPC, Admin string }
	if err := json.Unmarshal([]byte(b.printed), &shown); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(shown.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func() (*rls.RateLimitResponse, error) {
		return rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: "default/eg/http", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "rule-0-match-0", Value: "client-1"}}}},
		})
	}
	if _, err := call(); isReady(b.url) || status.Code(err) != codes.Unavailable {
		t.Errorf("before the first rules: ready %v, %v", isReady(b.url), err)
	}
	snapshots, _ := ours.manage(l)
	if err := snapshots.SetSnapshot(t.Context(), "envoy-ratelimit", twoADay(t, "7")); err != nil {
		t.Fatal(err)
	}
	for !isReady(b.url) {
		time.Sleep(10 * time.Millisecond)
	}
	for i, want := range []rls.RateLimitResponse_Code{rls.RateLimitResponse_OK, rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT} {
		if out, err := call(); err != nil || out.GetOverallCode() != want {
			t.Errorf("call %d: %v %v", i, out, err)
		}
	}
	for path, want := range map[string]string{
		"/config": `"files":["default/eg/http"],"version":"7"`, "/metrics": "\nzae_limiter_service_config_valid 1\n",
	} {
		a, err := http.Get(shown.Admin + path) //nolint:noctx // it ends with the test
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s", path, err, text)
		}
		_ = a.Body.Close()
	}
	code, stderr := b.end()
	if code != 0 || !strings.Contains(stderr, `"msg":"in use","files":"rules","version":"7"`) || !strings.Contains(stderr, "envoyproxy/ratelimit differs") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for line := range strings.Lines(stderr) {
		if err := validate("log", []byte(line)); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}
