//go:build conformance

package envoy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// scenarioFiles are files that both services read. Where a scenario has several calls, its windows are days, so
// that none ends in between.
var scenarioFiles = [...]string{`
domain: shop
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 50}}
  - {key: minute, rate_limit: {unit: MINUTE, requests_per_unit: 20}}
  - {key: hour, rate_limit: {unit: Hour, requests_per_unit: 10}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 20}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 5}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 7}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: one, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: block, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: banned, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 10, name: base}
    descriptors:
      - {key: path, value: /slow*, rate_limit: {unit: day, requests_per_unit: 2}}
      - {key: path, value: /, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: tenant, value: vip, rate_limit: {unlimited: true}}
  - {key: burst, rate_limit: {unit: day, requests_per_unit: 5, name: burst, replaces: [{name: base}]}}
  - {key: open, rate_limit: {unlimited: true, replaces: [{name: base}]}}
  - {key: first, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: last, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: apart, value: apart/*, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: detail, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: metric, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: deep, descriptors: [{key: deeper, value: b, descriptors: [{key: deepest, rate_limit: {unit: day, requests_per_unit: 2}}]}]}
  - {key: many, rate_limit: {unit: day, requests_per_unit: 100}}
`, `
domain: another
descriptors: [{key: one, rate_limit: {unit: day, requests_per_unit: 2}}]
`}

// A scenario is a call, and what envoyproxy/ratelimit answers. ours is what this service answers instead, and why says
// for which reason.
type scenario struct {
	domain, descriptors string
	hits                uint32 // of the call
	theirs, ours, why   string
}

// The reasons.
const (
	aCheck   = "a check of a limit of which nothing is left is refused: requests at once would all pass it else"
	ofQuotas = "the version of January 2026 refuses nothing by a quota; f2fb157 of July 2026 does, as this service"
)

// scenarios are those of envoyproxy/ratelimit's own tests, in our words. They run in this order.
var scenarios = []scenario{
	// Basic.
	{"foo", "hello=world", 0, "OK: OK", "", ""},
	{"shop", "unknown=x", 0, "OK: OK", "", ""},
	{"shop", "second=a", 0, "OK: OK 49/50 SECOND", "", ""},
	{"shop", "minute=a", 0, "OK: OK 19/20 MINUTE", "", ""},
	{"shop", "hour=a", 0, "OK: OK 9/10 HOUR", "", ""},
	{"shop", "week=a", 0, "OK: OK 4/5 WEEK", "", ""},
	{"shop", "month=a", 0, "OK: OK 6/7 MONTH", "", ""},
	{"shop", "year=a", 0, "OK: OK 8/9 YEAR", "", ""},
	{"shop", "one=a", 0, "OK: OK 0/1 DAY", "", ""},
	{"shop", "one=a", 0, "OVER_LIMIT: OVER_LIMIT 0/1 DAY", "", ""},
	{"shop", "one=b", 0, "OK: OK 0/1 DAY", "", ""},
	{"another", "one=a", 0, "OK: OK 1/2 DAY", "", ""},
	{"shop", "one=", 0, "OK: OK 0/1 DAY", "", ""},
	{"", "one=a", 0, "error", "", ""},
	{"shop", "", 0, "error", "", ""},
	// Several descriptors, each counted alone.
	{"shop", "day=b; one=a", 0, "OVER_LIMIT: OK 19/20 DAY; OVER_LIMIT 0/1 DAY", "", ""},
	{"shop", "day=b", 0, "OK: OK 18/20 DAY", "", ""},
	{"shop", "day=c; unknown=x; day=c", 0, "OK: OK 19/20 DAY; OK; OK 18/20 DAY", "", ""},
	{"shop", "one=c; one=c", 0, "OVER_LIMIT: OK 0/1 DAY; OVER_LIMIT 0/1 DAY", "", ""},
	// No limit, a limit of 0, shadow.
	{"shop", "free=a", 0, "OK: OK 4294967295", "", ""},
	{"shop", "block=a", 0, "OVER_LIMIT: OVER_LIMIT 0/0 DAY", "", ""},
	{"shop", "block=a#0", 0, "OVER_LIMIT: OVER_LIMIT 0/0 DAY", "", ""},
	{"shop", "shadow=a", 0, "OK: OK 0/1 DAY", "", ""},
	{"shop", "shadow=a", 0, "OK: OK 0/1 DAY", "", ""},
	{"shop", "banned=a", 0, "OK: OK 0/0 DAY", "", ""},
	{"shop", "shadow=a; one=a", 0, "OVER_LIMIT: OK 0/1 DAY; OVER_LIMIT 0/1 DAY", "", ""},
	// Nested, with values before wildcards and keys, at the depth of the file.
	{"shop", "tenant=a", 0, "OK: OK 9/10 DAY base", "", ""},
	{"shop", "tenant=vip", 0, "OK: OK 4294967295", "", ""},
	{"shop", "tenant=a, path=/slow/1", 0, "OK: OK 1/2 DAY", "", ""},
	{"shop", "tenant=a, path=/slow/2", 0, "OK: OK 1/2 DAY", "", ""},
	{"shop", "tenant=b, path=/slow/1", 0, "OK: OK 1/2 DAY", "", ""},
	{"shop", "tenant=a, path=/", 0, "OK: OK 2/3 DAY", "", ""},
	{"shop", "tenant=a, path=/fast", 0, "OK: OK", "", ""},
	{"shop", "tenant=a, path=/, more=x", 0, "OK: OK", "", ""},
	{"shop", "path=/", 0, "OK: OK", "", ""},
	{"shop", "deep=a", 0, "OK: OK", "", ""},
	{"shop", "deep=a, deeper=b, deepest=c", 0, "OK: OK 1/2 DAY", "", ""},
	{"shop", "deep=a, deeper=c, deepest=c", 0, "OK: OK", "", ""},
	// Replaces.
	{"shop", "tenant=r; burst=r", 0, "OK: OK; OK 4/5 DAY burst", "", ""},
	{"shop", "open=r; tenant=r", 0, "OK: OK 4294967295; OK", "", ""},
	{"shop", "tenant=r", 0, "OK: OK 9/10 DAY base", "", ""},
	// Wildcards that share a limit, and metrics.
	{"shop", "files=files/a.pdf", 0, "OK: OK 2/3 DAY", "", ""},
	{"shop", "files=files/b.csv", 0, "OK: OK 1/3 DAY", "", ""},
	{"shop", "apart=apart/a.pdf", 0, "OK: OK 2/3 DAY", "", ""},
	{"shop", "apart=apart/b.csv", 0, "OK: OK 2/3 DAY", "", ""},
	{"shop", "detail=a", 0, "OK: OK 1/2 DAY", "", ""},
	{"shop", "metric=a", 0, "OK: OK 1/2 DAY", "", ""},
	// Hits of the call and of descriptors. 0 of a descriptor takes nothing.
	{"shop", "many=a", 30, "OK: OK 70/100 DAY", "", ""},
	{"shop", "many=a#20; many=a", 2, "OK: OK 50/100 DAY; OK 48/100 DAY", "", ""},
	{"shop", "many=a#0", 7, "OK: OK 48/100 DAY", "", ""},
	{"shop", "many=a#49", 0, "OVER_LIMIT: OVER_LIMIT 0/100 DAY", "", ""},
	{"shop", "many=a", 0, "OVER_LIMIT: OVER_LIMIT 0/100 DAY", "", ""},
	{"shop", "many=b#100", 0, "OK: OK 0/100 DAY", "", ""},
	{"shop", "many=b#0", 0, "OK: OK 0/100 DAY", "OVER_LIMIT: OVER_LIMIT 0/100 DAY", aCheck},
	{"shop", "many=c#101", 0, "OVER_LIMIT: OVER_LIMIT 0/100 DAY", "", ""},
	// Limits in descriptors.
	{"shop", "tenant=o@3 HOUR", 0, "OK: OK 2/3 HOUR", "", ""},
	{"shop", "unknown=o@3 DAY", 0, "OK: OK 2/3 DAY", "", ""},
	{"shop", "one=o@0 DAY", 0, "OVER_LIMIT: OVER_LIMIT 0/0 DAY", "", ""},
	{"foo", "unknown=o@3 DAY", 0, "OK: OK", "", ""},
	// Quotas: a call is over its limit when all of them are.
	{"shop", "first=a; last=a", 0, "OK: OK 0/1 DAY; OK 1/2 DAY", "", ""},
	{"shop", "first=a; last=a", 0, "OK: OK 0/1 DAY; OK 0/2 DAY", "OK: OVER_LIMIT 0/1 DAY; OK 0/2 DAY", ofQuotas},
	{"shop", "first=a; last=a", 0, "OK: OK 0/1 DAY; OK 0/2 DAY", "OVER_LIMIT: OVER_LIMIT 0/1 DAY; OVER_LIMIT 0/2 DAY", ofQuotas},
	{"shop", "first=a; day=d", 0, "OK: OK 0/1 DAY; OK 19/20 DAY", "OVER_LIMIT: OVER_LIMIT 0/1 DAY; OK 19/20 DAY", ofQuotas},
}

// The scenarios of envoyproxy/ratelimit, by that service with Redis and by this one, on the same files.
func TestScenariosOfTheReference(t *testing.T) {
	theirs := peers.StartRatelimit(t, scenarioFiles[:]...)
	conn, err := grpc.NewClient("passthrough:"+theirs.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, tt := range scenarios {
		if got := tt.call(t, rls.NewRateLimitServiceClient(conn).ShouldRateLimit); got != tt.theirs {
			t.Errorf("%s %q: envoyproxy/ratelimit says\n%s, not\n%s", tt.domain, tt.descriptors, got, tt.theirs)
		}
	}
	files := hot.Files{}
	for i, text := range scenarioFiles {
		files[fmt.Sprintf("limits-%d.yaml", i)] = []byte(text)
	}
	parsed, err := mapping.ParseReference(files)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := fuzzed(t, parsed)
		for _, tt := range scenarios {
			want := tt.theirs
			if tt.why != "" {
				want = tt.ours
			}
			got := tt.call(t, func(ctx context.Context, in *rls.RateLimitRequest, _ ...grpc.CallOption) (*rls.RateLimitResponse, error) {
				return s.ShouldRateLimit(ctx, in)
			})
			if got != want {
				t.Errorf("%s %q: this service says\n%s, not\n%s %s", tt.domain, tt.descriptors, got, want, tt.why)
			}
			if tt.why != "" && got == tt.theirs {
				t.Errorf("%s %q: both services say %s", tt.domain, tt.descriptors, got)
			}
		}
	})
}

// call makes the call of a scenario, and returns the answer as a text.
func (s *scenario) call(t *testing.T, ask func(context.Context, *rls.RateLimitRequest, ...grpc.CallOption) (*rls.RateLimitResponse, error)) string {
	t.Helper()
	in := &rls.RateLimitRequest{Domain: s.domain, HitsAddend: s.hits}
	for text := range strings.SplitSeq(s.descriptors, "; ") {
		if text != "" {
			in.Descriptors = append(in.Descriptors, describe(t, text))
		}
	}
	out, err := ask(t.Context(), in)
	if err != nil {
		return "error"
	}
	var all []string
	for _, st := range out.GetStatuses() {
		text := st.GetCode().String()
		switch l := st.GetCurrentLimit(); {
		case l != nil:
			text = strings.TrimSpace(fmt.Sprintf("%s %d/%d %s %s", text, st.GetLimitRemaining(), l.GetRequestsPerUnit(), l.GetUnit(), l.GetName()))
		case st.GetLimitRemaining() > 0:
			text = fmt.Sprintf("%s %d", text, st.GetLimitRemaining())
		}
		all = append(all, text)
	}
	return out.GetOverallCode().String() + ": " + strings.Join(all, "; ")
}

// describe reads a descriptor: pairs of key=value, and #HITS or @LIMIT UNIT at the end.
func describe(t *testing.T, text string) *common.RateLimitDescriptor {
	t.Helper()
	text, limit, isLimited := strings.Cut(text, "@")
	text, hits, hasHits := strings.Cut(text, "#")
	var pairs []string
	for pair := range strings.SplitSeq(text, ", ") {
		key, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, key, value)
	}
	d := descriptor(pairs...)
	if hasHits {
		var n uint64
		if _, err := fmt.Sscan(hits, &n); err != nil {
			t.Fatal(err)
		}
		with(n, d)
	}
	if isLimited {
		var unit string
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{}
		if _, err := fmt.Sscan(limit, &d.Limit.RequestsPerUnit, &unit); err != nil {
			t.Fatal(err)
		}
		d.Limit.Unit = kind.RateLimitUnit(kind.RateLimitUnit_value[unit])
	}
	return d
}
