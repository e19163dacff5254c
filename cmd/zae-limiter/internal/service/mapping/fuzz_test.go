package mapping_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/hot"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/mapping"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

// fence is a block of YAML of a page.
var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Whatever a file of rules says: it is refused with the places of what is wrong, or each of its rules makes
// valid requests of any value.
func FuzzParse(f *testing.F) {
	for _, page := range []string{"envoy.md", "envoy-tokens.md"} {
		addBlocks(f, page)
	}
	f.Add([]byte(`domains: {d: [{entries: [a, "b=c=d"], entity: "x-{a}", resource: "{a}", take: {rpm: 1, tpm: hits}, lease: 10m}]}`), "e f")
	f.Add([]byte(`domains: {d: [{entries: [lease], entity: x, resource: y, settle: {}}], "": []}`), "\xff")
	f.Add([]byte("x-a: &a {entries: [k], entity: x, resource: y}\ndomains: {d: [{<<: *a, charge: {rpm: hits}}, *a]}"), "")
	f.Fuzz(func(t *testing.T, text []byte, value string) { read(t, mapping.Parse, text, value) })
}

// The same holds for a file of envoyproxy/ratelimit.
func FuzzParseReference(f *testing.F) {
	addBlocks(f, "envoy.md")
	for _, seed := range []string{
		"domain: d\ndescriptors: [{key: a, value: b*, rate_limit: {unit: week, requests_per_unit: 4294967295, name: n, replaces: [{name: m}]}, shadow_mode: true}]",
		"domain: d\ndescriptors: [{key: a, quota_mode: true, metadata: {b: [1, {c: null}]}, rate_limit: {unit: DAY, requests_per_unit: 0}, descriptors: [{key: c, rate_limit: {unlimited: true}}]}]",
		"domain: d\ndescriptors: &a [{key: a, detailed_metric: yes, value_to_metric: no, descriptors: *a}]",
		"domain: d\ndescriptors: [{key: a, metadata: {? [1, 2] : 3, .nan: .inf}}]",
	} {
		f.Add([]byte(seed), "b")
	}
	f.Fuzz(func(t *testing.T, text []byte, value string) { read(t, mapping.ParseReference, text, value) })
}

// addBlocks adds the blocks of YAML of a page.
func addBlocks(f *testing.F, page string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", page))
	if err != nil {
		f.Fatal(err)
	}
	for _, found := range fence.FindAllSubmatch(text, -1) {
		f.Add(found[1], "acme")
	}
}

// read parses a file, and maps descriptors that fit its rules.
func read(t *testing.T, parse func(hot.Files) (*mapping.Rules, error), text []byte, value string) {
	t.Helper()
	rules, err := parse(hot.Files{"rules.yaml": text})
	if err != nil {
		wrong, ok := errors.AsType[*yamlfile.ParseError](err)
		if !ok || len(wrong.Findings) == 0 || len(wrong.Findings) > yamlfile.MaxFindings+1 {
			t.Fatalf("%v", err)
		}
		for _, finding := range wrong.Findings {
			if finding.Reason == "" || len(finding.Path) > maxPath {
				t.Errorf("%d:%d %.200q: %q", finding.Line, finding.Column, finding.Path, finding.Reason)
			}
		}
		return
	}
	for _, domain := range rules.Domains() {
		for _, d := range rules.DescriptorsFor(domain, value) {
			for _, hits := range []int64{0, 1, limiter.MaxTokens} {
				for _, isOdd := range []bool{false, true} {
					d.Hits, d.Returns, d.IsLimited = hits, isOdd, isOdd && hits == 1
					check(t, rules, domain, d)
				}
			}
		}
	}
}

// maxPath is longer than the path of any place in a small file.
const maxPath = 1 << 20

// check maps a descriptor, if a rule has a limit for it.
func check(t *testing.T, rules *mapping.Rules, domain string, d mapping.Descriptor) {
	t.Helper()
	ask, ok := rules.Map(domain, &d)
	if !ok || ask.Unlimited && ask.Entity == "" && len(ask.Amounts) == 0 {
		return
	}
	if err := errors.Join(store.CheckEntity(ask.Entity), store.CheckResource(ask.Resource)); err != nil {
		t.Errorf("%s %v: %v", domain, d, err)
	}
	if d.Returns != (ask.Mode == mapping.Return) || ask.Within != 0 && ask.Mode != mapping.Take || len(ask.Amounts) > limiter.MaxLimits {
		t.Errorf("%s %v: %+v", domain, d, ask)
	}
	for name, n := range ask.Amounts {
		if err := store.CheckLimitName(name); err != nil || n < 0 || n > limiter.MaxTokens {
			t.Errorf("%s %v takes %d of %q: %v", domain, d, n, name, err)
		}
	}
	if ask.Limit == nil {
		return
	}
	if ask.Limit.Amount < 0 || ask.Limit.Amount > math.MaxUint32 || ask.Limit.Amount > 0 && store.ValidateLimits([]limiter.Limit{*ask.Limit}) != nil {
		t.Errorf("%s %v: %+v", domain, d, ask.Limit)
	}
}
