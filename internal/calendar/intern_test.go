package calendar_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Goroutines that read the same specification at once get one pointer.
func TestInternedOnce(t *testing.T) {
	t.Parallel()
	var all [16]*calendar.Renewal
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = parse(t, "day at 03:07", "Asia/Tokyo") })
	}
	wg.Wait()
	for _, r := range all {
		if r != all[0] {
			t.Fatal("one specification has two pointers")
		}
	}
}

// The clean-up of a renewal that nobody uses may come after another one has taken its place. That one stays.
func TestInternedAnew(t *testing.T) {
	t.Parallel()
	const code, zone = "1m8h3", "Asia/Tokyo"
	r := parse(t, "day at 03:08", zone)
	calendar.Forget(code, zone)
	if again := parse(t, "day at 03:08", zone); again != r {
		t.Error("a renewal in use was forgotten")
	}
}

// A renewal that nobody uses is freed: limits come and go, and anniversaries are as many as entities.
func TestInternedIsFreed(t *testing.T) {
	t.Parallel()
	const code, zone = "1m9h3", "Asia/Tokyo"
	parse(t, "day at 03:09", zone)
	for range 100 {
		runtime.GC()
		if !calendar.IsInterned(code, zone) {
			return
		}
	}
	t.Error("a renewal that nobody uses stays")
}
