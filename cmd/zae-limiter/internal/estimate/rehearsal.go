package estimate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/virtual"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store"
)

// A rehearsal carries out one side of a scenario in virtual time: with limiters, on the
// embedded engine. The load is that of a run with the same seed, by the same driver.
//
// A model of the limiter would be faster, by a factor of fifty. But it would have to follow each
// change of the limiter: what processes remember, how callers share writes, who loses a race.
type rehearsal struct {
	p    *scenario.Plan
	side scenario.Side
	o    *ScenarioOptions
	// most are the operations of the load after which it stops.
	most int64
	// scatters sends each operation to a random limiter: many services behind a balancer do.
	scatters bool

	engine     *dynamolite.DB
	store      *dynamo.Store // for what is not part of the load
	actor      drive.Actor
	bare       *dynamo.Meter // of the side without the limiter
	usage      *counting     // nil without an aggregator
	recorder   recorder
	operations *drive.Load
	count      atomic.Int64 // of the load's operations that have begun
	random     func(int64) int64
	now        func() time.Time
	began      time.Time         // of the load
	ledger     dynamolite.Ledger // before everything

	mu     sync.Mutex
	failed error         // the first failure of an operation
	ran    time.Duration // of the load, until it was stopped

	rehearsed
}

// A rehearsed is what a rehearsal has found out.
type rehearsed struct {
	// done is the part of the load that was carried out. If it is less than 1, the load had
	// too many operations, and the rest says nothing.
	done float64

	registered            Cost // namespace, entities and limits
	billed                Cost // all, by the engine's ledger
	setUp, load, measured book // the load is the warm-up, and then what is measured

	shards  int     // of the bucket with the most
	bytes   int     // of the largest item of a bucket
	stored  float64 // bytes of all buckets
	buckets float64 // items of buckets
	limits  int     // of the bucket with the most
}

const (
	table     = "limits"
	namespace = "run"
)

// rehearse carries out a side, until it has too many operations.
func rehearse(r *rehearsal) (*rehearsal, error) {
	p := r.p
	r.now = time.Now //nolint:forbidigo // the clock of the bubble
	r.operations, r.random, r.recorder.parents = drive.NewLoad(p, r.now), dice(), map[string]bool{}
	for i := range p.Entities {
		if p.Entities[i].IsParent {
			r.recorder.parents[p.Entities[i].ID] = true
		}
	}
	if err := virtual.Run(r.run); err != nil {
		return nil, fmt.Errorf("carry out scenario %s: %w", p.Name, err)
	}
	return r, nil
}

func (r *rehearsal) run() (err error) {
	ctx := context.Background()
	r.engine = dynamolite.New(dynamolite.Options{Latency: dynamolite.Latency{P50: r.o.Latency}})
	defer func() { err = errors.Join(err, r.engine.Close()) }()
	if err := r.register(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.actor.Close()) }()
	if r.o.Aggregator {
		r.usage = r.follow(ctx)
		defer r.usage.close()
	}
	if err := r.actor.Prime(ctx); err != nil {
		return err
	}
	if r.usage != nil {
		time.Sleep(r.o.Function.BatchWindow) // the aggregator reads what this wrote
	}
	r.setUp = r.spent()
	var warm book
	r.drive(ctx, func() { warm = r.spent() })
	if r.usage != nil {
		err = r.usage.end()
	}
	r.billed = r.since(r.ledger)
	all := r.spent()
	r.load, r.measured = all.since(&r.setUp), all.since(&warm)
	if err = errors.Join(err, r.failed); err != nil || r.done < 1 || r.side == scenario.Bare {
		return err
	}
	return r.look(ctx)
}

// register makes the table and the namespace, and what the load needs before its buckets.
func (r *rehearsal) register(ctx context.Context) error {
	options := dynamo.TableOptions{Name: table, Stream: r.o.Aggregator, KeepExpired: true} // as in a run
	if r.side == scenario.Bare {
		options.GSI2Projection = dynamo.ProjectAll
	}
	if err := dynamo.CreateTable(ctx, r.engine, options); err != nil {
		return err
	}
	before := r.engine.Ledger()
	r.ledger = before
	o := dynamo.Options{API: r.engine, Table: table, Namespace: namespace}
	namespaces, err := admin.NewNamespaces(o)
	if err != nil {
		return err
	}
	if _, err = namespaces.Register(ctx, namespace); err != nil {
		return err
	}
	if r.store, err = dynamo.Open(ctx, o); err != nil {
		return err
	}
	if err := r.hire(ctx); err != nil {
		return err
	}
	r.registered = r.since(before)
	r.registered.Name = PartSetUp
	return nil
}

// since is what the engine has billed after an earlier state of its ledger.
func (r *rehearsal) since(before dynamolite.Ledger) Cost {
	u := r.engine.Ledger().Since(before).Total()
	return Cost{Requests: float64(u.Requests), Writes: u.WriteUnits, Reads: u.ReadUnits}
}

// hire writes the entities and limits, and makes what carries out the operations.
func (r *rehearsal) hire(ctx context.Context) (err error) {
	const patience = 100 // times the latency, after which a limiter gives up a call
	r.bare = dynamo.NewMeter(r.engine)
	site := &drive.Site{
		Plan: r.p, Side: r.side, API: r.engine, Table: table, Namespace: namespace, Cold: r.o.Cold, Again: setup.Again,
		Now: r.now,
		Limiter: limiter.Options{
			ConfigTTL: r.o.ConfigTTL, Timeout: max(limiter.DefaultTimeout, patience*r.o.Latency), Observer: &r.recorder, Rand: r.random,
		},
	}
	if r.side == scenario.Bare {
		site.API = r.bare
	} else if err := setup.Write(ctx, r.store, r.p); err != nil {
		return err
	}
	r.actor, err = drive.New(ctx, site, r.store)
	return err
}

// dice returns random numbers, the same in every rehearsal.
func dice() func(int64) int64 {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a rehearsal is to repeat
	return func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Int64N(n)
	}
}

// spent is what was spent so far, without the namespace, the entities and the limits.
func (r *rehearsal) spent() book {
	b := r.recorder.spent()
	b.of[causeAdmitted] = b.of[causeAdmitted].plus(costOf(r.bare.Totals().Sum()), 1)
	if r.usage != nil {
		b.of[causeUsage], b.batches = costOf(r.usage.meter.Totals().Sum()), float64(r.usage.batches.Load())
		b.reached = float64(r.usage.records.Load())
	}
	return b
}

// drive carries out the warm-up and all phases. warm is called between them. It stops when there
// were too many operations.
func (r *rehearsal) drive(ctx context.Context, warm func()) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.began = r.now()
	if r.p.WarmUp > 0 {
		r.stretch(ctx, stop, 0, -r.p.WarmUp, r.p.WarmUp)
	}
	warm()
	from := time.Duration(0)
	for i, phase := range r.p.Phases {
		r.stretch(ctx, stop, i, from, phase.For)
		from += phase.For
	}
	if r.done = 1; ctx.Err() != nil {
		r.done = float64(r.ran) / float64(r.p.WarmUp+r.p.Duration())
	}
}

// stretch carries out a phase, or its warm-up.
func (r *rehearsal) stretch(ctx context.Context, stop func(), phase int, from, length time.Duration) {
	all := r.operations.Drivers(phase, from, length)
	for _, d := range all {
		d.Begin = func(time.Duration) {}
		d.Do = func(ctx context.Context, client int, op *scenario.Op, _ time.Time) {
			if r.count.Add(1) == r.most {
				r.ran = r.now().Sub(r.began)
				stop()
			}
			if r.scatters {
				client = int(r.random(int64(r.p.Limiters)))
			}
			r.act(context.WithoutCancel(ctx), d.Class, client, op)
		}
	}
	drive.Together(ctx, all, r.now(), length)
}

// act carries out an operation. Calls that manage entities and limits have a bill of their own.
func (r *rehearsal) act(ctx context.Context, class, client int, op *scenario.Op) {
	var bill store.Bill
	a := r.actor.Act(store.WithBill(ctx, &bill), class, client, op)
	if c := bill.Cost(); c.Requests > 0 {
		r.recorder.spend(causeCalls, Cost{Requests: float64(c.Requests), Writes: c.WriteUnits, Reads: c.ReadUnits})
	}
	refused := errors.Is(a.Err, limiter.ErrExceeded)
	r.recorder.ended(refused)
	if a.Err == nil || refused {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = a.Err
	}
}

// look reads the buckets after the load.
func (r *rehearsal) look(ctx context.Context) error {
	parents := map[string]string{}
	for i := range r.p.Entities {
		if e := &r.p.Entities[i]; e.Parent >= 0 {
			parents[e.ID] = r.p.Entities[e.Parent].ID
		}
	}
	for _, resource := range r.p.Resources {
		for images, err := range r.store.ResourceBuckets(ctx, resource.Name) {
			if err != nil {
				return err
			}
			var limits []store.Limit
			for i := range images[0].Limits {
				l := &images[0].Limits[i]
				limits = append(limits, store.Limit{Name: l.Name, Renews: l.Renewal, Carries: l.Carries})
			}
			bytes := ItemBytes(images[0].Entity, resource.Name, parents[images[0].Entity], limits)
			r.bytes, r.shards, r.limits = max(r.bytes, bytes), max(r.shards, len(images)), max(r.limits, len(limits))
			r.buckets += float64(len(images))
			r.stored += float64(len(images) * (bytes + overhead + indexed))
		}
	}
	return nil
}
