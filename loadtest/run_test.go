package loadtest_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/faults"
	"github.com/zeroae/zae-limiter-go/loadtest"
	"github.com/zeroae/zae-limiter-go/loadtest/result"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
)

const latency = 10 * time.Millisecond

func TestScenariosOfSingleEffects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario string
		rate     int64
		requests float64
		wcu      float64
		admitted bool
	}{
		{"warm", 100, 1, 1, true},
		{"cascade", 100, 2, 2, true},
		{"refused", 100, 1, 1, false},
		{"hot", 100, 1, 1, true},
		{"spread", 200, 1, 1, true},
		{"llm", 100, 2, 2, true},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := at(builtin(t, tt.scenario, time.Second), float64(tt.rate), 8)
				s.Limiters = 2
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
				if writes := int64(tt.wcu) * tt.rate; tt.scenario == "cascade" && p.Writes.Sent != writes {
					t.Errorf("%d writes to items of the population and its parents, want %d", p.Writes.Sent, writes)
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
func TestTheAttack(t *testing.T) {
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

func TestAnInterruptionShowsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario string
		after    time.Duration
		check    func(t *testing.T, r *result.Result)
	}{
		{"hot", 3005 * time.Millisecond, func(t *testing.T, r *result.Result) {
			t.Helper()
			// The set-up takes some tens of milliseconds of latency.
			c := class(&r.Sides[0])
			if c.Seconds < 2 || c.Seconds > 3.005 || c.Answers.Operations < 200 || c.Answers.Errors() != 0 || len(r.Sides) > 1 {
				t.Errorf("%+v, %d sides", c, len(r.Sides))
			}
			if u := r.Sides[0].Limits[0]; u.Demanded-u.Admitted > 1 {
				t.Errorf("what was cut off counts: %+v", u)
			}
			if c.Due-c.Answers.Operations > 2 || r.Unreliable != "" {
				t.Errorf("%d were due and %d answered: %s", c.Due, c.Answers.Operations, r.Unreliable)
			}
		}},
		{"attack", 15 * time.Second, func(t *testing.T, r *result.Result) {
			t.Helper()
			if len(r.Sides) != 1 || len(r.Sides[0].Phases) != 2 || r.Sides[0].Phases[1].Classes[1].Answers.Operations == 0 {
				t.Errorf("%+v", r.Sides)
			}
		}},
		{"attack", 5 * time.Second, func(t *testing.T, r *result.Result) {
			t.Helper()
			if len(r.Sides) != 1 || len(r.Sides[0].Phases) != 1 {
				t.Errorf("%+v", r.Sides)
			}
		}},
	} {
		t.Run(tt.scenario+" after "+tt.after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := builtin(t, tt.scenario, 20*time.Second)
				if tt.scenario == "hot" {
					s.Sides = []scenario.Side{scenario.Limiter, scenario.Bare}
					at(s, 100, 64)
				}
				o, db := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
				ctx, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				r, err := loadtest.Run(ctx, o)
				if !errors.Is(err, context.DeadlineExceeded) || r == nil || !r.Interrupted {
					t.Fatalf("%+v, error %v", r, err)
				}
				tt.check(t, r)
				gone(t, db, o)
			})
		})
	}
}

// gone checks that a run leaves only tables, and audit events until they expire.
func gone(t *testing.T, db *dynamolite.DB, o loadtest.Options) {
	t.Helper()
	tables, err := db.ListTables(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables.TableNames {
		for _, ns := range []string{o.Namespace, o.Namespace + "-bare", o.Namespace + "-limiter", o.Namespace + "-shared"} {
			_, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table, Namespace: ns})
			if missing := (*limiter.NotFoundError)(nil); !errors.As(err, &missing) || missing.Kind != "namespace" {
				t.Errorf("namespace %s in %s: %v", ns, table, err)
			}
		}
		// A table's own items are its version and the default namespace. A deleted
		// namespace leaves a record and its empty registries of resources.
		left := slices.DeleteFunc(itemsOf(t, db, table), func(key string) bool {
			return strings.HasPrefix(key, "_/SYSTEM# #NSID#") || strings.HasSuffix(key, "/SYSTEM# #RESOURCES") ||
				strings.HasSuffix(key, "/SYSTEM# #ENTITY_CONFIG_RESOURCES") || strings.Contains(key, "/AUDIT#")
		})
		if diff := cmp.Diff([]string{"_/SYSTEM# #NAMESPACE#default", "_/SYSTEM# #VERSION"}, left); diff != "" {
			t.Errorf("left in %s (-want +got):\n%s", table, diff)
		}
	}
}

func TestItemsMayBeKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, db := options(at(builtin(t, "spread", time.Second), 50, 4), dynamolite.Options{})
		o.Keep = true
		run(t, o)
		if left := itemsOf(t, db, o.Table); !slices.ContainsFunc(left, func(key string) bool { return strings.Contains(key, "/BUCKET#") }) {
			t.Errorf("no bucket was kept: %v", left)
		}
	})
}

// What is observed tells the preparation, and then each second.
func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := at(builtin(t, "hot", 3*time.Second), 10, 4)
		s.WarmUp, s.Sides = time.Second, []scenario.Side{scenario.Limiter, scenario.Bare}
		o, _ := options(s, dynamolite.Options{})
		var last time.Duration
		var samples, done int64
		var prepared []string
		o.Observe = func(p loadtest.Progress) {
			if p.Planned != 6*time.Second || p.Done < last {
				t.Errorf("%v of %v after %v", p.Done, p.Planned, last)
			}
			last = p.Done
			if p.Sample == nil {
				prepared = append(prepared, string(p.Side)+": "+p.Preparing)
				return
			}
			samples, done = samples+1, done+p.Sample.Done
			if p.Sample.Due < 9 || p.Sample.Due > 11 || p.Sample.Seconds != 1 || p.Sample.Shards != 1 {
				t.Errorf("%+v", p.Sample)
			}
		}
		r := run(t, o)
		if last != 6*time.Second || samples != 6 || done != 60 || len(r.Sides[0].Samples) != 3 {
			t.Errorf("%d samples of %d operations, at last %v", samples, done, last)
		}
		if len(prepared) != 10 || prepared[2] != "limiter: warming up" {
			t.Errorf("%q", prepared)
		}
	})
}

// Users start and stop as the scenario says, and think between operations.
func TestUsersComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := builtin(t, "hot", 30*time.Second)
		s.Classes[0].Arrival = scenario.Arrival{
			Think:  scenario.Span{Least: 90 * time.Millisecond, Most: 90 * time.Millisecond},
			Stages: []scenario.Stage{{For: 10 * time.Second, Users: 10, Spawn: 1}, {For: 10 * time.Second, Users: 10}, {Users: 2, Spawn: 4}},
		}
		o, _ := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
		side := &run(t, o).Sides[0]
		var users []int
		for _, sample := range side.Samples {
			users = append(users, sample.Users)
		}
		if len(users) != 30 || users[4] < 5 || users[4] > 6 || users[15] != 10 || users[25] != 2 || users[29] != 2 {
			t.Errorf("users by second: %v", users)
		}
		// Each user has ten operations a second.
		for _, i := range []int{15, 25} {
			if sample := side.Samples[i]; sample.Done < int64(10*users[i]-2) || sample.Done > int64(10*users[i]+2) {
				t.Errorf("second %d: %+v", i, sample)
			}
		}
	})
}

// Time in which a lease is held is no latency.
func TestHoldingIsNoLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := at(builtin(t, "llm", 5*time.Second), 10, 64)
		s.Classes[0].Calls = slices.Clone(s.Classes[0].Calls)
		s.Classes[0].Calls[0].Hold = scenario.Span{Least: time.Second, Most: time.Second}
		o, _ := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
		c := class(&run(t, o).Sides[0])
		if c.Latency.P50.Duration() > 3*latency || c.Latency.P50.Duration() < latency || c.Seconds < 5.5 {
			t.Errorf("p50 %v in %v s", c.Latency.P50, c.Seconds)
		}
	})
}

// Calls that consume nothing are answered and cost reads.
func TestOtherCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := at(of(builtin(t, "spread", time.Second), 3), 100, 8)
		consume := []scenario.Amount{{Limit: s.Resources[0].Limits[0].Name, Least: 1, Most: 1}}
		s.Classes[0].Calls = []scenario.Call{
			{Weight: 1, Kind: scenario.Available, Consume: consume},
			{Weight: 1, Kind: scenario.SetLimits},
			{Weight: 1, Kind: scenario.GetLimits},
			{Weight: 1, Kind: scenario.GetEntity},
		}
		o, db := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
		side := &run(t, o).Sides[0]
		if a := class(side).Answers; a.Admitted != 100 || a.Operations != 100 {
			t.Errorf("%+v", a)
		}
		if cost := side.Phases[0].Cost; cost.RCU == 0 || cost.Requests < 100 {
			t.Errorf("%+v", cost)
		}
		gone(t, db, o)
	})
}

// Clients are spread over the limiters: each of these reads the configuration again after a
// minute.
func TestClientsUseAllLimiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := func(limiters int) float64 {
			s := at(builtin(t, "hot", 130*time.Second), 20, 8)
			s.Limiters = limiters
			o, _ := options(s, dynamolite.Options{})
			return run(t, o).Sides[0].Phases[0].Cost.RCU
		}
		if one, four := reads(1), reads(4); one == 0 || four < 3.5*one {
			t.Errorf("%v RCU with one limiter, %v with four", one, four)
		}
	})
}

// The busiest bucket of a population is the one with the most requests.
func TestTheBusiestBucket(t *testing.T) {
	t.Parallel()
	plan, err := builtin(t, "spread", time.Second).Plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range [][]int{{1}, {1, 2, 2}, {2, 1, 2}, {3, 3, 2, 2, 2, 3, 3}, {1, 1, 2, 2, 2, 1, 1}} {
		requests := map[int]int{}
		for _, e := range asked {
			requests[e]++
		}
		if got := loadtest.Busiest(plan, asked); requests[got] < slices.Max(slices.Collect(maps.Values(requests))) {
			t.Errorf("%v: entity %d", asked, got)
		}
	}
}

// A generator that wakes up late measures how late it was.
func TestTheLagIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(at(builtin(t, "hot", 2*time.Second), 100, 4), dynamolite.Options{})
		begin := time.Now()
		const tick = 19 * time.Millisecond
		o.Now = func() time.Time { // the clock shows the end of each tick
			return begin.Add((time.Since(begin) + tick - 1).Truncate(tick))
		}
		r := run(t, o)
		lag := class(&r.Sides[0]).Lag
		if lag.Max < 10 || lag.Max > 19.1 || !strings.Contains(r.Unreliable, "the generator itself was ") {
			t.Errorf("%+v, %s", lag, r.Unreliable)
		}
	})
}

// Each limiter has its own memory: its first acquire from each bucket reads.
func TestLimitersAreIndependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const entities = 4
		reads := func(limiters int) float64 {
			s := of(at(builtin(t, "spread", time.Second), 10, 64), entities)
			s.Limiters = limiters
			o, _ := options(s, dynamolite.Options{})
			return run(t, o).Spent.RCU
		}
		if one, three := reads(1), reads(3); three-one < 2*entities*0.5 {
			t.Errorf("%v RCU with one limiter, %v with three", one, three)
		}
	})
}

func TestTheSameSeedAsksForTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		demanded := func(seed uint64, clients int) (sum int64) {
			s := at(builtin(t, "llm", time.Second), 100, clients)
			s.Seed = seed
			o, _ := options(s, dynamolite.Options{})
			for _, u := range run(t, o).Sides[0].Limits {
				sum += u.Demanded
			}
			return sum
		}
		if a, b, c := demanded(1, 64), demanded(1, 3), demanded(2, 64); a != b || a == c {
			t.Errorf("%d and %d tokens of one seed, %d of another", a, b, c)
		}
	})
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	for _, tt := range []struct {
		option string
		change func(o *loadtest.Options)
	}{
		{"scenario", func(o *loadtest.Options) { o.Scenario = nil }},
		{"table", func(o *loadtest.Options) { o.Table = "" }},
		{"table", func(o *loadtest.Options) {
			o.Scenario, o.Table = builtin(t, "attack", time.Second), strings.Repeat("t", 251)
		}},
		{"namespace", func(o *loadtest.Options) { o.Namespace = "_" }},
		{"API", func(o *loadtest.Options) { o.API = nil }},
		{"max lag", func(o *loadtest.Options) { o.MaxLag = -1 }},
	} {
		o := loadtest.Options{Scenario: builtin(t, "hot", time.Second), API: db, Table: "limits"}
		tt.change(&o)
		_, err := loadtest.Run(t.Context(), o)
		bad, ok := errors.AsType[*limiter.ValidationError](err)
		if !ok || bad.Field != tt.option || bad.Reason == "" || !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), tt.option) {
			t.Errorf("%s: error %v", tt.option, err)
		}
	}
	broken := builtin(t, "hot", time.Second)
	broken.Limiters = -1
	_, err := loadtest.Run(t.Context(), loadtest.Options{Scenario: broken, API: db, Table: "limits"})
	if _, ok := errors.AsType[*scenario.ParseError](err); !ok {
		t.Errorf("a broken scenario: %v", err)
	}
	if bill := db.Ledger().Total(); bill.Requests != 0 {
		t.Errorf("something was sent: %+v", bill)
	}
}

// If the store cannot be reached, there is no result.
func TestASetUpThatFails(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := loadtest.Run(t.Context(), loadtest.Options{Scenario: builtin(t, "hot", time.Second), API: db, Table: "limits"})
	if r != nil || !errors.Is(err, dynamolite.ErrClosed) {
		t.Errorf("%v, error %v", r, err)
	}
}

// The run finds wrong results: here the test changes the bucket without the limiter's
// knowledge.
func TestWrongAnswersAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		limit            limiter.Limit
		meddle           func(ctx context.Context, s *dynamo.Store) error
		least, most      int64 // wrong answers
		unequal, expired int64
	}{
		{
			name: "nobody", limit: limiter.PerSecond("rps", 10, limiter.Burst(100)),
			meddle: func(context.Context, *dynamo.Store) error { return nil },
		},
		{
			// A new bucket has 100 tokens that the old one had already given.
			name: "the bucket is deleted", limit: limiter.PerSecond("rps", 10, limiter.Burst(100)),
			meddle: func(ctx context.Context, s *dynamo.Store) error {
				_, err := s.DeleteEntity(ctx, "entity-0")
				return err
			},
			least: 80, most: 100, expired: 1,
		},
		{
			// 250 more are requested, and without other users the bucket would have them.
			name: "the bucket is emptied", limit: limiter.PerDay("rpd", 1000),
			meddle: func(ctx context.Context, s *dynamo.Store) error {
				l, err := limiter.New(s, limiter.Options{})
				if err != nil {
					return err
				}
				_, err = l.Acquire(ctx, limiter.Request{Entity: "entity-0", Resource: "api", Consume: map[string]int64{"rpd": 740}})
				return errors.Join(err, l.Close())
			},
			least: 230, most: 250, unequal: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, db := options(limited(at(builtin(t, "hot", time.Second), 500, 64), tt.limit), dynamolite.Options{})
				meddled := make(chan error, 1)
				go func() {
					time.Sleep(510 * time.Millisecond)
					s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: o.Table, Namespace: o.Namespace})
					if err == nil {
						err = tt.meddle(t.Context(), s)
					}
					meddled <- err
				}()
				side := &run(t, o).Sides[0]
				if err := <-meddled; err != nil {
					t.Fatal(err)
				}
				if n := side.Wrong.Answers(); n < tt.least || n > tt.most {
					t.Errorf("%+v, want %d to %d wrong answers: %+v", side.Wrong, tt.least, tt.most, side.Limits)
				}
				if b := side.Balance; b.Wrong != tt.unequal || int64(b.Expired) != tt.expired || (b.FirstWrong == "") != (b.Wrong == 0) {
					t.Errorf("%+v", b)
				}
			})
		})
	}
}

// A rate that the clients cannot carry out is not measured for ever.
func TestARateBeyondTheClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(at(builtin(t, "spread", 20*time.Second), 50, 2), dynamolite.Options{Latency: dynamolite.Latency{P50: 100 * time.Millisecond}})
		r := run(t, o)
		c := class(&r.Sides[0])
		// Two clients carry out 20 a second. An operation is begun within 20 s of its due instant.
		if c.Due != 1000 || c.Answers.Operations < 600 || c.Answers.Operations > 700 || c.Latency.Max.Duration() > 21*time.Second {
			t.Errorf("%d due, %+v, at most %v ms", c.Due, c.Answers, c.Latency.Max)
		}
		if !strings.Contains(r.Unreliable, "never begun") {
			t.Errorf("unreliable: %q", r.Unreliable)
		}
	})
}

// A generator that is late itself spoils what it measures, unless its delay is small beside
// the latency.
func TestALateGenerator(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lag, latency result.Milliseconds
		unreliable   bool
	}{
		{0, 1, false}, {5, 1, false}, {6, 20, true}, {6, 61, false}, {60, 61, true},
	} {
		r := &result.Result{Sides: []result.Side{{Name: "limiter", Phases: []result.Phase{{Name: "all", Classes: []result.Class{{
			Name: "c", Lag: result.Latency{P99: tt.lag}, Latency: result.Latency{P99: tt.latency},
		}}}}}}}
		if got := loadtest.Unreliable(r, 5*time.Millisecond); (got != "") != tt.unreliable {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestEntitlement(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit limiter.Limit
		after time.Duration
		want  int64
	}{
		{limiter.PerSecond("l", 10, limiter.Burst(100)), 0, 100},
		{limiter.PerSecond("l", 10, limiter.Burst(100)), -time.Second, 100},
		{limiter.PerSecond("l", 10, limiter.Burst(100)), 199 * time.Millisecond, 101},
		{limiter.PerSecond("l", 10, limiter.Burst(100)), time.Hour, 36_100},
		{limiter.Limit{Name: "l", Capacity: 1, Amount: limiter.MaxTokens, Period: time.Millisecond}, 24 * 365 * 100 * time.Hour, math.MaxInt64},
	} {
		if got := loadtest.Entitlement(tt.limit, tt.after); got != tt.want {
			t.Errorf("%v after %v: %d, want %d", tt.limit, tt.after, got, tt.want)
		}
	}
}
