package loadtest_test

import (
	"context"
	"errors"
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
)

const latency = 10 * time.Millisecond

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario   loadtest.Scenario
		rate       int64
		roundTrips float64
		wcu        float64
		admitted   bool
	}{
		{loadtest.Warm, 100, 1, 1, true},
		{loadtest.Cascade, 100, 2, 2, true},
		{loadtest.Refused, 100, 1, 1, false},
		{loadtest.Hot, 100, 1, 1, true},
		{loadtest.Spread, 200, 1, 1, true},
		{loadtest.LLM, 100, 2, 2, true},
	} {
		t.Run(string(tt.scenario), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, _ := options(tt.scenario, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
				o.Rate, o.Limiters, o.Clients = tt.rate, 2, 8
				m := run(t, o).Limiter
				if m.Due != tt.rate || m.Answers.Operations != tt.rate || m.Elapsed < o.Duration {
					t.Errorf("%d due, %+v in %v", m.Due, m.Answers, m.Elapsed)
				}
				want := loadtest.Answers{Operations: tt.rate, Refused: tt.rate}
				if tt.admitted {
					want.Refused, want.Admitted = 0, tt.rate
				}
				if m.Answers != want {
					t.Errorf("answers %+v, want %+v", m.Answers, want)
				}
				if c := m.Cost; c.RoundTrips > tt.roundTrips || c.WCU > tt.wcu || c.RCU != 0 {
					t.Errorf("cost of an operation %+v, want %v round trips and %v WCU at most", c, tt.roundTrips, tt.wcu)
				}
				if tt.scenario == loadtest.LLM && m.Cost.RoundTrips < 1.9 {
					t.Errorf("%v round trips: it is not settled", m.Cost.RoundTrips)
				}
				if *m.Wrong != 0 || m.Writes.Throttled != 0 || m.Shards != 1 {
					t.Errorf("%d wrong answers, %+v, %d shards", *m.Wrong, m.Writes, m.Shards)
				}
				for _, u := range m.Limits {
					if u.Percent() != 100 || u.Entitled == 0 {
						t.Errorf("%+v", u)
					}
				}
			})
		})
	}
}

// Buckets of scenario Refused are empty before the load begins.
func TestExhaustedBucketsAreEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(loadtest.Refused, dynamolite.Options{})
		o.Rate, o.Limiters, o.Clients, o.Entities = 100, 3, 3, 4
		o.Limits = []limiter.Limit{limiter.PerDay("rpd", 5)}
		m := run(t, o).Limiter
		if m.Answers != (loadtest.Answers{Operations: 100, Refused: 100}) || m.Limits[0].Admitted != 4*5 || *m.Wrong != 0 {
			t.Errorf("%+v, %+v, %d wrong", m.Answers, m.Limits, *m.Wrong)
		}
	})
}

// All operations that become due during a stall show it, not only one for each client.
func TestAStallIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, db := options(loadtest.Hot, dynamolite.Options{})
		o.API = faults.Wrap(db, stall(time.Now().Add(4*time.Second), time.Second))
		o.Rate, o.Clients, o.Duration = 100, 2, 10*time.Second
		l := run(t, o).Limiter.Latency
		if l.P50 != 0 || l.Max != time.Second {
			t.Errorf("p50 %v, max %v, want 0 and 1s", l.P50, l.Max)
		}
		// A tenth of the operations became due in that second, so 5 % of all waited for
		// more than half of it.
		if !near(l.P95, 500*time.Millisecond) || !near(l.P99, 900*time.Millisecond) {
			t.Errorf("p95 %v, p99 %v, want 500ms and 900ms", l.P95, l.P99)
		}
	})
}

// near allows for instants 10 ms apart, and for the three digits of the histogram.
func near(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) <= float64(11*time.Millisecond)
}

func TestTheEntitlementIsExact(t *testing.T) {
	t.Parallel()
	for _, raw := range []bool{false, true} {
		t.Run(map[bool]string{false: "limiter", true: "beside bare writes"}[raw], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, _ := options(loadtest.Hot, dynamolite.Options{})
				o.Limits = []limiter.Limit{limiter.PerSecond("rps", 10, limiter.Burst(100))}
				o.Rate, o.Duration, o.Raw = 50, 10*time.Second, raw
				m := run(t, o).Limiter
				// The last of 500 operations and the one before the load are 9.98 s apart:
				// 100 tokens and 99.8.
				want := loadtest.LimitUse{Limit: "rps", Demanded: 501, Entitled: 199, Admitted: 199}
				if m.Limits[0] != want || *m.Wrong != 0 {
					t.Errorf("%+v, %d wrong, want %+v", m.Limits[0], *m.Wrong, want)
				}
				if m.Answers.Admitted != 198 || m.Answers.Refused != 302 {
					t.Errorf("%+v", m.Answers)
				}
			})
		})
	}
}

// In every scenario, the meter agrees with the engine's bill.
func TestTheBillIsTheEngines(t *testing.T) {
	t.Parallel()
	for _, s := range loadtest.Scenarios() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, db := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
				o.Rate, o.Clients, o.Raw = 100, 4, s != loadtest.Attack
				if s != loadtest.Hot {
					o.Entities = 8
				}
				spent, bill := run(t, o).Spent, db.Ledger().Total()
				if spent.RCU != bill.ReadUnits || spent.WCU != bill.WriteUnits {
					t.Errorf("spent %+v, the engine billed %+v", spent, bill)
				}
			})
		})
	}
}

func TestBareWritesRunBeside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(loadtest.Hot, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
		o.Raw, o.Clients, o.WarmUp = true, 4, time.Second
		raw := run(t, o).Raw
		// Four clients, each with an operation every 10 ms.
		if raw.Answers != (loadtest.Answers{Operations: 400, Admitted: 400}) || raw.PerSecond() != 400 {
			t.Errorf("%+v, %v a second", raw.Answers, raw.PerSecond())
		}
		if raw.Cost != (loadtest.Cost{RoundTrips: 1, WCU: 1}) || raw.Latency.P50 != latency || raw.Wrong != nil {
			t.Errorf("%+v, %+v, %v", raw.Cost, raw.Latency, raw.Wrong)
		}
		o.Scenario, o.Namespace = loadtest.Refused, "bench-refused"
		if raw := run(t, o).Raw; raw.Answers.Refused != raw.Answers.Operations || raw.Answers.Refused == 0 {
			t.Errorf("of exhausted items: %+v", raw.Answers)
		}
	})
}

// The API and the operations both count throttles.
func TestThrottlesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(loadtest.Hot, dynamolite.Options{Limits: dynamolite.Limits{PartitionWriteUnits: 100}})
		o.Rate, o.Duration, o.Raw = 300, 10*time.Second, true
		m := run(t, o).Raw
		// The capacity for one second at once, and ten seconds of 100.
		if a := m.Answers; a.Throttled < 1890 || a.Throttled > 1910 || a.Admitted+a.Throttled != 3000 || a.FirstError == "" {
			t.Errorf("%+v", a)
		}
		w := m.Writes
		if w.Sent != 3000 || w.Throttled != m.Answers.Throttled || w.EarlySent != 600 || w.Reasons["TableWriteKeyRangeThroughputExceeded"] != w.Throttled {
			t.Errorf("%+v", w)
		}
		if w.Early() < 0.49 || w.Early() > 0.51 || w.Late() < 0.66 || w.Late() > 0.67 {
			t.Errorf("%v throttled early, %v late", w.Early(), w.Late())
		}
		if u := m.Limits[0]; u.Demanded != 3000 || u.Entitled != 3000 || u.Admitted != m.Answers.Admitted {
			t.Errorf("%+v", u)
		}
	})
}

// On bare items, on a table as in the advisory, the neighbours suffer through the index. On
// the limiter they do not notice the attack.
func TestTheAttack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// All requests take equally long, so that a percentile of few operations does not
		// depend on chance.
		o, _ := options(loadtest.Attack, dynamolite.Options{Limits: dynamolite.AWSLimits(), Latency: dynamolite.Latency{P50: 5 * time.Millisecond}})
		o.Duration = 4 * time.Second
		r := run(t, o).Attack
		bare := r.Bare
		const asked = 20 * 10 * 4
		for name, m := range map[string]*loadtest.Measurement{"bare": bare.Quiet, "limiter": r.Limiter.Quiet, "shared": r.Shared.Quiet} {
			if a := m.Answers; a.Errors() != 0 || a.Operations != asked {
				t.Errorf("%s, neighbours, quiet: %+v", name, a)
			}
		}
		if w := bare.Attacker.Writes; w.Late() < 0.7 || w.Reasons["IndexWriteKeyRangeThroughputExceeded"] == 0 {
			t.Errorf("bare, attacker: %+v", w)
		}
		if a := bare.Neighbours.Answers; a.Throttled < asked/2 || a.Operations != asked {
			t.Errorf("bare, neighbours: %+v", a)
		}

		for name, ours := range map[string]*loadtest.AttackSide{"limiter": r.Limiter, "shared": r.Shared} {
			if w := ours.Attacker.Writes; w.Late() > 0.001 || w.Sent == 0 {
				t.Errorf("%s, attacker: %+v", name, w)
			}
			if u := ours.Attacker.Limits[0]; u.Percent() < 99 || u.Demanded < 4*5000 || *ours.Attacker.Wrong != 0 {
				t.Errorf("%s, attacker: %+v, %d wrong", name, u, *ours.Attacker.Wrong)
			}
			if m := ours.Neighbours; m.Answers.Admitted != asked || *m.Wrong != 0 {
				t.Errorf("%s, neighbours: %+v, %d wrong", name, m.Answers, *m.Wrong)
			}
			// Each request of a neighbour is its own write, and none of the attacker's
			// writes counts as a neighbour's.
			if w := ours.Neighbours.Writes; w.Sent != asked {
				t.Errorf("%s, neighbours: %+v, want %d", name, w, asked)
			}
			if quiet, attacked := ours.Quiet.Latency.P99, ours.Neighbours.Latency.P99; float64(attacked) > 1.2*float64(quiet) {
				t.Errorf("%s, neighbours: p99 %v, quiet %v", name, attacked, quiet)
			}
		}
	})
}

func TestTheAttackHasThreeSides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(loadtest.Attack, dynamolite.Options{Latency: dynamolite.Latency{P50: time.Millisecond}})
		o.Rate, o.Entities, o.WarmUp = 100, 5, time.Second
		r := run(t, o)
		for name, s := range map[string]*loadtest.AttackSide{"bare": r.Attack.Bare, "limiter": r.Attack.Limiter, "shared": r.Attack.Shared} {
			for phase, m := range map[string]*loadtest.Measurement{"quiet": s.Quiet, "neighbours": s.Neighbours, "attacker": s.Attacker} {
				want := int64(50)
				if phase == "attacker" {
					want = 100
				}
				if m.Answers != (loadtest.Answers{Operations: want, Admitted: want}) || m.Limits[0].Percent() != 100 {
					t.Errorf("%s, %s: %+v, %+v", name, phase, m.Answers, m.Limits)
				}
			}
			if s.Attacker.Shards != 1 || (s.Attacker.Wrong == nil) != (name == "bare") {
				t.Errorf("%s: %d shards, wrong %v", name, s.Attacker.Shards, s.Attacker.Wrong)
			}
		}
		if r.Limiter != nil || r.Raw != nil {
			t.Error("the attack has figures of other scenarios")
		}
	})
}

// The attacker uses the neighbours' limiters in Shared, and its own otherwise.
func TestTheAttackSharesLimiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := func(limiters int) int {
			o, db := options(loadtest.Attack, dynamolite.Options{})
			seen := &faults.Recorder{}
			o.API, o.Limiters, o.Rate, o.Duration = faults.Wrap(db, seen.Record), limiters, 10, 100*time.Millisecond
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
		scenario loadtest.Scenario
		after    time.Duration
		check    func(t *testing.T, r *loadtest.Result)
	}{
		{loadtest.Hot, 3005 * time.Millisecond, func(t *testing.T, r *loadtest.Result) {
			t.Helper()
			// The set-up takes some tens of milliseconds of latency.
			m := r.Limiter
			if m.Elapsed < 2*time.Second || m.Elapsed > 3005*time.Millisecond || m.Answers.Operations < 200 || m.Answers.Errors() != 0 || r.Raw != nil {
				t.Errorf("%v, %+v, %v", m.Elapsed, m.Answers, r.Raw)
			}
			if u := m.Limits[0]; u.Demanded != u.Admitted {
				t.Errorf("what was cut off counts: %+v", u)
			}
			if m.Due-m.Answers.Operations > 1 {
				t.Errorf("%d were due and %d answered", m.Due, m.Answers.Operations)
			}
		}},
		{loadtest.Attack, 15 * time.Second, func(t *testing.T, r *loadtest.Result) {
			t.Helper()
			b := r.Attack.Bare
			if b.Quiet == nil || b.Neighbours == nil || b.Attacker.Answers.Operations == 0 || r.Attack.Limiter != nil {
				t.Errorf("%+v", r.Attack)
			}
		}},
		{loadtest.Attack, 5 * time.Second, func(t *testing.T, r *loadtest.Result) {
			t.Helper()
			if b := r.Attack.Bare; b.Quiet == nil || b.Neighbours != nil || b.Attacker != nil {
				t.Errorf("%+v", b)
			}
		}},
	} {
		t.Run(string(tt.scenario)+" after "+tt.after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, db := options(tt.scenario, dynamolite.Options{Latency: dynamolite.Latency{P50: latency}})
				o.Duration, o.Rate, o.Raw = 10*time.Second, 100, tt.scenario == loadtest.Hot
				ctx, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				r, err := loadtest.Run(ctx, o)
				if !errors.Is(err, context.DeadlineExceeded) || r == nil || !r.Interrupted {
					t.Fatalf("%+v, error %v", r, err)
				}
				tt.check(t, r)
				if _, rows := r.Table(); len(rows) < 10 {
					t.Errorf("the table has %d rows", len(rows))
				}
				gone(t, db, o)
			})
		})
	}
}

// gone checks that a run leaves only tables, and audit events until they expire.
func gone(t *testing.T, db *dynamolite.DB, o loadtest.Options) {
	t.Helper()
	tables := []string{o.Table}
	if o.Scenario == loadtest.Attack {
		tables = []string{o.Table + "-bare"} // the run may have been interrupted before it created the other table
	}
	for _, table := range tables {
		_, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table, Namespace: o.Namespace})
		if missing := (*limiter.NotFoundError)(nil); !errors.As(err, &missing) || missing.Kind != "namespace" {
			t.Errorf("the namespace in %s: %v", table, err)
		}
		// A table's own items are its version and the default namespace. A deleted
		// namespace leaves a record and its empty registry of resources.
		left := slices.DeleteFunc(itemsOf(t, db, table), func(key string) bool {
			return strings.HasPrefix(key, "_/SYSTEM# #NSID#") || strings.HasSuffix(key, "/SYSTEM# #RESOURCES") ||
				strings.Contains(key, "/AUDIT#")
		})
		if diff := cmp.Diff([]string{"_/SYSTEM# #NAMESPACE#default", "_/SYSTEM# #VERSION"}, left); diff != "" {
			t.Errorf("left in %s (-want +got):\n%s", table, diff)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, s := range loadtest.Scenarios() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, db := options(s, dynamolite.Options{})
				o.Raw, o.Rate = s != loadtest.Attack, 50
				run(t, o)
				gone(t, db, o)
				o.Keep = true
				run(t, o)
				if left := itemsOf(t, db, o.Table); !slices.ContainsFunc(left, func(key string) bool { return strings.Contains(key, "/BUCKET#") }) {
					t.Errorf("no bucket was kept: %v", left)
				}
			})
		})
	}
}

func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(loadtest.Hot, dynamolite.Options{})
		o.Rate, o.WarmUp, o.Raw = 10, time.Second, true
		var last, times time.Duration
		o.Progress = func(done, planned time.Duration) {
			if planned != 4*time.Second || done < last {
				t.Errorf("%v of %v after %v", done, planned, last)
			}
			last, times = done, times+1
		}
		run(t, o)
		if last != 4*time.Second || times < 20 {
			t.Errorf("told %d times, at last %v", times, last)
		}
	})
}

// Each limiter has its own memory: its first acquire from each bucket reads.
func TestLimitersAreIndependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const entities = 4
		reads := func(limiters int) float64 {
			o, _ := options(loadtest.Spread, dynamolite.Options{})
			o.Rate, o.Entities, o.Limiters = 10, entities, limiters
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
		demanded := func(seed uint64, clients int) int64 {
			o, _ := options(loadtest.LLM, dynamolite.Options{})
			o.Rate, o.Seed, o.Clients = 100, seed, clients
			return run(t, o).Limiter.Limits[1].Demanded
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
		{"scenario", func(o *loadtest.Options) { o.Scenario = "cold" }},
		{"rate", func(o *loadtest.Options) { o.Rate = -1 }},
		{"rate", func(o *loadtest.Options) { o.Rate = 1_000_001 }},
		{"clients", func(o *loadtest.Options) { o.Clients = -1 }},
		{"limiters", func(o *loadtest.Options) { o.Limiters = 65 }},
		{"limiters", func(o *loadtest.Options) { o.Limiters = -1 }},
		{"entities", func(o *loadtest.Options) { o.Entities = 2 }},
		{"entities", func(o *loadtest.Options) { o.Scenario, o.Entities = loadtest.Spread, -2 }},
		{"duration", func(o *loadtest.Options) { o.Duration = -time.Second }},
		{"duration", func(o *loadtest.Options) { o.Duration = 25 * time.Hour }},
		{"warm-up", func(o *loadtest.Options) { o.WarmUp = -time.Second }},
		{"raw", func(o *loadtest.Options) { o.Scenario, o.Raw = loadtest.Attack, true }},
		{"table", func(o *loadtest.Options) { o.Table = "" }},
		{"table", func(o *loadtest.Options) {
			o.Scenario, o.Entities, o.Table = loadtest.Attack, 1, strings.Repeat("t", 251)
		}},
		{"limit", func(o *loadtest.Options) { o.Limits = []limiter.Limit{{Name: "rpm"}} }},
		{"namespace", func(o *loadtest.Options) { o.Namespace = "_" }},
		{"API", func(o *loadtest.Options) { o.API = nil }},
	} {
		o := loadtest.Options{Scenario: loadtest.Hot, API: db, Table: "limits", Duration: time.Millisecond}
		tt.change(&o)
		_, err := loadtest.Run(t.Context(), o)
		bad, ok := errors.AsType[*limiter.ValidationError](err)
		if !ok || bad.Field != tt.option || bad.Reason == "" || !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), tt.option) {
			t.Errorf("%s: error %v", tt.option, err)
		}
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
	r, err := loadtest.Run(t.Context(), loadtest.Options{Scenario: loadtest.Hot, API: db, Table: "limits"})
	if r != nil || !errors.Is(err, dynamolite.ErrClosed) {
		t.Errorf("%v, error %v", r, err)
	}
}

// The run finds wrong results: here the test changes the bucket without the limiter's
// knowledge.
func TestWrongAnswersAreFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		limit       limiter.Limit
		meddle      func(ctx context.Context, s *dynamo.Store) error
		least, most int64
	}{
		{
			"nobody",
			limiter.PerSecond("rps", 10, limiter.Burst(100)),
			func(context.Context, *dynamo.Store) error { return nil },
			0, 0,
		},
		{
			// A new bucket has 100 tokens that the old one had already given.
			"the bucket is deleted",
			limiter.PerSecond("rps", 10, limiter.Burst(100)),
			func(ctx context.Context, s *dynamo.Store) error {
				_, err := s.DeleteEntity(ctx, "entity-0")
				return err
			},
			80, 100,
		},
		{
			// 250 more are requested, and without other users the bucket would have them.
			"the bucket is emptied",
			limiter.PerDay("rpd", 1000),
			func(ctx context.Context, s *dynamo.Store) error {
				l, err := limiter.New(s, limiter.Options{})
				if err != nil {
					return err
				}
				_, err = l.Acquire(ctx, limiter.Request{Entity: "entity-0", Resource: "bench-0", Consume: map[string]int64{"rpd": 740}})
				return errors.Join(err, l.Close())
			},
			230, 250,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, db := options(loadtest.Hot, dynamolite.Options{})
				o.Rate, o.Limits = 500, []limiter.Limit{tt.limit}
				meddled := make(chan error, 1)
				go func() {
					time.Sleep(510 * time.Millisecond)
					s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: o.Table, Namespace: o.Namespace})
					if err == nil {
						err = tt.meddle(t.Context(), s)
					}
					meddled <- err
				}()
				m := run(t, o).Limiter
				if err := <-meddled; err != nil {
					t.Fatal(err)
				}
				if *m.Wrong < tt.least || *m.Wrong > tt.most {
					t.Errorf("%d wrong answers, want %d to %d: %+v", *m.Wrong, tt.least, tt.most, m.Limits)
				}
			})
		})
	}
}
