package plan

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Pace limits the part of an item's tokens that one write asks for.
type Pace struct {
	Part  int64 // a write asks for 1/part of the tokens; 1 is all
	Delay int64 // how long the write takes to arrive, in milliseconds
}

// Admit returns the callers of a crowd that an item can serve, in the order of their
// arrival. amounts is what a caller asks for. If this version cannot refill the item,
// only its stored balances count. The callers together ask for no more than the pace
// allows, but at least for the amounts of the first of them.
func Admit[T any](crowd []T, amounts func(T) []store.Amount, img *store.Image, p Pace, now int64) []T {
	if img == nil {
		return nil
	}
	held := make([]int64, len(img.Limits))
	for i := range img.Limits {
		s := &img.Limits[i]
		held[i] = s.Tokens
		if img.IsEvaluable() {
			held[i] = ShareOf(img, s.Params).Balance(s.Tokens, img.RefilledAt, now)
		}
	}
	least := make([]int64, len(held)) // what the write must leave
	for i := range least {
		least[i] = held[i] - (held[i]+ShareOf(img, img.Limits[i].Params).Earned(now, now+p.Delay))/p.Part
	}
	// leaves reports whether amounts leave at least that much of each limit.
	leaves := func(asked []store.Amount, least []int64) bool {
		return !slices.ContainsFunc(asked, func(a store.Amount) bool {
			i := slices.IndexFunc(img.Limits, func(s store.LimitState) bool { return s.Name == a.Limit })
			return i >= 0 && a.Milli > 0 && held[i]-a.Milli < least[i]
		})
	}
	nothing := make([]int64, len(held))
	admitted := make([]T, 0, len(crowd))
	for _, t := range crowd {
		asked := amounts(t)
		switch {
		case !leaves(asked, nothing):
			continue
		case len(admitted) > 0 && !leaves(asked, least):
			return admitted
		}
		for i := range img.Limits {
			held[i] -= AmountOf(asked, img.Limits[i].Name)
		}
		admitted = append(admitted, t)
	}
	return admitted
}
