package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// paths are the ways that an acquire of 10 goes through the store. Each function first
// prepares the bucket.
var paths = map[string]func(w *far, entity string){
	"cold": func(*far, string) {},
	"warm": func(w *far, entity string) { w.warm(ask(entity, "rph", 0)) },
	"refill": func(w *far, entity string) {
		w.warm(ask(entity, "rph", 1000))
		time.Sleep(10 * time.Minute)
	},
	"full": func(w *far, entity string) {
		w.warm(ask(entity, "rph", 100))
		time.Sleep(3 * time.Hour)
	},
	"stale": func(w *far, entity string) {
		w.warm(ask(entity, "rph", 0))
		w.Take(w.Limiter, ask(entity, "rph", 1000))
		time.Sleep(time.Minute)
		w.Take(w.Limiter, ask(entity, "rph", 10))
	},
	"sharded": func(w *far, entity string) {
		w.warm(ask(entity, "rph", 0))
		driverOf(w.Limiter).DoubleNow(w.Context(), entity, "gpt-4")
		w.warm(ask(entity, "rph", 3600)) // so that no shard has enough
	},
}

// consumed returns the tokens counted for an entity, on all shards.
func (w *world) consumed(entity string) (tokens int64) {
	w.Helper()
	for _, img := range w.Images(entity) {
		s, _ := img.Limit("rph")
		tokens += s.Consumed
	}
	return tokens / 1000
}

// everyInstant acquires 250 with a deadline at many instants of every path, from a
// store at a distance. The request allows to go on without the store. everyInstant
// hands the lease to end, and then expects one of the counts that end returns. It
// returns how many buckets stayed debited by degraded leases.
func everyInstant(t *testing.T, end func(w *far, lease *limiter.Lease) (want []int64)) (debited int) {
	t.Helper()
	degraded := 0
	for path, begin := range paths {
		for _, entity := range []string{"key", "solo"} {
			for _, inFlight := range []int{0, -1} {
				for after := time.Millisecond / 2; after < 70*time.Millisecond; after += 2500 * time.Microsecond {
					name := fmt.Sprintf("%s of %s, %d in flight, after %v", path, entity, inFlight, after)
					synctestFar(t, limiter.Options{InFlight: inFlight}, func(w *far) {
						w.family(hourly)
						begin(w, entity)
						driverOf(w.Limiter).Settle()
						before := map[string]int64{}
						for _, e := range []string{"key", "solo", "project"} {
							before[e] = w.consumed(e)
						}
						ctx, cancel := context.WithTimeout(w.Context(), after)
						defer cancel()
						req := ask(entity, "rph", 250)
						req.OnUnavailable = limiter.Allow
						start := time.Now()
						lease, err := w.l.Acquire(ctx, req)
						if took := time.Since(start); err != nil || took > after {
							w.Fatalf("%s: %v after %v", name, err, took)
						}
						if lease.Degraded() {
							degraded++
						}
						want := end(w, lease)
						driverOf(w.l).Settle()
						counts := []string{entity}
						if entity == "key" {
							counts = append(counts, "project")
						}
						for _, e := range counts {
							got, ok := w.consumed(e)-before[e], false
							for _, n := range want {
								ok = ok || got == n
							}
							if !ok {
								w.Errorf("%s, degraded %t: %d are counted for %s, want one of %v", name, lease.Degraded(), got, e, want)
							}
							if lease.Degraded() && got != 0 {
								debited++
							}
						}
					})
				}
			}
		}
	}
	if degraded < 100 {
		t.Errorf("%d leases were degraded, which shows little", degraded)
	}
	return debited
}

// The rollback of a degraded lease returns what its acquire debits. The debit may come
// before the lease was granted, before the rollback, or after it.
func TestLongADegradedLeaseIsRolledBack(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"at once": 0, "in between": 12 * time.Millisecond, "later": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyInstant(t, func(w *far, lease *limiter.Lease) []int64 {
				time.Sleep(wait)
				w.Must(lease.Rollback(w.Context()))
				return []int64{0}
			})
		})
	}
}

// The rollback of a degraded lease goes on in the background if its context has ended.
func TestLongADegradedLeaseIsRolledBackInTheBackground(t *testing.T) {
	t.Parallel()
	everyInstant(t, func(w *far, lease *limiter.Lease) []int64 {
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if err := lease.Rollback(ctx); err != nil && !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
		return []int64{0}
	})
}

// A committed degraded lease keeps what its acquire debits, as adjusted. It keeps
// nothing if the acquire never debits anything. The commit does not wait for the debit.
func TestLongADegradedLeaseIsCommitted(t *testing.T) {
	t.Parallel()
	for _, delta := range []int64{0, 30, -30, -250} {
		t.Run(strconv.FormatInt(delta, 10), func(t *testing.T) {
			t.Parallel()
			debited := everyInstant(t, func(w *far, lease *limiter.Lease) []int64 {
				if delta != 0 {
					w.Must(lease.Adjust("rph", delta))
				}
				ctx, cancel := context.WithCancel(w.Context())
				cancel()
				start := time.Now()
				err := lease.Commit(ctx)
				if lease.Degraded() && (err != nil || time.Since(start) != 0) {
					w.Errorf("committed with %v after %v", err, time.Since(start))
				}
				w.Must(lease.Rollback(w.Context()))
				if lease.Degraded() {
					return []int64{0, 250 + delta}
				}
				return []int64{250 + delta}
			})
			if delta > -250 && debited < 100 {
				t.Errorf("%d buckets stayed debited: what landed was not kept", debited)
			}
		})
	}
}

// A degraded lease that is never settled keeps its debits.
func TestLongADegradedLeaseIsDropped(t *testing.T) {
	t.Parallel()
	debited := everyInstant(t, func(_ *far, lease *limiter.Lease) []int64 {
		if lease.Degraded() {
			return []int64{0, 250}
		}
		return []int64{250}
	})
	if debited < 100 {
		t.Errorf("%d buckets stayed debited: what landed was not kept", debited)
	}
}

// A degraded lease owes nothing if its request was refused in the end, or failed.
func TestADegradedLeaseOwesNothingForARefusal(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		inFarWorld(t, limiter.Options{}, func(w *far) {
			w.family(hourly)
			w.warm(ask("key", "rph", 3900))
			w.Take(w.Limiter, ask("project", "rph", 50))
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Millisecond)
			defer cancel()
			req := ask("key", "rph", 80) // the key has enough, the project does not
			req.OnUnavailable = limiter.Allow
			lease, err := w.l.Acquire(ctx, req)
			w.Must(err)
			if !lease.Degraded() {
				w.Fatal("the lease is not degraded")
			}
			w.Must(lease.Adjust("rph", 5))
			end := lease.Rollback
			if commits {
				end = lease.Commit
			}
			w.Must(end(w.Context()))
			driverOf(w.l).Settle()
			w.holds("key", "rph", 100, "project", "rph", 50)
		})
	}
}

// A degraded lease accepts the same adjustments as any other lease, and reports that
// nothing is metered.
func TestADegradedLeaseIsAdjustedLikeAnother(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.System(hourly)
		ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
		defer cancel()
		req := ask("user", "rph", 80)
		req.OnUnavailable = limiter.Allow
		lease, err := w.l.Acquire(ctx, req)
		w.Must(err)
		for limit, delta := range map[string]int64{"tph": 1, "rph": -81} {
			if err := lease.Adjust(limit, delta); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("adjust %s by %d: %v", limit, delta, err)
			}
		}
		if consumed, statuses := lease.Consumed(), lease.Statuses(); len(consumed) > 0 || len(statuses) > 0 {
			w.Errorf("consumed %v, %v", consumed, statuses)
		}
		w.Must(lease.Rollback(w.Context()))
		if err := lease.Adjust("rph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
			w.Errorf("adjusted after the rollback: %v", err)
		}
		w.Must(lease.Commit(w.Context()))
	})
}

// synctestFar is inFarWorld for one of many worlds of a test.
func synctestFar(t *testing.T, o limiter.Options, f func(*far)) {
	t.Helper()
	if !t.Failed() {
		inFarWorld(t, o, f)
	}
}

// A degraded lease of a caller that shares a write with others is rolled back too.
func TestADegradedLeaseOfACrowdIsRolledBack(t *testing.T) {
	t.Parallel()
	degraded := 0
	for after := time.Millisecond / 2; after < 40*time.Millisecond; after += 1500 * time.Microsecond {
		for leaver := range 5 {
			synctestFar(t, limiter.Options{InFlight: 1}, func(w *far) {
				w.System(hourly)
				w.warm(ask("user", "rph", 0))
				req := ask("user", "rph", 20)
				req.OnUnavailable = limiter.Allow
				ctx, cancel := context.WithTimeout(w.Context(), after)
				defer cancel()
				ctxs := make([]context.Context, 5)
				ctxs[leaver] = ctx
				for i, c := range w.queue(ctxs, of(5, req)...) {
					w.Must(c.err)
					if c.lease.Degraded() {
						degraded++
					}
					if i == leaver {
						w.Must(c.lease.Rollback(w.Context()))
					}
				}
				driverOf(w.l).Settle()
				if got := w.consumed("user"); got != 80 {
					w.Errorf("caller %d, after %v: %d are counted, want 80", leaver, after, got)
				}
			})
		}
	}
	if degraded < 20 {
		t.Errorf("%d leases were degraded, which shows little", degraded)
	}
}
