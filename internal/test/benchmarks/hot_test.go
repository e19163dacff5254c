package benchmarks_test

import (
	"errors"
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

const (
	// distance is the duration of a write, as to a neighbouring availability zone with some
	// load.
	distance = 5 * time.Millisecond
	// hotSlice is how long each side works at a time. It covers some hundred round trips,
	// so that the first one, which few callers share, counts for little.
	hotSlice = time.Second
	// hotCallers is the number of goroutines that use the one hot entity.
	hotCallers = 64
)

// A hotSpot is one entity that all callers use, on an engine that throttles like AWS.
type hotSpot struct {
	*pair

	meter *dynamo.Meter
	units []float64 // write units per acquire, of each burst
}

// newHotSpot creates a hotSpot. inFlight is the number of concurrent writes; 0 is the
// default, and a negative number lets every caller write for itself.
func newHotSpot(tb testing.TB, wait time.Duration, inFlight int, limits dynamolite.Limits) *hotSpot {
	tb.Helper()
	h := &hotSpot{}
	h.pair = newPair(tb, engine{name: "hot", entities: 1, start: func(tb testing.TB, l load) (dynamo.API, *recording) {
		tb.Helper()
		db := dynamolite.New(dynamolite.Options{Limits: limits})
		tb.Cleanup(func() { _ = db.Close() })
		h.meter = dynamo.NewMeter(db)
		return faults.Wrap(h.meter, faults.On(faults.Delay(wait, 0), faults.UpdateItem)), record(tb, db, l)
	}}, load{limits: 2})
	store, err := dynamo.Open(tb.Context(), dynamo.Options{API: h.bare.api, Table: table})
	if err != nil {
		tb.Fatal(err)
	}
	if h.limiter, err = limiter.New(store, limiter.Options{InFlight: inFlight}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = h.limiter.Close() })
	h.must(tb, h.acquire)
	return h
}

// burst lets callers acquire repeatedly.
func (h *hotSpot) burst(callers int, long time.Duration) (burst, error) {
	before := h.meter.Totals()
	b, err := drive(callers, long, func(*rand.Rand) error {
		_, err := h.limiter.Acquire(h.ctx, request(h.acquirers[0], h.limits, amount))
		return err
	})
	h.units = append(h.units, h.meter.Totals().Sub(before).Sum().WCU/float64(len(b.took)))
	return b, err
}

// single lets each caller send an update repeatedly, and repeats throttled ones. It first
// uses up the capacity that the partition has saved.
func (h *hotSpot) single(callers int, long time.Duration) (burst, error) {
	var spent atomic.Bool
	if _, err := drive(callers, time.Minute, func(*rand.Rand) error {
		err := h.bare.do(h.ctx, h.updaters[0])
		if isThrottle(err) {
			spent.Store(true)
		}
		if spent.Load() {
			return errSpent
		}
		return err
	}); !errors.Is(err, errSpent) {
		return burst{}, err
	}
	return drive(callers, long, func(*rand.Rand) error {
		for {
			if err := h.bare.do(h.ctx, h.updaters[0]); !isThrottle(err) {
				return err
			}
		}
	})
}

// errSpent ends a burst that uses up a partition's saved capacity.
var errSpent = errors.New("the partition is busy")

func isThrottle(err error) bool {
	var e interface{ ErrorCode() string }
	return errors.As(err, &e) && (e.ErrorCode() == "ProvisionedThroughputExceededException" || e.ErrorCode() == "ThrottlingException")
}

// TestHotEntity compares acquires of a hot entity, whose callers share writes, with single
// conditional writes to one item, which its partition limits to a thousand a second.
//
// Not parallel: other work would be measured too.
func TestHotEntity(t *testing.T) {
	h := newHotSpot(t, distance, 0, dynamolite.AWSLimits())
	shared := &side{name: "acquires", work: func() (burst, error) { return h.burst(hotCallers, hotSlice) }}
	single := &side{name: "single writes", work: func() (burst, error) { return h.single(hotCallers, hotSlice) }}
	wire := &side{name: "wire alone", work: func() (burst, error) {
		return drive(hotCallers, hotSlice, func(*rand.Rand) error { time.Sleep(distance); return nil })
	}}
	alternate(t, shared, single, wire)
	s := newSheet("", "a second", "p50", "p99", "write units each")
	s.row("acquires", perSecond(shared.median(burst.rate)), latency(shared.median(burst.p50)), latency(shared.median(burst.p99)), fmt.Sprintf("%.4f", estimateOf(h.units).median))
	s.row("single writes", perSecond(single.median(burst.rate)), latency(single.median(burst.p50)), latency(single.median(burst.p99)), "1")
	s.row("wire alone", perSecond(wire.median(burst.rate)), latency(wire.median(burst.p50)), latency(wire.median(burst.p99)), "")
	cost := shared.to(single, burst.cost)
	s.row("time each, ratio", cost.String(), fmt.Sprintf("≤ 0.1 %s", hold(t, "time of an acquire, to a single write's", cost, 0.1)))
	s.row("to the wire's", shared.to(wire, burst.cost).String())
	s.print(t, fmt.Sprintf("%d goroutines, %v a write, medians of %d slices of %v in turn", hotCallers, distance, *sliceRounds, hotSlice))
	if units := estimateOf(h.units).median; units > 0.1 {
		t.Errorf("%.3f write units an acquire, want at most 0.1", units)
	}
	if got := h.limiter.Stats(); got.Throttled > 0 || got.Doublings > 0 {
		t.Errorf("%d writes were throttled and the bucket doubled %d times: the item was written to too often", got.Throttled, got.Doublings)
	}
}

// For few callers, sharing writes costs nothing.
func TestHotEntityOfFewCallers(t *testing.T) {
	for _, callers := range []int{1, 2} {
		t.Run(strconv.Itoa(callers), func(t *testing.T) {
			sides := make([]*side, 2)
			for i, inFlight := range []int{0, -1} {
				h := newHotSpot(t, distance, inFlight, dynamolite.Limits{})
				sides[i] = &side{work: func() (burst, error) { return h.burst(callers, hotSlice) }}
			}
			alternate(t, sides...)
			p50, p99 := sides[0].to(sides[1], burst.p50), sides[0].to(sides[1], burst.p99)
			t.Logf("%d callers, shared/unshared: p50 %v, ≤ 1.05 %s; p99 %v; load average %s", callers, p50, hold(t, "p50", p50, 1.05), p99, loadAverage())
		})
	}
}

// TestLaneCost compares a warm acquire by a single caller with shared writes and without.
func TestLaneCost(t *testing.T) {
	if raceEnabled {
		t.Fatal("under the race detector ratios say nothing: run without -race")
	}
	shared, alone := newHotSpot(t, 0, 0, dynamolite.Limits{}), newHotSpot(t, 0, -1, dynamolite.Limits{})
	targets := []target{{procTime, 1.10}, {allocs, 1.05}}
	report(t, compare(t, 5000, targets, shared.acquire, alone.acquire), targets)
}

// BenchmarkHot measures the curve behind the default of Options.InFlight: run it with
// -benchtime 3x; each iteration is a slice.
func BenchmarkHot(b *testing.B) {
	for _, inFlight := range []int{1, 2, 3, 4, 8, 16, -1} {
		for _, callers := range []int{1, 2, 4, 8, 16, 64, 256} {
			b.Run(fmt.Sprintf("inflight=%d/callers=%d", inFlight, callers), func(b *testing.B) {
				h := newHotSpot(b, distance, inFlight, dynamolite.Limits{})
				s := &side{}
				for b.Loop() {
					burst, err := h.burst(callers, hotSlice)
					if err != nil {
						b.Fatal(err)
					}
					s.bursts = append(s.bursts, burst)
				}
				reportBursts(b, s, estimateOf(h.units).median)
			})
		}
	}
}

func reportBursts(b *testing.B, s *side, units float64) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(s.median(burst.rate), "acquires/s")
	b.ReportMetric(s.median(burst.p50)/1e6, "p50-ms")
	b.ReportMetric(s.median(burst.p99)/1e6, "p99-ms")
	b.ReportMetric(units, "wcu/acquire")
}

// BenchmarkHotArrivals measures callers that do not wait for each other: they arrive at
// random, at a given rate. Latencies count from the arrival.
func BenchmarkHotArrivals(b *testing.B) {
	for _, inFlight := range []int{1, 2, 3, 4, 8, -1} {
		for _, rate := range []int{200, 1000, 3000} {
			b.Run(fmt.Sprintf("inflight=%d/rate=%d", inFlight, rate), func(b *testing.B) {
				h := newHotSpot(b, distance, inFlight, dynamolite.Limits{})
				s := &side{}
				for b.Loop() {
					burst, err := h.arrivals(rate, hotSlice)
					if err != nil {
						b.Fatal(err)
					}
					s.bursts = append(s.bursts, burst)
				}
				reportBursts(b, s, estimateOf(h.units).median)
			})
		}
	}
}

// arrivals acquires at random instants, at a given rate.
func (h *hotSpot) arrivals(rate int, long time.Duration) (burst, error) {
	before := h.meter.Totals()
	var due []time.Duration
	for at := time.Duration(0); at < long; at += time.Duration(rand.ExpFloat64() / float64(rate) * float64(time.Second)) { //nolint:gosec // a load
		due = append(due, at)
	}
	took, errs := make([]time.Duration, len(due)), make([]error, len(due))
	start := time.Now()
	var wg sync.WaitGroup
	for i, at := range due {
		time.Sleep(time.Until(start.Add(at)))
		wg.Go(func() {
			_, errs[i] = h.limiter.Acquire(h.ctx, request(h.acquirers[0], h.limits, amount))
			took[i] = time.Since(start.Add(at))
		})
	}
	wg.Wait()
	b := burst{elapsed: time.Since(start), took: took}
	slices.Sort(b.took)
	h.units = append(h.units, h.meter.Totals().Sub(before).Sum().WCU/float64(len(took)))
	return b, errors.Join(errs...)
}
