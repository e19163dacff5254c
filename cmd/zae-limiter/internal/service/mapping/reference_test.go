package mapping_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/store"
)

// Each mistake in a file of envoyproxy/ratelimit is found, with its place.
func TestMistakesOfTheReference(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"descriptors: []":                      "1:1: domain is missing",
		"domain: 1":                            "domain: give a string",
		"domain: d\nlimits: []":                "2:1: limits: unknown key: use descriptors, domain",
		"domain: d\ndescriptors: [{value: x}]": "2:15: descriptors[0]: key is missing",
		"domain: d\ndescriptors: [{key: a, quota_mode: 1}]":                                           "descriptors[0].quota_mode: give true or false",
		"domain: d\ndescriptors: [{key: a, share_threshold: true}]":                                   "descriptors[0].share_threshold: only values with a * share a limit",
		"domain: d\ndescriptors: [{key: a, share: true}]":                                             "descriptors[0].share: unknown key",
		"domain: d\ndescriptors: [{key: a, metadata: [1]}]":                                           "descriptors[0].metadata: give names with values of JSON",
		"domain: d\ndescriptors: [{key: a, metadata: {x: .inf}}]":                                     "descriptors[0].metadata: give names with values of JSON",
		"domain: d\ndescriptors: [{key: a}, {key: a}]":                                                "descriptors[1]: the key and the value are there twice",
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}}]":     `give second, minute, hour, day, week, month or year, not "fortnight"`,
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}]":  "give a whole number from 0 to 4294967295",
		"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]":                "a descriptor without a limit has no unit",
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}]": "replaces: give names of other limits",
		"domain: d\ndescriptors: [{key: a, descriptors: [{key: b, shadow_mode: maybe}]}]":             "descriptors[0].descriptors[0].shadow_mode: give true or false",
		"domain: d\ndescriptors: &d [{key: a, descriptors: *d}]":                                      "descriptors are nested more than 32 times",
	} {
		_, err := mapping.ParseReference(hot.Files{"limits.yaml": []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	one := []byte("domain: d")
	if _, err := mapping.ParseReference(hot.Files{"a.yaml": one, "b.yaml": one}); err == nil || !strings.Contains(err.Error(), "b.yaml:1:9: domain: the domain is in a.yaml, too") {
		t.Error(err)
	}
}

// Metadata is bounded before aliases are followed: a short file could stand for far more than there is memory.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	const text = "domain: d\nx-long: &long %s\nx-itself: &itself [*itself, *itself]\ndescriptors: [%s]"
	of := func(metadata string) string {
		return "{key: k, rate_limit: {unit: day, requests_per_unit: 1}, metadata: " + metadata + "}"
	}
	long := strings.Repeat("x", 100_000)
	for descriptors, isValid := range map[string]bool{
		of("{a: *long, b: [*long, *long]}"):                         true,
		of("{a: [" + strings.Repeat("*long, ", 11) + "]}"):          false,
		of("{a: &b {c: *long, d: *long}, b: [*b, *b, *b, *b, *b]}"): false,
		of("{a: *itself}"): false,
		of("&m {a: [*long, *long]}") + strings.Replace(", "+of("*m"), "k,", "l,", 1):                             true,
		of("&m {a: [*long, *long, *long, *long, *long, *long]}") + strings.Replace(", "+of("*m"), "k,", "l,", 1): false,
	} {
		_, err := mapping.ParseReference(hot.Files{"a.yaml": fmt.Appendf(nil, text, long, descriptors)})
		if isValid != (err == nil) || err != nil && !strings.Contains(err.Error(), "metadata of all descriptors is larger than 1 MB") {
			t.Errorf("%s: %v", descriptors, err)
		}
	}
}

// A * stands for any text, also within a value. Values that share a limit have one entity, whatever else the
// descriptor has.
func TestWildcards(t *testing.T) {
	t.Parallel()
	rules, err := mapping.ParseReference(hot.Files{"a.yaml": []byte(`
domain: d
descriptors:
  - {key: k, value: a*b*c, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: k, value: "*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}, descriptors: [{key: l, rate_limit: {unit: day, requests_per_unit: 3}}]}
`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		entries []mapping.Entry
		amount  int64
		entity  string
	}{
		{entries("k", "abc"), 1, "k:abc"},
		{entries("k", "a*b*c"), 1, ""},
		{entries("k", "axbxbyc"), 1, "k:axbxbyc"},
		{entries("k", "abcb"), 2, ""},
		{entries("k", "acb"), 2, ""},
		{entries("k", ""), 2, ""},
		{entries("k", "x", "l", "y"), 3, ""},
	} {
		ask, ok := rules.Map("d", &mapping.Descriptor{Entries: tt.entries})
		if !ok || ask.Limit.Amount != tt.amount || tt.entity != "" && ask.Entity != tt.entity {
			t.Errorf("%v: %+v", tt.entries, ask)
		}
	}
	entity := func(pairs ...string) string {
		ask, _ := rules.Map("d", &mapping.Descriptor{Entries: entries(pairs...)})
		return ask.Entity
	}
	if entity("k", "x") != entity("k", "y") || entity("k", "x") != entity("k", "*") || entity("k", "x", "l", "y") != entity("k", "z", "l", "y") {
		t.Error("values that share a limit have several")
	}
	if entity("k", "x", "l", "y") == entity("k", "x", "l", "z") || entity("k", "abc") == entity("k", "abbc") || entity("k", "x") == entity("k", "x", "l", "*") {
		t.Error("others share one")
	}
}

// Entities of descriptors differ whatever the keys and values, and are valid.
func FuzzNamesOfTheReference(f *testing.F) {
	f.Add("a", "x:b:y", "", "")
	f.Add("a", "x", "b", "y")
	f.Add("a", ":", "", strings.Repeat("x", 300))
	rules, err := mapping.ParseReference(hot.Files{"limits.yaml": []byte("domain: 1 strange domain")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		all := [][]mapping.Entry{entries(k1, v1), entries(k2, v2), entries(k1, v1, k2, v2), entries(k2, v2, k1, v1), entries(k1, v2), entries(k1+":"+v1+":"+k2, v2)}
		for i, one := range all {
			ask, ok := rules.Map("1 strange domain", &mapping.Descriptor{Entries: one, IsLimited: true})
			if !ok || store.CheckEntity(ask.Entity) != nil || store.CheckResource(ask.Resource) != nil {
				t.Errorf("%q: %v", one, ask)
			}
			for _, other := range all[:i] {
				before, _ := rules.Map("1 strange domain", &mapping.Descriptor{Entries: other, IsLimited: true})
				if same := len(one) == len(other) && one[0] == other[0] && (len(one) == 1 || one[1] == other[1]); same != (ask.Entity == before.Entity) {
					t.Errorf("%q and %q: %s, %s", one, other, ask.Entity, before.Entity)
				}
			}
		}
	})
}

// The name of a hash never changes: a bucket is found by it, after an update of the service, too.
func TestHashedNamesStay(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]struct {
		parse func(hot.Files) (*mapping.Rules, error)
		rules string
		by    []mapping.Entry
	}{
		"h-13326d287ab4df1a17ea41537da1af3e": {mapping.ParseReference, "domain: d\ndescriptors: [{key: tenant, rate_limit: {unit: day, requests_per_unit: 1}}]", []mapping.Entry{{Key: "tenant", Value: "a:b"}}},
		"h-757882404b3ef18e01607e3d022a36d0": {mapping.Parse, "domains: {d: [{entries: [a, b], entity: \"{a}-{b}\", resource: api, take: {rpm: hits}}]}", []mapping.Entry{{Key: "a", Value: "x-y-z"}, {Key: "b", Value: "w"}}},
	} {
		rules, err := of.parse(hot.Files{"rules.yaml": []byte(of.rules)})
		if err != nil {
			t.Fatal(err)
		}
		if ask, ok := rules.Map("d", &mapping.Descriptor{Entries: of.by, Hits: 1}); !ok || ask.Entity != want {
			t.Errorf("%v: %q, want %q", of.by, ask.Entity, want)
		}
	}
}
