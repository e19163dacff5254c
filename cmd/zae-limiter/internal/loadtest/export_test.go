package loadtest

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Unreliable says why the figures of a result are not those of the limiter.
func Unreliable(r *result.Result, maxLag time.Duration) string { return unreliable(r, maxLag) }

// Busiest is the entity whose bucket the books take for the busiest one, after requests for
// some entities.
func Busiest(p *scenario.Plan, entities []int) int {
	b := newBooks(p)
	for _, e := range entities {
		n := len(p.Resources[0].Limits)
		b.begin(&scenario.Op{Entity: e, Consume: make([]int64, n), Settle: make([]int64, n)}, time.Now())
	}
	return b.busiest[0].Load().entity
}

// Entitlement is what a bucket that starts full at an instant can admit in a time.
func Entitlement(l store.Limit, start time.Time, d time.Duration) int64 {
	return entitlement(l, start.UnixMilli(), start.Add(d).UnixMilli())
}

// A nothing is an actor that does nothing.
type nothing struct{}

func (nothing) Prime(context.Context) error { return nil }

func (nothing) Act(context.Context, int, int, *scenario.Op) drive.Answer {
	return drive.Answer{Took: drive.TookUsed}
}

func (nothing) Close() error { return nil }

// Generator returns a function that carries out n operations of the first class, one after
// another, as users do, with an actor that does nothing. It is what a run adds to the work of
// a limiter.
func Generator(p *scenario.Plan) func(ctx context.Context, n int) {
	s := &side{run: &run{o: Options{Now: time.Now}}, plan: p, books: newBooks(p), actor: nothing{}, load: drive.NewLoad(p, time.Now)}
	d := s.stretch(0, 0, time.Hour).drivers[0]
	var op scenario.Op
	return func(ctx context.Context, n int) { carryOut(ctx, d, n, &op) }
}

func carryOut(ctx context.Context, d *drive.Driver, n int, op *scenario.Op) {
	for range n {
		due := d.Now()
		d.Plan.Op(d.Class, d.Next.Add(1)-1, 0, op)
		d.Begin(-1)
		d.Do(ctx, 0, op, due)
	}
}

// A Sampling is the first side of a scenario, whose samples a test takes.
type Sampling struct {
	// Decide carries out n operations of the first class with limiters, and CarryOut with an
	// actor that does nothing. Take takes a sample of them, and shows it.
	Decide, CarryOut func(n int)
	Take             func()
	Close            func() error
}

// NewSampling makes a table, entities, limits and buckets.
func NewSampling(ctx context.Context, o Options) (*Sampling, error) {
	o, plan, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{o: o, plan: plan, admin: dynamo.NewMeter(o.API)}
	s, err := r.newSide(ctx, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.setUp(ctx), s.actor.Prime(ctx)); err != nil {
		return nil, errors.Join(err, s.actor.Close())
	}
	limiters := s.actor
	st := s.stretch(0, 0, time.Hour)
	st.start = o.Now()
	of := &sampler{side: s, to: &result.Side{}, start: st.start}
	of.during(ctx, 0, st, func() {})
	d := st.drivers[0]
	var op scenario.Op
	with := func(a drive.Actor) func(int) {
		return func(n int) {
			s.actor = a
			carryOut(ctx, d, n, &op)
		}
	}
	return &Sampling{with(limiters), with(nothing{}), func() { of.take(ctx) }, limiters.Close}, nil
}
