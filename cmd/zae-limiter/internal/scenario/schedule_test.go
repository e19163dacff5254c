package scenario_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// arriving is a scenario with one class of an arrival.
func arriving(a scenario.Arrival, phases ...time.Duration) *scenario.Scenario {
	s := &scenario.Scenario{
		Name: "arrivals", Limiters: 1, Sides: []scenario.Side{scenario.Limiter},
		Resources:   []scenario.Resource{{Name: "api", Limits: oneLimit}},
		Populations: []scenario.Population{{Name: "e", Count: 1}},
		Classes: []scenario.Class{{
			Name: "c", From: []scenario.Share{{Weight: 1}}, Resources: []scenario.Weighted{{Weight: 1}},
			Calls:   []scenario.Call{{Weight: 1, Consume: []scenario.Amount{{Limit: "rps", Least: 1, Most: 1}}}},
			Arrival: a,
		}},
	}
	for i, d := range phases {
		s.Phases = append(s.Phases, scenario.Phase{Name: string(rune('a' + i)), For: d})
	}
	return s
}

func rate(from, to float64, d time.Duration) scenario.Stage {
	return scenario.Stage{For: d, FromRate: from, ToRate: to}
}

// due returns all instants of a schedule before another.
func due(s *scenario.Schedule, until time.Duration) (all []time.Duration) {
	for {
		at, ok := s.Next()
		if !ok || at >= until {
			return all
		}
		all = append(all, at)
	}
}

// A constant rate is exact to the nanosecond, also at the end of a day.
func TestAConstantRateDoesNotDrift(t *testing.T) {
	t.Parallel()
	for _, r := range []float64{1, 3, 50, 7, 1000, 999_983, 1_000_000} {
		s := plan(t, arriving(scenario.Arrival{Clients: 1, Stages: []scenario.Stage{rate(r, r, 0)}}, 24*time.Hour)).Schedule(0, 0)
		for _, second := range []int64{0, 1, 3600, 86_399} {
			start := time.Duration(second) * time.Second
			s.Skip(start)
			few := min(int64(r), 5)
			for k := range few {
				want := start + time.Duration(math.Round(float64(k)/r*1e9))
				if at, ok := s.Next(); !ok || at != want {
					t.Errorf("%v/s: operation %d of second %d is due at %v, %v; want %v", r, k, second, at, ok, want)
				}
			}
			if passed := s.Skip(start + time.Second); few+passed != int64(r) {
				t.Errorf("%v/s: %d operations in second %d", r, few+passed, second)
			}
		}
		if at, ok := s.Next(); ok {
			t.Errorf("%v/s: due after the end, at %v", r, at)
		}
	}
}

// integral is the number of operations that stages bring before an instant, by the formula
// of the trapezoid.
func integral(stages []scenario.Stage, at, end float64) (n float64) {
	begin := 0.0
	for i, s := range stages {
		length := s.For.Seconds()
		if s.For == 0 {
			length = end - begin
		}
		part := min(max(at-begin, 0), length)
		now := s.FromRate + (s.ToRate-s.FromRate)*part/length
		n += (s.FromRate + now) / 2 * part
		begin += length
		if i == len(stages)-1 {
			n += s.ToRate * max(at-begin, 0)
		}
	}
	return n
}

func someStages(t *rapid.T) ([]scenario.Stage, time.Duration) {
	length := rapid.Int64Range(int64(time.Millisecond), int64(20*time.Second))
	level := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 500), rapid.Just(100.0))
	var stages []scenario.Stage
	var all time.Duration
	for range rapid.IntRange(1, 5).Draw(t, "stages") {
		s := rate(level.Draw(t, "from"), level.Draw(t, "to"), time.Duration(length.Draw(t, "for")))
		all += s.For
		stages = append(stages, s)
	}
	if rapid.Bool().Draw(t, "open end") {
		stages[len(stages)-1].For = 0
	}
	stages[0].ToRate += 1 // one of them has operations
	return stages, all
}

// somePlan is a plan of one open class with any stages, and its length.
func somePlan(t *rapid.T) (*scenario.Plan, []scenario.Stage, time.Duration) {
	stages, end := someStages(t)
	p, err := arriving(scenario.Arrival{Clients: 1, Stages: stages}, end).Plan()
	if err != nil {
		t.Fatal(err)
	}
	return p, stages, end
}

// Under any stages, the number of operations before any instant is the integral of the
// rate, give or take one, and instants never go back.
func TestRampsAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, stages, end := somePlan(t)
		all := due(p.Schedule(0, 0), end)
		if !slices.IsSorted(all) {
			t.Fatal("an operation is due before its predecessor")
		}
		for range 10 {
			at := time.Duration(rapid.Int64Range(0, int64(end)).Draw(t, "at"))
			n, _ := slices.BinarySearch(all, at)
			want := integral(stages, at.Seconds(), end.Seconds())
			if math.Abs(float64(n)-want) > 1 {
				t.Fatalf("%d operations before %v, want %v", n, at, want)
			}
			s := p.Schedule(0, 0)
			if got := s.Expected(0, at); math.Abs(got-want) > 1e-3 {
				t.Fatalf("%v operations expected before %v, want %v", got, at, want)
			}
			if got := s.Skip(at); got != int64(n) {
				t.Fatalf("passed over %d before %v, want %d", got, at, n)
			}
			if next, ok := s.Next(); ok != (n < len(all)) || ok && next != all[n] {
				t.Fatalf("after %v: %v, %v", at, next, ok)
			}
		}
	})
}

// Schedules of two phases have together the operations of one schedule.
func TestSchedulesFitTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, _, end := somePlan(t)
		cut := time.Duration(rapid.Int64Range(0, int64(end)).Draw(t, "cut"))
		parts := due(p.Schedule(0, 0), cut)
		for _, at := range due(p.Schedule(0, cut), end) {
			parts = append(parts, at+cut)
		}
		if whole := due(p.Schedule(0, 0), end); !slices.Equal(whole, parts) {
			t.Fatalf("cut at %v: %d operations, whole %d", cut, len(parts), len(whole))
		}
	})
}

func TestTheWarmUpHasTheFirstRate(t *testing.T) {
	t.Parallel()
	p := plan(t, arriving(scenario.Arrival{Clients: 1, Stages: []scenario.Stage{rate(100, 500, 0)}}, time.Minute))
	s := p.Schedule(0, -10*time.Second)
	if n := len(due(s, 10*time.Second)); n != 1000 {
		t.Errorf("%d operations in the warm-up", n)
	}
	if r := p.Schedule(0, 0).Rate(30 * time.Second); math.Abs(r-300) > 0.01 {
		t.Errorf("%v/s in the middle of the ramp", r)
	}
}

func TestNothingIsDueInAPause(t *testing.T) {
	t.Parallel()
	stages := []scenario.Stage{rate(0, 0, time.Second), rate(100, 100, time.Second), rate(0, 0, 5*time.Second), rate(10, 10, time.Second), rate(0, 0, 0)}
	all := due(plan(t, arriving(scenario.Arrival{Clients: 1, Stages: stages}, 20*time.Second)).Schedule(0, 0), time.Hour)
	if len(all) != 110 || all[0] != time.Second || all[99] != 1990*time.Millisecond || all[100] != 7*time.Second || all[109] != 7900*time.Millisecond {
		t.Errorf("%d operations: %v", len(all), all)
	}
}

// A class that is active in the second phase only has its stages from there on.
func TestStagesBeginWithTheClass(t *testing.T) {
	t.Parallel()
	s := arriving(scenario.Arrival{Clients: 1, Stages: []scenario.Stage{rate(10, 10, time.Second), rate(1, 1, 0)}}, 10*time.Second, 10*time.Second)
	s.Classes = append(s.Classes, s.Classes[0])
	s.Classes[0].Phases, s.Classes[1].Name = []int{1}, "other"
	p := plan(t, s)
	if p.ClassStart(0) != 10*time.Second || p.ClassStart(1) != 0 {
		t.Errorf("classes begin at %v and %v", p.ClassStart(0), p.ClassStart(1))
	}
	if n := len(due(p.Schedule(0, 10*time.Second), time.Hour)); n != 19 {
		t.Errorf("%d operations in the second phase", n)
	}
}

// The gaps of a Poisson process under a constant rate are exponential, and under a ramp
// the counts have the ramp's mean and a variance like their mean.
func TestPoisson(t *testing.T) {
	t.Parallel()
	constant := plan(t, arriving(scenario.Arrival{Clients: 1, Poisson: true, Stages: []scenario.Stage{rate(100, 100, 0)}}, 1000*time.Second))
	all := due(constant.Schedule(0, 0), time.Hour)
	const bins = 20
	counts, last := make([]int, bins), time.Duration(0)
	for _, at := range all {
		quantile := -math.Expm1(-(at - last).Seconds() * 100)
		counts[min(int(quantile*bins), bins-1)]++
		last = at
	}
	likely(t, "gaps", counts, slices.Repeat([]float64{1}, bins))
	if !slices.Equal(all, due(constant.Schedule(0, 0), time.Hour)) {
		t.Error("two schedules differ")
	}
	if slices.Equal(all, due(constant.Schedule(0, time.Second), time.Hour)) {
		t.Error("schedules from different instants are the same")
	}

	ramp := plan(t, arriving(scenario.Arrival{Clients: 1, Poisson: true, Stages: []scenario.Stage{rate(0, 200, 0)}}, 1000*time.Second))
	seconds, weights := make([]int, 1000), make([]float64, 1000)
	for _, at := range due(ramp.Schedule(0, 0), time.Hour) {
		seconds[int(at.Seconds())]++
	}
	for i := range weights {
		weights[i] = float64(i) + 0.5
	}
	likely(t, "counts under a ramp", seconds[20:], weights[20:])
	if far := excess(seconds[20:], weights[20:]); far < -unlikely {
		t.Errorf("counts under a ramp vary too little: %.1f", far)
	}
}

func TestNextAllocatesNothing(t *testing.T) { // not parallel: AllocsPerRun counts for the process
	for _, poisson := range []bool{false, true} {
		s := plan(t, arriving(scenario.Arrival{Clients: 1, Poisson: poisson, Stages: []scenario.Stage{rate(1, 1000, 0)}}, time.Hour)).Schedule(0, 0)
		if got := testing.AllocsPerRun(1000, func() { s.Next() }); got > 0 {
			t.Errorf("poisson %v: %v allocations per operation", poisson, got)
		}
	}
}

func users(stages ...scenario.Stage) *scenario.Scenario {
	return arriving(scenario.Arrival{Stages: stages}, time.Minute)
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := plan(t, users(
		scenario.Stage{For: 10 * time.Second, Users: 5, Spawn: 1},
		scenario.Stage{For: 10 * time.Second, Users: 100, Spawn: 2},
		scenario.Stage{For: 10 * time.Second, Users: 24, Spawn: 0.5},
		scenario.Stage{Users: 7},
	)).Schedule(0, 0)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{
		{-time.Second, 1},
		{0, 1},
		{999 * time.Millisecond, 1},
		{time.Second, 2},
		{4 * time.Second, 5},
		{9 * time.Second, 5},
		{10 * time.Second, 6},
		{10500 * time.Millisecond, 7},
		{19999 * time.Millisecond, 25},
		{20 * time.Second, 24},
		{29 * time.Second, 24},
		{30 * time.Second, 7},
		{59 * time.Second, 7},
	} {
		if got := s.Users(c.at); got != c.want {
			t.Errorf("%d users at %v, want %d", got, c.at, c.want)
		}
	}
	if _, ok := s.Next(); ok {
		t.Error("an operation of users is due")
	}
}

// A caller of NextUsers misses no change.
func TestNextUsersMissesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stages []scenario.Stage
		for range rapid.IntRange(1, 4).Draw(t, "stages") {
			stages = append(stages, scenario.Stage{
				For: time.Duration(rapid.Int64Range(1, 10).Draw(t, "for")) * time.Second, Users: rapid.IntRange(1, 30).Draw(t, "users"),
				Spawn: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.1, 20)).Draw(t, "spawn"),
			})
		}
		p, err := users(stages...).Plan()
		if err != nil {
			t.Fatal(err)
		}
		s := p.Schedule(0, -time.Second)
		at, ok := -time.Second, true
		for ok {
			was := s.Users(at)
			before := at
			if at, ok = s.NextUsers(at); ok && at <= before {
				t.Fatalf("the change after %v is at %v", before, at)
			}
			until := at
			if !ok {
				until = time.Minute + time.Second // the end
			}
			for range 3 {
				between := before + time.Duration(rapid.Int64Range(0, int64(until-before)-1).Draw(t, "between"))
				if got := s.Users(between); got != was {
					t.Fatalf("%d users at %v and %d at %v, without a change at %v", was, before, got, between, until)
				}
			}
		}
	})
}

func TestScaledKeepsTheShape(t *testing.T) {
	t.Parallel()
	s := builtin(t, "llm-production")
	short := s.Scaled(24 * time.Second)
	if short.Duration() != 24*time.Second || s.Duration() != 24*time.Hour {
		t.Fatalf("%v of %v", short.Duration(), s.Duration())
	}
	long, brief := plan(t, s).Schedule(0, 0), plan(t, short).Schedule(0, 0)
	for at := time.Duration(0); at < 24*time.Second; at += 10*time.Millisecond + 1 {
		if a, b := long.Users(3600*at), brief.Users(at); a-b > 1 || b-a > 1 {
			t.Errorf("%d users at %v, %d at %v", b, at, a, 3600*at)
		}
	}
	attack := builtin(t, "attack").Scaled(3 * time.Second)
	if attack.Phases[0].For != 1500*time.Millisecond || attack.Duration() != 3*time.Second {
		t.Errorf("%+v", attack.Phases)
	}
	plan(t, attack)
}

func BenchmarkNext(b *testing.B) {
	for name, poisson := range map[string]bool{"even": false, "poisson": true} {
		b.Run(name, func(b *testing.B) {
			s := plan(b, arriving(scenario.Arrival{Clients: 1, Poisson: poisson, Stages: []scenario.Stage{rate(1, 1_000_000, 0)}}, 24*time.Hour)).Schedule(0, 0)
			for b.Loop() {
				s.Next()
			}
		})
	}
}
