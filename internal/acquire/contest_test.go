package acquire_test

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// A contest is a run of identical processes that share one limit, in virtual time.
type contest struct {
	name      string
	processes int
	callers   int     // of each process; they ask again as soon as they may; 0: random arrivals
	load      float64 // random arrivals of all processes together, as a multiple of the limit
	limit     int64   // a second
	burst     int64
	aws       bool                    // the engine has AWS's limits of partitions
	shards    int                     // shards of the bucket before the contest; 0: no bucket
	little    float64                 // the first process asks at random, for this part of an equal share; 0: like the others
	large     bool                    // takes ten seconds: only with -contest.large
	latency   func(int) time.Duration // of a process; nil: 5 ms
	atLeast   time.Duration           // the shortest duration, whatever the flag says
}

var (
	contestTime   = flag.Duration("contest", 10*time.Second, "how long processes contend, in virtual time")
	contestsLarge = flag.Bool("contest.large", false, "hold the largest contests and attacks too")
)

func (c contest) lasts() time.Duration { return max(*contestTime, c.atLeast) }

// A contestant holds the results of one process.
type contestant struct {
	asked, granted, failed atomic.Int64
	failure                atomic.Pointer[error]
}

// ask asks once and returns how long the caller waits before it asks again.
func (c *contestant) ask(ctx context.Context, l *limiter.Limiter) time.Duration {
	c.asked.Add(1)
	_, err := l.Acquire(ctx, ask("entity", "rps", 1))
	refused, ok := errors.AsType[*limiter.ExceededError](err)
	switch {
	case err == nil:
		c.granted.Add(1)
		return 0
	case ok:
		return refused.RetryAfter()
	default:
		c.failed.Add(1)
		c.failure.Store(&err)
		return 10 * time.Millisecond
	}
}

// distance is the latency of a distant engine.
func distance(roundTrip time.Duration) faults.Hook {
	return faults.On(faults.Latency(roundTrip), faults.UpdateItem, faults.TransactWriteItems, faults.BatchGetItem, faults.GetItem)
}

// run lets the processes contend and returns the results of each.
func (c contest) run(w *world) []contestant {
	limit := limiter.PerSecond("rps", c.limit, limiter.Burst(c.burst))
	w.System(limit)
	if n := c.shards; n > 0 {
		w.plant("entity", limit, n, each(n, c.burst*1000/int64(n))...)
	}
	all := make([]contestant, c.processes)
	var calls sync.WaitGroup
	start := time.Now()
	for p := range all {
		latency := 5 * time.Millisecond
		if c.latency != nil {
			latency = c.latency(p)
		}
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, distance(latency))), limiter.Options{})
		random := c.callers == 0 || c.little > 0 && p == 0
		if random {
			calls.Go(func() { c.arrive(p, start, &calls, func() { all[p].ask(w.Context(), l) }) })
			continue
		}
		for range c.callers {
			calls.Go(func() {
				for time.Since(start) < c.lasts() {
					time.Sleep(all[p].ask(w.Context(), l))
				}
			})
		}
	}
	calls.Wait()
	return all
}

// arrive calls f at random times, each call on a goroutine of its own.
func (c contest) arrive(process int, start time.Time, calls *sync.WaitGroup, f func()) {
	rate := c.load * float64(c.limit) / float64(c.processes)
	if c.little > 0 && process == 0 {
		rate = c.little * float64(c.limit) / float64(c.processes)
	}
	draw := rand.New(rand.NewPCG(uint64(process), 7))
	for at := time.Duration(0); at < c.lasts(); at += time.Duration(draw.ExpFloat64() / rate * float64(time.Second)) {
		time.Sleep(at - time.Since(start))
		calls.Go(f)
	}
}

// in runs a contest in an engine and checks what must hold in every contest.
func (c contest) in(t *testing.T, check func(w *world, all []contestant)) {
	t.Helper()
	o := dynamolite.Options{}
	if c.aws {
		o = awsEngine()
		o.Latency = dynamolite.Latency{}
	}
	inEngine(t, o, dynamo.TableOptions{}, func(w *world) {
		all := c.run(w)
		var asked, granted int64
		for p := range all {
			asked += all[p].asked.Load()
			granted += all[p].granted.Load()
			if n := all[p].failed.Load(); n > 0 {
				w.Errorf("%d requests of process %d failed: %v", n, p, *all[p].failure.Load())
			}
		}
		entitled := float64(c.burst) + float64(c.limit)*c.lasts().Seconds()
		if want := min(entitled, float64(asked)); float64(granted) < 0.99*want {
			w.Errorf("%d of %d requests were granted, want %.0f", granted, asked, want)
		}
		check(w, all)
	})
}

// within checks that each process got a part of an equal share within bounds.
func within(least, most float64) func(*world, []contestant) {
	return func(w *world, all []contestant) {
		var total int64
		for p := range all {
			total += all[p].granted.Load()
		}
		equal := float64(total) / float64(len(all))
		for p := range all {
			if got := float64(all[p].granted.Load()); got < least*equal || got > most*equal {
				w.Errorf("process %d was granted %.0f, an equal share is %.0f", p, got, equal)
			}
		}
	}
}

// Identical processes get equal shares of a limit, within one fifth.
func TestLongestProcessesShareALimitEqually(t *testing.T) {
	for _, c := range []contest{
		{name: "two", processes: 2, callers: 16, limit: 300, burst: 300},
		{name: "four", processes: 4, callers: 16, limit: 300, burst: 300},
		{name: "a small burst", processes: 6, callers: 8, limit: 300, burst: 30},
		{name: "sixteen", processes: 16, callers: 16, limit: 1_000, burst: 100},
		{name: "sixteen on a partition", processes: 16, callers: 4, limit: 1_000, burst: 100, aws: true},
		{name: "a high limit", processes: 16, callers: 16, limit: 3_000, burst: 300, aws: true},
		{name: "a low limit", processes: 4, callers: 4, limit: 100, burst: 10, atLeast: 4 * time.Minute},
		{name: "few callers", processes: 2, callers: 4, limit: 1_000, burst: 100},
		{name: "twice the limit at random", processes: 4, load: 2, limit: 300, burst: 30},
		{name: "twice the limit of many at random", processes: 16, load: 2, limit: 3_000, burst: 300, aws: true},
		{name: "ten times the limit at random", processes: 8, load: 10, limit: 1_000, burst: 100, aws: true},
		{name: "four shards", processes: 8, callers: 8, limit: 300, burst: 300, shards: 4, aws: true},
		{name: "32 shards", processes: 16, load: 2, limit: 3_000, burst: 300, shards: 32, aws: true, large: true},
	} {
		if c.large && !*contestsLarge {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.in(t, within(0.8, 1.2)) })
	}
}

// Half of the processes have twenty times the latency of the others. No process gets
// less than half of an equal share.
func TestLongestProcessesFarAwayGetAtLeastHalfAShare(t *testing.T) {
	latency := func(p int) time.Duration { return []time.Duration{time.Millisecond, 20 * time.Millisecond}[p%2] }
	for _, c := range []contest{
		{name: "two", processes: 2, callers: 16, limit: 300, burst: 300},
		{name: "two at random", processes: 2, load: 2, limit: 3_000, burst: 300},
		{name: "four", processes: 4, callers: 16, limit: 1_000, burst: 100},
		{name: "sixteen", processes: 16, callers: 16, limit: 1_000, burst: 1_000},
		{name: "sixteen at random", processes: 16, load: 2, limit: 3_000, burst: 3_000},
		{name: "sixteen and a small limit", processes: 16, callers: 16, limit: 300, burst: 300},
		{name: "sixteen and a small burst", processes: 16, callers: 4, limit: 100, burst: 10, atLeast: 4 * time.Minute},
	} {
		c.latency = latency
		t.Run(c.name, func(t *testing.T) { c.in(t, within(0.5, math.MaxInt64)) })
	}
}

// A process that asks for less than an equal share gets nearly all of it, whatever the
// others ask for.
func TestLongestAProcessThatAsksForLittleGetsIt(t *testing.T) {
	for _, c := range []contest{
		{name: "of two", processes: 2, load: 3, limit: 300, burst: 300, little: 0.5},
		{name: "of four", processes: 4, load: 3, limit: 1_000, burst: 100, little: 0.5},
		{name: "of sixteen", processes: 16, load: 3, limit: 3_000, burst: 3_000, aws: true, little: 0.5},
		{name: "half of a small burst", processes: 16, callers: 4, limit: 100, burst: 10, little: 0.5, atLeast: 2 * time.Minute},
		{name: "a tenth of a small burst", processes: 16, callers: 4, limit: 100, burst: 10, little: 0.1, atLeast: 4 * time.Minute},
		{name: "a tenth of a burst", processes: 16, callers: 4, limit: 100, burst: 100, little: 0.1, atLeast: 4 * time.Minute},
		{name: "half of a small limit", processes: 8, callers: 4, limit: 20, burst: 1, little: 0.5, atLeast: 10 * time.Minute},
		{name: "half of the smallest limit", processes: 4, callers: 4, limit: 5, burst: 1, little: 0.5, atLeast: 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in(t, func(w *world, all []contestant) {
				asked, granted := all[0].asked.Load(), all[0].granted.Load()
				w.Logf("%d of %d were granted", granted, asked)
				if granted < asked*95/100 {
					w.Errorf("it asked for %d and was granted %d", asked, granted)
				}
			})
		})
	}
}
