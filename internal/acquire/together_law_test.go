package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

var allResources = []string{"gpt-4", "images", "search"}

// balances are what buckets hold of rph, in whole tokens, by entity and resource.
func (w *world) togetherHeld() map[string]int64 {
	w.Helper()
	held := map[string]int64{}
	for _, entity := range []string{"key", "solo"} {
		statuses, err := w.Available(w.Context(), together(entity, "gpt-4", 0, "images", 0, "search", 0))
		w.Must(err)
		for _, s := range statuses {
			held[s.Entity+"/"+s.Resource] = s.Available
		}
	}
	return held
}

// bucketsOf are the buckets of which a request takes, with the amounts.
func bucketsOf(req limiter.Request) map[string]int64 {
	takes := map[string]int64{}
	for _, p := range append([]limiter.Part{{Resource: req.Resource, Consume: req.Consume}}, req.Also...) {
		takes[req.Entity+"/"+p.Resource] = p.Consume["rph"]
		if req.Entity == "key" {
			takes["project/"+p.Resource] = p.Consume["rph"]
		}
	}
	return takes
}

// A request debits all buckets of all its parts, or none. A part of the lease that is settled
// concerns no other. Two processes take turns, so memory is often wrong.
func TestAllPartsAreDebitedOrNone(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				dice := rand.New(rand.NewPCG(seed, 47))
				w.family(fixed("rph", 20))
				w.Entities(limiter.Entity{ID: "solo"})
				processes := []*limiter.Limiter{w.Limiter, w.NewLimiter(w.OpenOn(w.API), limiter.Options{InFlight: -1})}
				model := w.togetherHeld()
				admitted, refusals := 0, 0
				for range 60 {
					var amounts []any
					for _, i := range dice.Perm(len(allResources))[:1+dice.IntN(len(allResources))] {
						amounts = append(amounts, allResources[i], dice.IntN(9))
					}
					req := together([]string{"key", "solo"}[dice.IntN(2)], amounts...)
					takes, short := bucketsOf(req), false
					for bucket, n := range takes {
						short = short || n > 0 && n > model[bucket]
					}
					lease, err := processes[dice.IntN(2)].Acquire(w.Context(), req)
					if errors.Is(err, limiter.ErrExceeded) != short || !short && err != nil {
						w.Fatalf("%v with %v: %v, want a refusal: %t", takes, model, err, short)
					}
					if short {
						refusals++
					} else {
						admitted++
						settleAtRandom(w, dice, lease, &req, model)
					}
					if diff := cmp.Diff(model, w.togetherHeld()); diff != "" {
						w.Fatalf("after %v, refused %t (-want +got):\n%s", takes, short, diff)
					}
				}
				if admitted < 10 || refusals < 10 {
					w.Errorf("%d admitted, %d refused: that shows little", admitted, refusals)
				}
			})
		})
	}
}

// settleAtRandom ends a lease as a whole, or a part of it before. model becomes what the
// buckets then hold.
func settleAtRandom(w *world, dice *rand.Rand, lease *limiter.Lease, req *limiter.Request, model map[string]int64) {
	w.Helper()
	takes := bucketsOf(*req)
	used := func(resource string, tokens int64) {
		for bucket := range takes {
			if bucket == req.Entity+"/"+resource || req.Entity == "key" && bucket == "project/"+resource {
				takes[bucket] = tokens
			}
		}
	}
	names := []string{req.Resource}
	for _, p := range req.Also {
		names = append(names, p.Resource)
	}
	rollBack := dice.IntN(3) == 0
	for i, name := range names {
		part, err := lease.Resource(name)
		w.Must(err)
		n := dice.Int64N(9)
		w.Must(part.Settle("rph", n))
		switch {
		case dice.IntN(3) == 0 && i > 0:
			w.Must(part.Commit(w.Context()))
			used(name, n)
		case rollBack:
			used(name, 0)
		default:
			used(name, n)
		}
	}
	if rollBack {
		w.Must(lease.Rollback(w.Context()))
	} else {
		w.Must(lease.Commit(w.Context()))
	}
	for bucket, n := range takes {
		model[bucket] -= n
	}
}

// Whatever happens to one write of a request, the request has debited all of its buckets, or
// has returned what it took. A write whose answer is lost is sent again, so the request goes on.
// Nothing is ever returned that was not taken.
func TestAFaultInOnePartReturnsTheOthers(t *testing.T) {
	away := errors.New("away")
	for name, tt := range map[string]struct {
		fault func(cancel func()) faults.Hook
		heals bool
	}{
		"lost answer": {func(func()) faults.Hook { return faults.LoseAnswer(away) }, true},
		"throttled":   {func(func()) faults.Hook { return faults.Fail(faults.BusyTable()) }, false},
		"not sent":    {func(func()) faults.Hook { return faults.Fail(away) }, true},
		"caller leaves before": {func(cancel func()) faults.Hook {
			return faults.Before(func(*faults.Call) error { cancel(); return nil })
		}, false},
		"caller leaves after": {func(cancel func()) faults.Hook {
			return faults.After(func(_ *faults.Call, err error) error {
				cancel()
				time.Sleep(time.Millisecond) // the caller is gone before the answer comes
				return err
			})
		}, false},
	} {
		for _, short := range []string{"", "key/images", "project/search"} {
			t.Run(name+", short "+short, func(t *testing.T) {
				inEachWorld(t, limiter.Options{}, func(w *world) {
					w.family(limiter.PerDay("rph", 60))
					w.Entities(limiter.Entity{ID: "solo"})
					api := faults.NewTap(w.API)
					store := w.OpenOn(api)
					req := together("key", "gpt-4", 20, "images", 21, "search", 22)
					admitted, failed := 0, 0
					for at := 1; ; at++ {
						l := w.NewLimiter(store, limiter.Options{})
						time.Sleep(25 * time.Hour) // all buckets are full again
						w.Serve(l, together("key", "gpt-4", 1, "images", 1, "search", 1))
						time.Sleep(2 * time.Hour)
						if short != "" {
							w.drainBucket(short)
						}
						before := w.togetherHeld()
						ctx, cancel := context.WithCancel(w.Context())
						var mu sync.Mutex
						n := 0
						fault := tt.fault(cancel)
						api.Set(faults.When(func(c *faults.Call) bool {
							if !c.Writes() || !c.NamesBuckets() {
								return false
							}
							mu.Lock()
							defer mu.Unlock()
							n++
							return n == at
						}, fault))
						lease, err := l.Acquire(ctx, req)
						driverOf(l).Settle()
						time.Sleep(time.Second) // refunds that were throttled are sent again
						api.Set(nil)
						cancel()
						after := w.togetherHeld()
						want := bucketsOf(req)
						if err != nil {
							failed++
							clear(want)
						} else if admitted++; short != "" {
							w.Fatalf("fault at write %d: admitted", at)
						}
						checkDebits(w, fmt.Sprintf("fault at write %d, %v", at, err), before, after, want, bucketsOf(req), false)
						if lease != nil {
							w.Must(lease.Rollback(w.Context()))
						}
						if n < at {
							break
						}
					}
					if failed == 0 != (tt.heals && short == "") || short == "" && admitted == 0 {
						w.Errorf("%d admitted, %d failed: that shows little", admitted, failed)
					}
				})
			})
		}
	}
}

// drainBucket takes nearly all of a bucket, as another process does.
func (w *world) drainBucket(bucket string) {
	w.Helper()
	for _, entity := range []string{"key", "project"} {
		for _, resource := range allResources {
			if bucket == entity+"/"+resource {
				w.drainTo(entity, resource, 5)
			}
		}
	}
}

// checkDebits checks what buckets were debited. If an answer was lost, one of them may have been
// debited by what a request takes, although the request failed.
func checkDebits(w *world, when string, before, after, want, takes map[string]int64, lost bool) {
	w.Helper()
	kept := 0
	for _, bucket := range slices.Sorted(maps.Keys(before)) {
		switch debited := before[bucket] - after[bucket]; {
		case debited == want[bucket]:
		case lost && debited == takes[bucket]:
			kept++
		default:
			w.Errorf("%s: %d were debited from %s, want %d", when, debited, bucket, want[bucket])
		}
	}
	if kept > 1 {
		w.Errorf("%s: %d buckets stay debited, one answer was lost", when, kept)
	}
}

// Many callers of two processes ask for two resources in either order. As many are admitted as
// both have tokens for, or fewer if they were in each other's way; each takes from both, or from
// none. After that, the rest is still there.
func TestManyCallersAtOnceTakeAllPartsOrNone(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.family(fixed("rph", 100))
		w.Entities(limiter.Entity{ID: "solo"})
		other := w.NewLimiter(w.OpenOn(w.API), limiter.Options{})
		reqs := []limiter.Request{together("key", "gpt-4", 2, "images", 3), together("key", "images", 3, "gpt-4", 2)}
		for _, l := range []*limiter.Limiter{w.Limiter, other} {
			w.Serve(l, together("key", "gpt-4", 0, "images", 0))
		}
		var mu sync.Mutex
		admitted := 0
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				lease, err := []*limiter.Limiter{w.Limiter, other}[i%2].Acquire(w.Context(), reqs[i/2%2])
				switch {
				case errors.Is(err, limiter.ErrExceeded):
				case err != nil:
					w.Error(err)
				default:
					w.Check(lease.Commit(w.Context()))
					mu.Lock()
					defer mu.Unlock()
					admitted++
				}
			})
		}
		wg.Wait()
		driverOf(w.Limiter).Settle()
		driverOf(other).Settle()
		if admitted < 15 || admitted > 33 {
			w.Errorf("%d of 64 were admitted, there was enough for 33", admitted)
		}
		w.keeps("key", "gpt-4", 100-2*admitted, "images", 100-3*admitted)
		time.Sleep(2 * time.Second)
		for n := admitted; n < 33; n++ {
			w.Serve(w.Limiter, reqs[n%2])
		}
	})
}
