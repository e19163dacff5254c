package envoy_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// daily are limits that stay as they are while a test runs.
var daily = []limiter.Limit{limiter.PerDay("rpm", 60), limiter.PerDay("tpm", 1000)}

// fuzzed is a service for a fuzz target, with keys of leases, whose limits are those of every resource.
func fuzzed(t *testing.T, parsed *mapping.Rules, limits ...limiter.Limit) *service {
	t.Helper()
	s := &service{T: t, limits: limitertest.New(t, limits...), registry: prometheus.NewRegistry()}
	s.Service = envoy.New(envoy.Options{
		Limiter: s.limits.NewLimiter(limiter.Options{TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}}),
		Rules:   func() *mapping.Rules { return parsed }, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Known: envoy.NewKnown(func() hot.State { return hot.State{} }, s.registry),
	}, s.registry)
	return s
}

// FuzzCall sends any message. The service refuses what is no call with a code that says so, or decides it. The
// answer is a message that Envoy takes, and repeats no value of the call.
func FuzzCall(f *testing.F) {
	ours, err := mapping.Parse(hot.Files{"a.yaml": []byte(leaseRules), "b.yaml": []byte(strings.Replace(rules, "gateway", "plain", 1))})
	if err != nil {
		f.Fatal(err)
	}
	theirs, err := mapping.ParseReference(hot.Files{"a.yaml": []byte(ofReference)})
	if err != nil {
		f.Fatal(err)
	}
	limited := descriptor("tenant", "sk-0123456789abcdef", "path", "/slow")
	limited.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: kind.RateLimitUnit_MONTH}
	returned := with(7, descriptor("tenant", "a"))
	returned.IsNegativeHits = true
	for _, c := range []*rls.RateLimitRequest{
		{Domain: "gateway", HitsAddend: 3, Descriptors: []*common.RateLimitDescriptor{descriptor("tenant", "a"), with(40, descriptor("tenant", "a", "cost", "estimate")), returned}},
		{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{tokens("a", "sk-no-lease.sk-of-anybody", 1<<63), done("a", "")}},
		{Domain: "plain", Descriptors: []*common.RateLimitDescriptor{descriptor("tenant", "a", "user", "b"), with(0, descriptor("tenant", "a", "model", "\x00")), descriptor("budget", "x")}},
		{Domain: "gateway", HitsAddend: 1 << 31, Descriptors: []*common.RateLimitDescriptor{limited, descriptor("backend", "first"), descriptor("burst", "x"), descriptor("blocked", "x")}},
		{Domain: "gateway"},
		{Descriptors: []*common.RateLimitDescriptor{{}}},
	} {
		text, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text []byte, isReference bool) {
		in := &rls.RateLimitRequest{}
		if proto.Unmarshal(text, in) != nil {
			return // gRPC refuses it
		}
		parsed := ours
		if isReference {
			parsed = theirs
		}
		sent := proto.CloneOf(in)
		out, err := fuzzed(t, parsed, daily...).ShouldRateLimit(t.Context(), in)
		if !proto.Equal(sent, in) {
			t.Errorf("the call was changed: %v", in)
		}
		if err != nil {
			if code := status.Code(err); code != codes.InvalidArgument && code != codes.FailedPrecondition {
				t.Errorf("%v", err)
			}
			repeatsNothing(t, in, err.Error())
			return
		}
		if _, err := proto.Marshal(out); err != nil {
			t.Errorf("%v: %v", err, out)
		}
		if len(out.GetStatuses()) != len(in.GetDescriptors()) || (len(out.GetRawBody()) > 0) != (out.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT) {
			t.Errorf("%v", out)
		}
		for _, h := range out.GetResponseHeadersToAdd() {
			if strings.ContainsFunc(h.GetValue(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q: %q", h.GetKey(), h.GetValue())
			}
			repeatsNothing(t, in, h.GetValue())
		}
		repeatsNothing(t, in, string(out.GetRawBody()))
	})
}

// repeatsNothing checks that a text has no value of a call that could be a secret.
func repeatsNothing(t *testing.T, in *rls.RateLimitRequest, text string) {
	t.Helper()
	const secret = "sk-0123456789abcdef"
	const shortest = len("sk-012345678")
	for _, d := range in.GetDescriptors() {
		for _, e := range d.GetEntries() {
			if v := e.GetValue(); strings.Contains(v, secret[:shortest]) && strings.Contains(text, v) {
				t.Errorf("%q has %q", text, v)
			}
		}
	}
}

// FuzzLease settles with any text in place of the lease, which may have a true one in it as "$". The true count
// is charged once, whatever stands there, and the next settlement with the true lease is no error.
func FuzzLease(f *testing.F) {
	parsed, err := mapping.Parse(hot.Files{"rules.yaml": []byte(leaseRules)})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"$", "", "$.$", "x.$", ".", "$A", "A$", "....$", "AQ.AQ", strings.Repeat("A", 8000), strings.Repeat(".", 100), "ü"} {
		f.Add(seed, uint64(400), uint64(70))
		f.Add(seed, uint64(0), uint64(2000))
	}
	f.Fuzz(func(t *testing.T, text string, estimate, used uint64) {
		if !utf8.ValidString(text) {
			return // gRPC refuses it
		}
		s := fuzzed(t, parsed, daily...)
		estimate, used = estimate%1000, used%(1<<40)
		got := s.reserve("a", estimate)
		lease := got.lease()
		if lease == "" {
			t.Fatalf("%v", got)
		}
		text = strings.ReplaceAll(text, "$", lease)
		end := s.call(tokens("a", text, used))
		if !end.isOK() {
			t.Errorf("%v", end)
		}
		want := 1000 - int64(used) //nolint:gosec // a small number
		if !slices.Contains(strings.Split(text, "."), lease) {
			want -= int64(estimate) //nolint:gosec // a small number
		}
		s.leaves("a", want)
		s.call(done("a", lease))
		s.leaves("a", want)
	})
}
