package acquire_test

import (
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/dated"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// inDatedWorld runs f in a bubble with a fresh table. The store's clock was compared
// with the server's, because answers have dates.
func inDatedWorld(t *testing.T, f func(*world)) {
	t.Helper()
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.Meter = w.dated(time.Now)
		w.Store = w.OpenOn(w.Meter)
		w.Limiter = w.NewLimiter(w.Store, limiter.Options{})
		f(w)
	})
}

// dated returns the table behind a server with a clock.
func (w *world) dated(date func() time.Time) *dynamo.Meter {
	s := &dated.Server{
		Handler: dynamolite.NewHandler(w.Engine, dynamolite.HandlerOptions{}), Date: func(int) time.Time { return date() },
	}
	return dynamo.NewMeter(s.Client())
}

// undated returns the table behind a server that does not report how late it is.
func (w *world) undated() dynamo.API { return faults.Wrap(w.Engine) }

// fast returns a limiter whose clock is ahead and is never corrected.
func (w *world) fast(ahead time.Duration) *limiter.Limiter {
	w.Helper()
	return w.NewLimiter(w.openBy(w.undated(), faults.Skewed(ahead).Now), limiter.Options{})
}

// openBy opens a store that uses the given clock.
func (w *world) openBy(api dynamo.API, now func() time.Time) *dynamo.Store {
	w.Helper()
	return w.Open(dynamo.Options{API: api, Now: now})
}

// stampedNear checks that the user's bucket has one shard, and that its stamp is within
// near of now.
func (w *world) stampedNear(near time.Duration) {
	w.Helper()
	images, err := w.Store.Buckets(w.Context(), "user", "gpt-4", 1)
	w.Must(err)
	if len(images) != 1 {
		w.Errorf("%d shards, want 1", len(images))
		return
	}
	if at := time.Until(time.UnixMilli(images[0].RefilledAt)); at.Abs() > near {
		w.Errorf("the bucket is stamped %v from now", at)
	}
}

// One write by a clock that is far ahead does not stop a bucket for that time. It does
// not double the bucket, and it costs at most one capacity.
func TestLongOneWriteFromTheFutureDoesNotStopABucket(t *testing.T) {
	const burst, hour = 60, 3600
	for name, ahead := range map[string]time.Duration{"a minute": time.Minute, "an hour": time.Hour, "a year": 365 * 24 * time.Hour} {
		for when, used := range map[string]bool{"at first use": false, "of a bucket in use": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				inDatedWorld(t, func(w *world) {
					w.System(limiter.PerSecond("rps", 1, limiter.Burst(burst)))
					got := 0
					if used {
						got = w.admitted(w.Limiter, ask("user", "rps", 1), time.Second/2, 10*time.Second)
					}
					w.Take(w.fast(ahead), ask("user", "rps", 1))
					got += 1 + w.admitted(w.Limiter, ask("user", "rps", 1), time.Second/2, time.Hour)
					if got < hour*99/100 || got > 2*burst+hour+10+1 {
						w.Errorf("%d were admitted in an hour, want about %d", got, hour)
					}
					if n := w.count(); n != 1 {
						w.Errorf("%d shards, want 1", n)
					}
				})
			})
		}
	}
}

// A client whose clock is ahead is corrected by the dates of the answers before it
// writes to a bucket.
func TestAClientThatIsFarAheadIsCorrected(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"an hour ahead": time.Hour, "a year ahead": 365 * 24 * time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerSecond("rps", 10))
				s := w.openBy(w.dated(time.Now), faults.Skewed(ahead).Now)
				w.Take(w.NewLimiter(s, limiter.Options{}), ask("user", "rps", 1))
				w.stampedNear(time.Second)
			})
		})
	}
}

// A bucket with a small burst does not suffer from a client that is a little ahead.
func TestLongASmallBurstBesideAClientThatIsALittleAhead(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"200 ms": 200 * time.Millisecond, "a second": time.Second} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerSecond("rps", 100, limiter.Burst(10)))
				fast := w.NewLimiter(w.openBy(w.dated(time.Now), faults.Skewed(ahead).Now), limiter.Options{})
				both := func(total time.Duration) (n int) {
					for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
						for _, l := range []*limiter.Limiter{w.Limiter, fast} {
							if w.Take(l, ask("user", "rps", 1)) == nil {
								n++
							}
						}
					}
					return n
				}
				both(10 * time.Second) // the clock learns in this time
				if got := both(30 * time.Second); got < 3000*99/100 {
					w.Errorf("%d of 3000 were admitted in 30 s", got)
				}
			})
		})
	}
}

// A process keeps working after its wall clock was set.
func TestAStepOfTheWallClockDoesNotSilence(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		for how, dates := range map[string]bool{"with dates": true, "without": false} {
			t.Run(name+" "+how, func(t *testing.T) {
				inDatedWorld(t, func(w *world) {
					w.System(limiter.PerSecond("rps", 1))
					var wall time.Duration
					api := w.undated()
					if dates {
						api = w.dated(time.Now)
					}
					l := w.NewLimiter(w.openBy(api, func() time.Time { return time.Now().Add(wall) }), limiter.Options{})
					w.admitted(l, ask("user", "rps", 1), time.Second/10, 10*time.Second)
					wall = step
					if got := w.admitted(l, ask("user", "rps", 1), time.Second/10, time.Minute); got < 59 || got > 61 {
						w.Errorf("%d were admitted in a minute at 1/s", got)
					}
					w.stampedNear(2 * time.Second)
				})
			})
		}
	}
}

// A client that was suspended, and so is behind, moves no stamp back. This holds if its
// wall clock was set right, and also if the wall clock stood still.
func TestASuspendedClientMovesNoStampBack(t *testing.T) {
	for name, wallIsRight := range map[string]bool{"its wall clock is right": true, "its wall clock stood still": false} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.System(limiter.PerMinute("rpm", 60))
				var asleep time.Duration
				now := func() time.Time { return time.Now().Add(asleep) }
				wall := time.Now
				if wallIsRight {
					wall = now
				}
				l := w.NewLimiter(w.openBy(w.dated(now), wall), limiter.Options{})
				other := w.NewLimiter(w.openBy(w.dated(now), now), limiter.Options{})
				for range 30 {
					w.Take(l, ask("user", "rpm", 1))
					time.Sleep(100 * time.Millisecond)
				}
				asleep = time.Hour
				for range 100 { // the other one restarts with the right time
					other = w.NewLimiter(w.openBy(w.dated(now), now), limiter.Options{})
					w.Take(other, ask("user", "rpm", 1))
					before := w.Images("user")[0].RefilledAt
					w.Take(l, ask("user", "rpm", 1))
					if after := w.Images("user")[0].RefilledAt; after < before {
						w.Fatalf("the stamp was moved back by %d ms", before-after)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if n := l.Stats().Healed + other.Stats().Healed; n != 0 {
					w.Errorf("%d healed", n)
				}
			})
		})
	}
}
