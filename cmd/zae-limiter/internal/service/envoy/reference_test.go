package envoy_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
)

// ofReference is a file of envoyproxy/ratelimit.
const ofReference = `
domain: gateway
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 10, name: base}
    descriptors:
      - key: path
        value: /slow*
        rate_limit: {unit: HOUR, requests_per_unit: 2}
  - key: tenant
    value: vip
    rate_limit: {unlimited: true}
  - key: burst
    rate_limit: {unit: second, requests_per_unit: 5, replaces: [{name: base}]}
  - key: open
    rate_limit: {unlimited: true, replaces: [{name: base}]}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: blocked
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: backend
    quota_mode: true
    metadata: {cost: {free: true}}
    rate_limit: {unit: day, requests_per_unit: 0}
    descriptors:
      - key: model
        quota_mode: true
        metadata: {route: second, pool: {b: 2, a: 3}}
        rate_limit: {unit: day, requests_per_unit: 2}
  - key: backend
    value: first
    quota_mode: true
    metadata: {route: first, pool: {a: 1}}
    rate_limit: {unit: hour, requests_per_unit: 1}
`

func inReference(t *testing.T, f func(*service)) {
	t.Helper()
	parsed, err := mapping.ParseReference(hot.Files{"limits.yaml": []byte(ofReference)})
	if err != nil {
		t.Fatal(err)
	}
	withRules(t, parsed, f)
}

// A descriptor has the limit of its last entry, for each combination of values.
func TestLimitsOfTheReference(t *testing.T) {
	inReference(t, func(s *service) {
		for _, tt := range []struct {
			d     *common.RateLimitDescriptor
			limit uint32 // 0: none
			unit  rls.RateLimitResponse_RateLimit_Unit
		}{
			{descriptor("tenant", "a"), 10, rls.RateLimitResponse_RateLimit_MINUTE},
			{descriptor("tenant", "a", "path", "/slow/1"), 2, rls.RateLimitResponse_RateLimit_HOUR},
			{descriptor("tenant", "a", "path", "/fast"), 0, 0},
			{descriptor("tenant", "a", "path", "/slow/1", "more", ""), 0, 0},
			{descriptor("tenant", "vip"), 0, 0},
			{descriptor("burst", ""), 5, rls.RateLimitResponse_RateLimit_SECOND},
			{descriptor("path", "/slow"), 0, 0},
		} {
			got := s.call(tt.d).Statuses[0]
			if l := got.CurrentLimit; tt.limit == 0 && l != nil || tt.limit != 0 && (l == nil || l.RequestsPerUnit != tt.limit || l.Unit != tt.unit || got.LimitRemaining != tt.limit-1) {
				s.Errorf("%v: %v", tt.d, got)
			}
		}
		if got := s.call(with(9, descriptor("tenant", "b"))); !got.isOK() {
			s.Errorf("another tenant: %v", got)
		}
	})
}

// Each descriptor is counted alone: one that is refused does not spare the others. Waits are exact.
func TestTheReferenceCountsAlone(t *testing.T) {
	inReference(t, func(s *service) {
		both := func() *answer {
			return s.call(descriptor("tenant", "a"), descriptor("tenant", "a", "path", "/slow"))
		}
		both()
		both()
		got := both()
		if got.isOK() || got.Statuses[0].Code != rls.RateLimitResponse_OK || got.Statuses[0].LimitRemaining != 7 || got.Statuses[1].Code != rls.RateLimitResponse_OVER_LIMIT ||
			got.header["retry-after"] != "1800" || got.header["ratelimit-policy"] != `"requests";q=2;w=3600` {
			s.Errorf("%v", got)
		}
		if got := s.call(descriptor("shadow", "x"), descriptor("shadow", "x")); !got.isOK() || s.counted("gateway", "shadow_over_limit") != 1 {
			s.Errorf("%v", got)
		}
		if got := s.call(descriptor("blocked", "x")); got.isOK() || got.header["retry-after"] != "" {
			s.Errorf("%v", got)
		}
	})
}

// A charge that is more than what is left is refused, and taken all the same: the next request waits for it.
// The debt is one capacity at most, and a refusal when nothing is left adds none (fact 11).
func TestARefusalOfTheReferenceIsNotFree(t *testing.T) {
	inReference(t, func(s *service) {
		s.call(with(6, descriptor("tenant", "a")))
		if got := s.call(with(9, descriptor("tenant", "a"))); got.isOK() { // 4 are left
			s.Errorf("%v", got)
		}
		for range 5 {
			if got := s.call(descriptor("tenant", "a")); got.isOK() || got.header["retry-after"] != "36" { // 6 of 10 a minute
				s.Errorf("%v", got)
			}
		}
		time.Sleep(36 * time.Second)
		if got := s.call(descriptor("tenant", "a")); !got.isOK() {
			s.Errorf("%v", got)
		}
		s.call(descriptor("tenant", "b"))
		s.call(with(math.MaxUint64, descriptor("tenant", "b")))
		if got := s.call(descriptor("tenant", "b")); got.header["retry-after"] != "66" { // from -10 to 1
			s.Errorf("%v", got)
		}
	})
}

// A limit replaces those that it names, and a limit in a descriptor goes before that of the file.
func TestReplacesAndOverridesOfTheReference(t *testing.T) {
	inReference(t, func(s *service) {
		for range 12 {
			if got := s.call(descriptor("tenant", "a"), with(0, descriptor("burst", "x"))); !got.isOK() || got.Statuses[0].CurrentLimit != nil {
				s.Fatalf("%v", got)
			}
		}
		limited := descriptor("tenant", "c", "unknown", "y")
		limited.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: kind.RateLimitUnit_DAY}
		if first, second := s.call(limited), s.call(limited); !first.isOK() || second.isOK() {
			s.Errorf("%v %v", first, second)
		}
	})
}

// A descriptor without a limit replaces limits, too. The proxy is told that there is no end, and the names that limits
// have in the file. Of what is refused, nothing is left.
func TestWhatAProxyIsToldOfTheReference(t *testing.T) {
	inReference(t, func(s *service) {
		for range 12 {
			got := s.call(descriptor("tenant", "a"), descriptor("open", "x"))
			if !got.isOK() || got.Statuses[0].CurrentLimit != nil || got.Statuses[1].CurrentLimit != nil || got.Statuses[1].LimitRemaining != math.MaxUint32 {
				s.Fatalf("%v", got)
			}
		}
		if n := s.counted("gateway", "unlimited"); n != 12 {
			s.Errorf("%d descriptors without a limit are counted", n)
		}
		got := s.call(with(4, descriptor("tenant", "a")), with(7, descriptor("tenant", "a")), descriptor("blocked", "x"))
		for i, want := range []*rls.RateLimitResponse_RateLimit{
			{Name: "base", RequestsPerUnit: 10, Unit: rls.RateLimitResponse_RateLimit_MINUTE},
			{Name: "base", RequestsPerUnit: 10, Unit: rls.RateLimitResponse_RateLimit_MINUTE},
			{Unit: rls.RateLimitResponse_RateLimit_DAY},
		} {
			if st := got.Statuses[i]; !proto.Equal(st.CurrentLimit, want) || st.LimitRemaining != []uint32{6, 0, 0}[i] || (st.Code == rls.RateLimitResponse_OK) != (i == 0) {
				s.Errorf("status %d: %v, want %v", i, st, want)
			}
		}
	})
}

// A call passes until all of its quotas are over. The proxy is told which are left, by their metadata. A call
// that is over all of them waits for the first one.
func TestQuotasOfTheReference(t *testing.T) {
	inReference(t, func(s *service) {
		both := []*common.RateLimitDescriptor{descriptor("backend", "first"), descriptor("backend", "second", "model", "m")}
		for _, want := range []struct {
			isOK     bool
			metadata string
			first    rls.RateLimitResponse_Code
			policy   string
		}{
			{true, `{"pool":{"a":1,"b":2},"route":"first"}`, rls.RateLimitResponse_OK, `"requests";q=1;w=3600`},
			{true, `{"pool":{"a":3,"b":2},"route":"second"}`, rls.RateLimitResponse_OVER_LIMIT, `"requests";q=2;w=86400`},
			{false, `null`, rls.RateLimitResponse_OVER_LIMIT, `"requests";q=1;w=3600`},
		} {
			got := s.call(both...)
			text, err := json.Marshal(got.GetDynamicMetadata().AsMap()["metadata"])
			if err != nil || got.isOK() != want.isOK || got.Statuses[0].Code != want.first || string(text) != want.metadata || got.header["ratelimit-policy"] != want.policy {
				s.Errorf("%s %v", text, got)
			}
			if wait := got.header["retry-after"]; want.isOK != (wait == "") || !want.isOK && wait != "3600" {
				s.Errorf("wait %q", wait)
			}
		}
		// A limit beside quotas refuses alone. A quota of 0 is over.
		if got := s.call(descriptor("blocked", "x"), descriptor("backend", "third", "model", "m")); got.isOK() || got.GetDynamicMetadata().AsMap()["metadata"] == nil {
			s.Errorf("%v", got)
		}
		if got := s.call(descriptor("backend", "fourth")); got.isOK() || got.DynamicMetadata != nil {
			s.Errorf("%v", got)
		}
		if got := s.call(descriptor("backend", "fourth"), descriptor("tenant", "a")); got.isOK() {
			s.Errorf("%v", got)
		}
		if got := s.call(descriptor("backend", "fourth"), descriptor("backend", "fifth", "model", "m")); !got.isOK() {
			s.Errorf("%v", got)
		}
	})
}

// Before there are rules, a call is not decided: the proxy does what it is told to do then.
func TestNoRulesYet(t *testing.T) {
	withRules(t, nil, func(s *service) {
		_, err := s.ShouldRateLimit(s.Context(), &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{descriptor("tenant", "a")}})
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "there are no rules yet") {
			s.Error(err)
		}
	})
}
