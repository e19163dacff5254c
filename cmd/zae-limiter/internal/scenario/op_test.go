package scenario_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// mixed is a scenario that uses every kind of choice.
const mixed = `
name: mixed
seed: 7
duration: 1m
resources:
  one: [rpm:1000/min, tpm:1000000/min]
  two: [tpm:1000000/min, other:5/min, rpm:1000/min]
entities:
  few: {count: 10, parents: 3}
  many: {count: 1000, limits: [tpm:2000/min, rpm:7/min], limited: 4}
  turns: {count: 50}
load:
  User:
    from:
      - {entities: few, weight: 20}
      - {entities: many, weight: 30, pick: power-law 1.2}
      - {entities: turns, weight: 10, pick: rotating 10s}
      - {entities: turns, weight: 40, pick: in-turn}
    resources: {one: 3, two: 1}
    calls:
      - {call: acquire, weight: 8, consume: {rpm: 1, tpm: 10..19}, settle: {tpm: 50%..150%}, hold: 1s..2s}
      - {call: available, weight: 1, consume: {rpm: 2}}
      - {call: get-entity, weight: 1}
    users: 3
    think: 10ms..20ms
  Other:
    from: few
    calls: [{call: acquire, consume: {rpm: 1}}]
    rate: 10/s
`

func parse(tb testing.TB, text string) *scenario.Scenario {
	tb.Helper()
	s, err := scenario.Parse("f", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func mixedPlan(tb testing.TB) *scenario.Plan {
	tb.Helper()
	return plan(tb, parse(tb, mixed))
}

func TestEntities(t *testing.T) {
	t.Parallel()
	p := mixedPlan(t)
	own := []store.Limit{{Name: "tpm", Capacity: 2000, Amount: 2000, Period: time.Minute}, {Name: "rpm", Capacity: 7, Amount: 7, Period: time.Minute}}
	if len(p.Entities) != 10+3+1000+50 {
		t.Fatalf("%d entities", len(p.Entities))
	}
	if diff := cmp.Diff([]int{0, 13, 1013}, p.First); diff != "" {
		t.Error(diff)
	}
	ids := map[string]bool{}
	for i, want := range map[int]scenario.Entity{
		0:    {ID: "few-0", Parent: 10},
		4:    {ID: "few-4", Parent: 11},
		12:   {ID: "few-parent-2", Parent: -1, IsParent: true},
		13:   {ID: "many-0", Population: 1, Parent: -1, Limits: own},
		16:   {ID: "many-3", Population: 1, Parent: -1, Limits: own},
		17:   {ID: "many-4", Population: 1, Parent: -1},
		1062: {ID: "turns-49", Population: 2, Parent: -1},
	} {
		if diff := cmp.Diff(want, p.Entities[i]); diff != "" {
			t.Errorf("entity %d (-want +got):\n%s", i, diff)
		}
	}
	for _, e := range p.Entities {
		if ids[e.ID] {
			t.Errorf("two entities are called %s", e.ID)
		}
		ids[e.ID] = true
	}
}

// An operation is a function of seed, class, number and instant alone, and depends on each.
func TestOpDependsOnItsArgumentsAlone(t *testing.T) {
	t.Parallel()
	p, again := mixedPlan(t), mixedPlan(t)
	other := parse(t, mixed)
	other.Seed++
	reseeded := plan(t, other)
	var sameClass, sameSeed int
	const ops = 2000
	for n := range int64(ops) {
		var a, b, c, d scenario.Op
		p.Op(0, n, time.Second, &a)
		again.Op(0, ops-1-n, time.Second, &b) // another order
		again.Op(0, n, time.Second, &b)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("operation %d (-first +again):\n%s", n, diff)
		}
		p.Op(1, n, time.Second, &c)
		reseeded.Op(0, n, time.Second, &d)
		if c.Entity == a.Entity {
			sameClass++
		}
		if cmp.Equal(a, d) {
			sameSeed++
		}
	}
	if sameClass > ops/10 || sameSeed > ops/10 {
		t.Errorf("of %d operations, %d have the entity of the other class, %d are those of another seed", ops, sameClass, sameSeed)
	}
}

func TestOpsAreInTheirBounds(t *testing.T) {
	t.Parallel()
	p := mixedPlan(t)
	rapid.Check(t, func(t *rapid.T) {
		var op scenario.Op
		n := rapid.Int64().Draw(t, "n")
		p.Op(0, n, time.Duration(rapid.Int64().Draw(t, "at")), &op)
		call := p.Classes[0].Calls[op.Call]
		limits := p.Resources[op.Resource].Limits
		if op.Kind != call.Kind || len(op.Consume) != len(limits) || len(op.Settle) != len(limits) || len(op.Limits) != len(call.Consume) {
			t.Fatalf("%+v of call %+v", op, call)
		}
		if e := p.Entities[op.Entity]; e.IsParent {
			t.Fatalf("a parent: %+v", op)
		}
		if op.Think < 10*time.Millisecond || op.Think > 20*time.Millisecond {
			t.Fatalf("think %v", op.Think)
		}
		for i, l := range limits {
			asked, used := op.Consume[i], op.Settle[i]
			switch {
			case !slices.Contains(op.Limits, i):
				if asked != 0 || used != 0 {
					t.Fatalf("limit %s is not named, but %+v", l.Name, op)
				}
			case l.Name == "rpm":
				if want := int64(1 + op.Call); asked != want || used != want {
					t.Fatalf("rpm: %+v", op)
				}
			case l.Name != "tpm" || asked < 10 || asked > 19 || used < (asked+1)/2 || used > (3*asked+1)/2:
				t.Fatalf("%s: %+v", l.Name, op)
			}
		}
		if held := op.Hold >= time.Second && op.Hold <= 2*time.Second; held != (op.Kind == scenario.Acquire) {
			t.Fatalf("hold: %+v", op)
		}
	})
}

// excess says how unlikely counts are under weights: how far chi-square is above its mean,
// in standard deviations.
func excess(counts []int, weights []float64) float64 {
	var all int
	var sum, square float64
	for i, n := range counts {
		all += n
		sum += weights[i]
	}
	for i, n := range counts {
		expected := float64(all) * weights[i] / sum
		square += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	free := float64(len(counts) - 1)
	return (square - free) / math.Sqrt(2*free)
}

// unlikely is an excess that right counts do not have. The seeds are fixed, so the tests
// always have the same result.
const unlikely = 6

func likely(t *testing.T, what string, counts []int, weights []float64) {
	t.Helper()
	if far := excess(counts, weights); far > unlikely {
		t.Errorf("%s: chi-square is %.1f standard deviations too high: %v", what, far, counts[:min(len(counts), 20)])
	}
}

// Skewed amounts have their median, and one in a hundred has the most. Their logarithms are as
// far below the median as above it.
func TestSkewedAmounts(t *testing.T) {
	t.Parallel()
	p := plan(t, parse(t, `
name: skewed
duration: 1s
resources: {r: [tpm:10000]}
entities: {e: {count: 1}}
load:
  C:
    calls: [{call: acquire, consume: {tpm: 50..4000 p50=300}, settle: {tpm: 10%..100% p50=30%}}]
    rate: 1/s
`))
	const n = 100_000
	var op scenario.Op
	var asked, shares []float64
	for i := range int64(n) {
		p.Op(0, i, 0, &op)
		asked = append(asked, float64(op.Consume[0]))
		shares = append(shares, float64(op.Settle[0])/float64(op.Consume[0]))
	}
	slices.Sort(asked)
	slices.Sort(shares)
	for _, tt := range []struct {
		name          string
		of            []float64
		quantile      float64
		want, percent float64 // which percent of want the quantile may differ
	}{
		{"tokens", asked, 0, 50, 0},
		{"tokens", asked, 0.16, 300 / 3.03, 4}, // a standard deviation below: (4000/300) to the power of 0.9945/2.326
		{"tokens", asked, 0.5, 300, 2},
		{"tokens", asked, 0.84, 300 * 3.03, 4},
		{"tokens", asked, 0.985, 3_360, 5},
		{"tokens", asked, 0.995, 4_000, 0},
		{"share", shares, 0.5, 0.3, 3},
		{"share", shares, 1, 1, 0},
	} {
		got := tt.of[min(int(tt.quantile*n), n-1)]
		if math.Abs(got-tt.want) > tt.want*tt.percent/100 {
			t.Errorf("quantile %v of %s: %v, want %v", tt.quantile, tt.name, got, tt.want)
		}
	}
}

func TestChoicesFollowTheirWeights(t *testing.T) {
	t.Parallel()
	p := mixedPlan(t)
	const ops = 400_000
	shares, resources, calls := make([]int, 3), make([]int, 2), make([]int, 3)
	few, consumed, law := make([]int, 10), make([]int, 10), make([]int, 1000)
	var op scenario.Op
	for n := range int64(ops) {
		p.Op(0, n, 0, &op)
		population := p.Entities[op.Entity].Population
		shares[population]++
		resources[op.Resource]++
		calls[op.Call]++
		switch i := op.Entity - p.First[population]; population {
		case 0:
			few[i]++
		case 1:
			law[i]++
		}
		if op.Kind == scenario.Acquire {
			consumed[slices.Max(op.Consume)-10]++
		}
	}
	likely(t, "shares", shares, []float64{20, 30, 50})
	likely(t, "resources", resources, []float64{3, 1})
	likely(t, "calls", calls, []float64{8, 1, 1})
	even := slices.Repeat([]float64{1}, 10)
	likely(t, "entities", few, even)
	likely(t, "tokens", consumed, even)
	weights := make([]float64, 1000)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -1.2)
	}
	likely(t, "power law", law, weights)
}

func TestTheCheckOfCountsNoticesAWrongLaw(t *testing.T) {
	t.Parallel()
	p := plan(t, builtin(t, "stress"))
	counts := make([]int, 50)
	var op scenario.Op
	for n := range int64(200_000) {
		p.Op(0, n, 0, &op)
		if i := op.Entity - p.First[2]; i >= 0 && i < len(counts) {
			counts[i]++
		}
	}
	weights := func(alpha float64) []float64 {
		w := make([]float64, len(counts))
		for i := range w {
			w[i] = math.Pow(float64(i+1), -alpha)
		}
		return w
	}
	likely(t, "the law of the file", counts, weights(1.5))
	if far := excess(counts, weights(1.45)); far < unlikely {
		t.Errorf("the check cannot tell 1.5 from 1.45: %.1f", far)
	}
}

// 50 %, 3 % and 47 %, and waits and amounts, as the scenario promises.
func TestStress(t *testing.T) {
	t.Parallel()
	p := plan(t, builtin(t, "stress"))
	if len(p.Entities) != 16_000 || len(p.Resources) != 8 {
		t.Errorf("%d entities, %d resources", len(p.Entities), len(p.Resources))
	}
	custom := 0
	for _, e := range p.Entities {
		if e.Limits != nil {
			custom++
		}
	}
	if custom != 300 {
		t.Errorf("%d entities have limits of their own", custom)
	}
	shares, kinds, resources := make([]int, 3), make([]int, 2), make([]int, 8)
	var op scenario.Op
	for n := range int64(200_000) {
		p.Op(0, n, 0, &op)
		shares[p.Entities[op.Entity].Population]++
		kinds[op.Kind]++
		resources[op.Resource]++
		if op.Think < 10*time.Millisecond || op.Think > 100*time.Millisecond {
			t.Fatalf("%+v", op)
		}
	}
	likely(t, "shares", shares, []float64{50, 3, 47})
	likely(t, "calls", kinds, []float64{100, 5})
	likely(t, "resources", resources, slices.Repeat([]float64{1}, 8))
}

func TestPicks(t *testing.T) {
	t.Parallel()
	s := parse(t, mixed)
	p := plan(t, s)
	at := func(pick scenario.Pick, n int64, at time.Duration) int {
		s.Classes[1].From = []scenario.Share{{Population: 2, Weight: 1, Pick: pick}}
		var op scenario.Op
		plan(t, s).Op(1, n, at, &op)
		return op.Entity - p.First[2]
	}
	for n := range int64(120) {
		if got := at(scenario.Pick{Kind: scenario.PickInTurn}, n, 0); got != int(n%50) {
			t.Errorf("in turn: operation %d has entity %d", n, got)
		}
	}
	rotating := scenario.Pick{Kind: scenario.PickRotating, For: time.Second}
	different := map[int]bool{}
	for turn := -20; turn < 20; turn++ {
		begin := time.Duration(turn) * time.Second
		first := at(rotating, 1, begin)
		if last := at(rotating, 2, begin+time.Second-1); last != first {
			t.Errorf("turn %d: %d, then %d", turn, first, last)
		}
		different[first] = true
	}
	if len(different) < 15 {
		t.Errorf("40 turns chose %d of 50 entities", len(different))
	}
}

// In each period there is one spike of its length, in which all operations are of its share.
func TestSpikes(t *testing.T) {
	t.Parallel()
	s := parse(t, mixed)
	s.Classes[1].From = []scenario.Share{
		{Population: 2, Weight: 1_000_000},
		{Population: 1, Weight: 1, Spikes: scenario.Spikes{For: 3 * time.Second, Every: 10 * time.Second}},
	}
	begins := map[time.Duration]bool{}
	for _, s := range []*scenario.Scenario{s, s.Scaled(2 * s.Duration())} {
		p := plan(t, s)
		spikes := s.Classes[1].From[1].Spikes
		const steps = 1000
		step := spikes.Every / steps
		for turn := -20; turn < 20; turn++ {
			first, last, n := -1, -1, 0
			for i := range steps {
				var op scenario.Op
				p.Op(1, int64(i), time.Duration(turn)*spikes.Every+time.Duration(i)*step, &op)
				if p.Entities[op.Entity].Population != 1 {
					continue
				}
				if n++; first < 0 {
					first = i
				}
				last = i
			}
			if want := int(spikes.For / step); n < want-1 || n > want+1 || last-first != n-1 {
				t.Errorf("turn %d: %d operations of the spike, of %d to %d, want %d together", turn, n, first, last, want)
			}
			begins[time.Duration(first)*step] = true
		}
	}
	if len(begins) < 60 {
		t.Errorf("80 spikes begin at %d instants", len(begins))
	}
}

func TestOpAllocatesNothing(t *testing.T) { // not parallel: AllocsPerRun counts for the process
	for _, name := range scenario.Names() {
		p := plan(t, builtin(t, name))
		var op scenario.Op
		n := int64(0)
		if got := testing.AllocsPerRun(1000, func() { p.Op(0, n, time.Duration(n), &op); n++ }); got > 0 {
			t.Errorf("%s: %v allocations per operation", name, got)
		}
	}
}

func BenchmarkOp(b *testing.B) {
	for _, name := range []string{"warm", "llm-gateway", "stress"} {
		b.Run(name, func(b *testing.B) {
			p := plan(b, builtin(b, name))
			var op scenario.Op
			b.ReportAllocs()
			for n := int64(0); b.Loop(); n++ {
				p.Op(0, n, 0, &op)
			}
		})
	}
}

func TestSharesAreRoundedUp(t *testing.T) {
	t.Parallel()
	for settle, want := range map[string]int64{"1%": 1, "50%": 2, "67%": 3, "100%": 3, "134%": 5} {
		p, err := parse(t, `
name: shares
duration: 1s
resources: {a: [tpm:100/min]}
entities: {e: {count: 1}}
load: {U: {from: e, users: 1, calls: [{call: acquire, consume: {tpm: 3}, settle: {tpm: `+settle+`}}]}}
`).Plan()
		if err != nil {
			t.Fatal(err)
		}
		var op scenario.Op
		if p.Op(0, 0, 0, &op); op.Settle[0] != want {
			t.Errorf("%s of 3 is %d, want %d", settle, op.Settle[0], want)
		}
	}
}

func TestAdjusts(t *testing.T) {
	t.Parallel()
	for want, op := range map[bool]scenario.Op{
		true:  {Consume: []int64{1, 5}, Settle: []int64{1, 4}},
		false: {Consume: []int64{1, 5}, Settle: []int64{1, 5}},
	} {
		if op.Adjusts() != want {
			t.Errorf("%+v adjusts: %v", op, !want)
		}
	}
}

func TestKindsHaveTheNamesOfFiles(t *testing.T) {
	t.Parallel()
	if got := scenario.GetEntity.String() + " " + scenario.CallKind(10).String(); got != "get-entity CallKind(10)" {
		t.Error(got)
	}
}
