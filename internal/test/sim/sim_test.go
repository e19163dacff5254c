package sim_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var (
	seeds     = flag.Int("sim.seeds", 25, "how many seeds to run; a fifth of them with -short")
	firstSeed = flag.Uint64("sim.first", 1, "the first of the seeds")
	seed      = flag.Uint64("sim.seed", 0, "run this seed alone and print its trace")
	followers = flag.Int("sim.followers", 0, "have this many aggregators at least in every seed")
	stepping  = flag.Bool("sim.stepped", false, "have clocks set in every seed")
	dating    = flag.Bool("sim.dated", false, "have answers with dates, and a clock far ahead, in every seed")
	patience  = flag.Bool("sim.patient", false, "have callers wait, and extend and reduce leases, in every seed")
	quotaing  = flag.Bool("sim.quotas", false, "have quotas in every seed")
	varying   = flag.Bool("sim.varied", false, "have limits with timetables in every seed")
	granting  = flag.Bool("sim.granted", false, "have an operator reset and top up buckets in every seed")
	carrying  = flag.Bool("sim.carries", false, "have quotas that carry something into the next period in every seed")
	sitting   = flag.Bool("sim.sessions", false, "have quotas that are sessions in every seed")
	joining   = flag.Bool("sim.joint", false, "have requests of several resources in every seed")
	softening = flag.Bool("sim.soft", false, "have soft limits in every seed")
	moding    = flag.Bool("sim.modes", false, "have limits in shadow, and limits that are off, in every seed")
	tailing   = flag.Bool("sim.tailed", false, "have all aggregators be processes of their own")
)

// A result is the result of a run.
type result struct {
	violations []violation
	report     string
	trace      string
	stats      string
	healed     int // stamps that were moved back
	renewed    int // quotas that began a period
	followed   int // balances of quotas that followed a change of the amount
	late       int // credits that came after the end of their period
	owed       int // debits of soft limits below zero
	shadowed   int // requests that a limit in shadow would have refused
	begun      int64
}

func (r result) broke(promise string) bool {
	for _, v := range r.violations {
		if v.promise == promise {
			return true
		}
	}
	return false
}

// simulate runs one seed in its own bubble.
func simulate(t *testing.T, seed uint64, o odds, broken breakage) result {
	t.Helper()
	return simulated(t, seed, o, broken, false)
}

// simulated runs a seed, with its trace if requested: it is long.
func simulated(t *testing.T, seed uint64, o odds, broken breakage, traced bool) (res result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		p := newPlay(seed, o, broken)
		p.run()
		check(p)
		res = result{violations: p.w.violations, stats: p.w.stats() + p.aggregates(), begun: p.w.begun.Load()}
		for _, r := range p.w.log {
			if !r.failed && r.heals() {
				res.healed++
			}
			res.renewed += r.renews()
			res.followed += r.follows()
			res.owed += r.owes()
			res.shadowed += r.shadows()
			if r.isLate() {
				res.late++
			}
		}
		if traced {
			res.trace = p.w.trace() + p.books()
		}
		var b strings.Builder
		fmt.Fprintf(&b, "seed %d: %v, ttl %v, %s\nreplay: go test ./internal/test/sim -run TestSim -sim.seed=%d -sim.followers=%d -sim.tailed=%t -sim.dated=%t -sim.stepped=%t -sim.patient=%t -sim.quotas=%t -sim.varied=%t -sim.granted=%t -sim.soft=%t -sim.carries=%t -sim.sessions=%t -sim.joint=%t -sim.modes=%t -v\n", seed, o, p.ttl, res.stats, seed, o.followers, o.tailed, o.dated, o.stepped, o.patient, o.quotas != 0, o.varied != 0, o.granted, o.soft, o.carries, o.sessions, o.joint, o.modes)
		const most = 5
		for i, v := range res.violations {
			if i == most {
				fmt.Fprintf(&b, "… and %d more\n", len(res.violations)-most)
				break
			}
			fmt.Fprintf(&b, "%s\n%s\n", v, p.w.excerpt(v))
		}
		res.report = b.String()
	})
	return res
}

// oddsOf are the odds of a seed, with the aggregators that the flag sets.
func oddsOf(seed uint64) odds {
	o := drawOdds(dice(seed))
	o.followers, o.tailed, o.dated = max(o.followers, *followers), o.tailed || *tailing, o.dated || *dating
	o.stepped, o.patient = o.stepped || *stepping, o.patient || *patience
	if o.carries = o.carries || *carrying; *sitting {
		o = o.seated()
	}
	if *quotaing || *carrying {
		o.quotas = beforeEdge
	}
	if *varying {
		o.varied = beforeEdge
	}
	o.joint, o.modes = o.joint || *joining, o.modes || *moding
	o.granted, o.soft = o.granted || *granting, o.soft || *softening
	return o
}

// many is how many seeds to run.
func many() int {
	if testing.Short() {
		return *seeds / 5
	}
	return *seeds
}

// TestSim plays seeds and checks the promises in each.
func TestSim(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		res := simulated(t, *seed, oddsOf(*seed), breakage{}, true)
		t.Logf("%s\n%s", res.trace, res.report)
		if len(res.violations) > 0 {
			t.Fail()
		}
		return
	}
	for s := *firstSeed; s < *firstSeed+uint64(many()); s++ {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			t.Parallel()
			if res := simulate(t, s, oddsOf(s), breakage{}); len(res.violations) > 0 {
				t.Error(res.report)
			}
		})
	}
}

// playSeeds plays the first seeds side by side, each with the odds that it gets, and checks the promises.
// It returns once seen was told of all results.
func playSeeds(t *testing.T, seeds uint64, oddsAt func(seed uint64) odds, seen func(result)) {
	t.Helper()
	t.Run("seeds", func(t *testing.T) {
		for s := uint64(1); s <= seeds; s++ {
			t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
				t.Parallel()
				res := simulate(t, s, oddsAt(s), breakage{})
				if len(res.violations) > 0 {
					t.Error(res.report)
				}
				seen(res)
			})
		}
	})
}

// TestSimOfOneProcess plays a few seeds with one process. Its callers carry writes, also in pairs.
func TestSimOfOneProcess(t *testing.T) {
	t.Parallel()
	const seeds = 24
	var begun atomic.Int64
	playSeeds(t, seeds, func(s uint64) odds {
		return drawOdds(dice(s)).alone()
	}, func(res result) {
		begun.Add(res.begun)
	})
	if n := begun.Load(); n < seeds {
		t.Errorf("callers carried %d takes in pairs in %d seeds", n, seeds)
	}
}

// TestSimWithAggregators plays a few seeds with one or two aggregators each, since few
// seeds have any by chance.
func TestSimWithAggregators(t *testing.T) {
	t.Parallel()
	const seeds = 6
	playSeeds(t, seeds, func(s uint64) odds {
		o := drawOdds(dice(s))
		o.followers, o.tailed = max(o.followers, 1+int(s%2)), s%3 == 0
		return o
	}, func(result) {})
}

// TestSameSeedSameTrace: a seed is a history. The two sides of a request that go out at the
// same instant may need the same configuration. The scheduler, which the race detector
// shuffles, decides which asks first, so a few seeds have two traces.
func TestSameSeedSameTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ seeds, followers int }{{6, 0}, {2, 2}} {
		t.Run(fmt.Sprint(c.followers, " aggregators"), func(t *testing.T) {
			t.Parallel()
			sameTrace(t, c.seeds, c.followers)
		})
	}
}

func sameTrace(t *testing.T, seeds, followers int) {
	t.Helper()
	const shuffled = 2
	var differ []string
	for s, found := uint64(1), 0; found < seeds; s++ {
		o := drawOdds(dice(s))
		if o.followers, o.tailed = followers, false; o.crowds || o.hot || o.patient {
			continue // the scheduler decides the order in a queue, or after another call's lookup
		}
		found++
		first := simulated(t, s, o, breakage{}, true).trace
		again := simulated(t, s, o, breakage{}, true).trace
		if sha256.Sum256([]byte(first)) != sha256.Sum256([]byte(again)) {
			differ = append(differ, fmt.Sprintf("seed %d: %s", s, firstDifference(first, again)))
		}
	}
	if len(differ) > shuffled {
		t.Error(strings.Join(differ, "\n"))
	}
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i, as[i], bs[i])
		}
	}
	return fmt.Sprintf("%d lines and %d", len(as), len(bs))
}
