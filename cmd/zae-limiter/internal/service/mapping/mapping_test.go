package mapping_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

func parse(tb testing.TB, text string) *mapping.Rules {
	tb.Helper()
	rules, err := mapping.Parse(hot.Files{"rules.yaml": []byte(text)})
	if err != nil {
		tb.Fatal(err)
	}
	return rules
}

// entries are entries of pairs of keys and values.
func entries(pairs ...string) (all []mapping.Entry) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, mapping.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return all
}

// The first rule that fits maps a descriptor. A rule fits the same keys in the same order.
func TestMap(t *testing.T) {
	t.Parallel()
	rules := parse(t, `
domains:
  gateway:
    - {entries: [tenant, plan=free], entity: "{tenant}", resource: api, take: {rpm: 2}}
    - {entries: [tenant, plan], entity: "{tenant}", resource: api, take: {rpm: 1, tpm: hits}}
    - {entries: [tenant, plan, plan=free], entity: "{tenant}", resource: "{plan}", charge: {tpm: hits}}
    - {entries: ["generic_key=a=b", r], entity: everybody, resource: "x/{r}", take: {rpm: hits}, shadow: true}
    - {entries: [lease], entity: x, resource: y, take: {tpm: hits}, lease: 1m}
    - {entries: [a, lease], entity: "{a}", resource: y, settle: {tpm: hits, calls: 2}}
    - {entries: [lease, a], entity: x, resource: y, settle: {}}
    - {entries: [stream], entity: x, resource: y, take: {}, slots: {inflight: 2}, lease: 30s}
`)
	for name, tt := range map[string]struct {
		d    mapping.Descriptor
		want mapping.Ask
	}{
		"a value":          {mapping.Descriptor{Entries: entries("tenant", "a", "plan", "free"), Hits: 5}, mapping.Ask{Entity: "a", Resource: "api", Amounts: map[string]int64{"rpm": 2}}},
		"any value":        {mapping.Descriptor{Entries: entries("tenant", "a", "plan", "paid"), Hits: 5}, mapping.Ask{Entity: "a", Resource: "api", Amounts: map[string]int64{"rpm": 1, "tpm": 5}}},
		"a check":          {mapping.Descriptor{Entries: entries("tenant", "a", "plan", "paid")}, mapping.Ask{Entity: "a", Resource: "api", Amounts: map[string]int64{"rpm": 0, "tpm": 0}}},
		"a return":         {mapping.Descriptor{Entries: entries("tenant", "a", "plan", "paid"), Hits: 5, Returns: true}, mapping.Ask{Mode: mapping.Return, Entity: "a", Resource: "api", Amounts: map[string]int64{"tpm": 5}}},
		"a key twice":      {mapping.Descriptor{Entries: entries("tenant", "a", "plan", "gold", "plan", "free"), Hits: 7}, mapping.Ask{Mode: mapping.Charge, Entity: "a", Resource: "gold", Amounts: map[string]int64{"tpm": 7}}},
		"a shadow, with":   {mapping.Descriptor{Entries: entries("generic_key", "a=b", "r", "y"), Hits: 1}, mapping.Ask{Mode: mapping.Shadow, Entity: "everybody", Resource: "x/y", Amounts: map[string]int64{"rpm": 1}}},
		"with a lease":     {mapping.Descriptor{Entries: entries("lease", ""), Hits: 5}, mapping.Ask{Entity: "x", Resource: "y", Amounts: map[string]int64{"tpm": 5}, Within: time.Minute}},
		"slots alone":      {mapping.Descriptor{Entries: entries("stream", "")}, mapping.Ask{Entity: "x", Resource: "y", Amounts: map[string]int64{}, Slots: map[string]int64{"inflight": 2}, Within: 30 * time.Second}},
		"slots return":     {mapping.Descriptor{Entries: entries("stream", ""), Hits: 5, Returns: true}, mapping.Ask{Mode: mapping.Return, Entity: "x", Resource: "y", Amounts: map[string]int64{}}},
		"a lease returns":  {mapping.Descriptor{Entries: entries("lease", ""), Hits: 5, Returns: true}, mapping.Ask{Mode: mapping.Return, Entity: "x", Resource: "y", Amounts: map[string]int64{"tpm": 5}}},
		"a settlement":     {mapping.Descriptor{Entries: entries("a", "b", "lease", "c"), Hits: 5}, mapping.Ask{Mode: mapping.Settle, Entity: "b", Resource: "y", Amounts: map[string]int64{"tpm": 5, "calls": 2}, Lease: "c"}},
		"one of 0":         {mapping.Descriptor{Entries: entries("a", "b", "lease", "c")}, mapping.Ask{Mode: mapping.Settle, Entity: "b", Resource: "y", Amounts: map[string]int64{"tpm": 0, "calls": 2}, Lease: "c"}},
		"one of no amount": {mapping.Descriptor{Entries: entries("lease", "c", "a", "b"), Hits: 5}, mapping.Ask{Mode: mapping.Settle, Entity: "x", Resource: "y", Amounts: map[string]int64{}, Lease: "c"}},
	} {
		got, ok := rules.Map("gateway", &tt.d)
		if diff := cmp.Diff(tt.want, got); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
	}
	for _, none := range [][]mapping.Entry{nil, entries("tenant", "a"), entries("plan", "free", "tenant", "a"), entries("tenant", "a", "plan", "free", "more", "")} {
		if got, ok := rules.Map("gateway", &mapping.Descriptor{Entries: none}); ok {
			t.Errorf("%v: %v", none, got)
		}
	}
	if _, ok := rules.Map("another", &mapping.Descriptor{Entries: entries("tenant", "a", "plan", "free")}); ok {
		t.Error("a domain has the rules of another one")
	}
}

// Names are valid whatever the values, and those of different values differ.
func FuzzNames(f *testing.F) {
	f.Add("x_y", "z", "x", "y_z")
	f.Add("", "", "_", "")
	f.Add(strings.Repeat("a", 8000), "ä", "Z_7C", "|")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		rules := parse(t, `domains: {d: [{entries: [a, b], entity: "k-{a}_{b}", resource: "r/{b}/{a}", take: {rpm: 1}}]}`)
		one, _ := rules.Map("d", &mapping.Descriptor{Entries: entries("a", a, "b", b)})
		other, _ := rules.Map("d", &mapping.Descriptor{Entries: entries("a", c, "b", d)})
		for _, ask := range []mapping.Ask{one, other} {
			if err := errors.Join(store.CheckEntity(ask.Entity), store.CheckResource(ask.Resource)); err != nil {
				t.Error(err)
			}
		}
		same := a == c && b == d
		if (one.Entity == other.Entity) != same || (one.Resource == other.Resource) != same {
			t.Errorf("%q %q and %q %q: %v, %v", a, b, c, d, one, other)
		}
	})
}

// Each mistake is found, with its place and what to do.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const good = "entity: x, resource: y, take: {rpm: 1}"
	for text, want := range map[string]string{
		"":          ":1:1: the file is empty",
		"rules: []": ":1:1: rules: unknown key: use domains",
		"domains: {d: [{entries: [a], " + good + ", cost: 1}]}":                                  "domains.d[0].cost: unknown key: use charge, entity, entries, lease, resource, settle, shadow, slots, take",
		"domains: {d: [{" + good + "}]}":                                                         "domains.d[0].entries: this key is missing: give the keys",
		"domains: {d: [{entries: [], " + good + "}]}":                                            "domains.d[0].entries: give from 1 to 32 entries, not 0",
		"domains: {d: [{entries: [a, a], " + good + "}]}":                                        "domains.d[0].entries[1]: the key is there twice for any value",
		"domains: {d: [{entries: [\"=a\"], " + good + "}]}":                                      "give the key of an entry",
		"domains: {d: [{entries: [1], " + good + "}]}":                                           "write it in quotes",
		"domains: {d: [{entries: [a], entity: \"{b}\", resource: y, take: {rpm: 1}}]}":           `domains.d[0].entity: no entry of the rule takes any value of "b"`,
		"domains: {d: [{entries: [a=1], entity: \"{a}\", resource: y, take: {rpm: 1}}]}":         `no entry of the rule takes any value of "a"`,
		"domains: {d: [{entries: [a, b], entity: \"{a}{b}\", resource: y, take: {rpm: 1}}]}":     "put a character between two variables",
		"domains: {d: [{entries: [a], entity: \"{a\", resource: y, take: {rpm: 1}}]}":            "close it with }",
		"domains: {d: [{entries: [a], entity: \"a b\", resource: y, take: {rpm: 1}}]}":           "with x for each variable: invalid entity",
		"domains: {d: [{entries: [a], entity: x, resource: \"-{a}\", take: {rpm: 1}}]}":          "invalid resource",
		"domains: {d: [{entries: [a], entity: x, resource: y}]}":                                 "domains.d[0]: give one of take, which may refuse, charge",
		"domains: {d: [{entries: [a], " + good + ", charge: {rpm: 1}}]}":                         "give one of take",
		"domains: {d: [{entries: [a], entity: x, resource: y, charge: {rpm: 1}, shadow: true}]}": "domains.d[0].shadow: only take refuses anybody",
		"domains: {d: [{entries: [a], entity: x, resource: y, take: {}}]}":                       "name from 1 to",
		"domains: {d: [{entries: [a], entity: x, resource: y, take: {wcu: 1}}]}":                 "the name is reserved",
		"domains: {d: [{entries: [a], entity: x, resource: y, take: {rpm: 0}}]}":                 "give a whole number from 1",
		"domains: {d: [{entries: [a], entity: x, resource: y, take: {rpm: tokens}}]}":            "give hits, or the tokens that each call takes",
		"domains: {d: [{entries: [a], " + good + "}, {entries: [a=1], " + good + "}]}":           "domains.d[1]: rule 1 of the domain fits every descriptor that this one fits",
		"domains: {d: [{entries: [a], entity: x, resource: y, charge: {rpm: 1}, lease: 10m}]}":   "domains.d[0].lease: only what take takes has a lease",
		"domains: {d: [{entries: [a], " + good + ", shadow: true, lease: 10m}]}":                 "domains.d[0].lease: only what take takes has a lease",
		"domains: {d: [{entries: [a], " + good + ", lease: 10}]}":                                "domains.d[0].lease: give a string",
		"domains: {d: [{entries: [a], " + good + ", lease: 0.5s}]}":                              "domains.d[0].lease: give within which time the lease is settled, from 1s to 144h0m0s",
		"domains: {d: [{entries: [a], " + good + ", slots: {s: 1}}]}":                            "domains.d[0].slots: slots are held by a lease: give lease, too, 30s or more",
		"domains: {d: [{entries: [a], " + good + ", slots: {s: 1}, lease: 29s}]}":                "domains.d[0].lease: slots are held until the lease is settled, or for this time: give 30s or more",
		"domains: {d: [{entries: [a], " + good + ", slots: {}, lease: 30s}]}":                    "domains.d[0].slots: name from 1 to",
		"domains: {d: [{entries: [a], " + good + ", slots: {s: 0}, lease: 30s}]}":                "domains.d[0].slots.s: give a whole number from 1 to",
		"domains: {d: [{entries: [a], " + good + ", slots: {s t: 1}, lease: 30s}]}":              "domains.d[0].slots.s t:",
		"domains: {d: [{entries: [lease], entity: x, resource: y, settle: {}, slots: {s: 1}}]}":  "domains.d[0].slots: slots are held by a lease",
		"domains: {d: [{entries: [a], " + good + ", lease: 145h}]}":                              "give within which time",
		"domains: {d: [{entries: [a, lease=x], entity: x, resource: y, settle: {}}]}":            "domains.d[0].entries: settle needs the entry lease, with any value",
		"domains: {d: [{entries: [lease], entity: x, resource: y, settle: {}, take: {rpm: 1}}]}": "give one of take",
		"x-r: &r [{entries: [a], " + good + "}]\ndomains: {" + many(1001) + "}":                  "there are more than 1000 rules",
	} {
		_, err := mapping.Parse(hot.Files{"rules.yaml": []byte(text)})
		wrong := (*yamlfile.ParseError)(nil)
		if !errors.As(err, &wrong) || wrong.File != "rules.yaml" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// many is so many domains that share the rules of an anchor.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("d" + strings.Repeat("x", i) + ": *r, ")
	}
	return b.String()
}

// A domain is in one file.
func TestDomainsOfSeveralFiles(t *testing.T) {
	t.Parallel()
	file := func(domain string) []byte {
		return []byte("domains: {" + domain + ": [{entries: [a], entity: x, resource: y, take: {rpm: 1}}]}")
	}
	rules, err := mapping.Parse(hot.Files{"a.yaml": file("a"), "b.yaml": file("b")})
	if err != nil || !rules.Has("a") || !rules.Has("b") || rules.Has("c") {
		t.Errorf("%+v %v", rules, err)
	}
	if _, err := mapping.Parse(hot.Files{"a.yaml": file("a"), "b.yaml": file("a")}); err == nil || !strings.Contains(err.Error(), "b.yaml:1:11: domains.a: the domain is in a.yaml, too") {
		t.Errorf("%v", err)
	}
	large := hot.Files{"a.yaml": file("a"), "b.yaml": append(file("b"), strings.Repeat(" ", mapping.MaxBytes-50)...)}
	if _, err := mapping.Parse(large); err == nil || !strings.Contains(err.Error(), "larger than 1 MB") {
		t.Errorf("%v", err)
	}
}

// Rules with leases need keys.
func TestLeasesNeedKeys(t *testing.T) {
	t.Parallel()
	for rule, isFine := range map[string]bool{"take: {rpm: 1}, lease: 1s": false, "settle: {}": false, "take: {rpm: 1}": true} {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(file, []byte("domains: {d: [{entries: [lease], entity: x, resource: y, "+rule+"}]}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := hot.Open(mapping.Source(file, true), time.Now); err != nil {
			t.Error(err)
		}
		if _, err := hot.Open(mapping.Source(file, false), time.Now); (err == nil) != isFine || err != nil && !strings.Contains(err.Error(), "--lease-key-file") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
