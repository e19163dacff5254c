package plan

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// SplitOff takes out of the amounts of a settlement the credits that exceed a shard's
// capacity. It returns the amounts for the shard, and the excess. An unsharded bucket has
// no other shards for it.
func SplitOff(amounts []store.Amount, img *store.Image, now int64) (here, over []store.Amount) {
	if img.ShardCount == 1 || !img.IsEvaluable() {
		return amounts, nil
	}
	here = make([]store.Amount, 0, len(amounts))
	for _, a := range amounts {
		if s, ok := img.Limit(a.Limit); ok && a.Milli < 0 && a.Until != store.NoBalance && (s.Renewal == nil || now < a.Until) {
			room := int64(0) // on a shard that has not begun the credit's period, which then begins full
			if !isElsewhere(amounts, img, &s) {
				part := shareAt(img, &s, max(now, img.RefilledAt))
				room = part.Room(part.Balance(s.Tokens, img.RefilledAt, now), -a.Milli)
			}
			if rest := -a.Milli - room; rest > 0 {
				over = append(over, store.Amount{Limit: a.Limit, Milli: -rest, Until: a.Until})
				a.Milli += rest
			}
		}
		if a.Milli != 0 {
			here = append(here, a)
		}
	}
	return here, over
}

// Present are the amounts of limits that the bucket still has: a removed limit took its
// balance with it.
func Present(img *store.Image, amounts []store.Amount) []store.Amount {
	return slices.DeleteFunc(slices.Clone(amounts), func(a store.Amount) bool {
		_, ok := img.Limit(a.Limit)
		return !ok || a.Milli == 0
	})
}

// Overflows reports whether a debited limit has accrued past its capacity, so that a refill
// must cut it first. A limit whose schedule has changed since the stamp may have been cut on
// the way, so that neither a debit nor a credit commutes with what it has earned.
func (d *Debit) Overflows(img *store.Image, now int64) bool {
	return img.IsEvaluable() && slices.ContainsFunc(d.Amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		if a.Until == store.NoBalance {
			return false
		}
		return a.Milli > 0 && Overflows(img, &s, now) || s.Varies != nil && ShareOf(img, &s).Changes(img.RefilledAt, now)
	})
}

// Owes reports whether the debit may leave an expiring item in debt. The expiry must
// then include the debt, so that the sweep does not delete the item before it has paid.
func (d *Debit) Owes(img *store.Image) bool {
	return img.ExpiresAt != 0 && img.IsEvaluable() && slices.ContainsFunc(d.Amounts, func(a store.Amount) bool {
		s, _ := img.Limit(a.Limit)
		return a.Until != store.NoBalance && a.Milli > max(0, s.Tokens)
	})
}

// Adjustment is the write that settles. Of a credit, only the part up to the
// capacity reaches the balance; of a debit, only the part down to maxDebt. The whole
// amount counts as returned or consumed.
//
// A credit that the capacity cuts is pinned to the balance seen. To cut it and not to pin it
// would lose tokens: a take that comes between makes room that the cut leaves empty.
//
//	this process   image: 8 of 10, returns 5 ──────────── writes +2 ──▶ 4; it should be 7
//	another one                        takes 6 ──▶ 2
//
// So is one that finds room only because an operator has topped the quota up, or because a peer divides it among
// fewer shards: a reset ends both.
//
// A credit of a quota returns to the period in which it was taken. In another one, or under another
// calendar, it counts as returned, and does not reach the balance. Neither does an amount of no
// balance, a debit as well as a credit.
func (d *Debit) Adjustment(img *store.Image, now int64) *store.Adjust {
	a := &store.Adjust{Bucket: img.Bucket, Seen: img, Turn: TurnOf(img, now), Deltas: make([]store.Delta, 0, len(d.Amounts))}
	for _, m := range d.Amounts {
		if m.Until == store.NoBalance {
			a.Deltas = append(a.Deltas, store.Delta{Limit: m.Limit, Consumed: m.Milli, AtMost: math.MaxInt64})
			continue
		}
		s, _ := img.Limit(m.Limit)
		delta := store.Delta{Limit: m.Limit, Tokens: -min(m.Milli, max(0, s.Tokens-floorOf(s.Mode(), ShareOf(img, &s)))), Consumed: m.Milli, AtMost: CeilingOf(img, &s, now)}
		delta.Covered = m.Milli > 0 && img.ExpiresAt != 0 && img.IsEvaluable()
		if m.Milli < 0 {
			if isElsewhere(d.Amounts, img, &s) {
				a.Deltas = append(a.Deltas, store.Delta{Limit: m.Limit, Consumed: m.Milli, AtMost: math.MaxInt64})
				continue
			}
			if s.Renewal != nil && !IsSession(s.Renewal) && (a.Before == 0 || m.Until < a.Before) {
				a.Before = m.Until
			}
			delta.Tokens, delta.AtMost, delta.Pinned = roomFor(img, &s, -m.Milli)
		}
		a.Deltas = append(a.Deltas, delta)
	}
	return a
}

// roomFor is the part of a credit that finds room, and the balance up to which it does. If that is pinned, it
// is the balance seen.
func roomFor(img *store.Image, s *store.LimitState, credit int64) (tokens, most int64, pinned bool) {
	part := ShareOf(img, s)
	tokens, most = part.Room(s.Tokens, credit), part.Capacity
	if s.Granted() != (store.Granted{}) { // a reset leaves the shard its share
		most = min(most, Share(*s.Params, img.Shard, img.ShardCount, img.RefilledAt).Capacity)
	}
	if most -= tokens; tokens < credit || s.Tokens > most {
		return tokens, s.Tokens, true
	}
	return tokens, most, false
}
