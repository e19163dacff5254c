package acquire_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// fleetsLarge is not for make long: the largest fleets take minutes of a processor.
var fleetsLarge = flag.Bool("fleet.large", false, "hold the largest fleets too")

// A fleet is many processes that share a table, in virtual time, on an engine that throttles as
// AWS does and answers after 5 ms. Requests arrive at random, each at one of the processes.
// When a test of a fleet ends, its bubble has no goroutine left.
type fleet struct {
	processes, entities int
	rate                float64       // requests a second, of all processes together
	limit               limiter.Limit // rps, of each entity
	warmUp, measured    time.Duration
	sticky              bool // the requests of an entity come to one process; otherwise each to a random one
}

// A voyage holds the results of a fleet. All counts but the admissions leave out the warm-up.
type voyage struct {
	*world
	began                     time.Time
	asked, granted, refused   atomic.Int64
	failed                    atomic.Int64
	writes, throttled, missed atomic.Int64 // to buckets; throttled; refused by their condition
	billed                    dynamolite.Usage

	mu       sync.Mutex
	admitted map[string][]time.Time // by entity
}

// sail runs a fleet and checks what must hold for each: no entity gets more than its limit, and the
// table has counted what was admitted.
func (f fleet) sail(t *testing.T, check func(v *voyage)) {
	t.Helper()
	o := awsEngine()
	o.Latency = dynamolite.Latency{}
	inEngine(t, o, dynamo.TableOptions{}, func(w *world) {
		v := &voyage{world: w, admitted: map[string][]time.Time{}}
		w.System(f.limit)
		all := make([]*limiter.Limiter, f.processes)
		for i := range all {
			all[i] = w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, distance(5*time.Millisecond), f.count(v))), limiter.Options{})
		}
		v.began = time.Now()
		var before dynamolite.Ledger
		time.AfterFunc(f.warmUp, func() { before = w.Engine.Ledger() })
		var calls sync.WaitGroup
		draw := rand.New(rand.NewPCG(1, 7))
		for at := time.Duration(0); at < f.warmUp+f.measured; at += time.Duration(draw.ExpFloat64() / f.rate * float64(time.Second)) {
			time.Sleep(at - time.Since(v.began))
			entity := draw.IntN(f.entities)
			process := entity % f.processes
			if !f.sticky {
				process = draw.IntN(f.processes)
			}
			calls.Go(func() { v.ask(w.Context(), all[process], fmt.Sprintf("entity-%d", entity), at >= f.warmUp) })
		}
		calls.Wait()
		v.billed = w.Engine.Ledger().Since(before).Total()
		for entity, at := range v.admitted {
			v.isWithin(entity, f.limit, at)
		}
		check(v)
	})
}

// count counts the writes to buckets.
func (f fleet) count(v *voyage) faults.Hook {
	return faults.On(faults.After(func(_ *faults.Call, err error) error {
		switch {
		case time.Since(v.began) < f.warmUp:
			return err
		case isThrottled(err):
			v.throttled.Add(1)
		case err != nil:
			v.missed.Add(1)
		}
		v.writes.Add(1)
		return err
	}), faults.UpdateItem, faults.TransactWriteItems)
}

func (v *voyage) ask(ctx context.Context, l *limiter.Limiter, entity string, counts bool) {
	_, err := l.Acquire(ctx, ask(entity, "rps", 1))
	if err == nil {
		v.mu.Lock()
		v.admitted[entity] = append(v.admitted[entity], time.Now())
		v.mu.Unlock()
	}
	if !counts {
		return
	}
	v.asked.Add(1)
	switch {
	case err == nil:
		v.granted.Add(1)
	case errors.Is(err, limiter.ErrExceeded):
		v.refused.Add(1)
	default:
		v.failed.Add(1)
	}
}

// isWithin checks that no interval has more admissions than the limit allows, and that the table
// has counted each of them. The admissions are in the order of time. A bucket that holds what the
// limit earns in [plan.Lateness] more than its capacity would admit each of them.
func (v *voyage) isWithin(entity string, limit limiter.Limit, admitted []time.Time) {
	v.Helper()
	const lateness = 50 * time.Millisecond
	earns := float64(limit.Amount) / limit.Period.Seconds()
	most := float64(limit.Capacity) + earns*lateness.Seconds()
	held, last := most, v.began
	for _, at := range admitted {
		held, last = min(most, held+earns*at.Sub(last).Seconds())-1, at
		if held < -1e-6 {
			v.Errorf("%s was admitted too often after %v", entity, at.Sub(v.began))
			return
		}
	}
	var consumed int64
	for _, img := range v.Images(entity) {
		l, _ := img.Limit("rps")
		consumed += l.Consumed
	}
	if consumed != 1000*int64(len(admitted)) {
		v.Errorf("%s was admitted %d times, and the table has counted %d millitokens", entity, len(admitted), consumed)
	}
}

// log logs the figures of docs/measurements/scale.md.
func (v *voyage) log() {
	n := float64(v.granted.Load())
	requests := float64(v.billed.Requests) / n
	v.Logf("%d asked, %d granted, %d refused, %d failed; an admission: %.3f write units, %.3f read units, %.3f requests, %.3f writes; of %d writes %d refused, %d throttled",
		v.asked.Load(), v.granted.Load(), v.refused.Load(), v.failed.Load(), v.billed.WriteUnits/n, v.billed.ReadUnits/n, requests,
		float64(v.writes.Load())/n, v.writes.Load(), v.missed.Load(), v.throttled.Load())
}

// isServed checks that a part of the requests was granted at least.
func (v *voyage) isServed(least float64) {
	v.Helper()
	if got, want := v.granted.Load(), least*float64(v.asked.Load()); float64(got) < want {
		v.Errorf("%d of %d were granted, want %.0f at least; %d failed", got, v.asked.Load(), want, v.failed.Load())
	}
}

// Many processes meet a new bucket at once, with more requests than its partition takes. All of
// them are throttled, and all try to double it. A throttled try loads the partition, too:
//
//	partition   full ──────────────── still full ─────────────── …
//	processes   200 tries, throttled  200 tries, throttled       …
//
// So the time between tries grows until they leave room for one.
func TestManyProcessesDoubleAHotBucket(t *testing.T) {
	f := fleet{processes: 200, entities: 1, rate: 2_000, limit: limiter.PerSecond("rps", 1_000_000), warmUp: 6 * time.Second, measured: time.Second}
	f.sail(t, func(v *voyage) {
		v.log()
		v.isServed(1)
		if n := len(v.Images("entity-0")); n < 2 {
			v.Errorf("the bucket has %d shards", n)
		}
	})
}

// 200 processes on one hot key, as much as its shards carry. Beyond that, writes are throttled and
// all others are admitted.
func TestLongestAFleetOnAHotKey(t *testing.T) {
	for _, tt := range []struct {
		rate   float64
		served float64 // of what was asked for, at least
		large  bool    // only with -fleet.large
	}{
		{4_000, 1, false},
		{10_000, 1, true},
		{20_000, 1, true},
		{30_000, 0.95, true},
		{40_000, 0.9, true},
	} {
		if tt.large && !*fleetsLarge {
			continue
		}
		t.Run(fmt.Sprintf("%.0f a second", tt.rate), func(t *testing.T) {
			f := fleet{processes: 200, entities: 1, rate: tt.rate, limit: limiter.PerSecond("rps", 1_000_000), warmUp: 6 * time.Second, measured: 4 * time.Second}
			f.sail(t, func(v *voyage) {
				v.log()
				v.isServed(tt.served)
				v.costs(2, 0.1)
			})
		})
	}
}

// Processes on one hot key ask for twice its limit. The limit is used, and no more. Of many
// processes, many requests have no answer in time: docs/scale.md.
func TestLongestAFleetAtTheLimitOfAHotKey(t *testing.T) {
	for _, tt := range []struct {
		processes     int
		writes, reads float64 // units of an admission, at most
		large         bool    // only with -fleet.large
	}{
		{16, 3, 1, false}, {50, 3, 1, false}, {100, 3, 1, true}, {200, 20, 100, true},
	} {
		if tt.large && !*fleetsLarge {
			continue
		}
		t.Run(strconv.Itoa(tt.processes), func(t *testing.T) {
			const limit = 1_000
			f := fleet{processes: tt.processes, entities: 1, rate: 2 * limit, limit: limiter.PerSecond("rps", limit), warmUp: 6 * time.Second, measured: 4 * time.Second}
			f.sail(t, func(v *voyage) {
				v.log()
				v.costs(tt.writes, tt.reads)
				if got, want := v.granted.Load(), int64(0.95*limit*f.measured.Seconds()); got < want {
					v.Errorf("%d were granted, want %d at least", got, want)
				}
			})
		})
	}
}

// 200 processes share a bucket that admits few requests a second. Callers heed refusals.
func TestLongestAFleetSharesATightBucket(t *testing.T) {
	for _, tt := range []struct {
		limit  int64
		lasts  time.Duration
		writes float64 // units of an admission, at most
		large  bool    // only with -fleet.large
	}{
		{20, 3 * time.Minute, 15, false},
		{100, 20 * time.Second, 4, false},
		{300, 20 * time.Second, 2, true},
		{5, 20 * time.Minute, 60, true},
	} {
		if tt.large && !*fleetsLarge {
			continue
		}
		t.Run(fmt.Sprintf("%d a second", tt.limit), func(t *testing.T) {
			c := contest{processes: 200, callers: 2, limit: tt.limit, burst: 1, aws: true, atLeast: tt.lasts}
			c.in(t, func(w *world, all []contestant) { c.isShared(w, all, tt.writes) })
		})
	}
}

// isShared checks what the processes of a contest got, and what that cost.
func (c contest) isShared(w *world, all []contestant, writes float64) {
	w.Helper()
	var got []int64
	var sum int64
	for p := range all {
		got = append(got, all[p].granted.Load())
		sum += got[p]
	}
	slices.Sort(got)
	billed := w.Engine.Ledger().Total()
	perWrite, tenth, median := billed.WriteUnits/float64(sum), got[len(got)/10], got[len(got)/2]
	w.Logf("%d granted; an admission: %.2f write units, %.2f read units; %.2f writes a second of each process; shares from %d to %d of %.1f, a tenth below %d, half below %d",
		sum, perWrite, billed.ReadUnits/float64(sum), billed.WriteUnits/c.lasts().Seconds()/float64(len(all)), got[0], got[len(got)-1], float64(sum)/float64(len(all)), tenth, median)
	if perWrite > writes {
		w.Errorf("an admission costs %.2f write units, want %.0f at most", perWrite, writes)
	}
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when each bubble begins
	if most := float64(c.burst) + float64(c.limit)*time.Since(midnight).Seconds(); float64(sum) > most {
		w.Errorf("%d were admitted, want %.1f at most", sum, most)
	}
	if equal := sum / int64(len(all)); tenth < equal/10 || median < equal/2 {
		w.Errorf("of %d for each, half of the processes got %d or less, and a tenth got %d or less", equal, median, tenth)
	}
}

// Requests of many entities come to 200 processes: those of an entity to any of them, or always to
// the same one. A process then knows a few buckets, and reads their configuration once a minute.
func TestLongestAnUnstickyFleet(t *testing.T) {
	for _, tt := range []struct {
		sticky        bool
		writes, reads float64 // units of an admission, at most
	}{{false, 3, 6}, {true, 1.5, 0.2}} {
		t.Run(fmt.Sprintf("sticky %v", tt.sticky), func(t *testing.T) {
			f := fleet{processes: 200, entities: 200, rate: 200, limit: limiter.PerSecond("rps", 2, limiter.Burst(10)), warmUp: time.Minute, measured: time.Minute, sticky: tt.sticky}
			f.sail(t, func(v *voyage) {
				v.log()
				v.isServed(0.95)
				v.costs(tt.writes, tt.reads)
			})
		})
	}
}

// costs checks that an admission costs at most so many units.
func (v *voyage) costs(writes, reads float64) {
	v.Helper()
	n := float64(v.granted.Load())
	if v.billed.WriteUnits > writes*n || v.billed.ReadUnits > reads*n {
		v.Errorf("an admission costs %.2f write units and %.2f read units, want %.2f and %.2f at most", v.billed.WriteUnits/n, v.billed.ReadUnits/n, writes, reads)
	}
}
