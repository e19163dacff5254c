package envoy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/envoy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/refusals"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/store"
)

const refusedRules = `
domains:
  gateway:
    - {entries: [tenant], entity: "{tenant}", resource: llm, take: {rpm: 1}}
    - {entries: [tenant, cost], entity: "{tenant}", resource: llm, take: {tpm: hits}}
    - {entries: [tenant, upload], entity: "{tenant}", resource: files, take: {}, slots: {inflight: 1}, lease: 1m}
    - {entries: [tenant, trial], entity: "trial-{tenant}", resource: llm, take: {rpm: 2}, shadow: true}
`

// Each refusal has an ID, in a field of the answer and as the instance of its problem. The record of the process has it
// by that ID, and by the ID of the request that the proxy sends: with the limit that refused, also where the call only asks
// whether anything is left. A limit in shadow that would refuse gets no ID of the call, and an admitted call has none.
func TestARefusalHasAnID(t *testing.T) {
	t.Parallel()
	rules, err := mapping.Parse(hot.Files{"rules.yaml": []byte(refusedRules)})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		limits := limitertest.New(t, limiter.PerDay("rpm", 1), limiter.PerDay("tpm", 10))
		if err := limits.Store.SetSlots(t.Context(), limiter.ConfigKey{}, []limiter.SlotLimit{limiter.Slots("inflight", 1)}, ""); err != nil {
			t.Fatal(err)
		}
		log := refusals.New(time.Now)
		s := envoy.New(envoy.Options{
			Limiter: limits.NewLimiter(limiter.Options{Observer: log, TokenKeys: [][]byte{[]byte(strings.Repeat("key", 12))}}),
			Rules:   func() *mapping.Rules { return rules }, Refusals: log, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		}, prometheus.NewRegistry())
		trial := descriptor("tenant", "a", "trial", "yes") // refuses in shadow, after the others
		zero := with(3, descriptor("tenant", "a", "cost", "t"))
		zero.Limit = &common.RateLimitDescriptor_RateLimitOverride{Unit: kind.RateLimitUnit_DAY}
		for _, s := range []struct{ entity, resource string }{{"off", "llm"}, {"team", store.DefaultResource}} {
			if _, err := limits.Store.SetSwitch(t.Context(), limiter.ConfigKey{Entity: s.entity, Resource: s.resource}, dynamo.Switch{Policy: store.Yes}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []store.Entity{{ID: "team"}, {ID: "member", Parent: "team", Cascade: true}} {
			if _, err := limits.Store.CreateEntity(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			entity  string // "" is a
			request string
			asks    []*common.RateLimitDescriptor
			refuses string // "" for nothing
		}{
			{"", "fits", []*common.RateLimitDescriptor{descriptor("tenant", "a"), trial}, ""},
			{"", "requests", []*common.RateLimitDescriptor{descriptor("tenant", "a"), trial}, "rpm"},
			{"", "tokens", []*common.RateLimitDescriptor{trial, with(11, descriptor("tenant", "a", "cost", "t"))}, "tpm"},
			{"", "spends", []*common.RateLimitDescriptor{with(10, descriptor("tenant", "a", "cost", "t"))}, ""},
			{"", "asks", []*common.RateLimitDescriptor{with(0, descriptor("tenant", "a", "cost", "t")), trial}, "tpm"},
			{"", "holds", []*common.RateLimitDescriptor{descriptor("tenant", "a", "upload", "f")}, ""},
			{"", "slots", []*common.RateLimitDescriptor{descriptor("tenant", "a", "upload", "f"), trial}, "inflight"},
			{"", "nothing-at-all", []*common.RateLimitDescriptor{zero, trial}, "tpm"},
			{"", "nothing-and-a-limit", []*common.RateLimitDescriptor{descriptor("tenant", "a"), zero}, "tpm"},
			{"off", "disabled", []*common.RateLimitDescriptor{descriptor("tenant", "off")}, "off"},
			{"off", "disabled-asks", []*common.RateLimitDescriptor{with(0, descriptor("tenant", "off", "cost", "t"))}, "off"},
			{"member", "parent-disabled", []*common.RateLimitDescriptor{descriptor("tenant", "member")}, "team"},
		} {
			ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-request-id", c.request))
			got, err := s.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "gateway", Descriptors: c.asks})
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			for _, h := range got.GetResponseHeadersToAdd() {
				if h.GetKey() == "x-refusal-id" {
					id = h.GetValue()
				}
			}
			if c.refuses == "" {
				if id != "" || got.GetOverallCode() != rls.RateLimitResponse_OK {
					t.Errorf("%s: %q %v", c.request, id, got)
				}
				continue
			}
			var problem struct{ Instance string }
			if err := json.Unmarshal(got.GetRawBody(), &problem); err != nil || problem.Instance != id || id == "" {
				t.Errorf("%s: the field says %q: %s", c.request, id, got.GetRawBody())
			}
			found := log.Last(refusals.Query{ID: id}, 2)
			if len(found) != 1 || found[0].Request != c.request || found[0].Entity != cmp.Or(c.entity, "a") || !refuses(&found[0], c.refuses) {
				t.Errorf("%s: %+v", c.request, found)
			}
			if !hasID(log.Last(refusals.Query{ID: c.request}, 9), id) {
				t.Errorf("%s is not found by the ID of the request", c.request)
			}
		}
		// Without a log, and without the ID of a request, calls are served.
		bare := envoy.New(envoy.Options{Limiter: limits, Rules: func() *mapping.Rules { return rules }, Logger: slog.New(slog.DiscardHandler), Now: time.Now}, prometheus.NewRegistry())
		if got, err := bare.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "gateway", Descriptors: []*common.RateLimitDescriptor{
			with(0, descriptor("tenant", "a", "cost", "t")),
		}}); err != nil || got.GetOverallCode() != rls.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%v %v", got, err)
		}
	})
}

// refuses reports whether a limit of tokens or of slots refused, or an entity that is disabled.
func refuses(r *refusals.Refusal, name string) bool {
	return r.Slots == name || r.Disabled.Entity == name && r.Disabled.Resource == "llm" || len(r.Limits) > 0 && r.Limits[0].Refused && r.Limits[0].Name == name
}

func hasID(all []refusals.Refusal, id string) bool {
	for i := range all {
		if all[i].ID == id {
			return true
		}
	}
	return false
}
