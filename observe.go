package limiter

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/store"
)

// What observers see of a store. Package store documents it.
type (
	// An Operation is a call of a method of a [Store].
	Operation = store.Operation
	// An OperationResult is how an [Operation] ended.
	OperationResult = store.OperationResult
	// An OperationKind names a method of a [Store].
	OperationKind = store.OperationKind
)

// An Observer is told what a limiter does: of each call, and of each operation of the
// store. Packages promlimit and otellimit have observers for Prometheus and
// OpenTelemetry. [LogDecisions] writes log records, and [Observers] joins several.
//
// The limiter calls an observer's methods synchronously and concurrently. So the methods
// must be safe for concurrent use, and what they take lengthens the call. They must not
// call the limiter or the lease's Commit and Rollback. They must not panic: the methods
// for operations may run on a goroutine of the limiter, where a panic ends the program.
// They must neither keep nor change what a result refers to.
//
// An operation gets the context of the call that needs it. A write that carries several
// callers has the context of the caller at the front. An operation may begin and end
// after its call has ended: the limiter returns tokens for callers that left, and
// doubles buckets in the background.
type Observer interface {
	// BeginCall is called as a call begins. The call works with the context that it
	// returns, which may carry a span.
	BeginCall(ctx context.Context, c Call) context.Context
	// EndCall is called once for each BeginCall, before the call returns.
	EndCall(ctx context.Context, r CallResult)
	// BeginOperation is called before an operation of the store, which gets the context
	// that it returns.
	BeginOperation(ctx context.Context, op Operation) context.Context
	// EndOperation is called once for each BeginOperation, with that context.
	EndOperation(ctx context.Context, r OperationResult)
}

// A CallKind names a method of a [Limiter] or [Lease].
type CallKind string

// The calls that an observer is told of. [Limiter.Do] is an acquire, and then a commit or
// rollback. [Limiter.TimeUntilAvailable] is CallAvailable. A wait is one call, however often
// it tries; the tries are not told. A commit or rollback of a
// closed lease does nothing, and observers are not told of it.
const (
	CallAcquire   CallKind = "acquire"
	CallWait      CallKind = "wait"
	CallTake      CallKind = "take"
	CallRelease   CallKind = "release"
	CallAvailable CallKind = "available"
	CallCommit    CallKind = "commit"
	CallRollback  CallKind = "rollback"
	CallToken     CallKind = "token"
)

// IsDecision reports whether the call asks for tokens, so that a limit may refuse it.
func (k CallKind) IsDecision() bool { return k == CallAcquire || k == CallWait || k == CallTake }

// IsSettlement reports whether the call changes what a lease has taken.
func (k CallKind) IsSettlement() bool {
	return k == CallCommit || k == CallRollback || k == CallRelease
}

// A Call is a call of a [Limiter] or [Lease], as observers see it.
type Call struct {
	Kind CallKind
	// Entity and Resource are the request's. An invalid request may have any. A request of
	// several resources is one call, of its own Resource.
	Entity, Resource string
}

// A Result is how a call ended.
type Result string

// The values of [Result].
const (
	Admitted  Result = "admitted"  // the acquire took what was requested
	Refused   Result = "refused"   // a limit refused the acquire
	Degraded  Result = "degraded"  // admitted without the store
	Failed    Result = "failed"    // the call returned another error than a refusal
	Completed Result = "completed" // a call other than an acquire succeeded
)

// A CallResult is how a [Call] ended.
type CallResult struct {
	Call
	Result Result
	// Err is the error that the call returned. If the acquire was degraded, it is the
	// reason.
	Err error
	// Lease is what an acquire or wait took; nil if nothing. For the calls of a lease it is
	// that lease.
	Lease *Lease
	// Statuses has the limits of a refused acquire: those that refused, with Exceeded, and
	// the others that the request named. It is nil after any other result.
	Statuses []Status
	// Shadowed has the limits in [Shadow] that would have refused an acquire which was admitted, see
	// [Status.WouldRefuse]; nil if none would have.
	Shadowed []Status
	// Consume is what the request asked for, in tokens by limit; nil for a commit and a
	// rollback.
	Consume map[string]int64
	// Settled is what a commit, rollback or release has changed, in millitokens: positive for a
	// further debit, negative for a return. Like [Lease.Consumed], it counts the lease's
	// own entity, or the parent where only the parent has the limit. It is nil if nothing
	// was written, and for a degraded lease.
	Settled []store.Amount
	// Reserved is what a lease had taken when it was written down, in tokens by limit: for the
	// [Lease.Token] that first wrote it down, and for the commit or rollback of a resumed lease that
	// settled it. It is nil otherwise. Late says that the lease was settled after its deadline.
	Reserved map[string]int64
	Late     bool
	// Also has the further resources of the request or lease, see [Request.Also]. Statuses has
	// the limits of all resources; Carried and Shards are of the call's own.
	Also []PartResult
	// FromMemory says that the limiter refused without asking the store.
	FromMemory bool
	// Carried says that another caller's write debited what the acquire asked for.
	Carried bool
	// Shards is the entity's bucket's number of shards; 0 if the call did not see it.
	Shards int
	// Latency is the time that the call took.
	Latency time.Duration
	// Operations counts the operations of the store that ended during the call and had
	// its context. Throttled counts those of them that the store rejected for their rate.
	Operations, Throttled int
	// Cost is what those operations cost. Cost.Requests are the round trips.
	Cost store.Cost
}

// A PartResult is what a [CallResult] has for each resource. The fields are as there.
type PartResult struct {
	Resource string
	Consume  map[string]int64
	Settled  []store.Amount
	Reserved map[string]int64
}

// Parts yields what the call asked for and changed of each resource, first of its own.
func (r *CallResult) Parts() iter.Seq[PartResult] {
	return func(yield func(PartResult) bool) {
		if !yield(PartResult{r.Resource, r.Consume, r.Settled, r.Reserved}) {
			return
		}
		for _, p := range r.Also {
			if !yield(p) {
				return
			}
		}
	}
}

// kinds are the conditions of errors, the more specific before the less.
var kinds = []struct {
	err  error
	name string
}{
	{ErrExceeded, "exceeded"},
	{ErrToken, "token"},
	{ErrSettled, "settled"},
	{ErrLeaseClosed, "lease_closed"},
	{ErrClosed, "closed"},
	{ErrInvalid, "invalid"},
	{ErrNotConfigured, "not_configured"},
	{ErrThrottled, "throttled"},
	{ErrAccessDenied, "access_denied"},
	{ErrConflict, "conflict"},
	{ErrNotFound, "not_found"},
	{ErrExists, "exists"},
	{ErrDisabled, "disabled"},
	{ErrUnsupported, "unsupported"},
	{ErrIncomplete, "incomplete"},
	{ErrCorrupt, "corrupt"},
	{ErrIncompatible, "incompatible"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{ErrUnavailable, "unavailable"},
}

// ErrorKind returns one of a fixed set of names for an error of a limiter, for metrics
// and logs: "throttled", "timeout" or "closed", for example. It is "" for nil, and
// "other" for an error of no known kind.
func ErrorKind(err error) string {
	if err == nil {
		return ""
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "other"
}

// Observers is an [Observer] that tells each of its observers, at the end in the opposite
// order. The context of one contains those of the ones before it. A nil observer is left out.
type Observers []Observer

var _ Observer = Observers(nil)

// BeginCall tells each observer.
func (o Observers) BeginCall(ctx context.Context, c Call) context.Context {
	for _, each := range o {
		if each != nil {
			ctx = each.BeginCall(ctx, c) //nolint:fatcontext // one observer's context contains the others'
		}
	}
	return ctx
}

// EndCall tells each observer.
func (o Observers) EndCall(ctx context.Context, r CallResult) {
	for _, each := range slices.Backward(o) {
		if each != nil {
			each.EndCall(ctx, r)
		}
	}
}

// BeginOperation tells each observer.
func (o Observers) BeginOperation(ctx context.Context, op Operation) context.Context {
	for _, each := range o {
		if each != nil {
			ctx = each.BeginOperation(ctx, op) //nolint:fatcontext // as in BeginCall
		}
	}
	return ctx
}

// EndOperation tells each observer.
func (o Observers) EndOperation(ctx context.Context, r OperationResult) {
	for _, each := range slices.Backward(o) {
		if each != nil {
			each.EndOperation(ctx, r)
		}
	}
}

// An observation is what a limiter notes of a call for its observer. Its methods may be
// called on a nil observation: nobody observes then. They are safe for concurrent use,
// because the work of a call may go on after its caller has left.
type observation struct {
	limiter *Limiter
	began   time.Duration // by the process's uptime

	mu     sync.Mutex
	result CallResult
}

// observationKey is the key of the observation in the context of a call.
type observationKey struct{}

// observe begins the observation of a call, if there is an observer.
func (l *Limiter) observe(ctx context.Context, c Call) (context.Context, *observation) {
	if l.observer == nil {
		return ctx, nil
	}
	ctx = l.observer.BeginCall(ctx, c)
	seen := &observation{limiter: l, began: l.driver.Uptime(), result: CallResult{Call: c}}
	return context.WithValue(ctx, observationKey{}, seen), seen
}

// operations is the observer of a limiter's store. It adds each operation to the call
// whose context it has.
type operations struct{ Observer }

// EndOperation adds the operation to its call, and tells the observer.
func (o operations) EndOperation(ctx context.Context, r OperationResult) {
	if seen, ok := ctx.Value(observationKey{}).(*observation); ok {
		seen.ended(&r)
	}
	o.Observer.EndOperation(ctx, r)
}

// ended notes that an operation of the call has ended.
func (o *observation) ended(r *OperationResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result.Operations++
	if errors.Is(r.Err, ErrThrottled) {
		o.result.Throttled++
	}
	cost := &o.result.Cost
	cost.Requests += r.Cost.Requests
	cost.ReadUnits += r.Cost.ReadUnits
	cost.WriteUnits += r.Cost.WriteUnits
	cost.Name, cost.Table = r.Cost.Name, r.Cost.Table
}

// recalled notes that the call was refused from memory.
func (o *observation) recalled() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result.FromMemory = true
}

// decided notes how the entity's claim was decided.
func (o *observation) decided(child *acquire.Claim) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result.Carried, o.result.Shards = child.Carried, child.ShardCount()
}

// degraded notes why the call was admitted without the store.
func (o *observation) degraded(because error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result.Err = because
}

// names notes the further resources of a lease.
func (o *observation) names(l *Lease) {
	if o == nil {
		return
	}
	for _, p := range l.also {
		o.result.Also = append(o.result.Also, PartResult{Resource: p.resource})
	}
}

// settles notes what the settlement of one resource of a lease is about to write.
func (o *observation) settles(l *Lease, how *ending) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	settled := &o.result.Settled
	for i := range o.result.Also {
		if p := &o.result.Also[i]; p.Resource == l.resource {
			settled = &p.Settled
		}
	}
	sides := l.sides
	for i := range sides {
		for _, a := range sides[i].Unsettled(how.target) {
			if i == 0 || !slices.ContainsFunc(sides[0].Entries, func(e acquire.Entry) bool { return e.Limit == a.Limit }) {
				*settled = append(*settled, a)
			}
		}
	}
}

// end tells the observer how a call ended.
func (o *observation) end(ctx context.Context, result Result, lease *Lease, err error) {
	o.mu.Lock()
	if err != nil {
		o.result.Err = err
		o.forgetLocked()
	}
	r := o.result
	r.Also = slices.Clone(r.Also) // a settlement may go on after its call has returned
	o.mu.Unlock()
	r.Result, r.Lease, r.Latency = result, lease, o.limiter.driver.Uptime()-o.began
	o.limiter.observer.EndCall(ctx, r)
}

// reserves notes what a lease has taken, of each resource: it is written down, or about to be settled.
func (o *observation) reserves(l *Lease, taken func(*Lease) map[string]int64) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result.Reserved = taken(l)
	for i := range o.result.Also {
		p := &o.result.Also[i]
		if part, err := l.Resource(p.Resource); err == nil {
			p.Reserved = taken(part)
		}
	}
}

// settledOnce notes how a resumed lease was settled. If that had been done before, the call has
// changed nothing.
func (o *observation) settledOnce(late, before bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.result.Late = late && !before; before {
		o.forgetLocked()
	}
}

// forgetLocked makes a call one that has changed nothing.
func (o *observation) forgetLocked() {
	o.result.Settled, o.result.Reserved = nil, nil
	for i := range o.result.Also {
		o.result.Also[i].Settled, o.result.Also[i].Reserved = nil, nil
	}
}

// released notes what a release returns.
func (o *observation) released(tokens map[string]int64) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for limit, n := range tokens {
		o.result.Settled = append(o.result.Settled, store.Amount{Limit: limit, Milli: -n * milli})
	}
}

// endAcquire tells the observer how an acquire ended.
func (o *observation) endAcquire(ctx context.Context, req *Request, lease *Lease, err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.result.Consume = o.consumed(lease, req.Resource, req.Consume)
	for i := range req.Also {
		p := &req.Also[i]
		o.result.Also = append(o.result.Also, PartResult{Resource: p.Resource, Consume: o.consumed(lease, p.Resource, p.Consume)})
	}
	refusal, isRefused := errors.AsType[*ExceededError](err)
	if isRefused {
		o.result.Statuses = refusal.Statuses
	}
	if err == nil {
		o.result.Shadowed = lease.WouldRefuse()
	}
	o.mu.Unlock()
	result := Failed
	switch {
	case errors.Is(err, ErrExceeded):
		result = Refused
	case err == nil && lease.Degraded():
		result = Degraded
	case err == nil:
		result = Admitted
	}
	o.end(ctx, result, lease, err)
}

// consumed is what an acquire took of a resource for which it was asked: less than that, if the
// request was clamped. The commit settles the rest.
func (o *observation) consumed(lease *Lease, resource string, asked map[string]int64) map[string]int64 {
	if lease == nil || o.result.Kind == CallTake {
		return asked
	}
	part, err := lease.Resource(resource)
	if err != nil || len(part.clamped) == 0 {
		return asked
	}
	taken := maps.Clone(asked)
	for limit, over := range part.clamped {
		taken[limit] -= over
	}
	return taken
}

// endOther tells the observer how a call other than an acquire ended.
func (o *observation) endOther(ctx context.Context, lease *Lease, err error) {
	if o == nil {
		return
	}
	result := Completed
	if err != nil {
		result = Failed
	}
	o.end(ctx, result, lease, err)
}

// LogDecisions returns an [Observer] that writes a log record at debug level for each call
// that ends, with its entity and resource. Unless the logger's handler is enabled for
// debug, it does nothing more than ask the handler. Without a logger it writes nothing.
func LogDecisions(to *slog.Logger) Observer {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return decisionLog{to}
}

// A decisionLog writes calls to a log.
type decisionLog struct{ to *slog.Logger }

// BeginCall does nothing.
func (decisionLog) BeginCall(ctx context.Context, _ Call) context.Context { return ctx }

// BeginOperation does nothing.
func (decisionLog) BeginOperation(ctx context.Context, _ Operation) context.Context { return ctx }

// EndOperation does nothing.
func (decisionLog) EndOperation(context.Context, OperationResult) {}

// EndCall writes the record.
func (d decisionLog) EndCall(ctx context.Context, r CallResult) {
	if !d.to.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("call", string(r.Kind)), slog.String("entity", r.Entity), slog.String("resource", r.Resource),
		slog.String("result", string(r.Result)), slog.Duration("latency", r.Latency), slog.Int("requests", r.Cost.Requests),
	}
	if r.FromMemory {
		attrs = append(attrs, slog.Bool("from_memory", true))
	}
	if r.Carried {
		attrs = append(attrs, slog.Bool("carried", true))
	}
	for i := range r.Statuses {
		if s := &r.Statuses[i]; s.Exceeded {
			by := []any{"entity", s.Entity, "limit", s.Limit.Name, "requested", s.Requested, "available", s.Available, "retry_after", s.RetryAfter}
			if s.Resource != r.Resource {
				by = append(by, "resource", s.Resource)
			}
			attrs = append(attrs, slog.Group("refused_by", by...))
			break
		}
	}
	for i := range r.Shadowed {
		s := &r.Shadowed[i]
		attrs = append(attrs, slog.Group("would_refuse", "entity", s.Entity, "resource", s.Resource, "limit", s.Limit.Name, "requested", s.Requested, "available", s.Available))
		break
	}
	if r.Err != nil && r.Result != Refused {
		attrs = append(attrs, slog.String("kind", ErrorKind(r.Err)), slog.Any("error", r.Err))
	}
	d.to.LogAttrs(ctx, slog.LevelDebug, "limiter call", attrs...)
}
