package scenario

import (
	"strconv"

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

func (s *Scenario) with(what, value string, change func(*Arrival)) (*Scenario, error) {
	if len(s.Classes) != 1 {
		return nil, &store.ValidationError{
			Field: what, Value: value,
			Reason: "scenario " + s.Name + " has " + strconv.Itoa(len(s.Classes)) + " classes: change a copy of its file instead",
		}
	}
	changed := *s
	changed.Classes = []Class{s.Classes[0]}
	change(&changed.Classes[0].Arrival)
	return &changed, nil
}
