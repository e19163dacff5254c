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
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/locust"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
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

// An Actor carries out operations. It is a [locust.Load], safe for concurrent use. Make it
// with [New].
type Actor struct {
	plan    *scenario.Plan
	clients []drive.Client
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
func New(plan *scenario.Plan, clients []drive.Client, now func() time.Time) (*Actor, error) {
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
	answer := client.Do(ctx, a.plan, a.now, op, nil)
	event := locust.Event{Method: methods[op.Kind], Name: a.name(op), Took: answer.Asked}
	switch {
	case op.Kind == scenario.Acquire && errors.Is(answer.Err, limiter.ErrExceeded):
		event.Method = MethodRateLimited
	case op.Kind != scenario.Acquire || answer.Took == drive.TookMaybe:
		event.Err = failure(answer.Err)
	case answer.Took == drive.TookUsed || answer.Took == drive.TookEither:
		report(event)
		event = locust.Event{Method: MethodCommit, Name: event.Name, Took: answer.Settled, Err: failure(answer.Err)}
	} // a lease whose hold was cut off stays as if committed
	report(event)
	return op.Think
}

// methods are those of the calls.
var methods = map[scenario.CallKind]string{
	scenario.Acquire: MethodAcquire, scenario.Available: MethodAvailable, scenario.SetLimits: MethodSetLimits, scenario.GetLimits: MethodGetLimits,
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
