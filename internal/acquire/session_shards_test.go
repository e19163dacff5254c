package acquire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// onShards gives the user's bucket so many shards.
func (w *world) onShards(l *limiter.Limiter, count int) {
	w.Helper()
	for len(w.Images("user")) < count {
		w.Take(l, ask("user", "rpm", 1))
		driverOf(l).DoubleNow(w.Context(), "user", "gpt-4")
		time.Sleep(2 * time.Second)
	}
	driverOf(l).Settle()
	if got := w.count(); got != count {
		w.Fatalf("%d shards, want %d", got, count)
	}
}

// sessions are when the session of each of the user's shards began.
func (w *world) sessions() (all []int64) {
	w.Helper()
	for _, img := range w.Images("user") {
		s, _ := img.Limit("sess")
		all = append(all, s.Opened())
	}
	return all
}

// haveOneSession checks that all shards have the session that began at an instant.
func (w *world) haveOneSession(begin int64) {
	w.Helper()
	for shard, at := range w.sessions() {
		if at != begin {
			w.Errorf("shard %d has a session that began at %d, want %d", shard, at, begin)
		}
	}
}

// Shards have one session: it begins on all of them with a use of any, ends on all to the
// millisecond, and admits its amount, as on one shard. A doubling in between moves tokens,
// and makes none.
func TestShardsHaveOneSession(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(sessionOf(t, 10), limiter.PerMinute("rpm", 6000))
		w.onShards(w.Limiter, 4)
		for range 3 {
			w.Take(w.Limiter, ask("user", "rpm", 1))
			time.Sleep(3*time.Hour + time.Millisecond)
			begins := time.Now()
			lease := w.Lease(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1}))
			w.haveOneSession(begins.UnixMilli())
			end := begins.Add(5 * time.Hour)
			for _, s := range lease.Statuses() {
				if s.Limit.Name == "sess" && (!s.ResetsAt.Equal(end) || s.Available != 9) {
					t.Errorf("%d are left until %v, want 9 until %v", s.Available, s.ResetsAt, end)
				}
			}
			w.Serve(w.Limiter, ask("user", "sess", 5)) // more than any shard has
			for range 2 {
				w.Serve(w.Limiter, ask("user", "sess", 1))
			}
			if len(w.Images("user")) < 16 {
				time.Sleep(time.Minute)
				driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
				w.haveOneSession(begins.UnixMilli())
				if got := w.Balance("user", "sess"); got != 2 {
					t.Errorf("after a doubling %d are left of 2", got)
				}
			}
			time.Sleep(time.Until(end) - 2*time.Hour)
			if refused := w.Take(w.Limiter, ask("user", "sess", 3)); refused == nil || refused.RetryAfter() != 2*time.Hour {
				t.Errorf("3 of 2: %v", refused)
			}
			if refused := w.Take(w.Limiter, ask("user", "sess", 11)); refused == nil || refused.RetryAfter() != limiter.Never {
				t.Errorf("11 of 10: %v", refused)
			}
			time.Sleep(2*time.Hour - time.Millisecond)
			if refused := w.Take(w.Limiter, ask("user", "sess", 3)); refused == nil || refused.RetryAfter() != time.Millisecond {
				t.Errorf("3 of 2 a millisecond before the end: %v", refused)
			}
			time.Sleep(time.Millisecond)
			w.Take(w.Limiter, ask("user", "rpm", 1))
			if refused := w.Take(w.Limiter, ask("user", "sess", 11)); refused == nil || refused.RetryAfter() != limiter.Never {
				t.Errorf("11 of 10 after the end: %v", refused)
			}
			all, err := w.Available(w.Context(), ask("user", "sess", 0))
			w.Must(err)
			for _, s := range all {
				if s.Limit.Name == "sess" && (s.Available != 10 || !s.ResetsAt.IsZero()) {
					t.Errorf("after the end %d are left until %v", s.Available, s.ResetsAt)
				}
			}
			time.Sleep(time.Hour)
			w.Serve(w.Limiter, ask("user", "sess", 10))
			w.Must(lease.Rollback(w.Context()))
			if got := w.Balance("user", "sess"); got != 0 {
				t.Errorf("a credit of the last session made it %d", got)
			}
			time.Sleep(5 * time.Hour)
		}
	})
}

// Processes that meet at the end of a session of several shards begin one together, while the
// bucket is doubled and merged: it admits what it says.
func TestProcessesBeginOneSessionOfShards(t *testing.T) {
	meetAtEnds(t, 4, func(w *world, round int, other *limiter.Limiter) {
		if round == 1 {
			driverOf(other).DoubleNow(w.Context(), "user", "gpt-4")
		}
	})
}

// A transaction that begins a session and whose answer is lost has begun one on all shards,
// or on none.
func TestALostBeginOfASessionOfShards(t *testing.T) {
	for name, hook := range map[string]faults.Hook{
		"the answer is lost":  faults.LoseAnswer(context.DeadlineExceeded),
		"the request is lost": faults.Fail(context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(sessionOf(t, 10), limiter.PerMinute("rpm", 6000))
				w.onShards(w.Limiter, 4)
				api := faults.NewTap(w.Engine)
				l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
				w.Serve(l, ask("user", "rpm", 1))
				api.Set(faults.On(hook, faults.TransactWriteItems))
				_, err := l.Acquire(w.Context(), ask("user", "sess", 6))
				if !errors.Is(err, limiter.ErrUnavailable) {
					t.Fatalf("got %v", err)
				}
				api.Set(nil)
				w.haveOneSession(w.sessions()[0])
				time.Sleep(time.Minute)
				left := int64(10)
				if w.opened() > store.NoSession {
					left = 4
				}
				if refused := w.Take(w.Limiter, ask("user", "sess", left+1)); refused == nil {
					t.Errorf("%d of %d were admitted", left+1, left)
				}
				w.Serve(w.Limiter, ask("user", "sess", left))
			})
		})
	}
}

// Within a session of shards an acquire is one request and one write unit. The one that
// begins it is a transaction over all shards, at two units each.
func TestWhatASessionOfShardsCosts(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		const shards = 4
		w.System(sessionOf(t, 1000), limiter.PerMinute("rpm", 6000))
		w.onShards(w.Limiter, shards)
		w.Serve(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1}))
		for range 3 * shards {
			w.Serve(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1})) // each shard is known
		}
		cost := func(pause time.Duration, op string, requests int64, units float64) {
			t.Helper()
			w.InvalidateConfig()
			w.Take(w.Limiter, askAll("user", tokens{"sess": 0, "rpm": 0}))
			time.Sleep(pause)
			before, all := w.Meter.Totals()[op], w.requests()
			w.Serve(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1}))
			after := w.Meter.Totals()[op]
			if after.Requests-before.Requests != 1 || after.WCU-before.WCU != units || w.requests()-all != requests {
				t.Errorf("after %v: %+v became %+v, with %d requests", pause, before, after, w.requests()-all)
			}
		}
		for range shards {
			cost(time.Second, "UpdateItem", 1, 1)
		}
		cost(5*time.Hour, "TransactWriteItems", 3, 2*shards) // what an idle process looks at: one shard, then all
		for range shards {
			cost(time.Second, "UpdateItem", 1, 1)
		}
	})
}

// A bucket of several shards gets a session at once, in place of a rate or besides. Each
// shard has its own at first, and all together admit the amount. The next one begins on all
// of them, when the last of those has ended.
func TestShardsGetASession(t *testing.T) {
	for name, before := range map[string][]limiter.Limit{
		"besides":            nil,
		"in place of a rate": {limiter.PerHour("sess", 10)},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				level, rpm := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, limiter.PerMinute("rpm", 6000)
				set := func(limits ...limiter.Limit) { w.Must(w.Store.SetLimits(w.Context(), level, limits)) }
				set(append(before, rpm)...)
				w.onShards(w.Limiter, 8)
				set(rpm, sessionOf(t, 10))
				w.InvalidateConfig()
				admitted := func() (n int) {
					for range 20 {
						if refused := w.Take(w.Limiter, askAll("user", tokens{"sess": 1, "rpm": 1})); refused == nil {
							n++
						}
						time.Sleep(time.Second)
					}
					return n
				}
				if got := admitted(); got != 10 {
					t.Errorf("%d of 10 were admitted", got)
				}
				for _, at := range w.sessions() {
					if at == store.NoSession {
						t.Errorf("the shards have sessions that began at %d", w.sessions())
					}
				}
				time.Sleep(5 * time.Hour)
				begins := time.Now().UnixMilli()
				if got := admitted(); got != 10 {
					t.Errorf("%d of 10 were admitted in the next session", got)
				}
				w.haveOneSession(begins)
			})
		})
	}
}

// A shard that is lost in a session and made again brings no tokens. Nor does one that was
// lost between two sessions: the next one begins on all of them.
func TestAShardIsLostInASession(t *testing.T) {
	for name, lost := range map[string]int{"the first": 0, "another one": 3} {
		for when, pause := range map[string]time.Duration{"within": time.Minute, "between": 6 * time.Hour} {
			t.Run(name+" "+when, func(t *testing.T) {
				inWorld(t, limiter.Options{}, func(w *world) {
					w.System(sessionOf(t, 40), limiter.PerMinute("rpm", 6000))
					w.onShards(w.Limiter, 4)
					w.Serve(w.Limiter, ask("user", "sess", 30))
					time.Sleep(pause)
					w.lose(lost)
					left, n := 10, 0
					if pause > 5*time.Hour {
						left = 40
					}
					for range 60 {
						if refused := w.Take(w.Limiter, ask("user", "sess", 1)); refused == nil {
							n++
						}
					}
					if n > left || n < left-10 {
						t.Errorf("%d of %d were admitted", n, left)
					}
					if pause > 5*time.Hour {
						w.haveOneSession(w.sessions()[0])
					}
				})
			})
		}
	}
}

// A reset ends the session of all shards, and a top-up begins one on all of them.
func TestAnOperatorAndASessionOfShards(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(sessionOf(t, 10), limiter.PerMinute("rpm", 6000))
		w.onShards(w.Limiter, 4)
		w.Serve(w.Limiter, ask("user", "sess", 9))
		_, err := w.Store.ResetBucket(w.Context(), dynamo.Reset{Entity: "user", Resource: "gpt-4", Limits: []string{"sess"}})
		w.Must(err)
		w.haveOneSession(store.NoSession)
		time.Sleep(time.Hour)
		begins := time.Now().UnixMilli()
		_, err = w.Store.TopUpBucket(w.Context(), dynamo.TopUp{Entity: "user", Resource: "gpt-4", Amounts: map[string]int64{"sess": 1}})
		w.Must(err)
		w.haveOneSession(begins)
		w.Serve(w.Limiter, ask("user", "sess", 11))
		if refused := w.Take(w.Limiter, ask("user", "sess", 1)); refused == nil {
			t.Error("more than the amount and the top-up was admitted")
		}
	})
}
