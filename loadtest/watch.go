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

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// Writes counts item writes as the API saw them; a transaction counts as one.
type Writes struct {
	Sent      int64 `json:"sent"`
	Throttled int64 `json:"throttled"`
	// EarlySent and EarlyThrottled count those that were sent in the first two seconds.
	EarlySent      int64 `json:"early_sent"`
	EarlyThrottled int64 `json:"early_throttled"`
	// Reasons counts throttled writes by DynamoDB's reason, "unknown" without one.
	Reasons map[string]int64 `json:"reasons,omitempty"`
}

// early is the time in which an adaptive system may adapt.
const early = 2 * time.Second

// Early is the throttled share of the writes in the first two seconds.
func (w Writes) Early() float64 { return share(w.EarlyThrottled, w.EarlySent) }

// Late is the throttled share of the later writes.
func (w Writes) Late() float64 { return share(w.Throttled-w.EarlyThrottled, w.Sent-w.EarlySent) }

// share is a part of a whole, 0 if there is no whole.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// A watch is an API that meters its requests and counts throttled writes.
type watch struct {
	dynamo.API
	meter *dynamo.Meter
	now   func() time.Time

	mu     sync.Mutex
	since  time.Time
	writes Writes
}

func newWatch(api dynamo.API, now func() time.Time) *watch {
	meter := dynamo.NewMeter(api)
	return &watch{API: meter, meter: meter, now: now, since: now()}
}

// Immediate reports whether the wrapped API never waits.
func (w *watch) Immediate() bool { return w.meter.Immediate() }

// begin restarts the counts.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.writes = w.now(), Writes{}
}

// counted returns the counts since begin.
func (w *watch) counted() Writes {
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

// A fork is an API for limiters that two sides share. It sends requests about the
// attacker's items to the attacker's watch, and all others to the neighbours'.
type fork struct {
	dynamo.API // the neighbours' API
	attacker   *watch
	mark       string // part of the partition keys of the attacker's items
}

// Immediate reports whether the wrapped API never waits.
func (f *fork) Immediate() bool { return f.attacker.Immediate() }

// of returns the API for requests about an item.
func (f *fork) of(key schema.Item) dynamo.API {
	if pk, ok := key[schema.PK].(*types.AttributeValueMemberS); ok && strings.Contains(pk.Value, f.mark) {
		return f.attacker
	}
	return f.API
}

// PutItem passes the request on.
func (f *fork) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return f.of(in.Item).PutItem(ctx, in, opts...)
}

// UpdateItem passes the request on.
func (f *fork) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return f.of(in.Key).UpdateItem(ctx, in, opts...)
}

// TransactWriteItems passes the request on. All its items are of one bucket.
func (f *fork) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	var key schema.Item
	switch first := in.TransactItems[0]; {
	case first.Update != nil:
		key = first.Update.Key
	case first.Put != nil:
		key = first.Put.Item
	case first.ConditionCheck != nil:
		key = first.ConditionCheck.Key
	}
	return f.of(key).TransactWriteItems(ctx, in, opts...)
}

// BatchGetItem passes the request on. All its keys are of one bucket, or of the
// configuration of one entity.
func (f *fork) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for _, keys := range in.RequestItems {
		for _, key := range keys.Keys {
			if to := f.of(key); to != f.API {
				return to.BatchGetItem(ctx, in, opts...)
			}
		}
	}
	return f.API.BatchGetItem(ctx, in, opts...)
}
