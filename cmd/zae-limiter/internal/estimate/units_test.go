package estimate_test

import (
	"math"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/store"
)

const ms = time.Millisecond

// wide are limits that fill up at once.
func wide(n int) (limits []store.Limit) {
	for i := range n {
		limits = append(limits, limiter.PerMinute("l"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1_000_000_000))
	}
	return limits
}

// each takes one token of each limit.
func each(limits []store.Limit) map[string]int64 {
	tokens := map[string]int64{}
	for _, l := range limits {
		tokens[l.Name] = 1
	}
	return tokens
}

func perMinute(n int64) []store.Limit { return []store.Limit{limiter.PerMinute("rpm", n)} }

const minute = time.Minute

// Loads of few effects at once are estimated within 5 % of what the engine's ledger bills, index
// writes included.
func TestUnitsAreThoseOfTheLedger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		trial trial
		load  estimate.Load // without what follows from the trial
	}{
		{"many buckets", trial{rate: 10, buckets: 10, limits: wide(1), warm: 3 * minute, run: 9 * minute}, estimate.Load{}},
		{"buckets used rarely", trial{rate: 10, buckets: 500, limits: wide(1), warm: 6 * minute, run: 5 * minute}, estimate.Load{}},
		{"cascade", trial{rate: 20, buckets: 20, cascade: true, parents: 4, limits: wide(1), warm: 3 * minute, run: 270 * time.Second}, estimate.Load{Cascade: 1}},
		{"adjustments", trial{rate: 10, buckets: 10, adjusted: 0.5, limits: wide(1), warm: 3 * minute, run: 9 * minute}, estimate.Load{Adjusted: 0.5}},
		{"items above 1 KB", trial{rate: 5, buckets: 5, limits: wide(20), warm: 3 * minute, run: 9 * minute}, estimate.Load{}},
		{"a hot bucket, 1,000/s", trial{rate: 1000, buckets: 1, limits: wide(1), warm: time.Second, run: 4 * time.Second}, estimate.Load{}},
		{"refused, slow limits", trial{rate: 10, buckets: 10, limits: perMinute(10), warm: 2 * minute, run: 9 * minute}, estimate.Load{}},
		{"refused from memory", trial{rate: 16, buckets: 4, limits: perMinute(60), warm: 2 * minute, run: 5 * minute}, estimate.Load{}},
		{"refused, 4 processes", trial{rate: 16, processes: 4, buckets: 4, limits: perMinute(120), warm: 2 * minute, run: 4 * minute}, estimate.Load{}},
		{"refused, 16 processes", trial{rate: 40, processes: 16, buckets: 10, limits: perMinute(120), warm: 2 * minute, run: 2 * minute}, estimate.Load{}},
		{"contention of 2, 10 %", trial{rate: 2, processes: 2, buckets: 10, limits: perMinute(120), warm: 2 * minute, run: 18 * minute}, estimate.Load{Used: 0.1}},
		{"contention of 16, 30 %", trial{rate: 6, processes: 16, buckets: 10, limits: perMinute(120), warm: 2 * minute, run: 9 * minute}, estimate.Load{Used: 0.3}},
		{"a hot bucket of 16, 1,000/s", trial{rate: 1000, processes: 16, buckets: 1, limits: wide(1), warm: 2 * time.Second, run: 4 * time.Second}, estimate.Load{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkUnits(t, c.trial, c.load)
		})
	}
}

// checkUnits measures a trial, and estimates the load that it was.
func checkUnits(t *testing.T, tr trial, l estimate.Load) {
	t.Helper()
	if tr.tokens = each(tr.limits); tr.latency == 0 {
		tr.latency = 5 * ms
	}
	b, seconds := measure(t, tr), tr.run.Seconds()
	l.Rate, l.Processes, l.Buckets, l.Parents = float64(b.requests)/seconds, tr.processes, tr.buckets, tr.parents
	l.Limits, l.Latency = len(tr.limits), tr.latency
	if l.Refused = float64(b.refused) / float64(b.requests); b.refused > 0 {
		l.RefusedOf = l.Refused
	}
	e, err := estimate.New(l)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "write units", e.Sum.Writes, b.wcu/seconds)
	if b.rcu/seconds > 0.2 { // of a hot bucket, a single comparison may fall into the time or not
		within(t, "read units", e.Sum.Reads, b.rcu/seconds)
	}
}

// A bucket that comes near 1,000 writes a second gets more shards.
func TestABusyBucketHasShards(t *testing.T) {
	t.Parallel()
	e, err := estimate.New(estimate.Load{Rate: 2000, Buckets: 1, Limits: 1, Latency: ms})
	if err != nil {
		t.Fatal(err)
	}
	if e.Shards < 2 || e.Sum.Writes < 1000 || e.Sum.Writes > 2000 {
		t.Errorf("%.0f write units a second on %d shards", e.Sum.Writes, e.Shards)
	}
}

// within fails if an estimate is off by more than is stated.
func within(t *testing.T, what string, estimated, billed float64) {
	t.Helper()
	off := estimated/billed - 1
	t.Logf("%s: %.3f estimated, %.3f billed (%+.1f %%)", what, estimated, billed, off*100)
	if !(math.Abs(off) <= estimate.Accuracy) {
		t.Errorf("%s: %.3f estimated, %.3f billed (%+.1f %%)", what, estimated, billed, off*100)
	}
}
