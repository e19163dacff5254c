package loadtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Under 5,000 new entities a second nobody notices the attack, whose buckets are in partitions enough of the
// indexes and share the reads of their levels. On a table whose index keys are the Python package's, all new buckets
// of a resource are in one partition of two indexes: that throttles creations, those of honest
// newcomers too. Neighbours, whose buckets exist, do not notice.
func TestLongStrangers(t *testing.T) {
	t.Parallel()
	for _, keys := range []dynamo.IndexKeys{dynamo.SpreadKeys, dynamo.SharedKeys} {
		t.Run(string(keys), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := dynamolite.Limits{PartitionWriteUnits: 1_000, PartitionReadUnits: 3_000}
				o, db := options(builtin(t, "strangers", 8*time.Second), dynamolite.Options{Limits: limits, Latency: dynamolite.Latency{P50: 5 * time.Millisecond}})
				if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: o.Table, IndexKeys: keys, KeepExpired: true}); err != nil {
					t.Fatal(err)
				}
				r := run(t, o)
				for i := range r.Sides {
					logSide(t, &r.Sides[i])
					checkStrangers(t, &r.Sides[i], keys == dynamo.SpreadKeys)
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

// checkStrangers checks what a side did under the attack. isSpread says that the indexes have room.
func checkStrangers(t *testing.T, side *result.Side, isSpread bool) {
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
	if a := &attack.Classes[2].Answers; strangers.Cost.WCU != 4*float64(strangers.Writes.Sent-strangers.Writes.Throttled) || a.Admitted == 0 {
		t.Errorf("%s, strangers: %+v, %+v", side.Name, a, strangers)
	}
	if !isSpread {
		if strangers.Writes.Reasons["IndexWriteKeyRangeThroughputExceeded"] == 0 || newcomers.Answers.Throttled == 0 {
			t.Errorf("%s: %+v, newcomers %+v", side.Name, strangers.Writes, newcomers.Answers)
		}
		return
	}
	if a := newcomers.Answers; float64(a.Admitted) < 0.99*float64(newcomers.Due) || newcomers.Due == 0 {
		t.Errorf("%s, newcomers: %d due, %+v", side.Name, newcomers.Due, a)
	}
	if before, under := quiet.Classes[1].Latency.P99, newcomers.Latency.P99; float64(under) > 2*float64(before) {
		t.Errorf("%s, newcomers: p99 %v, quiet %v", side.Name, under, before)
	}
	sent, throttled := int64(0), int64(0)
	for i := range attack.Populations {
		sent, throttled = sent+attack.Populations[i].Writes.Sent, throttled+attack.Populations[i].Writes.Throttled
	}
	if float64(throttled) > 0.001*float64(sent) {
		t.Errorf("%s: %d of %d writes throttled", side.Name, throttled, sent)
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
