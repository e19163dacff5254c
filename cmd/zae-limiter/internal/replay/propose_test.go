package replay_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

// run decides events, and keeps them if spool is set.
func run(t fataler, events []replay.Event, levels replay.Levels, spool *replay.Spool, costs ...string) *replay.Replayer {
	r := newReplayer(t, replay.Options{Levels: levels, Costs: costs, Spool: spool})
	for i := range events {
		if _, err := r.Add(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func newSpool(t *testing.T) *replay.Spool {
	t.Helper()
	s, err := replay.NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// bursts are events of a few entities in bursts.
func bursts(dice *rand.Rand, n int, cost func() int64) (events []replay.Event) {
	at := int64(1_000_000)
	for range n {
		if at += dice.Int64N(50); dice.IntN(10) == 0 {
			at += dice.Int64N(5000)
		}
		events = append(events, replay.Event{At: at, Entity: string("abc"[dice.IntN(3)]), Resource: "r", Amounts: []int64{cost()}})
	}
	return events
}

// with is a limit with a value of a change.
func with(l store.Limit, c replay.Change, value int64) store.Limit {
	switch c {
	case replay.ChangeBurst, replay.ChangeQuota:
		l.Capacity = value
	case replay.ChangeRate:
		l.Amount = value
	case replay.ChangeBoth:
		l.Capacity, l.Amount = (value*l.Capacity+l.Amount-1)/l.Amount, value
	}
	return l
}

func valueOf(c *replay.Choice) int64 {
	if c.Change == replay.ChangeBurst || c.Change == replay.ChangeQuota {
		return c.Capacity
	}
	return c.Amount
}

// refusedWith is how many events a limit refuses.
func refusedWith(t fataler, events []replay.Event, l store.Limit) int64 {
	return run(t, events, replay.Levels{{}: {l}}, nil, l.Name).Result().Refused
}

// A proposal meets the target, and the value less one does not. Where all events cost the
// same, no smaller value does.
func TestAProposalIsTheSmallestValueThatMeetsTheTarget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		dice := rand.New(rand.NewPCG(seed, 7))
		isUniform := seed%2 == 0
		events := bursts(dice, 200, func() int64 {
			if isUniform {
				return 2
			}
			return dice.Int64N(30)
		})
		limit := store.Limit{Name: "rps", Capacity: 10 + dice.Int64N(90), Amount: 1 + dice.Int64N(40), Period: time.Second}
		target := []float64{0, 0.01, 0.2}[dice.IntN(3)]
		p, err := run(t, events, replay.Levels{{}: {limit}}, newSpool(t), "rps").Propose(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Limits) != 1 || len(p.Limits[0].Choices) != 3 {
			t.Fatalf("seed %d: %+v", seed, p)
		}
		for _, c := range p.Limits[0].Choices {
			checkChoice(t, events, limit, target, isUniform, &c)
		}
		best := p.Limits[0].Choices[0].Limit
		if got := refusedWith(t, events, best); got != p.Refused {
			t.Errorf("seed %d: %v refuses %d, the proposals say %d", seed, best, got, p.Refused)
		}
	}
}

// Of a quota, only the tokens are proposed. Its calendar stays.
func TestAQuotaIsProposedAsAQuota(t *testing.T) {
	t.Parallel()
	for _, limit := range []store.Limit{each("rps", 20, "*/2 * * * *", "Europe/Berlin"), each("rps", 20, "session 40s", "")} {
		for _, target := range []float64{0, 0.05, 0.3} {
			events := bursts(rand.New(rand.NewPCG(1, 7)), 400, func() int64 { return 2 })
			p, err := run(t, events, replay.Levels{{}: {limit}}, newSpool(t), "rps").Propose(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Limits) != 1 || len(p.Limits[0].Choices) != 1 || p.Limits[0].Choices[0].Change != replay.ChangeQuota {
				t.Fatalf("%+v", p)
			}
			c := p.Limits[0].Choices[0]
			checkChoice(t, events, limit, target, true, &c)
			if c.Renews != limit.Renews.String() || c.Amount != 0 || p.Refused != c.Refused {
				t.Errorf("at %v: %+v, and together %d are refused", target, c, p.Refused)
			}
		}
	}
}

func checkChoice(t *testing.T, events []replay.Event, limit store.Limit, target float64, isUniform bool, c *replay.Choice) {
	t.Helper()
	judged := 0
	for _, e := range events {
		if e.Amounts[0] > 0 {
			judged++
		}
	}
	meets := func(value int64) bool {
		return float64(refusedWith(t, events, with(limit, c.Change, value)))/float64(judged) <= target
	}
	if !c.Met {
		if c.Change != replay.ChangeRate || meets(store.MaxTokens) {
			t.Errorf("%v at %v: %s: no value was found", limit, target, c.Change)
		}
		return
	}
	value := valueOf(c)
	if c.Limit != with(limit, c.Change, value) || !meets(value) || c.Refused != refusedWith(t, events, c.Limit) {
		t.Errorf("%v at %v: %s %d does not meet the target", limit, target, c.Change, value)
	}
	least := value - 1
	if isUniform {
		least = 1
	}
	for smaller := max(1, least); smaller < value; smaller++ {
		if meets(smaller) {
			t.Errorf("%v at %v: %s %d meets the target, too, and is less than %d", limit, target, c.Change, smaller, value)
			return
		}
	}
}

func TestProposalsCountParentsAndEachLimitAlone(t *testing.T) {
	t.Parallel()
	var events []replay.Event
	for i := range int64(100) {
		events = append(events, replay.Event{At: i, Entity: "child", Parent: "parent", Resource: "r", Amounts: []int64{1, i % 2}})
	}
	day := 24 * time.Hour
	levels := replay.Levels{
		{}:                                {{Name: "a", Capacity: 1, Amount: 1, Period: day}, {Name: "b", Capacity: 1, Amount: 1, Period: day}},
		{Entity: "parent", Resource: "r"}: {{Name: "a", Capacity: 1, Amount: 1, Period: day}},
	}
	p, err := run(t, events, levels, newSpool(t), "a", "b").Propose(t.Context(), 0.1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"system a": 90, "system b": 45, "entity parent for r a": 90}
	for _, l := range p.Limits {
		if got := l.Choices[1]; got.Capacity != want[l.Level+" "+l.Name] || got.Change != replay.ChangeBurst {
			t.Errorf("%s %s: %+v, want %v", l.Level, l.Name, got, want)
		}
	}
	// a and b are out of tokens at the end: the last events are refused by either.
	if len(p.Limits) != 3 || p.Refused != 10 {
		t.Errorf("%d limits, %d refused together", len(p.Limits), p.Refused)
	}
}

func TestProposeNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	levels := replay.Levels{{}: {{Name: "a", Capacity: 1, Amount: 1, Period: time.Second}}}
	for field, call := range map[string]func() (*replay.Proposals, error){
		"spool": func() (*replay.Proposals, error) { return run(t, nil, levels, nil, "a").Propose(t.Context(), 0) },
		"refuse at most": func() (*replay.Proposals, error) {
			return run(t, nil, levels, newSpool(t), "a").Propose(t.Context(), 1)
		},
	} {
		_, err := call()
		if wrong, ok := errors.AsType[*store.ValidationError](err); !ok || wrong.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// With one cost for all events, fewer tokens never refuse fewer events: the fact on which
// the search rests.
func TestASmallerLimitRefusesAsManyEqualEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		events := bursts(rand.New(rand.NewPCG(seed, 1)), 60, func() int64 { return 3 })
		small := store.Limit{Name: "a", Capacity: rapid.Int64Range(1, 40).Draw(t, "capacity"), Amount: rapid.Int64Range(1, 40).Draw(t, "amount"), Period: time.Second}
		large := small
		large.Capacity += rapid.Int64Range(0, 5).Draw(t, "more capacity")
		large.Amount += rapid.Int64Range(0, 5).Draw(t, "more amount")
		if s, l := refusedWith(t, events, small), refusedWith(t, events, large); l > s {
			t.Fatalf("%v refuses %d, %v refuses %d", small, s, large, l)
		}
	})
}
