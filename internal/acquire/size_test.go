package acquire_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

var sizeBuckets = flag.Int("size.buckets", 20_000, "buckets whose size is measured")

// A plainStore has buckets of two limits, which the resource's level configures. It keeps 56
// bytes of each, in one piece without pointers, so that the heap is nearly all the limiter's: the
// collector lets garbage grow by what lives. Its answers share no memory with anything but the
// request, the parameters and the names of limits, and it allocates nothing else.
type plainStore struct {
	store.Store

	limits  []store.Limit
	params  [2]*store.Params // which all items share, as decoded ones do
	writes  *store.Params
	expires int64

	mu    sync.Mutex
	items []plainItem // by the number in the entity's name
}

type plainItem struct {
	refilledAt int64
	writes     plainBalance
	limits     [2]plainBalance
}

type plainBalance struct{ tokens, consumed int64 }

func (b *plainBalance) debit(milli int64) { b.tokens, b.consumed = b.tokens-milli, b.consumed+milli }

func (b *plainBalance) state(name string, p *store.Params) store.LimitState {
	return store.LimitState{Name: name, Tokens: b.tokens, Consumed: b.consumed, Params: p}
}

// entityName is a string of its own for each call.
func entityName(i int) string { return fmt.Sprintf("user-%09d", i) }

// newPlainStore returns a store with n full buckets.
func newPlainStore(n int) *plainStore {
	now := time.Now()
	s := &plainStore{
		limits: []store.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 60_000)}, writes: new(plan.WriteParams),
		expires: now.Add(time.Hour).Unix(), items: make([]plainItem, n),
	}
	full := plainItem{refilledAt: now.UnixMilli(), writes: plainBalance{tokens: plan.WriteParams.Capacity}}
	for k, l := range s.limits {
		s.params[k], full.limits[k].tokens = new(l.Params()), l.Capacity*store.Milli
	}
	for i := range s.items {
		s.items[i] = full
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
			item.limits[i].debit(d.Milli)
		}
		item.writes.debit(plan.WriteCost)
	}), nil
}

func (s *plainStore) Refill(_ context.Context, r *store.Refill) (store.Outcome, error) {
	return s.update(r.Bucket, func(item *plainItem) {
		after := plan.AfterRefill(r)
		item.refilledAt, item.writes = after.RefilledAt, plainBalance{after.Writes.Tokens, after.Writes.Consumed}
		for k := range item.limits {
			item.limits[k] = plainBalance{after.Limits[k].Tokens, after.Limits[k].Consumed}
		}
	}), nil
}

// update changes a bucket, and answers with its image.
func (s *plainStore) update(b store.Bucket, change func(*plainItem)) store.Outcome {
	i, err := strconv.Atoi(strings.TrimPrefix(b.Entity, "user-"))
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	item := &s.items[i]
	change(item)
	img := &store.Image{Bucket: b, ShardCount: 1, RefilledAt: item.refilledAt, ExpiresAt: s.expires, Hour: int32(s.expires/3600 - 1), Limits: make([]store.LimitState, len(s.limits))} //nolint:gosec,mnd // hours fit
	img.Writes = item.writes.state("wcu", s.writes)
	for k, l := range s.limits {
		img.Limits[k] = item.limits[k].state(l.Name, s.params[k])
	}
	return store.Outcome{Applied: true, Image: img}
}

// taken is the memory that the process has from the system and has not returned.
func taken() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// inUse is the size of the heap in use, and of the process's resident memory, after a collection
// that returns free memory to the system.
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

// A process remembers a bucket of two limits in at most 780 bytes. It remembers as many
// buckets and as many levels of configuration as its memory has room for. The entities have
// no levels and no parent of their own. Each has made three requests, one after the other,
// and the process has looked for changed configuration once.
//
// Not parallel: all tests share the heap.
func TestARememberedBucketIsSmall(t *testing.T) {
	const most = 780 // 756 to 758 was measured
	n := *sizeBuckets
	s := newPlainStore(n)
	l, err := limiter.New(s, limiter.Options{Memory: n})
	if err != nil {
		t.Fatal(err)
	}
	heap, resident := inUse(t)
	idle := taken()
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
	busy := taken()
	heapAfter, residentAfter := inUse(t)
	remembered := l.Stats().Buckets
	if remembered < n*9/10 { // the shards of the cache are not equally full
		t.Errorf("%d buckets are remembered, of %d", remembered, n)
	}
	size := (heapAfter - heap) / int64(remembered)
	t.Logf("%d buckets: %d bytes each, %d MB of the heap; %d MB resident, and %d MB at the end of the requests", remembered, size, (heapAfter-heap)/1e6, (residentAfter-resident)/1e6, (busy-idle)/1e6)
	if size > most {
		t.Errorf("a bucket takes %d bytes, want at most %d", size, most)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(s)
}
