package estimate

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// CheckSum carries out a scenario whole, and compares what was booked with the engine's ledger.
func CheckSum(p *scenario.Plan) error {
	o := ScenarioOptions{Windows: 1}
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
