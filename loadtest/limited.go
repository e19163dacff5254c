package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest/internal/setup"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
)

// An actor carries out operations.
type actor interface {
	// prime makes the buckets of the load, and empties those that are exhausted.
	prime(ctx context.Context) error
	act(ctx context.Context, class, client int, op *scenario.Op) answer
	close() error
}

// An answer is the result of an operation.
type answer struct {
	took taken
	held time.Duration // between the acquire and its commit, on purpose
	err  error
}

// limited is an actor on limiters.
type limited struct {
	side *side
	// groups are limiters that share classes, as processes of one service do. group is the
	// one of each class.
	groups [][]process
	group  []int
	// fixed are the amounts of calls in which nothing is random: by class, call and
	// position of the resource in the class. nil has to be made for each operation.
	fixed map[[3]int]map[string]int64
}

// A process is a limiter with its own store and memory.
type process struct {
	limiter *limiter.Limiter
	store   *dynamo.Store
}

// newLimited makes the limiters of a side.
func newLimited(ctx context.Context, s *side) (_ *limited, err error) {
	a := &limited{side: s, group: make([]int, len(s.plan.Classes)), fixed: map[[3]int]map[string]int64{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	shared := -1
	for c := range s.plan.Classes {
		isApart := s.plan.Classes[c].Apart && s.kind == scenario.Limiter
		if !isApart && shared >= 0 {
			a.group[c] = shared
			continue
		}
		a.group[c] = len(a.groups)
		if !isApart {
			shared = len(a.groups)
		}
		a.groups = append(a.groups, nil)
		for range s.plan.Limiters {
			p, err := s.process(ctx)
			if err != nil {
				return a, err
			}
			last := len(a.groups) - 1
			a.groups[last] = append(a.groups[last], p)
		}
	}
	a.fix()
	return a, nil
}

// process makes one limiter with a store of its own.
func (s *side) process(ctx context.Context) (process, error) {
	o := &s.run.o
	st, err := dynamo.Open(ctx, dynamo.Options{API: s.router, Table: s.table, Namespace: s.namespace, Now: o.Now, Logger: o.Logger})
	if err != nil {
		return process{}, err
	}
	l, err := limiter.New(st, limiter.Options{Logger: o.Logger})
	return process{l, st}, err
}

// fix computes the amounts of calls in which nothing is random.
func (a *limited) fix() {
	for c := range a.side.plan.Classes {
		class := &a.side.plan.Classes[c]
		for k := range class.Calls {
			amounts := map[string]int64{}
			for _, amount := range class.Calls[k].Consume {
				if amount.Least != amount.Most {
					amounts = nil
					break
				}
				amounts[amount.Limit] = amount.Least
			}
			for _, r := range class.Resources {
				a.fixed[[3]int{c, k, r.Index}] = amounts
			}
		}
	}
}

// request is the request of an operation.
func (a *limited) request(class int, op *scenario.Op) limiter.Request {
	p := a.side.plan
	r := limiter.Request{Entity: p.Entities[op.Entity].ID, Resource: p.Resources[op.Resource].Name, OnUnavailable: limiter.Block}
	if r.Consume = a.fixed[[3]int{class, op.Call, op.Resource}]; r.Consume != nil {
		return r
	}
	r.Consume = make(map[string]int64, len(op.Limits))
	for _, i := range op.Limits {
		r.Consume[p.Resources[op.Resource].Limits[i].Name] = op.Consume[i]
	}
	return r
}

func (a *limited) act(ctx context.Context, class, client int, op *scenario.Op) answer {
	group := a.groups[a.group[class]]
	p := group[client%len(group)]
	var err error
	switch op.Kind {
	case scenario.Acquire:
		return a.acquire(ctx, p, a.request(class, op), op)
	case scenario.Available:
		_, err = p.limiter.Available(ctx, a.request(class, op))
	default:
		err = setup.Manage(ctx, p.store, a.side.plan, op)
	}
	return answer{err: err}
}

// acquire acquires, holds and settles.
func (a *limited) acquire(ctx context.Context, p process, r limiter.Request, op *scenario.Op) answer {
	lease, err := p.limiter.Acquire(ctx, r)
	switch {
	case errors.Is(err, limiter.ErrExceeded):
		return answer{took: tookNothing, err: err}
	case err != nil:
		return answer{took: tookMaybe, err: err}
	}
	if op.Hold > 0 {
		alarm := time.NewTimer(op.Hold)
		defer alarm.Stop()
		if !until(ctx, alarm, op.Hold) {
			return answer{took: tookAll, err: context.Cause(ctx)}
		}
	}
	took := tookAll
	if op.Adjusts() {
		took = tookUsed
		for i := range op.Consume {
			if delta := op.Settle[i] - op.Consume[i]; delta != 0 {
				if err := lease.Adjust(a.side.plan.Resources[op.Resource].Limits[i].Name, delta); err != nil {
					return answer{took: tookAll, held: op.Hold, err: err}
				}
			}
		}
	}
	if err := lease.Commit(ctx); err != nil {
		return answer{took: tookEither, held: op.Hold, err: err}
	}
	return answer{took: took, held: op.Hold}
}

// maxPrimed is the number of acquires up to which buckets are made before the load.
const maxPrimed = 10_000

// prime makes every limiter acquire one token of each limit of every bucket that it will
// use. So it knows them, and the measurement has no creations. Of exhausted populations, the
// first limiter takes everything before the others ask. Loads of more than maxPrimed buckets
// make theirs as they go, but for exhausted ones.
func (a *limited) prime(ctx context.Context) error {
	targets := a.targets()
	isLarge := len(targets)*a.side.plan.Limiters > maxPrimed
	for k := range a.side.plan.Limiters {
		err := setup.Each(ctx, len(targets), func(ctx context.Context, i int) error {
			t := &targets[i]
			if isLarge && !t.isExhausted {
				return nil
			}
			op := a.side.first(t.entity, t.resource, t.isExhausted && k == 0)
			err := patiently(ctx, func() error {
				asked, _ := a.side.ask(ctx, t.class, k, op)
				return asked.err
			})
			if err != nil && !errors.Is(err, limiter.ErrExceeded) {
				return fmt.Errorf("make the bucket of %s for %s: %w", a.side.plan.Entities[t.entity].ID, a.side.plan.Resources[t.resource].Name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A target is a bucket that a class uses.
type target struct {
	class, entity, resource int
	isExhausted             bool
}

// targets are the buckets of all classes, once for each group of limiters.
func (a *limited) targets() (all []target) {
	seen := map[[3]int]bool{}
	for c := range a.side.plan.Classes {
		for _, b := range a.side.bucketsOf(c) {
			if at := [3]int{a.group[c], b[0], b[1]}; !seen[at] {
				seen[at] = true
				all = append(all, target{c, b[0], b[1], a.side.plan.Populations[a.side.plan.Entities[b[0]].Population].Exhausted})
			}
		}
	}
	return all
}

func (a *limited) close() error {
	var errs []error
	for _, group := range a.groups {
		for _, p := range group {
			errs = append(errs, p.limiter.Close())
		}
	}
	return errors.Join(errs...)
}
