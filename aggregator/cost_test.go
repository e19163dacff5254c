package aggregator_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A bill is the cost of batches of 100 records, all in three windows, index writes
// included.
type bill struct {
	of       string
	requests int64
	rcu, wcu float64
}

var bills = []bill{
	{"the first batch of a process: the namespace is opened", 5, 3, 9},
	{"one entity, new windows", 3, 0, 9},
	{"one entity", 3, 0, 3},
	{"one entity, of ten limits", 3, 0, 3},
	{"one entity, delivered again", 3, 0, 3},
	{"50 acquires of one entity that cascade to another", 6, 0, 6},
	{"100 entities, new windows", 300, 0, 900},
	{"100 entities", 300, 0, 300},
}

// checkBills processes batches and adds up their cost, as the engine measures it. A hundred
// acquires of one entity may cost a fifth of a write unit each. No batch may send more
// requests than one read, and a write for each bucket and window.
func checkBills(w *world, engine *dynamolite.DB) {
	w.Helper()
	many := tokens{}
	limits := []limiter.Limit{limiter.PerDay("rpd", 1_000_000)}
	for i := range 10 {
		name := fmt.Sprintf("l%02d", i)
		limits = append(limits, limiter.PerDay(name, 1_000_000))
		many[name] = 1
	}
	w.System(limits...)
	w.Entities(limiter.Entity{ID: "team"}, testbed.Child("key", "team"))
	batches := map[string][]stream.Record{}
	batch := func(of string, n int, take func(i int)) {
		w.Helper()
		for i := range n {
			take(i)
		}
		var records []stream.Record
		for late := time.Now().Add(time.Minute); len(records) < 100 && time.Now().Before(late); {
			for _, r := range w.drain() {
				if r.New != nil {
					r.At = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) // one window, however long the test takes
					records = append(records, r)
				}
			}
		}
		if len(records) != 100 {
			w.Fatalf("%s: %d records", of, len(records))
		}
		batches[of] = records
	}
	one := func(req limiter.Request) func(int) {
		return func(int) { w.Take(w.Limiter, req) }
	}
	each := func(i int) { w.Take(w.Limiter, ask(fmt.Sprint("user", i), "rpd", 1)) }
	batch("the first batch of a process: the namespace is opened", 100, one(ask("first", "rpd", 1)))
	batch("one entity, new windows", 100, one(ask("user", "rpd", 1)))
	batch("one entity", 100, one(ask("user", "rpd", 1)))
	batches["one entity, delivered again"] = batches["one entity"]
	batch("one entity, of ten limits", 100, one(askAll("user", many)))
	batch("50 acquires of one entity that cascade to another", 50, one(ask("key", "rpd", 1)))
	w.process(batches["50 acquires of one entity that cascade to another"])
	batch("50 acquires of one entity that cascade to another", 50, one(ask("key", "rpd", 1)))
	batch("100 entities, new windows", 100, each)
	batch("100 entities", 100, each)

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
