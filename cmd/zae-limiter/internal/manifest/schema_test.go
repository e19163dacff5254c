package manifest_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
)

var update = flag.Bool("update", false, "write the published schema")

func TestThePublishedSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "..", "docs", "manifest.schema.json")
	if *update {
		if err := os.WriteFile(path, manifest.Schema, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(manifest.Schema), string(got)); diff != "" {
		t.Errorf("record it with -update (-want +got):\n%s", diff)
	}
}

func compiled(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(manifest.Schema))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("manifest.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("manifest.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// The schema and the parser agree about each of these files.
func TestTheSchemaAcceptsWhatParseAccepts(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	limits := func(limit string) string { return "namespace: a\nsystem: {limits: {" + limit + "}}\n" }
	long := strings.Repeat("x", 65)
	for _, text := range []string{
		example,
		"namespace: a\n", "namespace: a\nsystem:\nresources:\nentities:\n", "name: a\n", "[]\n", "namespace: 1\n", "namespace: a\nname: " + long + "\n",
		"namespace: a\nother: 1\n", "namespace: a\nsystem: {}\n", "namespace: a\nsystem: {on_unavailable: shrug}\n", "namespace: a\nsystem: {limits: {}}\n",
		"namespace: a\nresources: {}\n", "namespace: a\nresources: {r: {}}\n", "namespace: a\nresources: {r: {on_unavailable: block, limits: {rpm: {capacity: 1}}}}\n",
		"namespace: a\nresources: {_default_: {limits: {rpm: {capacity: 1}}}}\n", "namespace: a\nentities: {e: {resources: {_default_: {limits: {rpm: {capacity: 1}}}}}}\n",
		"namespace: a\nentities: {e: {parent: ''}}\n", "namespace: a\nentities: {e: {parent: x, cascade: true}}\n", "namespace: a\nentities: {e: {cascade: false, resources: }}\n", "namespace: a\nentities: {e: {parent: 7}}\n",
		"namespace: a\nentities: {e: {parent: }}\n", "namespace: a\nentities: {e: {parent: \"x#\"}}\n", "namespace: a\nentities: {e: {cascade: bypass}}\n", "namespace: a\nentities: {e: {limits: {rpm: {capacity: 1}}}}\n",
		"namespace: a\nresources: {r: {cascade: true}}\n", "namespace: a\nresources: {r: {slots: {inflight: 1}}}\n", "namespace: a\nresources: {r: {slots: {inflight: 0}}}\n", "namespace: a\nresources: {r: {slots: {}}}\n", "namespace: a\nsystem: {slots: {a: 1, b.c: 1000000}}\n", "namespace: a\nsystem: {slots: {a: 1000001}}\n", "namespace: a\nsystem: {slots: {wcu: 1}}\n", "namespace: a\nsystem: {slots: 5}\n", "namespace: a\nresources: {r: {cascade: 1}}\n", "namespace: a\nresources: {r: {parent: x}}\n", "namespace: a\nsystem: {cascade: true}\n",
		"namespace: a\nentities: {e: {}}\n", "namespace: a\nentities: {e: {resources: }}\n", "namespace: a\nentities: {\"e#\": {resources: }}\n", "namespace: a\nentities: {7: {resources: }}\n",
		limits("rpm: {capacity: 1}"), limits("rpm: {capacity: 0}"), limits("rpm: {capacity: 1000000000000000}"), limits("rpm: {capacity: 1000000000000001}"),
		limits("rpm: {capacity: '1'}"), limits("rpm: {capacity: 1.5}"), limits("rpm: {}"), limits("rpm: {capacity: 1, refill_period: 1000000001}"),
		limits("rpm: {capacity: 2, burst: 2, refill_amount: 3, refill_period: 4}"), limits("rpm: {capacity: 1, soft: true}"), limits("rpm: {capacity: 1, burst: 2}"), limits("wcu: {capacity: 1}"),
		limits("rpm: {rate: 1}"), limits("rpm: {rate: 0}"), limits("rpm: {rate: 1/min}"), limits("rpm: {rate: '1'}"), limits("rpm: {rate: 1/min, burst: 2}"), limits("rpm: {rate: 1/week}"),
		limits("rpm: {rate: 01/05minutes}"), limits("rpm: {rate: 1/day}"), limits("rpm: {rate: 1/2d}"), limits("rpm: {rate: 1/days}"), limits("rpm: {rate: 1/hour}"), limits("rpm: {rate: 1/h}"), limits("rpm: {rate: 1/2hours}"),
		limits("rpm: {rate: 1/m}"), limits("rpm: {rate: 1/minute}"), limits("rpm: {rate: 1/sec}"), limits("rpm: {rate: 1/s}"), limits("rpm: {rate: 1/second}"), limits("rpm: {rate: 1/3seconds}"), limits("rpm: {rate: 1/mins}"),
		limits("rpm: {rate: 0/min}"), limits("rpm: {rate: 1/0min}"), limits("rpm: {rate: 1/min:2}"), limits("rpm: {rate: 1.5/min}"), limits("rpm: {burst: 2}"),
		limits("rpm: {rate: 1/min, capacity: 2}"), limits("rpm: {rate: 1/min, refill_amount: 2}"), limits("rpm: {rate: 1/min, refill_period: 2}"), limits("rpm: {refill_amount: 2}"),
		limits("r: {rate: 1, schedule: [{cron: '* 9 * * 1-5', scale: 0.5}]}"), limits("r: {capacity: 1, schedule: [{cron: '* 9 * * 1-5', tz: Europe/Berlin, capacity: 2, refill_amount: 3, refill_period_seconds: 4}]}"),
		limits("r: {rate: 1, schedule: [{until: '2026-12-31T18:00:00Z', scale: 2}]}"), limits("r: {rate: 1, schedule: [{until: '2026-12-31T18:00:00+01:00', tz: Europe/Berlin, capacity: 2}]}"),
		limits("r: {rate: 1, schedule: [{until: '2026-12-31T18:00:00Z', cron: '* 9 * * 1-5', scale: 2}]}"), limits("r: {rate: 1, schedule: [{until: '2026-12-31T18:00:00Z'}]}"), limits("r: {rate: 1, schedule: [{until: 5, scale: 2}]}"),
		limits("r: {rate: 1, schedule: []}"), limits("r: {rate: 1, schedule: }"), limits("r: {rate: 1, schedule: [{scale: 2}]}"), limits("r: {rate: 1, schedule: [{cron: '* 9 * * *'}]}"), limits("r: {rate: 1, schedule: [{cron: '* 9 * * *', scale: 0}]}"),
		limits("r: {rate: 1, schedule: [{cron: '* 9 * * *', scale: '2'}]}"), limits("r: {rate: 1, schedule: [{cron: '* 9 * * *', scale: 1000001}]}"), limits("r: {rate: 1, schedule: [{cron: '* 9 * * *', scale: 2, capacity: 1}]}"),
		limits("r: {rate: 1, schedule: [{cron: '* 9 * * *', capacity: 0}]}"), limits("r: {rate: 1, schedule: [{cron: '* 9 * * *', burst: 1}]}"), limits("q: {quota: 1, renews: day, schedule: [{cron: '* 9 * * *', scale: 2}]}"),
		limits("q: {quota: 1, renews: day}"), limits("q: {quota: 1, renews: day at 06:30, zone: Europe/Berlin}"), limits("q: {quota: 0, renews: day}"), limits("q: {quota: 1}"), limits("q: {renews: day}"),
		limits("q: {quota: 1, renews: ''}"), limits("q: {quota: 1, renews: 7}"), limits("q: {quota: 1, renews: day, zone: 7}"), limits("q: {quota: 1, renews: day, rate: 1}"), limits("q: {quota: 1, renews: day, burst: 1}"),
		limits("q: {capacity: 1, reset_schedule: [{cron: 0 0 * * *}]}"), limits("q: {capacity: 1, refill_amount: 0, refill_period: 60, reset_schedule: [{cron: 0 0 * * *, tz: Europe/Berlin}, {cron: 0 9 * * 1, tz: Europe/Berlin}]}"),
		limits("q: {capacity: 1, reset_schedule: []}"), limits("q: {capacity: 1, reset_schedule: }"), limits("q: {capacity: 1, reset_schedule: {cron: 0 0 * * *}}"), limits("q: {capacity: 1, reset_schedule: [{tz: UTC}]}"),
		limits("q: {capacity: 1, refill_amount: 1, reset_schedule: [{cron: 0 0 * * *}]}"), limits("q: {reset_schedule: [{cron: 0 0 * * *}]}"), limits("q: {capacity: 1, reset_schedule: [{cron: 0 0 * * *, scale: 2}]}"),
		limits("q: {capacity: 1, quota: 1, renews: day, reset_schedule: [{cron: 0 0 * * *}]}"), limits("q: {capacity: 1, reset_after_seconds: 5}"), limits("q: {capacity: 1, reset_after_seconds: 0}"), limits("q: {capacity: 1, refill_amount: 0, refill_period: 1, reset_after_seconds: 5}"), limits("q: {capacity: 1, reset_after_seconds: 5, reset_schedule: [{cron: 0 0 * * *}]}"), limits("q: {quota: 1, renews: session 5h}"),
		"namespace: a\nresources: {r: {disabled: true}}\n", "namespace: a\nresources: {r: {disabled: false, until: '2999-01-02T03:04:05Z'}}\n", "namespace: a\nresources: {r: {disabled: bypass}}\n",
		"namespace: a\nresources: {r: {until: '2999-01-02T03:04:05Z'}}\n", "namespace: a\nresources: {r: {limits: {rpm: {rate: 1}}, until: '2999-01-02T03:04:05Z'}}\n", "namespace: a\nsystem: {disabled: true}\n",
		"namespace: a\nx-a: &a 1\n", "namespace: a\nx-a:\n", "namespace: a\nsystem: {x-a: 1, on_unavailable: block}\n",
		limits(long + ": {capacity: 1}"), limits("1x: {capacity: 1}"), limits("a.b_c-d: {capacity: 1}"), limits("rpm: 5"),
	} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		_, parsed := manifest.Parse("f", []byte(text))
		if validated := schema.Validate(plain(value)); (parsed == nil) != (validated == nil) {
			t.Errorf("%s\nthe parser says %v\nthe schema says %v", text, parsed, validated)
		}
	}
}

// plain turns the keys of mappings into strings.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
	case map[any]any:
		m := map[string]any{}
		for k, e := range v {
			name, ok := k.(string)
			if !ok {
				name = "7" // the only such key above
			}
			m[name] = plain(e)
		}
		return m
	}
	return v
}

// Every manifest in the guide is valid.
func TestTheExamplesOfTheGuideAreValid(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "limits-as-files.md"))
	if err != nil {
		t.Fatal(err)
	}
	schema, found := compiled(t), 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1) {
		if !bytes.Contains(block[1], []byte("\nnamespace: ")) {
			continue // a template, or the configuration of something else
		}
		found++
		var value any
		if err := yaml.Unmarshal(block[1], &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(plain(value)); err != nil {
			t.Error(err)
		}
		parse(t, string(block[1]))
	}
	if found == 0 {
		t.Error("the guide has no manifest")
	}
}
