package scenario_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

var update = flag.Bool("update", false, "write the golden files")

// everything is a file with every key.
const everything = `
name: all-keys
about: |
  Two sentences.
  In two lines.
seed: 18446744073709551615
warm-up: 1s
limiters: 3
phases: [{name: quiet, for: 10s}, {name: loud, for: 1m30s}]
sides: [limiter, shared]
resources:
  a: [rpm:500/min, tpm:800000/min:900000]
  b: [rpm:500/min, tpm:1000000/hour]
entities:
  tenants: {count: 64, parents: 2, limits: [rpm:5/sec, tpm:3000/min], limited: 10, exhausted: true}
  whale: {count: 1, new: true}
load:
  Open:
    from: [{entities: whale, weight: 50}, {entities: tenants, pick: power-law 1.5}, {entities: tenants, weight: 3, pick: rotating 30s}, {entities: tenants, pick: in-turn}]
    resources: {a: 2, b: 1}
    apart: true
    phases: [loud]
    calls:
      - {call: acquire, weight: 15, consume: {rpm: 1, tpm: 0..800 p50=100}, settle: {tpm: 200..2000, rpm: 50%..90% p50=60%}, hold: 1s..3s}
      - {call: available, weight: 5, consume: {rpm: 1}}
      - {call: set-limits}
      - {call: get-limits}
      - {call: get-entity}
    poisson: true
    clients: 128
    stages: [{for: 10s, rate: 100/s..500/s}, {rate: 30/min}]
  Closed:
    from: {entities: whale, pick: random}
    resources: [b]
    calls: [{call: acquire, consume: {tpm: 5}}]
    stages: [{for: 10s, users: 50, spawn: 2.5}, {users: 10}]
    think: 0.5s..2s
`

func TestParse(t *testing.T) {
	t.Parallel()
	limit := func(name string, amount, capacity int64, period time.Duration) store.Limit {
		return store.Limit{Name: name, Amount: amount, Capacity: capacity, Period: period}
	}
	want := &scenario.Scenario{
		Name: "all-keys", About: "Two sentences.\nIn two lines.", Seed: 1<<64 - 1, WarmUp: time.Second, Limiters: 3,
		Phases: []scenario.Phase{{Name: "quiet", For: 10 * time.Second}, {Name: "loud", For: 90 * time.Second}},
		Sides:  []scenario.Side{scenario.Limiter, scenario.Shared},
		Resources: []scenario.Resource{
			{Name: "a", Limits: []store.Limit{limit("rpm", 500, 500, time.Minute), limit("tpm", 800_000, 900_000, time.Minute)}},
			{Name: "b", Limits: []store.Limit{limit("rpm", 500, 500, time.Minute), limit("tpm", 1_000_000, 1_000_000, time.Hour)}},
		},
		Populations: []scenario.Population{
			{Name: "tenants", Count: 64, Parents: 2, Limited: 10, Exhausted: true, Limits: []store.Limit{limit("rpm", 5, 5, time.Second), limit("tpm", 3000, 3000, time.Minute)}},
			{Name: "whale", Count: 1, New: true},
		},
		Classes: []scenario.Class{
			{
				Name: "Open", Apart: true, Phases: []int{1},
				From: []scenario.Share{
					{Population: 1, Weight: 50},
					{Weight: 1, Pick: scenario.Pick{Kind: scenario.PickPowerLaw, Alpha: 1.5}},
					{Weight: 3, Pick: scenario.Pick{Kind: scenario.PickRotating, For: 30 * time.Second}},
					{Weight: 1, Pick: scenario.Pick{Kind: scenario.PickInTurn}},
				},
				Resources: []scenario.Weighted{{Index: 0, Weight: 2}, {Index: 1, Weight: 1}},
				Calls: []scenario.Call{
					{
						Weight: 15, Consume: []scenario.Amount{{Limit: "rpm", Least: 1, Most: 1}, {Limit: "tpm", Most: 800, Median: 100}},
						Settle: []scenario.Amount{{Limit: "tpm", Least: 200, Most: 2000}, {Limit: "rpm", Least: 50, Most: 90, Median: 60, Percent: true}},
						Hold:   scenario.Span{Least: time.Second, Most: 3 * time.Second},
					},
					{Weight: 5, Kind: scenario.Available, Consume: []scenario.Amount{{Limit: "rpm", Least: 1, Most: 1}}},
					{Weight: 1, Kind: scenario.SetLimits},
					{Weight: 1, Kind: scenario.GetLimits},
					{Weight: 1, Kind: scenario.GetEntity},
				},
				Arrival: scenario.Arrival{Poisson: true, Clients: 128, Stages: []scenario.Stage{
					{For: 10 * time.Second, FromRate: 100, ToRate: 500}, {FromRate: 0.5, ToRate: 0.5},
				}},
			},
			{
				Name: "Closed", From: []scenario.Share{{Population: 1, Weight: 1}}, Resources: []scenario.Weighted{{Index: 1, Weight: 1}},
				Calls: []scenario.Call{{Weight: 1, Consume: []scenario.Amount{{Limit: "tpm", Least: 5, Most: 5}}}},
				Arrival: scenario.Arrival{
					Think:  scenario.Span{Least: 500 * time.Millisecond, Most: 2 * time.Second},
					Stages: []scenario.Stage{{For: 10 * time.Second, Users: 50, Spawn: 2.5}, {Users: 10}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, parse(t, everything)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := parse(t, "name: a\nduration: 1s\nresources: {r: [x:5], q: [x:5]}\nentities: {e: {count: 2}}\nload:\n  C: {calls: [{call: acquire, consume: {x: 1}}], rate: 1/s}\n")
	c := s.Classes[0]
	if s.Limiters != 1 || s.WarmUp != 0 || s.Seed != 0 || !cmp.Equal(s.Sides, []scenario.Side{scenario.Limiter}) || len(s.Phases) != 1 || s.Phases[0].For != time.Second {
		t.Errorf("%+v", s)
	}
	if c.Arrival.Clients != 256 || len(c.Resources) != 2 || !cmp.Equal(c.From, []scenario.Share{{Weight: 1}}) || !c.Active(0) {
		t.Errorf("%+v", c)
	}
}

// Each file in testdata/findings has mistakes. The golden file has what is reported.
func TestFindings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "findings", "*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = scenario.Parse(filepath.Base(file), data)
			if !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("got error %v", err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if diff := cmp.Diff(string(want), err.Error()+"\n"); diff != "" {
				t.Errorf("record it with -update (-want +got):\n%s", diff)
			}
		})
	}
}

// A scenario made in Go meets the same checks, with the same paths.
func TestValidate(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*scenario.Scenario){
		"name: invalid name":                    func(s *scenario.Scenario) { s.Name = "" },
		"about: use characters":                 func(s *scenario.Scenario) { s.About = "\x1b[31m" },
		"warm-up: give a duration":              func(s *scenario.Scenario) { s.WarmUp = -1 },
		"limiters: give a whole number":         func(s *scenario.Scenario) { s.Limiters = 0 },
		"limiters: there are more":              func(s *scenario.Scenario) { s.Limiters = 513 },
		"sides: give at least one":              func(s *scenario.Scenario) { s.Sides = nil },
		`sides[0]: unknown side "x"`:            func(s *scenario.Scenario) { s.Sides[0] = "x" },
		"phases: give at least one":             func(s *scenario.Scenario) { s.Phases = nil },
		"phases[0].for: give a duration":        func(s *scenario.Scenario) { s.Phases[0].For = 0 },
		"resources: give at least one":          func(s *scenario.Scenario) { s.Resources = nil },
		"resources.a: give at least one":        func(s *scenario.Scenario) { s.Resources[0].Limits = nil },
		"entities.tenants.count: give a":        func(s *scenario.Scenario) { s.Populations[0].Count = -5 },
		"entities.tenants.parents: give":        func(s *scenario.Scenario) { s.Populations[0].Parents = 65 },
		"load: give at least one":               func(s *scenario.Scenario) { s.Classes = nil },
		"load.Open: class \"Open\" is there":    func(s *scenario.Scenario) { s.Classes[1].Name = "Open" },
		"load.Open.from[0].entities: there is":  func(s *scenario.Scenario) { s.Classes[0].From[0].Population = 2 },
		"load.Open.from[0].weight: give a":      func(s *scenario.Scenario) { s.Classes[0].From[0].Weight = 0 },
		"load.Open.from[1].pick: give an":       func(s *scenario.Scenario) { s.Classes[0].From[1].Pick.Alpha = 0 },
		"load.Open.from[3].pick: unknown":       func(s *scenario.Scenario) { s.Classes[0].From[3].Pick.Kind = 77 },
		"load.Open.resources[0]: there is no":   func(s *scenario.Scenario) { s.Classes[0].Resources[0].Index = -1 },
		"load.Open.phases[0]: there is no":      func(s *scenario.Scenario) { s.Classes[0].Phases[0] = 2 },
		"load.Open.phases: give at least":       func(s *scenario.Scenario) { s.Classes[0].Phases = []int{} },
		"load.Open.calls[0].call: unknown":      func(s *scenario.Scenario) { s.Classes[0].Calls[0].Kind = 10 },
		"load.Open.calls[2].consume: set-":      func(s *scenario.Scenario) { s.Classes[0].Calls[2].Consume = s.Classes[0].Calls[1].Consume },
		"load.Open.calls[0].hold: give a":       func(s *scenario.Scenario) { s.Classes[0].Calls[0].Hold.Least = -1 },
		"load.Open.calls[0].consume.tpm: give":  func(s *scenario.Scenario) { s.Classes[0].Calls[0].Consume[1].Percent = true },
		"load.Open.calls[0].consume.tpm: ":      func(s *scenario.Scenario) { s.Classes[0].Calls[0].Consume[1].Most = store.MaxTokens },
		"load.Open.stages[0].rate: give":        func(s *scenario.Scenario) { s.Classes[0].Arrival.Stages[0].ToRate = 1e300 },
		"load.Open.clients: give a":             func(s *scenario.Scenario) { s.Classes[0].Arrival.Clients = 0 },
		"load.Closed.stages: nothing is ever":   func(s *scenario.Scenario) { s.Classes[1].Arrival.Stages = []scenario.Stage{{}} },
		"load.Closed.stages[0].spawn: give":     func(s *scenario.Scenario) { s.Classes[1].Arrival.Stages[0].Spawn = -1 },
		"load.Closed.calls: give at most 100":   func(s *scenario.Scenario) { s.Classes[1].Calls = make([]scenario.Call, 101) },
		"load.Closed.think: give a duration":    func(s *scenario.Scenario) { s.Classes[1].Arrival.Think.Most = 0 },
		"resources: give at most 1000 of them":  func(s *scenario.Scenario) { s.Resources = make([]scenario.Resource, 1001) },
		"entities: there are more than 100000 ": func(s *scenario.Scenario) { s.Populations[1].Count = 99_990 },
	} {
		s := parse(t, everything)
		change(s)
		err := s.Validate()
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), ": "+want) || !strings.HasPrefix(err.Error(), "scenario "+s.Name) {
			t.Errorf("%v\nwant %s", err, want)
		}
		if _, planned := s.Plan(); !errors.Is(planned, store.ErrInvalid) {
			t.Errorf("%s: a plan was made", want)
		}
	}
}

// Each of these files is short, and means far more through aliases, or asks for far more
// memory, than anybody has.
func TestShortFilesStaySmall(t *testing.T) {
	t.Parallel()
	head := "name: a\nduration: 1s\nresources: {r: [x:5]}\nentities: {e: {count: 1}}\n"
	var aliased, laws, shares strings.Builder
	aliased.WriteString("load:\n")
	fmt.Fprintf(&aliased, "  c: &c {users: 1, calls: [&k {call: acquire, consume: &x {x: 1}}%s]}\n", strings.Repeat(", *k", 99))
	for i := range 99 {
		fmt.Fprintf(&aliased, "  c%d: &c {users: 1, calls: [&k {call: acquire, consume: &x {%s}}%s]}\n", i, limits(32), strings.Repeat(", *k", 99))
	}
	for i := range 100 {
		fmt.Fprintf(&shares, "      - {entities: e, pick: power-law 1.%d}\n", i+1)
	}
	laws.WriteString("name: a\nduration: 1s\nresources: {r: [x:5]}\nentities: {e: {count: 100000}}\nload:\n  c:\n    users: 1\n    calls: [{call: acquire, consume: {x: 1}}]\n    from:\n" + shares.String())
	for text, want := range map[string]string{
		head + aliased.String():                  "the file has more than 100000 values: use fewer or shorter lists",
		laws.String():                            "the power laws are over more than 1000000 entities together",
		strings.Repeat("#", scenario.MaxBytes+1): "the file is larger than 1 MB",
		head + "load: &l\n  c: *l\n":             "unknown key",
		"name: a\nduration: 1s\nresources: {r: [x:5]}\nentities:\n" + many("  e%d: {count: 100000}\n", 900): "there are more than 100000 entities",
	} {
		_, err := scenario.Parse("f", []byte(text))
		wrong, ok := errors.AsType[*scenario.ParseError](err)
		if !ok || len(wrong.Findings) > 101 || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.300v, without %q", err, want)
		}
	}
}

func limits(n int) string { return strings.TrimSuffix(many("l%d: 1, ", n), ", ") }

func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Whatever the input, Parse returns a scenario whose plan has operations, or findings.
func FuzzParse(f *testing.F) {
	for _, name := range scenario.Names() {
		data, err := scenario.Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{mixed, everything, "a: &a [*a]\nload: *a\n", `{"name":"a","duration":"1s"}`, "load: {c: {from: [{}], calls: [{}], stages: [{}]}}", "name: [", "%"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scenario.Parse("f", data)
		if err != nil {
			wrong, ok := errors.AsType[*scenario.ParseError](err)
			if !ok || len(wrong.Findings) == 0 {
				t.Fatalf("got error %v", err)
			}
			return
		}
		p, err := s.Plan()
		if err != nil {
			t.Fatal(err)
		}
		var op scenario.Op
		for i := range p.Classes {
			schedule := p.Schedule(i, 0)
			last := time.Duration(0)
			for n := range int64(20) {
				p.Op(i, n, last, &op)
				if e := p.Entities[op.Entity]; e.IsParent || op.Resource >= len(p.Resources) || op.Call >= len(p.Classes[i].Calls) {
					t.Fatalf("%+v", op)
				}
				for j, most := range p.Resources[op.Resource].Limits {
					if op.Consume[j] < 0 || op.Consume[j] > most.Capacity || op.Settle[j] < 0 {
						t.Fatalf("%+v", op)
					}
				}
				next, ok := schedule.Next()
				if ok && (next < last || next >= p.Duration()) {
					t.Fatalf("%v after %v", next, last)
				}
				last = max(last, next)
			}
			if schedule.Users(last) < 0 {
				t.Fatal("users below 0")
			}
		}
		// A longer run may have more operations than new entities.
		isNew := func(p scenario.Population) bool { return p.New }
		if _, err := s.Scaled(time.Hour).Plan(); err != nil && s.Duration() >= time.Minute && !slices.ContainsFunc(s.Populations, isNew) {
			t.Fatalf("scaled: %v", err)
		}
	})
}
