package mapping_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/store"
)

// messages reads messages in JSON.
func messages(tb testing.TB, text string) (all []*ratelimit.RateLimitConfig) {
	tb.Helper()
	var parts []json.RawMessage
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		tb.Fatal(err)
	}
	for _, part := range parts {
		m := &ratelimit.RateLimitConfig{}
		if err := protojson.Unmarshal(part, m); err != nil {
			tb.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func golden(tb testing.TB, name string) []*ratelimit.RateLimitConfig {
	tb.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		tb.Fatal(err)
	}
	return messages(tb, string(text))
}

// The messages that Envoy Gateway and the AI gateway make of policies have the limits of the policies, for the
// descriptors that their proxies then send.
func TestWhatGatewaysSend(t *testing.T) {
	t.Parallel()
	const route = "httproute/default/shop/rule/0/match/0/www_example_com"
	const openai, model = "default/openai", "model_name_override"
	for _, tt := range []struct {
		file, domain string
		entries      []mapping.Entry
		capacity     int64 // 0: no limit
		period       time.Duration
		mode         mapping.Mode
		quota        bool
	}{
		{"envoy-gateway", "default/eg/http", entries(route, route, "rule-0-match-0", "client-b"), 10, time.Minute, mapping.Take, false},
		{"envoy-gateway", "default/eg/http", entries(route, route, "rule-0-match-0", "client-a"), 15, time.Minute, mapping.Take, false},
		{"envoy-gateway", "default/eg/http", entries(route, route, "rule-1-match-0", "rule-1-match-0", "rule-1-match-1", "rule-1-match-1", "masked_remote_address", "192.168.0.0/16", "remote_address", "192.168.0.7"), 5, time.Second, mapping.Shadow, false},
		{"envoy-gateway", "default/eg/http", entries(route, route, "rule-1-match-0", "rule-1-match-0", "rule-1-match-1", "rule-1-match-1", "masked_remote_address", "10.0.0.0/16", "remote_address", "10.0.0.7"), 0, 0, 0, false},
		{"envoy-gateway", "default/eg/http", entries(route, route, "rule-2-match--1", "rule-2-match--1"), 1000, 30 * 24 * time.Hour, mapping.Take, false},
		{"envoy-gateway", "default/tokens", entries("default/tokens/rule/by-user", "default/tokens/rule/by-user", "rule-match-0", "ann"), 1<<32 - 1, time.Hour, mapping.Take, false},
		{"envoy-gateway", "default/eg/https", entries(route, route, "rule-2-match--1", "rule-2-match--1"), 0, 0, 0, false},
		{"ai-gateway", "ai-gateway-quota", entries("backend_name", openai, model, "gpt-4", "rule-0-x-client-id|premium-match-0", "rule-0-x-client-id|premium-match-0"), 100, time.Hour, mapping.Take, true},
		{"ai-gateway", "ai-gateway-quota", entries("backend_name", openai, model, "gpt-4", "rule-1-x-client-id-match-0", "ann"), 20, time.Minute, mapping.Shadow, true},
		{"ai-gateway", "ai-gateway-quota", entries("backend_name", openai, model, "gpt-4", "rule-2-match--1", "rule-2-match--1"), 50, 24 * time.Hour, mapping.Take, true},
		{"ai-gateway", "ai-gateway-quota", entries("backend_name", openai, model, "gpt-5"), 2, time.Second, mapping.Take, true},
		{"ai-gateway", "ai-gateway-quota", entries("backend_name", openai, model, "gpt-4"), 0, 0, 0, false},
		{"ai-gateway", "ai-gateway-quota", entries("backend_name", "default/spare", model, "gpt-4"), 7, 24 * time.Hour, mapping.Take, true},
	} {
		rules, err := mapping.ParseMessages(golden(t, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		ask, ok := rules.Map(tt.domain, &mapping.Descriptor{Entries: tt.entries, Hits: 1})
		if ok != (tt.capacity > 0) {
			t.Errorf("%v: mapped %v", tt.entries, ok)
			continue
		}
		if ok && (ask.Limit.Capacity != tt.capacity || ask.Limit.Period != tt.period || ask.Mode != tt.mode || ask.Quota != tt.quota || !ask.Counts ||
			store.CheckEntity(ask.Entity) != nil || store.CheckResource(ask.Resource) != nil) {
			t.Errorf("%v: %+v of %v", tt.entries, ask, ask.Limit)
		}
	}
}

// aMessage is a message with everything.
const aMessage = `[{"name": "a", "domain": "shop", "descriptors": [
	{"key": "tenant", "detailedMetric": true, "rateLimit": {"unit": "WEEK", "requestsPerUnit": 0, "name": "base"}, "descriptors": [
		{"key": "path", "value": "/slow*", "shadowMode": true, "quotaMode": true, "metadata": {"a": [1.5, null, "x: y"], "b": {"c": true}},
			"rateLimit": {"unit": "YEAR", "requestsPerUnit": 3, "replaces": [{"name": "base"}, {"name": "yes"}]}}]},
	{"key": "null", "value": "007", "rateLimit": {"unlimited": true}}]}]`

// A message means what the file with its content does.
func TestAMessageIsAFile(t *testing.T) {
	t.Parallel()
	all := messages(t, aMessage)
	rules, err := mapping.ParseMessages(all)
	if err != nil {
		t.Fatal(err)
	}
	file, err := mapping.FileOf(all[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `
domain: shop
descriptors:
  - key: tenant
    detailed_metric: true
    rate_limit: {unit: week, requests_per_unit: 0, name: base}
    descriptors:
      - key: path
        value: /slow*
        shadow_mode: true
        quota_mode: true
        metadata: {a: [1.5, null, "x: y"], b: {c: true}}
        rate_limit: {unit: year, requests_per_unit: 3, replaces: [{name: base}, {name: "yes"}]}
  - {key: "null", value: "007", rate_limit: {unlimited: true}}
`
	for _, text := range []string{string(file), want} {
		of, err := mapping.ParseReference(hot.Files{"a": []byte(text)})
		if err != nil || !same(of, rules) {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

// same reports whether rules are alike.
func same(a, b *mapping.Rules) bool { return reflect.DeepEqual(a, b) }

// A mistake of a message is found, with the resource, the domain and the field.
func TestMistakesOfMessages(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"key": "k", "descriptors": [`, 40) + strings.Repeat("]}", 40)
	for text, want := range map[string]string{
		`[{"name": "a", "descriptors": [{"key": "k"}]}]`:                                                                                 `resource "a", domain "": domain: the name of the domain is empty`,
		`[{"name": "a", "domain": "d"}, {"name": "b", "domain": "d"}]`:                                                                   `resource "b", domain "d": domain: the domain is in resource "a", domain "d", too`,
		`[{"name": "a", "domain": "d"}, {"name": "a", "domain": "d"}]`:                                                                   `resource "a", domain "d": domain: the domain is in resource "a", domain "d", too`,
		`[{"name": "a", "domain": "c"}, {"name": "b", "domain": "d", "descriptors": [{"value": "v"}]}]`:                                  `resource "b", domain "d": descriptors[0]: key is missing`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k"}, {"key": "k"}]}]`:                                                    `descriptors[1]: the key and the value are there twice`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rateLimit": {}}]}]`:                                                 `descriptors[0].rate_limit.unit: give second, minute, hour, day, week, month or year, not ""`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k", "descriptors": [{"key": "l", "rateLimit": {"unit": 99}}]}]}]`:        `descriptors[0].descriptors[0].rate_limit.unit: give second, minute, hour, day, week, month or year, not "99"`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rateLimit": {"unit": "DAY", "unlimited": true}}]}]`:                 `descriptors[0].rate_limit: a descriptor without a limit has no unit`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rateLimit": {"unit": "DAY", "replaces": [{}]}}]}]`:                  `descriptors[0].rate_limit.replaces: give names of other limits`,
		`[{"name": "a", "domain": "d", "descriptors": [` + deep + `]}]`:                                                                  `descriptors are nested more than 32 times`,
		`[{"name": "` + strings.Repeat("n", 99) + `", "domain": "` + strings.Repeat("d", 99) + `", "descriptors": [{}]}]`:                `resource "` + strings.Repeat("n", 64) + `", domain "` + strings.Repeat("d", 64) + `": descriptors[0]: key is missing`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k", "metadata": {"x": "y"}, "rateLimit": {"unit": 8, "name": "n"}}]}]`:   `not "8"`,
		`[{"name": "a", "domain": "d", "descriptors": [{"key": "k", "metadata": {"x": "y"}, "rateLimit": {"unit": -1, "name": "n"}}]}]`:  `not "-1"`,
		`[{"name": "a\nb", "domain": "d\u0007", "descriptors": [{"value": "v", "metadata": {"x": "y"}, "rateLimit": {"unit": "DAY"}}]}]`: `resource "a\nb", domain "d\a": descriptors[0]: key is missing`,
	} {
		if _, err := mapping.ParseMessages(messages(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// A field that is newer than this program is not left out: the limit could be another one with it.
func TestFieldsThatAreNewer(t *testing.T) {
	t.Parallel()
	field := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
	for want, at := range map[string]func(*ratelimit.RateLimitConfig) proto.Message{
		"domain \"shop\": field 99: unknown key: use descriptors, domain": func(m *ratelimit.RateLimitConfig) proto.Message { return m },
		"descriptors[0].field 99: unknown key":                            func(m *ratelimit.RateLimitConfig) proto.Message { return m.Descriptors[0] },
		"descriptors[0].rate_limit.field 99: unknown key": func(m *ratelimit.RateLimitConfig) proto.Message {
			return m.Descriptors[0].RateLimit
		},
		"descriptors[0].descriptors[0].rate_limit.replaces[1].field 99: unknown key": func(m *ratelimit.RateLimitConfig) proto.Message {
			return m.Descriptors[0].Descriptors[0].RateLimit.Replaces[1]
		},
	} {
		all := messages(t, aMessage)
		at(all[0]).ProtoReflect().SetUnknown(field)
		if _, err := mapping.ParseMessages(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Messages are bounded before they become trees of many times their size.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	of := func(domain string, descriptors, replaces int) *ratelimit.RateLimitConfig {
		m := &ratelimit.RateLimitConfig{Name: domain, Domain: domain}
		for i := range descriptors {
			m.Descriptors = append(m.Descriptors, &ratelimit.RateLimitDescriptor{Key: strconv.Itoa(i)})
		}
		limit := &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY}
		for range replaces {
			limit.Replaces = append(limit.Replaces, &ratelimit.RateLimitReplace{Name: "other"})
		}
		m.Descriptors[0].RateLimit = limit
		return m
	}
	if _, err := mapping.ParseMessages([]*ratelimit.RateLimitConfig{of("a", 9_999, 1), of("b", 9_999, 1)}); err != nil {
		t.Error(err)
	}
	for _, b := range []*ratelimit.RateLimitConfig{of("b", 10_000, 1), of("b", 9_999, 2)} {
		_, err := mapping.ParseMessages([]*ratelimit.RateLimitConfig{of("a", 9_999, 1), b})
		if err == nil || !strings.HasPrefix(err.Error(), `resource "b", domain "b": descriptors: there are more than 20000`) {
			t.Error(err)
		}
	}
}

// Whatever a server sends, a message means what the file with its content does.
func FuzzMessages(f *testing.F) {
	for _, name := range []string{"envoy-gateway", "ai-gateway"} {
		for _, m := range golden(f, name) {
			seed(f, m)
		}
	}
	seed(f, messages(f, aMessage)[0])
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &ratelimit.RateLimitConfig{}
		if proto.Unmarshal(text, m) != nil {
			return
		}
		rules, err := mapping.ParseMessages([]*ratelimit.RateLimitConfig{m})
		if (rules == nil) != (err != nil) {
			t.Fatalf("%v: %v", rules, err)
		}
		file, invalid := mapping.FileOf(m)
		if invalid != nil {
			t.Fatal(invalid)
		}
		of, wrong := mapping.ParseReference(hot.Files{"a": file})
		if (err != nil) != (wrong != nil) || err == nil && !same(rules, of) {
			t.Errorf("as a message %v, as a file %v\n%s", err, wrong, file)
		}
	})
}

func seed(f *testing.F, m proto.Message) {
	f.Helper()
	text, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
}
