package bucket_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// BenchmarkRefill refills a bucket and takes from it like a caller of the limiter: the
// arithmetic of one decision, without the store. Compare it with AllowN of
// golang.org/x/time/rate.
func BenchmarkRefill(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit bucket.Limit
	}{
		{"rpm", perMinute(100)},
		{"tpm", perMinute(10_000_000)},
		{"share", perMinute(100).Share(3, 32)},
		{"largest", bucket.Limit{Capacity: maxMilli, Amount: maxMilli, Period: maxPeriod}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			now := int64(epoch2023)
			tokens, at, admitted := c.limit.Capacity, now, 0
			for b.Loop() {
				now++
				delta, _ := c.limit.Refill(tokens, at, now)
				tokens, at = tokens+delta, max(at, now)
				if tokens >= tok {
					tokens -= tok
					admitted++
				}
			}
			if admitted == 0 {
				b.Fatal("nothing was admitted")
			}
		})
	}
}

// BenchmarkWait is the arithmetic of one refusal.
func BenchmarkWait(b *testing.B) {
	b.ReportAllocs()
	l := perMinute(100)
	now := int64(epoch2023)
	for b.Loop() {
		now++
		if _, ok := l.Wait(0, now, now, tok); !ok {
			b.Fatal("never admitted")
		}
	}
}
