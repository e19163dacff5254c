package loadtest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// early is the time in which an adaptive system may adapt.
const early = 2 * time.Second

// A watch is an API that meters its requests and counts throttled writes.
type watch struct {
	dynamo.API
	meter *dynamo.Meter
	now   func() time.Time

	mu     sync.Mutex
	since  time.Time
	writes result.Writes
}

func newWatch(api dynamo.API, now func() time.Time) *watch {
	meter := dynamo.NewMeter(api)
	return &watch{API: meter, meter: meter, now: now, since: now()}
}

// begin restarts the counts.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.writes = w.now(), result.Writes{}
}

// counted returns the counts since begin.
func (w *watch) counted() result.Writes {
	w.mu.Lock()
	defer w.mu.Unlock()
	counted := w.writes
	counted.Reasons = maps.Clone(counted.Reasons)
	return counted
}

func (w *watch) count(sent time.Time, err error) {
	reasons, throttled := throttledBy(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	isEarly := sent.Sub(w.since) < early
	w.writes.Sent++
	if isEarly {
		w.writes.EarlySent++
	}
	if !throttled {
		return
	}
	w.writes.Throttled++
	if isEarly {
		w.writes.EarlyThrottled++
	}
	reason := "unknown"
	if len(reasons) > 0 && reasons[0].Reason != nil {
		reason = *reasons[0].Reason
	}
	if w.writes.Reasons == nil {
		w.writes.Reasons = map[string]int64{}
	}
	w.writes.Reasons[reason]++
}

// throttledBy reports whether a request was throttled, and the reasons if there are any.
func throttledBy(err error) (reasons []types.ThrottlingReason, throttled bool) {
	if err == nil {
		return nil, false
	}
	if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
		return e.ThrottlingReasons, true
	}
	if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
		return e.ThrottlingReasons, true
	}
	if e, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, r := range e.CancellationReasons {
			if r.Code != nil && isThrottle(*r.Code) {
				return nil, true
			}
		}
		return nil, false
	}
	e, ok := errors.AsType[smithy.APIError](err)
	return nil, ok && isThrottle(e.ErrorCode())
}

// isThrottle knows the codes without a type in the SDK, and those of actions of a
// transaction.
func isThrottle(code string) bool {
	switch code {
	case "ThrottlingError", "ThrottlingException", "Throttling", "ProvisionedThroughputExceeded",
		"ProvisionedThroughputExceededException", "RequestLimitExceeded", "TooManyRequestsException":
		return true
	}
	return false
}

// PutItem passes the request on and counts it.
func (w *watch) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	sent := w.now()
	out, err := w.API.PutItem(ctx, in, opts...)
	w.count(sent, err)
	return out, err
}

// UpdateItem passes the request on and counts it.
func (w *watch) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	sent := w.now()
	out, err := w.API.UpdateItem(ctx, in, opts...)
	w.count(sent, err)
	return out, err
}

// TransactWriteItems passes the request on and counts it.
func (w *watch) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	sent := w.now()
	out, err := w.API.TransactWriteItems(ctx, in, opts...)
	w.count(sent, err)
	return out, err
}

// A router is the API of a side. It sends requests about buckets to the watch of their
// population, and all others to a watch for the rest.
type router struct {
	dynamo.API // the watch of the rest
	rest       *watch
	watches    []*watch // by population
	population map[string]int
}

func newRouter(api dynamo.API, populations []scenario.Population, now func() time.Time) *router {
	r := &router{rest: newWatch(api, now), population: map[string]int{}}
	r.API = r.rest
	for i := range populations {
		r.watches = append(r.watches, newWatch(api, now))
		r.population[populations[i].Name] = i
	}
	return r
}

// Immediate reports whether the wrapped API never waits.
func (r *router) Immediate() bool { return r.rest.meter.Immediate() }

// begin restarts the counts.
func (r *router) begin() {
	r.rest.begin()
	for _, w := range r.watches {
		w.begin()
	}
}

// total is the cost of all requests so far.
func (r *router) total() dynamo.Usage {
	sum := r.rest.meter.Totals().Sum()
	for _, w := range r.watches {
		u := w.meter.Totals().Sum()
		sum = dynamo.Usage{Requests: sum.Requests + u.Requests, Failed: sum.Failed + u.Failed, RCU: sum.RCU + u.RCU, WCU: sum.WCU + u.WCU}
	}
	return sum
}

// writes is the number of writes since begin, and of throttled ones.
func (r *router) writes() (sent, throttled int64) {
	for _, w := range append([]*watch{r.rest}, r.watches...) {
		w.mu.Lock()
		sent, throttled = sent+w.writes.Sent, throttled+w.writes.Throttled
		w.mu.Unlock()
	}
	return sent, throttled
}

// of returns the API for requests about an item.
func (r *router) of(key schema.Item) dynamo.API {
	pk, isText := key[schema.PK].(*types.AttributeValueMemberS)
	if !isText {
		return r.API
	}
	_, bucket, ok := schema.ParseBucketPK(pk.Value)
	if !ok {
		return r.API
	}
	name := strings.TrimRight(bucket.Entity, "0123456789")
	name = strings.TrimSuffix(name, "-")
	i, known := r.population[name]
	if !known {
		i, known = r.population[strings.TrimSuffix(name, scenario.ParentSuffix)]
	}
	if !known {
		return r.API
	}
	return r.watches[i]
}

// PutItem passes the request on.
func (r *router) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return r.of(in.Item).PutItem(ctx, in, opts...)
}

// UpdateItem passes the request on.
func (r *router) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return r.of(in.Key).UpdateItem(ctx, in, opts...)
}

// TransactWriteItems passes the request on. All its items are of one bucket.
func (r *router) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	var key schema.Item
	switch first := in.TransactItems[0]; {
	case first.Update != nil:
		key = first.Update.Key
	case first.Put != nil:
		key = first.Put.Item
	case first.ConditionCheck != nil:
		key = first.ConditionCheck.Key
	}
	return r.of(key).TransactWriteItems(ctx, in, opts...)
}

// BatchGetItem passes the request on. Its keys are of a bucket and its parent, or of
// configuration.
func (r *router) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for _, keys := range in.RequestItems {
		for _, key := range keys.Keys {
			if to := r.of(key); to != r.API {
				return to.BatchGetItem(ctx, in, opts...)
			}
		}
	}
	return r.API.BatchGetItem(ctx, in, opts...)
}
