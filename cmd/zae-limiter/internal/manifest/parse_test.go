package manifest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// example is a manifest with everything in it.
const example = `name: team-a
namespace: default
system:
  on_unavailable: block
  limits: {rpm: {rate: 900/30sec, burst: 1500}, tpm: {capacity: 1_500, refill_amount: 900, refill_period: 30}}
resources:
  gpt-4:
    limits:
      rpm: {capacity: 500, refill_amount: 500, burst: 750}
      tpm: {capacity: 10}
entities:
  user-1:
    resources:
      openai/gpt-4: {limits: {rpm: {capacity: 900}}}
      _default_: {limits: {rpm: {capacity: 5}}}
`

func limit(name string, capacity, amount int64, period time.Duration) store.Limit {
	return store.Limit{Name: name, Capacity: capacity, Amount: amount, Period: period}
}

func key(entity, resource string) store.ConfigKey {
	return store.ConfigKey{Entity: entity, Resource: resource}
}

func parse(tb testing.TB, text string) *manifest.Manifest {
	tb.Helper()
	m, err := manifest.Parse("limits.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestParse(t *testing.T) {
	t.Parallel()
	want := &manifest.Manifest{Name: "team-a", Namespace: "default", Levels: map[store.ConfigKey]manifest.Level{
		{}:                            {Limits: []store.Limit{limit("rpm", 1500, 900, 30*time.Second), limit("tpm", 1500, 900, 30*time.Second)}, OnUnavailable: store.Block},
		key("", "gpt-4"):              {Limits: []store.Limit{limit("rpm", 750, 500, time.Minute), limit("tpm", 10, 10, time.Minute)}},
		key("user-1", "openai/gpt-4"): {Limits: []store.Limit{limit("rpm", 900, 900, time.Minute)}},
		key("user-1", "_default_"):    {Limits: []store.Limit{limit("rpm", 5, 5, time.Minute)}},
	}}
	if diff := cmp.Diff(want, parse(t, example)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAManifestSurvivesBothEncodings(t *testing.T) {
	t.Parallel()
	m := parse(t, example)
	text, err := m.YAML()
	if err != nil {
		t.Fatal(err)
	}
	object, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for form, data := range map[string][]byte{"YAML": text, "JSON": object} {
		again, err := manifest.Parse(form, data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(m, again); diff != "" || m.Hash() != again.Hash() {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
}

// renewal is one that the test knows to be valid.
func renewal(t *testing.T, words, zone string) *store.Renewal {
	t.Helper()
	r, err := store.ParseRenewal(words, zone)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sameRenewal compares renewals as limits do.
var sameRenewal = cmp.Comparer(func(a, b *store.Renewal) bool { return a == b })

// A quota has a form of ours and one of the Python package, which both survive an export. What
// the package can evaluate is exported in its form.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct{ words, zone, exported string }{
		"{quota: 5, renews: day}": {"day", "UTC", `{"capacity":5,"reset_schedule":[{"cron":"0 0 * * *","tz":"UTC"}]}`},
		"{quota: 5, renews: day at 06:30; month from day 15, zone: Europe/Berlin}": {
			"day at 06:30; month from day 15", "Europe/Berlin",
			`{"capacity":5,"reset_schedule":[{"cron":"30 6 * * *","tz":"Europe/Berlin"},{"cron":"0 0 15 * *","tz":"Europe/Berlin"}]}`,
		},
		"{quota: 5, renews: month from last day, zone: Europe/Berlin}": {"month from day 31", "Europe/Berlin", `{"quota":5,"renews":"month from last day","zone":"Europe/Berlin"}`},
		"{quota: 5, renews: month since 2026-01-31T10:00:00Z}":         {"month since 2026-01-31T10:00:00Z", "UTC", `{"quota":5,"renews":"month since 2026-01-31T10:00:00Z","zone":"UTC"}`},
		"{capacity: 5, reset_schedule: [{cron: '*/15 * * * *'}]}":      {"*/15 * * * *", "UTC", `{"capacity":5,"reset_schedule":[{"cron":"*/15 * * * *","tz":"UTC"}]}`},
		"{capacity: 5, refill_amount: 0, refill_period: 1, reset_schedule: [{cron: 0 0 * * *, tz: Asia/Tokyo}, {cron: 0 9 * * MON, tz: Asia/Tokyo}]}": {
			"day; week from monday at 09:00", "Asia/Tokyo", `{"capacity":5,"reset_schedule":[{"cron":"0 0 * * *","tz":"Asia/Tokyo"},{"cron":"0 9 * * 1","tz":"Asia/Tokyo"}]}`,
		},
	} {
		m := parse(t, "namespace: prod\nsystem: {limits: {rpd: "+text+"}}\n")
		want := []store.Limit{{Name: "rpd", Capacity: 5, Renews: renewal(t, c.words, c.zone)}}
		if diff := cmp.Diff(want, m.Levels[store.ConfigKey{}].Limits, sameRenewal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		object, err := m.MarshalJSON()
		if err != nil || string(object) != `{"namespace":"prod","system":{"limits":{"rpd":`+c.exported+`}}}` {
			t.Errorf("%s is exported as %s, %v", text, object, err)
		}
		inYAML, err := m.YAML()
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{object, inYAML} {
			again, err := manifest.Parse("f", data)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			if diff := cmp.Diff(m, again, sameRenewal); diff != "" || m.Hash() != again.Hash() {
				t.Errorf("%s (-want +got):\n%s", data, diff)
			}
		}
	}
}

// The package's form has cron only: words, and several entries in one, are refused, as the package
// refuses them.
func TestAResetScheduleHasNoWords(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"day", "week from monday at 06:30", "0 0 * * *; 0 0 1 * *", "3 months since 2026-01-31T10:00:00Z", "0 0 * *"} {
		_, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {q: {capacity: 5, reset_schedule: [{cron: "+words+"}]}}}\n"))
		want := `f:2:60: system.limits.q.reset_schedule[0].cron: give five fields of cron, "0 0 * * *" for instance, not "` + words + `"; for words write quota and renews instead`
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A digest tells quotas apart, and one of rates is what earlier versions wrote.
func TestDigestsOfQuotas(t *testing.T) {
	t.Parallel()
	const former = "19e46cbb19d2"
	drifted := func(digest string, limits ...store.Limit) bool {
		changes := manifest.Diff(&manifest.Manifest{}, manifest.State{Owned: map[store.ConfigKey]string{{}: digest}},
			map[store.ConfigKey]manifest.Live{{}: {Config: &store.Config{Limits: limits}}}, false)
		return changes[0].Drift
	}
	if drifted(former, store.Limit{Name: "rpm", Capacity: 7, Amount: 5, Period: time.Minute}) {
		t.Error("the digest of a rate has changed")
	}
	if !drifted(former, store.Limit{Name: "rpm", Capacity: 7, Renews: renewal(t, "day", "")}) {
		t.Error("a quota has the digest of a rate")
	}
	digests := map[string]bool{}
	for _, l := range []store.Limit{
		{Name: "q", Capacity: 7, Renews: renewal(t, "day", "")},
		{Name: "q", Capacity: 7, Renews: renewal(t, "day", "Asia/Tokyo")},
		{Name: "q", Capacity: 7, Renews: renewal(t, "month", "")},
		{Name: "q", Capacity: 8, Renews: renewal(t, "day", "")},
	} {
		digests[manifest.DigestOf([]store.Limit{l})] = true
	}
	if len(digests) != 4 {
		t.Errorf("four quotas have the digests %v", digests)
	}
}

func TestPartsLeftOutDeclareNothing(t *testing.T) {
	t.Parallel()
	m := parse(t, "namespace: prod\nsystem:\nresources:\nentities: # none yet\n")
	if m.Name != manifest.DefaultName || len(m.Levels) != 0 {
		t.Errorf("got %+v", m)
	}
}

// Every finding has its position, and all are reported at once.
func TestFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty file":       {"", "f:1:1: the file is empty: give at least the namespace"},
		"comment only":     {"# nothing\n", "f:1:1: the file is empty: give at least the namespace"},
		"list":             {"- a\n", "f:1:1: give a mapping of names to values, not a list"},
		"no namespace":     {"system:\n", "f:1:1: the namespace is missing: give namespace: default, for instance"},
		"namespace number": {"namespace: 7\n", "f:1:12: namespace: give a string: YAML 1.1 reads 7 as a number, so write it in quotes"},
		"bad names": {
			"namespace: a b\nname: x/y\n",
			`f:1:12: namespace: invalid namespace "a b": use letters, digits and "_.-:@/" only` + "\n" +
				`f:2:7: name: invalid manifest name "x/y": use letters, digits and "_.-" only`,
		},
		"unknown key": {"namespace: a\nsystems:\n", "f:2:1: systems: unknown key: use entities, name, namespace, resources, system"},
		"duplicate": {
			"namespace: a\nresources:\n  r: {limits: {rpm: {capacity: 1}}}\n  r: {limits: {rpm: {capacity: 2}}}\n",
			`f:4:3: resources: the key "r" is there twice, first in line 3: remove one`,
		},
		"duplicate in JSON":  {`{"namespace": "a", "namespace": "b"}`, `f:1:20: the key "namespace" is there twice, first in line 1: remove one`},
		"second document":    {"namespace: a\n---\nnamespace: b\n", "f:2:1: the file has a second document: keep one manifest in a file"},
		"feature of a peer":  {"namespace: a\nresources:\n  r:\n    schedules: []\n    limits: {rpm: {capacity: 1, schedules: 5}}\n", `f:4:5: resources.r.schedules: "schedules" is not supported by this version: remove it, or manage this level with a client that supports it` + "\n" + `f:5:33: resources.r.limits.rpm.schedules: "schedules" is not supported by this version: remove it, or manage this level with a client that supports it`},
		"numbers":            {"namespace: a\nsystem:\n  limits:\n    a: {capacity: 0}\n    b: {capacity: -1}\n    c: {capacity: \"5\"}\n    d: {capacity: 1.5}\n    e: {capacity: 1, refill_period: }\n    f: {}\n    wcu: {capacity: 1}\n", "f:4:19: system.limits.a.capacity: give a whole number from 1 to 1000000000000000, not \"0\"\nf:5:19: system.limits.b.capacity: give a whole number from 1 to 1000000000000000, not \"-1\"\nf:6:19: system.limits.c.capacity: write the number 5 without quotes\nf:7:19: system.limits.d.capacity: give a whole number from 1 to 1000000000000000, not \"1.5\"\nf:8:37: system.limits.e.refill_period: give a whole number from 1 to 1000000000, not nothing\nf:9:8: system.limits.f: the rate is missing: give rate: 100/min, for instance\nf:10:5: system.limits.wcu: invalid limit name \"wcu\": the name is reserved, choose another"},
		"names with a hash":  {"namespace: a\nentities:\n  \"a#b\": {resources: {\"c#\": {limits: {rpm: {capacity: 1}}}}}\n", `f:3:3: entities.a#b: invalid entity "a#b": "#" separates the parts of a key and cannot be part of a name` + "\n" + `f:3:23: entities.a#b.resources.c#: invalid resource "c#": "#" separates the parts of a key and cannot be part of a name`},
		"level without":      {"namespace: a\nsystem: {}\nresources: {r: {}}\nentities: {e: {}}\n", "f:2:9: system: the level is empty: give limits, slots or on_unavailable, or remove it\nf:3:16: resources.r: the limits are missing: give limits, slots, disabled or cascade, or remove the level\nf:4:15: entities.e: the resources are missing: give resources with _default_ for limits of every resource, or a parent, or remove the entity"},
		"no limits":          {"namespace: a\nresources: {r: {limits: {}}}\n", "f:2:25: resources.r.limits: give at least one limit, or remove the level"},
		"outage":             {"namespace: a\nsystem: {on_unavailable: shrug}\n", `f:2:26: system.on_unavailable: give "block", "allow" or "share", not "shrug"`},
		"burst alone":        {"namespace: a\nsystem: {limits: {rpm: {capacity: 1, burst: 2}}}\n", "f:2:24: system.limits.rpm: burst needs refill_amount, which versions of the Python package take from different keys: write {rate: 1/min, burst: 2}"},
		"control characters": {"namespace: a\n\"x\\e[31m\\nf:9:9: y\": 1\n", `f:2:1: "x\x1b[31m\nf:9:9: y": unknown key: use entities, name, namespace, resources, system`},
		"octal":              {"namespace: a\nsystem: {limits: {rpm: {capacity: 0100}}}\n", "f:2:35: system.limits.rpm.capacity: write the number 0100 without zeros before it: some programs read it in base 8"},
		"exponent":           {"namespace: a\nsystem: {limits: {rpm: {capacity: 1e3}}}\n", `f:2:35: system.limits.rpm.capacity: give a whole number from 1 to 1000000000000000, not "1e3"`},
		"beyond 64 bits":     {"namespace: a\nsystem: {limits: {rpm: {capacity: 99999999999999999999}}}\n", `f:2:35: system.limits.rpm.capacity: give a whole number from 1 to 1000000000000000, not "99999999999999999999"`},
		"period in words":    {"namespace: a\nsystem: {limits: {rpm: {capacity: 5, refill_period: minute}}}\n", `f:2:53: system.limits.rpm.refill_period: give a whole number from 1 to 1000000000, not "minute"`},
		"a limit of nothing": {"namespace: a\nsystem: {limits: {rpm: {capacity: 5, refill_amount: 0}}}\n", `f:2:53: system.limits.rpm.refill_amount: give a whole number from 1 to 1000000000000000, not "0"`},
		"quota of nothing":   {"namespace: a\nsystem: {limits: {q: {quota: 0, renews: day}}}\n", `f:2:30: system.limits.q.quota: give a whole number from 1 to 1000000000000000, not "0"`},
		"quota without":      {"namespace: a\nsystem: {limits: {q: {quota: 5}, r: {renews: day}}}\n", "f:2:22: system.limits.q: renews is missing: give renews: day, for instance\nf:2:37: system.limits.r: the quota is missing: give quota: 1000, for instance"},
		"unknown calendar":   {"namespace: a\nsystem: {limits: {q: {quota: 5, renews: daily}}}\n", `f:2:41: system.limits.q.renews: invalid renewal "daily": it is not understood: write day, week from monday, month, month from day 31, month from last day, year, year from 29 february, month since 2026-01-31T10:00:00Z, each also with a time like at 06:30; or five fields of cron`},
		"unknown zone":       {"namespace: a\nsystem: {limits: {q: {quota: 5, renews: day, zone: Berlin}}}\n", `f:2:52: system.limits.q.zone: invalid renewal: zone "Berlin": it is not a name of the IANA time zone database, as this machine knows it: give a name like Europe/Berlin or UTC`},
		"two renewals":       {"namespace: a\nsystem: {limits: {q: {capacity: 5, reset_after_seconds: 9, reset_schedule: [{cron: 0 0 * * *}]}}}\n", `f:2:22: system.limits.q: a quota renews by a calendar or after its first use: remove reset_schedule, or reset_after_seconds`},
		"two zones":          {"namespace: a\nsystem: {limits: {q: {quota: 5, renews: day}, r: {quota: 5, renews: day, zone: Asia/Tokyo}}}\n", `f:2:18: system.limits: invalid limits "q in UTC, r in Asia/Tokyo": give all quotas and schedules of a level the same time zone`},
		"a refill resets":    {"namespace: a\nsystem: {limits: {q: {capacity: 5, refill_amount: 5, reset_schedule: [{cron: 0 0 * * *}]}}}\n", "f:2:51: system.limits.q.refill_amount: a limit refills or resets: remove refill_amount, or reset_schedule"},
		"resets at never":    {"namespace: a\nsystem: {limits: {q: {capacity: 5, reset_schedule: [{tz: UTC}]}, r: {capacity: 5, reset_schedule: []}}}\n", "f:2:53: system.limits.q.reset_schedule[0]: cron is missing: give cron: \"0 0 * * *\", for instance\nf:2:99: system.limits.r.reset_schedule: give at least one entry, or remove reset_schedule"},
		"resets in zones":    {"namespace: a\nsystem: {limits: {q: {capacity: 5, reset_schedule: [{cron: 0 0 * * *}, {cron: 0 0 1 * *, tz: Asia/Tokyo}]}}}\n", "f:2:52: system.limits.q.reset_schedule: the entries have the time zones UTC and Asia/Tokyo: give all of them the same"},
		"reserved name":      {"namespace: a\nsystem: {limits: {wcu: {capacity: 5}}}\n", `f:2:19: system.limits.wcu: invalid limit name "wcu": the name is reserved, choose another`},
		"tag":                {"namespace: a\nsystem: !mine {limits: {rpm: {capacity: !!mine 5}}}\n", "f:2:9: system: the tag !mine has no meaning here: remove it\nf:2:41: system.limits.rpm.capacity: the tag !!mine has no meaning here: remove it"},
		"line ends of DOS":   {"namespace: a\r\nsystem:\r\n  limits: {rpm: {capacity: -1}}\r\n", `f:3:28: system.limits.rpm.capacity: give a whole number from 1 to 1000000000000000, not "-1"`},
		"byte order mark":    {"\ufeffnamespace: a\nsystem: {limits: {rpm: {capacity: -1}}}\n", `f:2:35: system.limits.rpm.capacity: give a whole number from 1 to 1000000000000000, not "-1"`},
		"tab":                {"namespace: a\nsystem:\n\tlimits: {rpm: {capacity: 1}}\n", "f:3:1: not valid YAML or JSON: YAML allows no tab here: indent with spaces"},
		"not in UTF-8":       {"namespace: a\nsystem: {limits: {r\xffm: {capacity: 1}}}\n", "f:2:20: not valid YAML or JSON: invalid leading UTF-8 octet (value: 255)"},
		"terminal's":         {"namespace: a\n# é \x1b[31m\n", "f:2:5: not valid YAML or JSON: control characters are not allowed (value: 27)"},
		"only a comment":     {"# limits\n", "f:1:1: the file is empty: give at least the namespace"},
		"default of a level": {"namespace: a\nresources: {_default_: {limits: {rpm: {capacity: 1}}}}\n", `f:2:13: resources._default_: invalid resource "_default_": begin with a letter`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Parse("f", []byte(c.text))
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("got error %v", err)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestASyntaxErrorHasItsPosition(t *testing.T) {
	t.Parallel()
	for text, line := range map[string]int{
		"namespace: a\nresources: {r: {limits\n": 3,
		"namespace: a\n\tx: 1\n":                 2,
		`{"namespace": "a",,}`:                   1,
		"namespace: *nobody\n":                   1,
	} {
		_, err := manifest.Parse("f", []byte(text))
		wrong, ok := errors.AsType[*manifest.ParseError](err)
		if !ok || len(wrong.Findings) != 1 || wrong.Findings[0].Line != line || wrong.Findings[0].Column < 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnAliasStandsForItsAnchor(t *testing.T) {
	t.Parallel()
	m := parse(t, "namespace: a\nresources:\n  r: &r {limits: {rpm: {capacity: 1}}}\n  s: *r\n")
	if diff := cmp.Diff(m.Levels[key("", "r")], m.Levels[key("", "s")]); diff != "" || len(m.Levels) != 2 {
		t.Errorf("got %+v", m.Levels)
	}
}

// Whatever the input, Parse returns a manifest that survives its own encoding, or
// findings.
const widely = 2000

// wide is a mapping of many names to one value.
func wide(format string) string {
	var b strings.Builder
	for i := range widely {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

// Each file here is short, and means far more through aliases than memory can hold.
func TestAliasesCannotMakeAShortFileLarge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"mistakes": {
			"namespace: a\nresources: &r\n" + wide(`  "bad %d": {limits: {rpm: {capacity: 1}}}`) + "entities:\n" + wide("  e%d: {resources: *r}"),
			"there are more than 100 findings: correct these first",
		},
		"levels": {
			"namespace: a\nresources: &r\n" + wide("  r%d: &l {limits: {rpm: {capacity: 1}}}") + "entities:\n" + wide("  e%d: {resources: *r}"),
			"the file has more than 200000 levels: split it into manifests of different names",
		},
		"limits": {
			"namespace: a\nsystem: &s\n  limits:\n" + wide("    l%d: {capacity: 1}") + "resources:\n" + wide("  r%d: *s"),
			"give at most 32 limits, not 2000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Parse("f", []byte(c.text))
			wrong, ok := errors.AsType[*manifest.ParseError](err)
			if !ok || len(wrong.Findings) > 101 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.200v, without %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(`{"namespace":"a","resources":{"r":{"limits":{"rpm":{"capacity":1}}}}}`))
	f.Add([]byte("a: &a [*a]\nnamespace: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Parse("f", data)
		if err != nil {
			if wrong, ok := errors.AsType[*manifest.ParseError](err); !ok || len(wrong.Findings) == 0 {
				t.Fatalf("got error %v", err)
			}
			return
		}
		text, err := m.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, parse(t, string(text))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
