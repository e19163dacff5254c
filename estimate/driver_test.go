package estimate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/estimate"
	"github.com/zeroae/zae-limiter-go/internal/limitertest"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// A driven is what a side of a scenario cost on the engine, and what became of its
// operations.
type driven struct {
	setUp, load         dynamolite.Usage // set-up, and warm-up with measurement
	operations, refused int64
}

// drive carries out the first side of a scenario on the engine in virtual time. If usage is
// counted, an aggregator takes the records of each batch window.
func drive(t *testing.T, p *scenario.Plan, o estimate.ScenarioOptions) (d driven) {
	t.Helper()
	side := p.Sides[0]
	synctest.Test(t, func(t *testing.T) {
		table := dynamo.TableOptions{Stream: o.Windows > 0}
		if side == scenario.Bare {
			table.GSI2Projection = dynamo.ProjectAll
		}
		w := limitertest.New(t, limitertest.Options{Remote: true, Table: table, Engine: dynamolite.Options{Latency: dynamolite.Latency{P50: o.Latency}}})
		r := &driver{World: w, p: p, side: side}
		before := w.Engine.Ledger()
		r.setUp(o.Cold)
		middle := w.Engine.Ledger()
		count := func() {}
		if o.Windows > 0 {
			count = r.count()
		}
		r.load()
		count()
		d = driven{setUp: middle.Since(before).Total(), load: w.Engine.Ledger().Since(middle).Total(), operations: r.operations.Load(), refused: r.refused.Load()}
	})
	return d
}

// A driver drives one side.
type driver struct {
	*limitertest.World

	p     *scenario.Plan
	side  scenario.Side
	store *dynamo.Store
	// crews are the limiters of each class.
	crews [][]*limiter.Limiter

	start               time.Time
	operations, refused atomic.Int64
	all                 sync.WaitGroup
}

const runNamespace = "run"

func (r *driver) setUp(cold bool) {
	r.Helper()
	namespaces, err := dynamo.NewNamespaces(r.StoreOptions(dynamo.Options{}))
	r.Must(err)
	_, err = namespaces.Register(r.Context(), runNamespace)
	r.Must(err)
	r.store = r.Open(dynamo.Options{Namespace: runNamespace})
	if r.side == scenario.Bare {
		r.putItems()
		return
	}
	for _, res := range r.p.Resources {
		r.Must(r.store.SetLimits(r.Context(), store.ConfigKey{Resource: res.Name}, res.Limits))
	}
	// Parents come after their children in the plan, and must exist before them.
	for i := range r.p.Entities {
		if e := &r.p.Entities[i]; e.IsParent {
			r.create(store.Entity{ID: e.ID})
		}
	}
	for i := range r.p.Entities {
		e := &r.p.Entities[i]
		if e.Parent >= 0 {
			r.create(store.Entity{ID: e.ID, Parent: r.p.Entities[e.Parent].ID, Cascade: true})
		}
		if e.Limits != nil {
			r.Must(r.store.SetLimits(r.Context(), store.ConfigKey{Entity: e.ID, Resource: store.DefaultResource}, e.Limits))
		}
	}
	r.hire()
	r.prime(cold)
}

func (r *driver) create(e store.Entity) {
	r.Helper()
	_, err := r.store.CreateEntity(r.Context(), e)
	r.Must(err)
}

// hire opens the limiters.
func (r *driver) hire() {
	r.Helper()
	var shared []*limiter.Limiter
	crew := func() (all []*limiter.Limiter) {
		for range r.p.Limiters {
			all = append(all, r.NewLimiter(r.Open(dynamo.Options{Namespace: runNamespace}), limiter.Options{Rand: dice()}))
		}
		return all
	}
	for i := range r.p.Classes {
		if r.p.Classes[i].Apart && r.side == scenario.Limiter {
			r.crews = append(r.crews, crew())
			continue
		}
		if shared == nil {
			shared = crew()
		}
		r.crews = append(r.crews, shared)
	}
}

// dice returns random numbers, the same in every run.
func dice() func(int64) int64 {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(5, 6))
	return func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Int64N(n)
	}
}

// prime takes once from each bucket that a class uses, with each of its limiters. The first
// limiter takes all from a bucket that is to be exhausted.
func (r *driver) prime(cold bool) {
	r.Helper()
	const atATime = 16
	done := map[string]bool{}
	for c := range r.p.Classes {
		class := &r.p.Classes[c]
		for k, l := range r.crews[c] {
			var work []limiter.Request
			for _, share := range class.From {
				pop := &r.p.Populations[share.Population]
				for i := range pop.Count {
					for _, res := range class.Resources {
						req := r.first(&r.p.Entities[r.p.First[share.Population]+i], res.Index, k, cold)
						key := fmt.Sprintf("%p", l) + req.Entity + " " + req.Resource
						if req.Consume != nil && !done[key] {
							done[key] = true
							work = append(work, req)
						}
					}
				}
			}
			r.each(work, atATime, func(req limiter.Request) {
				lease, err := l.Acquire(r.Context(), req)
				if err == nil {
					err = lease.Commit(r.Context())
				}
				if !errors.Is(err, limiter.ErrExceeded) {
					r.Check(err)
				}
			})
		}
	}
}

// first is the request that makes a bucket, without amounts if there is none.
func (r *driver) first(e *scenario.Entity, resource, limiterNumber int, cold bool) limiter.Request {
	req := limiter.Request{Entity: e.ID, Resource: r.p.Resources[resource].Name}
	exhausted := r.p.Populations[e.Population].Exhausted
	if cold && !exhausted {
		return req
	}
	limits := r.p.Resources[resource].Limits
	if e.Limits != nil {
		limits = e.Limits
	}
	req.Consume = map[string]int64{}
	for _, l := range limits {
		req.Consume[l.Name] = 1
		if exhausted && limiterNumber == 0 {
			req.Consume[l.Name] = l.Capacity
		}
	}
	return req
}

func (r *driver) each(work []limiter.Request, atATime int, do func(limiter.Request)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atATime {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(work)); i = next.Add(1) - 1 {
				do(work[i])
			}
		})
	}
	wg.Wait()
}

// count starts an aggregator, and returns what lets it process the rest.
func (r *driver) count() (end func()) {
	const window = 5 * time.Second
	f, a := &feed{World: r.World, after: map[string]string{}}, counter(r.World)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(window)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.process(a, f.drain())
			case <-stop:
				f.process(a, f.drain())
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// load runs the warm-up and the phases.
func (r *driver) load() {
	r.start = time.Now().Add(r.p.WarmUp)
	for c := range r.p.Classes {
		r.all.Go(func() { r.class(c) })
	}
	r.all.Wait()
}

// isActive reports whether a class is active at an instant.
func (r *driver) isActive(c int, at time.Duration) bool {
	end := time.Duration(0)
	for i, ph := range r.p.Phases {
		if end += ph.For; at < end {
			return r.p.Classes[c].Active(i)
		}
	}
	return false
}

func (r *driver) class(c int) {
	s := r.p.Schedule(c, -r.p.WarmUp)
	if !r.p.Classes[c].Arrival.Open() {
		r.users(c, s)
		return
	}
	var n atomic.Int64
	due := make(chan int64, 1<<20)
	var clients sync.WaitGroup
	for range r.p.Classes[c].Arrival.Clients {
		clients.Go(func() {
			for n := range due {
				r.operate(c, int(n), n)
			}
		})
	}
	for {
		at, ok := s.Next()
		if !ok {
			break
		}
		at -= r.p.WarmUp
		if !r.isActive(c, at) {
			continue
		}
		time.Sleep(time.Until(r.start.Add(at)))
		due <- n.Add(1) - 1
	}
	close(due)
	clients.Wait()
}

// users starts the users of a closed class when the schedule does.
func (r *driver) users(c int, s *scenario.Schedule) {
	var n atomic.Int64
	var mu sync.Mutex
	running := map[int]bool{}
	var all sync.WaitGroup
	ensure := func(count int) {
		mu.Lock()
		defer mu.Unlock()
		for u := range count {
			if running[u] {
				continue
			}
			running[u] = true
			all.Go(func() {
				for {
					r.think(c, u, n.Add(1)-1)
					mu.Lock()
					at := time.Since(r.start)
					stay := at < r.p.Duration() && u < s.Users(at+r.p.WarmUp)
					running[u] = stay
					mu.Unlock()
					if !stay {
						return
					}
				}
			})
		}
	}
	at := time.Duration(0)
	for ok := true; ok; {
		time.Sleep(time.Until(r.start.Add(at - r.p.WarmUp)))
		ensure(s.Users(at))
		at, ok = s.NextUsers(at)
	}
	all.Wait()
}

// think carries out an operation of a user, who then thinks.
func (r *driver) think(c, user int, n int64) {
	if began := time.Now(); r.isActive(c, began.Sub(r.start)) {
		op := r.operate(c, user, n)
		if time.Sleep(op.Think); time.Since(began) == 0 {
			time.Sleep(estimate.FromMemory) // virtual time must pass
		}
		return
	}
	time.Sleep(10 * time.Millisecond)
}

func (r *driver) operate(c, client int, n int64) (op scenario.Op) {
	r.p.Op(c, n, time.Since(r.start), &op)
	r.operations.Add(1)
	if r.side == scenario.Bare {
		r.update(&op)
		return op
	}
	l, ctx := r.crews[c][client%len(r.crews[c])], context.WithoutCancel(r.Context())
	req := limiter.Request{Entity: r.p.Entities[op.Entity].ID, Resource: r.p.Resources[op.Resource].Name, Consume: r.named(&op, op.Consume)}
	var err error
	switch op.Kind {
	case scenario.Acquire:
		err = r.acquire(ctx, l, req, &op)
	case scenario.Available:
		_, err = l.Available(ctx, req)
	case scenario.SetLimits:
		limits := r.p.Resources[op.Resource].Limits
		if own := r.p.Entities[op.Entity].Limits; own != nil {
			limits = own
		}
		err = r.store.SetLimits(ctx, store.ConfigKey{Entity: req.Entity, Resource: req.Resource}, limits)
	case scenario.GetLimits:
		_, err = r.store.Limits(ctx, store.ConfigKey{Entity: req.Entity, Resource: req.Resource})
		if errors.Is(err, limiter.ErrNotFound) {
			err = nil
		}
	case scenario.GetChildren:
		_, err = r.store.Children(ctx, req.Entity)
	case scenario.SetResourceDefaults:
		err = r.store.SetLimits(ctx, store.ConfigKey{Resource: req.Resource}, r.p.Resources[op.Resource].Limits)
	case scenario.GetResourceDefaults:
		_, err = r.store.Limits(ctx, store.ConfigKey{Resource: req.Resource})
	case scenario.ListResources:
		_, err = r.store.ResourcesWithDefaults(ctx)
	case scenario.GetSystemDefaults:
		if _, err = r.store.Limits(ctx, store.ConfigKey{}); errors.Is(err, limiter.ErrNotFound) {
			err = nil
		}
	case scenario.GetEntity:
		_, err = r.store.Entity(ctx, req.Entity)
		if errors.Is(err, limiter.ErrNotFound) {
			err = nil
		}
	}
	r.Check(err)
	return op
}

func (r *driver) acquire(ctx context.Context, l *limiter.Limiter, req limiter.Request, op *scenario.Op) error {
	lease, err := l.Acquire(ctx, req)
	if errors.Is(err, limiter.ErrExceeded) {
		r.refused.Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	time.Sleep(op.Hold)
	for i, limit := range r.p.Resources[op.Resource].Limits {
		if d := op.Settle[i] - op.Consume[i]; d != 0 {
			if err := lease.Adjust(limit.Name, d); err != nil {
				return err
			}
		}
	}
	return lease.Commit(ctx)
}

// named are the amounts of an operation by limit.
func (r *driver) named(op *scenario.Op, amounts []int64) map[string]int64 {
	all := map[string]int64{}
	for _, i := range op.Limits {
		all[r.p.Resources[op.Resource].Limits[i].Name] = amounts[i]
	}
	return all
}

// putItems writes the items of the bare side: in the form of buckets, and never empty.
func (r *driver) putItems() {
	r.Helper()
	_, ns := r.store.Namespace()
	for i := range r.p.Entities {
		for j := range r.p.Resources {
			c := &store.Create{
				Bucket: store.Bucket{Entity: r.p.Entities[i].ID, Resource: r.p.Resources[j].Name}, Now: time.Now().UnixMilli(), ShardCount: 1,
				Writes: store.NewLimit{NamedParams: store.NamedParams{Limit: store.WriteLimit, Params: store.Params{Capacity: 1e6, Amount: 1e6, Period: 1000}}, Tokens: 1e6},
			}
			for _, l := range r.p.Resources[j].Limits {
				c.Limits = append(c.Limits, store.NewLimit{NamedParams: store.NamedParams{Limit: l.Name, Params: l.Params()}, Tokens: 1e15})
			}
			_, err := r.API.PutItem(r.Context(), &dynamodb.PutItemInput{TableName: aws.String(limitertest.Table), Item: schema.EncodeNewBucket(ns, c)})
			r.Must(err)
		}
	}
}

// update is the one conditional write of an operation of the bare side.
func (r *driver) update(op *scenario.Op) {
	_, ns := r.store.Namespace()
	b := store.Bucket{Entity: r.p.Entities[op.Entity].ID, Resource: r.p.Resources[op.Resource].Name}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(limitertest.Table), Key: schema.BucketKey(ns, b).Item(),
		UpdateExpression: aws.String("ADD"), ConditionExpression: aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames: map[string]string{}, ExpressionAttributeValues: map[string]types.AttributeValue{},
	}
	for k, i := range op.Limits {
		n := strconv.Itoa(i)
		in.ExpressionAttributeNames["#t"+n] = schema.LimitAttr(r.p.Resources[op.Resource].Limits[i].Name, schema.FieldTokens)
		in.ExpressionAttributeValues[":d"+n] = schema.N(-op.Consume[i])
		*in.UpdateExpression += []string{",", ""}[b2i(k == 0)] + " #t" + n + " :d" + n
	}
	_, err := r.API.UpdateItem(context.WithoutCancel(r.Context()), in)
	r.Check(err)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
