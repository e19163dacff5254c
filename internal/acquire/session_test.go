package acquire_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// sessionOf is a limit of so many tokens in a session of five hours.
func sessionOf(t *testing.T, tokens int64) limiter.Limit {
	t.Helper()
	r, err := limiter.ParseRenewal("session 5h", "")
	if err != nil {
		t.Fatal(err)
	}
	return limiter.Quota("sess", tokens, r)
}

// opened is when the session of the user began.
func (w *world) opened() int64 {
	w.Helper()
	s, _ := w.Images("user")[0].Limit("sess")
	return s.Opened()
}

// A session begins with its first use, and not with that of another limit. It ends to the
// millisecond, a credit of it reaches no later one, and it stays ended until somebody uses it.
func TestASessionBeginsWithAUse(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(sessionOf(t, 10), limiter.PerMinute("rpm", 60))
		w.Take(w.Limiter, ask("user", "rpm", 1))
		if at := w.opened(); at != store.NoSession {
			t.Errorf("a use of another limit began a session at %d", at)
		}
		for range 3 {
			time.Sleep(3*time.Hour + time.Millisecond)
			begins := time.Now()
			lease := w.Lease(w.Limiter, askAll("user", tokens{"sess": 4, "rpm": 1}))
			if at := w.opened(); at != begins.UnixMilli() {
				t.Errorf("a use at %d began a session at %d", begins.UnixMilli(), at)
			}
			end := begins.Add(5 * time.Hour)
			for _, s := range lease.Statuses() {
				if s.Limit.Name == "sess" && (!s.ResetsAt.Equal(end) || s.Available != 6) {
					t.Errorf("%d are left until %v, want 6 until %v", s.Available, s.ResetsAt, end)
				}
			}
			time.Sleep(2 * time.Hour)
			if refused := w.Take(w.Limiter, ask("user", "sess", 7)); refused == nil || refused.RetryAfter() != 3*time.Hour {
				t.Errorf("7 of 6: %v", refused)
			}
			time.Sleep(3*time.Hour - time.Millisecond)
			if refused := w.Take(w.Limiter, ask("user", "sess", 7)); refused == nil || refused.RetryAfter() != time.Millisecond {
				t.Errorf("7 of 6 a millisecond before the end: %v", refused)
			}
			time.Sleep(time.Millisecond)
			w.Take(w.Limiter, ask("user", "rpm", 1))
			if got := w.Balance("user", "sess"); got != 10 {
				t.Errorf("a session that has ended has %d", got)
			}
			time.Sleep(time.Hour)
			if refused := w.Take(w.Limiter, ask("user", "sess", 10)); refused != nil {
				t.Errorf("10 of a new session: %v", refused)
			}
			w.Must(lease.Rollback(w.Context()))
			if got := w.Balance("user", "sess"); got != 0 {
				t.Errorf("a credit of the last session made it %d", got)
			}
			time.Sleep(5 * time.Hour)
		}
	})
}

// Processes that meet at the end of a session begin one together: it admits what it says.
func TestProcessesBeginOneSession(t *testing.T) {
	meetAtEnds(t, 1, func(*world, int, *limiter.Limiter) {})
}

// meetAtEnds lets processes meet where sessions of a bucket of some shards end. Something else goes
// on in each of three rounds, in another process.
func meetAtEnds(t *testing.T, shards int, beside func(w *world, round int, other *limiter.Limiter)) {
	t.Helper()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				const whole, processes, callers = 50, 4, 8
				w.System(sessionOf(t, whole), limiter.PerMinute("rpm", 600_000))
				if shards > 1 {
					w.onShards(w.Limiter, shards)
				}
				r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed is a history
				all := []*limiter.Limiter{w.Limiter}
				for len(all) < processes {
					all = append(all, w.NewLimiter(w.elsewhere(), limiter.Options{}))
				}
				for round := range 3 {
					for _, l := range all {
						w.Serve(l, ask("user", "rpm", 1))
					}
					var admitted atomic.Int64
					var wait sync.WaitGroup
					for i := range processes * callers {
						late := time.Duration(r.IntN(3)) * time.Millisecond
						wait.Go(func() {
							time.Sleep(late)
							if _, err := all[i%processes].Acquire(w.Context(), askAll("user", tokens{"sess": 3, "rpm": 1})); err == nil {
								admitted.Add(3)
							} else if !errors.Is(err, limiter.ErrExceeded) {
								t.Error(err)
							}
						})
					}
					wait.Go(func() { beside(w, round, all[1]) })
					wait.Wait()
					if got := admitted.Load(); got != whole/3*3 {
						t.Errorf("%d were admitted of %d", got, whole)
					}
					if shards > 1 {
						w.haveOneSession(w.sessions()[0])
					}
					time.Sleep(5*time.Hour - 3*time.Millisecond + time.Duration(r.IntN(6))*time.Millisecond)
				}
			})
		})
	}
}

// A write that begins a session and whose answer is lost has begun one session, or none.
func TestALostBeginOfASession(t *testing.T) {
	for name, hook := range map[string]faults.Hook{
		"all answers are lost": faults.After(func(*faults.Call, error) error { return context.DeadlineExceeded }),
		"the request is lost":  faults.Fail(context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(sessionOf(t, 10))
				w.Take(w.Limiter, ask("user", "sess", 9))
				time.Sleep(6 * time.Hour)
				api := faults.NewTap(w.Engine)
				l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
				w.Take(l, ask("user", "sess", 0))
				api.Set(faults.On(hook, faults.UpdateItem))
				_, err := l.Acquire(w.Context(), ask("user", "sess", 6))
				if !errors.Is(err, limiter.ErrUnavailable) {
					t.Fatalf("got %v", err)
				}
				api.Set(nil)
				time.Sleep(time.Minute)
				left := int64(10)
				if w.opened() > store.NoSession && w.Balance("user", "sess") < 10 {
					left = 4
				}
				if refused := w.Take(w.Limiter, ask("user", "sess", left+1)); refused == nil {
					t.Errorf("%d of %d were admitted", left+1, left)
				}
				if refused := w.Take(w.Limiter, ask("user", "sess", left)); refused != nil {
					t.Errorf("%d of %d: %v", left, left, refused)
				}
			})
		})
	}
}

// Within a session an acquire is one request and one write unit, and so is the one that begins
// a session.
func TestWhatASessionCosts(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(sessionOf(t, 100), limiter.PerMinute("rpm", 60))
		w.Take(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1}))
		for _, pause := range []time.Duration{time.Second, time.Minute, 5 * time.Hour, time.Second} {
			w.InvalidateConfig()
			w.Take(w.Limiter, askAll("user", tokens{"sess": 0, "rpm": 0}))
			time.Sleep(pause)
			before := w.Meter.Totals()["UpdateItem"]
			w.Take(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1}))
			after := w.Meter.Totals()["UpdateItem"]
			if after.Requests-before.Requests != 1 || after.WCU-before.WCU != 1 {
				t.Errorf("after %v: %+v became %+v", pause, before, after)
			}
		}
	})
}
