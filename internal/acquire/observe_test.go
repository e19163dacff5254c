package acquire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
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

// A diary is an observer that writes down what it is told.
type diary struct {
	mu         sync.Mutex
	calls      []limiter.CallResult
	operations []limiter.OperationResult
	open       int // calls and operations that have begun and not ended
	strays     int // operations without the context of a call
}

type diaryKey struct{}

func (d *diary) BeginCall(ctx context.Context, c limiter.Call) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	return context.WithValue(ctx, diaryKey{}, c)
}

func (d *diary) EndCall(ctx context.Context, r limiter.CallResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	if ctx.Value(diaryKey{}) != r.Call {
		d.strays++
	}
	d.calls = append(d.calls, r)
}

func (d *diary) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	if _, ok := ctx.Value(diaryKey{}).(limiter.Call); !ok {
		d.strays++
	}
	return ctx
}

func (d *diary) EndOperation(_ context.Context, r limiter.OperationResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.operations = append(d.operations, r)
}

// take returns what was written down since the last take.
func (d *diary) take() (calls []limiter.CallResult, operations []limiter.OperationResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls, operations = d.calls, d.operations
	d.calls, d.operations = nil, nil
	return calls, operations
}

// one returns the only call since the last take.
func (d *diary) one(tb testing.TB) limiter.CallResult {
	tb.Helper()
	calls, _ := d.take()
	if len(calls) != 1 {
		tb.Fatalf("told of %d calls: %+v", len(calls), calls)
	}
	return calls[0]
}

// inDiary runs f in both worlds, with a limiter that has a diary.
func inDiary(t *testing.T, f func(*world, *diary)) {
	t.Helper()
	inEachWorld(t, limiter.Options{}, func(w *world) {
		d := &diary{}
		w.Limiter = w.NewLimiter(w.Store, limiter.Options{Observer: d})
		f(w, d)
		synctest.Wait()
		if d.open != 0 || d.strays != 0 {
			w.Errorf("%d calls and operations have not ended, %d had another context", d.open, d.strays)
		}
	})
}

// Each decision is told once, with its result and what it cost.
func TestAnObserverIsToldOfEachDecision(t *testing.T) {
	inDiary(t, func(w *world, d *diary) {
		w.System(limiter.PerHour("rph", 10), limiter.PerHour("tph", 100))
		for _, step := range []struct {
			name   string
			req    limiter.Request
			result limiter.Result
			err    string
			check  func(r limiter.CallResult) bool
		}{
			{"cold", ask("key", "rph", 1), limiter.Admitted, "", func(r limiter.CallResult) bool {
				return r.Cost.Requests > 1 && r.Cost.ReadUnits > 0 && r.Cost.WriteUnits > 0 && r.Shards == 1
			}},
			{"warm", ask("key", "rph", 4), limiter.Admitted, "", func(r limiter.CallResult) bool {
				return r.Operations == 1 && r.Cost.Requests == 1 && r.Cost.ReadUnits == 0 && r.Cost.WriteUnits == 1 && r.Cost.Name == "UpdateItem" &&
					r.Cost.Table == table && r.Lease.Consumed()["rph"] == 4 && r.Consume["rph"] == 4
			}},
			{"refused by memory", ask("key", "rph", 9), limiter.Refused, "exceeded", func(r limiter.CallResult) bool {
				return r.FromMemory && r.Operations == 0 && len(r.Statuses) == 1 && r.Statuses[0].Exceeded && r.Statuses[0].Limit.Name == "rph"
			}},
			{"no such limit", ask("key", "nope", 1), limiter.Failed, "not_configured", nil},
			{"malformed", ask("a b", "rph", 1), limiter.Failed, "invalid", func(r limiter.CallResult) bool { return r.Operations == 0 }},
		} {
			d.take()
			_, err := w.Acquire(w.Context(), step.req)
			r := d.one(w)
			if r.Call != (limiter.Call{Kind: limiter.CallAcquire, Entity: step.req.Entity, Resource: step.req.Resource}) || r.Result != step.result ||
				limiter.ErrorKind(r.Err) != step.err || !errors.Is(err, r.Err) || step.check != nil && !step.check(r) {
				w.Errorf("%s: told %+v", step.name, r)
			}
		}
		time.Sleep(2 * time.Second) // longer than memory may refuse
		d.take()
		w.Take(w.Limiter, ask("key", "rph", 9))
		if r := d.one(w); r.Result != limiter.Refused || r.FromMemory || r.Operations == 0 || !r.Statuses[0].Exceeded {
			w.Errorf("refused by the store: told %+v", r)
		}
	})
}

// The operations of the store are told with their kind, bucket and cost, and configuration
// that was read with its level.
func TestAnObserverIsToldOfOperations(t *testing.T) {
	inDiary(t, func(w *world, d *diary) {
		w.System(limiter.PerHour("rph", 10))
		w.Take(w.Limiter, ask("key", "rph", 1))
		_, operations := d.take()
		var kinds []limiter.OperationKind
		var seen []limiter.ConfigKey
		var cost store.Cost
		for _, o := range operations {
			kinds = append(kinds, o.Kind)
			cost.WriteUnits += o.Cost.WriteUnits
			if o.Entity != "key" || o.Resource != testbed.Resource || o.Err != nil {
				w.Errorf("told %+v", o)
			}
			for i, k := range o.Keys {
				if o.Configs[i] != nil && len(o.Configs[i].Limits) == 1 {
					seen = append(seen, k)
				}
			}
		}
		if !slices.Contains(kinds, store.OpLoad) || !slices.Contains(kinds, store.OpCreate) || cost.WriteUnits == 0 {
			w.Errorf("told of %v, %+v", kinds, cost)
		}
		if !slices.Contains(seen, limiter.ConfigKey{}) {
			w.Errorf("told of the levels %v", seen)
		}
	})
}

// Commit and rollback are told once for each lease, with what they changed.
func TestAnObserverIsToldOfSettlements(t *testing.T) {
	inDiary(t, func(w *world, d *diary) {
		w.System(limiter.PerHour("rph", 10), limiter.PerHour("tph", 1000))
		lease := w.Lease(w.Limiter, askAll("key", tokens{"rph": 1, "tph": 100}))
		w.Must(lease.Adjust("tph", 23))
		d.take()
		w.Must(lease.Commit(w.Context()))
		if r := d.one(w); r.Kind != limiter.CallCommit || r.Result != limiter.Completed || r.Entity != "key" || r.Resource != testbed.Resource || r.Lease != lease ||
			!slices.Equal(r.Settled, []store.Amount{{Limit: "tph", Milli: 23_000}}) || r.Cost.Requests != 1 {
			w.Errorf("commit: told %+v", r)
		}
		w.Must(lease.Rollback(w.Context()))
		w.Must(lease.Commit(w.Context()))
		if calls, _ := d.take(); len(calls) != 0 {
			w.Errorf("a closed lease: told %+v", calls)
		}

		why := errors.New("the work failed")
		if err := w.Do(w.Context(), ask("key", "rph", 2), func(context.Context, *limiter.Lease) error { return why }); !errors.Is(err, why) {
			w.Error(err)
		}
		calls, _ := d.take()
		if len(calls) != 2 || calls[0].Result != limiter.Admitted || calls[1].Kind != limiter.CallRollback ||
			!slices.Equal(calls[1].Settled, []store.Amount{{Limit: "rph", Milli: -2_000}}) {
			w.Errorf("Do: told %+v", calls)
		}
		w.Must(w.Do(w.Context(), ask("key", "rph", 1), func(context.Context, *limiter.Lease) error { return nil }))
		if calls, _ := d.take(); len(calls) != 2 || calls[1].Kind != limiter.CallCommit || calls[1].Settled != nil || calls[1].Operations != 0 {
			w.Errorf("Do: told %+v", calls)
		}

		if _, err := w.Available(w.Context(), ask("key", "rph", 1)); err != nil {
			w.Error(err)
		}
		if r := d.one(w); r.Kind != limiter.CallAvailable || r.Result != limiter.Completed || r.Operations == 0 {
			w.Errorf("available: told %+v", r)
		}
	})
}

// A wait is one call, however often it tries. A take and a release are calls of their own.
func TestAnObserverIsToldOfWaitsAndPartsOfALease(t *testing.T) {
	inDiary(t, func(w *world, d *diary) {
		w.System(limiter.PerHour("rph", 3600, limiter.Burst(10)))
		lease := w.Lease(w.Limiter, ask("key", "rph", 6))
		d.take()
		w.Must(lease.Take(w.Context(), tokens{"rph": 4}))
		if r := d.one(w); r.Kind != limiter.CallTake || r.Result != limiter.Admitted || r.Consume["rph"] != 4 || r.Lease != lease || r.Operations == 0 {
			w.Errorf("take: told %+v", r)
		}
		if err := lease.Take(w.Context(), tokens{"rph": 4}); !errors.Is(err, limiter.ErrExceeded) {
			w.Error(err)
		}
		if r := d.one(w); r.Result != limiter.Refused || len(r.Statuses) != 1 {
			w.Errorf("refused take: told %+v", r)
		}
		w.Must(lease.Release(w.Context(), tokens{"rph": 3}))
		if r := d.one(w); r.Kind != limiter.CallRelease || r.Result != limiter.Completed || !slices.Equal(r.Settled, []store.Amount{{Limit: "rph", Milli: -3_000}}) || r.Operations != 1 {
			w.Errorf("release: told %+v", r)
		}
		waited, err := w.Wait(w.Context(), ask("key", "rph", 8))
		w.Must(err)
		if r := d.one(w); r.Kind != limiter.CallWait || r.Result != limiter.Admitted || r.Lease != waited || r.Latency < 4*time.Second || r.Operations == 0 {
			w.Errorf("wait: told %+v", r)
		}
		if _, err := w.Wait(w.Context(), ask("key", "rph", 11)); !errors.Is(err, limiter.ErrExceeded) {
			w.Error(err)
		}
		if r := d.one(w); r.Kind != limiter.CallWait || r.Result != limiter.Refused {
			w.Errorf("wait for too much: told %+v", r)
		}
	})
}

// Without the store, an observer is told of the failed or degraded acquire and of its
// reason, and of throttled operations.
func TestAnObserverIsToldOfOutages(t *testing.T) {
	for name, fault := range map[string]error{"unavailable": errors.New("no route"), "throttled": &types.ThrottlingException{}} {
		t.Run(name, func(t *testing.T) {
			inDiary(t, func(w *world, d *diary) {
				w.System(limiter.PerHour("rph", 10))
				var outage faults.Slot
				l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, outage.Apply)), limiter.Options{Observer: d})
				outage.Set(faults.Fail(fault))
				req := ask("key", "rph", 1)
				if _, err := l.Acquire(w.Context(), req); err == nil {
					w.Fatal("admitted")
				}
				r := d.one(w)
				if r.Result != limiter.Failed || r.Operations == 0 || limiter.ErrorKind(r.Err) != name || (r.Throttled > 0) != (name == "throttled") {
					w.Errorf("told %+v", r)
				}
				req.OnUnavailable = limiter.Allow
				lease := w.Lease(l, req)
				if r := d.one(w); r.Result != limiter.Degraded || r.Lease != lease || limiter.ErrorKind(r.Err) != name {
					w.Errorf("told %+v", r)
				}
			})
		})
	}
}

// Of callers that share a write, those carried are told as such. All operations are told
// once.
func TestAnObserverIsToldWhoWasCarried(t *testing.T) {
	t.Parallel()
	d := &diary{}
	inBubble(t, testbed.Options{Remote: true, Limiter: limiter.Options{}}, func(w *world) {
		w.System(limiter.PerHour("rph", 1000))
		far := faults.Wrap(w.Meter, faults.Latency(10*time.Millisecond))
		l := w.NewLimiter(w.OpenOn(far), limiter.Options{Observer: d})
		w.Take(l, ask("key", "rph", 1))
		d.take()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { w.Take(l, ask("key", "rph", 1)) })
		}
		wg.Wait()
		calls, operations := d.take()
		carried, attributed := 0, 0
		for _, r := range calls {
			attributed += r.Operations
			if r.Carried {
				carried++
				if r.Operations != 0 {
					w.Errorf("a carried caller is told to have sent %d operations", r.Operations)
				}
			}
		}
		if got := l.Stats().Carried; carried == 0 || uint64(carried) != got {
			w.Errorf("told of %d carried callers, the statistics say %d", carried, got)
		}
		if attributed != len(operations) {
			w.Errorf("calls were told of %d operations of %d", attributed, len(operations))
		}
	})
}

// What calls are told to have cost is what a meter counts.
func TestCostsAreThoseOfTheMeter(t *testing.T) {
	inDiary(t, func(w *world, d *diary) {
		w.System(limiter.PerHour("rph", 10))
		before := w.Meter.Totals()
		for range 12 {
			w.Take(w.Limiter, ask("key", "rph", 1))
			time.Sleep(time.Second)
		}
		driverOf(w.Limiter).Settle()
		var told dynamo.Usage
		_, operations := d.take()
		for _, o := range operations {
			told.Requests += int64(o.Cost.Requests)
			told.RCU += o.Cost.ReadUnits
			told.WCU += o.Cost.WriteUnits
		}
		counted := w.Meter.Totals().Sub(before).Sum()
		told.Failed = counted.Failed
		if told != counted {
			w.Errorf("told %+v, the meter counted %+v", told, counted)
		}
	})
}

// Several observers are told in order, at the end in the opposite order.
func TestObserversAreNested(t *testing.T) {
	t.Parallel()
	var said []string
	o := limiter.Observers{&scribe{"a", &said}, &scribe{"b", &said}}
	ctx := o.BeginCall(t.Context(), limiter.Call{})
	o.EndOperation(o.BeginOperation(ctx, limiter.Operation{}), limiter.OperationResult{})
	o.EndCall(ctx, limiter.CallResult{})
	if got, want := strings.Join(said, " "), "a+ b+ a( b( b) a) b- a-"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

type scribe struct {
	name string
	said *[]string
}

func (s *scribe) say(what string) { *s.said = append(*s.said, s.name+what) }

func (s *scribe) BeginCall(ctx context.Context, _ limiter.Call) context.Context {
	s.say("+")
	return ctx
}
func (s *scribe) EndCall(context.Context, limiter.CallResult) { s.say("-") }
func (s *scribe) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context {
	s.say("(")
	return ctx
}
func (s *scribe) EndOperation(context.Context, limiter.OperationResult) { s.say(")") }

// Decisions are logged at debug level, and only there.
func TestDecisionsAreLogged(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		synctest.Test(t, func(t *testing.T) {
			var text bytes.Buffer
			log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level}))
			w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: limiter.LogDecisions(log)}})
			w.System(limiter.PerHour("rph", 1))
			w.Take(w.Limiter, ask("key", "rph", 1))
			w.Take(w.Limiter, ask("key", "rph", 1))
			_, _ = w.Acquire(t.Context(), ask("key", "nope", 1))
			for _, want := range []string{
				"call=acquire entity=key resource=gpt-4 result=admitted",
				"result=refused latency=0s requests=0 from_memory=true refused_by.entity=key refused_by.limit=rph refused_by.requested=1 refused_by.available=0 refused_by.retry_after=1h0m0s",
				"result=failed",
				"kind=not_configured error=",
			} {
				if strings.Contains(text.String(), want) != (level == slog.LevelDebug) {
					t.Errorf("at %v, the log says:\n%s\nlooked for %s", level, text.String(), want)
				}
			}
		})
	}
}

// The names of error kinds are those of the conditions.
func TestErrorKinds(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		nil: "", limiter.ErrExceeded: "exceeded", limiter.ErrClosed: "closed", limiter.ErrLeaseClosed: "lease_closed", limiter.ErrInvalid: "invalid", limiter.ErrNotConfigured: "not_configured",
		limiter.ErrUnavailable: "unavailable", errors.New("?"): "other", context.Canceled: "canceled",
		fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.DeadlineExceeded): "timeout",
		fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrThrottled):     "throttled",
	} {
		if got := limiter.ErrorKind(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

// nobody is an observer that does nothing.
type nobody struct{}

func (nobody) BeginCall(ctx context.Context, _ limiter.Call) context.Context { return ctx }
func (nobody) EndCall(context.Context, limiter.CallResult)                   {}
func (nobody) BeginOperation(ctx context.Context, _ limiter.Operation) context.Context {
	return ctx
}
func (nobody) EndOperation(context.Context, limiter.OperationResult) {}

// A warm acquire allocates as much as before there were observers, and little more with
// one.
//
// Not parallel: allocations of other tests would be counted.
func TestNoObserverAllocatesNothing(t *testing.T) {
	acquire := func(o limiter.Observer) float64 {
		w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: o}})
		w.System(limiter.PerHour("rph", 1_000_000))
		req := ask("key", "rph", 1)
		w.Take(w.Limiter, req)
		least := math.Inf(1) // a run with more refills among its takes makes more
		for range 10 {
			least = min(least, testing.AllocsPerRun(50, func() { w.Take(w.Limiter, req) }))
		}
		return least
	}
	without, with := acquire(nil), acquire(nobody{})
	t.Logf("a warm acquire makes %v allocations, and %v with an observer", without, with)
	if without > warmAllocations || with > warmAllocations+observedAllocations {
		t.Errorf("%v allocations, want at most %d; with an observer %v, want at most %d more than those", without, warmAllocations, with, observedAllocations)
	}
}

// A program may attach observers that it has not made, and log without a logger.
func TestNilObserversAreLeftOut(t *testing.T) {
	t.Parallel()
	var said []string
	o := limiter.Observers{nil, &scribe{"a", &said}, limiter.LogDecisions(nil), nil}
	w := testbed.New(t, testbed.Options{Limiter: limiter.Options{Observer: o}})
	w.System(limiter.PerHour("rph", 10))
	w.Take(w.Limiter, ask("key", "rph", 1))
	if len(said) == 0 {
		t.Error("the observer between them was told nothing")
	}
}

const (
	// warmAllocations are the most of a warm acquire on an engine in the same process, behind a
	// meter. They were as many before there were observers. It makes 56 now: the race detector
	// empties pools at random, which makes one more now and then.
	warmAllocations = 60
	// observedAllocations are the observation with its context, and the bill of the one
	// operation with its context.
	observedAllocations = 7
)

// BenchmarkObserver measures a refusal from memory and a warm acquire on an engine in the
// same process, without an observer and with one that does nothing.
func BenchmarkObserver(b *testing.B) {
	for name, o := range map[string]limiter.Observer{"nobody": nil, "attached": nobody{}, "log=off": limiter.LogDecisions(slog.New(slog.DiscardHandler))} {
		w := testbed.New(b, testbed.Options{Limiter: limiter.Options{Observer: o}})
		w.System(limiter.PerHour("rph", limiter.MaxTokens), limiter.PerHour("tph", 1))
		b.Run("acquire/observer="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Take(w.Limiter, ask("key", "rph", 1))
			}
		})
		w.Take(w.Limiter, ask("key", "tph", 1))
		b.Run("refusal/observer="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = w.Acquire(b.Context(), ask("key", "tph", 1))
			}
		})
	}
}
