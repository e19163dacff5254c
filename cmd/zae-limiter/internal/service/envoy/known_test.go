package envoy_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The metrics of envoyproxy/ratelimit have its names, keys of the files, and no values of requests.
func TestMetricsOfTheReference(t *testing.T) {
	inReference(t, func(s *service) {
		s.call(with(7, descriptor("tenant", "secret")))                             // 7 of 10
		s.call(with(2, descriptor("tenant", "secret")))                             // 9: one is near
		s.call(with(3, descriptor("tenant", "secret")))                             // one is within and near, two are over
		s.call(with(5, descriptor("tenant", "secret")))                             // all are over
		s.call(descriptor("tenant", "other"), descriptor("tenant", "vip"))          // no limit
		s.call(with(3, descriptor("tenant", "secret", "path", "/slow/secret")))     // of 2
		s.call(with(4, descriptor("shadow", "secret")), descriptor("blocked", "x")) // of 1, and 0
		s.call(with(0, descriptor("burst", "x")))
		back := with(5, descriptor("tenant", "secret"))
		back.IsNegativeHits = true
		s.call(back, descriptor("none", "secret"))
		s.limits.Fail(errors.New("the table is away"))
		if _, err := s.ShouldRateLimit(context.WithoutCancel(s.Context()), &rls.RateLimitRequest{Domain: "gateway"}); err == nil {
			s.Error("a call without descriptors")
		}
		if err := testutil.GatherAndCompare(s.registry, strings.NewReader(known),
			"ratelimit_service_rate_limit_total_hits", "ratelimit_service_rate_limit_over_limit", "ratelimit_service_rate_limit_near_limit",
			"ratelimit_service_rate_limit_within_limit", "ratelimit_service_rate_limit_shadow_mode", "ratelimit_service_total_requests",
			"ratelimit_service_should_rate_limit_error", "ratelimit_service_config_load_success", "ratelimit_service_config_load_error"); err != nil {
			s.Error(err)
		}
		if n, err := testutil.GatherAndCount(s.registry, "ratelimit_service_response_time_seconds"); err != nil || n != 1 {
			s.Errorf("%d %v", n, err)
		}
	})
}

const known = `# HELP ratelimit_service_config_load_error How often rules were not valid, or not there.
# TYPE ratelimit_service_config_load_error counter
ratelimit_service_config_load_error 2
# HELP ratelimit_service_config_load_success How often rules came into use.
# TYPE ratelimit_service_config_load_success counter
ratelimit_service_config_load_success 3
# HELP ratelimit_service_rate_limit_near_limit Hits within the limit, and above 80 % of it.
# TYPE ratelimit_service_rate_limit_near_limit counter
ratelimit_service_rate_limit_near_limit{domain="gateway",key1="blocked",key2=""} 0
ratelimit_service_rate_limit_near_limit{domain="gateway",key1="burst",key2=""} 0
ratelimit_service_rate_limit_near_limit{domain="gateway",key1="shadow",key2=""} 1
ratelimit_service_rate_limit_near_limit{domain="gateway",key1="tenant",key2=""} 2
ratelimit_service_rate_limit_near_limit{domain="gateway",key1="tenant",key2="path_/slow*"} 1
# HELP ratelimit_service_rate_limit_over_limit Hits over the limit.
# TYPE ratelimit_service_rate_limit_over_limit counter
ratelimit_service_rate_limit_over_limit{domain="gateway",key1="blocked",key2=""} 1
ratelimit_service_rate_limit_over_limit{domain="gateway",key1="burst",key2=""} 0
ratelimit_service_rate_limit_over_limit{domain="gateway",key1="shadow",key2=""} 3
ratelimit_service_rate_limit_over_limit{domain="gateway",key1="tenant",key2=""} 7
ratelimit_service_rate_limit_over_limit{domain="gateway",key1="tenant",key2="path_/slow*"} 1
# HELP ratelimit_service_rate_limit_shadow_mode Hits over a limit in shadow_mode.
# TYPE ratelimit_service_rate_limit_shadow_mode counter
ratelimit_service_rate_limit_shadow_mode{domain="gateway",key1="shadow",key2=""} 3
# HELP ratelimit_service_rate_limit_total_hits Hits of descriptors that have a limit.
# TYPE ratelimit_service_rate_limit_total_hits counter
ratelimit_service_rate_limit_total_hits{domain="gateway",key1="blocked",key2=""} 1
ratelimit_service_rate_limit_total_hits{domain="gateway",key1="burst",key2=""} 0
ratelimit_service_rate_limit_total_hits{domain="gateway",key1="shadow",key2=""} 4
ratelimit_service_rate_limit_total_hits{domain="gateway",key1="tenant",key2=""} 18
ratelimit_service_rate_limit_total_hits{domain="gateway",key1="tenant",key2="path_/slow*"} 3
# HELP ratelimit_service_rate_limit_within_limit Hits within the limit.
# TYPE ratelimit_service_rate_limit_within_limit counter
ratelimit_service_rate_limit_within_limit{domain="gateway",key1="burst",key2=""} 0
ratelimit_service_rate_limit_within_limit{domain="gateway",key1="tenant",key2=""} 10
# HELP ratelimit_service_should_rate_limit_error Calls that were not decided.
# TYPE ratelimit_service_should_rate_limit_error counter
ratelimit_service_should_rate_limit_error{err_type="service_error"} 1
# HELP ratelimit_service_total_requests Calls.
# TYPE ratelimit_service_total_requests counter
ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 10
`
