package calls_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
)

// A relayed is a relay whose work takes a second and returns its number. Work of a number
// began after that of the number before.
type relayed struct {
	*testing.T

	relay calls.Relay[string, int]
	runs  atomic.Int64
	under atomic.Int64
}

// call calls at an instant, and wants the result of a run and whether the caller waited for
// somebody else's work.
func (r *relayed) call(ctx context.Context, after time.Duration, want int, shares bool) {
	time.Sleep(after)
	shared := false
	got, err := r.relay.Do(ctx, "a", func() int {
		if r.under.Add(1) > 1 {
			r.Errorf("two runs at a time")
		}
		defer r.under.Add(-1)
		n := int(r.runs.Add(1))
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return n
	}, func() { shared = true })
	if got != want || shared != shares || err != nil && want != 0 {
		r.Errorf("after %v: run %d, shared %v, %v; want run %d, shared %v", after, got, shared, err, want, shares)
	}
}

// No caller gets work that began before its call, and work is shared by all that wait for it.
func TestRelayServesWithWorkThatBeganAfterTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &relayed{T: t}
		began := time.Now()
		go r.call(t.Context(), 0, 1, false)
		go r.call(t.Context(), 100*time.Millisecond, 2, false)
		go r.call(t.Context(), 200*time.Millisecond, 2, true)
		go r.call(t.Context(), 999*time.Millisecond, 2, true)
		go r.call(t.Context(), 1001*time.Millisecond, 3, false)
		go r.call(t.Context(), 1500*time.Millisecond, 3, true)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n, took := r.runs.Load(), time.Since(began); n != 3 || took != 3*time.Second {
			t.Errorf("%d runs in %v", n, took)
		}
		r.call(t.Context(), 0, 4, false) // after a pause nobody waits
	})
}

// A leader that leaves takes nobody's result along: not while it waits, and not while it works.
func TestRelayOutlivesALeaderThatLeaves(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for name, leaves := range map[string]time.Duration{"while it waits": 500 * time.Millisecond, "while it works": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &relayed{T: t}
				leader, leave := context.WithTimeoutCause(t.Context(), leaves, gone)
				defer leave()
				go r.call(t.Context(), 0, 1, false)
				led := make(chan error, 1)
				go func() {
					time.Sleep(100 * time.Millisecond)
					_, err := r.relay.Do(leader, "a", func() int { <-leader.Done(); return -1 }, func() {})
					led <- err
				}()
				for range 3 {
					go func() {
						time.Sleep(200 * time.Millisecond)
						if got, err := r.relay.Do(t.Context(), "a", func() int { time.Sleep(time.Second); return 2 }, func() {}); got != 2 || err != nil {
							t.Errorf("got %d, %v", got, err)
						}
					}()
				}
				if err := <-led; leaves < time.Second && !errors.Is(err, gone) {
					t.Errorf("the leader got %v", err)
				}
				synctest.Wait()
				short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, gone)
				defer cancel()
				if _, err := r.relay.Do(short, "a", func() int { return 0 }, func() {}); !errors.Is(err, gone) {
					t.Errorf("a caller without time got %v", err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// Work that panics ends: those who wait do it themselves.
func TestRelayOutlivesALeaderThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var relay calls.Relay[string, int]
		go func() {
			time.Sleep(100 * time.Millisecond)
			if got, err := relay.Do(t.Context(), "a", func() int { return 2 }, func() {}); got != 2 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		}()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_, _ = relay.Do(t.Context(), "a", func() int { time.Sleep(time.Second); panic("broken") }, func() {})
		}()
		time.Sleep(time.Minute)
	})
}
