package wall_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wall"
)

// request makes the calls that the engine makes to a meter for one request.
func request(m *wall.Meter, now time.Time, p wall.Partition) {
	if m.Check(now, wall.Write, p) == wall.Admitted {
		m.Charge(now, wall.Write, p, 2)
	}
}

// meters are the limits for the benchmarks and the allocation budget.
var meters = []struct {
	name string
	make func() *wall.Meter
}{
	{"off", func() *wall.Meter { return nil }},
	{"partition", func() *wall.Meter { return wall.New(start, aws, wall.Capacity{}) }},
	{"on-demand", func() *wall.Meter { return wall.New(start, aws, wall.Capacity{Initial: wall.Throughput{Write: 2e6}}) }},
	{"provisioned", func() *wall.Meter {
		return wall.New(start, aws, wall.Capacity{Provisioned: wall.Throughput{Write: 2e6}, Burst: 5 * time.Minute})
	}},
}

// BenchmarkRequest measures a Check and a Charge on a thousand keys in use, 1 µs apart.
func BenchmarkRequest(b *testing.B) {
	keys := make([]wall.Partition, 1000)
	for i := range keys {
		keys[i] = numbered(i)
	}
	for _, bm := range meters {
		b.Run(bm.name, func(b *testing.B) {
			m, now, i := bm.make(), start, 0
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				request(m, now, keys[i%len(keys)])
				i++
			}
		})
	}
}

// BenchmarkParallel measures the same from 64 goroutines.
func BenchmarkParallel(b *testing.B) {
	for _, bm := range meters {
		b.Run(bm.name, func(b *testing.B) {
			m := bm.make()
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				now := start
				for i := 0; pb.Next(); i++ {
					now = now.Add(time.Microsecond)
					request(m, now, wall.Partition(1+i%1000))
				}
			})
		})
	}
}

// BenchmarkNewKeys uses a new key for each request, 10,000 of them per second.
func BenchmarkNewKeys(b *testing.B) {
	m, now, i := wall.New(start, aws, wall.Capacity{}), start, 0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(100 * time.Microsecond)
		request(m, now, wall.Partition(1+i))
		i++
	}
}

func BenchmarkPartitionOf(b *testing.B) {
	key := []byte("a partition key that is longer than what the compiler keeps on the stack")
	text := string(key)
	b.Run("bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wall.PartitionOf(key)
		}
	})
	b.Run("string", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wall.PartitionOf(text)
		}
	})
}

// A request on a known key allocates nothing, with any limits. Not parallel: the allocations of
// the whole process are counted.
func TestRequestAllocatesNothing(t *testing.T) {
	key := []byte("a partition key that is longer than what the compiler keeps on the stack")
	text := string(key)
	for _, tt := range meters {
		m, now := tt.make(), start
		request(m, now, wall.PartitionOf(key))
		if n := testing.AllocsPerRun(100, func() {
			now = now.Add(time.Microsecond)
			request(m, now, wall.PartitionOf(key))
			request(m, now, wall.PartitionOf(text))
		}); n > 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}
