package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// refusedLocally makes a request that must be refused, and reports whether the refusal
// took no request to the store.
func (w *world) refusedLocally(l *limiter.Limiter, req limiter.Request) bool {
	w.Helper()
	requests, refused := w.requests(), l.Stats().LocallyRefused
	if w.Take(l, req) == nil {
		w.Fatalf("%v was admitted", req.Consume)
	}
	here := w.requests() == requests
	if counted := l.Stats().LocallyRefused == refused+1; counted != here {
		w.Errorf("counted as refused locally: %t; without a request: %t", counted, here)
	}
	return here
}

// requests returns how many requests the table has received.
func (w *world) requests() (n int64) {
	for _, u := range w.Meter.Totals() {
		n += u.Requests
	}
	return n
}

func TestAKnownRefusalCostsNothing(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 60))
		w.Take(w.Limiter, ask("user", "rpm", 60))
		for range 9 { // it earns one a second
			if !w.refusedLocally(w.Limiter, ask("user", "rpm", 1)) {
				w.Error("the store was asked")
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		if refused := w.Take(w.Limiter, ask("user", "rpm", 1)); refused != nil {
			w.Errorf("as soon as there is a token: %v", refused)
		}
		if w.refusedLocally(w.NewLimiter(w.Store, limiter.Options{}), ask("user", "rpm", 1)) {
			w.Error("refused by one that never saw the bucket")
		}
		if w.refusedLocally(w.Limiter, ask("user", "rpm", 61)); !w.refusedLocally(w.Limiter, ask("user", "rpm", 61)) {
			w.Error("the store was asked for more than the capacity")
		}
		if refused := w.Take(w.Limiter, ask("user", "rpm", 0)); refused != nil {
			w.Errorf("nothing was asked for: %v", refused)
		}
	})
}

// A wait quoted from memory is exact as of the image. Later takes of other processes
// make it too short, never too long. A limiter that always asks the store quotes the
// exact wait.
func TestAWaitQuotedFromMemory(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerSecond("rps", 10))
		other := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{Trust: -1})
		asks := w.NewLimiter(w.OpenOn(w.Meter), limiter.Options{Trust: -1})
		for _, l := range []*limiter.Limiter{other, asks} {
			w.Take(l, ask("user", "rps", 0))
		}
		w.Take(w.Limiter, ask("user", "rps", 10))
		for i := range 9 {
			if i == 3 {
				w.Take(other, ask("user", "rps", 2))
			}
			exact, err := w.TimeUntilAvailable(w.Context(), ask("user", "rps", 9))
			w.Must(err)
			if refused := w.Take(asks, ask("user", "rps", 9)); refused == nil || refused.RetryAfter() != exact {
				w.Errorf("asked: %+v, available after %v", refused, exact)
			}
			want := exact
			if i >= 3 {
				want -= 200 * time.Millisecond // in which the 2 are earned
			}
			refused := w.Stats().LocallyRefused
			if got := w.Take(w.Limiter, ask("user", "rps", 9)); got == nil || got.RetryAfter() != want || w.Stats().LocallyRefused != refused+1 {
				w.Errorf("from memory: %+v, want %v", got, want)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// By default, an image may refuse from memory for one second.
func TestAnImageIsTrustedForATime(t *testing.T) {
	for _, tt := range []struct{ trust, bound time.Duration }{{0, time.Second}, {5 * time.Second, 5 * time.Second}, {time.Millisecond, time.Millisecond}, {-1, -1}} {
		t.Run(fmt.Sprint(tt.trust), func(t *testing.T) {
			inWorld(t, limiter.Options{Trust: tt.trust}, func(w *world) {
				w.System(limiter.PerHour("rph", 10))
				other, err := w.NewLimiter(w.Store, limiter.Options{}).Acquire(w.Context(), ask("user", "rph", 4))
				w.Must(err)
				w.Take(w.Limiter, ask("user", "rph", 6))
				if tt.bound < 0 {
					if w.refusedLocally(w.Limiter, ask("user", "rph", 1)) {
						w.Error("refused from memory")
					}
					return
				}
				time.Sleep(tt.bound)
				w.Must(other.Rollback(w.Context())) // only the store knows it
				if !w.refusedLocally(w.Limiter, ask("user", "rph", 1)) {
					w.Error("the store was asked in time")
				}
				time.Sleep(time.Millisecond)
				if refused := w.Take(w.Limiter, ask("user", "rph", 4)); refused != nil {
					w.Errorf("refused by an image that is older than %v: %v", tt.bound, refused)
				}
			})
		})
	}
}

// A process sees its own returns at once.
func TestOwnReturnsAreSeen(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerHour("rph", 10))
		lease := w.Lease(w.Limiter, ask("key", "rph", 9))
		if !w.refusedLocally(w.Limiter, ask("key", "rph", 2)) {
			w.Error("the store was asked")
		}
		w.Must(lease.Adjust("rph", -4))
		w.Must(lease.Commit(w.Context()))
		lease = w.Lease(w.Limiter, ask("key", "rph", 5))
		if !w.refusedLocally(w.Limiter, ask("key", "rph", 1)) {
			w.Error("the store was asked")
		}
		w.Must(lease.Rollback(w.Context()))
		w.Serve(w.Limiter, ask("key", "rph", 5))
	})
}

func TestConfigurationIsNotOverlookedByARefusal(t *testing.T) {
	more := []limiter.Limit{limiter.PerHour("rph", 100)}
	for _, tt := range []struct {
		name   string
		change func(*world)
		served bool
	}{
		{"none", func(*world) {}, false},
		{"in this process", func(w *world) { w.Must(w.Store.SetSystem(w.Context(), more, "")) }, true},
		{"elsewhere", func(w *world) { w.Must(w.OpenOn(w.Engine).SetSystem(w.Context(), more, "")) }, false},
		{"elsewhere, and said so", func(w *world) {
			w.Must(w.OpenOn(w.Engine).SetSystem(w.Context(), more, ""))
			w.InvalidateConfig()
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerHour("rph", 10))
				w.Take(w.Limiter, ask("user", "rph", 10))
				tt.change(w)
				req := ask("user", "rph", 1)
				requests := w.requests()
				_ = w.Take(w.Limiter, req)
				if asked := w.requests() > requests; asked != tt.served {
					w.Errorf("the store was asked: %t", asked)
				}
			})
		})
	}
}

// An overdue comparison with the configuration comes before a refusal, however long an
// image is trusted.
func TestAnOverdueComparisonComesFirst(t *testing.T) {
	inWorld(t, limiter.Options{Trust: time.Hour}, func(w *world) {
		w.System(limiter.PerDay("rpd", 10))
		w.Take(w.Limiter, ask("user", "rpd", 10))
		driverOf(w.Limiter).Settle()
		time.Sleep(limiter.DefaultConfigTTL - time.Millisecond)
		if !w.refusedLocally(w.Limiter, ask("user", "rpd", 1)) {
			w.Error("the store was asked in time")
		}
		time.Sleep(time.Millisecond)
		if w.refusedLocally(w.Limiter, ask("user", "rpd", 1)) {
			w.Error("refused by a bucket not compared for a time to live")
		}
		if driverOf(w.Limiter).Settle(); !w.refusedLocally(w.Limiter, ask("user", "rpd", 1)) {
			w.Error("the store was asked although the comparison was made")
		}
	})
}

func TestWhoeverAlwaysComparesIsNotRefusedFromMemory(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		w.System(limiter.PerDay("rpd", 10))
		w.Take(w.Limiter, ask("user", "rpd", 10))
		if w.refusedLocally(w.Limiter, ask("user", "rpd", 1)) {
			w.Error("refused from memory, although every acquire compares")
		}
	})
}

func TestLocalRefusalsOfACascade(t *testing.T) {
	full, few := limiter.PerHour("rph", 100), limiter.PerHour("rph", 3)
	for _, tt := range []struct {
		name         string
		key, project []limiter.Limit
		take, ask    limiter.Request
		here         bool
		exceeded     string
	}{
		{"the entity is short", []limiter.Limit{few}, []limiter.Limit{full}, ask("key", "rph", 3), ask("key", "rph", 1), true, "key rph"},
		{"the parent is short", []limiter.Limit{full}, []limiter.Limit{few}, ask("key", "rph", 3), ask("key", "rph", 1), true, "project rph"},
		{"both are short", []limiter.Limit{few}, []limiter.Limit{few}, ask("key", "rph", 3), ask("key", "rph", 1), true, "key rph, project rph"},
		{"the parent has no limits", []limiter.Limit{few}, nil, ask("key", "rph", 3), ask("key", "rph", 1), true, "key rph"},
		{
			"the parent has a subset, and is short",
			[]limiter.Limit{full, limiter.PerHour("tph", 100)},
			[]limiter.Limit{limiter.PerHour("tph", 5)},
			askAll("key", tokens{"rph": 1, "tph": 5}), askAll("key", tokens{"rph": 1, "tph": 1}), true, "project tph",
		},
		{
			"the parent has a subset, and is not",
			[]limiter.Limit{few, limiter.PerHour("tph", 100)},
			[]limiter.Limit{limiter.PerHour("tph", 50)},
			askAll("key", tokens{"rph": 3, "tph": 5}), askAll("key", tokens{"rph": 1, "tph": 1}), true, "key rph",
		},
		{
			"only the parent has the limit",
			[]limiter.Limit{full},
			[]limiter.Limit{full, limiter.PerHour("tph", 5)},
			askAll("key", tokens{"rph": 1, "tph": 5}), askAll("key", tokens{"rph": 1, "tph": 1}), false, "project tph",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inEachWorld(t, limiter.Options{}, func(w *world) {
				w.Entities(limiter.Entity{ID: "project"}, child("key", "project"))
				for entity, limits := range map[string][]limiter.Limit{"key": tt.key, "project": tt.project} {
					if limits != nil {
						w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: entity, Resource: "gpt-4"}, limits))
					}
				}
				w.Serve(w.Limiter, tt.take)
				if here := w.refusedLocally(w.Limiter, tt.ask); here != tt.here {
					w.Errorf("refused from memory: %t", here)
				}
				refused := w.Take(w.Limiter, tt.ask)
				var exceeded []string
				for _, s := range refused.Statuses {
					if s.Exceeded {
						exceeded = append(exceeded, s.Entity+" "+s.Limit.Name)
					}
				}
				if got := strings.Join(exceeded, ", "); got != tt.exceeded {
					w.Errorf("exceeded are %q, want %q", got, tt.exceeded)
				}
				asked := w.Take(w.NewLimiter(w.Store, limiter.Options{Trust: -1}), tt.ask)
				if asked == nil || asked.RetryAfter() != refused.RetryAfter() {
					w.Fatalf("the store says %v, memory %v", asked, refused)
				}
				if diff := cmp.Diff(asked.Statuses, refused.Statuses); diff != "" {
					w.Errorf("the store's own refusal differs (-store +memory):\n%s", diff)
				}
			})
		})
	}
}

// A sharded bucket refuses from memory only if every shard is remembered.
func TestLocalRefusalsOfAShardedBucket(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(fixed("x", 100))
		w.Take(w.Limiter, ask("user", "x", 10))
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		time.Sleep(time.Minute)
		if w.refusedLocally(w.Limiter, ask("user", "x", 91)) {
			w.Error("refused although no shard was seen for a minute")
		}
		if !w.refusedLocally(w.Limiter, ask("user", "x", 91)) {
			w.Error("both shards were just read, and the store was asked")
		}
		w.Serve(w.Limiter, ask("user", "x", 90))
		time.Sleep(900 * time.Millisecond)
		if refused := w.Take(w.Limiter, ask("user", "x", 0)); refused != nil { // reads one of the shards
			w.Error(refused)
		}
		time.Sleep(900 * time.Millisecond)
		if w.refusedLocally(w.Limiter, ask("user", "x", 1)) {
			w.Error("refused by an image of one shard of two")
		}
	})
}

// If a write would do more to an item than debit it, the process asks the store instead
// of refusing from memory.
func TestOddItemsAreNotRefusedFromMemory(t *testing.T) {
	for name, change := range map[string]struct {
		update string
		value  types.AttributeValue
		want   error
	}{
		"scheduled": {"SET sched = :v", &types.AttributeValueMemberS{Value: "2h9-17s500"}, limiter.ErrUnsupported},
		"to trim":   {"SET vu = :v", number(1 << 45), limiter.ErrExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerHour("rph", 10))
				w.Take(w.Limiter, ask("user", "rph", 10))
				w.patch(change.update, map[string]types.AttributeValue{":v": change.value})
				time.Sleep(2 * time.Second)
				for range 2 {
					before := w.requests()
					if _, err := w.Acquire(w.Context(), ask("user", "rph", 1)); !errors.Is(err, change.want) {
						w.Errorf("got %v, want %v", err, change.want)
					}
					if w.requests() == before {
						w.Error("refused from memory")
					}
				}
			})
		})
	}
}

// From random states, memory refuses only what the store would refuse, with an equal
// error.
func TestLocalRefusalsAreTheStoresOwn(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				random := rand.New(rand.NewPCG(seed, 7))
				limits := []limiter.Limit{limiter.PerMinute("rpm", 7), limiter.PerSecond("rps", 3), limiter.PerHour("tph", 977, limiter.Burst(100))}
				w.family(limits...)
				w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, limits[seed%3:]))
				entity := []string{"key", "user"}[seed%2]
				some := func() limiter.Request {
					req := ask(entity, "rpm", random.Int64N(4))
					if random.IntN(2) == 0 {
						req.Consume["tph"] = random.Int64N(120)
					}
					if random.IntN(3) == 0 {
						req.Consume["rps"] = random.Int64N(4)
					}
					return req
				}
				asking := w.NewLimiter(w.Store, limiter.Options{Trust: -1, InFlight: -1}) // never pauses
				w.Take(w.Limiter, ask(entity, "rpm", 0))
				for n := 1; n < 1<<(seed/4); n *= 2 {
					time.Sleep(2 * time.Second)
					driverOf(w.Limiter).DoubleNow(w.Context(), entity, "gpt-4")
				}
				compared := 0
				for range 300 {
					time.Sleep(time.Duration(random.Int64N(int64(700 * time.Millisecond))))
					w.Take(w.Limiter, some())
					driverOf(w.Limiter).Settle()
					req := some()
					if !driverOf(w.Limiter).RefusesFromMemory(&req) {
						continue
					}
					begin := time.Now()
					theirs := w.Take(asking, req)
					driverOf(asking).Settle() // comparisons in the background are requests too
					if theirs == nil {
						w.Fatalf("%v is served by the store, and refused from memory", req.Consume)
					}
					if !time.Now().Equal(begin) {
						continue // the store's waits were worked out before a pause
					}
					compared++
					if !w.refusedLocally(w.Limiter, req) {
						w.Error("the store was asked")
					}
					ours := w.Take(w.Limiter, req)
					if diff := cmp.Diff(theirs.Statuses, ours.Statuses); diff != "" || theirs.RetryAfter() != ours.RetryAfter() {
						w.Fatalf("%v (-store +memory):\n%s%v, %v", req.Consume, diff, theirs, ours)
					}
				}
				if compared < 20 {
					w.Errorf("only %d refusals were compared", compared)
				}
			})
		})
	}
}

// Memory is bounded. A bucket without room in memory is decided by the store.
func TestRefusalsAreForgottenForWantOfRoom(t *testing.T) {
	inWorld(t, limiter.Options{Memory: 16}, func(w *world) {
		w.System(limiter.PerHour("rph", 1))
		for i := range 200 {
			w.Take(w.Limiter, ask(fmt.Sprint("user-", i), "rph", 1))
		}
		if got := w.Stats().Buckets; got > 16 {
			w.Errorf("%d buckets are remembered", got)
		}
		if !w.refusedLocally(w.Limiter, ask("user-199", "rph", 1)) {
			w.Error("the store was asked for the last one seen")
		}
		if w.refusedLocally(w.Limiter, ask("user-0", "rph", 1)) {
			w.Error("refused from memory that has no room for it")
		}
	})
}

// Not parallel: allocations of other tests would be counted.
func TestTheDecisionToRefuseAllocatesNothing(t *testing.T) {
	m := newRemembering(t, 2)
	if n := testing.AllocsPerRun(100, func() {
		if !driverOf(m.Limiter).RefusesFromMemory(&m.reqs[0]) {
			t.Error("not refused from memory")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A refusal from memory allocates only its error and the statuses: both at once for one limit.
// Neither a parent nor a deadline adds to that.
//
// Not parallel: allocations of other tests would be counted.
func TestARefusalFromMemoryAllocatesItsError(t *testing.T) {
	for _, tt := range []struct {
		name        string
		limits      int
		cascades    bool
		allocations float64
	}{
		{"one limit", 1, false, 1},
		{"two limits", 2, false, 2},
		{"five limits", 5, false, 2},
		{"one limit, and the parent's", 1, true, 2},
		{"five limits, and the parent's", 5, true, 2},
	} {
		for _, remote := range []bool{false, true} {
			w := testbed.New(t, testbed.Options{Remote: remote, Limiter: limiter.Options{Trust: time.Hour, ConfigTTL: 2 * time.Hour}})
			w.Entities(limiter.Entity{ID: "project"}, limiter.Entity{ID: "key", Parent: "project", Cascade: tt.cascades})
			req := testbed.AskAll("key", tokens{})
			var limits []limiter.Limit
			for i := range tt.limits {
				name := fmt.Sprint("l", i)
				limits, req.Consume[name] = append(limits, limiter.PerDay(name, 1)), 1
			}
			w.System(limits...)
			w.Take(w.Limiter, req)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			refused := w.Stats().LocallyRefused
			const runs = 100
			if n := testing.AllocsPerRun(runs, func() {
				if _, err := w.Acquire(ctx, req); err == nil {
					t.Error("admitted")
				}
			}); n != tt.allocations {
				t.Errorf("%s, remote %t: %v allocations, want %v", tt.name, remote, n, tt.allocations)
			}
			if got := w.Stats().LocallyRefused - refused; got != runs+1 {
				t.Errorf("%s, remote %t: %d refusals from memory of %d", tt.name, remote, got, runs+1)
			}
		}
	}
}

// A cannedStore answers writes with the last image, and allocates nothing for that.
type cannedStore struct {
	*dynamo.Store

	last     *store.Image // the answer to every write; nil to ask the store
	leavable bool
}

func (c *cannedStore) Leavable() bool { return c.leavable }

func (c *cannedStore) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	if c.last != nil {
		return store.Outcome{Applied: true, Image: c.last}, nil
	}
	return c.Store.Take(ctx, t)
}

func (c *cannedStore) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	if c.last != nil {
		return store.Outcome{Applied: true, Image: c.last}, nil
	}
	return c.Store.Refill(ctx, r)
}

// A warm grant allocates the call, its claim, its lease, and two for the write. A call that
// runs apart from its caller allocates seven more: its copy of the amounts (two), the work in two
// steps, the signal of its end, a place in the lane, and the time of its first attempt. The store's allocations do not
// count here.
//
// Not parallel: allocations of other tests would be counted.
func TestAWarmGrantAllocatesLittle(t *testing.T) {
	for _, tt := range []struct {
		remote, leavable bool
		consume          tokens
		want             float64
	}{
		{false, false, tokens{"rpd": 1}, 5},
		{false, false, tokens{"rpd": 1, "tpd": 1}, 5},
		{true, true, tokens{"rpd": 1}, 5},
		{true, true, tokens{"rpd": 1, "tpd": 1}, 5},
		{true, false, tokens{"rpd": 1}, 12},
		{true, false, tokens{"rpd": 1, "tpd": 1}, 12},
	} {
		w := testbed.New(t, testbed.Options{Remote: tt.remote})
		w.System(limiter.PerDay("rpd", 1_000_000), limiter.PerDay("tpd", 1_000_000))
		canned := &cannedStore{Store: w.Store, leavable: tt.leavable}
		l := w.NewLimiter(canned, limiter.Options{})
		req := askAll("user", tt.consume)
		for range 2 {
			w.Must(errOf(l.Acquire(t.Context(), req)))
		}
		canned.last = driverOf(l).Memory(limiter.Bucket{Entity: req.Entity, Resource: req.Resource}).Last()
		if n := testing.AllocsPerRun(100, func() { w.Must(errOf(l.Acquire(t.Context(), req))) }); n != tt.want {
			t.Errorf("remote %t, leavable %t, %v: %v allocations, want %v", tt.remote, tt.leavable, tt.consume, n, tt.want)
		}
	}
}

// BenchmarkLocalRefusal measures a refusal from memory over 1,024 entities: the
// decision alone, and the acquire with its error.
func BenchmarkLocalRefusal(b *testing.B) {
	for _, limits := range []int{1, 2} {
		w := newRemembering(b, limits)
		b.Run(fmt.Sprintf("limits=%d/decision", limits), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !driverOf(w.Limiter).RefusesFromMemory(&w.reqs[i&1023]) {
					b.Fatal("not refused from memory")
				}
				i++
			}
		})
		b.Run(fmt.Sprintf("limits=%d/acquire", limits), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := w.Acquire(b.Context(), w.reqs[i&1023]); err == nil {
					b.Fatal("admitted")
				}
				i++
			}
		})
	}
}

// A remembering limiter knows 1,024 exhausted buckets.
type remembering struct {
	*limiter.Limiter
	reqs []limiter.Request
}

func newRemembering(tb testing.TB, limits int) *remembering {
	tb.Helper()
	// Longer than the benchmark runs.
	w := testbed.New(tb, testbed.Options{Limiter: limiter.Options{Trust: time.Hour, ConfigTTL: 2 * time.Hour}})
	var config []limiter.Limit
	for i := range limits {
		config = append(config, limiter.PerDay(fmt.Sprint("l", i), 1))
	}
	w.System(config...)
	m := &remembering{Limiter: w.Limiter}
	for i := range 1024 {
		req := limiter.Request{Entity: fmt.Sprint("user-", i), Resource: "gpt-4", Consume: make(map[string]int64)}
		for _, c := range config {
			req.Consume[c.Name] = 1
		}
		m.reqs = append(m.reqs, req)
		w.Must(errOf(w.Acquire(tb.Context(), req)))
	}
	return m
}
