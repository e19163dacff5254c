package loadtest

import (
	"context"
	"errors"
	"sync"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// bareSuffix is the suffix of the table of bare items.
const bareSuffix = "-bare"

// neighbourClients is the number of concurrent operations of each neighbour.
const neighbourClients = 4

// An approach is a target of the attack.
type approach struct {
	table      string
	projection dynamo.Projection
	bare       bool // one item for each entity
	shared     bool // the attacker uses the neighbours' limiters
	result     **AttackSide
}

// attack runs the attack against each approach.
func (r *run) attack(ctx context.Context) error {
	all := &AttackResult{}
	r.result.Attack = all
	for _, way := range []approach{
		{table: r.o.Table + bareSuffix, projection: dynamo.ProjectAll, bare: true, result: &all.Bare},
		{table: r.o.Table, result: &all.Limiter},
		{table: r.o.Table, shared: true, result: &all.Shared},
	} {
		if ended(ctx) {
			break
		}
		store, err := r.open(ctx, way.table, way.projection)
		if err != nil {
			return err
		}
		if *way.result, err = r.attackOn(ctx, store, way); err != nil {
			return err
		}
	}
	return nil
}

// attackOn runs both phases against one approach.
func (r *run) attackOn(ctx context.Context, store *dynamo.Store, way approach) (result *AttackSide, err error) {
	limits := []limiter.Limit{limiter.PerSecond("rps", far)}
	if len(r.o.Limits) > 0 {
		limits = r.o.Limits
	}
	prefix := ""
	if way.shared {
		prefix = "shared-" // buckets that no attack has doubled yet
	}
	neighbours := r.newSide(way.table, store, newWorkload(limits, 1, prefix+"neighbour", r.o.Entities))
	neighbours.w.inTurn = true
	attacker := r.newSide(way.table, store, newWorkload(limits, 1, prefix+"attacker", 1))
	both := []*side{neighbours, attacker}
	var shared *limited
	for _, s := range both {
		if way.bare {
			s.writeBare()
			continue
		}
		if err := s.setUp(ctx); err != nil {
			return nil, err
		}
		if shared != nil {
			s.actor = &limited{s.w, shared.limiters}
			continue
		}
		api := dynamo.API(s.watch)
		if way.shared {
			api = &fork{neighbours.watch, attacker.watch, "#" + attacker.w.entities[0]}
		}
		a, err := s.limit(ctx, api)
		if err != nil {
			return nil, err
		}
		s.actor = a
		defer func() { err = errors.Join(err, a.close()) }()
		if way.shared {
			shared = a
		}
	}
	for _, s := range both {
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
	}
	const ways, phases = 3, 2
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
