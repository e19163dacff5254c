package limiter_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A world is a table on the embedded engine with limiters on it, in a synctest bubble.
// Time passes when every goroutine waits.
type world struct {
	*testing.T
	engine *dynamolite.DB
	meter  *dynamo.Meter
	store  *dynamo.Store
	*limiter.Limiter
}

const table = "limits"

// inWorld runs f in a bubble with a fresh table and one limiter. It runs f once on an
// engine that is known never to wait, and once as if the engine were remote.
func inWorld(t *testing.T, o limiter.Options, f func(*world)) {
	t.Helper()
	t.Parallel()
	for _, name := range []string{"in process", "remote"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine := dynamolite.New(dynamolite.Options{})
				if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: table}); err != nil {
					t.Fatal(err)
				}
				w := &world{T: t, engine: engine, meter: dynamo.NewMeter(engine)}
				api := dynamo.API(w.meter)
				if name == "remote" {
					api = remote{api}
				}
				w.store = w.open(api)
				w.Limiter = w.limiter(w.store, o)
				f(w)
				if err := engine.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// newWorldIn returns a world whose store answers at once, in the bubble of the caller.
// It ends with the engine.
func newWorldIn(t *testing.T) *world {
	t.Helper()
	engine := dynamolite.New(dynamolite.Options{})
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: table}); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, engine: engine, meter: dynamo.NewMeter(engine)}
	w.store = w.open(w.meter)
	w.Limiter = w.limiter(w.store, limiter.Options{})
	return w
}

// remote hides that an API answers at once.
type remote struct{ dynamo.API }

func (w *world) open(api dynamo.API) *dynamo.Store {
	w.Helper()
	s, err := dynamo.Open(w.Context(), dynamo.Options{API: api, Table: table})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) limiter(s limiter.Store, o limiter.Options) *limiter.Limiter {
	w.Helper()
	l, err := limiter.New(s, o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := l.Close(); err != nil {
			w.Error(err)
		}
	})
	return l
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// take acquires and commits at once. It returns the refusal, or nil.
func (w *world) take(l *limiter.Limiter, req limiter.Request) (refused *limiter.ExceededError) {
	w.Helper()
	lease, err := l.Acquire(w.Context(), req)
	if errors.As(err, &refused) {
		return refused
	}
	w.must(err)
	w.must(lease.Commit(w.Context()))
	return nil
}

// admitted counts how often a request is admitted when it is made at each interval for
// a total time.
func (w *world) admitted(l *limiter.Limiter, req limiter.Request, every, total time.Duration) (n int) {
	w.Helper()
	for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(every) {
		if w.take(l, req) == nil {
			n++
		}
	}
	return n
}

// available returns the balance of a limit, in whole tokens.
func (w *world) available(entity, limit string) int64 {
	w.Helper()
	statuses, err := w.Available(w.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{limit: 0}})
	w.must(err)
	for _, s := range statuses {
		if s.Entity == entity {
			return s.Available
		}
	}
	w.Fatalf("no status of %s", limit)
	return 0
}

func ask(entity string, limits ...any) limiter.Request {
	r := limiter.Request{Entity: entity, Resource: "gpt-4", Consume: make(map[string]int64)}
	for i := 0; i < len(limits); i += 2 {
		r.Consume[limits[i].(string)] = int64(limits[i+1].(int))
	}
	return r
}

// system configures limits at the system level.
func (w *world) system(limits ...limiter.Limit) {
	w.Helper()
	w.must(w.store.SetSystem(w.Context(), limits, ""))
}

// inEngine runs f in a bubble with a fresh table and one limiter, on an engine that
// throttles or has latency.
func inEngine(t *testing.T, e dynamolite.Options, to dynamo.TableOptions, f func(*world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := dynamolite.New(e)
		to.Name = table
		if err := dynamo.CreateTable(t.Context(), engine, to); err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, engine: engine, meter: dynamo.NewMeter(engine)}
		w.store = w.open(remote{w.meter})
		w.Limiter = w.limiter(w.store, limiter.Options{})
		f(w)
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A tap stands between a store and the engine. It records which shards of buckets
// requests address, and refuses writes to shards that the test marked as full.
type tap struct {
	dynamo.API
	mu   sync.Mutex
	sent []sent
	full func(shard int) error // the error of a write to that shard; nil: the write passes
	slow time.Duration         // delay of a throttled answer
}

// sent is a request that named buckets.
type sent struct {
	op     string
	shards []int
	at     time.Time
}

// shardOf returns the number of the shard that a key names, or -1 if it names no
// bucket.
func shardOf(key map[string]types.AttributeValue) int {
	pk, ok := key["PK"].(*types.AttributeValueMemberS)
	if !ok || !strings.Contains(pk.Value, "/BUCKET#") {
		return -1
	}
	n, err := strconv.Atoi(pk.Value[strings.LastIndex(pk.Value, "#")+1:])
	if err != nil {
		return -1
	}
	return n
}

// note records a request and returns the first error of its shards, by number.
func (a *tap) note(op string, writes bool, keys ...map[string]types.AttributeValue) map[int]error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := sent{op: op, at: time.Now()}
	errs := make(map[int]error)
	for _, key := range keys {
		n := shardOf(key)
		if n < 0 {
			continue
		}
		s.shards = append(s.shards, n)
		if writes && a.full != nil {
			if err := a.full(n); err != nil {
				errs[n] = err
			}
		}
	}
	if len(s.shards) > 0 {
		a.sent = append(a.sent, s)
	}
	return errs
}

// turn changes which shards are full.
func (a *tap) turn(full func(shard int) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = full
}

// take returns the requests recorded so far, and forgets them.
func (a *tap) take() []sent {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sent
	a.sent = nil
	return s
}

// count returns how many requests are of an operation.
func count(all []sent, op string) (n int) {
	for _, s := range all {
		if s.op == op {
			n++
		}
	}
	return n
}

func (a *tap) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	for _, err := range a.note("UpdateItem", true, in.Key) {
		time.Sleep(a.slow)
		return nil, err
	}
	return a.API.UpdateItem(ctx, in, o...)
}

func (a *tap) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	for _, err := range a.note("PutItem", true, in.Item) {
		time.Sleep(a.slow)
		return nil, err
	}
	return a.API.PutItem(ctx, in, o...)
}

func (a *tap) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	var keys []map[string]types.AttributeValue
	for _, of := range in.RequestItems {
		keys = append(keys, of.Keys...)
	}
	a.note("BatchGetItem", false, keys...)
	return a.API.BatchGetItem(ctx, in, o...)
}

func (a *tap) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	var keys []map[string]types.AttributeValue
	for _, it := range in.TransactItems {
		switch {
		case it.Update != nil:
			keys = append(keys, it.Update.Key)
		case it.Put != nil:
			keys = append(keys, it.Put.Item)
		case it.ConditionCheck != nil:
			keys = append(keys, it.ConditionCheck.Key)
		case it.Delete != nil:
			keys = append(keys, it.Delete.Key)
		}
	}
	errs := a.note("TransactWriteItems", true, keys...)
	if len(errs) == 0 {
		return a.API.TransactWriteItems(ctx, in, o...)
	}
	time.Sleep(a.slow)
	cancelled := &types.TransactionCanceledException{}
	for _, key := range keys {
		code := "None"
		if errs[shardOf(key)] != nil {
			code = "ThrottlingError"
		}
		cancelled.CancellationReasons = append(cancelled.CancellationReasons, types.CancellationReason{Code: &code})
	}
	return nil, cancelled
}

// hotError is the table's error for too much load on an item's partition.
func hotError() error {
	reason, resource := "TableWriteKeyRangeThroughputExceeded", "arn:aws:dynamodb:eu-west-1:123456789012:table/limits"
	return &types.ThrottlingException{ThrottlingReasons: []types.ThrottlingReason{{Reason: &reason, Resource: &resource}}}
}

// busyError is the table's error for too much load on the whole table.
func busyError() error { return &types.ProvisionedThroughputExceededException{} }
