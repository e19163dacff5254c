package loadtest

import (
	"context"
	"errors"
	"sync"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// bareSuffix makes the name of the table of bare items.
const bareSuffix = "-bare"

// neighbourClients is how many operations each neighbour may have under way.
const neighbourClients = 4

// attack runs the attack twice.
func (r *run) attack(ctx context.Context) error {
	r.result.Attack = &AttackResult{}
	for _, way := range []struct {
		table      string
		projection dynamo.Projection
		bare       bool
		result     **AttackSide
	}{
		{r.o.Table + bareSuffix, dynamo.ProjectAll, true, &r.result.Attack.Bare},
		{r.o.Table, "", false, &r.result.Attack.Limiter},
	} {
		if ended(ctx) {
			break
		}
		store, err := r.open(ctx, way.table, way.projection)
		if err != nil {
			return err
		}
		if *way.result, err = r.attackOn(ctx, way.table, store, way.bare); err != nil {
			return err
		}
	}
	return nil
}

// attackOn runs both phases on one table.
func (r *run) attackOn(ctx context.Context, table string, store *dynamo.Store, onBare bool) (result *AttackSide, err error) {
	limits := []limiter.Limit{limiter.PerSecond("rps", far)}
	if len(r.o.Limits) > 0 {
		limits = r.o.Limits
	}
	neighbours := r.newSide(table, store, newWorkload(limits, 1, "neighbour", r.o.Entities))
	neighbours.w.inTurn = true
	attacker := r.newSide(table, store, newWorkload(limits, 1, "attacker", 1))
	both := []*side{neighbours, attacker}
	for _, s := range both {
		if onBare {
			s.writeBare()
			continue
		}
		if err := s.setUp(ctx); err != nil {
			return nil, err
		}
		if err := s.limit(ctx); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.actor.close()) }()
	}
	for _, s := range both {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
	}
	const ways, phases = 2, 2
	planned := ways * (r.o.WarmUp + phases*r.o.Duration)
	rate, clients := int64(r.o.Entities*neighbourRate), r.o.Entities*neighbourClients
	result = &AttackSide{}
	r.during(planned, r.o.WarmUp, func() { neighbours.warmUp(ctx, rate, clients) })
	r.during(planned, r.o.Duration, func() { result.Quiet = neighbours.measure(ctx, rate, clients) })
	r.measured = true
	if ended(ctx) {
		return result, nil
	}
	r.during(planned, r.o.Duration, func() {
		var side sync.WaitGroup
		side.Go(func() { result.Attacker = attacker.measure(ctx, r.o.Rate, r.o.Clients) })
		result.Neighbours = neighbours.measure(ctx, rate, clients)
		side.Wait()
	})
	return result, errors.Join(neighbours.inspect(ctx, result.Neighbours), attacker.inspect(ctx, result.Attacker))
}
