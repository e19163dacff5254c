package aggregator_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/store"
)

// written is a batch of writes and deletions of buckets that no other batch writes to, half
// of them in deleted namespaces.
func written(batch, records int, ns string, now time.Time) []stream.Record {
	all := make([]stream.Record, records)
	for i := range all {
		n := batch*records + i
		img := &store.Image{
			Bucket:     limiter.Bucket{Entity: fmt.Sprint("user-", n), Resource: "gpt-4"},
			RefilledAt: now.Add(-time.Second).UnixMilli(), ShardCount: 1,
			Limits: []store.LimitState{{
				Name: "rps", Params: &store.Params{Capacity: 600_000, Amount: 600_000, Period: 1000}, Tokens: 200_000, Consumed: 400_000,
			}},
		}
		all[i] = stream.Record{ID: strconv.Itoa(n), Sequence: strconv.Itoa(1_000_000 + n), At: now, Namespace: ns, New: img}
		switch i % 4 {
		case 1, 3:
			all[i].Namespace = fmt.Sprint("gone-", n)
		case 0:
			all[i].Old, all[i].New, all[i].Hours = img, nil, "[,rps]1:1,400;"
		}
	}
	return all
}

// live is the size of the heap in use.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what the first collection finalized
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Twenty times the history, with twenty times the buckets and deleted namespaces, fits in
// the same memory. Not parallel: all tests share the heap.
func TestLongMemoryDoesNotGrowWithHistory(t *testing.T) {
	const records, few, many, most = 100, 50, 20 * 50, 2 << 20
	engine := dynamolite.New(dynamolite.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	if err := dynamo.CreateTable(t.Context(), engine, dynamo.TableOptions{Name: table, Stream: true}); err != nil {
		t.Fatal(err)
	}
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: engine, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	_, ns := s.Namespace()
	a, err := aggregator.New(func(_ context.Context, id string) (aggregator.Namespace, error) {
		if id != ns {
			return aggregator.Namespace{}, limiter.ErrNotFound
		}
		return aggregator.Namespace{Store: s, Usage: &nobody{}}, nil
	}, aggregator.Options{Memory: 1000})
	if err != nil {
		t.Fatal(err)
	}
	process := func(from, to int) {
		for i := from; i < to; i++ {
			res, err := a.Process(t.Context(), written(i, records, ns, time.Now()))
			if err != nil || res.Pages != records/4 || len(res.Failed) > 0 || res.Errors > 0 {
				t.Fatalf("%+v: %v", res, err)
			}
		}
	}
	process(0, few)
	before := live()
	process(few, many)
	after := live()
	t.Logf("%d KB after %d batches, %d KB after %d", before>>10, few, after>>10, many)
	if after > before+most {
		t.Errorf("%d KB in use after %d batches, and %d KB after %d", before>>10, few, after>>10, many)
	}
	runtime.KeepAlive(a)
}

// The least recently used namespaces are closed, but not before the batches that use them
// have ended.
func TestNamespacesAreForgotten(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	opens, closes := map[string]int{}, map[string]int{}
	open := func(_ context.Context, id string) (aggregator.Namespace, error) {
		mu.Lock()
		defer mu.Unlock()
		opens[id]++
		return aggregator.Namespace{
			Usage: usageFunc(func() {
				mu.Lock()
				defer mu.Unlock()
				if closes[id] == opens[id] {
					t.Errorf("%s is used after it was closed", id)
				}
			}),
			Close: func() {
				mu.Lock()
				defer mu.Unlock()
				closes[id]++
			},
		}, nil
	}
	a, err := aggregator.New(open, aggregator.Options{Namespaces: 2})
	if err != nil {
		t.Fatal(err)
	}
	for n, batch := range [][]string{{"a", "b"}, {"b", "c"}, {"a", "b", "c", "d", "e"}, {"e"}} {
		var records []stream.Record
		for i, ns := range batch {
			records = append(records, written(n*10+2*i, 1, ns, time.Now())...)
		}
		res, err := a.Process(t.Context(), records)
		if err != nil || len(res.Failed) > 0 || res.Pages != len(batch) {
			t.Fatalf("%+v: %v", res, err)
		}
		still := 0
		for id := range opens {
			still += opens[id] - closes[id]
		}
		if still != 2 {
			t.Errorf("after %v: opened %v, closed %v", batch, opens, closes)
		}
	}
	if _, err := aggregator.New(open, aggregator.Options{Namespaces: -1}); err == nil {
		t.Error("less than no namespaces are taken")
	}
}

// A usageFunc is called for each request.
type usageFunc func()

func (f usageFunc) Save(context.Context, ...usage.Diary) error { f(); return nil }
