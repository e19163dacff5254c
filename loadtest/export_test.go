package loadtest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/loadtest/result"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
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

// Entitlement is what a bucket that starts full can admit.
func Entitlement(l store.Limit, d time.Duration) int64 { return entitlement(l, d.Milliseconds()) }

// A nothing is an actor that does nothing.
type nothing struct{}

func (nothing) prime(context.Context) error { return nil }

func (nothing) act(context.Context, int, int, *scenario.Op) answer { return answer{took: tookUsed} }

func (nothing) close() error { return nil }

// Generator returns a function that carries out n operations of the first class, one after
// another, as users do, with an actor that does nothing. It is what a run adds to the work of
// a limiter.
func Generator(p *scenario.Plan) func(ctx context.Context, n int) {
	s := &side{run: &run{o: Options{Now: time.Now}}, plan: p, books: newBooks(p), actor: nothing{}, next: make([]atomic.Int64, len(p.Classes))}
	d := s.stretch(0, 0, time.Hour).drivers[0]
	var op scenario.Op
	return func(ctx context.Context, n int) { d.carryOut(ctx, n, &op) }
}

func (d *driver) carryOut(ctx context.Context, n int, op *scenario.Op) {
	for range n {
		due := d.now()
		d.plan.Op(d.class, d.next.Add(1)-1, 0, op)
		d.tally.begin(-1)
		d.do(ctx, 0, op, due)
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
	if err := errors.Join(s.setUp(ctx), s.actor.prime(ctx)); err != nil {
		return nil, errors.Join(err, s.actor.close())
	}
	limiters := s.actor
	st := s.stretch(0, 0, time.Hour)
	st.start = o.Now()
	of := &sampler{side: s, to: &result.Side{}, start: st.start}
	of.during(ctx, 0, st, func() {})
	d := st.drivers[0]
	var op scenario.Op
	with := func(a actor) func(int) {
		return func(n int) {
			s.actor = a
			d.carryOut(ctx, n, &op)
		}
	}
	return &Sampling{with(limiters), with(nothing{}), func() { of.take(ctx) }, limiters.close}, nil
}
