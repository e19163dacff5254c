package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// An actor carries operations out.
type actor interface {
	// prime creates the buckets. It sends its operations through ask.
	prime(ctx context.Context, ask func(ctx context.Context, client int, d draw) error) error
	// act carries out one operation. A refusal is an error, [limiter.ErrExceeded].
	act(ctx context.Context, client int, d draw) (taken, error)
	// close waits for background work.
	close() error
}

// A side is a population of entities and the actor for their operations.
type side struct {
	o     *Options
	w     *workload
	store *dynamo.Store // for set-up and inspection, outside the measurement
	table string
	watch *watch
	books *books
	actor actor
	next  int64 // number of the next operation
}

func (r *run) newSide(table string, store *dynamo.Store, w *workload) *side {
	s := &side{o: &r.o, w: w, store: store, table: table, watch: newWatch(r.o.API, r.o.Now), books: newBooks(w)}
	r.sides = append(r.sides, s)
	return s
}

// setUp writes the entities and limits of the workload.
func (s *side) setUp(ctx context.Context) error {
	for _, r := range s.w.resources {
		if err := s.store.SetLimits(ctx, limiter.ConfigKey{Resource: r}, s.w.limits); err != nil {
			return err
		}
	}
	// Children of one parent are created one after another: their transactions would
	// conflict at its record.
	return each(ctx, len(s.w.parents), func(ctx context.Context, p int) error {
		if _, err := s.store.CreateEntity(ctx, limiter.Entity{ID: s.w.parents[p]}); err != nil {
			return err
		}
		for i, id := range s.w.entities {
			if s.w.parent(i) != p {
				continue
			}
			if _, err := s.store.CreateEntity(ctx, limiter.Entity{ID: id, Parent: s.w.parents[p], Cascade: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

// ready creates the buckets.
func (s *side) ready(ctx context.Context) error { return s.actor.prime(ctx, s.ask) }

// patiently repeats the creation or deletion of a bucket while it is throttled: an index
// cannot take so many at once.
func patiently(ctx context.Context, do func() error) error {
	const attempts, pause = 200, 50 * time.Millisecond
	alarm := time.NewTimer(pause)
	defer alarm.Stop()
	for attempt := 0; ; attempt++ {
		err := do()
		_, throttled := throttledBy(err)
		if !throttled && !errors.Is(err, limiter.ErrUnavailable) || attempt == attempts {
			return err
		}
		if !until(ctx, alarm, pause) {
			return context.Cause(ctx)
		}
	}
}

// ask carries out an operation and records it in the books.
func (s *side) ask(ctx context.Context, client int, d draw) error {
	s.books.begin(d, s.o.Now())
	took, err := s.actor.act(ctx, client, d)
	if err != nil && ended(ctx) {
		took = tookUnknown
	}
	s.books.end(d, s.o.Now(), took, errors.Is(err, limiter.ErrExceeded))
	return err
}

// warmUp runs a load without measuring it.
func (s *side) warmUp(ctx context.Context, rate int64, clients int) {
	if s.o.WarmUp > 0 {
		s.drive(ctx, Pace{rate, s.o.WarmUp}, clients, newTally())
	}
}

func (s *side) drive(ctx context.Context, p Pace, clients int, t *tally) (start time.Time, begun int64) {
	start = s.o.Now()
	begun = load{Pace: p, clients: clients, first: s.next, do: func(ctx context.Context, client int, n int64, due time.Time) {
		err := s.ask(ctx, client, s.w.draw(s.o.Seed, n))
		if err != nil && ctx.Err() != nil {
			return // cut off
		}
		t.add(due, s.o.Now(), err)
	}}.drive(ctx, s.o.Now, start)
	s.next += begun
	return start, begun
}

// measure runs a load and returns its measurement.
func (s *side) measure(ctx context.Context, rate int64, clients int) *Measurement {
	t, p := newTally(), Pace{rate, s.o.Duration}
	s.watch.begin()
	before := s.watch.meter.Totals()
	start, begun := s.drive(ctx, p, clients, t)
	p.For = max(p.For, t.last.Sub(start))
	if ctx.Err() != nil {
		p.For = s.o.Now().Sub(start)
	}
	m := &Measurement{Elapsed: p.For, Due: begun, Answers: t.counts, Latency: t.latency(), Writes: s.watch.counted()}
	if rate > 0 {
		m.Due = Pace{rate, min(p.For, s.o.Duration)}.Count()
	}
	m.Cost = costOf(s.watch.meter.Totals().Sub(before).Sum()).per(t.counts.Operations)
	uses, wrong := s.books.sums()
	m.Limits = uses
	if _, unjudged := s.actor.(*bare); !unjudged {
		m.Wrong = &wrong
	}
	return m
}

// shards is the number of items of the busiest bucket.
func (s *side) shards(ctx context.Context) (int, error) {
	b := s.books.busiest()
	images, err := s.store.Buckets(ctx, b.Entity, b.Resource, 1)
	if err != nil {
		return 0, fmt.Errorf("count the shards of %s: %w", b.Entity, err)
	}
	return len(images), nil
}

// limited is an actor on limiters.
type limited struct {
	w        *workload
	limiters []*limiter.Limiter
}

// limit makes limiters for the side, each with its own store.
func (s *side) limit(ctx context.Context, api dynamo.API) (*limited, error) {
	a := &limited{w: s.w}
	for range s.o.Limiters {
		store, err := dynamo.Open(ctx, dynamo.Options{API: api, Table: s.table, Namespace: s.o.Namespace, Now: s.o.Now, Logger: s.o.Logger})
		if err != nil {
			return nil, err
		}
		l, err := limiter.New(store, limiter.Options{Logger: s.o.Logger})
		if err != nil {
			return nil, err
		}
		a.limiters = append(a.limiters, l)
	}
	return a, nil
}

// prime makes every limiter acquire once from every bucket, or take its whole content.
func (a *limited) prime(ctx context.Context, ask func(context.Context, int, draw) error) error {
	n := len(a.w.resources)
	for k := range a.limiters {
		err := each(ctx, n*len(a.w.entities), func(ctx context.Context, i int) error {
			d := draw{entity: i / n, resource: i % n, reserve: 1, use: 1, all: a.w.exhausted && k == 0}
			err := patiently(ctx, func() error { return ask(ctx, k, d) })
			if err != nil && !errors.Is(err, limiter.ErrExceeded) {
				return fmt.Errorf("make the bucket of %s for %s: %w", a.w.entities[d.entity], a.w.resources[d.resource], err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *limited) act(ctx context.Context, client int, d draw) (taken, error) {
	lease, err := a.limiters[client%len(a.limiters)].Acquire(ctx, a.w.request(d))
	if err != nil {
		return tookNothing, err
	}
	if d.use != d.reserve {
		if err := lease.Adjust(settled, d.use-d.reserve); err != nil {
			return tookAll, err
		}
		if err := lease.Commit(ctx); err != nil {
			return tookAll, err
		}
	}
	return tookUsed, nil
}

func (a *limited) close() error {
	errs := make([]error, len(a.limiters))
	for i, l := range a.limiters {
		errs[i] = l.Close()
	}
	return errors.Join(errs...)
}
