package loadtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// The buckets of all strangers are in one partition of two indexes, and each creation reads the
// same two levels of configuration. Either throttles creations, those of honest newcomers too.
// Neighbours, whose buckets exist, do not notice.
func TestLongStrangers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limits dynamolite.Limits
	}{
		{"partitions", dynamolite.Limits{PartitionWriteUnits: 1_000, PartitionReadUnits: 3_000}},
		{"only reads", dynamolite.Limits{PartitionReadUnits: 3_000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, _ := options(builtin(t, "strangers", 8*time.Second), dynamolite.Options{Limits: tt.limits, Latency: dynamolite.Latency{P50: 5 * time.Millisecond}})
				r := run(t, o)
				for i := range r.Sides {
					logSide(t, &r.Sides[i])
					checkStrangers(t, &r.Sides[i], tt.limits.PartitionWriteUnits > 0)
				}
			})
		})
	}
}

// The buckets of new entities are made by the load, and those of the others before it.
func TestNewBucketsAreMadeByTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(builtin(t, "strangers", 400*time.Millisecond), dynamolite.Options{})
		r := run(t, o)
		for i := range r.Sides {
			for _, phase := range r.Sides[i].Phases {
				for k := range phase.Classes {
					c, p, units := &phase.Classes[k], &phase.Populations[k], 4.0 // a new item has entries in three indexes
					if c.Name == "neighbours" {
						units = 1
					}
					if c.Answers.Admitted != c.Due || c.Due == 0 || p.Writes.Sent != c.Due || p.Cost.WCU != units*float64(c.Due) {
						t.Errorf("%s, %s, %s: %d due, %+v, %+v", r.Sides[i].Name, phase.Name, c.Name, c.Due, c.Answers, p)
					}
				}
			}
		}
	})
}

// checkStrangers checks what a side did under the attack. isFull says that the indexes throttle.
func checkStrangers(t *testing.T, side *result.Side, isFull bool) {
	t.Helper()
	quiet, attack := &side.Phases[0], &side.Phases[1]
	neighbours, newcomers := &attack.Classes[0], &attack.Classes[1]
	if a := neighbours.Answers; a.Admitted != neighbours.Due || side.Wrong.Answers() != 0 {
		t.Errorf("%s, neighbours: %d due, %+v, %+v", side.Name, neighbours.Due, a, side.Wrong)
	}
	if before, under := quiet.Classes[0].Latency.P99, neighbours.Latency.P99; float64(under) > 1.2*float64(before) {
		t.Errorf("%s, neighbours: p99 %v, quiet %v", side.Name, under, before)
	}
	strangers := population(attack, "stranger")
	if a := &attack.Classes[2].Answers; strangers.Cost.WCU < 4*float64(a.Admitted) || a.Admitted == 0 {
		t.Errorf("%s, strangers: %+v, %+v", side.Name, a, strangers)
	}
	if throttled := strangers.Writes.Reasons["IndexWriteKeyRangeThroughputExceeded"]; throttled > 0 != isFull || newcomers.Answers.Throttled == 0 {
		t.Errorf("%s: %+v, newcomers %+v", side.Name, strangers.Writes, newcomers.Answers)
	}
}

// logSide logs the figures of docs/measurements/strangers.md.
func logSide(t *testing.T, side *result.Side) {
	t.Helper()
	for i := range side.Phases {
		p := &side.Phases[i]
		for k := range p.Classes {
			c := &p.Classes[k]
			t.Logf("%s, %s, %s: %d of %d admitted, p50 %.1f ms, p99 %.1f ms", side.Name, p.Name, c.Name, c.Answers.Admitted, c.Due, c.Latency.P50, c.Latency.P99)
		}
		for k := range p.Populations {
			of := &p.Populations[k]
			t.Logf("%s, %s, %s: %d of %d writes throttled %v, %.0f WCU, %.0f RCU", side.Name, p.Name, of.Name, of.Writes.Throttled, of.Writes.Sent, of.Writes.Reasons, of.Cost.WCU, of.Cost.RCU)
		}
	}
}
