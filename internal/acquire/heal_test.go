package acquire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// advance moves the stamp of a shard, as a client with a fast clock does when it finds
// the bucket full.
func (w *world) advance(shard int, by time.Duration) {
	w.Helper()
	w.patchShard(shard, "SET rf = rf + :a", values{":a": number(int(by.Milliseconds()))})
}

// holdsMilli checks the stored balance of a limit on shard 0 of the user's bucket.
func (w *world) holdsMilli(limit string, want int64) {
	w.Helper()
	if s, _ := w.Images("user")[0].Limit(limit); s.Tokens != want {
		w.Errorf("shard 0 holds %d of %s, want %d", s.Tokens, limit, want)
	}
}

// Healing removes the tokens that a fast clock accrued too early. A slow limit loses
// exactly these tokens, a fast limit at most its balance.
func TestHealingTakesBackWhatWasEarnedTooEarly(t *testing.T) {
	inDatedWorld(t, func(w *world) {
		w.System(limiter.PerDay("rpd", 24), limiter.PerSecond("rps", 5), limiter.PerHour("rph", 60))
		w.Take(w.Limiter, askAll("user", tokens{"rpd": 10, "rph": 60}))
		lease := w.Lease(w.Limiter, askAll("user", tokens{"rpd": 0, "rph": 0}))
		w.Must(lease.Adjust("rph", 1000)) // into debt, deeper than two hours earn
		w.Must(lease.Commit(w.Context()))
		w.Take(w.fast(2*time.Hour), askAll("user", tokens{"rpd": 1, "rps": 2}))
		w.holdsMilli("rpd", 15_000)
		at := time.Now()

		w.Take(w.Limiter, askAll("user", tokens{"rpd": 0, "rps": 0}))
		w.holdsMilli("rpd", 13_000) // 24 − 10 − 1
		w.holdsMilli("rps", 0)
		w.holdsMilli("rph", -880_000) // −1000 and two hours: healing does not deepen a debt
		w.stampedNear(time.Since(at))
		if n := w.Stats().Healed; n != 1 {
			w.Errorf("%d healed, want 1", n)
		}
	})
}

// A stamp that an honest clock may have written is left alone. A client that has not
// checked its clock leaves every stamp alone.
func TestWhatIsNotHealed(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration
		open  func(*world) *dynamo.Store
		patch string
		want  uint64
	}{
		"far ahead":            {31 * time.Second, func(w *world) *dynamo.Store { return w.Store }, "", 1},
		"not far enough":       {29 * time.Second, func(w *world) *dynamo.Store { return w.Store }, "", 0},
		"by a clock unchecked": {time.Hour, func(w *world) *dynamo.Store { return w.openBy(w.undated(), faults.Skewed(0).Now) }, "", 0},
		"by a clock behind": {time.Second, func(w *world) *dynamo.Store {
			return w.openBy(w.undated(), faults.Skewed(-time.Hour).Now)
		}, "", 0},
		"by a clock that was just set": {time.Hour, func(w *world) *dynamo.Store {
			var wall time.Duration
			dates := true
			s := w.openBy(w.dated(func() time.Time {
				if dates {
					return time.Now()
				}
				return time.Time{}
			}), func() time.Time { return time.Now().Add(wall) })
			wall, dates = -time.Hour, false
			return s
		}, "", 0},
		"a bucket that is disabled":       {time.Hour, func(w *world) *dynamo.Store { return w.Store }, "SET disabled = :v", 0},
		"a bucket with a peer's schedule": {time.Hour, func(w *world) *dynamo.Store { return w.Store }, "SET sched = :v", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerSecond("rps", 10))
				w.Take(w.Limiter, ask("user", "rps", 1))
				w.advance(0, c.ahead)
				if c.patch != "" {
					w.patchShard(0, c.patch, values{":v": &types.AttributeValueMemberBOOL{Value: true}})
				}
				before := w.Images("user")[0].RefilledAt
				l := w.NewLimiter(c.open(w), limiter.Options{})
				requests := w.requests()
				_, _ = l.Acquire(w.Context(), ask("user", "rps", 1))
				if n := w.requests() - requests; c.patch != "" && n > 2 {
					w.Errorf("%d requests", n) // to read the bucket, and to debit it
				}
				if healed := l.Stats().Healed; healed != c.want || (w.Images("user")[0].RefilledAt < before) != (c.want > 0) {
					w.Errorf("%d healed, and the stamp moved by %d ms", healed, w.Images("user")[0].RefilledAt-before)
				}
			})
		})
	}
}

// Every path that finds a stamp ahead moves it back, and its result is right. Each of
// four shards has 100 of 1,000 left, and all are an hour ahead. 250 tokens on each
// would be earned too early.
func TestEveryPathHeals(t *testing.T) {
	user := limiter.Bucket{Entity: "user", Resource: "gpt-4"}
	for name, c := range map[string]struct {
		call   func(*world) error
		shards int // shards that are healed, of the number of shards afterwards
		of     int
	}{
		"a take": {func(w *world) error {
			w.Take(w.Limiter, ask("user", "rph", 1))
			return nil
		}, 4, 4}, // one shard after the other is found short
		"a gather": {func(w *world) error {
			if refused := w.Take(w.Limiter, ask("user", "rph", 350)); refused == nil {
				return errors.New("350 were admitted of what is earned later")
			}
			return nil
		}, 4, 4},
		"a look": {func(w *world) error {
			statuses, err := w.Available(w.Context(), ask("user", "rph", 1))
			if err == nil && (statuses[0].Available != 0 || statuses[0].RetryAfter > time.Hour/1000+time.Second) {
				return fmt.Errorf("%+v", statuses[0])
			}
			return err
		}, 4, 4},
		"a merge": {func(w *world) error {
			if !w.merge(w.Limiter) {
				return errors.New("it was not merged")
			}
			return nil
		}, 4, 2},
		"a doubling": {func(w *world) error {
			w.exhaust("user", 0)
			img := w.Images("user")[0]
			img.RefilledAt -= time.Hour.Milliseconds() // as it was a moment ago
			done, err := driverOf(w.Limiter).Double(w.Context(), img, time.Now())
			if err == nil && !done {
				return errors.New("it was not doubled")
			}
			return err
		}, 4, 8},
		"a repair": {func(w *world) error {
			w.lose(2)
			return driverOf(w.Limiter).Mend(w.Context(), user)
		}, 3, 4},
		"an aggregator's refill": {func(w *world) error {
			_, err := driverOf(w.Limiter).Replenish(w.Context(), w.Images("user")[1], []store.Amount{{Limit: "rph", Milli: 1000}}, 0)
			return err
		}, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				l := limiter.PerHour("rph", 1000)
				w.System(l)
				w.plant("user", l, 4, 100_000, 100_000, 100_000, 100_000)
				for i := range 4 {
					w.advance(i, time.Hour)
				}
				w.Must(c.call(w))
				driverOf(w.Limiter).Settle()
				if n := w.Stats().Healed; n != uint64(c.shards) {
					w.Errorf("%d healed, want %d", n, c.shards)
				}
				images := w.Images("user")
				if len(images) != c.of {
					w.Errorf("%d shards, want %d", len(images), c.of)
				}
				ahead := 0
				for _, img := range images {
					if s, _ := img.Limit("rph"); img.RefilledAt > time.Now().Add(time.Second).UnixMilli() {
						ahead++
					} else if s.Tokens > 1000 {
						w.Errorf("shard %d holds %d", img.Shard, s.Tokens)
					}
				}
				if c.of == 4 && ahead > 4-c.shards || c.of != 4 && ahead > 0 {
					w.Errorf("%d shards are still ahead", ahead)
				}
			})
		})
	}
}

// A lease can be settled on a bucket whose stamp was moved ahead after the acquire.
func TestALeaseIsSettledOnABucketThatIsAhead(t *testing.T) {
	for name, c := range map[string]struct {
		settle func(*limiter.Lease, context.Context) error
		want   int64 // of 24 less 10, in millitokens
	}{
		"rolled back":   {func(l *limiter.Lease, ctx context.Context) error { return l.Rollback(ctx) }, 24_000},
		"more":          {func(l *limiter.Lease, ctx context.Context) error { _ = l.Adjust("rpd", 4); return l.Commit(ctx) }, 10_000},
		"less":          {func(l *limiter.Lease, ctx context.Context) error { _ = l.Adjust("rpd", -4); return l.Commit(ctx) }, 18_000},
		"into a debt":   {func(l *limiter.Lease, ctx context.Context) error { _ = l.Adjust("rpd", 20); return l.Commit(ctx) }, -6_000},
		"left as it is": {func(l *limiter.Lease, ctx context.Context) error { return l.Commit(ctx) }, 14_000},
	} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerDay("rpd", 24))
				lease := w.Lease(w.Limiter, ask("user", "rpd", 10))
				w.Take(w.fast(2*time.Hour), ask("user", "rpd", 0)) // debits nothing else
				w.advance(0, time.Until(time.UnixMilli(w.Images("user")[0].RefilledAt))+2*time.Hour)
				w.patchShard(0, "SET b_rpd_tk = b_rpd_tk + :e", values{":e": number(2000)})
				w.Must(c.settle(lease, w.Context()))
				w.Take(w.Limiter, ask("user", "rpd", 0))
				w.holdsMilli("rpd", c.want)
				w.stampedNear(time.Second)
			})
		})
	}
}

// A refusal on a bucket that was ahead quotes the exact wait.
func TestWaitsOfAHealedBucketAreExact(t *testing.T) {
	for name, quote := range map[string]func(*world, limiter.Request) time.Duration{
		"acquire": func(w *world, req limiter.Request) time.Duration { return w.Take(w.Limiter, req).RetryAfter() },
		"available": func(w *world, req limiter.Request) time.Duration {
			wait, err := w.TimeUntilAvailable(w.Context(), req)
			w.Must(err)
			return wait
		},
		"from memory": func(w *world, req limiter.Request) time.Duration {
			w.Take(w.Limiter, req)
			if !w.refusedLocally(w.Limiter, req) {
				w.Error("the store was asked")
			}
			return w.Take(w.Limiter, req).RetryAfter()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerMinute("rpm", 10))
				req := ask("user", "rpm", 3)
				w.Take(w.Limiter, ask("user", "rpm", 10))
				w.Take(w.fast(time.Hour), ask("user", "rpm", 10))
				time.Sleep(2 * time.Second) // so that no earlier image is trusted
				wait := quote(w, req)
				if wait <= 17*time.Second || wait > 18*time.Second {
					w.Errorf("3 of 10 a minute take %v", wait)
				}
				time.Sleep(wait - 2*time.Millisecond)
				if w.Take(w.Limiter, req) == nil {
					w.Error("admitted earlier than that")
				}
				time.Sleep(2 * time.Millisecond)
				if refused := w.Take(w.Limiter, req); refused != nil {
					w.Errorf("refused after that: %v", refused)
				}
			})
		})
	}
}

// While a stamp lies ahead, the hidden write limit earns nothing. That alone doubles no
// bucket, whether the client has checked its clock or not.
func TestLongAFrozenWriteLimitDoublesNothing(t *testing.T) {
	for name, checked := range map[string]bool{"checked": true, "unchecked": false} {
		for ahead, by := range map[string]time.Duration{"two seconds": 2 * time.Second, "twenty": 20 * time.Second, "an hour": time.Hour} {
			t.Run(name+" "+ahead, func(t *testing.T) {
				inDatedWorld(t, func(w *world) {
					w.System(limiter.PerDay("rpd", 1_000_000))
					l := w.Limiter
					if !checked {
						l = w.NewLimiter(w.openBy(w.undated(), faults.Skewed(0).Now), limiter.Options{})
					}
					w.Take(l, ask("user", "rpd", 1))
					w.advance(0, by)
					for range 2500 {
						w.Serve(l, ask("user", "rpd", 1))
						time.Sleep(2500 * time.Microsecond)
					}
					img := w.Images("user")[0]
					if done, err := driverOf(l).Double(w.Context(), img, time.Now()); err != nil || done {
						w.Errorf("doubled: %t, %v", done, err)
					}
					driverOf(l).Settle()
					if n := w.count(); n != 1 {
						w.Errorf("%d shards, want 1", n)
					}
				})
			})
		}
	}
}

// A hidden write limit that runs dry when a stamp is moved back doubles no bucket.
func TestAWriteLimitThatRanDryDoublesNothing(t *testing.T) {
	inDatedWorld(t, func(w *world) {
		w.System(limiter.PerDay("rpd", 1_000_000))
		w.Take(w.Limiter, ask("user", "rpd", 1))
		w.advance(0, time.Hour)
		w.exhaust("user", -1_000_000)
		for range 100 { // at one instant
			w.Serve(w.Limiter, ask("user", "rpd", 1))
		}
		if n := w.count(); n != 1 || w.Stats().Healed != 1 {
			w.Errorf("%d shards, %d healed", n, w.Stats().Healed)
		}
	})
}

// If a client's clock stays ahead, its stamps are moved back at growing intervals, so
// that its gain is bounded. Other clients get the rest meanwhile.
func TestLongAClockThatStaysAhead(t *testing.T) {
	inDatedWorld(t, func(w *world) {
		const burst, hours = 60, 6
		w.System(limiter.PerSecond("rps", 1, limiter.Burst(burst)))
		fast := w.fast(time.Minute)
		var theirs, ours int
		for end := time.Now().Add(hours * time.Hour); time.Now().Before(end); time.Sleep(time.Second / 2) {
			if w.Take(fast, ask("user", "rps", 1)) == nil {
				theirs++
			}
			if w.Take(w.Limiter, ask("user", "rps", 1)) == nil {
				ours++
			}
		}
		healed := int(w.Stats().Healed)
		if most := burst + 60 + hours*3600 + (healed+1)*burst; theirs+ours > most {
			w.Errorf("%d were admitted, want at most %d", theirs+ours, most)
		}
		if healed < 5 || healed > 15 {
			w.Errorf("healed %d times in %d hours", healed, hours)
		}
		if theirs+ours < hours*3600*99/100 || ours < healed {
			w.Errorf("%d and %d were admitted in %d hours, want %d in all", theirs, ours, hours, hours*3600)
		}
		// Once the client has gone, the bucket is free again within the longest pause.
		time.Sleep(time.Hour)
		w.Take(w.Limiter, ask("user", "rps", 1))
		if got := w.admitted(w.Limiter, ask("user", "rps", 1), time.Second/2, 10*time.Minute); got < 594 {
			w.Errorf("%d of 600 were admitted after that", got)
		}
	})
}

// If many clients meet a stamp that is ahead at once, exactly one of them moves it
// back.
func TestManyHealAtOnce(t *testing.T) {
	inEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: 5 * time.Millisecond, P99: 20 * time.Millisecond}}, dynamo.TableOptions{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 100))
		const clients, callers = 4, 8
		ls := make([]*limiter.Limiter, clients)
		for i := range ls {
			ls[i] = w.NewLimiter(w.OpenOn(w.dated(time.Now)), limiter.Options{})
			w.Take(ls[i], ask("user", "rps", 1))
		}
		w.advance(0, time.Hour)
		w.patch("SET b_rps_tk = :v", values{":v": number(100_000)})
		start := time.Now()
		var mu sync.Mutex
		var all sync.WaitGroup
		admitted := 0
		for _, l := range ls {
			for range callers {
				all.Go(func() {
					for time.Since(start) < 10*time.Second {
						if w.Take(l, ask("user", "rps", 1)) == nil {
							mu.Lock()
							admitted++
							mu.Unlock()
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
		}
		all.Wait()
		var healed uint64
		for _, l := range ls {
			healed += l.Stats().Healed
		}
		if healed != 1 {
			w.Errorf("%d healed, want 1", healed)
		}
		if admitted < 990 || admitted > 1201 {
			w.Errorf("%d were admitted in 10 s at 100/s", admitted)
		}
		if n := w.count(); n != 1 {
			w.Errorf("%d shards", n)
		}
	})
}

// A healing costs one write.
func TestWhatHealingCosts(t *testing.T) {
	inDatedWorld(t, func(w *world) {
		w.System(limiter.PerDay("rpd", 1000))
		w.Take(w.Limiter, ask("user", "rpd", 1))
		w.advance(0, time.Hour)
		cost := func() (requests int64) {
			before := w.requests()
			w.Serve(w.Limiter, ask("user", "rpd", 1))
			return w.requests() - before
		}
		for i, want := range []int64{2, 1, 1} {
			if got := cost(); got != want {
				w.Errorf("acquire %d takes %d requests, want %d", i, got, want)
			}
		}
	})
}

// clumsy fails to move stamps back.
type clumsy struct {
	*dynamo.Store

	err   error // nil: another client's write came first
	tries *int
}

func (s clumsy) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if r.RefilledAt < r.Seen.RefilledAt {
		*s.tries++
		return store.Outcome{Image: r.Seen}, s.err
	}
	return s.Store.Refill(ctx, r)
}

// If a stamp cannot be moved back, a refusal quotes the wait that holds once it can.
func TestAStampThatCannotBeMovedBack(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		tries int
		log   string
	}{"throttled": {limiter.ErrThrottled, 1, "was not moved back"}, "others write": {nil, 2, ""}} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerMinute("rpm", 10))
				w.Take(w.Limiter, ask("user", "rpm", 10))
				w.Take(w.fast(time.Hour), ask("user", "rpm", 10))
				var log bytes.Buffer
				tries := 0
				l := w.NewLimiter(clumsy{w.Store, c.err, &tries}, limiter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				statuses, err := l.Available(w.Context(), ask("user", "rpm", 1))
				w.Must(err)
				if wait := statuses[0].RetryAfter; wait != 6*time.Second || tries != c.tries {
					w.Errorf("told to wait %v after %d tries, want 6s after %d", wait, tries, c.tries)
				}
				if !strings.Contains(log.String(), c.log) {
					w.Errorf("logged:\n%s", log.String())
				}
			})
		})
	}
}

// A healed item has an older stamp than before, but its image counts as newer.
func TestAHealedImageIsNotBehind(t *testing.T) {
	t.Parallel()
	image := func(stamp, writes int64, shards int) *store.Image {
		return &store.Image{RefilledAt: stamp, ShardCount: shards, Writes: store.LimitState{Consumed: writes}}
	}
	for name, c := range map[string]struct {
		is, other *store.Image
		behind    bool
	}{
		"an older stamp":                   {image(10, 5, 1), image(20, 6, 1), true},
		"an older stamp, not counted":      {image(10, 5, 1), image(20, 5, 1), true},
		"a newer stamp":                    {image(20, 6, 1), image(10, 5, 1), false},
		"healed":                           {image(10, 7, 1), image(20, 6, 1), false},
		"a take before":                    {image(10, 5, 1), image(10, 6, 1), true},
		"a take after":                     {image(10, 6, 1), image(10, 5, 1), false},
		"another number of shards, a take": {image(10, 5, 2), image(10, 6, 1), false},
	} {
		if got := plan.IsBehind(c.is, c.other); got != c.behind {
			t.Errorf("%s: behind is %t, want %t", name, got, c.behind)
		}
	}
}

// A client that cannot heal a shard that is ahead does not merge it. Otherwise its
// sibling would move ahead too.
func TestAShardThatIsAheadIsNotMerged(t *testing.T) {
	inDatedWorld(t, func(w *world) {
		l := limiter.PerHour("rph", 1000)
		w.System(l)
		w.plant("user", l, 2, 100_000, 100_000)
		w.advance(1, time.Hour)
		if w.merge(w.NewLimiter(w.openBy(w.undated(), faults.Skewed(0).Now), limiter.Options{})) {
			w.Error("it was merged")
		}
		if !w.merge(w.Limiter) {
			w.Error("it was not merged after it was healed")
		}
		w.stampedNear(time.Second)
	})
}
