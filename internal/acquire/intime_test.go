package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// swallow answers nothing. A request returns when its context ends, and that much later.
func swallow(deaf time.Duration) faults.Hook {
	return func(ctx context.Context, c *faults.Call, next faults.Next) error {
		defer time.Sleep(deaf)
		return faults.Hang(ctx, c, next)
	}
}

// A method is a method of the limiter or of a lease that takes a context. The lease has
// an adjustment to write.
type method struct {
	name string
	call func(context.Context, *limiter.Limiter, *limiter.Lease) error
}

// methods returns all such methods, on a bucket with the given shards.
func methods(images []*store.Image) []method {
	req := ask("user", "rph", 1)
	many := ask("user", "rph", 1100) // more than one of several shards holds
	b := images[0].Bucket
	pressed := *images[0]
	pressed.Writes.Tokens = 0
	empty := *images[0]
	empty.Limits, empty.RefilledAt = slices.Clone(empty.Limits), time.Now().Add(-time.Hour).UnixMilli()
	empty.Limits[0].Tokens = 0
	return []method{
		{"Acquire", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(l.Acquire(ctx, req))
		}},
		{"Acquire much", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(l.Acquire(ctx, many))
		}},
		{"Wait", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(l.Wait(ctx, req))
		}},
		{"Take", func(ctx context.Context, _ *limiter.Limiter, lease *limiter.Lease) error {
			return lease.Take(ctx, tokens{"rph": 1})
		}},
		{"Release", func(ctx context.Context, _ *limiter.Limiter, lease *limiter.Lease) error {
			return lease.Release(ctx, tokens{"rph": 2})
		}},
		{"Do", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return l.Do(ctx, req, func(context.Context, *limiter.Lease) error { return nil })
		}},
		{"Available", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(l.Available(ctx, req))
		}},
		{"TimeUntilAvailable", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(l.TimeUntilAvailable(ctx, req))
		}},
		{"Commit", func(ctx context.Context, _ *limiter.Limiter, lease *limiter.Lease) error { return lease.Commit(ctx) }},
		{"Rollback", func(ctx context.Context, _ *limiter.Limiter, lease *limiter.Lease) error { return lease.Rollback(ctx) }},
		{"Shards", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(driverOf(l).Shards(ctx, b))
		}},
		{"Mend", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error { return driverOf(l).Mend(ctx, b) }},
		{"Configure", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(driverOf(l).Configure(ctx, b))
		}},
		{"Merge", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			if len(images) == 1 {
				return limiter.ErrUnavailable // there is nothing to merge
			}
			return errOf(driverOf(l).Merge(ctx, images))
		}},
		{"Double", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(driverOf(l).Double(ctx, &pressed, time.UnixMilli(pressed.RefilledAt)))
		}},
		{"Replenish", func(ctx context.Context, l *limiter.Limiter, _ *limiter.Lease) error {
			return errOf(driverOf(l).Replenish(ctx, &empty, []store.Amount{{Limit: "rph", Milli: 1_000_000}}, 0))
		}},
	}
}

// leases returns n leases that have something to write.
func (w *world) leases(l *limiter.Limiter, n int) []*limiter.Lease {
	w.Helper()
	all := make([]*limiter.Lease, n)
	for i := range all {
		var err error
		all[i], err = l.Acquire(w.Context(), ask("user", "rph", 2))
		w.Must(err)
		w.Must(all[i].Adjust("rph", 1))
	}
	return all
}

// Every call returns within the limiter's timeout, and by the end of its context, from
// a store that answers nothing. This holds for any number of callers, with and without
// shared writes, on one shard and on several, and for any context.
func TestEveryCallReturnsInTime(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	for _, o := range []limiter.Options{{}, {InFlight: -1}, {Trust: -1, InFlight: 1}} {
		o.Timeout = timeout
		for _, shards := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d in flight, %d shards", o.InFlight, shards), func(t *testing.T) {
				t.Parallel()
				for _, deaf := range []time.Duration{0, 3 * time.Second} {
					inFarWorld(t, limiter.Options{}, func(w *far) { everyCallReturns(w, o, shards, deaf) })
				}
			})
		}
	}
}

func everyCallReturns(w *far, o limiter.Options, shards int, deaf time.Duration) {
	const callers = 64
	w.System(hourly)
	h := faults.NewTap(w.Meter)
	l := w.NewLimiter(w.OpenOn(h), o)
	w.plant("user", hourly, shards, each(shards, 4_000_000/int64(shards))...)
	images, err := driverOf(l).Shards(w.Context(), limiter.Bucket{Entity: "user", Resource: "gpt-4"})
	w.Must(err)
	driverOf(l).Settle()
	kinds := map[string]func() (context.Context, context.CancelFunc, time.Duration){
		"no end": func() (context.Context, context.CancelFunc, time.Duration) {
			return context.Background(), func() {}, o.Timeout
		},
		"some end": func() (context.Context, context.CancelFunc, time.Duration) { return w.Context(), func() {}, o.Timeout },
		"a deadline": func() (context.Context, context.CancelFunc, time.Duration) {
			ctx, cancel := context.WithTimeout(w.Context(), 700*time.Millisecond)
			return ctx, cancel, 700 * time.Millisecond
		},
		"leaves": func() (context.Context, context.CancelFunc, time.Duration) {
			ctx, cancel := context.WithCancel(w.Context())
			time.AfterFunc(300*time.Millisecond, cancel)
			return ctx, cancel, 300 * time.Millisecond
		},
	}
	for _, m := range methods(images) {
		leases := w.leases(l, callers)
		driverOf(l).Settle()
		h.Set(swallow(deaf))
		var all sync.WaitGroup
		for i := range callers {
			name := []string{"no end", "some end", "a deadline", "leaves"}[i%4]
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ctx, cancel, most := kinds[name]()
				defer cancel()
				start := time.Now()
				err := m.call(ctx, l, leases[i])
				took := time.Since(start)
				if took > most || !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, context.Canceled) {
					w.Errorf("%s of a caller whose context has %s: %v after %v", m.name, name, err, took)
				}
			})
		}
		all.Wait()
		time.Sleep(3 * deaf) // Settle would spend this time polling
		driverOf(l).Settle()
		h.Set(nil)
		time.Sleep(time.Minute)
	}
}

// Callers that share a write return in time, even if the write takes longer than their
// time. The write goes on, and the tokens it debits for them are returned. Callers that
// have enough time get their tokens.
func TestASharedWriteOutlivesItsCallers(t *testing.T) {
	t.Parallel()
	// With two places, a caller may lead alone. Its write is cut off with its own time,
	// and the outcome is unknown.
	for i := range 8 {
		shards, inFlight := 1+3*(i%2), []int{1, -1}[i/2%2]
		on := []limiter.OnUnavailable{limiter.Block, limiter.Allow}[i/4]
		t.Run(fmt.Sprintf("%d in flight, %d shards, %s", inFlight, shards, on), func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: inFlight, Timeout: 5 * time.Second}, func(w *far) {
				w.System(hourly)
				w.plant("user", hourly, shards, each(shards, 900_000)...)
				w.survey(w.l, "user", hourly)
				before := w.used()
				w.wire.wait = 2300 * time.Millisecond // answered by the third attempt, in 4.2 s
				var all sync.WaitGroup
				var served, late atomic.Int64
				for i := range 64 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 50 * time.Millisecond)
						start := time.Now()
						req := ask("user", "rph", 3)
						req.OnUnavailable = on
						lease, err := w.l.Acquire(w.Context(), req)
						switch took := time.Since(start); {
						case took > 5*time.Second:
							w.Errorf("caller %d: %v after %v", i, err, took)
						case err == nil && lease.Degraded():
							late.Add(1)
							if err := lease.Rollback(w.Context()); err != nil && !errors.Is(err, limiter.ErrUnavailable) {
								w.Error(err)
							}
						case err == nil:
							served.Add(1)
						case errors.Is(err, limiter.ErrUnavailable):
							late.Add(1)
						default:
							w.Error(err)
						}
					})
				}
				all.Wait()
				driverOf(w.l).Settle()
				if served.Load() == 0 || late.Load() == 0 && inFlight > 0 {
					w.Errorf("%d were served and %d late, which shows nothing", served.Load(), late.Load())
				}
				if got := w.used() - before; got != 3*served.Load() {
					w.Errorf("%d are debited for %d who were served", got, served.Load())
				}
			})
		})
	}
}

// A store in the same process answers at once. But a bucket that is written to faster
// than its shards sustain makes callers wait there too. They wait no longer than the
// limiter's timeout.
func TestACallInTheProcessReturnsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{testbed.New(t, testbed.Options{})}
		w.System(hourly)
		w.plant("user", hourly, limiter.MaxShards, each(limiter.MaxShards, 100_000)...)
		for i := range limiter.MaxShards {
			w.patchShard(i, "SET b_wcu_tk = :n", map[string]types.AttributeValue{":n": number(-60_000_000)})
		}
		start := time.Now()
		_, err := w.Acquire(context.Background(), ask("user", "rph", 1))
		if took := time.Since(start); !errors.Is(err, limiter.ErrUnavailable) || took > limiter.DefaultTimeout {
			w.Errorf("%v after %v", err, took)
		}
	})
}

// The methods of a lease that take no context answer at once, even while a commit is
// under way.
func TestALeaseAnswersAtOnce(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.family(hourly)
		h := faults.NewTap(w.Meter)
		l := w.NewLimiter(w.OpenOn(h), limiter.Options{})
		lease := w.Lease(l, ask("key", "rph", 3))
		driverOf(l).Settle()
		w.Must(lease.Adjust("rph", 2))
		h.Set(faults.Hang)
		for _, settle := range []func(context.Context) error{lease.Commit, lease.Rollback} {
			ended := make(chan error, 1)
			go func() { ended <- settle(w.Context()) }()
			synctest.Wait()
			start := time.Now()
			if statuses, consumed := lease.Statuses(), lease.Consumed(); len(statuses) != 2 || consumed["rph"] != 5 || lease.Degraded() {
				w.Errorf("statuses %v, consumed %v", statuses, consumed)
			}
			if err := lease.Adjust("rph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
				w.Errorf("adjusted while it is being committed: %v", err)
			}
			if took := time.Since(start); took != 0 {
				w.Errorf("it took %v to be told", took)
			}
			if err := <-ended; settleWasUnanswered(err) != (time.Since(start) != 0) {
				w.Errorf("settled with %v", err)
			}
		}
		driverOf(l).Settle()
		h.Set(nil)
	})
}

// settleWasUnanswered reports whether a settlement was given up. The settlement after
// it finds the lease closed.
func settleWasUnanswered(err error) bool { return errors.Is(err, limiter.ErrUnavailable) }

// A commit that is refused leaves the lease open. The lease can be adjusted again, and
// the final amounts count.
func TestALeaseThatIsTurnedAwayIsOpenAgain(t *testing.T) {
	inEachWorld(t, limiter.Options{}, func(w *world) {
		w.System(hourly)
		api := faults.NewTap(w.Engine)
		l := w.NewLimiter(w.OpenOn(api), limiter.Options{})
		lease := w.Lease(l, ask("user", "rph", 1))
		w.Must(lease.Adjust("rph", 3))
		for range 3 {
			api.Set(faults.On(faults.Fail(faults.BusyTable()), faults.UpdateItem))
			if err := lease.Commit(w.Context()); !errors.Is(err, limiter.ErrThrottled) {
				w.Errorf("got %v", err)
			}
			w.Must(lease.Adjust("rph", 2))
		}
		api.Set(nil)
		w.Must(lease.Commit(w.Context()))
		if err := lease.Adjust("rph", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
			w.Errorf("adjusted after the commit: %v", err)
		}
		w.holds("user", "rph", 3990)
	})
}

// If several calls settle one lease at the same time, only one writes.
func TestALeaseEndsOnce(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.System(hourly)
		w.warm(ask("user", "rph", 1))
		for round := range 20 {
			lease := w.Lease(w.l, ask("user", "rph", 7))
			w.Must(lease.Adjust("rph", 3))
			var all sync.WaitGroup
			updates := w.spent(func() {
				for i := range 8 {
					settle := lease.Commit
					if (i+round)%2 == 0 {
						settle = lease.Rollback
					}
					all.Go(func() { w.Must(settle(w.Context())) })
				}
				all.Wait()
			})
			if updates != 1 {
				w.Errorf("%d writes, want 1", updates)
			}
		}
		if got := w.used(); (got-1)%10 != 0 {
			w.Errorf("%d are debited: a lease was neither kept nor returned whole", got)
		}
	})
}

// A settlement that was certainly not sent is written when the method is called again.
func TestASettlementThatWasNotSentMayBeRepeated(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		inFarWorld(t, limiter.Options{}, func(w *far) {
			w.System(hourly)
			w.Take(w.Limiter, ask("user", "rph", 1))
			h := faults.NewTap(w.Meter)
			// It has no time to send a write again.
			l := w.NewLimiter(w.OpenOn(h), limiter.Options{Timeout: 400 * time.Millisecond})
			leases := w.leases(l, 8) // 2 tokens each, and 1 by adjustment
			settle := func() {
				var all sync.WaitGroup
				for _, lease := range leases {
					end := lease.Rollback
					if commits {
						end = lease.Commit
					}
					all.Go(func() {
						if err := end(w.Context()); err != nil && !errors.Is(err, limiter.ErrUnavailable) {
							w.Error(err)
						}
					})
				}
				all.Wait()
				driverOf(l).Settle()
			}
			h.Set(faults.Hang)
			settle()
			h.Set(nil)
			settle()
			// Two writes were sent, and their outcome is unknown.
			want, lost := int64(1), int64(2*2)
			if commits {
				want, lost = 1+8*3, -2
			}
			if got := w.used(); got != want+lost {
				w.Errorf("commit %t: %d are counted, want %d and %d of what is unknown", commits, got, want, lost)
			}
		})
	}
}

// A settlement is completed even if its caller has returned. A write that the store
// throttles is tried again. After that, the next of several settlements tries it, in a
// time of its own.
func TestASettlementIsSeenThrough(t *testing.T) {
	t.Parallel()
	left := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	leaves := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 3*time.Millisecond)
	}
	for i := range 16 {
		end, inFlight, commits, others := left, 0, i/4%2 == 0, i/8%2 == 0
		if i%2 == 0 {
			end = leaves
		}
		if i/2%2 == 0 {
			inFlight = -1
		}
		t.Run(fmt.Sprintf("%d in flight, leaves %t, commits %t, others %t", inFlight, i%2 == 0, commits, others), func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: inFlight}, func(w *far) {
				w.family(hourly)
				w.warm(ask("key", "rph", 0))
				lease := w.Lease(w.l, ask("key", "rph", 7))
				w.Must(lease.Adjust("rph", 3))
				driverOf(w.l).Settle()
				calls, until := 1, time.Now().Add(time.Second)
				if others { // for longer than one settlement goes on trying
					calls, until = 4, time.Now().Add(limiter.DefaultTimeout+2*time.Second)
				}
				w.wire.fails = func(int) (bool, error) {
					if time.Now().Before(until) {
						return false, faults.BusyTable()
					}
					return false, nil
				}
				settle, want := lease.Rollback, int64(0)
				if commits {
					settle, want = lease.Commit, 10
				}
				ctx, cancel := end(w.Context())
				defer cancel()
				var all sync.WaitGroup
				for range calls {
					all.Go(func() {
						start := time.Now()
						err := settle(ctx)
						if took := time.Since(start); err == nil || took > 3*time.Millisecond {
							w.Errorf("%v after %v", err, took)
						}
					})
				}
				all.Wait()
				driverOf(w.l).Settle()
				for _, entity := range []string{"key", "project"} {
					if got := w.consumed(entity); got != want {
						w.Errorf("%d are counted for %s, want %d", got, entity, want)
					}
				}
			})
		})
	}
}

// A lag delays the updates of buckets, by entity.
type lag struct {
	mu   sync.Mutex
	wait map[string]time.Duration // there and back
}

func (a *lag) set(entity string, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait[entity] = d
}

// on returns an API with the delays.
func (a *lag) on(api dynamo.API) dynamo.API {
	return faults.Wrap(api, faults.On(func(ctx context.Context, c *faults.Call, next faults.Next) error {
		a.mu.Lock()
		wait := a.wait[c.Buckets()[0].Entity]
		a.mu.Unlock()
		return faults.Latency(wait)(ctx, c, next)
	}, faults.UpdateItem))
}

// The return of tokens has a time of its own, even if the call's time is nearly up.
func TestTheReturnHasATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.family(fixed("rph", 4000))
		w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{fixed("rph", 10)}))
		late := &lag{wait: map[string]time.Duration{}}
		l := w.NewLimiter(w.OpenOn(late.on(w.Meter)), limiter.Options{Trust: -1})
		w.Take(l, ask("key", "rph", 1))
		w.Take(l, ask("key", "rph", 1))
		driverOf(l).Settle()
		late.set("key", 2*time.Second)
		late.set("project", 4200*time.Millisecond)
		start := time.Now()
		_, err := l.Acquire(w.Context(), ask("key", "rph", 100)) // the project has fewer
		if took := time.Since(start); !errors.Is(err, limiter.ErrUnavailable) || took > limiter.DefaultTimeout {
			w.Errorf("%v after %v", err, took)
		}
		driverOf(l).Settle()
		w.holds("key", "rph", 3998, "project", "rph", 8)
	})
}

// A caller that leaves between two tries of its write begins no other.
func TestACallerLeavesBetweenTries(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: -1}, func(w *far) {
		w.System(fixed("x", 100))
		w.warm(ask("user", "x", 10))
		ctx, cancel := context.WithCancel(w.Context())
		left, after := w.wire.updates+3, 0
		w.wire.fails = func(n int) (bool, error) {
			if n == left {
				cancel()
			}
			if n > left {
				after++
			}
			return false, &types.TransactionConflictException{}
		}
		if _, err := w.l.Acquire(ctx, ask("user", "x", 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		driverOf(w.l).Settle()
		if after > 0 {
			t.Errorf("%d writes for a caller that had left", after)
		}
	})
}
