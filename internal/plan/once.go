package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// A lease that was written down is settled by one write to each item (ADR 058). What it took of a
// limit in several periods, or partly of no balance, is then of one write. [Debit] has one amount of
// each limit. So the credits that reach no balance are set aside, and only counted.

// Aside takes out of the amounts of a settlement the credits that reach no balance of an item. The
// rest has each limit once, and so has counted, whose amounts are of [store.NoBalance]. The
// amounts are of limits that the item has.
func Aside(img *store.Image, amounts []store.Amount) (here, counted []store.Amount) {
	for _, a := range amounts {
		s, _ := img.Limit(a.Limit)
		if a.Until == store.NoBalance || a.Milli < 0 && isElsewhere([]store.Amount{a}, img, &s) {
			a.Until = store.NoBalance
			counted = Join(counted, a)
		} else {
			here = Join(here, a)
		}
	}
	return here, counted
}

// Join adds an amount to amounts of the same kind, which are ordered by limit.
func Join(amounts []store.Amount, a store.Amount) []store.Amount {
	i, found := slices.BinarySearchFunc(amounts, a.Limit, func(of store.Amount, name string) int { return strings.Compare(of.Limit, name) })
	if !found {
		return slices.Insert(amounts, i, a)
	}
	amounts[i].Milli += a.Milli
	return amounts
}

// Settlement is the write that settles an item: the amounts, which have each limit once, and those
// that are only counted.
func Settlement(img *store.Image, amounts, counted []store.Amount, now, multiplier int64) store.SettlementWrite {
	d := &Debit{Bucket: img.Bucket, Settling: true, Amounts: amounts}
	if d.Overflows(img, now) || d.Owes(img) {
		r, _, _ := d.Refill(img, now, multiplier)
		countInRefill(r, counted)
		return store.SettlementWrite{Refill: r}
	}
	a := d.Adjustment(img, now)
	countInAdjust(a, counted)
	return store.SettlementWrite{Adjust: a}
}

// countInAdjust adds amounts that are only counted to an adjustment.
func countInAdjust(a *store.Adjust, counted []store.Amount) {
	for _, m := range counted {
		i, found := slices.BinarySearchFunc(a.Deltas, m.Limit, func(d store.Delta, name string) int { return cmp.Compare(d.Limit, name) })
		if found {
			a.Deltas[i].Consumed += m.Milli
		} else {
			a.Deltas = slices.Insert(a.Deltas, i, store.Delta{Limit: m.Limit, Consumed: m.Milli, AtMost: math.MaxInt64})
		}
	}
}

// countInRefill adds amounts that are only counted to a refill: the debit counts them, and what is
// earned gives them back to the balance.
func countInRefill(r *store.Refill, counted []store.Amount) {
	for _, m := range counted {
		if i := slices.IndexFunc(r.Changes, func(c store.Change) bool { return c.Limit == m.Limit }); i >= 0 {
			r.Changes[i].Debit += m.Milli
			r.Changes[i].Earned += m.Milli
		}
	}
}

// AfterSettlement is the item as a write of a settlement leaves it, if no other client has written
// since the image.
func AfterSettlement(w *store.SettlementWrite) *store.Image {
	if w.Refill != nil {
		return AfterRefill(w.Refill)
	}
	img := *w.Adjust.Seen
	img.Writes.Tokens -= WriteCost
	img.Writes.Consumed += WriteCost
	if w.Adjust.Turn != nil {
		img.Hour, img.Diary = w.Adjust.Turn.Hour, &store.Diary{Unread: true}
	}
	img.Limits = slices.Clone(img.Limits)
	for i := range img.Limits {
		for _, d := range w.Adjust.Deltas {
			if s := &img.Limits[i]; s.Name == d.Limit {
				s.Tokens += d.Tokens
				s.Consumed += d.Consumed
			}
		}
	}
	return &img
}
