package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A side is a system that carries out the load.
type side struct {
	run              *run
	plan             *scenario.Plan
	kind             scenario.Side
	table, namespace string
	store            *dynamo.Store // for what is not part of the load
	router           *router
	books            *books
	actor            drive.Actor
	load             *drive.Load
}

func (r *run) newSide(ctx context.Context, i int) (*side, error) {
	st, err := r.open(ctx, i)
	if err != nil {
		return nil, err
	}
	s := &side{
		run: r, plan: r.plan, kind: r.plan.Sides[i], table: r.o.table(r.plan.Sides[i]), namespace: r.o.namespace(i), store: st,
		router: newRouter(r.o.API, r.plan.Populations, r.o.Now), books: newBooks(r.plan),
		load: drive.NewLoad(r.plan, r.o.Now),
	}
	site := &drive.Site{
		Plan: s.plan, Side: s.kind, API: s.router, Table: s.table, Namespace: s.namespace, Now: r.o.Now,
		Limiter: limiter.Options{Logger: r.o.Logger}, Again: mayPass,
		Ask: func(ctx context.Context, class, client int, op *scenario.Op) error {
			a, _ := s.ask(ctx, class, client, op)
			return a.Err
		},
	}
	s.actor, err = drive.New(ctx, site, st)
	return s, err
}

// setUp writes the limits and the entities.
func (s *side) setUp(ctx context.Context) error {
	if s.kind == scenario.Bare {
		return nil
	}
	return setup.Write(ctx, s.store, s.plan)
}

// mayPass reports whether an error of the set-up or the cleanup may pass: an index, or the
// registry of resources, cannot take so many writes at once.
func mayPass(err error) bool {
	_, throttled := throttledBy(err)
	return throttled || setup.Again(err)
}

// ask carries out an operation, records it in the books, and returns when it ended.
func (s *side) ask(ctx context.Context, class, client int, op *scenario.Op) (drive.Answer, time.Time) {
	if op.Kind != scenario.Acquire {
		a := s.actor.Act(ctx, class, client, op)
		return a, s.run.o.Now()
	}
	s.books.begin(op, s.run.o.Now())
	a := s.actor.Act(ctx, class, client, op)
	end := s.run.o.Now()
	s.books.end(op, end, a.Took, errors.Is(a.Err, limiter.ErrExceeded))
	return a, end
}

// A stretch is a part of the load: the warm-up, or a phase.
type stretch struct {
	from, length time.Duration
	drivers      []*drive.Driver
	tallies      []*tally
	start        time.Time
}

// stretch prepares the drivers of the classes of a phase, or of its warm-up.
func (s *side) stretch(phase int, from, length time.Duration) *stretch {
	st := &stretch{from: from, length: length, drivers: s.load.Drivers(phase, from, length)}
	for _, d := range st.drivers {
		t := newTally(s.run.o.Slow)
		d.Begin = t.begin
		d.Do = func(ctx context.Context, client int, op *scenario.Op, due time.Time) {
			a, end := s.ask(ctx, d.Class, client, op)
			if a.Err != nil && ctx.Err() != nil {
				return // cut off
			}
			t.end(end.Sub(due)-a.Held, end, a.Err)
		}
		st.tallies = append(st.tallies, t)
	}
	return st
}

// drive carries out a stretch. It takes at least the stretch's length.
func (st *stretch) drive(ctx context.Context, now func() time.Time) {
	st.start = now()
	drive.Together(ctx, st.drivers, st.start, st.length)
}

// warmUp runs the load of the first phase without measuring it.
func (s *side) warmUp(ctx context.Context) {
	s.stretch(0, -s.plan.WarmUp, s.plan.WarmUp).drive(ctx, s.run.o.Now)
}

// measure runs the phases.
func (s *side) measure(ctx context.Context, to *result.Side) error {
	var from time.Duration
	var errs []error
	sampler := &sampler{side: s, to: to, start: s.run.o.Now()}
	for i, p := range s.plan.Phases {
		if ctx.Err() != nil {
			break
		}
		st := s.stretch(i, from, p.For)
		s.router.begin()
		before := s.costs()
		sampler.during(ctx, i, st, func() { st.drive(ctx, s.run.o.Now) })
		measured := s.measured(ctx, st, p.Name)
		errs = append(errs, s.count(ctx, &measured, before))
		to.Phases = append(to.Phases, measured)
		from += p.For
		s.run.over += p.For
	}
	return errors.Join(errs...)
}

// measured is what the classes of a phase did.
func (s *side) measured(ctx context.Context, st *stretch, name string) result.Phase {
	p := result.Phase{Name: name}
	for i, t := range st.tallies {
		took := max(st.length, t.last.Sub(st.start))
		due := t.whole.begun
		if ctx.Err() != nil {
			took = s.run.o.Now().Sub(st.start)
		}
		class := st.drivers[i].Class
		if s.plan.Classes[class].Arrival.Open() {
			due = s.plan.Schedule(class, st.from).Skip(min(st.length, took))
		}
		p.Classes = append(p.Classes, result.Class{
			Name: s.plan.Classes[class].Name, Seconds: took.Seconds(), Due: due, Answers: t.whole.answers,
			Latency: t.whole.latency.latency(), Lag: t.whole.lag.latency(),
		})
	}
	return p
}

// costs are the costs of the populations so far, and of all requests at the end.
func (s *side) costs() (all []dynamo.Usage) {
	for _, w := range s.router.watches {
		all = append(all, w.Totals().Sum())
	}
	return append(all, s.router.total())
}

// count adds to a phase what the populations cost, and their shards.
func (s *side) count(ctx context.Context, to *result.Phase, before []dynamo.Usage) error {
	after := s.costs()
	since := func(i int) result.Cost { return s.run.cost(less(after[i], before[i])) }
	var errs []error
	for i := range s.plan.Populations {
		p := result.Population{Name: s.plan.Populations[i].Name, Cost: since(i), Writes: s.router.watches[i].counted()}
		if busiest := s.books.busiest[i].Load(); busiest != nil {
			var err error
			if p.Shards, err = s.shards(ctx, busiest); err != nil {
				errs = append(errs, fmt.Errorf("count the shards of population %s: %w", p.Name, err))
			}
		}
		to.Populations = append(to.Populations, p)
	}
	to.Cost = since(len(after) - 1)
	return errors.Join(errs...)
}

// less is what was used after an earlier state.
func less(now, before dynamo.Usage) dynamo.Usage {
	return dynamo.Usage{Requests: now.Requests - before.Requests, RCU: now.RCU - before.RCU, WCU: now.WCU - before.WCU}
}

// shards is the number of items of a bucket.
func (s *side) shards(ctx context.Context, of *account) (int, error) {
	ctx, cancel := aside(ctx)
	defer cancel()
	images, err := s.store.Buckets(ctx, s.plan.Entities[of.entity].ID, s.plan.Resources[of.resource].Name, 1)
	return len(images), err
}

// conclude adds to a side what its books say.
func (s *side) conclude(ctx context.Context, to *result.Side) (err error) {
	uses, wrong := s.books.sums()
	to.Limits = uses
	if s.kind != scenario.Bare {
		to.Wrong = wrong
	}
	to.Balance, err = s.balance(ctx)
	return err
}

// delete deletes the items of a side.
func (s *side) delete(ctx context.Context) error {
	touched := map[int]bool{}
	for i, e := range s.plan.Entities {
		if e.IsParent || e.Parent >= 0 || e.Limits != nil || setup.NeedsRecords(s.plan) {
			touched[i] = true
		}
	}
	for _, a := range s.books.all() {
		touched[a.entity] = true
	}
	if s.kind == scenario.Bare {
		for c := range s.plan.Classes {
			for _, at := range drive.BucketsOf(s.plan, c) {
				touched[at[0]] = true
			}
		}
	}
	all := make([]int, 0, len(touched))
	for i := range touched {
		all = append(all, i)
	}
	errs := []error{setup.Each(ctx, len(all), func(ctx context.Context, i int) error {
		return setup.Patiently(ctx, mayPass, func() error {
			_, err := s.store.DeleteEntity(ctx, s.plan.Entities[all[i]].ID)
			return ignoreMissing(err)
		})
	})}
	for _, r := range s.plan.Resources {
		errs = append(errs, ignoreMissing(s.store.DeleteLimits(ctx, store.ConfigKey{Resource: r.Name})))
	}
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, limiter.ErrNotFound) {
		return nil
	}
	return err
}
