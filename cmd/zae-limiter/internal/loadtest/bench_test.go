package loadtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/dynamolite"
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

// sampling prepares the samples of a scenario.
func sampling(tb testing.TB, name string) *loadtest.Sampling {
	tb.Helper()
	o, _ := options(builtin(tb, name, time.Minute), dynamolite.Options{})
	s, err := loadtest.NewSampling(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// perSecond is about as many operations as one process carries out in a second.
const perSecond = 50_000

// The sample of a second costs at most 2 % of what the limiter's decisions of that second do.
// It measures both in turn, and compares the medians.
func TestASampleCostsLittle(t *testing.T) {
	for _, name := range []string{"hot", "llm", "stress"} {
		s := sampling(t, name)
		const part, rounds, most = 500, 7, 0.02
		s.Decide(perSecond / part) // makes the buckets of the first operations
		var samples, decisions []time.Duration
		for range rounds {
			began := time.Now()
			s.Decide(perSecond / part)
			decisions = append(decisions, part*time.Since(began))
			s.CarryOut(perSecond / 10)
			began = time.Now()
			s.Take()
			samples = append(samples, time.Since(began))
		}
		slices.Sort(samples)
		slices.Sort(decisions)
		share := float64(samples[rounds/2]) / float64(decisions[rounds/2])
		t.Logf("%s: a sample takes %v, %.3f %% of %d decisions", name, samples[rounds/2], 100*share, perSecond)
		if share > most {
			t.Errorf("%s: a sample takes %.1f %% of the time of its decisions, at most %.0f %% is allowed", name, 100*share, 100*most)
		}
	}
}

// What a sample costs that is taken each second.
func BenchmarkSample(b *testing.B) {
	for _, name := range []string{"hot", "llm", "stress"} {
		b.Run(name, func(b *testing.B) {
			s := sampling(b, name)
			for b.Loop() {
				b.StopTimer()
				s.CarryOut(perSecond)
				b.StartTimer()
				s.Take()
			}
		})
	}
}
