package estimate

import (
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// CheckSum carries out a scenario whole, and compares what was booked with the engine's ledger.
func CheckSum(p *scenario.Plan) error {
	o := ScenarioOptions{Aggregator: true}
	if err := o.complete(); err != nil {
		return err
	}
	r, err := rehearse(&rehearsal{p: p, side: p.Sides[0], o: &o, most: o.MaxOperations})
	if err != nil {
		return err
	}
	sum := r.registered
	for _, b := range []*book{&r.setUp, &r.load} {
		for _, c := range b.costs() {
			sum = sum.plus(c, 1)
		}
	}
	if sum.Writes != r.billed.Writes || sum.Reads != r.billed.Reads || sum.Requests != r.billed.Requests {
		return fmt.Errorf("%s: booked %+v, billed %+v", p.Name, sum, r.billed)
	}
	return nil
}

// Billed is what the measured part of a load costs a second, and its requests.
type Billed struct{ Requests, Refused, Writes, Reads float64 }

// BilledOf carries out a scenario whole. Each operation goes to a random limiter.
func BilledOf(p *scenario.Plan, o ScenarioOptions) (b Billed, err error) {
	if err := o.complete(); err != nil {
		return b, err
	}
	r, err := rehearse(&rehearsal{p: p, side: p.Sides[0], o: &o, most: math.MaxInt64, scatters: true})
	if err != nil {
		return b, err
	}
	m, seconds := &r.measured, p.Duration().Seconds()
	for _, c := range m.of {
		b.Writes, b.Reads = b.Writes+c.Writes/seconds, b.Reads+c.Reads/seconds
	}
	b.Requests, b.Refused = m.operations/seconds, m.refused/seconds
	return b, nil
}
