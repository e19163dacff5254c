package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// Run creates what a scenario needs, drives its load, and deletes what it created. It
// leaves the tables, the namespaces' audit events until they expire, and two small records
// of each namespace. It misses buckets that an index does not show yet. It returns after
// all its goroutines have ended.
//
// If ctx ends during the load, Run returns the measurements so far and the context's error.
// The Result is nil if nothing was measured: an option is invalid
// ([store.ValidationError], [scenario.ParseError]), or the set-up failed. Failed operations
// are not errors of Run; they are counted.
func Run(ctx context.Context, o Options) (*result.Result, error) {
	o, plan, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{o: o, plan: plan, admin: dynamo.NewMeter(o.API)}
	r.result = &result.Result{
		Format: result.Format, Scenario: plan.Name, About: plan.About, Version: o.Version, Target: o.Target,
		Machine: machine(),
		Started: o.Now().UTC(), Seed: plan.Seed, Limiters: plan.Limiters, Namespace: o.Namespace,
		SlowAfter: result.InMilliseconds(o.Slow),
		Prices:    fmt.Sprintf("on demand, %s, %s", o.Region, o.Prices.WriteUnits.Date),
	}
	err = r.all(ctx)
	err = errors.Join(err, r.cleanUp(ctx))
	if ctx.Err() != nil {
		r.result.Interrupted = true
		err = errors.Join(context.Cause(ctx), err)
	}
	if len(r.result.Sides) == 0 {
		return nil, err
	}
	spent := r.admin.Totals().Sum()
	r.result.Spent = r.cost(spent)
	for _, s := range r.sides {
		r.result.Spent = r.result.Spent.Plus(r.cost(s.router.total()))
	}
	r.result.Unreliable = unreliable(r.result, o.MaxLag)
	return r.result, err
}

// machine describes what the generator runs on.
func machine() string {
	collector := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(collector)
	percent := "off"
	if n := collector[0].Value.Uint64(); n <= math.MaxInt32 {
		percent = strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("%s/%s, %d processors, GOGC %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), percent)
}

// A run is one call of Run.
type run struct {
	o      Options
	plan   *scenario.Plan
	admin  *dynamo.Meter
	result *result.Result
	sides  []*side
	over   time.Duration // of the planned time
}

// all runs the sides, one after another.
func (r *run) all(ctx context.Context) error {
	for i := 0; i < len(r.plan.Sides) && ctx.Err() == nil; i++ {
		if err := r.one(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// one runs a side.
func (r *run) one(ctx context.Context, i int) (err error) {
	s, err := r.newSide(ctx, i)
	if err != nil {
		return errors.Join(err, r.forget(ctx, i))
	}
	r.sides = append(r.sides, s)
	defer func() { err = errors.Join(err, s.actor.Close()) }()
	r.prepare(s, "writing the entities and their limits")
	if err := s.setUp(ctx); err != nil {
		return err
	}
	r.prepare(s, "making the buckets")
	if err := s.actor.Prime(ctx); err != nil {
		return err
	}
	if r.plan.WarmUp > 0 {
		r.prepare(s, "warming up")
		s.warmUp(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	measured := &result.Side{Name: string(s.kind)}
	err = s.measure(ctx, measured)
	aside, cancel := aside(ctx)
	defer cancel()
	r.prepare(s, "comparing the books with the table")
	err = errors.Join(err, s.conclude(aside, measured))
	r.result.Sides = append(r.result.Sides, *measured)
	return err
}

func (r *run) prepare(s *side, what string) {
	r.o.Observe(Progress{Preparing: what, Side: s.kind, Done: r.over, Planned: r.planned()})
}

// planned is the time of all phases of all sides.
func (r *run) planned() time.Duration {
	return time.Duration(len(r.plan.Sides)) * r.plan.Duration()
}

// cost is the price of requests.
func (r *run) cost(u dynamo.Usage) result.Cost {
	const million = 1e6
	return result.Cost{
		Requests: float64(u.Requests), RCU: u.RCU, WCU: u.WCU,
		Dollars: (u.RCU*r.o.Prices.ReadUnits.Dollars + u.WCU*r.o.Prices.WriteUnits.Dollars) / million,
	}
}

// forget deletes the namespace of a side that could not be opened: an interrupted request
// may have registered it.
func (r *run) forget(ctx context.Context, i int) error {
	if r.o.Keep {
		return nil
	}
	ctx, cancel := aside(ctx)
	defer cancel()
	if err := ignoreMissing(r.deleteNamespace(ctx, i)); err != nil {
		return fmt.Errorf("delete namespace %s: %w", r.o.namespace(i), err)
	}
	return nil
}

func (r *run) deleteNamespace(ctx context.Context, i int) error {
	namespaces, err := admin.NewNamespaces(dynamo.Options{API: r.admin, Table: r.o.table(r.plan.Sides[i]), Now: r.o.Now, Logger: r.o.Logger})
	if err != nil {
		return err
	}
	return namespaces.Delete(ctx, r.o.namespace(i))
}

// aside returns a context for work that must be done even if the run was interrupted.
func aside(ctx context.Context) (context.Context, context.CancelFunc) {
	const patience = 5 * time.Minute
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// open creates the table and the namespace of a side if they do not exist.
func (r *run) open(ctx context.Context, i int) (*dynamo.Store, error) {
	kind := r.plan.Sides[i]
	o := dynamo.Options{API: r.admin, Table: r.o.table(kind), Namespace: r.o.namespace(i), Now: r.o.Now, Logger: r.o.Logger}
	projection := dynamo.Projection("")
	if kind == scenario.Bare {
		projection = dynamo.ProjectAll
	}
	namespaces, err := admin.NewNamespaces(o)
	if err != nil {
		return nil, err
	}
	_, err = namespaces.Register(ctx, o.Namespace)
	missing := (*limiter.NotFoundError)(nil)
	if errors.As(err, &missing) && missing.Kind == "table" || err == nil && projection != "" {
		// An existing table must have this projection, and stays unchanged.
		if err := dynamo.CreateTable(ctx, r.admin, dynamo.TableOptions{Name: o.Table, GSI2Projection: projection, KeepExpired: true, Now: r.o.Now}); err != nil {
			return nil, err
		}
		_, err = namespaces.Register(ctx, o.Namespace)
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
	for i, s := range r.sides {
		r.prepare(s, "deleting the items")
		if err := errors.Join(s.delete(ctx), r.deleteNamespace(ctx, i)); err != nil {
			errs = append(errs, fmt.Errorf("delete namespace %s and its items; some are left: %w", r.o.namespace(i), err))
		}
	}
	return errors.Join(errs...)
}
