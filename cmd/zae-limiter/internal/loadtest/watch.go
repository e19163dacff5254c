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

// A watch meters the requests of a population, and counts throttled writes.
type watch struct {
	*dynamo.Meter

	mu     sync.Mutex
	since  time.Time
	writes result.Writes
}

// counted returns the counts since they were restarted.
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

// A router is the API of a side. It meters and counts the requests about the buckets of each
// population, and all others.
type router struct {
	*dynamo.Meter // of the others

	now        func() time.Time
	watches    []*watch // by population, and at the end those of the others
	population map[string]int
}

func newRouter(api dynamo.API, populations []scenario.Population, now func() time.Time) *router {
	r := &router{now: now, population: map[string]int{}}
	for i := range populations {
		r.population[populations[i].Name] = i
	}
	for range len(populations) + 1 {
		r.watches = append(r.watches, &watch{Meter: dynamo.NewMeter(api), since: now()})
	}
	r.Meter = r.watches[len(populations)].Meter
	return r
}

// begin restarts the counts.
func (r *router) begin() {
	for _, w := range r.watches {
		w.mu.Lock()
		w.since, w.writes = r.now(), result.Writes{}
		w.mu.Unlock()
	}
}

// total is the cost of all requests so far.
func (r *router) total() dynamo.Usage {
	var sum dynamo.Usage
	for _, w := range r.watches {
		u := w.Totals().Sum()
		sum = dynamo.Usage{Requests: sum.Requests + u.Requests, Failed: sum.Failed + u.Failed, RCU: sum.RCU + u.RCU, WCU: sum.WCU + u.WCU}
	}
	return sum
}

// writes is the number of writes since begin, and of throttled ones.
func (r *router) writes() (sent, throttled int64) {
	for _, w := range r.watches {
		w.mu.Lock()
		sent, throttled = sent+w.writes.Sent, throttled+w.writes.Throttled
		w.mu.Unlock()
	}
	return sent, throttled
}

// of returns the watch of requests about an item.
func (r *router) of(key schema.Item) *watch {
	others := r.watches[len(r.watches)-1]
	pk, isText := key[schema.PK].(*types.AttributeValueMemberS)
	if !isText {
		return others
	}
	_, bucket, ok := schema.ParseBucketPK(pk.Value)
	if !ok {
		return others
	}
	name := strings.TrimRight(bucket.Entity, "0123456789")
	name = strings.TrimSuffix(name, "-")
	i, known := r.population[name]
	if !known {
		i, known = r.population[strings.TrimSuffix(name, scenario.ParentSuffix)]
	}
	if !known {
		return others
	}
	return r.watches[i]
}

// PutItem passes the request on, and counts it.
func (r *router) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	w, sent := r.of(in.Item), r.now()
	out, err := w.PutItem(ctx, in, opts...)
	w.count(sent, err)
	return out, err
}

// UpdateItem passes the request on, and counts it.
func (r *router) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	w, sent := r.of(in.Key), r.now()
	out, err := w.UpdateItem(ctx, in, opts...)
	w.count(sent, err)
	return out, err
}

// TransactWriteItems passes the request on, and counts it. All its items are of one bucket.
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
	w, sent := r.of(key), r.now()
	out, err := w.TransactWriteItems(ctx, in, opts...)
	w.count(sent, err)
	return out, err
}

// BatchGetItem passes the request on. Its keys are of a bucket and its parent, or of
// configuration.
func (r *router) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for _, keys := range in.RequestItems {
		for _, key := range keys.Keys {
			if to := r.of(key).Meter; to != r.Meter {
				return to.BatchGetItem(ctx, in, opts...)
			}
		}
	}
	return r.Meter.BatchGetItem(ctx, in, opts...)
}
