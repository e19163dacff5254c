package plan_test

import (
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// What became of a write number 9, which excludes the lost one 7, by an answer.
func TestFateOf(t *testing.T) {
	t.Parallel()
	seq := &store.Sequence{Position: "a0", Number: 9, Below: 7}
	made := func(room int32, limits int) *store.Image {
		return &store.Image{CreatedAt: 1, PositionCap: room, Limits: make([]store.LimitState, limits)}
	}
	seen := made(0, 1)
	at := func(number int64) *store.Image {
		return &store.Image{CreatedAt: 1, Positions: []store.Position{{Name: "a0", Number: number}, {Name: "b0", Number: 9}}}
	}
	for name, c := range map[string]struct {
		out   store.Outcome
		makes bool
		want  plan.Fate
	}{
		"applied":                           {store.Outcome{Applied: true, Image: at(9)}, false, plan.Landed},
		"applied before":                    {store.Outcome{Image: at(9)}, false, plan.Landed},
		"refused, a copy is under way":      {store.Outcome{Image: at(6)}, false, plan.Open},
		"refused, the position was removed": {store.Outcome{Image: seen}, false, plan.Unknown},
		"the lost one before it landed":     {store.Outcome{Image: at(7)}, false, plan.Refused},
		"another lost one landed":           {store.Outcome{Image: at(8)}, false, plan.Refused},
		"a later write":                     {store.Outcome{Image: at(10)}, false, plan.Unknown},
		"no item":                           {store.Outcome{}, false, plan.Unknown},
		"another item with the same number": {store.Outcome{Image: &store.Image{CreatedAt: 2, Positions: at(9).Positions}}, false, plan.Unknown},
		"a creation, made before":           {store.Outcome{Image: at(9)}, true, plan.Landed},
		"a creation, others made the item":  {store.Outcome{Image: &store.Image{CreatedAt: 2, Positions: at(9).Positions}}, true, plan.Open},
		"a creation, in the same ms":        {store.Outcome{Image: made(2, 1)}, true, plan.Open},
		"a creation, there was no room":     {store.Outcome{Image: made(0, 1)}, true, plan.Unknown},
		"a creation, there is little room":  {store.Outcome{Image: made(1, 1)}, true, plan.Unknown},
		"a creation, a limit was removed":   {store.Outcome{Image: made(24, 0)}, true, plan.Unknown},
		"a creation, a position was too":    {store.Outcome{Image: made(store.PositionRound+24, 1)}, true, plan.Unknown},
	} {
		if got := plan.FateOf(seq, seen, c.out, c.makes); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	first := *seq // at its position
	first.Cap = 2*store.PositionRound + 20
	for round, want := range map[int32]plan.Fate{2: plan.Open, 3: plan.Unknown} {
		img := &store.Image{CreatedAt: 1, PositionCap: round*store.PositionRound + 7}
		if got := plan.FateOf(&first, seen, store.Outcome{Image: img}, false); got != want {
			t.Errorf("the first one, %d rounds of removals: %d, want %d", round, got, want)
		}
	}
}

// A write has a sequence if the item has its position, or room for it.
func TestSequenceAt(t *testing.T) {
	t.Parallel()
	with := func(n, tight int) *store.Image {
		img := &store.Image{PositionCap: int32(3*store.PositionRound + store.MostPositions - tight)}
		for i := range n {
			img.Positions = append(img.Positions, store.Position{Name: "p" + strconv.Itoa(i), Number: 1})
		}
		return img
	}
	for name, c := range map[string]struct {
		img  *store.Image
		none bool
		most int // positions that the item must have less than
	}{
		"it has it":               {with(24, 24), false, 0},
		"there is room":           {with(0, 3), false, 3021},
		"there is room for one":   {with(0, 23), false, 3001},
		"there is none":           {with(0, 24), true, 0},
		"too many limits to name": {&store.Image{Limits: make([]store.LimitState, 17)}, true, 0},
	} {
		position := "p9"
		if got := plan.SequenceAt(c.img, position, 5, 4); got.IsNone() != c.none || got.Cap != c.most || !c.none && (got.Number != 5 || got.Below != 4) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A refill removes what was not used for 15 minutes, but not its own position.
func TestARefillRemovesIdlePositions(t *testing.T) {
	t.Parallel()
	const now, quarter = 1_800_000_000_000, 15 * 60 * 1000
	img := &store.Image{Positions: []store.Position{{Name: "a0", Number: now - 2*quarter}, {Name: "b0", Number: now - quarter}, {Name: "c0", Number: now - quarter - 1}}}
	r := &store.Refill{Seen: img}
	plan.NumberRefill(r, store.Sequence{Position: "a0", Number: now}, now)
	if len(r.Idle) != 1 || r.Idle[0] != img.Positions[2] {
		t.Errorf("removes %v", r.Idle)
	}
}
