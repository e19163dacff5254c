package acquire_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A wire is the distance to a table. A request takes some time, and is applied in the
// middle of it.
type wire struct {
	api  dynamo.API // the table at that distance
	wait time.Duration
	slow time.Duration // added to reads

	mu               sync.Mutex
	updates          int
	reads            int
	creates          int
	underWay, atOnce int // updates under way, and the most at once
	// fails returns the error of the nth update, from 1 on, and whether the update is
	// applied all the same. nil never fails.
	fails func(n int) (lands bool, err error)
}

// newWire returns a table at a distance.
func newWire(table dynamo.API, wait time.Duration) *wire {
	c := &wire{wait: wait}
	c.api = faults.Wrap(table, faults.On(c.update, faults.UpdateItem), faults.On(c.read, faults.GetItem, faults.BatchGetItem),
		faults.On(c.create, faults.PutItem), faults.On(c.carry, faults.TransactWriteItems))
	return c
}

// carry sends a request there and its answer back.
func (c *wire) carry(ctx context.Context, q *faults.Call, next faults.Next) error {
	return faults.Latency(c.wait)(ctx, q, next)
}

func (c *wire) count(n *int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	return *n
}

// begin adds n to the updates under way.
func (c *wire) begin(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay += n
	c.atOnce = max(c.atOnce, c.underWay)
}

// most returns the most updates that were under way at once since the last call.
func (c *wire) most() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.atOnce = c.atOnce, 0
	return n
}

func (c *wire) update(ctx context.Context, q *faults.Call, next faults.Next) error {
	n := c.count(&c.updates)
	c.begin(1)
	defer c.begin(-1)
	return c.carry(ctx, q, func(ctx context.Context) error {
		if c.fails == nil {
			return next(ctx)
		}
		switch lands, err := c.fails(n); {
		case err == nil:
			return next(ctx)
		case lands:
			return faults.LoseAnswer(err)(ctx, q, next)
		default:
			return err
		}
	})
}

func (c *wire) read(ctx context.Context, q *faults.Call, next faults.Next) error {
	c.count(&c.reads)
	time.Sleep(c.slow)
	return c.carry(ctx, q, next)
}

func (c *wire) create(ctx context.Context, q *faults.Call, next faults.Next) error {
	c.count(&c.creates)
	return c.carry(ctx, q, next)
}

// A far world has a limiter whose table is 10 ms away. The world's own limiter and
// store are in the same place as the table.
type far struct {
	*world
	wire *wire
	l    *limiter.Limiter
}

// inFarWorld runs f in a bubble.
func inFarWorld(t *testing.T, o limiter.Options, f func(*far)) {
	t.Helper()
	inBubble(t, testbed.Options{Limiter: limiter.Options{Trust: -1}}, func(in *world) {
		w := &far{world: in}
		w.wire = newWire(w.Meter, 10*time.Millisecond)
		w.l = w.NewLimiter(w.OpenOn(w.wire.api), o)
		f(w)
		driverOf(w.l).Settle()
	})
}

// fixed returns a limit that earns nothing in the time that a test takes.
func fixed(name string, tokens int64) limiter.Limit {
	return limiter.Custom(name, 1, 365*24*time.Hour, limiter.Burst(tokens))
}

// A caller is one acquire and its result.
type caller struct {
	lease *limiter.Lease
	err   error
	took  time.Duration
}

// queue lets callers arrive one after the other at one instant. Each is in its place
// before the next one arrives. queue waits for all of them.
func (w *far) queue(ctx []context.Context, reqs ...limiter.Request) []*caller {
	w.Helper()
	all := make([]*caller, len(reqs))
	var wg sync.WaitGroup
	for i, req := range reqs {
		c, cx := &caller{}, w.Context()
		if ctx != nil && ctx[i] != nil {
			cx = ctx[i]
		}
		all[i] = c
		wg.Go(func() {
			start := time.Now()
			c.lease, c.err = w.l.Acquire(cx, req)
			c.took = time.Since(start)
		})
		synctest.Wait()
	}
	wg.Wait()
	return all
}

// served counts the callers that got their tokens. The others must have been refused.
func (w *far) served(all []*caller) (served int) {
	w.Helper()
	for _, c := range all {
		if c.err == nil {
			served++
		} else if !errors.Is(c.err, limiter.ErrExceeded) {
			w.Error(c.err)
		}
	}
	return served
}

// warm makes the limiter read a user's bucket.
func (w *far) warm(req limiter.Request) {
	w.Helper()
	w.Serve(w.l, req)
	driverOf(w.l).Settle()
}

// spent returns the number of updates that f sends.
func (w *far) spent(f func()) int {
	before := w.wire.updates
	f()
	return w.wire.updates - before
}

// of returns n equal requests.
func of(n int, req limiter.Request) []limiter.Request {
	return slices.Repeat([]limiter.Request{req}, n)
}

func TestOneWriteCarriesManyCallers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ inFlight, least, most int }{
		{1, 2, 2},    // the first caller's, and one for all that arrived during it
		{2, 3, 4},    // two at once, and the rest in one or two
		{8, 9, 16},   // eight at once
		{0, 2, 16},   // the default, whatever it is
		{-1, 64, 64}, // each caller alone
	} {
		t.Run(fmt.Sprintf("%d in flight", tt.inFlight), func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: tt.inFlight}, func(w *far) {
				w.System(fixed("x", 1000), fixed("y", 1000))
				w.warm(askAll("user", tokens{"x": 100, "y": 0}))
				before := w.Meter.Totals()
				var all []*caller
				writes := w.spent(func() { all = w.queue(nil, of(64, askAll("user", tokens{"x": 2, "y": 1}))...) })
				if writes < tt.least || writes > tt.most {
					t.Errorf("%d writes, want %d to %d", writes, tt.least, tt.most)
				}
				if got := w.Meter.Totals().Sub(before)["UpdateItem"].WCU; got != float64(writes) {
					t.Errorf("%v write units for %d writes", got, writes)
				}
				var seen []int64 // in the order of arrival
				for i, c := range all {
					w.Must(c.err)
					s := c.lease.Statuses()
					if seen = append(seen, s[0].Available); s[0].Available-900 != 2*(s[1].Available-1000) {
						t.Errorf("caller %d sees %d x and %d y left", i, s[0].Available, s[1].Available)
					}
					if c.took > 2*w.wire.wait {
						t.Errorf("caller %d waited %v for writes that take %v", i, c.took, w.wire.wait)
					}
				}
				if tt.inFlight != 1 { // else the order is that of the writes
					slices.SortFunc(seen, func(a, b int64) int { return cmp.Compare(b, a) })
				}
				for i, x := range seen {
					if want := int64(900 - 2*(i+1)); x != want {
						t.Fatalf("caller %d sees %d left, want %d: %v", i, x, want, seen)
					}
				}
				w.holds("user", "x", 900-128, "user", "y", 1000-64)
				if got, want := w.l.Stats().Carried, uint64(64-writes); got != want {
					t.Errorf("%d were carried, want %d", got, want)
				}
				// Each lease belongs to its caller alone.
				w.Must(all[40].lease.Adjust("x", 5))
				w.Must(all[40].lease.Commit(w.Context()))
				w.Must(all[41].lease.Rollback(w.Context()))
				w.Must(all[42].lease.Commit(w.Context()))
				w.holds("user", "x", 900-128-5+2, "user", "y", 1000-64+1)
			})
		})
	}
}

// If not all claims of a crowd fit, the first to arrive are served. A claim that is too
// large does not hold up the others.
func TestACrowdIsServedInTheOrderOfItsArrival(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("balance known: %t", known), func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
				w.System(limiter.PerHour("x", 100))
				w.warm(ask("user", "x", 50))
				if known {
					w.warm(ask("user", "x", 40))
				} else {
					w.Take(w.Limiter, ask("user", "x", 40))
				}
				var reqs []limiter.Request
				for _, tokens := range []int64{1, 4, 7, 3, 5, 2} { // of 10, 1 goes first
					reqs = append(reqs, ask("user", "x", tokens))
				}
				var all []*caller
				writes := w.spent(func() { all = w.queue(nil, reqs...) })
				if known && writes != 2 || writes > 3 {
					t.Errorf("%d writes", writes)
				}
				for i, left := range map[int]int64{0: 9, 1: 5, 3: 2, 5: 0} {
					if w.Must(all[i].err); all[i].lease.Statuses()[0].Available != left {
						t.Errorf("caller %d sees %d left, want %d", i, all[i].lease.Statuses()[0].Available, left)
					}
				}
				for i, tokens := range map[int]int64{2: 7, 4: 5} {
					var refused *limiter.ExceededError
					if !errors.As(all[i].err, &refused) {
						t.Fatalf("caller %d: %v, want a refusal", i, all[i].err)
					}
					wait, err := w.TimeUntilAvailable(w.Context(), ask("user", "x", tokens))
					w.Must(err)
					if s := refused.Statuses[0]; s.Available != 0 || s.Requested != tokens || s.RetryAfter != wait {
						t.Errorf("caller %d is told %+v, want a wait of %v", i, s, wait)
					}
				}
			})
		})
	}
}

// A crowd is not refused from an image that misses another client's return.
func TestACrowdIsNotRefusedByAnOldImage(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1, Trust: -1}, func(w *far) {
		w.System(fixed("x", 100))
		other := w.Lease(w.Limiter, ask("user", "x", 50))
		w.warm(ask("user", "x", 50))
		w.Must(other.Rollback(w.Context()))
		for i, c := range w.queue(nil, of(6, ask("user", "x", 3))...) {
			if c.err != nil {
				t.Errorf("caller %d: %v", i, c.err)
			}
		}
		// The first caller's write informs the others. A crowd's own first request
		// informs it too.
		w.holds("user", "x", 32)
		third := w.Lease(w.Limiter, ask("user", "x", 32))
		w.queue(nil, ask("user", "x", 1))
		time.AfterFunc(12*time.Millisecond, func() { w.Must(third.Rollback(w.Context())) })
		for i, c := range w.queue(nil, of(6, ask("user", "x", 3))...)[1:] {
			if c.err != nil {
				t.Errorf("caller %d: %v", i, c.err)
			}
		}
	})
}

// The caller at the front returns once its own write is answered, though others of its crowd
// are to be served by a later one.
func TestTheFrontOfACrowdDoesNotWriteForTheRest(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		w.System(fixed("x", 100))
		other := w.Lease(w.Limiter, ask("user", "x", 10))
		w.warm(ask("user", "x", 86)) // 4 are left
		time.AfterFunc(12*time.Millisecond, func() { w.Must(other.Rollback(w.Context())) })
		all := w.queue(nil, ask("user", "x", 1), ask("user", "x", 3), ask("user", "x", 3))
		for i, c := range all {
			if w.Must(c.err); i < 2 && c.took != time.Duration(i+1)*w.wire.wait {
				t.Errorf("caller %d has its answer after %v", i, c.took)
			}
		}
		if last := all[2].took; last < 3*w.wire.wait {
			t.Errorf("the last caller was served after %v, by the front's own write", last)
		}
	})
}

// A caller that leaves gets its tokens back, without any effect on the other callers.
func TestACallerThatLeavesHarmsNobody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		leaver int
		after  time.Duration
	}{
		{"the first, while it writes", 0, 4 * time.Millisecond},
		{"in line", 3, 4 * time.Millisecond},
		{"at the front of the line", 1, 4 * time.Millisecond},
		{"as its turn comes", 1, 10 * time.Millisecond},
		{"in line, as the turn of others comes", 3, 10 * time.Millisecond},
		{"whose write is for all", 1, 14 * time.Millisecond},
		{"in the crowd, before the write lands", 3, 14 * time.Millisecond},
		{"in the crowd, after the write has landed", 3, 16 * time.Millisecond},
	} {
		for _, how := range []string{"cancels", "is late"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				t.Parallel()
				inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
					w.System(fixed("x", 100))
					w.warm(ask("user", "x", 10))
					ctx, cancel := context.WithTimeout(w.Context(), tt.after)
					want := context.DeadlineExceeded
					if how == "cancels" {
						cancel()
						ctx, cancel = context.WithCancel(w.Context())
						time.AfterFunc(tt.after, cancel)
						want = context.Canceled
					}
					defer cancel()
					ctxs := make([]context.Context, 6)
					ctxs[tt.leaver] = ctx
					all := w.queue(ctxs, of(6, ask("user", "x", 3))...)
					for i, c := range all {
						switch {
						case i != tt.leaver:
							w.Must(c.err)
							if c.took > 20*time.Millisecond {
								t.Errorf("caller %d took %v", i, c.took)
							}
						case c.err == nil && c.took > tt.after:
							t.Errorf("the caller got its lease after %v, %v too late", c.took, c.took-tt.after)
						case c.err != nil && (!errors.Is(c.err, want) || c.took != tt.after):
							t.Errorf("the caller that left after %v was told %v after %v", tt.after, c.err, c.took)
						}
					}
					driverOf(w.l).Settle()
					left := 75
					if all[tt.leaver].err == nil { // it was answered just in time
						left = 72
					}
					w.holds("user", "x", left)
				})
			})
		}
	}
}

// The caller at the front leads and has waited for longest, but the write is for the
// whole crowd. So the write outlives its leader's time; the leader is answered in time
// and gets its tokens back.
func TestTheTimeOfACrowdIsNotItsLeaders(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1, Timeout: 4 * time.Second}, func(w *far) {
		w.System(fixed("x", 100))
		w.warm(ask("user", "x", 10))
		w.wire.wait = 1700 * time.Millisecond // answered by the third attempt
		var all [3]caller
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				start := time.Now()
				all[i].lease, all[i].err = w.l.Acquire(w.Context(), ask("user", "x", 1))
				all[i].took = time.Since(start)
			})
			time.Sleep(1400 * time.Millisecond)
		}
		wg.Wait()
		for i, c := range all {
			if late := i == 1; late != errors.Is(c.err, limiter.ErrUnavailable) || !late && c.err != nil || c.took > 4*time.Second {
				t.Errorf("caller %d: %v after %v", i, c.err, c.took)
			}
		}
		driverOf(w.l).Settle()
		w.holds("user", "x", 88)
	})
}

// A write whose answer is lost is sent again, and debits once for all callers in it.
func TestACrowdWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, lands := range []bool{true, false} {
		t.Run(fmt.Sprintf("landed: %t", lands), func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
				w.System(fixed("x", 100))
				w.warm(ask("user", "x", 10))
				last := w.wire.updates + 2
				w.wire.fails = func(n int) (bool, error) {
					if n == last {
						return lands, context.DeadlineExceeded
					}
					return false, nil
				}
				var all []*caller
				if got := w.spent(func() { all = w.queue(nil, of(6, ask("user", "x", 3))...) }); got != 3 {
					t.Errorf("%d writes, want 3", got)
				}
				w.Must(all[0].err)
				for _, c := range all[1:] {
					w.Must(c.err)
				}
				w.holds("user", "x", 72)
			})
		})
	}
}

// A write that was not applied is tried again after a conflict. After a throttle it
// fails for every caller in it.
func TestACrowdWhoseWriteIsNotApplied(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		want   error
		writes int
	}{
		{"conflict", &types.TransactionConflictException{}, nil, 3},
		{"throttle", &types.ProvisionedThroughputExceededException{}, limiter.ErrThrottled, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
				w.System(fixed("x", 100))
				w.warm(ask("user", "x", 10))
				second := w.wire.updates + 2
				w.wire.fails = func(n int) (bool, error) {
					if n == second {
						return false, tt.err
					}
					return false, nil
				}
				var all []*caller
				if got := w.spent(func() { all = w.queue(nil, of(6, ask("user", "x", 3))...) }); got != tt.writes {
					t.Errorf("%d writes, want %d", got, tt.writes)
				}
				w.Must(all[0].err)
				left := 87
				for i, c := range all[1:] {
					if !errors.Is(c.err, tt.want) {
						t.Errorf("caller %d: %v, want %v", i+1, c.err, tt.want)
					}
					if tt.want == nil {
						left -= 3
					}
				}
				w.holds("user", "x", left)
			})
		})
	}
}

// Claims that cannot be added up go alone, in the middle of others that can.
func TestAnOddClaimGoesAlone(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{InFlight: 1}, func(w *far) {
		w.System(fixed("x", 100))
		w.warm(ask("user", "x", 10))
		w.Must(w.Store.SetSystem(w.Context(), []limiter.Limit{fixed("x", 100), fixed("y", 50)}, ""))
		w.l.InvalidateConfig()
		own := ask("user", "x", 1)
		own.Fallback = []limiter.Limit{fixed("x", 1000)} // ignored
		all := w.queue(nil,
			ask("user", "x", 1), ask("user", "x", 1), askAll("user", tokens{"x": 1, "y": 2}), own,
			ask("user", "nope", 1), askAll("user", tokens{"x": 1, "y": 2}), ask("user", "x", 0),
		)
		for i, c := range all {
			if i == 4 {
				if !errors.Is(c.err, limiter.ErrNotConfigured) {
					t.Errorf("an unknown limit: %v", c.err)
				}
				continue
			}
			w.Must(c.err)
		}
		w.holds("user", "x", 85, "user", "y", 46)
	})
	inFarWorld(t, limiter.Options{ConfigTTL: -1}, func(w *far) {
		w.System(fixed("x", 100))
		w.warm(ask("user", "x", 10))
		if got := w.spent(func() { w.queue(nil, of(8, ask("user", "x", 1))...) }); got > 4 {
			t.Errorf("%d writes for 8 callers that compare the configuration each", got)
		}
		w.holds("user", "x", 82)
	})
}

func TestManyCallersOfABucketThatDoesNotExist(t *testing.T) {
	t.Parallel()
	inFarWorld(t, limiter.Options{}, func(w *far) {
		w.System(fixed("x", 100))
		w.wire.reads, w.wire.creates, w.wire.updates = 0, 0, 0
		all := w.queue(nil, of(64, ask("user", "x", 1))...)
		for _, c := range all {
			w.Must(c.err)
		}
		// The client reads the bucket with its configuration, and looks for its
		// siblings.
		if reads, creates, updates := w.wire.reads, w.wire.creates, w.wire.updates; reads > 2 || creates != 1 || updates > 2 {
			t.Errorf("%d reads, %d creates, %d updates", reads, creates, updates)
		}
		w.holds("user", "x", 36)
	})
}
