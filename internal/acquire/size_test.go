package acquire_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

var sizeBuckets = flag.Int("size.buckets", 20_000, "buckets whose size is measured")

// A plainStore has buckets of two limits, which the resource's level configures. Its answers
// share no memory with anything but the request and the names of limits, and it allocates
// nothing else. So what the heap grows by is what a limiter remembers.
type plainStore struct {
	store.Store

	limits []store.Limit
	mu     sync.Mutex
	items  map[store.Bucket]*plainItem
}

type plainItem struct {
	image  store.Image // without limits
	limits [2]store.LimitState
}

// entityName is a string of its own for each call.
func entityName(i int) string { return fmt.Sprintf("user-%09d", i) }

// newPlainStore returns a store with n full buckets.
func newPlainStore(n int) *plainStore {
	s := &plainStore{items: make(map[store.Bucket]*plainItem, n), limits: []store.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 60_000)}}
	items, params, writes := make([]plainItem, n), [2]*store.Params{}, plan.WriteParams
	for k, l := range s.limits {
		params[k] = new(l.Params()) // which all items share, as decoded ones do
	}
	for i := range items {
		b, now := store.Bucket{Entity: entityName(i), Resource: "gpt-4"}, time.Now()
		items[i].image = store.Image{ShardCount: 1, RefilledAt: now.UnixMilli(), ExpiresAt: now.Add(time.Hour).Unix(), Hour: int32(now.Unix() / 3600)} //nolint:gosec,mnd // hours fit
		items[i].image.Writes = store.LimitState{Name: "wcu", Tokens: plan.WriteParams.Capacity, Params: &writes}
		for k, l := range s.limits {
			items[i].limits[k] = store.LimitState{Name: l.Name, Tokens: l.Capacity * store.Milli, Params: params[k]}
		}
		s.items[b] = &items[i]
	}
	return s
}

func (*plainStore) Now() time.Time { return time.Now() }

func (s *plainStore) Load(_ context.Context, l *store.Load) (*store.Loaded, error) {
	loaded := &store.Loaded{Configs: make([]*store.Config, len(l.Configs))}
	for i, k := range l.Configs {
		if k.Entity == "" && k.Resource != "" {
			loaded.Configs[i] = &store.Config{Limits: s.limits}
		}
	}
	if l.Bucket != nil {
		loaded.Image = s.update(*l.Bucket, func(*plainItem) {}).Image
	}
	return loaded, nil
}

func (s *plainStore) Take(_ context.Context, t *store.Take) (store.Outcome, error) {
	return s.update(t.Bucket, func(item *plainItem) {
		for i, d := range t.Debits {
			item.limits[i].Tokens -= d.Milli
			item.limits[i].Consumed += d.Milli
		}
		item.image.Writes.Tokens -= plan.WriteCost
		item.image.Writes.Consumed += plan.WriteCost
	}), nil
}

func (s *plainStore) Refill(_ context.Context, r *store.Refill) (store.Outcome, error) {
	return s.update(r.Bucket, func(item *plainItem) {
		after := plan.AfterRefill(r)
		copy(item.limits[:], after.Limits)
		item.image, item.image.Limits = *after, nil
	}), nil
}

// update changes a bucket, and answers with its image.
func (s *plainStore) update(b store.Bucket, change func(*plainItem)) store.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	item := s.items[b]
	change(item)
	img := item.image
	img.Bucket, img.Limits = b, slices.Clone(item.limits[:])
	item.image.Bucket = store.Bucket{} // the request's strings
	return store.Outcome{Applied: true, Image: &img}
}

// inUse is the size of the heap in use, and of the process's resident memory.
func inUse(tb testing.TB) (heap, resident int64) {
	tb.Helper()
	debug.FreeOSMemory()
	debug.FreeOSMemory() // returns what the first collection finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var pages int64
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if _, err := fmt.Sscan(string(b), new(int64), &pages); err != nil {
			tb.Fatal(err)
		}
	}
	return int64(m.HeapAlloc), pages * int64(os.Getpagesize())
}

// A process remembers a bucket of two limits in at most 820 bytes. It remembers as many
// buckets and as many levels of configuration as its memory has room for. The entities have
// no levels and no parent of their own. Each has made three requests, one after the other,
// and the process has looked for changed configuration once.
//
// Not parallel: all tests share the heap.
func TestARememberedBucketIsSmall(t *testing.T) {
	const most = 820 // 799 to 809 was measured, by how full the maps are
	n := *sizeBuckets
	s := newPlainStore(n)
	l, err := limiter.New(s, limiter.Options{Memory: n})
	if err != nil {
		t.Fatal(err)
	}
	heap, resident := inUse(t)
	for round := range 3 {
		if round == 1 {
			l.InvalidateConfig() // it looks for changed configuration
		}
		for i := range n {
			req := limiter.Request{Entity: entityName(i), Resource: "gpt-4", Consume: map[string]int64{"rpm": 1, "tpm": 100}}
			if _, err := l.Acquire(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	heapAfter, residentAfter := inUse(t)
	remembered := l.Stats().Buckets
	if remembered < n*9/10 { // the shards of the cache are not equally full
		t.Errorf("%d buckets are remembered, of %d", remembered, n)
	}
	size := (heapAfter - heap) / int64(remembered)
	t.Logf("%d buckets: %d bytes each, %d MB of the heap, %d MB resident", remembered, size, (heapAfter-heap)/1e6, (residentAfter-resident)/1e6)
	if size > most {
		t.Errorf("a bucket takes %d bytes, want at most %d", size, most)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(s)
}
