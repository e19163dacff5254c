package limiter_test

import (
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A lane with 16 waiting callers gets one more place, at most twice. This needs an
// unset InFlight and a partition with half of its capacity free.
func TestALongLineGetsPlacesMore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		callers, writes int // and writes at once
		inFlight        int
		spent           int // write units, of the thousand that the partition takes in a second
		shared          bool
	}{
		{name: "a line of 15", callers: 2 + 15, writes: 2},
		{name: "a line of 16", callers: 2 + 16, writes: 3},
		{name: "two lines of 16", callers: 2 + 2*16, writes: 4},
		{name: "three lines of 16", callers: 2 + 3*16, writes: 4},
		{name: "InFlight is given", callers: 2 + 3*16, writes: 2, inFlight: limiter.DefaultInFlight},
		{name: "half of the partition's capacity is left", callers: 2 + 3*16, writes: 4, spent: 480},
		{name: "not even half of it is left", callers: 2 + 3*16, writes: 2, spent: 520},
		{name: "others write too", callers: 2 + 3*16, writes: 1, shared: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: tt.inFlight}, func(w *far) {
				w.System(fixed("x", 1000))
				w.warm(ask("user", "x", 1))
				w.exhaust("user", (1000-tt.spent)*1000)
				w.warm(ask("user", "x", 1))
				if tt.shared {
					w.l.Share(limiter.Bucket{Entity: "user", Resource: "gpt-4"}, 1)
				}
				burst := func() {
					w.wire.most()
					for _, c := range w.queue(nil, of(tt.callers, ask("user", "x", 1))...) {
						w.Must(c.err)
					}
					if got := w.wire.most(); got != tt.writes {
						w.Errorf("%d writes at once, want %d", got, tt.writes)
					}
				}
				burst()
				// Callers that arrive one by one neither get extra places nor inherit
				// them.
				var group sync.WaitGroup
				group.Go(func() { w.queue(nil, of(tt.callers, ask("user", "x", 1))...) })
				for i := range 60 {
					time.Sleep(w.wire.wait / 10)
					group.Go(func() { w.Take(w.l, ask("user", "x", 1)) })
					if i == 30 {
						w.wire.most()
					}
				}
				group.Wait()
				if got, want := w.wire.most(), min(limiter.DefaultInFlight, tt.writes); got != want {
					w.Errorf("%d writes at once for single callers, want %d", got, want)
				}
				time.Sleep(time.Minute) // the spent capacity is back, and no process holds back
				if tt.spent == 0 && !tt.shared {
					w.warm(ask("user", "x", 1))
					burst()
				}
			})
		})
	}
}
