package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// Units are those that a part of a run cost.
type units struct{ writes, reads float64 }

func (u units) less(v units) units { return units{u.writes - v.writes, u.reads - v.reads} }

// A driven is what a run of a scenario cost on the engine, by its ledger.
type driven struct {
	registered, primed, load units
	operations, refused      int64
}

// drive runs the first side of a scenario without a warm-up in virtual time, as loadtest run does.
// Its limiters have other random numbers than those of an estimate.
func drive(t *testing.T, p *scenario.Plan, o estimate.ScenarioOptions) (d driven) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := testbed.NewEngine(t, dynamolite.Options{Latency: dynamolite.Latency{P50: o.Latency}})
		for _, table := range []dynamo.TableOptions{
			{Name: testbed.Table, KeepExpired: true}, {Name: testbed.Table + "-bare", GSI2Projection: dynamo.ProjectAll, KeepExpired: true},
		} {
			if err := dynamo.CreateTable(t.Context(), db, table); err != nil {
				t.Fatal(err)
			}
		}
		spent := func() units {
			all := db.Ledger().Total()
			return units{all.WriteUnits, all.ReadUnits}
		}
		before, at := spent(), map[string]units{}
		r, err := loadtest.Run(t.Context(), loadtest.Options{
			Scenario: &p.Scenario, API: db, Table: testbed.Table, Namespace: "run", Keep: true,
			Observe: func(now loadtest.Progress) { at[now.Preparing] = spent() },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, phase := range r.Sides[0].Phases {
			d.load.writes, d.load.reads = d.load.writes+phase.Cost.WCU, d.load.reads+phase.Cost.RCU
			for _, c := range phase.Classes {
				d.operations, d.refused = d.operations+c.Answers.Operations, d.refused+c.Answers.Refused
			}
		}
		made, over := at["making the buckets"], at["comparing the books with the table"]
		d.registered, d.primed = made.less(before), over.less(made).less(d.load)
	})
	return d
}
