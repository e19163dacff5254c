package envoy_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

const leaseRules = `
domains:
  gateway:
    - {entries: [tenant], entity: "{tenant}", resource: llm, take: {rpm: 1}}
    - {entries: [tenant, cost=estimate], entity: "{tenant}", resource: llm, take: {tpm: hits}, lease: 10m}
    - {entries: [tenant, lease, cost=tokens], entity: "{tenant}", resource: llm, settle: {tpm: hits}}
    - {entries: [tenant, lease, cost=tools], entity: "{tenant}", resource: tools, settle: {tpm: hits}}
    - {entries: [tenant, lease, cost=done], entity: "{tenant}", resource: llm, settle: {}}
    - {entries: [team, cost=estimate], entity: "team-{team}", resource: llm, take: {tpm: hits}, lease: 10m}
    - {entries: [team, lease, cost=tokens], entity: "team-{team}", resource: llm, settle: {tpm: hits}}
`

// leased runs f with two replicas of a service that have the same key of leases. There are 60 rpm and 1,000 tpm
// a day.
func leased(t *testing.T, f func(s, replica *service)) {
	t.Helper()
	t.Parallel()
	replicated(t, leaseRules, nil, f, limiter.PerDay("rpm", 60), limiter.PerDay("tpm", 1000))
}

// replicated runs f with two replicas of a service, on a system that has limits, and slots if there are any.
func replicated(t *testing.T, text string, slots []limiter.SlotLimit, f func(s, replica *service), system ...limiter.Limit) {
	t.Helper()
	rules, err := mapping.Parse(hot.Files{"rules.yaml": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, system...)
		if len(slots) > 0 {
			if err := limits.Store.SetSlots(t.Context(), limiter.ConfigKey{}, slots, ""); err != nil {
				t.Fatal(err)
			}
		}
		replica := func() *service {
			s := &service{T: t, limits: limits, registry: prometheus.NewRegistry()}
			s.Service = envoy.New(envoy.Options{
				Limiter: limits.NewLimiter(limiter.Options{TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}}),
				Rules:   func() *mapping.Rules { return rules }, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
			}, s.registry)
			return s
		}
		f(replica(), replica())
	})
}

// lease is the lease of an answer; "" if it has none.
func (a *answer) lease() string { return a.GetDynamicMetadata().GetFields()["lease"].GetStringValue() }

// reserve calls the service as Envoy does before a request.
func (s *service) reserve(tenant string, estimate uint64) *answer {
	s.Helper()
	return s.call(descriptor("tenant", tenant), with(estimate, descriptor("tenant", tenant, "cost", "estimate")))
}

// done and tokens are the descriptors of the end of a stream: Envoy sends tokens only if they are known.
func done(tenant, lease string) *common.RateLimitDescriptor {
	return with(0, descriptor("tenant", tenant, "lease", lease, "cost", "done"))
}

func tokens(tenant, lease string, n uint64) *common.RateLimitDescriptor {
	return with(n, descriptor("tenant", tenant, "lease", lease, "cost", "tokens"))
}

func (s *service) leaves(tenant string, want int64) {
	s.Helper()
	if got := s.left(tenant, "llm", "tpm"); got != want {
		s.Errorf("%d tpm are left of %s, want %d", got, tenant, want)
	}
}

// The true count replaces the estimate, at another replica, once: whatever is said again takes nothing.
func TestALeaseIsSettledByItsToken(t *testing.T) {
	leased(t, func(s, replica *service) {
		for tenant, used := range map[string]uint64{"less": 10, "none": 0, "more": 1500} {
			got := s.reserve(tenant, 400)
			s.leaves(tenant, 600)
			for range 2 {
				if end := replica.call(tokens(tenant, got.lease(), used), done(tenant, got.lease())); !end.isOK() || end.lease() != "" {
					s.Errorf("%v", end)
				}
				s.leaves(tenant, 1000-int64(used)) //nolint:gosec // a small number
			}
			// Another count comes too late. So does one that is a week old.
			s.call(tokens(tenant, got.lease(), 77))
			time.Sleep(limiter.TokenLife + 2*time.Hour)
			before := s.left(tenant, "llm", "tpm")
			s.call(tokens(tenant, got.lease(), 78), done(tenant, got.lease()))
			s.leaves(tenant, before)
			if rpm := s.left(tenant, "llm", "rpm"); rpm != 60 {
				s.Errorf("%d rpm are left", rpm)
			}
		}
		if n := replica.counted("gateway", "settled"); n != 12 {
			s.Errorf("%d settlements are counted", n)
		}
	})
}

// Without a count, the estimate stays. The completion ends the lease.
func TestACompletionKeepsTheEstimate(t *testing.T) {
	leased(t, func(s, replica *service) {
		got := s.reserve("a", 400)
		replica.call(done("a", got.lease()))
		s.leaves("a", 600)
		replica.call(tokens("a", got.lease(), 5))
		s.leaves("a", 600)
	})
}

// A refusal has no lease, and takes nothing. The end of such a call settles nothing.
func TestARefusalHasNoLease(t *testing.T) {
	leased(t, func(s, _ *service) {
		s.reserve("a", 900)
		got := s.reserve("a", 101)
		if got.isOK() || got.DynamicMetadata != nil {
			s.Errorf("%v", got)
		}
		s.call(done("a", "none"), done("a", ""))
		s.leaves("a", 100)
		if rpm, n := s.left("a", "llm", "rpm"), s.counted("gateway", "no_lease"); rpm != 59 || n != 2 {
			s.Errorf("%d rpm are left, %d without a lease", rpm, n)
		}
	})
}

// A settlement without a lease is charged, and never free. So is one with a lease of another entity, or a changed one.
func TestWithoutALeaseTheCountIsCharged(t *testing.T) {
	leased(t, func(s, _ *service) {
		of := s.reserve("b", 100).lease()
		charged := int64(0)
		for _, lease := range []string{"", "none", of, of[:len(of)-1], of[1:], "." + of, strings.Repeat(".", 5000)} {
			s.call(tokens("a", lease, 10), done("a", lease))
			charged += 10
			s.leaves("a", 1000-charged)
			s.leaves("b", 900)
		}
		// Without a lease, two counts of one limit are both taken.
		s.call(tokens("c", "", 600), tokens("c", "", 600))
		s.leaves("c", -200)
		if n := s.counted("gateway", "charged"); n != 9 {
			s.Errorf("%d charges are counted", n)
		}
	})
}

// Limits that the lease does not have are charged beside it, unless it was settled before.
func TestWhatTheLeaseDoesNotHaveIsCharged(t *testing.T) {
	leased(t, func(s, _ *service) {
		lease := s.reserve("a", 400).lease()
		tools := with(30, descriptor("tenant", "a", "lease", lease, "cost", "tools"))
		s.call(tokens("a", lease, 100), tools)
		s.leaves("a", 900)
		if left := s.left("a", "tools", "tpm"); left != 970 {
			s.Errorf("%d of tools are left", left)
		}
		s.call(tokens("a", lease, 101), tools)
		if left := s.left("a", "tools", "tpm"); left != 970 {
			s.Errorf("a repetition has taken: %d of tools are left", left)
		}
	})
}

// Several entities have their leases in one text.
func TestLeasesOfSeveralEntities(t *testing.T) {
	leased(t, func(s, replica *service) {
		got := s.call(with(400, descriptor("tenant", "a", "cost", "estimate")), with(300, descriptor("team", "x", "cost", "estimate")))
		s.leaves("a", 600)
		s.leaves("team-x", 700)
		other := s.reserve("a", 100).lease()
		s.leaves("a", 500)
		// Two leases of one entity are two settlements, also in one call.
		s.call(tokens("a", other, 5), tokens("a", got.lease(), 10))
		s.leaves("a", 985)
		replica.call(with(20, descriptor("team", "x", "lease", got.lease(), "cost", "tokens")))
		s.leaves("a", 985)
		s.leaves("team-x", 980)
	})
}

// Many settlements of one lease at a time, from both replicas, take one count.
func TestSettlementsAtTheSameTime(t *testing.T) {
	leased(t, func(s, replica *service) {
		lease := s.reserve("a", 400).lease()
		var all sync.WaitGroup
		for i := range 16 {
			on := []*service{s, replica}[i%2]
			all.Go(func() { on.call(tokens("a", lease, uint64(100+i)), done("a", lease)) }) //nolint:gosec // a small number
		}
		all.Wait()
		if left := s.left("a", "llm", "tpm"); left < 885 || left > 900 {
			s.Errorf("%d are left", left)
		}
	})
}

// The proxy may have left when a response ends: its count is settled all the same.
func TestASettlementDoesNotNeedTheProxy(t *testing.T) {
	leased(t, func(s, _ *service) {
		lease := s.reserve("a", 400).lease()
		ctx, leave := context.WithCancel(s.Context())
		leave()
		_, _ = s.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{tokens("a", lease, 10)}})
		s.leaves("a", 990)
	})
}

// A settlement that fails takes nothing, and may be sent again.
func TestASettlementThatFails(t *testing.T) {
	leased(t, func(s, _ *service) {
		lease := s.reserve("a", 400).lease()
		s.limits.Fail(errors.New("the table is away"))
		in := &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{tokens("a", lease, 10)}}
		if got, err := s.ShouldRateLimit(s.Context(), in); err == nil {
			s.Errorf("%v", got)
		}
		s.limits.Restore()
		s.call(in.GetDescriptors()...)
		s.leaves("a", 990)
	})
}
