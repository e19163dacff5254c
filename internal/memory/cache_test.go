package memory_test

import (
	"fmt"
	"math/rand/v2"
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

// strangers puts new keys, beginning with one, until some have come to the shard of key 0. It
// returns the key after them.
func strangers(c *memory.Cache[int, int], from, n int) (next int) {
	for ; n > 0; from++ {
		if c.Put(from, from); c.Together(0, from) {
			n--
		}
	}
	return from
}

// An entry that was used once stays until its shard has seen as many others as it has room for.
// Uses at the same time are as one.
func TestCacheDropsFirstWhatWasUsedOnce(t *testing.T) {
	t.Parallel()
	for _, size := range cacheSizes {
		for _, uses := range []int{0, 1, 9} {
			t.Run(fmt.Sprint(size, " ", uses), func(t *testing.T) {
				t.Parallel()
				c := memory.NewCache[int, int](size)
				next := strangers(c, 1, 3*size) // they fill the shards
				c.Put(0, 0)
				for range uses {
					c.Get(0)
					c.Put(0, 0)
				}
				room := max(1, size/c.Shards())
				if next = strangers(c, next, room-1); !c.Has(0) {
					t.Fatalf("dropped after %d others", room-1)
				}
				if strangers(c, next, 2); c.Has(0) { // an odd size leaves room for one more
					t.Errorf("kept after %d others", room+1)
				}
			})
		}
	}
}

// Entries that were used again later stay, whatever number of strangers come between two of their
// uses. Up to seven eighths of a shard stay so.
func TestCacheKeepsWhatIsUsedAgain(t *testing.T) {
	t.Parallel()
	uses := map[string]func(*memory.Cache[int, int], int){
		"put":        func(c *memory.Cache[int, int], k int) { c.Put(k, k) },
		"get":        func(c *memory.Cache[int, int], k int) { c.Get(k) },
		"get or put": func(c *memory.Cache[int, int], k int) { c.GetOrPut(k, func() int { return k }) },
	}
	for name, use := range uses {
		for _, size := range []int{32, 47, 160, 1600} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				t.Parallel()
				c := memory.NewCache[int, int](size)
				room := size / c.Shards()
				most := room - max(1, room/8)
				warm := []int{0}
				for k := 1; len(warm) < most; k++ {
					if c.Together(0, k) {
						warm = append(warm, k)
					}
				}
				for _, k := range warm {
					c.Put(k, k)
				}
				next := strangers(c, 1_000_000, max(1, room/16))
				for range 3 {
					for _, k := range warm {
						if use(c, k); !c.Has(k) {
							t.Fatalf("%d is forgotten", k)
						}
					}
					next = strangers(c, next, 20*room)
					for _, k := range warm {
						if !c.Has(k) {
							t.Fatalf("%d of %d is forgotten after strangers", k, len(warm))
						}
					}
				}
			})
		}
	}
}

// Of more entries that are used again than can stay, those stay that were used last.
func TestCacheProtectsSevenEighths(t *testing.T) {
	t.Parallel()
	const size = 1600
	c := memory.NewCache[int, int](size)
	room := size / c.Shards()
	next := 1
	var all []int
	for round := range 6 {
		switch round {
		case 2:
			c.Clear()
		case 4:
			for _, k := range all {
				c.Drop(k)
			}
		}
		all = nil
		for len(all) < room {
			k := next
			if next++; !c.Together(0, k) {
				continue
			}
			c.Put(k, k)
			next = strangers(c, next, room/16)
			c.Get(k)
			all = append(all, k)
		}
		next = strangers(c, next, 1000)
		first := room / 8
		for i, k := range all {
			if c.Has(k) != (i >= first) {
				t.Errorf("round %d: entry %d of %d is there: %t, the first one should be %d", round, i, len(all), c.Has(k), first)
			}
		}
	}
}

// A cache that is full, and one that others are dropped from, uses the places of its entries again.
func TestCacheUsesPlacesAgain(t *testing.T) {
	t.Parallel()
	const size, room = 160, 10
	c := memory.NewHashedCache[int, int](size, func(k int) uint64 { return uint64(k) << 32 }) // one shard
	for k := range 100 * room {
		c.Put(k, k)
		if k%room == 0 {
			for i := range room / 2 {
				c.Drop(k - i)
			}
		}
	}
	if n := c.Places(); n > room {
		t.Errorf("%d places were used, want %d at most", n, room)
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

// Keys with the same hash are told apart, and each has an entry.
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
	c.Put("c", 3)
	c.Drop("b") // between the others
	for k, want := range map[string]int{"a": 1, "b": 0, "c": 3} {
		if v, ok := c.Get(k); v != want || ok != (want > 0) {
			t.Errorf("%s: %d, %t", k, v, ok)
		}
	}
	if c.Put("b", 4); c.Len() != 3 {
		t.Errorf("%d entries, want 3", c.Len())
	}
}

// A cache has what a map has to which the same is done, while it has room. Few hashes make long chains.
func TestCacheIsAMap(t *testing.T) {
	t.Parallel()
	for name, hash := range map[string]func(int) uint64{
		"one chain":  func(int) uint64 { return 0 },
		"one shard":  func(k int) uint64 { return uint64(k) << 32 },
		"few hashes": func(k int) uint64 { return uint64(k%5) * 0x9e3779b97f4a7c15 },
		"all shards": func(k int) uint64 { return uint64(k) * 0x9e3779b97f4a7c15 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, m := memory.NewHashedCache[int, int](1<<16, hash), map[int]int{}
			draw := rand.New(rand.NewPCG(1, 2))
			for i := 1; i <= 20_000; i++ {
				k := draw.IntN(400)
				switch draw.IntN(20) {
				case 0:
					if draw.IntN(50) == 0 {
						c.Clear()
						clear(m)
					}
				case 1, 2, 3, 4, 5, 6:
					c.Drop(k)
					delete(m, k)
				default:
					c.Put(k, i)
					m[k] = i
				}
				k = draw.IntN(400)
				if v, ok := c.Get(k); v != m[k] || ok != (m[k] > 0) {
					t.Fatalf("step %d: the value of %d is %d, %t, want %d", i, k, v, ok, m[k])
				}
				if c.Len() != len(m) {
					t.Fatalf("step %d: %d entries, want %d", i, c.Len(), len(m))
				}
			}
		})
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
