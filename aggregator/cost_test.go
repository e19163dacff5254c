package aggregator_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A bill is the cost of a batch of 100 records, index writes included.
type bill struct {
	of       string
	requests int64
	rcu, wcu float64
}

var bills = []bill{
	{"writes, the first batch of a process: the namespace is opened", 2, 3, 0},
	{"writes", 0, 0, 0},
	{"writes of 100 entities", 0, 0, 0},
	{"deletions, the first ones of a month", 9, 104, 101},
	{"deletions, again", 8, 104, 100},
	{"deletions of buckets with hours in two months", 14, 104, 202},
}

// checkBills processes batches and adds up their cost, as the engine measures it. A record
// of a write costs nothing. A deletion costs the unit of its page, and a read: was its entity
// deleted? 25 of them share a request of each kind, and the read of the namespace.
func checkBills(w *world, engine *dynamolite.DB) {
	w.Helper()
	w.System(limiter.PerDay("rpd", 1_000_000), limiter.PerDay("tpd", 1_000_000))
	batches := map[string][]stream.Record{}
	batch := func(of string, write func()) {
		w.Helper()
		write()
		var records []stream.Record
		for late := time.Now().Add(time.Minute); len(records) < 100 && time.Now().Before(late); {
			for _, r := range w.drain() {
				if r.IsOfInterest() {
					records = append(records, r)
				}
			}
		}
		if len(records) != 100 {
			w.Fatalf("%s: %d records", of, len(records))
		}
		batches[of] = records
	}
	each := func(of string) func() {
		return func() {
			for i := range 100 {
				w.Take(w.Limiter, askAll(fmt.Sprint(of, i), tokens{"rpd": 1, "tpd": 7}))
			}
		}
	}
	one := func() {
		for range 100 {
			w.Take(w.Limiter, ask("one", "rpd", 1))
		}
	}
	batch("writes, the first batch of a process: the namespace is opened", one)
	batch("writes", one)
	batch("writes of 100 entities", each("user"))
	batch("deletions, the first ones of a month", func() {
		for i := range 100 {
			w.drop(fmt.Sprint("user", i))
		}
	})
	batches["deletions, again"] = batches["deletions, the first ones of a month"]
	both := slices.Clone(batches["deletions, again"])
	for i := range both {
		both[i].Hours = "[,rpd]ahz0:1,1;kg:2,2;" // 736 hours apart
	}
	batches["deletions of buckets with hours in two months"] = both

	w.aggregator = w.aggregate(aggregator.Options{})
	for _, want := range bills {
		before, billed := w.Meter.Totals(), dynamolite.Ledger(nil)
		if engine != nil {
			billed = engine.Ledger()
		}
		w.process(batches[want.of])
		used := w.Meter.Totals().Sub(before).Sum()
		got := bill{want.of, used.Requests, used.RCU, used.WCU}
		w.Logf("%-55s %3d requests %4.1f RCU %5.1f WCU", got.of, got.requests, got.rcu, got.wcu)
		if got != want {
			w.Errorf("%+v, want %+v", got, want)
		}
		if engine != nil {
			if by := engine.Ledger().Since(billed).Total(); by.ReadUnits != used.RCU || by.WriteUnits != used.WCU {
				w.Errorf("%s: the engine's ledger says %+v", want.of, by)
			}
		}
	}
}

func TestABatchCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := testbed.NewEngine(t, dynamolite.Options{})
		checkBills(newWorldOn(t, testbed.Options{API: engine}, engine), engine)
	})
}
