package loadtest_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func TestPaceCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate int64
		d    time.Duration
		want int64
	}{
		{1, time.Second, 1},
		{1, 999 * time.Millisecond, 1},
		{1, 1001 * time.Millisecond, 2},
		{50, 200 * time.Second, 10_000},
		{3, time.Second, 3},
		{7, 24 * time.Hour, 7 * 86_400},
		{1_000_000, 24 * time.Hour, 86_400_000_000},
		{0, time.Second, 0},
	} {
		if got := (loadtest.Pace{Rate: tt.rate, For: tt.d}).Count(); got != tt.want {
			t.Errorf("%d a second for %v: %d, want %d", tt.rate, tt.d, got, tt.want)
		}
	}
}

// Counted operations are due, and none after them is. No operation is due before its
// predecessor, nor a nanosecond before its ideal instant.
func TestPaceIsEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := loadtest.Pace{
			Rate: rapid.Int64Range(1, 1_000_000).Draw(t, "rate"),
			For:  time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "for")),
		}
		n := p.Count()
		if _, ok := p.Due(n - 1); !ok {
			t.Fatalf("the last of %d is not due", n)
		}
		if at, ok := p.Due(n); ok {
			t.Fatalf("one more than %d is due, at %v", n, at)
		}
		k := rapid.Int64Range(0, n-1).Draw(t, "k")
		at, _ := p.Due(k)
		if ideal := float64(k) / float64(p.Rate); math.Abs(at.Seconds()-ideal) > 1e-6 {
			t.Fatalf("operation %d is due after %v, want %v s", k, at, ideal)
		}
		if next, _ := p.Due(k + 1); next < at {
			t.Fatalf("operation %d is due before operation %d", k+1, k)
		}
	})
}

// Every operation begins when it is due, once, whichever client carries it out.
func TestOperationsBeginWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun := map[int64]time.Duration{}
		start := time.Now()
		n := loadtest.Drive(t.Context(), loadtest.Pace{Rate: 300, For: time.Second}, 7, time.Now, func(n int64, due time.Time) {
			if !time.Now().Equal(due) {
				t.Errorf("operation %d was due at %v and began at %v", n, due.Sub(start), time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			begun[n] = time.Since(start)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond) // 6 of 7 clients are busy at any time
			mu.Lock()
		})
		if n != 300 || len(begun) != 300 {
			t.Errorf("%d operations, %d different ones, want 300", n, len(begun))
		}
		if begun[150] != 500*time.Millisecond {
			t.Errorf("operation 150 began after %v", begun[150])
		}
	})
}

// A closed loop begins no operation after its time is over, and completes those in
// progress.
func TestAClosedLoopEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		n := loadtest.Drive(t.Context(), loadtest.Pace{For: time.Second}, 3, time.Now, func(int64, time.Time) { time.Sleep(300 * time.Millisecond) })
		if n != 3*4 || time.Since(start) != 1200*time.Millisecond {
			t.Errorf("%d operations in %v, want 12 in 1.2s", n, time.Since(start))
		}
	})
}

// Operations that take no time do not stop the clock.
func TestAClosedLoopInVirtualTimeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := loadtest.Drive(t.Context(), loadtest.Pace{For: time.Second}, 3, time.Now, func(int64, time.Time) {})
		if n < 3*1000 || n > 3*1001 {
			t.Errorf("%d operations, want one each millisecond of each client", n)
		}
	})
}

func TestAnInterruptedLoadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+time.Millisecond)
		defer cancel()
		start := time.Now()
		n := loadtest.Drive(ctx, loadtest.Pace{Rate: 1, For: time.Hour}, 100, time.Now, func(int64, time.Time) {})
		if n != 3 || time.Since(start) != 2*time.Second+time.Millisecond {
			t.Errorf("%d operations in %v, want 3 in 2.001s", n, time.Since(start))
		}
	})
}

func TestEntitlement(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit limiter.Limit
		d     time.Duration
		want  int64
	}{
		{limiter.PerSecond("a", 10), 0, 10},
		{limiter.PerSecond("a", 10), 99 * time.Millisecond, 10},
		{limiter.PerSecond("a", 10), 100 * time.Millisecond, 11},
		{limiter.PerMinute("a", 1), time.Hour, 61},
		{limiter.PerSecond("a", 10, limiter.Burst(100)), 9980 * time.Millisecond, 199},
		{limiter.PerSecond("a", limiter.MaxTokens), 24 * time.Hour, math.MaxInt64},
		{limiter.PerDay("a", limiter.MaxTokens), time.Hour, limiter.MaxTokens + limiter.MaxTokens/24},
		{limiter.PerSecond("a", 1), -time.Second, 1},
	} {
		if got := loadtest.Entitlement(tt.limit, tt.d); got != tt.want {
			t.Errorf("%+v within %v: %d, want %d", tt.limit, tt.d, got, tt.want)
		}
	}
}
