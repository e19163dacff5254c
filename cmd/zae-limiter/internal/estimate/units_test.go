package estimate_test

import (
	"math"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
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

func perMinute(n int64) []store.Limit { return []store.Limit{limiter.PerMinute("rpm", n)} }

const minute = time.Minute

// A trial is a load that is put on the engine in virtual time.
type trial struct {
	rate                        float64 // requests a second
	processes, buckets, parents int     // buckets cascade if there are parents
	adjusts                     bool    // every second request does
	limits                      []store.Limit
	warm, run                   time.Duration // the load runs for warm before the bill begins
}

// billed carries a trial out, and returns what it cost a second, by the engine's ledger, and the load
// that it was.
func billed(t *testing.T, tr *trial) (b estimate.Billed, l estimate.Load) {
	t.Helper()
	call := scenario.Call{Weight: 1}
	for _, limit := range tr.limits {
		call.Consume = append(call.Consume, scenario.Amount{Limit: limit.Name, Least: 1, Most: 1})
	}
	calls := []scenario.Call{call}
	if tr.adjusts {
		call.Settle = []scenario.Amount{{Limit: tr.limits[0].Name, Least: 2, Most: 2}}
		calls = append(calls, call)
		l.Adjusted = 0.5
	}
	const clients = 10_000
	p := planned(t, &scenario.Scenario{
		Name: "trial", Limiters: max(1, tr.processes), Sides: []scenario.Side{scenario.Limiter}, WarmUp: tr.warm,
		Phases:      []scenario.Phase{{Name: "all", For: tr.run}},
		Resources:   []scenario.Resource{{Name: "api", Limits: tr.limits}},
		Populations: []scenario.Population{{Name: "key", Count: tr.buckets, Parents: tr.parents}},
		Classes: []scenario.Class{{
			Name: "c", From: []scenario.Share{{Weight: 1}}, Resources: []scenario.Weighted{{Weight: 1}}, Calls: calls,
			Arrival: scenario.Arrival{Stages: []scenario.Stage{{FromRate: tr.rate, ToRate: tr.rate}}, Poisson: true, Clients: clients},
		}},
	})
	b, err := estimate.BilledOf(p, estimate.ScenarioOptions{Latency: 5 * ms})
	if err != nil {
		t.Fatal(err)
	}
	l.Rate, l.Processes, l.Buckets, l.Parents, l.Limits, l.Latency = b.Requests, tr.processes, tr.buckets, tr.parents, len(tr.limits), 5*ms
	if tr.parents > 0 {
		l.Cascade = 1
	}
	if l.Refused = b.Refused / b.Requests; l.Refused > 0 {
		l.RefusedOf = l.Refused
	}
	return b, l
}

// Loads of few effects at once are estimated as near as RatesAccuracy says to what the engine's ledger
// bills, index writes included.
func TestUnitsAreThoseOfTheLedger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		trial trial
		used  float64 // of the limits; 0 is the default
	}{
		{"many buckets", trial{rate: 10, buckets: 10, limits: wide(1), warm: 3 * minute, run: 9 * minute}, 0},
		{"buckets used rarely", trial{rate: 10, buckets: 500, limits: wide(1), warm: 6 * minute, run: 5 * minute}, 0},
		{"cascade", trial{rate: 20, buckets: 20, parents: 4, limits: wide(1), warm: 3 * minute, run: 270 * time.Second}, 0},
		{"adjustments", trial{rate: 10, buckets: 10, adjusts: true, limits: wide(1), warm: 3 * minute, run: 9 * minute}, 0},
		{"items above 1 KB", trial{rate: 5, buckets: 5, limits: wide(20), warm: 3 * minute, run: 9 * minute}, 0},
		{"a hot bucket, 1,000/s", trial{rate: 1000, buckets: 1, limits: wide(1), warm: time.Second, run: 4 * time.Second}, 0},
		{"refused, slow limits", trial{rate: 10, buckets: 10, limits: perMinute(10), warm: 2 * minute, run: 9 * minute}, 0},
		{"refused from memory", trial{rate: 16, buckets: 4, limits: perMinute(60), warm: 2 * minute, run: 5 * minute}, 0},
		{"refused, 4 processes", trial{rate: 16, processes: 4, buckets: 4, limits: perMinute(120), warm: 2 * minute, run: 4 * minute}, 0},
		{"refused, 16 processes", trial{rate: 40, processes: 16, buckets: 10, limits: perMinute(120), warm: 2 * minute, run: 2 * minute}, 0},
		{"contention of 2, 10 %", trial{rate: 2, processes: 2, buckets: 10, limits: perMinute(120), warm: 2 * minute, run: 18 * minute}, 0.1},
		{"contention of 16, 30 %", trial{rate: 6, processes: 16, buckets: 10, limits: perMinute(120), warm: 2 * minute, run: 9 * minute}, 0.3},
		{"a hot bucket of 16, 1,000/s", trial{rate: 1000, processes: 16, buckets: 1, limits: wide(1), warm: 2 * time.Second, run: 4 * time.Second}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, l := billed(t, &c.trial)
			l.Used = c.used
			e, err := estimate.New(l)
			if err != nil {
				t.Fatal(err)
			}
			within(t, "write units", e.Sum.Writes, b.Writes, estimate.RatesAccuracy)
			if b.Reads > 0.2 { // of a hot bucket, a single comparison may fall into the time or not
				within(t, "read units", e.Sum.Reads, b.Reads, estimate.RatesAccuracy)
			}
		})
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
func within(t *testing.T, what string, estimated, billed, accuracy float64) {
	t.Helper()
	off := estimated/billed - 1
	t.Logf("%s: %.3f estimated, %.3f billed (%+.1f %%)", what, estimated, billed, off*100)
	if !(math.Abs(off) <= accuracy) {
		t.Errorf("%s: %.3f estimated, %.3f billed (%+.1f %%)", what, estimated, billed, off*100)
	}
}
