package acquire_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A bucket is doubled ahead of its hidden write limit if the partition of its item throttles, has
// throttled within the second before, and the item takes many writes.
func TestWhatDoublesABucketEarly(t *testing.T) {
	const (
		ms     = time.Millisecond
		before = 2 * time.Second // of load, before anything is throttled
		answer = 20 * ms
	)
	for name, tt := range map[string]struct {
		rate     int           // requests a second of each process
		others   int           // processes that are not throttled
		throttle int           // writes in a row that are throttled
		again    time.Duration // when as many are throttled again; 0 is never
		idle     time.Duration // before the first throttle
		with     func() error
		between  bool // another process doubles the bucket between the throttles
		shards   int  // in the end
	}{
		"one throttle":                           {rate: 300, throttle: 1, shards: 1},
		"several writes sent together":           {rate: 300, throttle: 5, shards: 1},
		"again":                                  {rate: 300, throttle: 1, again: 500 * ms, shards: 2},
		"again after more than a second":         {rate: 300, throttle: 1, again: 1100 * ms, shards: 1},
		"the whole table":                        {rate: 300, throttle: 1, again: 500 * ms, with: faults.BusyTable, shards: 1},
		"few writes":                             {rate: 115, throttle: 1, again: 500 * ms, shards: 1},
		"many writes":                            {rate: 140, throttle: 1, again: 500 * ms, shards: 2},
		"many writes of other processes":         {rate: 50, others: 2, throttle: 1, again: 500 * ms, shards: 2},
		"few writes of other processes":          {rate: 50, others: 1, throttle: 1, again: 500 * ms, shards: 1},
		"a load that has ended":                  {rate: 300, throttle: 9, idle: 1100 * ms, shards: 1},
		"a load that has just ended":             {rate: 300, throttle: 9, idle: 700 * ms, shards: 2},
		"once before a doubling, and once after": {rate: 300, throttle: 1, again: 700 * ms, between: true, shards: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inEngine(t, dynamolite.Options{}, dynamo.TableOptions{}, func(w *world) {
				w.System(limiter.PerSecond("rps", 1_000_000))
				with := tt.with
				if with == nil {
					with = faults.HotPartition
				}
				var left atomic.Int64
				api := faults.Wrap(w.Engine, latency(answer), fullShards(func(shard int) error {
					if shard == 0 && left.Add(-1) >= 0 {
						return with()
					}
					return nil
				}))
				all := []*limiter.Limiter{w.NewLimiter(w.OpenOn(api), limiter.Options{InFlight: -1})}
				for range tt.others {
					all = append(all, w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{InFlight: -1}))
				}
				hit := func(l *limiter.Limiter) {
					if err := errOf(l.Acquire(w.Context(), ask("user", "rps", 1))); err != nil && !errors.Is(err, limiter.ErrThrottled) {
						w.Error(err)
					}
				}
				first := before + tt.idle
				time.AfterFunc(first, func() { left.Store(int64(tt.throttle)) })
				last := first + tt.again
				if tt.again > 0 {
					time.AfterFunc(last, func() { left.Store(int64(tt.throttle)) })
				}
				if tt.between {
					other := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
					time.AfterFunc(first+tt.again/4, func() { driverOf(other).DoubleNow(w.Context(), "user", "gpt-4") })
				}
				var calls, streams sync.WaitGroup
				for _, l := range all {
					streams.Go(func() {
						steady(&calls, tt.rate, before, func() { hit(l) })
						time.Sleep(tt.idle)
						steady(&calls, tt.rate, tt.again+500*ms, func() { hit(l) })
					})
				}
				streams.Wait()
				calls.Wait()
				driverOf(all[0]).Settle()
				if left.Load() > 0 {
					w.Errorf("%d writes were still to be throttled", left.Load())
				}
				if got := w.count(); got != tt.shards {
					w.Errorf("%d shards, want %d", got, tt.shards)
				}
			})
		})
	}
}

// Sixteen processes send a bucket more than its partition takes, which is less than the hidden
// write limit. They double it once, and nothing is throttled any more.
func TestSixteenProcessesDoubleABucketOnceForItsPartition(t *testing.T) {
	e := awsEngine()
	e.Limits.PartitionWriteUnits = 300
	inEngine(t, e, dynamo.TableOptions{}, func(w *world) {
		const processes, rate, until, after = 16, 400, 6 * time.Second, 4 * time.Second
		w.System(limiter.PerSecond("rps", 1_000_000))
		w.Take(w.Limiter, ask("user", "rps", 1))
		var throttled, splits, turnedAway atomic.Int64
		count := faults.On(faults.After(func(c *faults.Call, err error) error {
			switch {
			case isThrottled(err):
				throttled.Add(1)
			case err == nil && c.Op == faults.TransactWriteItems:
				splits.Add(1)
			}
			return err
		}), faults.UpdateItem, faults.TransactWriteItems)
		all := make([]*limiter.Limiter, processes)
		for i := range all {
			all[i] = w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, count)), limiter.Options{InFlight: -1})
		}
		var next atomic.Int64
		load := func(d time.Duration) {
			var calls sync.WaitGroup
			steady(&calls, rate, d, func() {
				l := all[next.Add(1)%processes]
				switch err := errOf(l.Acquire(w.Context(), ask("user", "rps", 1))); {
				case errors.Is(err, limiter.ErrThrottled):
					turnedAway.Add(1)
				case err != nil:
					w.Error(err)
				}
			})
			calls.Wait()
		}
		load(until)
		w.Logf("%d writes were throttled, %d of %.0f requests turned away", throttled.Load(), turnedAway.Load(), rate*until.Seconds())
		if throttled.Load() == 0 {
			w.Error("nothing was throttled: the partition takes the load")
		}
		if n := w.count(); n != 2 || splits.Load() != 1 {
			w.Errorf("%d shards after %d splits, want 2 after one", n, splits.Load())
		}
		throttled.Store(0)
		turnedAway.Store(0)
		load(after)
		if throttled.Load() > 0 || turnedAway.Load() > 0 {
			w.Errorf("%d writes were throttled and %d requests turned away after the doubling", throttled.Load(), turnedAway.Load())
		}
	})
}

// An on-demand table as a whole is above what it has grown to, which DynamoDB calls the key range,
// too. More shards do not help its many small buckets: the table serves as much as one that is
// above the account's quota, for which nothing is ever doubled.
func TestATableThatThrottlesAsAWholeIsNotDoubled(t *testing.T) {
	const most, entities, rate, lasts = 500, 300, 2_000, 4 * time.Second
	served := func(quota int64) (admitted int64, units float64) {
		e := awsEngine()
		e.Limits.OnDemandWriteUnits, e.Limits.QuotaWriteUnits = most, quota
		inBubble(t, testbed.Options{Engine: e, Remote: true}, func(w *world) {
			w.System(limiter.PerSecond("rps", 1_000_000))
			var all [4]*limiter.Limiter
			for i := range all {
				all[i] = w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
			}
			for n := range entities {
				w.Serve(all[n%len(all)], ask(fmt.Sprint("entity-", n), "rps", 1))
				time.Sleep(20 * time.Millisecond)
			}
			before := w.Engine.Ledger()
			var calls sync.WaitGroup
			var next, granted atomic.Int64
			steady(&calls, rate, lasts, func() {
				n := next.Add(1) * 7919
				switch err := errOf(all[n/entities%4].Acquire(w.Context(), ask(fmt.Sprint("entity-", n%entities), "rps", 1))); {
				case err == nil:
					granted.Add(1)
				case !errors.Is(err, limiter.ErrThrottled):
					w.Error(err)
				}
			})
			calls.Wait()
			units = w.Engine.Ledger().Since(before).Total().WriteUnits
			for n := range entities {
				if shards := len(w.Images(fmt.Sprint("entity-", n))); shards != 1 {
					w.Errorf("bucket %d has %d shards", n, shards)
				}
			}
			admitted = granted.Load()
		})
		return admitted, units
	}
	t.Parallel()
	whole, units := served(40_000)
	quota, _ := served(most)
	t.Logf("%d were admitted of %.0f, for %.2f write units each, where a quota throttles %d", whole, rate*lasts.Seconds(), units/float64(whole), quota)
	if whole < quota*9/10 || whole < most*int64(lasts.Seconds()) {
		t.Errorf("%d were admitted, want as many as where a quota throttles, %d", whole, quota)
	}
	if units > 1.05*float64(whole) {
		t.Errorf("an admission costs %.2f write units, want 1", units/float64(whole))
	}
}
