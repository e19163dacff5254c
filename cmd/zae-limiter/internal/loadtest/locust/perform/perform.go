// Package perform carries out the operations of a scenario with limiters, as users of
// Locust. It also creates the entities and limits that the scenario needs.
//
// A user class in Locust is a class of the scenario. The scenario says what an operation
// does, and how long a user waits after it. The master says how many users there are, so
// the scenario's users, stages and phases are not used.
package perform

import (
	"context"
	"errors"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// The methods of events. The Locust integration of the Python package uses the same, so
// that figures of both compare.
const (
	MethodAcquire     = "ACQUIRE"
	MethodCommit      = "COMMIT"       // only of leases that were adjusted
	MethodRateLimited = "RATE_LIMITED" // a refused acquire; it is a success
	MethodAvailable   = "AVAILABLE"
	MethodSetLimits   = "SET_LIMITS"
	MethodGetLimits   = "GET_LIMITS"
	MethodGetEntity   = "GET_ENTITY"
	MethodGetChildren = "GET_CHILDREN"

	MethodSetResourceDefaults = "SET_RESOURCE_DEFAULTS"
	MethodGetResourceDefaults = "GET_RESOURCE_DEFAULTS"
	MethodGetSystemDefaults   = "GET_SYSTEM_DEFAULTS"
	MethodListResources       = "LIST_RESOURCES_WITH_DEFAULTS"
)

// A Client is what one process of the scenario has: a limiter, and the store below it.
type Client struct {
	Limiter *limiter.Limiter
	Store   *dynamo.Store
}

// An Actor carries out operations. It is a [locust.Load], safe for concurrent use. Make it
// with [New].
type Actor struct {
	plan    *scenario.Plan
	clients []Client
	now     func() time.Time
	ops     sync.Pool // of *scenario.Op
}

var _ locust.Load = (*Actor)(nil)

// Check fails with a [*store.ValidationError] if a class has a rate: a master can only say
// how many users there are.
func Check(plan *scenario.Plan) error {
	for i := range plan.Classes {
		if c := &plan.Classes[i]; c.Arrival.Open() {
			return &store.ValidationError{
				Field: "load." + c.Name, Value: "rate",
				Reason: "a Locust master can only say how many users there are: copy the scenario, and give users and think in place of the rate",
			}
		}
	}
	return nil
}

// New makes an actor. The operations of a class use the clients in turn. now is the clock
// for the times that events took; nil is [time.Now]. New fails with a
// [*store.ValidationError] as [Check] does, and without a client.
func New(plan *scenario.Plan, clients []Client, now func() time.Time) (*Actor, error) {
	if err := Check(plan); err != nil {
		return nil, err
	}
	if len(clients) == 0 {
		return nil, &store.ValidationError{Field: "clients", Value: "0", Reason: "give at least one"}
	}
	if now == nil {
		now = time.Now //nolint:forbidigo // the default clock
	}
	return &Actor{plan: plan, clients: clients, now: now, ops: sync.Pool{New: func() any { return new(scenario.Op) }}}, nil
}

// Classes are the names of the scenario's classes.
func (a *Actor) Classes() []string {
	names := make([]string, len(a.plan.Classes))
	for i := range a.plan.Classes {
		names[i] = a.plan.Classes[i].Name
	}
	return names
}

// Do carries out an operation. The name of an event is the resource, as in the Python
// package, or "system"; of calls about an entity it is the population, because a line of
// statistics for each entity would be too many.
func (a *Actor) Do(ctx context.Context, which locust.Op, report func(locust.Event)) (think time.Duration) {
	op, _ := a.ops.Get().(*scenario.Op)
	defer a.ops.Put(op)
	a.plan.Op(which.Class, which.N, which.At, op)
	client := &a.clients[int(which.N)%len(a.clients)]
	switch op.Kind {
	case scenario.Acquire:
		a.acquire(ctx, client, op, report)
	default:
		began := a.now()
		err := a.call(ctx, client, op)
		report(locust.Event{Method: methods[op.Kind], Name: a.name(op), Took: a.now().Sub(began), Err: failure(err)})
	}
	return op.Think
}

// acquire takes tokens, holds them, and commits what it has used.
func (a *Actor) acquire(ctx context.Context, c *Client, op *scenario.Op, report func(locust.Event)) {
	event := locust.Event{Method: MethodAcquire, Name: a.plan.Resources[op.Resource].Name}
	began := a.now()
	lease, err := c.Limiter.Acquire(ctx, a.request(op))
	event.Took = a.now().Sub(began)
	if errors.Is(err, limiter.ErrExceeded) {
		event.Method, err = MethodRateLimited, nil
	}
	event.Err = failure(err)
	report(event)
	if lease == nil || !pause(ctx, op.Hold) {
		return // a lease that is dropped stays as if committed
	}
	began = a.now()
	if err := a.settle(ctx, lease, op); err != nil || op.Adjusts() {
		report(locust.Event{Method: MethodCommit, Name: event.Name, Took: a.now().Sub(began), Err: failure(err)})
	}
}

func (a *Actor) settle(ctx context.Context, lease *limiter.Lease, op *scenario.Op) error {
	for i, used := range op.Settle {
		if delta := used - op.Consume[i]; delta != 0 {
			if err := lease.Adjust(a.plan.Resources[op.Resource].Limits[i].Name, delta); err != nil {
				return errors.Join(err, lease.Commit(ctx))
			}
		}
	}
	return lease.Commit(ctx)
}

// request is the request of an operation. A store that cannot be reached fails it, and does
// not grant it.
func (a *Actor) request(op *scenario.Op) limiter.Request {
	of := &a.plan.Resources[op.Resource]
	consume := make(map[string]int64, len(op.Limits))
	for _, i := range op.Limits {
		consume[of.Limits[i].Name] = op.Consume[i]
	}
	return limiter.Request{
		Entity: a.plan.Entities[op.Entity].ID, Resource: of.Name, Consume: consume, OnUnavailable: limiter.Block,
	}
}

// methods are those of the calls besides acquire.
var methods = map[scenario.CallKind]string{
	scenario.Available: MethodAvailable, scenario.SetLimits: MethodSetLimits, scenario.GetLimits: MethodGetLimits,
	scenario.GetEntity: MethodGetEntity, scenario.GetChildren: MethodGetChildren,
	scenario.SetResourceDefaults: MethodSetResourceDefaults, scenario.GetResourceDefaults: MethodGetResourceDefaults,
	scenario.GetSystemDefaults: MethodGetSystemDefaults, scenario.ListResources: MethodListResources,
}

// name is the name of an operation's event.
func (a *Actor) name(op *scenario.Op) string {
	switch op.Kind {
	case scenario.GetEntity, scenario.GetChildren:
		return a.plan.Populations[a.plan.Entities[op.Entity].Population].Name
	case scenario.GetSystemDefaults, scenario.ListResources:
		return "system"
	default:
		return a.plan.Resources[op.Resource].Name
	}
}

// call carries out an operation of one request.
func (a *Actor) call(ctx context.Context, c *Client, op *scenario.Op) error {
	if op.Kind == scenario.Available {
		_, err := c.Limiter.Available(ctx, a.request(op))
		return err
	}
	return setup.Manage(ctx, c.Store, a.plan, op)
}

// conditions are failures that many requests have, with a name of an entity in each text.
var conditions = []error{
	store.ErrThrottled, store.ErrHotPartition, store.ErrUnavailable, store.ErrConflict, store.ErrAccessDenied, store.ErrDisabled,
	limiter.ErrClosed,
}

// failure returns an error by which Locust can count.
func failure(err error) error {
	for _, c := range conditions {
		if errors.Is(err, c) {
			return c
		}
	}
	return err
}

// pause waits, and reports whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	alarm := time.NewTimer(d)
	defer alarm.Stop()
	select {
	case <-alarm.C:
		return true
	case <-ctx.Done():
		return false
	}
}
