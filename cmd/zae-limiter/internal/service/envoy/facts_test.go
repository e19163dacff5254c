package envoy_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
)

// Envoy cuts off what is less than a second, so waits are rounded up.
func TestWaitsAreRoundedUp(t *testing.T) {
	inBubble(t, func(s *service) {
		s.call(with(60, descriptor("tenant", "a")))
		time.Sleep(500 * time.Millisecond)
		got := s.call(with(3, descriptor("tenant", "a"))) // in 2.5 s
		if got.isOK() || got.header["retry-after"] != "3" || got.Statuses[0].DurationUntilReset.AsDuration() != 3*time.Second {
			s.Errorf("%v", got)
		}
		time.Sleep(2499 * time.Millisecond)
		if got := s.call(with(3, descriptor("tenant", "a"))); got.isOK() {
			s.Error("admitted too early")
		}
		time.Sleep(time.Millisecond)
		if got := s.call(with(3, descriptor("tenant", "a"))); !got.isOK() || got.header["retry-after"] != "" {
			s.Errorf("refused after the wait: %v", got)
		}
	})
}

// What Envoy's own headers cannot say is in RateLimit and RateLimit-Policy, whatever the code. A 429 has a
// body, without which Envoy drops the media type.
func TestHeadersAndBody(t *testing.T) {
	inBubble(t, func(s *service) {
		policy := `"rpm";q=60;w=60;zae-burst=90`
		got := s.call(descriptor("tenant", "secret-1"))
		if !got.isOK() || got.header["ratelimit-policy"] != policy || got.header["ratelimit"] != `"rpm";r=89;t=1` || len(got.RawBody) > 0 || got.header["content-type"] != "" {
			s.Errorf("%v", got)
		}
		if l := got.Statuses[0].CurrentLimit; l.Name != "rpm" || l.RequestsPerUnit != 60 || l.Unit != rls.RateLimitResponse_RateLimit_MINUTE || got.Statuses[0].LimitRemaining != 89 {
			s.Errorf("%v", got.Statuses)
		}
		got = s.call(with(90, descriptor("tenant", "secret-1")))
		var p struct {
			Status   int
			Type     string
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal(got.RawBody, &p); err != nil || p.Status != 429 || len(p.Violated) != 1 || p.Violated[0] != "rpm" {
			s.Errorf("%v: %s", err, got.RawBody)
		}
		if got.header["ratelimit-policy"] != policy || got.header["ratelimit"] != `"rpm";r=89;t=1` || got.header["content-type"] != "application/problem+json" {
			s.Errorf("%v", got)
		}
		if strings.Contains(string(got.RawBody), "secret-1") {
			s.Errorf("the client is told the name of its entity: %s", got.RawBody)
		}
	}, limiter.PerMinute("rpm", 60, limiter.Burst(90)))
}

// A limit whose name an earlier one has is told in the body of a refusal, and in no field.
func TestLimitsOfOneName(t *testing.T) {
	parsed, err := mapping.Parse(hot.Files{"rules.yaml": []byte(`
domains:
  gateway:
    - {entries: [r1], entity: "{r1}", resource: r1, take: {rpm: hits}}
    - {entries: [r2], entity: "{r2}", resource: r2, take: {rpm: hits}}
    - {entries: [r3], entity: "{r3}", resource: r3, take: {tpm: hits}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	withRules(t, parsed, func(s *service) {
		s.call(with(60, descriptor("r2", "a")))
		got := s.call(descriptor("r1", "a"), descriptor("r2", "a"), descriptor("r3", "a"))
		var p struct {
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal(got.RawBody, &p); err != nil || !slices.Equal(p.Violated, []string{"rpm"}) {
			s.Errorf("%v: %s", err, got.RawBody)
		}
		if fields := got.header["ratelimit"]; !strings.HasPrefix(fields, `"rpm";r=60`) || strings.Count(fields, "rpm") != 1 || strings.Count(fields, "tpm") != 1 {
			s.Errorf("%q", fields)
		}
	}, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 1000))
}

// Descriptors of one bucket are one request, and each is told its own limit, also if that of the other one is tighter.
func TestDescriptorsOfOneBucket(t *testing.T) {
	inBubble(t, func(s *service) {
		got := s.call(descriptor("tenant", "a"), with(900, descriptor("tenant", "a", "model", "api")))
		if rpm, tpm := got.Statuses[0].CurrentLimit.Name, got.Statuses[1].CurrentLimit.Name; rpm != "rpm" || tpm != "tpm" {
			s.Errorf("told %s and %s", rpm, tpm)
		}
		if rpm, tpm := s.left("a", "api", "rpm"), s.left("a", "api", "tpm"); rpm != 59 || tpm != 100 {
			s.Errorf("%d and %d are left", rpm, tpm)
		}
	})
}

// Numbers of 32 bits stop at the largest one.
func TestNumbersSaturate(t *testing.T) {
	inBubble(t, func(s *service) {
		got := s.call(with(1_000_000_000, descriptor("budget", "a")))
		if st := got.Statuses[0]; !got.isOK() || st.CurrentLimit.RequestsPerUnit != math.MaxUint32 || st.LimitRemaining != math.MaxUint32 {
			s.Errorf("%v", got)
		}
		if left := s.left("a", "api", "micros"); left != 9_000_000_000 {
			s.Errorf("%d are left", left)
		}
		if got := s.call(with(math.MaxUint64, descriptor("budget", "a"))); got.isOK() || got.header["retry-after"] != "" || got.Statuses[0].DurationUntilReset != nil {
			s.Errorf("2^64-1 hits: %v", got)
		}
	}, limiter.PerDay("micros", 10_000_000_000))
}

// Zero hits of a descriptor ask whether anything is left, and take nothing. Zero hits of the call are not
// set: 1. A descriptor's hits go before those of the call.
func TestChecksAndHits(t *testing.T) {
	inBubble(t, func(s *service) {
		call := func(hits uint32, d *common.RateLimitDescriptor) *answer {
			return s.send(&rls.RateLimitRequest{Domain: "gateway", HitsAddend: hits, Descriptors: []*common.RateLimitDescriptor{d}})
		}
		left := func(want int64) {
			s.Helper()
			if got := s.left("a", "api", "rpm"); got != want {
				s.Errorf("%d are left, want %d", got, want)
			}
		}
		call(0, descriptor("tenant", "a"))
		left(59)
		call(9, descriptor("tenant", "a"))
		left(50)
		call(9, with(49, descriptor("tenant", "a")))
		left(1)
		if got := call(9, with(0, descriptor("tenant", "a"))); !got.isOK() {
			s.Errorf("a check of 1 that is left: %v", got)
		}
		left(1)
		call(0, descriptor("tenant", "a"))
		if got := call(9, with(0, descriptor("tenant", "a"))); got.isOK() || got.header["retry-after"] != "1" {
			s.Errorf("a check of nothing: %v", got)
		}
		// Nothing is taken beside a check that is refused.
		got := s.call(with(7, descriptor("tenant", "a", "model", "m")), with(0, descriptor("tenant", "a")))
		if got.isOK() || s.left("a", "m", "tpm") != 1000 || got.Statuses[0].Code != rls.RateLimitResponse_OK || got.Statuses[1].Code != rls.RateLimitResponse_OVER_LIMIT {
			s.Errorf("a check beside a take: %v", got)
		}
		left(0)
	})
}

// Negative hits are there again at once, also after a refusal.
func TestReturnsAreSeenAtOnce(t *testing.T) {
	inBubble(t, func(s *service) {
		s.call(with(60, descriptor("tenant", "a")))
		if got := s.call(descriptor("tenant", "a")); got.isOK() {
			s.Errorf("%v", got)
		}
		back := with(5, descriptor("tenant", "a"))
		back.IsNegativeHits = true
		if got := s.call(back); !got.isOK() {
			s.Errorf("%v", got)
		}
		if got := s.call(with(5, descriptor("tenant", "a"))); !got.isOK() {
			s.Errorf("what was returned is not there: %v", got)
		}
		if got := s.call(descriptor("tenant", "a")); got.isOK() {
			s.Errorf("more is there than was returned: %v", got)
		}
		// A return is of hits: the call itself was made.
		back = with(5, descriptor("tenant", "b", "calls", "x"))
		s.call(with(100, descriptor("tenant", "b", "calls", "x")))
		back.IsNegativeHits = true
		s.call(back)
		if rpm, tpm := s.left("b", "api", "rpm"), s.left("b", "api", "tpm"); rpm != 59 || tpm != 905 {
			s.Errorf("%d rpm and %d tpm are left", rpm, tpm)
		}
	})
}

// A limit in a descriptor holds where none is configured. A unit that is none is an error, and a limit of 0
// admits nothing.
func TestOverrides(t *testing.T) {
	inBubble(t, func(s *service) {
		limited := func(n uint32, unit kind.RateLimitUnit) *common.RateLimitDescriptor {
			d := descriptor("tenant", "a")
			d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
			return d
		}
		for _, want := range []bool{true, true, false} {
			if got := s.call(limited(2, kind.RateLimitUnit_HOUR)); got.isOK() != want || got.Statuses[0].CurrentLimit.Unit != rls.RateLimitResponse_RateLimit_HOUR {
				s.Errorf("%v", got)
			}
		}
		if got := s.call(limited(0, kind.RateLimitUnit_HOUR)); got.isOK() || got.header["retry-after"] != "" || len(got.RawBody) == 0 {
			s.Errorf("a limit of 0: %v", got)
		}
		_, err := s.ShouldRateLimit(s.Context(), &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{limited(1, 0)}})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "descriptors[0].limit") {
			s.Errorf("a unit that is none: %v", err)
		}
	}, []limiter.Limit{}...)
}

// Values that are joined do not make the name of others.
func TestNamesDoNotCollide(t *testing.T) {
	inBubble(t, func(s *service) {
		s.call(with(60, descriptor("tenant", "x_y", "user", "z")))
		if got := s.call(with(60, descriptor("tenant", "x", "user", "y_z"))); !got.isOK() {
			s.Errorf("one pays for the other: %v", got)
		}
		for _, d := range []*common.RateLimitDescriptor{descriptor("tenant", "x_y", "user", "z"), descriptor("tenant", "x", "user", "y_z")} {
			if got := s.call(d); got.isOK() {
				s.Errorf("%v: %v", d, got)
			}
		}
	})
}

// A charge after the response is never free: what it takes is taken, into debt, also in a call that is
// refused.
func TestChargesAreNeverFree(t *testing.T) {
	inBubble(t, func(s *service) {
		s.call(with(960, descriptor("tenant", "a", "model", "api")))
		charge := func(hits uint64) *common.RateLimitDescriptor {
			return with(hits, descriptor("tenant", "a", "settle", "tokens"))
		}
		if got := s.call(charge(60)); !got.isOK() || s.left("a", "api", "tpm") != -20 {
			s.Errorf("%d are left: %v", s.left("a", "api", "tpm"), got)
		}
		if got := s.call(charge(30), charge(0), descriptor("tenant", "a", "model", "api")); got.isOK() || s.left("a", "api", "tpm") != -50 {
			s.Errorf("beside a take that is refused: %d are left: %v", s.left("a", "api", "tpm"), got)
		}
		if got := s.call(with(0, descriptor("tenant", "a", "model", "api"))); got.isOK() || got.header["retry-after"] != "4" { // 51 of 1,000 a minute
			s.Errorf("a check in debt: %v", got)
		}
		if n := s.counted("gateway", "charged"); n != 3 {
			s.Errorf("%d charges are counted", n)
		}
	})
}

// Values that no name can have are counted under a hash.
func TestLongValues(t *testing.T) {
	inBubble(t, func(s *service) {
		long := strings.Repeat("x", 8000)
		for _, value := range []string{long, long + "y", "", "ä\x00\n", "auth0|5f7c"} {
			s.call(with(60, descriptor("tenant", value, "user", "z")))
			for _, d := range []*common.RateLimitDescriptor{descriptor("tenant", value, "user", "z"), with(1000, descriptor("tenant", value, "model", value))} {
				if got := s.call(d); got.isOK() != (len(d.GetEntries()) == 2 && d.GetEntries()[1].GetKey() == "model") {
					s.Errorf("%.20q: %v", value, got)
				}
			}
		}
		if s.left(limiter.EncodeName("auth0|5f7c")+"_z", "api", "rpm") != 0 {
			s.Error("a name that can be encoded has a hash")
		}
	})
}

// A shadow refuses nobody, and is counted.
func TestShadows(t *testing.T) {
	inBubble(t, func(s *service) {
		for range 3 {
			if got := s.call(with(40, descriptor("tenant", "a", "shadow", "yes"))); !got.isOK() || got.Statuses[0].Code != rls.RateLimitResponse_OK || got.header["ratelimit"] != "" {
				s.Errorf("%v", got)
			}
		}
		if over, admitted := s.counted("gateway", "shadow_over_limit"), s.counted("gateway", "shadow_ok"); over != 2 || admitted != 1 {
			s.Errorf("%d over, %d admitted", over, admitted)
		}
		s.limits.Fail(errors.New("the table is away"))
		if got := s.call(with(1, descriptor("tenant", "b", "shadow", "yes"))); !got.isOK() || s.counted("gateway", "failed") != 1 {
			s.Errorf("a shadow that fails: %v", got)
		}
	})
}
