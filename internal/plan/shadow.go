package plan

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// A limit in shadow shows what it would refuse, and refuses nobody (ADR 062). An item has it as a soft
// limit with a mode, so a take requires its stamp, and a Python client debits it at any balance. The
// write that carries a request decides what enforcement would have decided:
//
//	the bucket holds the amount      it is debited, and returned as any other
//	it does not                      it is counted, and moves no balance: so is a refused request
//
// So the balance is that of an enforced limit, and what was debited is never more than the limit
// allows. The decision rests on the image that the write rests on, and no write is refused for it. If
// other processes have debited meanwhile, the balance falls below zero, by one capacity at most, and
// the next requests pay for that.
//
// A limit that is off counts each amount, and debits none.

// Counts reports whether a write of an amount to a limit in a mode counts only. held is the balance.
func Counts(mode store.Mode, held, amount int64) bool {
	return amount > 0 && (mode == store.Off || mode == store.Shadow && held < amount)
}

// floorOf is the least balance to which debits lead.
func floorOf(mode store.Mode, part bucket.Limit) int64 {
	if mode == store.Shadow {
		return -part.Capacity
	}
	return -MaxDebt
}

// count makes the debit of a change one that counts only. What was earned gives it back.
func count(ch *store.Change, mode store.Mode) {
	if ch.Counts = true; mode == store.Shadow {
		ch.Shadowed = ch.Debit
	}
}

// forgiven is what a limit with a balance owes, and is forgiven by a write that leaves it in a mode. In
// shadow, it is a debt below one capacity, which only a peer makes, or several processes at a time. A
// limit that leaves its mode to be enforced begins without a debt: nobody was told to wait for it.
func forgiven(s *store.LimitState, mode store.Mode, soft bool, part bucket.Limit, tokens int64) int64 {
	switch {
	case mode == store.Shadow:
		return max(0, floorOf(mode, part)-tokens)
	case endsMode(s, soft):
		return max(0, -tokens)
	}
	return 0
}

// leastBefore is the least balance to which a write may add what a limit earned, if it ends the limit's mode: a
// debit since its image may have led the balance below zero.
func leastBefore(s *store.LimitState, soft bool, earned int64) int64 {
	if endsMode(s, soft) {
		return -earned
	}
	return math.MinInt64
}

// endsMode reports whether a write makes a limit that was in a mode one that is enforced.
func endsMode(s *store.LimitState, soft bool) bool { return s.Mode() != store.Enforce && !soft }

// heldOf is what an item holds of a limit at an instant, as far as this version can tell.
func heldOf(img *store.Image, s *store.LimitState, now int64) int64 {
	if !img.IsEvaluable() {
		return s.Tokens
	}
	return ShareOf(img, s).Balance(s.Tokens, img.RefilledAt, now)
}

// Counted says which amounts of a write move no balance: all, because the bucket is bypassed, or those
// of some limits, which are in a mode.
type Counted struct {
	All    bool
	Limits []string
}

// Has reports whether an amount of a limit moves no balance.
func (c Counted) Has(limit string) bool { return c.All || slices.Contains(c.Limits, limit) }

// Mark gives the amounts of a crowd's caller, or of a shard, the end of those that move no balance.
func (c Counted) Mark(amounts []store.Amount) []store.Amount {
	if !c.All && len(c.Limits) == 0 {
		return amounts
	}
	marked := slices.Clone(amounts)
	for i := range marked {
		if c.Has(marked[i].Limit) {
			marked[i].Until = store.NoBalance
		}
	}
	return marked
}

// Split returns the amounts that move no balance, and the others.
func (c Counted) Split(amounts []store.Amount) (only, rest []store.Amount) {
	for _, a := range c.Mark(amounts) {
		if c.Has(a.Limit) {
			only = append(only, a)
		} else {
			rest = append(rest, a)
		}
	}
	return only, rest
}

// Equals reports whether the same amounts move no balance.
func (c Counted) Equals(o Counted) bool { return c.All == o.All && slices.Equal(c.Limits, o.Limits) }

// CountedOf says which of the amounts that were taken of an item moved no balance.
func CountedOf(amounts []store.Amount) (c Counted) {
	c.All = len(amounts) > 0
	for _, a := range amounts {
		if a.Until == store.NoBalance {
			c.Limits = append(c.Limits, a.Limit)
		} else {
			c.All = false
		}
	}
	if c.All {
		c.Limits = nil
	}
	return c
}

// Counted says which amounts the write of a step counts only.
func (s *Step) Counted() (c Counted) {
	switch {
	case s.Create != nil:
		return countedIn(s.Create)
	case s.Take != nil:
		for i := range s.Take.Debits {
			d := &s.Take.Debits[i]
			if d.Until == store.NoBalance {
				return Counted{All: true}
			}
			if d.Counts {
				c.Limits = append(c.Limits, d.Limit)
			}
		}
		return c
	}
	return CountedBy(s.Refill)
}

// CountedBy says which amounts a refill counts only.
func CountedBy(r *store.Refill) (c Counted) {
	if r == nil {
		return c
	}
	c.All = r.Bypass.Until != 0
	for i := range r.Changes {
		if r.Changes[i].Counts && !c.All {
			c.Limits = append(c.Limits, r.Changes[i].Limit)
		}
	}
	return c
}

// countedIn says which amounts a new item counts only.
func countedIn(n *store.Create) (c Counted) {
	c.All = n.Bypassed
	for i := range n.Limits {
		if l := &n.Limits[i]; l.Mode == store.Off && l.Consumed > 0 || l.ShadowedAt != 0 {
			c.Limits = append(c.Limits, l.Limit)
		}
	}
	return c
}

// AlikeInShadow returns those callers of a crowd for whom a write counts the amounts of the same limits
// only as for the first one. One write cannot debit a limit for some, and count it for others.
func AlikeInShadow[T any](crowd []T, amounts func(T) []store.Amount, img *store.Image, now int64) []T {
	if len(crowd) < 2 || img == nil || !slices.ContainsFunc(img.Limits, func(s store.LimitState) bool { return s.Mode() == store.Shadow }) {
		return crowd
	}
	held := make([]int64, len(img.Limits))
	for i := range img.Limits {
		held[i] = heldOf(img, &img.Limits[i], now)
	}
	var first []bool
	alike := make([]T, 0, len(crowd))
	for _, t := range crowd {
		asked, is := amounts(t), make([]bool, len(img.Limits))
		for i := range img.Limits {
			s := &img.Limits[i]
			amount := AmountOf(asked, s.Name)
			if is[i] = Counts(s.Mode(), held[i], amount); !is[i] {
				held[i] -= amount
			}
		}
		if first == nil {
			first = is
		}
		if slices.Equal(first, is) {
			alike = append(alike, t)
		}
	}
	return alike
}
