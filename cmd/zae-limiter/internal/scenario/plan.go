package scenario

import (
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Plan is a scenario with its entities, from which operations and instants are computed.
// It is safe for concurrent use, and must not be modified.
type Plan struct {
	Scenario

	// Entities are those of the populations, in order. After the entities of a population
	// come its parents.
	Entities []Entity
	// First is the index of each population's first entity.
	First []int

	classes []class
}

// An Entity is a consumer of tokens.
type Entity struct {
	ID         string
	Population int // its index
	// Parent is the index of the entity to which this one cascades, -1 if it does not.
	Parent int
	// IsParent means that others cascade to the entity. No operation names it.
	IsParent bool
	// Limits are its own limits for every resource; nil leaves the resource's.
	Limits []store.Limit
}

// A class is what operations of a class are computed from.
type class struct {
	key       uint64 // of its random numbers
	shares    alias
	from      []share
	spikes    bool // a share has some
	resources alias
	index     []int // of resources
	calls     alias
	call      []call
	think     Span
}

type share struct {
	first, count int
	pick         Pick
	law          alias // of PickPowerLaw
	spikes       Spikes
}

// A call has the positions of its limits, for each resource of the class.
type call struct {
	kind            CallKind
	consume, settle []Amount
	hold            Span
	named           [][]int // by resource: positions of the limits of consume
	adjusted        [][]int // by resource: positions of the limits of settle
	size            []int   // by resource: number of limits
}

// Plan checks the scenario and computes what its operations need. It fails with a
// [*ParseError].
func (s *Scenario) Plan() (*Plan, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Scenario: *s}
	for i := range s.Populations {
		p.addEntities(i)
	}
	laws := map[law]alias{}
	for i := range s.Classes {
		p.classes = append(p.classes, p.class(i, laws))
	}
	return p, nil
}

func (p *Plan) addEntities(population int) {
	of := &p.Populations[population]
	first := len(p.Entities)
	p.First = append(p.First, first)
	for i := range of.Count {
		e := Entity{ID: of.Name + "-" + strconv.Itoa(i), Population: population, Parent: -1}
		if of.Parents > 0 {
			e.Parent = first + of.Count + i%of.Parents
		}
		if i < of.limited() {
			e.Limits = of.Limits
		}
		p.Entities = append(p.Entities, e)
	}
	for i := range of.Parents {
		p.Entities = append(p.Entities, Entity{ID: of.Name + ParentSuffix + "-" + strconv.Itoa(i), Population: population, Parent: -1, IsParent: true})
	}
}

// ParentSuffix follows the name of a population in the names of its parents.
const ParentSuffix = "-parent"

// limited is the number of entities that have limits of their own.
func (p *Population) limited() int {
	switch {
	case p.Limits == nil:
		return 0
	case p.Limited == 0:
		return p.Count
	}
	return p.Limited
}

// A law is a power law over a number of entities.
type law struct {
	count int
	alpha float64
}

func (p *Plan) class(i int, laws map[law]alias) class {
	from := &p.Classes[i]
	c := class{key: uint64(i), think: from.Arrival.Think}
	var weights []float64
	for _, s := range from.From {
		of := share{first: p.First[s.Population], count: p.Populations[s.Population].Count, pick: s.Pick, spikes: s.Spikes}
		c.spikes = c.spikes || s.Spikes != Spikes{}
		if s.Pick.Kind == PickPowerLaw {
			key := law{of.count, s.Pick.Alpha}
			if laws[key] == nil {
				laws[key] = newAlias(powerLaw(key.count, key.alpha))
			}
			of.law = laws[key]
		}
		c.from, weights = append(c.from, of), append(weights, float64(s.Weight))
	}
	c.shares, weights = newAlias(weights), nil
	for _, r := range from.Resources {
		c.index, weights = append(c.index, r.Index), append(weights, float64(r.Weight))
	}
	c.resources, weights = newAlias(weights), nil
	for j := range from.Calls {
		c.call, weights = append(c.call, p.call(&from.Calls[j], c.index)), append(weights, float64(from.Calls[j].Weight))
	}
	c.calls = newAlias(weights)
	return c
}

func (p *Plan) call(from *Call, resources []int) call {
	c := call{kind: from.Kind, consume: from.Consume, settle: from.Settle, hold: from.Hold}
	for _, r := range resources {
		limits := p.Resources[r].Limits
		positions := func(amounts []Amount) (all []int) {
			for _, a := range amounts {
				all = append(all, slices.IndexFunc(limits, func(l store.Limit) bool { return l.Name == a.Limit }))
			}
			return all
		}
		c.size = append(c.size, len(limits))
		c.named = append(c.named, positions(from.Consume))
		c.adjusted = append(c.adjusted, positions(from.Settle))
	}
	return c
}

// ClassStart is the instant at which a class is first active, from the start of the
// measurement.
func (p *Plan) ClassStart(class int) time.Duration { return p.start(&p.Classes[class]) }
