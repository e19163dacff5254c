package scenario

import (
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// WithRate returns the scenario with a constant rate, in operations per second, of its only
// class. clients bounds the concurrent operations; 0 leaves the class's, or 256. It fails
// with a [*store.ValidationError] if the rate is out of bounds, or there are several
// classes.
func (s *Scenario) WithRate(rate float64, clients int) (*Scenario, error) {
	if !(rate > 0 && rate <= maxRate) {
		return nil, &store.ValidationError{Field: "rate", Value: strconv.FormatFloat(rate, 'g', -1, 64), Reason: "give above 0 and up to " + strconv.Itoa(maxRate) + " a second"}
	}
	return s.with("rate", strconv.FormatFloat(rate, 'g', -1, 64), func(a *Arrival) {
		if clients == 0 {
			if clients = a.Clients; clients == 0 {
				clients = defaultClients
			}
		}
		*a = Arrival{Stages: []Stage{{FromRate: rate, ToRate: rate}}, Poisson: a.Poisson && a.Open(), Clients: clients}
	})
}

// WithUsers returns the scenario with a number of users of its only class, all from the
// start. It fails with a [*store.ValidationError] as [Scenario.WithRate] does.
func (s *Scenario) WithUsers(users int) (*Scenario, error) {
	if users < 1 || users > maxClients {
		return nil, &store.ValidationError{Field: "users", Value: strconv.Itoa(users), Reason: "give 1 to " + strconv.Itoa(maxClients)}
	}
	return s.with("users", strconv.Itoa(users), func(a *Arrival) {
		*a = Arrival{Stages: []Stage{{Users: users}}, Think: a.Think}
	})
}

// WithClass returns the scenario with one of its classes, and the phases in which that is
// active. It fails with a [*store.ValidationError] if there is no such class.
func (s *Scenario) WithClass(name string) (*Scenario, error) {
	at := slices.IndexFunc(s.Classes, func(c Class) bool { return c.Name == name })
	if at < 0 {
		var names []string
		for i := range s.Classes {
			names = append(names, s.Classes[i].Name)
		}
		return nil, &store.ValidationError{Field: "class", Value: name, Reason: "scenario " + s.Name + " has " + some(names)}
	}
	changed := *s
	c := s.Classes[at]
	changed.Phases = nil
	for i, p := range s.Phases {
		if c.Active(i) {
			changed.Phases = append(changed.Phases, p)
		}
	}
	c.Phases = nil
	changed.Classes = []Class{c}
	return &changed, nil
}

func (s *Scenario) with(what, value string, change func(*Arrival)) (*Scenario, error) {
	if len(s.Classes) != 1 {
		return nil, &store.ValidationError{
			Field: what, Value: value,
			Reason: "scenario " + s.Name + " has " + strconv.Itoa(len(s.Classes)) + " classes: name one of them, or change a copy of its file",
		}
	}
	changed := *s
	changed.Classes = []Class{s.Classes[0]}
	change(&changed.Classes[0].Arrival)
	return &changed, nil
}

// MostUsers is the highest number of users of the class's stages, and 1 for a rate. Where
// Locust says how many users there are, it is the weight of the class among the others.
func (c *Class) MostUsers() int {
	most := 1
	for _, stage := range c.Arrival.Stages {
		most = max(most, stage.Users)
	}
	return most
}

// WithSwarm returns the load that Locust makes of a scenario: a number of users for a time,
// shared among classes by [Class.MostUsers], without phases and warm-up. No classes are all of
// them. The side is the limiter, and limiters is the number of limiters, one for each user at
// most. It fails with a [*store.ValidationError] if a class is unknown or has a rate.
func (s *Scenario) WithSwarm(users, limiters int, lasting time.Duration, classes []string) (*Scenario, error) {
	changed := *s
	changed.WarmUp, changed.Phases, changed.Sides = 0, []Phase{{Name: "all", For: lasting}}, []Side{Limiter}
	changed.Limiters, changed.Classes = max(min(limiters, users, maxLimiters), 1), nil
	weight, missing := 0, slices.Clone(classes)
	for i := range s.Classes {
		c := s.Classes[i]
		at := slices.Index(missing, c.Name)
		switch {
		case len(classes) > 0 && at < 0:
			continue
		case at >= 0:
			missing = slices.Delete(missing, at, at+1)
		}
		if c.Arrival.Open() {
			return nil, &store.ValidationError{Field: "class", Value: c.Name, Reason: "it has a rate, and Locust says how many users there are: give the class users"}
		}
		weight += c.MostUsers()
		changed.Classes = append(changed.Classes, c)
	}
	if len(missing) > 0 {
		return nil, &store.ValidationError{Field: "class", Value: missing[0], Reason: "scenario " + s.Name + " has no such class"}
	}
	left := changed.Classes[:0]
	for _, c := range changed.Classes { // each has its share of the users and weights that are left
		of := c.MostUsers()
		n := (users*of + weight/2) / weight
		users, weight = users-n, weight-of
		if n > 0 {
			c.Phases, c.Arrival = nil, Arrival{Stages: []Stage{{Users: n}}, Think: c.Arrival.Think}
			left = append(left, c)
		}
	}
	changed.Classes = left
	return &changed, changed.Validate()
}
