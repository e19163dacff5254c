package aggregator_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A bill is the cost of a batch of 100 records, index writes included.
type bill struct {
	of       string
	requests int64
	rcu, wcu float64
	local    float64 // rcu as DynamoDB Local has it, which bills nothing for keys without an item
}

var bills = []bill{
	{"writes, the first batch of a process: the namespace is opened", 2, 3, 0, 3},
	{"writes", 0, 0, 0, 0},
	{"writes of 100 entities", 0, 0, 0, 0},
	{"deletions, the first ones of a month", 9, 104, 101, 4},
	{"deletions, again", 8, 104, 100, 4},
	{"deletions of buckets with hours in two months", 14, 104, 202, 4},
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

	w.aggregator = w.aggregate(aggregator.Options{Concurrency: 1}) // or several requests announce the same month
	for _, want := range bills {
		if engine == nil {
			want.rcu = want.local
		}
		before, billed := w.Meter.Totals(), dynamolite.Ledger(nil)
		if engine != nil {
			billed = engine.Ledger()
		}
		w.process(batches[want.of])
		used := w.Meter.Totals().Sub(before).Sum()
		got := bill{want.of, used.Requests, used.RCU, used.WCU, want.local}
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

// A pattern is traffic of entities that are used alike. The acquires of an entity are equally far
// apart, and those of different entities fall between each other, a few at the same instant.
type pattern struct {
	name     string
	entities int
	every    time.Duration // between two acquires of an entity
	acquires int           // of each entity
	limits   int           // of a bucket
	most     float64       // write units of usage an acquire
}

// The bounds of what usage costs. An aggregator adds nothing for buckets that live.
var patterns = []pattern{
	{"many in one hour", 1, time.Second, 3000, 4, 0},
	{"every minute, one", 1, time.Minute, 5000, 2, 0.01},
	{"every minute, many", 100, time.Minute, 150, 2, 0.01},
	{"every hour, one", 1, time.Hour, 2000, 2, 0.06},
	{"every hour, many", 100, time.Hour, 100, 2, 0.06},
	{"every hour, one with four limits", 1, time.Hour, 2000, 4, 0.12},
	{"every day, one", 1, 24 * time.Hour, 1000, 2, 0.12},
	{"every day, many", 100, 24 * time.Hour, 100, 2, 0.12},
	{"every day, one with four limits", 1, 24 * time.Hour, 1000, 4, 0.15},
}

// What usage costs is what is billed beyond decisions: one unit an acquire, and three more
// when a bucket is made.
func TestUsageCosts(t *testing.T) {
	t.Parallel()
	for _, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, p.check)
		})
	}
}

var (
	usageEntities = flag.Int("usage.entities", 200, "entities of the long test of what usage costs")
	usageMinutes  = flag.Int("usage.minutes", 1300, "acquires of each that is used every minute there")
)

// TestLongUsageCosts is the same with many entities, until each has written two pages. Those that
// are used every minute are fewer, and write one.
func TestLongUsageCosts(t *testing.T) {
	for _, p := range []pattern{
		{"every minute", max(*usageEntities/100, 1), time.Minute, *usageMinutes, 2, 0.002},
		{"every hour", *usageEntities, time.Hour, 42, 2, 0.06},
		{"every day", *usageEntities, 24 * time.Hour, 42, 2, 0.12},
	} {
		t.Run(p.name, func(t *testing.T) { synctest.Test(t, p.check) })
	}
}

// together is how many entities are used at an instant, if there are as many.
const together = 4

func (p pattern) check(t *testing.T) {
	w := testbed.New(t, testbed.Options{})
	s := w.Open(dynamo.Options{UsageTTL: -1})
	l := w.NewLimiter(s, limiter.Options{})
	var limits []limiter.Limit
	consume := tokens{}
	for i, tokens := range []int64{1, 850, 120, 1}[:p.limits] {
		name := []string{"rpm", "tpm", "tpm-out", "rpd"}[i]
		limits = append(limits, limiter.PerMinute(name, 1_000_000))
		consume[name] = tokens
	}
	w.System(limits...)
	billed := w.Engine.Ledger()
	workers := min(p.entities, together)
	var all sync.WaitGroup
	for first := range workers {
		all.Go(func() {
			for i := first; i < p.acquires*p.entities; i += workers {
				lease, err := l.Acquire(t.Context(), askAll(fmt.Sprint("user", i%p.entities), consume))
				if err == nil {
					err = lease.Commit(t.Context())
				}
				w.Check(err)
				time.Sleep(p.every * time.Duration(workers) / time.Duration(p.entities))
			}
		})
	}
	all.Wait()
	const makes = 3 // index entries
	units := w.Engine.Ledger().Since(billed).Total().WriteUnits
	acquires := float64(p.acquires * p.entities)
	each := (units - acquires - float64(makes*p.entities)) / acquires
	t.Logf("%-34s %7d entities: %.4f write units of usage an acquire", p.name, p.entities, each)
	if each < 0 || each > p.most {
		t.Errorf("usage costs %.4f write units an acquire, want at most %v", each, p.most)
	}
	sum, err := s.Usage().Sum(t.Context(), usage.Query{Resource: testbed.Resource, Window: usage.Daily, Now: true})
	w.Must(err)
	if sum.Events != int64(acquires) {
		t.Errorf("%d acquires are counted, want %v", sum.Events, acquires)
	}
}

// Of processes that share a bucket, one turns, and the turns of those that meet it at that moment
// are refused: a refused write costs a unit. Each process that meets a full text saves it.
func TestUsageOfProcessesCosts(t *testing.T) {
	t.Parallel()
	const processes, hours = 8, 20
	for _, p := range []struct {
		name  string
		every time.Duration // between two acquires of a process
		apart time.Duration // between two processes
		most  float64       // write units of usage an acquire
	}{
		{"every minute, one after another", time.Minute, time.Minute / processes, 0.02},
		{"every 4 minutes, at once", 4 * time.Minute, 0, 0.08},
		{"every 4 minutes, one after another", 4 * time.Minute, 4 * time.Minute / processes, 0.08},
		{"every hour, one after another", time.Hour, time.Hour / processes, 0.06},
		{"every hour, at once", time.Hour, 0, 0.06},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var refused atomic.Int64 // turns
				countRefused := faults.On(faults.After(func(c *faults.Call, err error) error {
					in := c.Input.(*dynamodb.UpdateItemInput)
					var failed *types.ConditionalCheckFailedException
					if strings.Contains(*in.UpdateExpression, schema.OpenHour+"=:") && errors.As(err, &failed) {
						refused.Add(1)
					}
					return err
				}), "UpdateItem")
				engine := testbed.NewEngine(t, dynamolite.Options{})
				w := testbed.New(t, testbed.Options{API: faults.Wrap(engine, faults.Latency(5*time.Millisecond), countRefused)})
				w.System(limiter.PerMinute("rpm", 1_000_000), limiter.PerMinute("tpm", 1_000_000))
				w.Serve(w.Limiter, ask("user", "rpm", 1))
				each, before := int(hours*time.Hour/p.every), w.Meter.Totals()
				var all sync.WaitGroup
				for i := range processes {
					l := w.NewLimiter(w.Open(dynamo.Options{UsageTTL: -1}), limiter.Options{})
					all.Go(func() {
						time.Sleep(time.Duration(i) * p.apart)
						for range each {
							if _, err := l.Acquire(t.Context(), askAll("user", tokens{"rpm": 1, "tpm": 850})); err != nil {
								t.Error(err)
							}
							time.Sleep(p.every)
						}
					})
				}
				all.Wait()
				pages := w.Meter.Totals().Sub(before)["PutItem"].WCU
				used := (pages + float64(refused.Load())) / float64(processes*each)
				t.Logf("%-35s %.2f refused turns an hour, %v pages, %.4f write units of usage an acquire", p.name, float64(refused.Load())/hours, pages, used)
				if n := refused.Load(); n > processes*hours || used > p.most {
					t.Errorf("%d refused turns in %d hours, and %.4f units an acquire, want at most %v", n, hours, used, p.most)
				}
				sum, err := w.Store.Usage().Sum(t.Context(), usage.Query{Entity: "user", Resource: testbed.Resource, Now: true})
				w.Must(err)
				if sum.Events != int64(processes*each+1) || sum.Windows < hours {
					t.Errorf("%d acquires are counted in %d hours, want %d in %d", sum.Events, sum.Windows, processes*each+1, hours)
				}
			})
		})
	}
}

// A bucket that is used once and expires costs one unit of usage, and the month one more.
func TestUsageOfStrangersCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const strangers, makes, month = 300, 4, 1
		engine := testbed.NewEngine(t, dynamolite.Options{})
		w := newWorldOn(t, testbed.Options{API: engine}, engine)
		w.System(limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 90_000))
		billed := engine.Ledger()
		for i := range strangers {
			w.Serve(w.Limiter, askAll(fmt.Sprint("user", i), tokens{"rpm": 1, "tpm": 850}))
		}
		w.process(w.drain())
		time.Sleep(50 * time.Hour)
		w.process(w.drain())
		if got := engine.Ledger().Since(billed).Total().WriteUnits; got != makes*strangers+strangers+month {
			t.Errorf("%v write units for %d strangers", got, strangers)
		}
		sum, err := w.Store.Usage().Sum(t.Context(), usage.Query{Resource: testbed.Resource, Window: usage.Daily})
		w.Must(err)
		if sum.Events != strangers {
			t.Errorf("%d acquires are counted, want %d", sum.Events, strangers)
		}
	})
}
