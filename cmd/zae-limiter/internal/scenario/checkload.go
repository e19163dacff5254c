package scenario

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

func (c *checker) classes() {
	if !c.many("load", "class", len(c.Classes), maxClasses) {
		return
	}
	var names []string
	laws, together := map[law]bool{}, 0
	for i := range c.Classes {
		of := &c.Classes[i]
		path := "load." + of.Name
		c.name(path, "name of a class", of.Name)
		names = append(names, of.Name)
		if !c.choices(path, of) {
			continue // indices out of range
		}
		for _, s := range of.From {
			key := law{c.Populations[s.Population].Count, s.Pick.Alpha}
			if s.Pick.Kind == PickPowerLaw && !laws[key] {
				laws[key] = true
				together = min(together+key.count, 2*maxLawEntities)
			}
		}
		if c.many(path+".calls", "call", len(of.Calls), maxCalls) {
			for j := range of.Calls {
				c.call(fmt.Sprintf("%s.calls[%d]", path, j), of, &of.Calls[j])
			}
		}
		c.arrival(path, of)
		c.comingRound(path, of)
	}
	c.twice("class", names, under("load", names))
	if together > maxLawEntities {
		c.find("load", "the power laws are over more than %d entities together: use fewer of them", maxLawEntities)
	}
}

// choices checks what a class chooses from. It returns false if an index leads nowhere.
func (c *checker) choices(path string, of *Class) bool {
	ok := c.many(path+".from", "population", len(of.From), maxShares)
	if len(c.Resources) > 0 { // reported elsewhere
		ok = c.many(path+".resources", "resource", len(of.Resources), maxResources) && ok
	}
	for i, s := range of.From {
		at := fmt.Sprintf("%s.from[%d]", path, i)
		c.weight(at, s.Weight)
		if s.Population < 0 || s.Population >= len(c.Populations) {
			c.find(at+".entities", "there is no population %d", s.Population)
			ok = false
		}
		c.pick(at+".pick", s.Pick)
		c.spikes(at+".spikes", s.Spikes)
	}
	for i, r := range of.Resources {
		at := fmt.Sprintf("%s.resources[%d]", path, i)
		if r.Index < 0 || r.Index >= len(c.Resources) {
			c.find(at, "there is no resource %d", r.Index)
			ok = false
			continue
		}
		c.weight(path+".resources."+c.Resources[r.Index].Name, r.Weight)
		if slices.ContainsFunc(of.Resources[:i], func(o Weighted) bool { return o.Index == r.Index }) {
			c.find(at, "resource %s is there twice: remove one", c.Resources[r.Index].Name)
		}
	}
	if of.Phases != nil && len(of.Phases) == 0 {
		c.find(path+".phases", "give at least one phase, or remove the key")
	}
	for i, p := range of.Phases {
		at := fmt.Sprintf("%s.phases[%d]", path, i)
		if p < 0 || p >= len(c.Phases) {
			c.find(at, "there is no phase %d", p)
			ok = false
		} else if slices.Contains(of.Phases[:i], p) {
			c.find(at, "phase %s is there twice: remove one", c.Phases[p].Name)
		}
	}
	return ok
}

func (c *checker) pick(path string, p Pick) {
	switch p.Kind {
	case PickRandom, PickInTurn:
	case PickPowerLaw:
		if !(p.Alpha > 0 && p.Alpha <= maxAlpha) {
			c.find(path, "give an exponent above 0 and up to %d: power-law 1.5, for instance", maxAlpha)
		}
	case PickRotating:
		c.lasts(path, p.For, minDuration)
	default:
		c.find(path, "unknown way to choose: use %s", picks)
	}
}

func (c *checker) spikes(path string, s Spikes) {
	if s == (Spikes{}) {
		return
	}
	c.lasts(path+".for", s.For, minDuration)
	c.lasts(path+".every", s.Every, minDuration)
	if s.Every > 0 && s.For > s.Every {
		c.find(path+".for", "a spike of %s does not fit into %s: give a shorter one", short(s.For), short(s.Every))
	}
}

func (c *checker) call(path string, of *Class, call *Call) {
	c.weight(path, call.Weight)
	if int(call.Kind) >= len(kinds) {
		c.find(path+".call", "unknown call: use %s", join(kinds[:]))
		return
	}
	if call.Kind != Acquire && slices.Contains(c.Sides, Bare) {
		c.find(path+".call", "the side bare can only acquire: remove the call, or the side")
	}
	if call.Kind != Acquire && len(call.Settle) > 0 {
		c.find(path+".settle", "only acquire can settle: remove it")
	}
	if call.Kind != Acquire && call.Hold != (Span{}) {
		c.find(path+".hold", "only acquire can hold: remove it")
	}
	c.span(path+".hold", call.Hold)
	switch {
	case call.Kind.consumes() && len(call.Consume) == 0:
		c.find(path+".consume", missing+"give tokens by name of limit, {rpm: 1} for instance")
	case !call.Kind.consumes() && len(call.Consume) > 0:
		c.find(path+".consume", "%s consumes nothing: remove it", call.Kind)
		return
	}
	c.amounts(path+".consume", call.Consume, false)
	c.amounts(path+".settle", call.Settle, true)
	for _, a := range call.Settle {
		if !slices.ContainsFunc(call.Consume, func(o Amount) bool { return o.Limit == a.Limit }) {
			c.find(path+".settle."+a.Limit, "the call does not consume %s: add it to consume, with 0 if need be", a.Limit)
		}
	}
	for _, a := range call.Consume {
		if a.Percent {
			continue
		}
		c.admissible(path+".consume."+a.Limit, of, a)
	}
}

func (c *checker) amounts(path string, all []Amount, settled bool) {
	var names []string
	for _, a := range all {
		at := path + "." + a.Limit
		most := int64(store.MaxTokens)
		if a.Percent {
			most = maxPercent
		}
		switch {
		case a.Percent && !settled:
			c.find(at, "give tokens: only settle can have a percentage, of what was consumed")
		case a.Least < 0 || a.Least > a.Most || a.Most > most:
			c.find(at, "give a whole number from 0 to %d, or two with .. between them, the lower one first", most)
		case a.Median != 0 && (a.Median < max(a.Least, 1) || a.Median > a.Most):
			c.find(at, "give a median p50= from %d to %d, as the other two numbers say", max(a.Least, 1), a.Most)
		}
		names = append(names, a.Limit)
	}
	c.twice("limit", names, under(path, names))
}

// admissible checks that the buckets of a class have the limit, and can ever admit the
// amount. A bucket has the limits of the entity or else of the resource. A parent's has
// those of the resource.
func (c *checker) admissible(path string, of *Class, a Amount) {
	check := func(limits []store.Limit, whose string) bool {
		i := slices.IndexFunc(limits, func(l store.Limit) bool { return l.Name == a.Limit })
		switch {
		case i < 0:
			c.find(path, "%s has no limit %s: it has %s", whose, a.Limit, limitNames(limits))
			return false
		case a.Most > limits[i].Capacity:
			c.find(path, "%d tokens can never be admitted: limit %s of %s holds at most %d", a.Most, a.Limit, whose, limits[i].Capacity)
			return false
		}
		return true
	}
	for _, r := range of.Resources {
		if !check(c.Resources[r.Index].Limits, "resource "+c.Resources[r.Index].Name) {
			return
		}
	}
	for _, s := range of.From {
		p := &c.Populations[s.Population]
		if p.Limits != nil && !check(p.Limits, "population "+p.Name) {
			return
		}
	}
}

func limitNames(limits []store.Limit) string {
	names := make([]string, len(limits))
	for i, l := range limits {
		names[i] = l.Name
	}
	return join(names)
}

func (c *checker) span(path string, s Span) {
	if s.Least < 0 || s.Least > s.Most || s.Most > maxDuration {
		c.find(path, "give a duration from 0s to 24h, or two with .. between them, the shorter one first")
	}
}

func (c *checker) arrival(path string, of *Class) {
	a := &of.Arrival
	if !c.many(path+".stages", "stage", len(a.Stages), maxStages) || len(a.Stages) == 0 {
		return
	}
	rates, users := false, false
	for i, s := range a.Stages {
		c.stage(fmt.Sprintf("%s.stages[%d]", path, i), s)
		rates = rates || s.FromRate > 0 || s.ToRate > 0
		users = users || s.Users > 0
	}
	c.lengths(path, of)
	switch {
	case rates && users:
		c.find(path+".stages", "there are stages with a rate and stages with users: choose one for the class")
		return
	case !rates && !users:
		c.find(path+".stages", "nothing is ever due: give a stage with a rate or users above 0")
		return
	}
	c.span(path+".think", a.Think)
	if rates {
		c.within(path+".clients", a.Clients, 1, maxClients)
		if a.Think != (Span{}) {
			c.find(path+".think", "a rate says when operations are due: remove think, or give users")
		}
		return
	}
	if a.Clients != 0 {
		c.find(path+".clients", "users are their own clients: remove clients, or give a rate")
	}
	if a.Poisson {
		c.find(path+".poisson", "only a rate can be a Poisson process: remove poisson, or give a rate")
	}
}

func (c *checker) stage(path string, s Stage) {
	for _, rate := range []float64{s.FromRate, s.ToRate} {
		if !(rate >= 0 && rate <= maxRate) {
			c.find(path+".rate", "give a rate from 0/s to %d/s", maxRate)
			break
		}
	}
	c.within(path+".users", s.Users, 0, maxClients)
	if !(s.Spawn >= 0 && s.Spawn <= maxRate) {
		c.find(path+".spawn", "give a number of users per second above 0 and up to %d, or remove it", maxRate)
	}
	if s.Spawn > 0 && (s.FromRate > 0 || s.ToRate > 0) {
		c.find(path+".spawn", "only users are spawned: remove spawn, or give users")
	}
}

// lengths checks that every stage can begin.
func (c *checker) lengths(path string, of *Class) {
	stages := of.Arrival.Stages
	left := c.Duration() - c.start(of)
	var begin time.Duration
	for i, s := range stages {
		at := fmt.Sprintf("%s.stages[%d]", path, i)
		if begin >= left && i > 0 {
			c.find(at, "the stage begins after the end of the run, %s after the class: remove it, or make the run longer", short(left))
			return
		}
		if s.For == 0 && i < len(stages)-1 {
			c.find(at+".for", missing+"only the last stage can last until the end")
			return
		}
		c.lasts(at+".for", s.For, 0)
		begin += min(max(s.For, 0), maxDuration)
	}
}

// comingRound checks that a rate which takes new entities in turn does not come to the first one
// again: its bucket would exist.
func (c *checker) comingRound(path string, of *Class) {
	if len(c.findings) > 0 || !of.Arrival.Open() {
		return // the number of operations is not known
	}
	due := c.due(of)
	for i, s := range of.From {
		p := &c.Populations[s.Population]
		if p.New && s.Pick.Kind == PickInTurn && due > float64(p.Count) {
			c.find(fmt.Sprintf("%s.from[%d]", path, i), "%.0f operations take the %d new entities of %s in turn, so these are not new any more: give more entities, a lower rate or a shorter duration",
				due, p.Count, p.Name)
		}
	}
}

// due is the number of operations of a rate, with the warm-up; of a Poisson process, the expected
// one.
func (c *checker) due(of *Class) (n float64) {
	rate := newCurve(of.Arrival.Stages, c.start(of), c.Duration())
	if of.Active(0) {
		n = rate.countAt(0) - rate.countAt(-float64(c.WarmUp))
	}
	var begin time.Duration
	for i, p := range c.Phases {
		if end := begin + p.For; of.Active(i) {
			n += rate.countAt(float64(end)) - rate.countAt(float64(begin))
		}
		begin += p.For
	}
	const rounding = 1e-6
	return math.Ceil(n - rounding)
}
