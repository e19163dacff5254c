package loadtest_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// What a run adds to the work of a limiter takes no memory: it would add to the collector's
// work, and so to the latency that is measured.
func TestTheGeneratorTakesNoMemory(t *testing.T) {
	for _, name := range []string{"hot", "llm", "stress", "cascade"} {
		plan, err := builtin(t, name, time.Minute).Plan()
		if err != nil {
			t.Fatal(err)
		}
		carryOut := loadtest.Generator(plan)
		carryOut(t.Context(), 100_000) // makes the books of most buckets
		const n = 1000
		if allocs := testing.AllocsPerRun(5, func() { carryOut(t.Context(), n) }); allocs > n/10 {
			t.Errorf("%s: %v allocations in %d operations", name, allocs, n)
		}
	}
}

func BenchmarkGenerator(b *testing.B) {
	for _, name := range []string{"hot", "llm", "stress"} {
		b.Run(name, func(b *testing.B) {
			plan, err := builtin(b, name, time.Minute).Plan()
			if err != nil {
				b.Fatal(err)
			}
			carryOut := loadtest.Generator(plan)
			carryOut(b.Context(), 100_000)
			b.ReportAllocs()
			b.ResetTimer()
			carryOut(b.Context(), b.N)
		})
	}
}

// What a sample costs that is taken each second, of as many operations as one process carries
// out in that time.
func BenchmarkSample(b *testing.B) {
	for _, name := range []string{"hot", "llm", "stress"} {
		b.Run(name, func(b *testing.B) {
			o, _ := options(builtin(b, name, time.Minute), dynamolite.Options{})
			carryOut, take, err := loadtest.Sampling(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				carryOut(50_000)
				b.StartTimer()
				take()
			}
		})
	}
}
