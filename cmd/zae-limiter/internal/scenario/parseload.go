package scenario

import (
	"slices"
	"strings"
)

func (r *reader) classes(p place) {
	r.entries(p, maxClasses, func(name string, value place) { r.class(name, value) })
}

func (r *reader) class(name string, p place) {
	c := Class{Name: name}
	r.fields(p, map[string]func(place){
		"from":      func(p place) { c.From = r.from(p) },
		"resources": func(p place) { c.Resources = r.weights(p) },
		"apart":     func(p place) { c.Apart = r.Bool(p) },
		"phases":    func(p place) { c.Phases = r.active(p) },
		"calls":     func(p place) { c.Calls = r.calls(p) },
		"think":     func(p place) { c.Arrival.Think = r.span(p) },
		"poisson":   func(p place) { c.Arrival.Poisson = r.Bool(p) },
		"clients":   func(p place) { c.Arrival.Clients = int(r.number(p, 1, maxClients)) },
		"users":     func(p place) { r.oneStage(p, &c, "users") },
		"rate":      func(p place) { r.oneStage(p, &c, "rate") },
		"stages":    func(p place) { c.Arrival.Stages = r.stages(p) },
	})
	r.require(p, map[string]string{"calls": "a list of calls"})
	r.exactlyOne(p, "users", "rate", "stages")
	if p.IsMapping() && !p.Has("from") {
		if len(r.s.Populations) != 1 {
			r.Find(p.Below("from"), missing+"give the name of a population, or a list of them")
		}
		c.From = []Share{{Weight: 1}}
	}
	if !p.Has("resources") {
		for i := range r.s.Resources {
			c.Resources = append(c.Resources, Weighted{Index: i, Weight: 1})
		}
	}
	if c.Arrival.Open() && !p.Has("clients") {
		c.Arrival.Clients = defaultClients
	}
	r.s.Classes = append(r.s.Classes, c)
}

// defaultClients is the number of concurrent operations of a rate.
const defaultClients = 256

// from reads the name of a population, a share, or a list of shares.
func (r *reader) from(p place) (shares []Share) {
	switch {
	case p.IsScalar():
		if i, ok := r.population(p); ok {
			shares = append(shares, Share{Population: i, Weight: 1})
		}
	case p.IsMapping():
		r.share(p, &shares)
	default:
		r.items(p, maxShares, func(item place) { r.share(item, &shares) })
	}
	return shares
}

func (r *reader) share(p place, shares *[]Share) {
	s, found := Share{Weight: 1}, false
	r.fields(p, map[string]func(place){
		"entities": func(p place) { s.Population, found = r.population(p) },
		"weight":   func(p place) { s.Weight = r.weight(p) },
		"pick":     func(p place) { s.Pick = r.pick(p) },
		"spikes":   func(p place) { s.Spikes = r.spikes(p) },
	})
	r.require(p, map[string]string{"entities": "the name of a population"})
	if found {
		*shares = append(*shares, s)
	}
}

func (r *reader) spikes(p place) (s Spikes) {
	r.fields(p, map[string]func(place){
		"for":   func(p place) { s.For = r.duration(p) },
		"every": func(p place) { s.Every = r.duration(p) },
	})
	r.require(p, map[string]string{"for": "the length of a spike", "every": "a duration in which there is one spike"})
	return s
}

func (r *reader) population(p place) (index int, ok bool) {
	var names []string
	for i := range r.s.Populations {
		names = append(names, r.s.Populations[i].Name)
	}
	return r.oneOf(p, "population", names)
}

// oneOf reads a name that the file has elsewhere, and returns its index.
func (r *reader) oneOf(p place, what string, names []string) (index int, ok bool) {
	name, ok := r.Text(p)
	if !ok {
		return 0, false
	}
	if index = slices.Index(names, name); index < 0 {
		r.Find(p, "there is no %s %q: use %s", what, name, some(names))
		return 0, false
	}
	return index, true
}

// some lists the first names, for messages.
func some(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "one that the file has"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// weights reads a list of resources, or a mapping of them to weights.
func (r *reader) weights(p place) (all []Weighted) {
	var names []string
	for i := range r.s.Resources {
		names = append(names, r.s.Resources[i].Name)
	}
	if !p.IsMapping() {
		r.items(p, maxResources, func(item place) {
			if i, ok := r.oneOf(item, "resource", names); ok {
				all = append(all, Weighted{Index: i, Weight: 1})
			}
		})
		return all
	}
	r.entries(p, maxResources, func(name string, value place) {
		weight := r.weight(value)
		i := slices.Index(names, name)
		if i < 0 {
			r.Find(r.places[value.Path], "there is no resource %q: use %s", name, some(names))
			return
		}
		all = append(all, Weighted{Index: i, Weight: weight})
	})
	return all
}

// active reads the phases of a class; all, if a name is wrong.
func (r *reader) active(p place) []int {
	var names []string
	for i := range r.s.Phases {
		names = append(names, r.s.Phases[i].Name)
	}
	indices, allKnown := []int{}, p.Len() > 0
	r.notEmpty(p, "phase")
	r.items(p, maxPhases, func(item place) {
		i, ok := r.oneOf(item, "phase", names)
		indices, allKnown = append(indices, i), allKnown && ok
	})
	if !allKnown {
		return nil
	}
	return indices
}

func (r *reader) calls(p place) (calls []Call) {
	r.items(p, maxCalls, func(item place) {
		c := Call{Weight: 1}
		r.fields(item, map[string]func(place){
			"call": func(p place) {
				i, _ := r.oneOf(p, "call", kinds[:])
				c.Kind = CallKind(i)
			},
			"weight":  func(p place) { c.Weight = r.weight(p) },
			"consume": func(p place) { c.Consume = r.amounts(p) },
			"settle":  func(p place) { c.Settle = r.amounts(p) },
			"hold":    func(p place) { c.Hold = r.span(p) },
		})
		r.require(item, map[string]string{"call": "one of " + strings.Join(kinds[:], ", ")})
		calls = append(calls, c)
	})
	return calls
}

func (r *reader) amounts(p place) []Amount {
	amounts := []Amount{}
	r.entries(p, maxLimits, func(name string, value place) { amounts = append(amounts, r.amount(name, value)) })
	return amounts
}

// oneStage reads the only stage of a class.
func (r *reader) oneStage(p place, c *Class, key string) {
	stage := strings.TrimSuffix(p.Path, key) + "stages[0]"
	r.places[stage], r.places[stage+"."+key] = p, p
	r.places[strings.TrimSuffix(p.Path, key)+"stages"] = p
	var s Stage
	if key == "rate" {
		s.FromRate, s.ToRate = r.rate(p)
	} else {
		s.Users = int(r.number(p, 1, maxClients))
	}
	c.Arrival.Stages = []Stage{s}
}

func (r *reader) stages(p place) (stages []Stage) {
	r.items(p, maxStages, func(item place) {
		var s Stage
		r.fields(item, map[string]func(place){
			"for":   func(p place) { s.For = r.duration(p) },
			"rate":  func(p place) { s.FromRate, s.ToRate = r.rate(p) },
			"users": func(p place) { s.Users = int(r.number(p, 0, maxClients)) },
			"spawn": func(p place) { s.Spawn = r.decimal(p) },
		})
		r.exactlyOne(item, "rate", "users")
		stages = append(stages, s)
	})
	return stages
}
