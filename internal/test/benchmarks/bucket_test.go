package benchmarks_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	xrate "golang.org/x/time/rate"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

const (
	perMinute = 6000
	epoch     = 1_790_000_000_000 // ms
)

// A meteredBucket is bucket arithmetic with the state and the steps of a limiter in
// process: refill, take if there is enough.
type meteredBucket struct {
	mu         sync.Mutex
	limit      bucket.Limit
	tokens, at int64
}

func newMeteredBucket() *meteredBucket {
	l := bucket.Limit{Capacity: perMinute * 1000, Amount: perMinute * 1000, Period: 60_000}
	return &meteredBucket{limit: l, tokens: l.Capacity, at: epoch}
}

func (b *meteredBucket) take(now, milli int64) bool {
	delta, _ := b.limit.Refill(b.tokens, b.at, now)
	b.tokens, b.at = b.tokens+delta, max(b.at, now)
	if b.tokens < milli {
		return false
	}
	b.tokens -= milli
	return true
}

// lockedTake is take for concurrent use, like AllowN.
func (b *meteredBucket) lockedTake(now, milli int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(now, milli)
}

// decisions are three ways to decide about one token, at instants a millisecond apart: a
// tenth is admitted, the rest refused.
func decisions() (take, locked, allow func() bool) {
	a, b := newMeteredBucket(), newMeteredBucket()
	r := xrate.NewLimiter(xrate.Limit(perMinute/60), perMinute)
	now1, now2, now3 := int64(epoch), int64(epoch), time.UnixMilli(epoch)
	return func() bool { now1++; return a.take(now1, 1000) },
		func() bool { now2++; return b.lockedTake(now2, 1000) },
		func() bool { now3 = now3.Add(time.Millisecond); return r.AllowN(now3, 1) }
}

// BenchmarkBucket refills a bucket and takes a token, and compares this with AllowN of
// golang.org/x/time/rate, which does the same under a lock.
func BenchmarkBucket(b *testing.B) {
	take, locked, allow := decisions()
	for _, c := range []struct {
		name   string
		decide func() bool
	}{{"via=AllowN", allow}, {"via=bucket", take}, {"via=locked", locked}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.decide()
			}
		})
	}
}

// The arithmetic is no slower than AllowN, even with the lock that AllowN
// takes, and allocates nothing.
func TestBucketAgainstAllowN(t *testing.T) {
	if raceEnabled {
		t.Fatal("under the race detector ratios say nothing: run without -race")
	}
	take, locked, allow := decisions()
	for range 2 * perMinute { // until both have emptied their bucket
		for _, decide := range []func() bool{take, locked, allow} {
			decide()
		}
	}
	for range 100 { // the decisions must be the same
		if a, b, c := take(), locked(), allow(); a != b || a != c {
			t.Fatalf("bucket says %t, with a lock %t, AllowN %t", a, b, c)
		}
	}
	if n := testing.AllocsPerRun(100, func() { take(); locked() }); n != 0 {
		t.Errorf("a decision makes %v allocations, want none", n)
	}
	targets := []target{{wallTime, 1}}
	report(t, compare(t, 1_000_000, targets, forever(locked), forever(allow)), targets)
}

// forever makes an operation from a decision, which cannot fail.
func forever(decide func() bool) func() error {
	admitted := 0
	return func() error {
		if decide() {
			admitted++
		}
		if admitted < 0 {
			return errors.New("the count overflowed")
		}
		return nil
	}
}
