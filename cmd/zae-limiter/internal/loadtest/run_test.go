package loadtest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
)

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

// An interruption of the set-up, wherever it comes, leaves nothing of the run either.
func TestAnInterruptedSetUpLeavesNothing(t *testing.T) {
	t.Parallel()
	const step = 7 * time.Millisecond
	for after := step; after < 350*time.Millisecond; after += step {
		synctest.Test(t, func(t *testing.T) {
			s := builtin(t, "llm-gateway", 10*time.Second)
			s.Sides = []scenario.Side{scenario.Limiter}
			o, db := options(s, dynamolite.Options{Latency: dynamolite.Latency{P50: 20 * time.Millisecond}})
			if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: o.Table, KeepExpired: true}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if _, err := loadtest.Run(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("after %v: error %v", after, err)
			}
			gone(t, db, o)
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
		// namespace leaves a record and its empty registries of resources. A deleted entity
		// leaves an item which says so, for two days (ADR 039).
		left := slices.DeleteFunc(itemsOf(t, db, table), func(key string) bool {
			return strings.HasPrefix(key, "_/SYSTEM# #NSID#") || strings.HasSuffix(key, "/SYSTEM# #RESOURCES") ||
				strings.HasSuffix(key, "/SYSTEM# #ENTITY_CONFIG_RESOURCES") || strings.Contains(key, "/AUDIT#") ||
				strings.Contains(key, "/USAGE##")
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
			{Weight: 1, Kind: scenario.GetChildren},
			{Weight: 1, Kind: scenario.SetResourceDefaults},
			{Weight: 1, Kind: scenario.GetResourceDefaults},
			{Weight: 1, Kind: scenario.GetSystemDefaults},
			{Weight: 1, Kind: scenario.ListResources},
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

// Operations that are under way when a phase ends have no sample of their own: a rate of some
// milliseconds would be a peak in every chart.
func TestTheLastSampleIsNoPeak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, _ := options(builtin(t, "hot", 3*time.Second), dynamolite.Options{Latency: dynamolite.Latency{P50: 30 * time.Millisecond}})
		r, err := loadtest.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		samples := r.Sides[0].Samples
		if len(samples) != 3 {
			t.Errorf("%d samples of 3 s", len(samples))
		}
		for _, s := range samples {
			if s.Seconds < 0.5 {
				t.Errorf("a sample of %v s with %d operations", s.Seconds, s.Done)
			}
		}
	})
}
