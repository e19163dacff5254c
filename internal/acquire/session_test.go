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

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/plan"
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
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				const whole, processes, callers = 50, 4, 8
				w.System(sessionOf(t, whole), limiter.PerMinute("rpm", 60_000))
				r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed is a history
				all := []*limiter.Limiter{w.Limiter}
				for len(all) < processes {
					all = append(all, w.NewLimiter(w.elsewhere(), limiter.Options{}))
				}
				for range 3 {
					for _, l := range all {
						w.Take(l, ask("user", "rpm", 1))
					}
					var admitted atomic.Int64
					var wait sync.WaitGroup
					for i := range processes * callers {
						late := time.Duration(r.IntN(3)) * time.Millisecond
						wait.Go(func() {
							time.Sleep(late)
							if _, err := all[i%processes].Acquire(w.Context(), askAll("user", tokens{"sess": 3, "rpm": 1})); err == nil {
								admitted.Add(3)
							}
						})
					}
					wait.Wait()
					if got := admitted.Load(); got != whole/3*3 {
						t.Errorf("%d were admitted of %d", got, whole)
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
		"the answer is lost":  faults.LoseAnswer(context.DeadlineExceeded),
		"the request is lost": faults.Fail(context.DeadlineExceeded),
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

// A bucket with a session is not doubled, however busy it is.
func TestASessionHasOneShard(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(sessionOf(t, 10), limiter.PerMinute("rpm", 60_000))
		w.Take(w.Limiter, ask("user", "sess", 1))
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		if n := len(w.Images("user")); n != 1 {
			t.Errorf("the bucket has %d shards", n)
		}
		if plan.IsDividable(w.Images("user")[0]) {
			t.Error("the bucket may be divided")
		}
	})
}

// A bucket of several shards whose resource or system gets a session is merged by who uses it, whatever limit
// the requests name. Who names the session before that is refused. No token is lost or made.
func TestShardsThatAreToHaveASessionAreMerged(t *testing.T) {
	for name, consume := range map[string]tokens{"the session": {"sess": 1, "rpm": 1}, "another limit": {"rpm": 1}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				rpm := limiter.PerHour("rpm", 60)
				w.System(rpm)
				for range 3 {
					w.Take(w.Limiter, ask("user", "rpm", 1))
					driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
				}
				if n := len(w.Images("user")); n != 8 {
					t.Fatalf("the bucket has %d shards", n)
				}
				w.System(rpm, sessionOf(t, 10))
				w.InvalidateConfig()
				_, err := w.Acquire(w.Context(), askAll("user", consume))
				_, refused := errors.AsType[*store.ShardsError](err)
				if names := consume["sess"] != 0; refused != names || !names && err != nil {
					t.Errorf("while the bucket has shards: %v", err)
				}
				driverOf(w.Limiter).Settle()
				if images := w.Images("user"); len(images) != 1 || images[0].ShardCount != 1 {
					t.Fatalf("the bucket has %d shards", len(images))
				}
				w.Serve(w.Limiter, askAll("user", tokens{"sess": 4, "rpm": 1}))
				left := int64(60 - 4)
				if !refused {
					left--
				}
				if got, sess := w.Balance("user", "rpm"), w.Balance("user", "sess"); got != left || sess != 6 {
					t.Errorf("%d and %d are left, want %d and 6", got, sess, left)
				}
			})
		})
	}
}

// SetLimits of an entity has the session on its bucket when it returns, or says that it has not.
func TestSetLimitsMergesShardsForASession(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		level, rpm := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, limiter.PerHour("rpm", 60)
		set := func(limits ...limiter.Limit) error { return w.Store.SetLimits(w.Context(), level, limits) }
		w.Must(set(rpm))
		for range 2 {
			w.Take(w.Limiter, ask("user", "rpm", 5))
			driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		}
		driverOf(w.Limiter).Settle()

		w.patch("SET disabled = :v", map[string]types.AttributeValue{":v": &types.AttributeValueMemberBOOL{Value: true}})
		err := set(rpm, sessionOf(t, 10))
		sharded, ok := errors.AsType[*store.ShardsError](err)
		if !ok || sharded.Shards != 4 || !errors.Is(err, store.ErrIncomplete) {
			t.Errorf("shards that cannot be merged: %v", err)
		}
		if n := len(w.Images("user")); n != 4 {
			t.Errorf("%d shards are left", n)
		}
		w.patch("REMOVE disabled", nil)
		w.Must(set(rpm, sessionOf(t, 10)))
		images := w.Images("user")
		if len(images) != 1 || images[0].ShardCount != 1 || len(images[0].Limits) != 2 || w.opened() != store.NoSession {
			t.Fatalf("%d shards: %+v", len(images), images[0])
		}
		w.InvalidateConfig()
		w.Serve(w.Limiter, askAll("user", tokens{"sess": 4, "rpm": 1}))
		if rest, sess := w.Balance("user", "rpm"), w.Balance("user", "sess"); rest != 49 || sess != 6 {
			t.Errorf("%d and %d are left, want 49 and 6", rest, sess)
		}
	})
}

// Another process that does not know of the session doubles the bucket while it is merged. The session is
// there in the end, on one shard.
func TestADoublingMeetsAMergeForASession(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		level, rpm := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, limiter.PerHour("rpm", 60)
		w.Must(w.Store.SetLimits(w.Context(), level, []limiter.Limit{rpm}))
		other := w.NewLimiter(w.elsewhere(), limiter.Options{})
		w.Take(other, ask("user", "rpm", 5))
		driverOf(other).DoubleNow(w.Context(), "user", "gpt-4")
		api := faults.NewTap(w.Engine)
		operator, doublings := w.OpenOn(api), 0
		api.Set(faults.Before(func(c *faults.Call) error {
			if c.Op == "UpdateItem" && doublings < 2 && len(w.Images("user")) == 1 {
				w.Take(other, ask("user", "rpm", 1)) // between the merge and the repair
				driverOf(other).DoubleNow(w.Context(), "user", "gpt-4")
				doublings += len(w.Images("user")) - 1
			}
			return nil
		}))
		w.Must(operator.SetLimits(w.Context(), level, []limiter.Limit{rpm, sessionOf(t, 10)}))
		if images := w.Images("user"); len(images) != 1 || len(images[0].Limits) != 2 || doublings != 2 {
			t.Errorf("after %d doublings, %d shards: %+v", doublings, len(images), images[0].Limits)
		}
		if got := w.Balance("user", "rpm"); got != 53 {
			t.Errorf("%d are left, want 53", got)
		}
	})
}

// Within a session an acquire is one request and one write unit, and so is the one that begins a session.
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
