package memory_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memory"
)

// cacheSizes are smaller than the number of shards, multiples of it, and neither.
var cacheSizes = []int{0, 1, 2, 3, 7, 15, 16, 17, 31, 100, 1000}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range cacheSizes {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			c := memory.NewCache[int, int](size)
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for i := range 500 {
						k := g*500 + i
						c.Put(k, k)
						if v, ok := c.Get(k - i); ok && v != k-i {
							t.Errorf("the value of %d is %d", k-i, v)
						}
						if v := c.GetOrPut(i, func() int { return i }); v != i {
							t.Errorf("the value of %d is %d", i, v)
						}
						if i%50 == 0 {
							c.Drop(k)
						}
						if n := c.Len(); n > max(1, size) {
							t.Errorf("%d entries, want at most %d", n, max(1, size))
						}
					}
				})
			}
			wg.Wait()
			for k := range 32_000 { // this fills every shard
				c.Put(k, k)
			}
			if n := c.Len(); n != max(1, size) {
				t.Errorf("%d entries after far more were put, want %d", n, max(1, size))
			}
		})
	}
}

// An entry stays in its shard until more new entries arrive between two of its uses
// than the shard has room for.
func TestCacheDropsWhatWasNotUsedForLongest(t *testing.T) {
	t.Parallel()
	uses := map[string]func(*memory.Cache[int, int]){
		"put":        func(c *memory.Cache[int, int]) { c.Put(0, 0) },
		"get":        func(c *memory.Cache[int, int]) { c.Get(0) },
		"get or put": func(c *memory.Cache[int, int]) { c.GetOrPut(0, func() int { return 0 }) },
	}
	for name, use := range uses {
		for _, size := range []int{32, 47, 160, 1600} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				t.Parallel()
				c := memory.NewCache[int, int](size)
				c.Put(0, 0)
				room, others := size/c.Shards(), 0
				last := 100 * size
				for k := 1; k < last; k++ {
					if c.Together(0, k) {
						if others == room-1 {
							use(c)
							others = 0
						}
						others++
					}
					if c.Put(k, k); !c.Has(0) {
						t.Fatalf("dropped after %d others, with room for %d", others, room)
					}
				}
				for k := last; others <= room; k++ { // an odd size leaves room for one more
					if c.Put(k, k); c.Together(0, k) {
						others++
					}
				}
				if c.Has(0) {
					t.Errorf("kept after %d others, with room for %d", others, room)
				}
			})
		}
	}
}

func TestCacheBuildsOnce(t *testing.T) {
	t.Parallel()
	c := memory.NewCache[string, *int64](100)
	for round := range int64(100) {
		k := fmt.Sprint("key ", round)
		var built atomic.Int64
		var wg sync.WaitGroup
		values := make([]*int64, 64)
		for g := range values {
			wg.Go(func() {
				values[g] = c.GetOrPut(k, func() *int64 {
					built.Add(1)
					for range 10 {
						runtime.Gosched() // lets the others try
					}
					return new(int64)
				})
			})
		}
		wg.Wait()
		if n := built.Load(); n != 1 {
			t.Fatalf("%s was built %d times", k, n)
		}
		for _, v := range values {
			if v != values[0] {
				t.Fatalf("%s has two values", k)
			}
		}
	}
}

func TestCacheForgets(t *testing.T) {
	t.Parallel()
	c := memory.NewCache[int, string](1000)
	for i := range 100 {
		c.Put(i, "old")
	}
	c.Put(7, "new")
	if v, ok := c.Get(7); v != "new" || !ok || c.Len() != 100 {
		t.Errorf("after an overwrite: %q, %t, %d entries", v, ok, c.Len())
	}
	c.Drop(7)
	c.Drop(7)
	if v, ok := c.Get(7); v != "" || ok || c.Len() != 99 {
		t.Errorf("after a drop: %q, %t, %d entries", v, ok, c.Len())
	}
	c.Clear()
	if v, ok := c.Get(8); v != "" || ok || c.Len() != 0 {
		t.Errorf("after a clear: %q, %t, %d entries", v, ok, c.Len())
	}
	c.Put(8, "again")
	if v, ok := c.Get(8); v != "again" || !ok || c.Len() != 1 {
		t.Errorf("after a clear and a put: %q, %t, %d entries", v, ok, c.Len())
	}
}

// Two keys with the same hash are told apart. The cache keeps the one that was put
// last.
func TestCacheTellsCollidingKeysApart(t *testing.T) {
	t.Parallel()
	c := memory.NewHashedCache[string, int](1000, func(string) uint64 { return 7 })
	c.Put("a", 1)
	if v, ok := c.Get("b"); ok {
		t.Errorf("a key that was never put has the value %d", v)
	}
	if c.Drop("b"); c.Len() != 1 {
		t.Error("dropping a key dropped another")
	}
	if v := c.GetOrPut("b", func() int { return 2 }); v != 2 {
		t.Errorf("the value of b is %d, want the one built", v)
	}
	if _, ok := c.Get("a"); ok || c.Len() != 1 {
		t.Errorf("a is still there: %t, of %d entries", ok, c.Len())
	}
	c.Put("a", 3)
	if v, ok := c.Get("a"); v != 3 || !ok {
		t.Errorf("after a put: %d, %t", v, ok)
	}
}

type cacheKey struct{ entity, resource string }

func TestCacheHitsDoNotAllocate(t *testing.T) {
	c := memory.NewCache[cacheKey, *int](1000)
	keys := make([]cacheKey, 100)
	for i := range keys {
		keys[i] = cacheKey{fmt.Sprint("user-", i), "gpt-4"}
		c.Put(keys[i], new(int))
	}
	build := func() *int { return new(int) }
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		c.Get(keys[i])
		c.GetOrPut(keys[i], build)
		i = (i + 1) % len(keys)
	}); n != 0 {
		t.Errorf("two hits allocate %v times", n)
	}
}

func BenchmarkCache(b *testing.B) {
	for _, n := range []int{1, 1024, 60_000} {
		c := memory.NewCache[cacheKey, *int](100_000)
		keys := make([]cacheKey, n)
		for i := range keys {
			keys[i] = cacheKey{fmt.Sprint("user-", i), "gpt-4"}
			c.Put(keys[i], new(int))
		}
		b.Run(fmt.Sprint("keys=", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, ok := c.Get(keys[i]); !ok {
					b.Fatal("a miss")
				}
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}
