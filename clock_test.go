package limiter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/dated"
)

// inDatedWorld runs f in a bubble with a fresh table, whose store's clock was
// compared with the server's: answers have dates.
func inDatedWorld(t *testing.T, f func(*world)) {
	t.Helper()
	inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
		w.store = w.open(w.dated(time.Now))
		w.Limiter = w.limiter(w.store, limiter.Options{})
		f(w)
	})
}

// dated is the table behind a server with a clock.
func (w *world) dated(date func() time.Time) dynamo.API {
	s := &dated.Server{
		Handler: dynamolite.NewHandler(w.engine, dynamolite.HandlerOptions{}), Date: func(*http.Response) time.Time { return date() },
		Latency: func() time.Duration { return 500 * time.Microsecond },
	}
	return dynamo.NewMeter(s.Client())
}

// undated hides from a client how late it is by the server's clock.
func (w *world) undated() dynamo.API { return remote{w.engine} }

// openBy opens a store that goes by a clock.
func (w *world) openBy(api dynamo.API, now func() time.Time) *dynamo.Store {
	w.Helper()
	s, err := dynamo.Open(w.Context(), dynamo.Options{API: api, Table: table, Now: now})
	w.must(err)
	return s
}

// off is a clock that is off by so much.
func off(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

// stampedNear checks that a bucket has one shard, with a stamp that is so near.
func (w *world) stampedNear(entity string, near time.Duration) {
	w.Helper()
	images, err := w.store.Buckets(w.Context(), entity, "gpt-4", 1)
	w.must(err)
	if len(images) != 1 {
		w.Errorf("%d shards, want 1", len(images))
		return
	}
	if at := time.Until(time.UnixMilli(images[0].RefilledAt)); at.Abs() > near {
		w.Errorf("the bucket is stamped %v from now", at)
	}
}

// A client whose clock is ahead is corrected by the answers' dates before it writes to
// a bucket.
func TestAClientThatIsFarAheadIsCorrected(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"an hour ahead": time.Hour, "a year ahead": 365 * 24 * time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.system(limiter.PerSecond("rps", 10))
				s := w.openBy(w.dated(time.Now), off(ahead))
				w.take(w.limiter(s, limiter.Options{}), ask("user", "rps", 1))
				w.stampedNear("user", time.Second)
			})
		})
	}
}

// A small burst does not suffer from a client that is a little ahead.
func TestASmallBurstBesideAClientThatIsALittleAhead(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"200 ms": 200 * time.Millisecond, "a second": time.Second} {
		t.Run(name, func(t *testing.T) {
			inDatedWorld(t, func(w *world) {
				w.system(limiter.PerSecond("rps", 100, limiter.Burst(10)))
				fast := w.limiter(w.openBy(w.dated(time.Now), off(ahead)), limiter.Options{})
				both := func(total time.Duration) (n int) {
					for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
						for _, l := range []*limiter.Limiter{w.Limiter, fast} {
							if w.take(l, ask("user", "rps", 1)) == nil {
								n++
							}
						}
					}
					return n
				}
				both(10 * time.Second) // in which the clock learns
				if got := both(30 * time.Second); got < 3000*99/100 {
					w.Errorf("%d of 3000 were admitted in 30 s", got)
				}
			})
		})
	}
}

// A wall clock that is set does not stop a process.
func TestAStepOfTheWallClockDoesNotSilence(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		for how, dates := range map[string]bool{"with dates": true, "without": false} {
			t.Run(name+" "+how, func(t *testing.T) {
				inDatedWorld(t, func(w *world) {
					w.system(limiter.PerSecond("rps", 1))
					var wall time.Duration
					api := w.undated()
					if dates {
						api = w.dated(time.Now)
					}
					l := w.limiter(w.openBy(api, func() time.Time { return time.Now().Add(wall) }), limiter.Options{})
					w.admitted(l, ask("user", "rps", 1), time.Second/10, 10*time.Second)
					wall = step
					if got := w.admitted(l, ask("user", "rps", 1), time.Second/10, time.Minute); got < 59 || got > 61 {
						w.Errorf("%d were admitted in a minute at 1/s", got)
					}
					w.stampedNear("user", 2*time.Second)
				})
			})
		}
	}
}
