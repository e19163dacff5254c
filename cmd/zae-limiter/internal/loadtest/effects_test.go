package loadtest_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

const latency = 10 * time.Millisecond

// Two limiters may refill the new bucket of a parent at the same instant. One of them is refused, and both leave the
// stamp of that parent alone for a while (ADR 017), until a take of each is refused because nobody has moved it. So
// a cascade may cost as many writes more.
func TestScenariosOfSingleEffects(t *testing.T) {
	t.Parallel()
	const parents, limiters, operations = 8, 2, 100.0
	const conflicts = parents * limiters / operations
	for _, tt := range []struct {
		scenario string
		rate     int64
		requests float64
		wcu      float64
		admitted bool
	}{
		{"warm", 100, 1, 1, true},
		{"cascade", 100, 2 + conflicts, 2 + conflicts, true},
		{"refused", 100, 1, 1, false},
		{"hot", 100, 1, 1, true},
		{"spread", 200, 1, 1, true},
		{"llm", 100, 2, 2, true},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := at(builtin(t, tt.scenario, time.Second), float64(tt.rate), 8)
				s.Limiters = limiters
				o, _ := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
				r := run(t, o)
				side := &r.Sides[0]
				c := class(side)
				if c.Due != tt.rate || c.Seconds < 1 || r.Unreliable != "" {
					t.Errorf("%d due in %v s, unreliable: %s", c.Due, c.Seconds, r.Unreliable)
				}
				want := result.Answers{Operations: tt.rate, Refused: tt.rate}
				if tt.admitted {
					want.Refused, want.Admitted = 0, tt.rate
				}
				if c.Answers != want {
					t.Errorf("answers %+v, want %+v", c.Answers, want)
				}
				if cost := side.Phases[0].Cost.Per(tt.rate); cost.Requests > tt.requests || cost.WCU > tt.wcu || cost.RCU != 0 {
					t.Errorf("cost of an operation %+v, want %v requests and %v WCU at most", cost, tt.requests, tt.wcu)
				}
				if tt.scenario == "llm" && side.Phases[0].Cost.Per(tt.rate).Requests < 1.9 {
					t.Errorf("%+v: it is not settled", side.Phases[0].Cost)
				}
				p := &side.Phases[0].Populations[0]
				if side.Wrong.Answers() != 0 || p.Writes.Throttled != 0 || p.Shards != 1 {
					t.Errorf("%+v, %+v, %d shards", side.Wrong, p.Writes, p.Shards)
				}
				if cost := side.Phases[0].Cost.WCU; tt.scenario == "cascade" && (float64(p.Writes.Sent) != cost || p.Writes.Sent < 2*tt.rate) {
					t.Errorf("%d writes to items of the population and its parents, want %v and two for each operation", p.Writes.Sent, cost)
				}
				for _, u := range side.Limits {
					if u.Percent() != 100 || u.Entitled == 0 {
						t.Errorf("%+v", u)
					}
				}
			})
		})
	}
}

// In every scenario the meter agrees with the engine's bill, the books with the table, and
// the samples with the whole; no answer is wrong and nothing is left.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := builtin(t, name, 4*time.Second)
				if name != "attack" {
					s.Sides = []scenario.Side{scenario.Limiter}
				}
				if name == "stress" {
					of(s, s.Populations[0].Count).Populations[2].Count = 500
				}
				o, db := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
				r := run(t, o)
				if bill := db.Ledger().Total(); r.Spent.RCU != bill.ReadUnits || r.Spent.WCU != bill.WriteUnits {
					t.Errorf("spent %+v, the engine billed %+v", r.Spent, bill)
				}
				for i := range r.Sides {
					checkSide(t, &r.Sides[i])
				}
				gone(t, db, o)
			})
		})
	}
}

func checkSide(t *testing.T, s *result.Side) {
	t.Helper()
	if s.Wrong != nil && s.Wrong.Answers() != 0 {
		t.Errorf("%s: %+v", s.Name, s.Wrong)
	}
	b := s.Balance
	if b.Wrong != 0 || b.Buckets == 0 || b.Expired+b.Left != 0 || b.Found < b.Booked || b.Found > b.Booked+b.Open {
		t.Errorf("%s: %+v", s.Name, b)
	}
	for i := range s.Phases {
		var whole, sum result.Answers
		var wcu float64
		var sampled int64
		for k := range s.Phases[i].Classes {
			c := &s.Phases[i].Classes[k]
			if c.Answers.Failed != 0 || c.Answers.Operations == 0 || c.Due != c.Answers.Operations {
				t.Errorf("%s, %s: %d due, %+v", s.Name, c.Name, c.Due, c.Answers)
			}
			var inBins int64
			for _, bin := range c.Latency.Histogram {
				inBins += bin.Count
			}
			if inBins != c.Answers.Operations {
				t.Errorf("%s, %s: %d operations in the histogram, want %d", s.Name, c.Name, inBins, c.Answers.Operations)
			}
			whole.Operations += c.Answers.Operations
			whole.Admitted += c.Answers.Admitted
			whole.Refused += c.Answers.Refused
			if in := classSamples(s, i, c.Name); len(s.Phases[i].Classes) > 1 && (in.Operations != c.Answers.Operations || in.Refused != c.Answers.Refused) {
				t.Errorf("%s, %s: the samples have %+v, want %+v", s.Name, c.Name, in, c.Answers)
			}
		}
		for _, sample := range s.Samples {
			if sample.Phase == i {
				sum.Operations += sample.Done
				sum.Admitted += sample.Admitted
				sum.Refused += sample.Refused
				sampled += sample.Writes
				wcu += sample.Cost.WCU
			}
		}
		var writes int64
		for k := range s.Phases[i].Populations {
			writes += s.Phases[i].Populations[k].Writes.Sent
		}
		if sampled < writes {
			t.Errorf("%s: samples of phase %d have %d writes, want %d at least", s.Name, i, sampled, writes)
		}
		if i == 0 && len(s.Phases) == 1 && sampled > writes+writes/10+100 {
			t.Errorf("%s: samples have %d writes, the populations %d", s.Name, sampled, writes)
		}
		if sum != whole || math.Abs(wcu-s.Phases[i].Cost.WCU) > 1e-6 {
			t.Errorf("%s: samples of phase %d: %+v and %v WCU, want %+v and %v", s.Name, i, sum, wcu, whole, s.Phases[i].Cost.WCU)
		}
	}
}

// Buckets of an exhausted population are empty before the load begins.
func TestExhaustedBucketsAreEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := limited(of(at(builtin(t, "refused", time.Second), 100, 3), 4), limiter.PerDay("rpd", 5))
		s.Limiters = 3
		o, _ := options(s, dynamolite.Options{})
		side := &run(t, o).Sides[0]
		if a := class(side).Answers; a != (result.Answers{Operations: 100, Refused: 100}) || side.Limits[0].Admitted != 4*5 ||
			side.Limits[0].Demanded != 4*5+2*4+100 || side.Wrong.Answers() != 0 {
			t.Errorf("%+v, %+v, %+v", a, side.Limits, side.Wrong)
		}
	})
}

// All operations that become due during a stall show it, not only one for each client.
func TestAStallIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, db := options(at(builtin(t, "hot", 10*time.Second), 100, 2), dynamolite.Options{})
		o.API = faults.Wrap(db, stall(time.Now().Add(4*time.Second), time.Second))
		r := run(t, o)
		l := class(&r.Sides[0]).Latency
		if l.P50 != 0 || l.Max != 1000 {
			t.Errorf("p50 %v, max %v, want 0 and 1000 ms", l.P50, l.Max)
		}
		// A tenth of the operations became due in that second, so 5 % of all waited for
		// more than half of it.
		if !near(l.P95, 500) || !near(l.P99, 900) || !near(l.P999, 990) {
			t.Errorf("%+v, want 500, 900 and 990 ms", l)
		}
		// The system was late, not the generator.
		if lag := class(&r.Sides[0]).Lag; lag.Max != 0 || r.Unreliable != "" {
			t.Errorf("lag %+v, %s", lag, r.Unreliable)
		}
	})
}

// near allows for instants 10 ms apart, and for the three digits of the histogram.
func near(got, want result.Milliseconds) bool { return math.Abs(float64(got-want)) <= 11 }

func TestTheEntitlementIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := limited(at(builtin(t, "hot", 10*time.Second), 50, 64), limiter.PerSecond("rps", 10, limiter.Burst(100)))
		o, _ := options(s, dynamolite.Options{})
		side := &run(t, o).Sides[0]
		// The last of 500 operations and the one before the load are 9.98 s apart: 100
		// tokens and 99.8.
		want := result.LimitUse{Population: "entity", Resource: "api", Limit: "rps", Demanded: 501, Entitled: 199, Admitted: 199}
		if side.Limits[0] != want || side.Wrong.Answers() != 0 {
			t.Errorf("%+v, %+v, want %+v", side.Limits[0], side.Wrong, want)
		}
		if a := class(side).Answers; a.Admitted != 198 || a.Refused != 302 {
			t.Errorf("%+v", a)
		}
	})
}

// What an operation uses beyond what it asked for becomes debt, and is not wrong.
func TestDebtIsNotWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := limited(at(builtin(t, "hot", 10*time.Second), 50, 64), limiter.PerSecond("rps", 10, limiter.Burst(100)))
		s.Classes[0].Calls[0].Settle = []scenario.Amount{{Limit: "rps", Least: 0, Most: 40}}
		o, _ := options(s, dynamolite.Options{})
		side := &run(t, o).Sides[0]
		checkSide(t, side)
		if u := side.Limits[0]; u.Admitted < u.Entitled/2 {
			t.Errorf("%+v", u)
		}
	})
}

func TestBareWritesRunBeside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := builtin(t, "hot", time.Second)
		s.Sides, s.WarmUp = []scenario.Side{scenario.Limiter, scenario.Bare}, time.Second
		s.Classes[0].Arrival.Stages[0].Users = 4
		o, db := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
		r := run(t, o)
		bare := &r.Sides[1]
		// Four users, each with an operation every 10 ms, which also writes to the index.
		if c := class(bare); c.Answers != (result.Answers{Operations: 400, Admitted: 400}) || c.PerSecond() != 400 || c.Latency.P50.Duration() != latency {
			t.Errorf("%+v, %v a second", c, c.PerSecond())
		}
		if cost := bare.Phases[0].Cost; cost.Requests != 400 || cost.WCU != 2*400 || cost.RCU != 0 || bare.Wrong != nil || bare.Balance.Wrong != 0 {
			t.Errorf("%+v, %v, %+v", cost, bare.Wrong, bare.Balance)
		}
		gone(t, db, o)
		refused := builtin(t, "refused", time.Second)
		refused.Sides = []scenario.Side{scenario.Bare}
		o.Scenario = refused
		if a := class(&run(t, o).Sides[0]).Answers; a.Refused != a.Operations || a.Refused == 0 {
			t.Errorf("of exhausted items: %+v", a)
		}
		llm := builtin(t, "llm", time.Second)
		llm.Sides = []scenario.Side{scenario.Bare}
		o.Scenario = llm
		checkSide(t, &run(t, o).Sides[0])
	})
}

// The API and the operations both count throttles.
func TestThrottlesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := at(builtin(t, "hot", 10*time.Second), 300, 64)
		s.Sides = []scenario.Side{scenario.Bare}
		o, _ := options(s, dynamolite.Options{Limits: dynamolite.Limits{PartitionWriteUnits: 100}})
		side := &run(t, o).Sides[0]
		// The capacity for one second at once, and ten seconds of 100.
		a := class(side).Answers
		if a.Throttled < 1890 || a.Throttled > 1910 || a.Admitted+a.Throttled != 3000 || a.FirstError == "" {
			t.Errorf("%+v", a)
		}
		w := side.Phases[0].Populations[0].Writes
		if w.Sent != 3000 || w.Throttled != a.Throttled || w.EarlySent != 600 || w.Reasons["TableWriteKeyRangeThroughputExceeded"] != w.Throttled {
			t.Errorf("%+v", w)
		}
		if w.Early() < 0.49 || w.Early() > 0.51 || w.Late() < 0.66 || w.Late() > 0.67 {
			t.Errorf("%v throttled early, %v late", w.Early(), w.Late())
		}
		if u := side.Limits[0]; u.Demanded != 3000 || u.Entitled != 3000 || u.Admitted != a.Admitted {
			t.Errorf("%+v", u)
		}
		if b := side.Balance; b.Open != a.Throttled || b.Found != a.Admitted || b.Wrong != 0 {
			t.Errorf("%+v", b)
		}
	})
}

// population finds a population of a phase.
func population(p *result.Phase, name string) *result.Population {
	return &p.Populations[slices.IndexFunc(p.Populations, func(p result.Population) bool { return p.Name == name })]
}

// use finds the use of the limit of a population.
func use(s *result.Side, population string) *result.LimitUse {
	return &s.Limits[slices.IndexFunc(s.Limits, func(u result.LimitUse) bool { return u.Population == population })]
}

// On bare items, on a table as in the advisory, the neighbours suffer through the index. On
// the limiter they do not notice the attack.
func TestLongTheAttack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// All requests take equally long, so that a percentile of few operations does not
		// depend on chance.
		o, _ := options(builtin(t, "attack", 8*time.Second), dynamolite.Options{Limits: dynamolite.AWSLimits(), Latency: dynamolite.Latency{P50: 5 * time.Millisecond}})
		r := run(t, o)
		const asked = 20 * 10 * 4
		for i := range r.Sides {
			if a := class(&r.Sides[i]).Answers; a.Errors() != 0 || a.Operations != asked {
				t.Errorf("%s, neighbours, quiet: %+v", r.Sides[i].Name, a)
			}
		}
		bare := &r.Sides[0].Phases[1]
		if w := population(bare, "attacker").Writes; w.Late() < 0.7 || w.Reasons["IndexWriteKeyRangeThroughputExceeded"] == 0 {
			t.Errorf("bare, attacker: %+v", w)
		}
		if a := bare.Classes[0].Answers; a.Throttled < asked/2 || a.Operations != asked {
			t.Errorf("bare, neighbours: %+v", a)
		}
		for i := range r.Sides[1:] {
			side := &r.Sides[1+i]
			attack := &side.Phases[1]
			if w := population(attack, "attacker").Writes; w.Late() > 0.001 || w.Sent == 0 {
				t.Errorf("%s, attacker: %+v", side.Name, w)
			}
			if u := use(side, "attacker"); u.Percent() < 99 || u.Demanded < 4*5000 || side.Wrong.Answers() != 0 {
				t.Errorf("%s, attacker: %+v, %+v", side.Name, u, side.Wrong)
			}
			if a := attack.Classes[0].Answers; a.Admitted != asked {
				t.Errorf("%s, neighbours: %+v", side.Name, a)
			}
			// Each request of a neighbour is its own write, and none of the attacker's
			// writes counts as a neighbour's.
			if p := population(attack, "neighbour"); p.Writes.Sent != asked || p.Shards != 1 {
				t.Errorf("%s, neighbours: %+v, want %d", side.Name, p, asked)
			}
			if quiet, attacked := class(side).Latency.P99, attack.Classes[0].Latency.P99; float64(attacked) > 1.2*float64(quiet) {
				t.Errorf("%s, neighbours: p99 %v, quiet %v", side.Name, attacked, quiet)
			}
		}
	})
}

// The attacker uses the neighbours' limiters on side shared, and its own otherwise.
func TestTheAttackSharesLimiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := func(limiters int) int {
			s := builtin(t, "attack", 200*time.Millisecond)
			s.Limiters = limiters
			o, db := options(s, dynamolite.Options{})
			seen := &faults.Recorder{}
			o.API = faults.Wrap(db, seen.Record)
			run(t, o)
			return opens(seen.Requests())
		}
		const sets = 3 // the neighbours', the attacker's, and the shared one
		if one, four := opened(1), opened(4); four-one != 3*sets {
			t.Errorf("%d stores were opened for one limiter, %d for four, want %d more", one, four, 3*sets)
		}
	})
}

// classSamples are the answers of a class in the samples of a phase.
func classSamples(s *result.Side, phase int, class string) (sum result.Answers) {
	for _, sample := range s.Samples {
		for _, c := range sample.Classes {
			if sample.Phase == phase && c.Name == class && c.P50 <= c.P99 {
				sum.Operations += c.Done
				sum.Refused += c.Refused
			}
		}
	}
	return sum
}
