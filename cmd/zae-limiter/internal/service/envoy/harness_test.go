package envoy_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/decide"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/store"
)

// rules are those of the tests.
const rules = `
domains:
  gateway:
    - {entries: [tenant], entity: "{tenant}", resource: api, take: {rpm: hits}}
    - {entries: [tenant, calls], entity: "{tenant}", resource: api, take: {rpm: 1, tpm: hits}}
    - {entries: [tenant, model], entity: "{tenant}", resource: "{model}", take: {tpm: hits}}
    - {entries: [tenant, settle=tokens], entity: "{tenant}", resource: api, charge: {tpm: hits}}
    - {entries: [tenant, shadow=yes], entity: "{tenant}", resource: api, take: {rpm: hits}, shadow: true}
    - {entries: [budget], entity: "{budget}", resource: api, take: {micros: hits}}
    - {entries: [tenant, user], entity: "{tenant}_{user}", resource: api, take: {rpm: hits}}
`

// A service is a service on a limiter of its own, whose limits are those of every resource.
type service struct {
	*testing.T
	*envoy.Service

	limits   *limitertest.Limits
	registry *prometheus.Registry
}

// inBubble runs f with a service in a bubble. If they are nil, there are 60 rpm and 1,000 tpm.
func inBubble(t *testing.T, f func(*service), limits ...limiter.Limit) {
	t.Helper()
	parsed, err := mapping.Parse(hot.Files{"rules.yaml": []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	if limits == nil {
		limits = []limiter.Limit{limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 1000)}
	}
	withRules(t, parsed, f, limits...)
}

// withRules runs f with a service that has other rules.
func withRules(t *testing.T, parsed *mapping.Rules, f func(*service), limits ...limiter.Limit) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{T: t, limits: limitertest.New(t, limits...), registry: prometheus.NewRegistry()}
		s.Service = envoy.New(envoy.Options{
			Limiter: s.limits, Policy: decide.Policy{}, Rules: func() *mapping.Rules { return parsed }, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
			Known: envoy.NewKnown(func() hot.State { return hot.State{Loads: 3, Failures: 2} }, s.registry),
		}, s.registry)
		f(s)
	})
}

// descriptor is a descriptor of pairs of keys and values.
func descriptor(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// with is a descriptor with hits of its own.
func with(hits uint64, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// An answer is what Envoy gets.
type answer struct {
	*rls.RateLimitResponse

	header map[string]string
}

func (a *answer) isOK() bool { return a.OverallCode == rls.RateLimitResponse_OK }

// call calls the service.
func (s *service) call(descriptors ...*common.RateLimitDescriptor) *answer {
	s.Helper()
	return s.send(&rls.RateLimitRequest{Domain: "gateway", Descriptors: descriptors})
}

func (s *service) send(in *rls.RateLimitRequest) *answer {
	s.Helper()
	out, err := s.ShouldRateLimit(s.Context(), in)
	if err != nil {
		s.Fatal(err)
	}
	a := &answer{out, map[string]string{}}
	for _, h := range out.GetResponseHeadersToAdd() {
		if _, isThere := a.header[h.GetKey()]; isThere {
			s.Errorf("the header %s is there twice", h.GetKey())
		}
		a.header[h.GetKey()] = h.GetValue()
	}
	if len(out.GetStatuses()) != len(in.GetDescriptors()) {
		s.Errorf("%d statuses for %d descriptors", len(out.GetStatuses()), len(in.GetDescriptors()))
	}
	return a
}

// left is the balance of a limit.
func (s *service) left(entity, resource, limit string) int64 {
	s.Helper()
	statuses, err := s.limits.Available(s.Context(), limiter.Request{Entity: entity, Resource: resource, Consume: map[string]int64{limit: 0}})
	if err != nil {
		s.Fatal(err)
	}
	return statuses[0].Available
}

// counted is how many descriptors of a domain had an outcome.
func (s *service) counted(domain, outcome string) int {
	s.Helper()
	return countedIn(s, s.registry, domain, outcome)
}

func countedIn(tb testing.TB, registry *prometheus.Registry, domain, outcome string) int {
	tb.Helper()
	all, err := registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() != "zae_limiter_service_descriptors_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if l := m.GetLabel(); l[0].GetValue() == domain && l[1].GetValue() == outcome {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// disable disables a resource of an entity.
func (s *service) disable(entity, resource string) {
	s.Helper()
	to := dynamo.Switch{Policy: store.Yes}
	if _, err := s.limits.Store.SetSwitch(s.Context(), store.ConfigKey{Entity: entity, Resource: resource}, to, nil); err != nil {
		s.Fatal(err)
	}
}
