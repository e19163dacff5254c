package benchmarks_test

import (
	"fmt"
	"testing"
)

// BenchmarkAcquire measures a warm acquire and the update it sends, side by side: for
// benchstat -col /via.
func BenchmarkAcquire(b *testing.B) {
	for _, e := range []engine{embedded, loopback, local} {
		if e.start == nil {
			b.Logf("%s: NOT MEASURED: it takes the build tag conformance", e.name)
			continue
		}
		for _, l := range []load{{limits: 1}, {limits: 2}, {limits: 10}, {limits: 2, full: true}} {
			b.Run(fmt.Sprintf("engine=%s/%v", e.name, l), func(b *testing.B) {
				p := newPair(b, e, l)
				b.Run("via=bare", func(b *testing.B) { loop(b, p.update) })
				b.Run("via=limiter", func(b *testing.B) { loop(b, p.acquire) })
			})
		}
	}
}

func loop(b *testing.B, do func() error) {
	b.Helper()
	b.ReportAllocs()
	cpu := cpuTime(b)
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
}
