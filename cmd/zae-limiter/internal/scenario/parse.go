package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

// MaxBytes is the size of the largest file that [Parse] reads.
const MaxBytes = 1 << 20

// form is what a file of a scenario is, for messages.
var form = yamlfile.Form{
	MaxBytes: MaxBytes,
	TooLarge: "the file is larger than 1 MB: describe populations by their number of entities",
	Empty:    "the file is empty: give name, resources, entities and load",
	Second:   "the file has a second document: keep one scenario in a file",
}

type place = yamlfile.Place

// Parse reads a scenario from YAML or JSON. file is its name in errors. It fails with a
// [*ParseError], which has everything that is wrong with the file.
func Parse(file string, data []byte) (*Scenario, error) {
	r := &reader{Reader: yamlfile.NewReader(form), places: map[string]place{}}
	root, ok := r.Root(data)
	if ok {
		r.file(root)
	}
	if ok && root.IsMapping() && !r.Stopped {
		c := &checker{Scenario: &r.s}
		c.scenario()
		r.locate(root, c.findings)
	}
	if err := r.Err(file); err != nil {
		return nil, err
	}
	return &r.s, nil
}

// A reader makes a scenario of a file. Where a value is malformed it reports that, and
// takes a valid one instead, so that one mistake does not look like several. The checker
// finds the rest.
type reader struct {
	*yamlfile.Reader

	s Scenario
	// places are the values of the file by their path, for the findings of the checker.
	places map[string]place
}

// locate adds the findings of the checker with their positions, except about values that
// the reader could not read.
func (r *reader) locate(root place, findings []Finding) {
	malformed := slices.Clone(r.Findings)
	for _, f := range findings {
		p, path := root, f.Path
		for ; path != ""; path = parent(path) {
			if known, ok := r.places[path]; ok {
				p = known
				break
			}
		}
		if path == f.Path {
			f.Path = p.Path // a value may stand for another one
		}
		related := func(o Finding) bool { return below(o.Path, f.Path) || below(f.Path, o.Path) }
		if slices.ContainsFunc(malformed, related) {
			continue
		}
		p.Path = f.Path
		r.Find(p, "%s", f.Reason)
	}
}

// parent is the path without its last part.
func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// below reports whether a path leads to a value in or at that of another path.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// maxValues bounds what a file means. Aliases can repeat a value far more often than the
// file is long.
const maxValues = 100_000

// keep remembers where a value is. Findings about a mapping or list point at its key.
func (r *reader) keep(key, value place) {
	if value.IsScalar() {
		key = value
	}
	key.Path = value.Path
	r.places[value.Path] = key
	if len(r.places) > maxValues && !r.Stopped {
		r.Find(key, "the file has more than %d values: use fewer or shorter lists", maxValues)
		r.Stopped = true
	}
}

// fields is Fields, and remembers the places.
func (r *reader) fields(p place, known map[string]func(place)) {
	if p.IsMapping() {
		for key, value := range p.Pairs() {
			r.keep(key, value)
		}
	}
	r.Fields(p, known)
}

// entries is Entries up to a number of keys, and remembers the places.
func (r *reader) entries(p place, most int, each func(name string, value place)) {
	if p.IsMapping() && p.Len() > most {
		r.Find(p, "give at most %d of them, not %d", most, p.Len())
		return
	}
	r.Entries(p, func(name string, key, value place) {
		r.keep(key, value)
		each(name, value)
	})
}

// items is Items up to a number of items, and remembers the places.
func (r *reader) items(p place, most int, each func(item place)) {
	if p.IsList() && p.Len() > most {
		r.Find(p, "give at most %d of them, not %d", most, p.Len())
		return
	}
	r.Items(p, func(_ int, item place) {
		r.keep(item, item)
		each(item)
	})
}

// notEmpty reports a list without items.
func (r *reader) notEmpty(p place, what string) {
	if p.IsList() && p.Len() == 0 {
		r.Find(p, "give at least one %s", what)
	}
}

const missing = "this key is missing: "

// require reports keys that a mapping lacks.
func (r *reader) require(p place, what map[string]string) {
	if !p.IsMapping() {
		return
	}
	for key, value := range p.Pairs() {
		if !value.IsNull() {
			delete(what, key.Node.Value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(what)) {
		r.Find(p.Below(key), missing+"give %s", what[key])
	}
}

func (r *reader) file(root place) {
	r.s = Scenario{Limiters: 1, Sides: []Side{Limiter}}
	r.s.Name = "unnamed" // a file without a name is refused below
	var load place
	r.fields(root, map[string]func(place){
		"name":      func(p place) { r.s.Name = r.text(p, "unnamed") },
		"about":     func(p place) { r.s.About = strings.TrimSpace(r.text(p, "")) },
		"seed":      func(p place) { r.s.Seed = r.seed(p) },
		"warm-up":   func(p place) { r.s.WarmUp = r.duration(p) },
		"limiters":  func(p place) { r.s.Limiters = int(r.number(p, 1, maxLimiters)) },
		"duration":  func(p place) { r.onlyDuration(p) },
		"phases":    func(p place) { r.phases(p) },
		"sides":     func(p place) { r.sides(p) },
		"resources": func(p place) { r.resources(p) },
		"entities":  func(p place) { r.populations(p) },
		"load":      func(p place) { load = p },
	})
	r.require(root, map[string]string{
		"name": "a name for results", "resources": "names of resources and their limits", "entities": "names of populations and their count",
		"load": "names of classes and what they do",
	})
	r.exactlyOne(root, "duration", "phases")
	if len(r.s.Phases) == 0 {
		r.s.Phases = []Phase{{Name: onlyPhase, For: time.Minute}}
	}
	if load.Node != nil {
		r.classes(load)
	}
}

// onlyPhase is the name of the phase of a scenario without phases.
const onlyPhase = "all"

// exactlyOne reports a mapping that does not have exactly one of some keys.
func (r *reader) exactlyOne(p place, keys ...string) {
	if !p.IsMapping() {
		return
	}
	var there []place
	for key := range p.Pairs() {
		if slices.Contains(keys, key.Node.Value) {
			there = append(there, key)
		}
	}
	list := strings.Join(keys[:len(keys)-1], ", ") + " or " + keys[len(keys)-1]
	switch {
	case len(there) == 0:
		r.Find(p, "give one of %s", list)
	case len(there) > 1:
		r.Find(there[1], "give only one of %s", list)
	}
}

func (r *reader) onlyDuration(p place) {
	r.places["phases[0].for"] = p
	r.s.Phases = []Phase{{Name: onlyPhase, For: r.duration(p)}}
}

func (r *reader) phases(p place) {
	r.s.Phases = nil
	r.notEmpty(p, "phase")
	r.items(p, maxPhases, func(item place) {
		phase := Phase{For: time.Minute, Name: fmt.Sprintf("phase-%d", len(r.s.Phases)+1)}
		r.fields(item, map[string]func(place){
			"name": func(p place) { phase.Name = r.text(p, phase.Name) },
			"for":  func(p place) { phase.For = r.duration(p) },
		})
		r.require(item, map[string]string{"name": "a name", "for": "a duration: 10s, for instance"})
		r.s.Phases = append(r.s.Phases, phase)
	})
}

func (r *reader) sides(p place) {
	r.s.Sides = nil
	r.items(p, len(sides), func(item place) { r.s.Sides = append(r.s.Sides, Side(r.text(item, string(Limiter)))) })
}

func (r *reader) resources(p place) {
	r.entries(p, maxResources, func(name string, value place) {
		r.s.Resources = append(r.s.Resources, Resource{Name: name, Limits: r.limits(value)})
	})
}

// limits reads a list of limits as the command line spells them.
func (r *reader) limits(p place) []store.Limit {
	limits := []store.Limit{}
	r.items(p, store.MaxLimits, func(item place) {
		spelled, ok := r.Text(item)
		if !ok {
			return
		}
		l, err := limitarg.Parse(spelled)
		if err != nil {
			r.Find(item, "%v", err)
			// The rest of the file may name it.
			name, _, _ := strings.Cut(spelled, ":")
			l = store.Limit{Name: name, Capacity: store.MaxTokens, Amount: 1, Period: time.Minute}
		}
		if slices.ContainsFunc(limits, func(o store.Limit) bool { return o.Name == l.Name }) {
			r.Find(item, "limit %s is there twice: remove one", l.Name)
		}
		limits = append(limits, l)
	})
	return limits
}

func (r *reader) populations(p place) {
	r.entries(p, maxPopulations, func(name string, value place) {
		of := Population{Name: name, Count: 1}
		r.fields(value, map[string]func(place){
			"count":     func(p place) { of.Count = int(r.number(p, 1, maxEntities)) },
			"parents":   func(p place) { of.Parents = int(r.number(p, 0, maxEntities)) },
			"limits":    func(p place) { of.Limits = r.limits(p) },
			"limited":   func(p place) { of.Limited = int(r.number(p, 1, maxEntities)) },
			"exhausted": func(p place) { of.Exhausted = r.Bool(p) },
			"new":       func(p place) { of.New = r.Bool(p) },
		})
		r.require(value, map[string]string{"count": "the number of entities"})
		r.s.Populations = append(r.s.Populations, of)
	})
}
