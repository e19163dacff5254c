package plan

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Pace limits the part of an item's tokens that one write asks for.
type Pace struct {
	Part  int64 // a write asks for 1/part of the tokens; 1 is all
	Delay int64 // how long the write takes to arrive, in milliseconds
	// Ahead is how long a limit may still have to earn the tokens, in milliseconds; 0 is
	// not at all. A write asks for what the limit earns in Turn milliseconds, if that is
	// more than its part of the tokens.
	Ahead, Turn int64
}

// Admit returns the callers of a crowd that an item can serve, in the order of their
// arrival. amounts is what a caller asks for. If this version cannot refill the item,
// only its stored balances count. The callers together ask for no more than the pace
// allows, but at least for the amounts of the first of them.
//
// A caller for whom the item holds too little is passed over, so that a large request does
// not keep small ones waiting. Without the pace, the process that writes first would take
// all that an item holds, and the others would find it empty for as long as it takes to earn
// that much. So the first caller beyond the pace ends the crowd: those behind it wait for the
// next write, in their order.
func Admit[T any](crowd []T, amounts func(T) []store.Amount, img *store.Image, p Pace, now int64) []T {
	if img == nil {
		return nil
	}
	held := make([]int64, len(img.Limits))
	for i := range img.Limits {
		s := &img.Limits[i]
		held[i] = s.Tokens
		if img.IsEvaluable() {
			held[i] = ShareOf(img, s).Balance(s.Tokens+returnsNow(img, s.Name, now), img.RefilledAt, now)
		}
	}
	least := make([]int64, len(held)) // what the write must leave, unless it serves one caller
	for i := range least {
		part := ShareOf(img, &img.Limits[i])
		// A quota that renews in the meantime earns without bound: all that it holds may go.
		most := (held[i] + min(part.Earned(now, now+p.Delay), math.MaxInt64-max(0, held[i]))) / p.Part
		least[i] = held[i] - min(max(most, part.Earned(now, now+p.Turn)), math.MaxInt64+min(0, held[i]))
	}
	// some reports whether one of the amounts would leave too little of its limit.
	some := func(asked []store.Amount, isTooMuch func(i int, a store.Amount) bool) bool {
		return slices.ContainsFunc(asked, func(a store.Amount) bool {
			i := slices.IndexFunc(img.Limits, func(s store.LimitState) bool { return s.Name == a.Limit })
			return i >= 0 && a.Milli > 0 && MustSuffice(img, &img.Limits[i]) && isTooMuch(i, a)
		})
	}
	isShort := func(i int, a store.Amount) bool {
		return held[i]+AheadOf(ShareOf(img, &img.Limits[i]), a.Milli, now, p.Ahead) < a.Milli
	}
	isBeyondPace := func(i int, a store.Amount) bool { return held[i]-a.Milli < least[i] }
	admitted := make([]T, 0, len(crowd))
	for _, t := range crowd {
		asked := amounts(t)
		switch {
		case some(asked, isShort):
			continue
		case len(admitted) > 0 && some(asked, isBeyondPace):
			return admitted
		}
		for i := range img.Limits {
			held[i] -= AmountOf(asked, img.Limits[i].Name)
		}
		admitted = append(admitted, t)
	}
	return admitted
}
