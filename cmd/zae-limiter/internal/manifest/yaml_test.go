package manifest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/store"
)

// A number means what PyYAML reads, or is refused. The conformance suite compares more of
// them with PyYAML itself.
func TestNumbersMeanWhatPyYAMLReads(t *testing.T) {
	t.Parallel()
	const digits, zeros, whole, quotes = "decimal digits", "zeros before it", "give a whole number", "without quotes"
	for text, want := range map[string]any{
		"7": 7, "1_000": 1000, "1__0": 10, "1_": 1, "+5": 5, "!!int 5": 5, "!!int '5'": 5, "!!int 1_0": 10, "&a 5": 5,
		"017": zeros, "08": zeros, "0_17": zeros, "0x1F": digits, "0b11": digits, "0x_1": digits, "1:30": digits, "190:20:30": digits,
		"'5'": quotes, `"5"`: quotes, "!!str 5": quotes,
		"0o17": whole, "1e3": whole, "1.5e+3": whole, "1_000.0": whole, "5.0": whole, ".inf": whole, ".nan": whole, "1:30.5": whole,
		"yes": whole, "on": whole, "true": whole, "~": whole, "": whole, "2024-01-02": whole, "1,000": whole, "_1": whole, "-1": whole, "-1_0": whole,
		"0": whole, "!!int x": whole, "!!float 5": whole, "! 5": "has no meaning here",
	} {
		m, err := manifest.Parse("f", fmt.Appendf(nil, "namespace: a\nsystem:\n  limits:\n    rpm:\n      capacity: %s\n", text))
		if number, ok := want.(int); ok {
			if err != nil || m.Levels[store.ConfigKey{}].Limits[0].Capacity != int64(number) {
				t.Errorf("%q is %+v (%v), want %d", text, m, err, number)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// A name means its text, or is refused: for PyYAML some names are no strings.
func TestNamesMeanTheirText(t *testing.T) {
	t.Parallel()
	const quotes = "write the name in quotes"
	for text, want := range map[string]string{
		"key-1": "", "7": "", "1e3": "", "0o17": "", "1_000": quotes, "'1_000'": "", `"yes"`: "", "!!str yes": "", "y": "", "'0x1F'": "",
		"yes": quotes, "On": quotes, "off": quotes, "017": quotes, "0x1F": quotes, "1:30": quotes, "1.10": quotes, "2024-01-02": quotes, "true": quotes, "1.5": quotes,
	} {
		m, err := manifest.Parse("f", fmt.Appendf(nil, "namespace: a\nentities:\n  %s: {resources: {r: {limits: {rpm: {rate: 1}}}}}\n", text))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", text, err, want)
			}
			continue
		}
		name := strings.Trim(strings.TrimPrefix(text, "!!str "), `"'`)
		if err != nil || len(m.Levels[key(name, "r")].Limits) != 1 {
			t.Errorf("%q: got %+v, %v", text, m, err)
			continue
		}
		// An export quotes the names that need it.
		out, err := m.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, parse(t, string(out))); diff != "" {
			t.Errorf("%q is exported as another name (-want +got):\n%s", text, diff)
		}
	}
	if _, err := manifest.Parse("f", []byte("namespace: yes\n")); err == nil || !strings.Contains(err.Error(), "YAML 1.1 reads yes as true or false, so write it in quotes") {
		t.Errorf("a namespace that is no string: %v", err)
	}
}

// Merge keys bring in what PyYAML brings in: a key of the mapping itself wins.
func TestMergeKeys(t *testing.T) {
	t.Parallel()
	const (
		free  = "namespace: a\nx-free: &free {rpm: {capacity: 3}, tpm: {capacity: 1000}}\nx-paid: &paid {tpm: {capacity: 7000}, rpd: {capacity: 9}}\n"
		limit = "resources:\n  r:\n    limits:\n"
	)
	for name, c := range map[string]struct{ text, want string }{
		"an own key wins":      {free + limit + "      <<: *free\n      tpm: {capacity: 2000}\n", "rpm:3/min,tpm:2000/min"},
		"also before it":       {free + limit + "      tpm: {capacity: 2000}\n      <<: *free\n", "rpm:3/min,tpm:2000/min"},
		"a list":               {free + limit + "      <<: [*paid, *free]\n      tpm: {capacity: 5}\n", "rpd:9/min,rpm:3/min,tpm:5/min"},
		"a list that overlaps": {free + limit + "      <<: [*paid, *free]\n", `f:7:7: resources.r.limits: versions of PyYAML differ in which "tpm" of two merged mappings they take: write it here, too`},
		"one by two ways":      {free + "x-more: &more {<<: *free, rpd: {capacity: 1}}\n" + limit + "      <<: [*more, *free]\n", "rpd:1/min,rpm:3/min,tpm:1000/min"},
		"a list by an alias":   {free + "x-both: &both [*free, *paid]\n" + limit + "      <<: *both\n      tpm: {rate: 4}\n", "rpd:9/min,rpm:3/min,tpm:4/min"},
		"nested":               {free + "x-more: &more {<<: *free, rpd: {capacity: 1}}\n" + limit + "      <<: *more\n      rpm: {capacity: 5}\n", "rpd:1/min,rpm:5/min,tpm:1000/min"},
		"written out":          {"namespace: a\n" + limit + "      <<: {rpm: {capacity: 1}}\n", "rpm:1/min"},
		"with a tag":           {free + limit + "      !!merge <<: *free\n", "rpm:3/min,tpm:1000/min"},
		"inside a limit":       {"namespace: a\nx-hour: &hour {capacity: 60, refill_period: 3600}\n" + limit + "      rpm: {<<: *hour, capacity: 5}\n", "rpm:5/hour"},
		"of the file":          {"x-base: &base {namespace: a}\n<<: *base\n" + limit + "      rpm: {rate: 1}\n", "rpm:1/min"},
		"a level":              {"namespace: a\nx-l: &l {limits: {rpm: {rate: 2}}}\nresources:\n  r: {<<: *l}\n", "rpm:2/min"},
		"an anchor on a value": {"namespace: a\nx-n: &n 1_000\n" + limit + "      rpm: {capacity: *n}\n", "rpm:1000/min"},
		"an anchor on a key":   {"namespace: a\nx-n: &n rpm\n" + limit + "      *n : {rate: 1}\n", "rpm:1/min"},
		"of nothing":           {free + limit + "      <<:\n", "resources.r.limits: a merge key takes a mapping or a list of mappings, not nothing"},
		"of a number":          {free + limit + "      <<: [*free, 5]\n", `resources.r.limits: a merge key takes a mapping or a list of mappings, not "5"`},
		"twice":                {free + limit + "      <<: *free\n      <<: *paid\n", "resources.r.limits: the merge key is there twice, first in line 7: give it one list, [*a, *b]"},
		"of itself":            {"namespace: a\nresources: &r\n  r: {limits: {rpm: {rate: 1}}}\n  <<: *r\n", "resources: a mapping cannot merge itself: name another one"},
		"in quotes is a name":  {free + limit + "      '<<': {rate: 1}\n", `resources.r.limits.<<: invalid limit name "<<"`},
		"twice in a template":  {"namespace: a\nx-t: &t {rpm: {rate: 1}, rpm: {rate: 2}}\n" + limit + "      <<: *t\n", `x-t: the key "rpm" is there twice, first in line 2: remove one`},
		"a template elsewhere": {"namespace: a\nsystem: {x-t: {}, on_unavailable: block}\n", "system.x-t: unknown key"},
		"a wrong template":     {"namespace: a\nx-t: &t {rpm: {rate: zero}}\n" + limit + "      <<: *t\n", `f:2:22: resources.r.limits.rpm.rate: rate "zero": give a whole number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := manifest.Parse("f", []byte(c.text))
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			limits := limitarg.Limits(m.Levels[key("", "r")].Limits)
			if got := limits.String(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A rate and a burst mean what they mean on the command line.
func TestARateIsThatOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, rate := range []string{"10000", "10000/min", "5/s", "10/5min", "100/hour", "7/2days", "0/min", "1/week", "1/0min", "1.5/min", "1_000/min", "x", "", "-1/min", "1000000000000001/day", "1/1000000001sec"} {
		for _, burst := range []string{"", "3", "15000"} {
			arg, text := "tpm:"+rate, "{rate: '"+rate+"'"
			if burst != "" {
				arg, text = arg+":"+burst, text+", burst: "+burst
			}
			want, wrong := limitarg.Parse(arg)
			m, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {tpm: "+text+"}}}\n"))
			if (wrong == nil) != (err == nil) || wrong != nil && !strings.Contains(err.Error(), wrong.Error()) {
				t.Errorf("%s: got %v; %s: got %v", text, err, arg, wrong)
				continue
			}
			if err == nil && m.Levels[store.ConfigKey{}].Limits[0] != want {
				t.Errorf("%s is %+v, want %+v", text, m.Levels[store.ConfigKey{}].Limits[0], want)
			}
		}
	}
}

// Each form of a limit means one thing, and what would have no effect is refused.
func TestFormsOfALimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"{rate: 500/min, burst: 750}": limit("rpm", 750, 500, time.Minute),
		"{rate: 1_000}":               limit("rpm", 1000, 1000, time.Minute),
		"{capacity: 500}":             limit("rpm", 500, 500, time.Minute),

		"{capacity: 500, refill_amount: 500, burst: 750}":                   limit("rpm", 750, 500, time.Minute),
		"{capacity: 750, refill_amount: 500, burst: 750}":                   limit("rpm", 750, 500, time.Minute),
		"{capacity: 750, refill_amount: 500, refill_period: 3600}":          limit("rpm", 750, 500, time.Hour),
		"{capacity: 500, burst: 750}":                                       "burst needs refill_amount, which versions of the Python package take from different keys: write {rate: 500/min, burst: 750}",
		"{capacity: 500, burst: 750, refill_period: 3600}":                  "write {rate: 500/hour, burst: 750}",
		"{capacity: 500, refill_amount: 600, burst: 750}":                   "capacity 500 has no effect, because burst 750 replaces it: write {rate: 600/min, burst: 750}",
		"{refill_amount: 600, burst: 750, refill_period: 5}":                "the capacity is missing: write {rate: 600/5sec, burst: 750} instead",
		"{refill_amount: 600}":                                              "the capacity is missing: give the most tokens that the limit holds",
		"{burst: 5}":                                                        "the rate is missing: give rate: 100/min, for instance",
		"{rate: 5/min, capacity: 10}":                                       "give rate and burst, or capacity, refill_amount and refill_period, and not both",
		"{rate: 100/min:150}":                                               "give the burst on its own: {rate: 100/min, burst: 150}",
		"100/min":                                                           `give the parts of the limit, {rate: 100/min, burst: 150} for instance, not "100/min"`,
		"{rate: 100/min, period: 5}":                                        "unknown key: use burst, mode, rate",
		"{rate: 1:30}":                                                      "write the number in decimal digits",
		"{rate: {per: min}}":                                                "give a whole number",
		"{capacity: 5, rate: 1/min, burst: 3, refill_amount: 4, period: 6}": "give rate and burst, or capacity",
	} {
		m, err := manifest.Parse("f", []byte("namespace: a\nsystem: {limits: {rpm: "+text+"}}\n"))
		if reason, ok := want.(string); ok {
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: got %v, want %s", text, err, reason)
			}
			continue
		}
		if err != nil || m.Levels[store.ConfigKey{}].Limits[0] != want {
			t.Errorf("%s: got %+v, %v", text, m, err)
		}
	}
}
