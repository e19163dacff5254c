package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A turnsCase is processes whose callers all want what one bucket earns.
type turnsCase struct {
	limit     limiter.Limit
	processes int
	writes    float64 // an admission costs at most
	amount    int64   // of a request; 0 is 1
}

// wait is one caller that waits, and heed is one that acquires, and sleeps for as long as
// each refusal tells it.
func wait(ctx context.Context, l *limiter.Limiter, req limiter.Request) error {
	return errOf(l.Wait(ctx, req))
}

func heed(ctx context.Context, l *limiter.Limiter, req limiter.Request) error {
	for {
		_, err := l.Acquire(ctx, req)
		refused, ok := errors.AsType[*limiter.ExceededError](err)
		if !ok {
			return err
		}
		select {
		case <-time.After(refused.RetryAfter()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Processes that share a small bucket take turns: an admission costs about one write, the
// limit is used, and the shares are about equal.
func TestLongestProcessesTakeTurns(t *testing.T) {
	for _, c := range []turnsCase{
		{limit: limiter.PerSecond("rps", 5, limiter.Burst(1)), processes: 1, writes: 1.1},
		{limit: limiter.PerSecond("rps", 5, limiter.Burst(1)), processes: 2, writes: 1.5},
		{limit: limiter.PerSecond("rps", 5, limiter.Burst(1)), processes: 4, writes: 1.5},
		{limit: limiter.PerSecond("rps", 5, limiter.Burst(1)), processes: 8, writes: 1.5},
		// The queue has ten places.
		{limit: limiter.PerSecond("rps", 5, limiter.Burst(1)), processes: 16, writes: 3},
		{limit: limiter.PerSecond("rps", 20, limiter.Burst(1)), processes: 8, writes: 1.5},
		{limit: limiter.PerSecond("rps", 100, limiter.Burst(10)), processes: 8, writes: 1.5},
		{limit: limiter.PerSecond("rps", 100, limiter.Burst(10)), processes: 16, writes: 1.5},
		{limit: limiter.PerMinute("rpm", 10, limiter.Burst(1)), processes: 1, writes: 1.2},
		{limit: limiter.PerMinute("rpm", 10, limiter.Burst(1)), processes: 8, writes: 1.5},
		// The times to read and to write are a tenth of the time over which they spread.
		{limit: limiter.PerSecond("rps", 1), processes: 2, writes: 1.5},
		{limit: limiter.PerSecond("rps", 1), processes: 8, writes: 1.8},
		{limit: limiter.PerMinute("rps", 60), processes: 8, writes: 1.8},
		{limit: limiter.PerSecond("rps", 100), processes: 8, writes: 1.5},
		{limit: limiter.PerSecond("rps", 100), processes: 2, amount: 100, writes: 1.5},
		{limit: limiter.PerMinute("rpm", 60), processes: 2, amount: 60, writes: 1.5},
		{limit: limiter.PerMinute("rpm", 60), processes: 2, amount: 30, writes: 1.5},
		{limit: limiter.PerHour("rph", 10), processes: 2, writes: 1.5},
	} {
		for how, get := range map[string]func(context.Context, *limiter.Limiter, limiter.Request) error{"wait": wait, "heed refusals": heed} {
			t.Run(fmt.Sprintf("%d processes %s, %d of %d, %d in %v", c.processes, how, max(1, c.amount), c.limit.Capacity, c.limit.Amount, c.limit.Period), func(t *testing.T) {
				t.Parallel()
				inBubble(t, testbed.Options{Remote: true}, func(w *world) { c.in(w, get) })
			})
		}
	}
}

// in lets the callers of all processes ask for as long as the bucket earns 100 requests for
// each process.
func (c turnsCase) in(w *world, get func(context.Context, *limiter.Limiter, limiter.Request) error) {
	const callers, each = 10, 100
	w.System(c.limit)
	amount := max(1, c.amount)
	req := ask("user", c.limit.Name, amount)
	w.Take(w.Limiter, ask("user", c.limit.Name, c.limit.Capacity))
	earns := each * c.processes
	end := time.Now().Add(time.Duration(float64(c.limit.Period) / float64(c.limit.Amount) * float64(amount) * float64(earns)))
	ctx, cancel := context.WithDeadline(w.Context(), end)
	defer cancel()
	before := w.Meter.Totals()
	admitted := make([]int, c.processes)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range admitted {
		l := w.NewLimiter(w.OpenOn(newWire(w.Meter, 5*time.Millisecond).api), limiter.Options{})
		for range callers {
			all.Go(func() {
				for {
					err := get(ctx, l, req)
					if err != nil && time.Now().Before(end) && !errors.Is(err, limiter.ErrExceeded) { // Wait gives up before the end
						w.Error(err)
					}
					if err != nil {
						return
					}
					mu.Lock()
					admitted[i]++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	sum := 0
	for _, n := range admitted {
		sum += n
	}
	did := w.Meter.Totals().Sub(before)
	writes := float64(did["UpdateItem"].Requests) / float64(sum)
	w.Logf("%.2f writes and %.2f reads an admission, %d of %d admitted, from %d to %d of %d", writes,
		float64(did["GetItem"].Requests+did["BatchGetItem"].Requests)/float64(sum), sum, earns, slices.Min(admitted), slices.Max(admitted), each)
	if writes > c.writes {
		w.Errorf("%.2f writes an admission, want %.1f at most", writes, c.writes)
	}
	if sum < earns*95/100 {
		w.Errorf("%d were admitted of %d", sum, earns)
	}
	if least, most := each*6/10, each*14/10; slices.Min(admitted) < least || slices.Max(admitted) > most {
		w.Errorf("each process was admitted %v times, want %d to %d", admitted, least, most)
	}
}

// inTurns has two processes share a bucket of one request that earns five a second. It is
// empty since start.
func inTurns(t *testing.T, f func(w *world, one, two *limiter.Limiter, start time.Time)) {
	t.Helper()
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		w.System(limiter.PerSecond("rps", 5, limiter.Burst(1)))
		var both [2]*limiter.Limiter
		for i := range both {
			both[i] = w.NewLimiter(w.OpenOn(newWire(w.Meter, 5*time.Millisecond).api), limiter.Options{})
		}
		for range 4 { // each learns that the other one writes, too
			for _, l := range both {
				w.Must(wait(w.Context(), l, ask("user", "rps", 1)))
			}
		}
		if !driverOf(both[0]).IsShared(theBucket) || !driverOf(both[1]).IsShared(theBucket) {
			w.Fatal("the processes do not know of each other")
		}
		f(w, both[0], both[1], time.Now())
	})
}

// A caller whose request was taken ahead is admitted once the bucket has earned it.
func TestARequestIsTakenAhead(t *testing.T) {
	inTurns(t, func(w *world, one, two *limiter.Limiter, start time.Time) {
		for i, l := range []*limiter.Limiter{one, two, one} {
			w.Must(errOf(l.Acquire(w.Context(), ask("user", "rps", 1))))
			earned := time.Duration(i+1) * 200 * time.Millisecond
			if took := time.Since(start); took < earned-5*time.Millisecond || took > earned+5*time.Millisecond {
				w.Errorf("request %d was admitted after %v, and earned after %v", i, took, earned)
			}
		}
	})
}

// A process sends its next write at its turn, so that the write arrives when the bucket has
// earned what the process took last.
func TestAWriteIsSentAtTheTurn(t *testing.T) {
	inTurns(t, func(w *world, _, two *limiter.Limiter, _ time.Time) {
		far := newWire(w.Meter, 5*time.Millisecond)
		l := w.NewLimiter(w.OpenOn(far.api), limiter.Options{})
		for range 2 { // it learns of the other one
			w.Must(wait(w.Context(), l, ask("user", "rps", 1)))
			w.Must(wait(w.Context(), two, ask("user", "rps", 1)))
		}
		var arrivals []time.Duration
		began := time.Now()
		far.fails = func(int) (bool, error) { arrivals = append(arrivals, time.Since(began)); return false, nil }
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { w.Must(errOf(l.Acquire(w.Context(), ask("user", "rps", 1)))) })
		}
		all.Wait()
		for i, at := range arrivals {
			if earned := time.Duration(i) * 200 * time.Millisecond; i > 0 && (at > earned || at < earned-5*time.Millisecond) {
				w.Errorf("write %d arrives after %v, and the bucket has earned the one before after %v", i, at, earned)
			}
		}
		if len(arrivals) != 3 {
			w.Errorf("%d writes, want 3", len(arrivals))
		}
	})
}

// A caller that leaves before its request is earned has taken nothing.
func TestACallerLeavesThatTookAhead(t *testing.T) {
	inTurns(t, func(w *world, one, two *limiter.Limiter, start time.Time) {
		ctx, cancel := context.WithCancel(w.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := one.Acquire(ctx, ask("user", "rps", 1)); !errors.Is(err, context.Canceled) {
			w.Errorf("the caller got %v", err)
		}
		driverOf(one).Settle()
		w.Must(errOf(two.Acquire(w.Context(), ask("user", "rps", 1))))
		if took := time.Since(start); took > 210*time.Millisecond {
			w.Errorf("the next caller was admitted after %v", took)
		}
	})
}

// A caller is refused if its request would be earned after the deadline of its context.
func TestADeadlineBoundsWhatIsTakenAhead(t *testing.T) {
	inTurns(t, func(w *world, one, _ *limiter.Limiter, start time.Time) {
		ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := one.Acquire(ctx, ask("user", "rps", 1))
		refused, ok := errors.AsType[*limiter.ExceededError](err)
		if !ok || time.Since(start) > 20*time.Millisecond || refused.RetryAfter() < 180*time.Millisecond {
			w.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// Whatever processes take ahead, no interval has more admissions than the bucket held and
// earned in it.
func TestWhatIsTakenAheadKeepsTheLimit(t *testing.T) {
	for _, limit := range []limiter.Limit{
		limiter.PerSecond("rps", 5, limiter.Burst(1)), limiter.PerSecond("rps", 20, limiter.Burst(5)), limiter.PerSecond("rps", 300, limiter.Burst(30)),
	} {
		t.Run(fmt.Sprintf("%d and %d a second", limit.Capacity, limit.Amount), func(t *testing.T) {
			t.Parallel()
			inBubble(t, testbed.Options{Remote: true}, func(w *world) {
				const processes, callers, lateness = 5, 6, 50 * time.Millisecond
				w.System(limit)
				ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
				defer cancel()
				var admitted []time.Time
				var mu sync.Mutex
				var all sync.WaitGroup
				for i := range processes {
					l := w.NewLimiter(w.OpenOn(newWire(w.Meter, time.Duration(i+1)*3*time.Millisecond).api), limiter.Options{})
					for k := range callers {
						get := []func(context.Context, *limiter.Limiter, limiter.Request) error{wait, heed}[k%2]
						all.Go(func() {
							for n := int64(0); get(ctx, l, ask("user", "rps", 1)) == nil; n++ {
								mu.Lock()
								admitted = append(admitted, time.Now())
								mu.Unlock()
								time.Sleep(time.Duration((n*7+int64(i*k))%40) * time.Millisecond)
							}
						})
					}
				}
				all.Wait()
				for i := range admitted {
					for j := i; j < len(admitted); j++ {
						span := admitted[j].Sub(admitted[i]) + lateness
						if most := float64(limit.Capacity) + float64(limit.Amount)*span.Seconds(); float64(j-i+1) > most {
							w.Fatalf("%d were admitted within %v, want %.1f at most", j-i+1, span-lateness, most)
						}
					}
				}
				if want := int(limit.Amount) * 20; len(admitted) < want*95/100 {
					w.Errorf("%d were admitted of %d", len(admitted), want)
				}
			})
		})
	}
}

// A crowd has callers with little time and with much. Each gets an answer within its own time,
// whoever of them writes for the others.
func TestEachOfACrowdIsAnsweredInItsTime(t *testing.T) {
	times := []time.Duration{60 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second}
	inTurns(t, func(w *world, one, two *limiter.Limiter, start time.Time) {
		end := start.Add(time.Minute)
		var all sync.WaitGroup
		before := w.Meter.Totals()
		admitted := 0
		var mu sync.Mutex
		for i := range 20 {
			l := []*limiter.Limiter{one, two}[i%2]
			all.Go(func() {
				for n := i; time.Now().Before(end); n++ {
					ctx, cancel := context.WithTimeout(w.Context(), times[n%len(times)])
					_, err := l.Acquire(ctx, ask("user", "rps", 1))
					cancel()
					refused, ok := errors.AsType[*limiter.ExceededError](err)
					switch {
					case ok:
						time.Sleep(refused.RetryAfter())
					case err != nil:
						w.Errorf("after %v: %v", time.Since(start), err)
					default:
						mu.Lock()
						admitted++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		writes := w.Meter.Totals().Sub(before)["UpdateItem"].Requests
		if w.Logf("%d admitted, with %d writes", admitted, writes); admitted < 285 || writes > 600 {
			w.Errorf("%d were admitted of 300, with %d writes", admitted, writes)
		}
	})
}

// Of the callers of a crowd, a small one may be served now, while a larger one before it waits
// for the next turn of its process. They stay in their order. The caller at the front has the
// place: if it was behind another, it would return to the line and never be told its turn.
func TestCallersWhoWaitForTurnsKeepTheirOrder(t *testing.T) {
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		w.System(limiter.PerSecond("rps", 100, limiter.Burst(1000)))
		other := w.NewLimiter(w.OpenOn(w.Engine), limiter.Options{})
		for range 10 { // they learn of each other
			w.Take(w.Limiter, ask("user", "rps", 1))
			w.Take(other, ask("user", "rps", 1))
		}
		w.Take(w.Limiter, ask("user", "rps", w.Balance("user", "rps")-1))
		img := w.Images("user")[0]
		for _, tt := range []struct{ asks, stay []int64 }{
			{[]int64{1, 20}, []int64{1, 20}},
			{[]int64{20, 1}, []int64{20, 1}},
			{[]int64{20, 10, 1, 1}, []int64{20, 10, 1}},
			{[]int64{900, 20, 1}, []int64{20, 1}}, // the first would wait for too long
		} {
			if got := acquire.RefuseRest(driverOf(w.Limiter).Driver, img, "rps", tt.asks...); !slices.Equal(got, tt.stay) {
				w.Errorf("of %v %v stay, want %v", tt.asks, got, tt.stay)
			}
		}
	})
}

// Requests of several sizes share a small bucket among processes: all are answered, and the limit
// is used.
func TestLongestLargeAndSmallRequestsTakeTurns(t *testing.T) {
	inBubble(t, testbed.Options{Remote: true}, func(w *world) {
		const rate, seconds, processes, callers = 100, 1000, 4, 8
		w.System(limiter.PerSecond("rps", rate, limiter.Burst(20)))
		end := time.Now().Add(seconds * time.Second)
		var all sync.WaitGroup
		var admitted atomic.Int64
		for p := range processes {
			l := w.NewLimiter(w.OpenOn(newWire(w.Meter, 3*time.Millisecond).api), limiter.Options{Trust: -1})
			for i := range callers {
				draw := rand.New(rand.NewPCG(uint64(p), uint64(i)))
				all.Go(func() {
					for time.Now().Before(end) {
						tokens := 1 + draw.Int64N(7)
						switch _, err := l.Acquire(w.Context(), ask("user", "rps", tokens)); {
						case err == nil:
							admitted.Add(tokens)
						case errors.Is(err, limiter.ErrExceeded):
							time.Sleep(time.Duration(draw.Int64N(int64(100 * time.Millisecond))))
						default:
							w.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if got := admitted.Load(); got < rate*seconds*95/100 {
			w.Errorf("%d tokens were admitted, want about %d", got, rate*seconds)
		}
	})
}
