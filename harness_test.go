package limiter_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/faults"
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
					api = faults.Wrap(api)
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
		w.store = w.open(faults.Wrap(w.meter))
		w.Limiter = w.limiter(w.store, limiter.Options{})
		f(w)
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
}

// bucketRequests returns the requests that named buckets since the last call.
func bucketRequests(api *faults.Tap) []faults.Request {
	return slices.DeleteFunc(api.Take(), func(r faults.Request) bool { return len(r.Shards) == 0 })
}

// fullShards throttles the writes to shards for which err returns an error.
func fullShards(err func(shard int) error) faults.Hook {
	return faults.Throttle(func(b limiter.Bucket) error { return err(b.Shard) })
}
