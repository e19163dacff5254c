package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/yamlfile"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of a scenario. They keep a mistake in a file from using up the memory of the
// generator, or from loading a table longer or harder than anybody wants.
const (
	maxDuration    = 24 * time.Hour
	minDuration    = time.Millisecond
	maxRate        = 1_000_000
	maxClients     = 100_000
	maxLimiters    = 1_000
	maxEntities    = 100_000 // with parents, of all populations
	maxResources   = 1_000
	maxPopulations = 1_000
	maxClasses     = 100
	maxCalls       = 100
	maxShares      = 100
	maxPhases      = 100
	maxStages      = 1_000
	maxWeight      = 1_000_000
	maxAlpha       = 10
	maxLawEntities = 1_000_000 // of all different power laws
	maxPercent     = 1_000
	maxAbout       = 1_000
	maxName        = 64
)

// A Finding is one reason why a scenario is not valid.
type Finding = yamlfile.Finding

// A ParseError has all findings about a file or scenario. It is [store.ErrInvalid].
type ParseError = yamlfile.ParseError

// Validate reports everything that is wrong with a scenario made in Go, as a [*ParseError]
// whose file is the scenario's name. Its paths are those of a file.
func (s *Scenario) Validate() error {
	c := &checker{Scenario: s}
	c.scenario()
	if len(c.findings) == 0 {
		return nil
	}
	return &ParseError{File: "scenario " + s.Name, Findings: c.findings}
}

// A checker collects what is wrong with a scenario whose parts are well formed.
type checker struct {
	*Scenario

	findings []Finding
}

func (c *checker) find(path, format string, args ...any) {
	if len(c.findings) <= yamlfile.MaxFindings {
		c.findings = append(c.findings, Finding{Path: path, Reason: fmt.Sprintf(format, args...)})
	}
}

// invalid adds why a value is invalid.
func (c *checker) invalid(path string, err error) {
	if wrong, ok := errors.AsType[*store.ValidationError](err); ok {
		c.find(path, "invalid %s %q: %s", wrong.Field, wrong.Value, wrong.Reason)
	}
}

// within checks a whole number.
func (c *checker) within(path string, n, least, most int) {
	if n < least || n > most {
		c.find(path, "give a whole number from %d to %d, not %d", least, most, n)
	}
}

// lasts checks a duration.
func (c *checker) lasts(path string, d, least time.Duration) {
	if d < least || d > maxDuration {
		c.find(path, "give a duration from %s to %s, not %s", short(least), short(maxDuration), short(d))
	}
}

// short writes a duration without units that are 0.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// weight checks a weight.
func (c *checker) weight(path string, n int64) {
	if n < 1 || n > maxWeight {
		c.find(path+".weight", "give a weight from 1 to %d, not %d: remove what has no weight", maxWeight, n)
	}
}

// many checks how many there are of something. It returns false if there are too many.
func (c *checker) many(path, what string, n, most int) bool {
	switch {
	case n == 0:
		c.find(path, "give at least one %s", what)
	case n > most:
		c.find(path, "give at most %d of them, not %d", most, n)
	}
	return n <= most
}

// name checks a name of the file: 1 to 64 letters, digits and "_.-".
func (c *checker) name(path, what, name string) {
	if wrong, ok := errors.AsType[*store.ValidationError](store.CheckManifest(name)); ok {
		c.find(path, "invalid %s %q: %s", what, wrong.Value, wrong.Reason)
	}
}

// twice reports the names that occur again. path leads to the name of an index.
func (c *checker) twice(what string, names []string, path func(i int) string) {
	seen := map[string]bool{}
	for i, name := range names {
		if seen[name] {
			c.find(path(i), "%s %q is there twice: remove one", what, name)
		}
		seen[name] = true
	}
}

// under leads to names below a path.
func under(path string, names []string) func(int) string {
	return func(i int) string { return path + "." + names[i] }
}

func (c *checker) scenario() {
	c.name("name", "name", c.Name)
	switch {
	case utf8.RuneCountInString(c.About) > maxAbout:
		c.find("about", "use at most %d characters", maxAbout)
	case strings.ContainsFunc(c.About, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }):
		c.find("about", "use characters that can be printed")
	}
	c.lasts("warm-up", c.WarmUp, 0)
	c.sides()
	c.phases()
	c.resources()
	c.populations()
	c.classes()
	c.limiters()
}

func (c *checker) sides() {
	if !c.many("sides", "side", len(c.Sides), len(sides)) {
		return
	}
	var names []string
	for i, s := range c.Sides {
		if !slices.Contains(sides, s) {
			c.find(fmt.Sprintf("sides[%d]", i), "unknown side %q: use %s", s, join(sides))
		}
		names = append(names, string(s))
	}
	c.twice("side", names, func(i int) string { return fmt.Sprintf("sides[%d]", i) })
}

// sides are all sides.
var sides = []Side{Limiter, Shared, Sticky, Bare}

func join[S ~string](all []S) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func (c *checker) phases() {
	if !c.many("phases", "phase", len(c.Phases), maxPhases) {
		return
	}
	var names []string
	for i, p := range c.Phases {
		path := fmt.Sprintf("phases[%d]", i)
		c.name(path+".name", "name of a phase", p.Name)
		c.lasts(path+".for", p.For, minDuration)
		names = append(names, p.Name)
		if len(c.Classes) > 0 && !slices.ContainsFunc(c.Classes, func(of Class) bool { return of.Active(i) }) {
			c.find(path, "no class is active in the phase %s: remove the phase, or name it in the phases of a class", p.Name)
		}
	}
	c.twice("phase", names, func(i int) string { return fmt.Sprintf("phases[%d].name", i) })
	if c.Duration() > maxDuration && len(c.Phases) > 1 {
		c.find("phases", "the phases last %s together: %s is the most", short(c.Duration()), short(maxDuration))
	}
}

func (c *checker) resources() {
	if !c.many("resources", "resource", len(c.Resources), maxResources) {
		return
	}
	var names []string
	for i := range c.Resources {
		r := &c.Resources[i]
		path := "resources." + r.Name
		c.invalid(path, store.CheckResource(r.Name))
		c.limits(path, r.Limits)
		names = append(names, r.Name)
	}
	c.twice("resource", names, under("resources", names))
}

func (c *checker) limits(path string, limits []store.Limit) {
	if c.many(path, "limit", len(limits), store.MaxLimits) {
		c.invalid(path, store.ValidateLimits(limits))
	}
}

func (c *checker) populations() {
	if !c.many("entities", "population", len(c.Populations), maxPopulations) {
		return
	}
	var names []string
	all := 0
	for i := range c.Populations {
		p := &c.Populations[i]
		path := "entities." + p.Name
		c.invalid(path, store.CheckEntity(p.Name))
		if len(p.Name) > maxName {
			c.find(path, "use at most %d characters: the entities' names begin with it", maxName)
		}
		if slices.ContainsFunc(c.Populations, func(o Population) bool { return o.Parents > 0 && o.Name+ParentSuffix == p.Name }) {
			c.find(path, "the parents of another population have these names: choose another name")
		}
		c.within(path+".count", p.Count, 1, maxEntities)
		c.within(path+".parents", p.Parents, 0, max(p.Count, 0))
		if p.Limits != nil {
			c.limits(path+".limits", p.Limits)
		}
		c.within(path+".limited", p.Limited, 0, max(p.Count, 0))
		if p.Limited > 0 && p.Limits == nil {
			c.find(path+".limited", "give the limits of these entities, too")
		}
		if p.New && p.Exhausted {
			c.find(path+".new", "the buckets of these entities are made before the load, and emptied: remove new, or exhausted")
		}
		names = append(names, p.Name)
		all = min(all+max(p.Count, 0)+max(p.Parents, 0), 2*maxEntities)
	}
	c.twice("population", names, under("entities", names))
	if all > maxEntities {
		c.find("entities", "there are more than %d entities, with parents", maxEntities)
	}
}

// limiters checks that every limiter has a client.
func (c *checker) limiters() {
	most := 0
	for i := range c.Classes {
		most = max(most, c.Classes[i].Arrival.concurrent())
	}
	c.within("limiters", c.Limiters, 1, maxLimiters)
	if c.Limiters > most && most > 0 && c.Limiters <= maxLimiters {
		c.find("limiters", "there are more limiters than any class has clients or users, which are %d: give no more", most)
	}
}

// concurrent is the highest number of concurrent operations.
func (a *Arrival) concurrent() int {
	most := a.Clients
	for _, s := range a.Stages {
		most = max(most, s.Users)
	}
	return most
}
