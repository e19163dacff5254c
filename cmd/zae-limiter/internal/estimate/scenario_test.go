package estimate_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// builtin returns a scenario of the program that lasts a time.
func builtin(t *testing.T, name string, long time.Duration) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Scaled(min(s.Duration(), long))
}

func planned(t *testing.T, s *scenario.Scenario) *scenario.Plan {
	t.Helper()
	p, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sumOf(parts []estimate.Cost) (sum estimate.Cost) {
	for _, p := range parts {
		sum.Requests += p.Requests
		sum.Writes += p.Writes
		sum.Reads += p.Reads
	}
	return sum
}

// Each scenario of the program, each side on its own.
func TestLongestAScenarioCostsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := 4 * time.Second
			if slices.Contains([]string{"attack", "hot", "llm", "max-rps", "spread", "strangers", "stress"}, name) { // many operations
				long = time.Second
			}
			s := builtin(t, name, long)
			for _, side := range s.Sides {
				alone := *s
				alone.Sides = []scenario.Side{side}
				checkScenario(t, planned(t, &alone))
			}
		})
	}
}

// checkScenario carries out a scenario on the engine, and compares what it cost with the estimate.
// Two runs of few operations differ by chance: if they are too far apart, some more of both are
// added up.
func checkScenario(t *testing.T, p *scenario.Plan) {
	t.Helper()
	const runs = 6
	sums := comparison{}
	var wrong []string
	for range runs {
		sums.add(t, p)
		if wrong = sums.wrong(p); len(wrong) == 0 {
			return
		}
	}
	t.Errorf("%d runs of side %s: %s", runs, p.Sides[0], strings.Join(wrong, "; "))
}

// A comparison has what was estimated and what was billed, by its name.
type comparison map[string]pair

type pair struct{ estimated, billed float64 }

// add carries out and estimates a scenario once more.
func (c comparison) add(t *testing.T, p *scenario.Plan) {
	t.Helper()
	o := estimate.ScenarioOptions{Latency: 5 * ms}
	d := drive(t, p, o)
	r, err := estimate.Scenario(p, o)
	if err != nil {
		t.Fatal(err)
	}
	// Users that do not think acquire again at once. The order of goroutines says how many
	// share a write, and so how many operations a second has. Where they share all writes, a second
	// costs the same; where they share none, an operation does: both are compared with the bill.
	scale := 1.0
	if slices.ContainsFunc(p.Classes, acquiresAtOnce) {
		scale = float64(d.operations) / r.Operations
		if scale < 0.8 || scale > 1.25 {
			t.Errorf("%v operations estimated, %d done", r.Operations, d.operations)
		}
	}
	primed, load := sumOf(r.SetUp[1:]), sumOf(r.Load)
	load.Writes, load.Reads = between(load.Writes, scale*load.Writes, d.load.writes), between(load.Reads, scale*load.Reads, d.load.reads)
	const read = 0.2 // the price of a read unit in write units
	for name, of := range map[string]pair{
		operations: {scale * r.Operations, float64(d.operations)}, refusals: {r.Refused, float64(d.refused)},
		setUpWrites: {r.SetUp[0].Writes, d.registered.writes}, setUpReads: {r.SetUp[0].Reads, d.registered.reads},
		primedWrites: {primed.Writes, d.primed.writes},
		loadWrites:   {load.Writes, d.load.writes}, loadReads: {load.Reads, d.load.reads},
		"price of the load": {load.Writes + read*load.Reads, d.load.writes + read*d.load.reads},
	} {
		before := c[name]
		c[name] = pair{before.estimated + of.estimated, before.billed + of.billed}
	}
	t.Logf("%s: %v", p.Sides[0], c)
}

// between returns what of the interval between a and b is nearest to x.
func between(a, b, x float64) float64 { return min(max(x, min(a, b)), max(a, b)) }

// Names of the quantities that an estimate and a bill have in common.
const (
	operations, refusals    = "operations", "refused"
	setUpWrites, setUpReads = "write units of the set-up", "read units of the set-up"
	primedWrites            = "write units of the buckets"
	loadWrites, loadReads   = "write units of the load", "read units of the load"
)

// wrong tells what is further off than is stated. Few refusals and few reads differ from run to run,
// with the order of goroutines. So do the conflicts of entities that get limits of their own at once:
// all of them count in one item of the namespace, and each conflict costs a transaction more.
func (c comparison) wrong(p *scenario.Plan) (all []string) {
	const rare, few = 0.01, 0.5
	isBare := p.Sides[0] == scenario.Bare // of which the run registers the namespace twice
	for name, of := range c {
		switch {
		case isBare && (name == setUpWrites || name == setUpReads),
			name == refusals && of.billed <= rare*c[operations].billed,
			name == primedWrites && of.estimated == 0,
			name == loadReads && of.billed <= few*c[loadWrites].billed,
			name == setUpWrites && haveLimits(p) && math.Abs(of.estimated/of.billed-1) <= estimate.RatesAccuracy,
			math.Abs(of.estimated/of.billed-1) <= estimate.Accuracy:
		default:
			all = append(all, fmt.Sprintf("%s: %.0f estimated, %.0f billed (%+.1f %%)", name, of.estimated, of.billed, 100*(of.estimated/of.billed-1)))
		}
	}
	return all
}

// haveLimits reports whether some entities have limits of their own.
func haveLimits(p *scenario.Plan) bool {
	for i := range p.Entities {
		if p.Entities[i].Limits != nil {
			return true
		}
	}
	return false
}

// acquiresAtOnce reports whether a class has users that do not think.
func acquiresAtOnce(c scenario.Class) bool {
	return c.Arrival.Think == (scenario.Span{}) && slices.ContainsFunc(c.Arrival.Stages, func(s scenario.Stage) bool { return s.Users > 0 })
}

// Loads with several effects at once, which no scenario of the program has.
var combined = map[string]string{
	"four processes":                        limited(4, "60s", "600000/min", "{count: 20}", "40/s"),
	"a hot bucket of four processes":        limited(4, "8s", "1000000/sec", "{count: 1}", "1000/s"),
	"a hot bucket of sixteen processes":     limited(16, "8s", "1000000/sec", "{count: 1}", "1000/s"),
	"contention":                            limited(4, "2m", "120/min", "{count: 10}", "6/s"),
	"contention of sixteen":                 limited(16, "2m", "120/min", "{count: 10}", "6/s"),
	"half used by four processes":           limited(4, "2m", "120/min", "{count: 10}", "14/s"),
	"refusals":                              limited(1, "2m", "60/min", "{count: 4}", "16/s"),
	"refusals among four processes":         limited(4, "2m", "120/min", "{count: 4}", "16/s"),
	"refusals among sixteen processes":      limited(16, "2m", "120/min", "{count: 10}", "40/s"),
	"refused cascades":                      limited(1, "2m", "60/min", "{count: 8, parents: 2}", "8/s"),
	"refused cascades among four processes": limited(4, "2m", "60/min", "{count: 8, parents: 2}", "8/s"),
	"tokens that run out": `
name: tokens
duration: 2m
resources: {gpt: [rpm:600/min, tpm:60000/min]}
entities: {e: {count: 6}}
load: {L: {from: e, calls: [{call: acquire, consume: {rpm: 1, tpm: 800}, settle: {tpm: 200..2000}, hold: 1s}], users: 30, think: 0.1s..1s}}`,
	"calls of all kinds": `
name: calls
duration: 20s
resources: {a: [rpm:6000000/min], b: [rpm:6000000/min]}
entities: {e: {count: 5}, f: {count: 3, limits: [rpm:5000000/min]}}
load:
  L:
    from: [{entities: e}, {entities: f}]
    calls:
      - {call: acquire, weight: 5, consume: {rpm: 1}}
      - {call: available, consume: {rpm: 1}}
      - {call: set-limits}
      - {call: get-limits}
      - {call: get-entity}
      - {call: get-children}
      - {call: set-resource-defaults}
      - {call: get-resource-defaults}
      - {call: get-system-defaults}
      - {call: list-resources}
    rate: 40/s`,
}

// limited is a load of acquires of one token of one limit.
func limited(limiters int, duration, rate, entities, load string) string {
	return fmt.Sprintf(`
name: limited
limiters: %d
duration: %s
resources: {api: ["rpm:%s"]}
entities: {e: %s}
load: {L: {from: e, calls: [{call: acquire, consume: {rpm: 1}}], rate: %s, poisson: true}}`, limiters, duration, rate, entities, load)
}

func TestLongestACombinedLoadCostsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	for name, text := range combined {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Parse(name, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			checkScenario(t, planned(t, s))
		})
	}
}

// A load of too many operations is worked out in less time, and multiplied.
func TestLongestALongLoadIsMultiplied(t *testing.T) {
	t.Parallel()
	s := builtin(t, "llm-gateway", time.Minute).Scaled(3 * time.Minute)
	p := planned(t, s)
	whole, err := estimate.Scenario(p, estimate.ScenarioOptions{Aggregator: true, Cold: true})
	if err != nil {
		t.Fatal(err)
	}
	part, err := estimate.Scenario(p, estimate.ScenarioOptions{Aggregator: true, Cold: true, MaxOperations: 4500})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Simulated != 1 || part.Simulated > 0.6 {
		t.Errorf("%v and %v of the load were simulated", whole.Simulated, part.Simulated)
	}
	within(t, "operations", part.Operations, whole.Operations, estimate.Accuracy)
	within(t, "adjustments", cost(part.Load, estimate.PartAdjusted).Writes, cost(whole.Load, estimate.PartAdjusted).Writes, estimate.Accuracy)
	within(t, "adjustments of a month", rate(part.Month, estimate.PartAdjusted), rate(whole.Month, estimate.PartAdjusted), estimate.Accuracy)
	if got := cost(whole.Load, estimate.PartAdjusted).Writes / rate(whole.Month, estimate.PartAdjusted); got < 179.9 || got > 180.1 {
		t.Errorf("the run lasts %v s of the month's rate", got)
	}
	if cost(whole.Load, estimate.PartNew).Writes == 0 || rate(whole.Month, estimate.PartNew) != 0 || whole.Month.StoredBytes < 1000 || whole.Month.Invocations != 0 {
		t.Errorf("month %+v", whole.Month)
	}
}

func cost(of []estimate.Cost, name string) estimate.Cost {
	for _, c := range of {
		if c.Name == name {
			return c
		}
	}
	return estimate.Cost{}
}

func rate(e *estimate.Estimate, name string) float64 {
	for _, p := range e.Parts {
		if p.Name == name {
			return p.Writes
		}
	}
	return 0
}

// However short a load of many users is, all of them begin.
func TestALoadOfManyUsersEnds(t *testing.T) {
	t.Parallel()
	r, err := estimate.Scenario(parsed(t, `
name: many
duration: 1h
resources: {api: [rpm:100/min]}
entities: {e: {count: 50}}
load: {L: {from: e, calls: [{call: acquire, consume: {rpm: 1}}], users: 500}}
`), estimate.ScenarioOptions{MaxOperations: 10})
	if err != nil {
		t.Fatal(err)
	}
	if r.Operations < 500 || r.Simulated > 0.01 {
		t.Errorf("%v operations, of which %v were carried out", r.Operations, r.Simulated)
	}
}

// The sum of the parts is the engine's ledger, to the unit.
func TestTheSumIsTheLedgers(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 5} {
		if err := estimate.CheckSum(parsed(t, randomScenario(seed))); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"calls of all kinds", "refused cascades among four processes"} {
		if err := estimate.CheckSum(parsed(t, combined[name])); err != nil {
			t.Error(err)
		}
	}
}

// The price of a run is that of its units, and sides are summed.
func TestARunHasAPrice(t *testing.T) {
	t.Parallel()
	s := builtin(t, "attack", time.Second)
	all, err := estimate.Scenario(planned(t, s), estimate.ScenarioOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var sum estimate.Cost
	for _, side := range s.Sides {
		alone := *s
		alone.Sides = []scenario.Side{side}
		r, err := estimate.Scenario(planned(t, &alone), estimate.ScenarioOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sum.Writes += r.Sum.Writes
		sum.Reads += r.Sum.Reads
		if (r.Month == nil) != (side == scenario.Bare) {
			t.Errorf("%s: month %v", side, r.Month)
		}
	}
	// New buckets share reads of configuration if they are made at the same time (ADR 041).
	const shared = 0.05
	if !near(all.Sum.Writes, sum.Writes) || all.Sum.Reads < (1-shared)*sum.Reads || all.Sum.Reads > (1+shared)*sum.Reads || all.Seconds != 3 {
		t.Errorf("all sides cost %+v in %v s, each alone %+v", all.Sum, all.Seconds, sum)
	}
	if want := (all.Sum.Writes*0.625 + all.Sum.Reads*0.125) / 1e6; !near(all.Dollars(prices(t)), want) {
		t.Errorf("$%v, want $%v", all.Dollars(prices(t)), want)
	}
}

func TestWrongOptionsOfAScenarioAreNamed(t *testing.T) {
	t.Parallel()
	p := planned(t, builtin(t, "warm", time.Second))
	for field, o := range map[string]estimate.ScenarioOptions{
		"latency":        {Latency: -1},
		"config TTL":     {ConfigTTL: -1},
		"batch records":  {Function: estimate.Function{BatchRecords: -1}},
		"max operations": {MaxOperations: -1},
	} {
		_, err := estimate.Scenario(p, o)
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}
