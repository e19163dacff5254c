package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// Two writes at once serve callers that come one by one. A second write is of no use if it
// would carry callers that the first could have carried, or if it would know no more than
// the first.
func TestWritesAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		callers  int
		writes   int // at once
		inFlight int
		capacity int64
		shared   bool
	}{
		{name: "one by one", callers: 1, writes: 2},
		{name: "a few at a time", callers: 3, writes: 2},
		{name: "a crowd", callers: 16, writes: 1},
		{name: "InFlight is four", callers: 1, writes: 4, inFlight: 4},
		{name: "InFlight is one", callers: 3, writes: 1, inFlight: 1},
		{name: "others write too", callers: 3, writes: 1, shared: true},
		{name: "the bucket holds no more than one asks for", callers: 1, writes: 1, capacity: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: tt.inFlight, Trust: -1}, func(w *far) {
				capacity := max(tt.capacity, 1)
				if tt.capacity == 0 {
					capacity = 100_000
				}
				w.System(limiter.PerSecond("x", 1000, limiter.Burst(capacity)))
				w.warm(ask("user", "x", 1))
				if tt.shared {
					driverOf(w.l).Share(limiter.Bucket{Entity: "user", Resource: "gpt-4"}, 1)
				}
				arrive := func() {
					for range 200 / tt.callers {
						go w.queue(nil, of(tt.callers, ask("user", "x", 1))...)
						time.Sleep(time.Duration(tt.callers) * w.wire.wait / 5)
					}
					driverOf(w.l).Settle()
				}
				arrive()
				w.wire.most() // the lane knows by now how its callers come
				arrive()
				if got := w.wire.most(); got != tt.writes {
					w.Errorf("%d writes at once, want %d", got, tt.writes)
				}
			})
		})
	}
}

// Many callers of one process share a write as well as those of two processes do.
func TestACrowdSharesItsWrites(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		const callers, rounds = 64, 50
		w.System(fixed("x", 1_000_000))
		w.warm(ask("user", "x", 1))
		writes := w.spent(func() {
			done := make(chan struct{})
			for range callers {
				go func() {
					for range rounds {
						w.Take(w.l, ask("user", "x", 1))
					}
					done <- struct{}{}
				}()
			}
			for range callers {
				<-done
			}
		})
		if each := float64(writes) / (callers * rounds); each > 0.03 {
			w.Errorf("%.3f writes an admission", each)
		}
	})
}
