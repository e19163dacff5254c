package replay_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/store"
)

const hour = int64(time.Hour / time.Millisecond)

// lastWeek is where the hours of tests begin: on an hour, and within periods of calendars.
var lastWeek = time.Date(2026, time.October, 21, 7, 0, 0, 0, time.UTC).UnixMilli()

// scheduled adds a schedule to a limit.
func scheduled(l store.Limit, words, zone string) store.Limit {
	s, err := limiter.ParseSchedule(words, zone)
	if err != nil {
		panic(err) // a constant
	}
	l.Varies = s
	return l
}

// zones are those of limits. Their days do not begin on hours of UTC.
var zones = []string{"Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/New_York"}

// aLimit is any kind of limit, of which some are exceeded by a few tokens an hour.
func aLimit(dice *rand.Rand, name, zone string) store.Limit {
	tokens := 2 + dice.Int64N(60)
	rate := store.Limit{Name: name, Capacity: 1 + dice.Int64N(50), Amount: 1 + dice.Int64N(40), Period: time.Duration(1+dice.IntN(120)) * time.Minute}
	switch dice.IntN(9) {
	case 0:
		return rate
	case 1:
		return scheduled(rate, "* 9-17 * * * x0.3", zone)
	case 2:
		return scheduled(rate, "*/25 * * * * x2.5; 30-40 * * * * capacity=3 amount=1", zone)
	case 3:
		return each(name, tokens, []string{"day at 09:45", "20 */3 * * *", "0 * * * *", "week from monday"}[dice.IntN(4)], zone)
	case 4:
		l := each(name, tokens, []string{"day", "40 */2 * * *"}[dice.IntN(2)], zone)
		l.Carries.Rollover = 1 + dice.Int64N(2*tokens)
		return l
	case 5:
		return scheduled(each(name, tokens, "day at 12:30", zone), "* 18-23 * * * x0.4; */50 * * * * x2", zone)
	case 6:
		return each(name, tokens, []string{"session 20m", "session 1h", "session 5h", "session 30h"}[dice.IntN(4)], "")
	case 7:
		return scheduled(each(name, tokens, "session 3h", ""), "*/15 * * * * x0.5", zone)
	}
	l := rate
	l.Mode = store.Shadow
	return l
}

// aWeek is a log of some days: hours that are used much, little or not at all, and requests that come at
// once, at edges of hours, or spread.
func aWeek(dice *rand.Rand, parents bool) (events []replay.Event) {
	heavy, clumped := 1+dice.Int64N(30), dice.IntN(3)
	for h := range int64(60) {
		if dice.IntN(3) == 0 {
			continue
		}
		at := []int64{0, hour - 1, dice.Int64N(hour)}[dice.IntN(3)]
		for range 1 + dice.IntN(6) {
			if dice.IntN(3) >= clumped {
				at = dice.Int64N(hour)
			}
			e := replay.Event{
				At: lastWeek + h*hour + at, Entity: string("ab"[dice.IntN(2)]), Resource: "r", Amounts: []int64{dice.Int64N(heavy + 1), dice.Int64N(2)},
			}
			if parents {
				e.Parent = "p"
			}
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b replay.Event) int { return int(a.At - b.At) })
	return events
}

// sumsOf are the hours of a log, by bucket. A parent's bucket has what its children asked.
func sumsOf(events []replay.Event) map[string][]replay.Sum {
	all := map[string][]replay.Sum{}
	for _, e := range events {
		for _, entity := range []string{e.Entity, e.Parent} {
			if entity == "" {
				continue
			}
			sums, start := all[entity], e.At-e.At%hour
			if len(sums) == 0 || sums[len(sums)-1].Start != start {
				sums = append(sums, replay.Sum{Start: start, Amounts: make([]int64, len(e.Amounts))})
			}
			for i, tokens := range e.Amounts {
				sums[len(sums)-1].Amounts[i] += tokens
			}
			all[entity] = sums
		}
	}
	return all
}

// judged are the hours of a log under limits.
func judged(t *testing.T, o replay.Options, events []replay.Event) *replay.Result {
	t.Helper()
	h, err := replay.NewHours(o, lastWeek)
	if err != nil {
		t.Fatal(err)
	}
	for entity, sums := range sumsOf(events) {
		if err := h.Add(entity, "r", sums); err != nil {
			t.Fatal(err)
		}
	}
	return h.Result()
}

// A deed is what a limit of one level did to a log.
type deed struct {
	lost, short int64          // tokens that were not admitted, and those of requests for which the limit was short
	hours       map[int64]bool // in which it was short
}

// decided decides a log, and tells what each limit did. Each level has one bucket.
func decided(t *testing.T, o replay.Options, events []replay.Event) map[string]*deed {
	t.Helper()
	r, all := newReplayer(t, o), map[string]*deed{}
	before := r.Result()
	for _, l := range before.Limits {
		all[l.Level+" "+l.Name] = &deed{hours: map[int64]bool{}}
	}
	for i := range events {
		e := &events[i]
		if _, err := r.Add(e); err != nil {
			t.Fatal(err)
		}
		after := r.Result()
		for i, l := range after.Limits {
			was, of := before.Limits[i], all[l.Level+" "+l.Name]
			of.lost = l.Asked - l.Taken
			if l.Refused+l.WouldRefuse > was.Refused+was.WouldRefuse {
				of.short += l.Asked - was.Asked
				of.hours[e.At-e.At%hour] = true
			}
		}
		before = after
	}
	return all
}

// Law: at least so many tokens are not admitted, and at most those of so many are refused by the limit, in whichever
// order requests come within their hours. An hour that is certain has a refusal, and one that is neither
// certain nor maybe has none.
func TestHoursBoundWhatIsRefused(t *testing.T) {
	t.Parallel()
	verdicts := map[replay.Verdict]int{}
	exact := 0
	seeds := []uint64{3586, 4282} // what carries begins late; a schedule cuts what a late beginning does not
	for seed := range uint64(200) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		dice := rand.New(rand.NewPCG(seed, 73))
		several, zone := seed%4 == 3, zones[dice.IntN(len(zones))]
		var levels replay.Levels
		if levels = (replay.Levels{{Entity: "a", Resource: "r"}: {aLimit(dice, "rpm", zone)}, {Entity: "b", Resource: "r"}: {aLimit(dice, "rpm", zone)}}); several {
			for k, l := range levels {
				levels[k] = append(l, aLimit(dice, "tpm", zone))
			}
			levels[store.ConfigKey{Entity: "p", Resource: "r"}] = []store.Limit{aLimit(dice, "rpm", zone)}
		}
		o := replay.Options{Levels: levels, Costs: []string{"rpm", "tpm"}, Top: 100}
		events := aWeek(dice, several)
		deeds, bounds := decided(t, o, events), judged(t, o, events)
		for _, l := range bounds.Limits {
			is := deeds[l.Level+" "+l.Name]
			if l.AtLeast > is.lost || is.short > l.AtMost || l.AtMost > l.Asked || l.Refused+l.WouldRefuse+l.MaybeHours > l.Events {
				t.Fatalf("seed %d: %s of %s %+v: %d of %d tokens were not admitted, %d refused by it, bounds are %+v", seed, l.Name, l.Level, l.Limit, is.lost, l.Asked, is.short, l.Bounds)
			}
			if n := int64(len(is.hours)); !several && (l.Refused+l.WouldRefuse > n || n > l.Refused+l.WouldRefuse+l.MaybeHours) {
				t.Fatalf("seed %d: %s of %s %+v: %d hours have refusals, %d for certain and %d maybe", seed, l.Name, l.Level, l.Limit, n, l.Refused+l.WouldRefuse, l.MaybeHours)
			}
			if l.AtLeast == is.lost && is.lost > 0 {
				exact++
			}
		}
		for _, b := range bounds.Top {
			verdicts[b.Verdict]++
		}
		verdicts[replay.Never] += bounds.Verdicts.Never
	}
	if verdicts[replay.Certain] < 100 || verdicts[replay.Maybe] < 50 || verdicts[replay.Never] < 50 || exact < 20 {
		t.Errorf("the logs have verdicts %v, and %d bounds that are reached", verdicts, exact)
	}
}

func TestHoursSayWhatTheirSumsTell(t *testing.T) {
	t.Parallel()
	soft, off := limiter.PerHour("rpm", 10, limiter.Soft()), limiter.PerHour("rpm", 10, limiter.SwitchedOff())
	for _, c := range []struct {
		name            string
		limit           store.Limit
		hours           map[int64]int64 // tokens by hour
		verdict         replay.Verdict
		atLeast, atMost int64
		refused, maybe  int64 // hours
	}{
		{"above what an hour can admit", limiter.PerHour("rpm", 10), map[int64]int64{0: 25}, replay.Certain, 5, 25, 1, 0},
		{"all that an hour can admit", limiter.PerHour("rpm", 10), map[int64]int64{0: 20}, replay.Maybe, 0, 20, 0, 1},
		{"the burst", limiter.PerHour("rpm", 10), map[int64]int64{0: 10}, replay.Never, 0, 0, 0, 0},
		{"the burst in two hours that touch", limiter.PerHour("rpm", 10), map[int64]int64{0: 10, 1: 10}, replay.Maybe, 0, 10, 0, 1},
		{"the burst in two hours apart", limiter.PerHour("rpm", 10), map[int64]int64{0: 10, 2: 10}, replay.Never, 0, 0, 0, 0},
		{"more than the rate for long", limiter.PerHour("rpm", 10), map[int64]int64{0: 15, 1: 15, 2: 15}, replay.Certain, 5, 45, 0, 3},
		{"a quota, by its periods", each("rpm", 30, "day", "UTC"), map[int64]int64{0: 20, 1: 20, 17: 30}, replay.Certain, 10, 20, 0, 1},
		{"a quota that suffices", each("rpm", 30, "day", "UTC"), map[int64]int64{0: 20, 1: 10, 17: 30}, replay.Never, 0, 0, 0, 0},
		{"a soft limit", soft, map[int64]int64{0: 1000}, replay.Never, 0, 0, 0, 0},
		{"a limit that is off", off, map[int64]int64{0: 1000}, replay.Never, 0, 0, 0, 0},
	} {
		h, err := replay.NewHours(replay.Options{Levels: replay.Levels{{}: {c.limit}}, Costs: []string{"rpm"}}, lastWeek)
		if err != nil {
			t.Fatal(err)
		}
		var sums []replay.Sum
		for _, n := range slices.Sorted(maps.Keys(c.hours)) {
			sums = append(sums, replay.Sum{Start: lastWeek + n*hour, Amounts: []int64{c.hours[n]}})
		}
		if err := h.Add("a", "r", sums); err != nil {
			t.Fatal(err)
		}
		r := h.Result()
		l, verdict := r.Limits[0], replay.Never
		if len(r.Top) > 0 {
			verdict = r.Top[0].Verdict
		}
		if verdict != c.verdict || l.AtLeast != c.atLeast || l.AtMost != c.atMost || l.Refused != c.refused || l.MaybeHours != c.maybe || r.Refused != c.refused || r.Maybe != c.maybe {
			t.Errorf("%s: %s, %+v, %d of %d hours", c.name, verdict, l.Bounds, l.Refused, l.Events)
		}
		if r.Counts != replay.HoursUsed || r.Verdicts.Certain+r.Verdicts.Maybe+r.Verdicts.Never != 1 || l.LimitInstants != nil || r.To.Sub(r.From) < time.Hour {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// Another limit refuses the first request. So the bucket begins with the second one, and has carried nothing.
func TestHoursCarryNothingForCertain(t *testing.T) {
	t.Parallel()
	carrying := each("rpm", 10, "0 * * * *", "UTC")
	carrying.Carries.Rollover = 10
	o := replay.Options{Levels: replay.Levels{{}: {carrying, limiter.PerHour("tpm", 1)}}, Costs: []string{"rpm", "tpm"}}
	events := []replay.Event{
		{At: lastWeek, Entity: "a", Resource: "r", Amounts: []int64{1, 2}}, {At: lastWeek + hour, Entity: "a", Resource: "r", Amounts: []int64{15, 0}},
	}
	if is := decided(t, o, events)["system rpm"]; is.short != 15 {
		t.Fatalf("%+v", is)
	}
	if l := judged(t, o, events).Limits[0]; l.Name != "rpm" || l.AtMost != 15 {
		t.Errorf("%s: %+v", l.Name, l.Bounds)
	}
}

// A limit in shadow refuses nobody, and says what it would have refused. Buckets without limits are counted.
func TestHoursOfLimitsInShadow(t *testing.T) {
	t.Parallel()
	h, err := replay.NewHours(replay.Options{
		Levels: replay.Levels{{Resource: "r"}: {limiter.PerHour("rpm", 10, limiter.InShadow(0))}}, Costs: []string{"rpm"},
	}, lastWeek)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"r", "other"} {
		if err := h.Add("a", resource, []replay.Sum{{Start: lastWeek, Amounts: []int64{25}}}); err != nil {
			t.Fatal(err)
		}
	}
	r := h.Result()
	if r.Refused != 0 || r.Unlimited != 1 || r.Buckets != 2 || r.Verdicts.Never != 2 || len(r.Top) != 1 || r.Top[0].WouldRefuse != 1 || r.Top[0].Verdict != replay.Never || r.Limits[0].WouldRefuse != 1 || r.Limits[0].AtLeast != 5 {
		t.Errorf("%+v", r)
	}
}

func TestHoursRefuseWhatIsNoHour(t *testing.T) {
	t.Parallel()
	o := replay.Options{Levels: replay.Levels{{}: {limiter.PerHour("rpm", 10)}}, Costs: []string{"rpm"}}
	for field, sums := range map[string][]replay.Sum{
		"hour":          {{Start: lastWeek - 1, Amounts: []int64{1}}},
		"amounts":       {{Start: lastWeek}},
		"amount of rpm": {{Start: lastWeek, Amounts: []int64{-1}}},
	} {
		h, err := replay.NewHours(o, lastWeek)
		if err != nil {
			t.Fatal(err)
		}
		if wrong, ok := errors.AsType[*store.ValidationError](h.Add("a", "r", sums)); !ok || wrong.Field != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	h, err := replay.NewHours(o, lastWeek)
	if err != nil {
		t.Fatal(err)
	}
	twice := []replay.Sum{{Start: lastWeek, Amounts: []int64{1}}, {Start: lastWeek, Amounts: []int64{1}}}
	if err := h.Add("a", "r", twice); err == nil {
		t.Error("an hour is accepted twice")
	}
	if _, err := replay.NewHours(replay.Options{Levels: o.Levels}, lastWeek); err == nil {
		t.Error("a limit without a cost is accepted")
	}
}
