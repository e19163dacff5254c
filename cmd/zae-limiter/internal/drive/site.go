// Package drive carries out the operations of a scenario. Package loadtest measures them, and
// package estimate prices them: both are to put the same load on a limiter.
package drive

import (
	"context"
	"slices"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Actor carries out operations.
type Actor interface {
	// Prime makes the buckets of the load, and empties those that are exhausted.
	Prime(ctx context.Context) error
	Act(ctx context.Context, class, client int, op *scenario.Op) Answer
	Close() error
}

// New makes the actor of a side. st is a store of the side's namespace.
func New(ctx context.Context, s *Site, st *dynamo.Store) (Actor, error) {
	if s.Side == scenario.Bare {
		_, id := st.Namespace()
		return newBare(s, id), nil
	}
	return newLimited(ctx, s)
}

// An Answer is the result of an operation.
type Answer struct {
	Took Taken
	// Asked and Settled are how long the acquire, or the other call, took, and the commit. Held is
	// the time between them, on purpose.
	Asked, Settled, Held time.Duration
	Err                  error
}

// Taken is how much of its request an operation took.
type Taken uint8

// The values of [Taken].
const (
	TookNothing Taken = iota
	TookAll           // what it asked for
	TookUsed          // what it used, after a settlement
	TookEither        // what it asked for or what it used: its settlement has no answer
	TookMaybe         // all or nothing: it has no answer
)

// A Site is what an actor works on: one side of a scenario, in a namespace of a table.
type Site struct {
	Plan             *scenario.Plan
	Side             scenario.Side
	API              dynamo.API
	Table, Namespace string
	Now              func() time.Time
	// Limiter are the options of all limiters. Its logger is that of their stores, too.
	Limiter limiter.Options
	// Cold leaves out the buckets that Prime makes, but for exhausted ones.
	Cold bool
	// Again reports whether an error of the set-up may pass.
	Again func(error) bool
	// Ask carries out an operation of Prime, and records it; nil is the actor's Act.
	Ask func(ctx context.Context, class, client int, op *scenario.Op) error
}

func (s *Site) ask(ctx context.Context, a Actor, class, client int, op *scenario.Op) error {
	if s.Ask == nil {
		return a.Act(ctx, class, client, op).Err
	}
	return s.Ask(ctx, class, client, op)
}

// BucketsOf are the buckets that a class may use, as entity and resource, without parents.
func BucketsOf(p *scenario.Plan, class int) (all [][2]int) {
	c := &p.Classes[class]
	for _, from := range c.From {
		first := p.First[from.Population]
		for e := first; e < first+p.Populations[from.Population].Count; e++ {
			for _, r := range c.Resources {
				all = append(all, [2]int{e, r.Index})
			}
		}
	}
	return all
}

// first is the operation that makes a bucket. It takes one token of each limit, or all.
func (s *Site) first(entity, resource int, all bool) *scenario.Op {
	limits := LimitsOf(s.Plan, entity, resource)
	op := &scenario.Op{Kind: scenario.Acquire, Entity: entity, Resource: resource, Call: -1, Consume: make([]int64, len(limits))}
	for i, l := range limits {
		if l.Name == "" {
			continue
		}
		op.Limits = append(op.Limits, i)
		if op.Consume[i] = 1; all {
			op.Consume[i] = l.Capacity
		}
	}
	op.Settle = op.Consume
	return op
}

// LimitsOf are the limits of a bucket, in the order of the resource's.
func LimitsOf(p *scenario.Plan, entity, resource int) []store.Limit {
	of := p.Resources[resource].Limits
	own := p.Entities[entity].Limits
	if own == nil {
		return of
	}
	limits := make([]store.Limit, len(of))
	for i := range of {
		if k := slices.IndexFunc(own, func(l store.Limit) bool { return l.Name == of[i].Name }); k >= 0 {
			limits[i] = own[k]
		}
	}
	return limits
}
