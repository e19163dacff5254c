package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Run creates what a scenario needs, drives its load, and deletes what it created. It
// leaves the tables, the namespace's audit events until they expire, and two small records
// of the namespace. It misses buckets that an index does not show yet. It returns after all
// its goroutines have ended.
//
// If ctx ends during the load, Run returns the measurements so far and the context's error.
// The Result is nil if nothing was measured: an option is not valid ([store.ValidationError]), or the
// set-up failed. Failed operations are not errors of Run; they are counted.
func Run(ctx context.Context, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.API == nil {
		return nil, invalid("API", "nil", "give a DynamoDB client, or an engine")
	}
	r := &run{o: o, admin: dynamo.NewMeter(o.API)}
	r.result = &Result{
		Scenario: o.Scenario, Rate: o.Rate, Clients: o.Clients, Limiters: o.Limiters,
		Entities: o.Entities, Seed: o.Seed, Namespace: o.Namespace,
	}
	scenario := r.one
	if o.Scenario == Attack {
		scenario = r.attack
	}
	err = scenario(ctx)
	err = errors.Join(err, r.cleanUp(ctx))
	if !r.measured {
		return nil, err
	}
	if ctx.Err() != nil {
		r.result.Interrupted = true
		err = errors.Join(context.Cause(ctx), err)
	}
	r.result.Spent = costOf(r.admin.Totals().Sum())
	for _, s := range r.sides {
		r.result.Spent = r.result.Spent.plus(costOf(s.watch.meter.Totals().Sum()))
	}
	return r.result, err
}

// A run is one call of Run.
type run struct {
	o        Options
	admin    *dynamo.Meter
	result   *Result
	sides    []*side
	measured bool
	over     time.Duration // of the planned time
}

// one runs a scenario with one population.
func (r *run) one(ctx context.Context) error {
	store, err := r.open(ctx, r.o.Table, "")
	if err != nil {
		return err
	}
	planned := r.o.WarmUp + r.o.Duration
	if r.o.Raw {
		planned *= 2
	}
	s := r.newSide(r.o.Table, store, r.o.workload())
	if err := s.setUp(ctx); err != nil {
		return err
	}
	limiters, err := s.limit(ctx, s.watch)
	if err != nil {
		return err
	}
	s.actor = limiters
	r.result.Limiter, err = r.runOne(ctx, s, planned)
	if err != nil || !r.o.Raw || ended(ctx) {
		return err
	}
	bare := r.newSide(r.o.Table, store, r.o.rawWorkload())
	bare.writeBare()
	r.result.Raw, err = r.runOne(ctx, bare, planned)
	return err
}

// rawWorkload is the same workload, on items that no limiter uses.
func (o Options) rawWorkload() *workload {
	w := o.workload()
	for i := range w.entities {
		w.entities[i] = "bare-" + w.entities[i]
	}
	w.parents = nil
	return w
}

func (r *run) runOne(ctx context.Context, s *side, planned time.Duration) (m *Measurement, err error) {
	defer func() { err = errors.Join(err, s.actor.close()) }()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	r.during(planned, r.o.WarmUp, func() { s.warmUp(ctx, r.o.Rate, r.o.Clients) })
	r.during(planned, r.o.Duration, func() { m = s.measure(ctx, r.o.Rate, r.o.Clients) })
	r.measured = true
	return m, s.inspect(ctx, m)
}

// inspect adds to a measurement what must be read from the table.
func (s *side) inspect(ctx context.Context, m *Measurement) (err error) {
	ctx, cancel := aside(ctx)
	defer cancel()
	m.Shards, err = s.shards(ctx)
	return err
}

// ended reports an interruption. Measurements made before it remain valid.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// aside returns a context for work that must be done even if the run was interrupted.
func aside(ctx context.Context) (context.Context, context.CancelFunc) {
	const patience = time.Minute
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// during runs a part of the planned time, and reports the progress.
func (r *run) during(planned, d time.Duration, do func()) {
	if r.o.Progress == nil || d == 0 {
		do()
		return
	}
	const every = 200 * time.Millisecond
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for passed := time.Duration(0); ; passed += every {
			r.o.Progress(r.over+min(passed, d), planned)
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	do()
	close(done)
	telling.Wait()
	r.over += d
	r.o.Progress(r.over, planned)
}

// open creates the table and the namespace if they do not exist.
func (r *run) open(ctx context.Context, table string, projection dynamo.Projection) (*dynamo.Store, error) {
	o := dynamo.Options{API: r.admin, Table: table, Namespace: r.o.Namespace, Now: r.o.Now, Logger: r.o.Logger}
	namespaces, err := dynamo.NewNamespaces(o)
	if err != nil {
		return nil, err
	}
	_, err = namespaces.Register(ctx, r.o.Namespace)
	missing := (*limiter.NotFoundError)(nil)
	if errors.As(err, &missing) && missing.Kind == "table" || err == nil && projection != "" {
		// An existing table must have this projection, and stays unchanged.
		if err := dynamo.CreateTable(ctx, r.admin, dynamo.TableOptions{Name: table, GSI2Projection: projection, KeepExpired: true, Now: r.o.Now}); err != nil {
			return nil, err
		}
		_, err = namespaces.Register(ctx, r.o.Namespace)
	}
	if err != nil {
		return nil, err
	}
	return dynamo.Open(ctx, o)
}

// cleanUp deletes what the sides have created.
func (r *run) cleanUp(ctx context.Context) error {
	if r.o.Keep {
		return nil
	}
	ctx, cancel := aside(ctx)
	defer cancel()
	var errs []error
	tables := map[string]bool{}
	for _, s := range r.sides {
		errs = append(errs, s.delete(ctx))
		tables[s.table] = true
	}
	for table := range tables {
		namespaces, err := dynamo.NewNamespaces(dynamo.Options{API: r.admin, Table: table, Now: r.o.Now, Logger: r.o.Logger})
		if err == nil {
			err = namespaces.Delete(ctx, r.o.Namespace)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete namespace %s and its items; some are left: %w", r.o.Namespace, err)
	}
	return nil
}

// delete deletes the items of a side.
func (s *side) delete(ctx context.Context) error {
	all := append(append([]string{}, s.w.entities...), s.w.parents...)
	err := each(ctx, len(all), func(ctx context.Context, i int) error {
		return patiently(ctx, func() error {
			_, err := s.store.DeleteEntity(ctx, all[i])
			return ignoreMissing(err)
		})
	})
	errs := []error{err}
	for _, r := range s.w.resources {
		errs = append(errs, ignoreMissing(s.store.DeleteLimits(ctx, limiter.ConfigKey{Resource: r})))
	}
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, limiter.ErrNotFound) {
		return nil
	}
	return err
}
