package bucket

import "math"

// A quota of a calendar may take what is left into its next period, up to Rollover, and its
// debt. At an end of a period a balance b becomes
//
//	Renewed + min(b, Rollover)    and without CarriesDebt, a b below zero counts as zero
//
// The naive way walks over the ends of all periods in between. But after the first of them, the
// balance only grows, by Renewed at each, until it has what it may carry. So after k of them it
// is
//
//	Renewed + min(b + (k−1)·Renewed, Rollover)
//
// and it suffices to count them until that is reached (ADR 053). A count ends after MostPieces.
// A debt or a Rollover of more periods than that then lacks the rest: the bucket admits less,
// never more, and a wait is too short, so its caller asks again.

// carried is what a balance takes into the next period, before Rollover cuts it.
func (l Limit) carried(tokens int64) int64 {
	if tokens = min(tokens, l.Capacity); !l.CarriesDebt {
		return max(tokens, 0)
	}
	return tokens
}

// carries reports whether a balance after an end of a period depends on the one before.
func (l Limit) carries() bool { return (l.CarriesDebt || l.Rollover > 0) && l.Renewal.Session() == 0 }

// renewed is the balance of a quota that has renewed from one instant to another.
func (l Limit) renewed(tokens, at, now int64) int64 {
	if !l.carries() {
		return l.At(max(at, now)).Renewed
	}
	b := l.carried(tokens)
	full := l.periodsTo(b, l.Rollover)
	if k, _ := l.Renewal.Edges(at, now, full); k < full || full == MostPieces {
		b += int64(max(0, k-1)) * l.Renewed // below Rollover
	} else {
		b = l.Rollover
	}
	return l.Renewed + min(b, l.Rollover)
}

// periodsTo is how many ends of periods pass, at least one and at most MostPieces, until what a
// balance takes into the next period is carried or more.
func (l Limit) periodsTo(balance, carried int64) int {
	if balance >= carried {
		return 1
	}
	if l.Renewed <= 0 {
		return MostPieces
	}
	k := 1 + (distance(balance, carried)-1)/uint64(l.Renewed) // rounded up
	return int(min(1+k, MostPieces))                          //nolint:gosec // few
}

// Advanced is the limit at a later instant, and the balance that it then has. After an end of a
// period, the most that a quota holds is what it gets there, with what it carries. One that
// varies is in step from then on.
func (l Limit) Advanced(tokens, at, now int64) (Limit, int64) {
	balance := l.Balance(tokens, at, now)
	switch renews := l.Renews(at, now); {
	case renews && l.Varies != nil:
		l.TopUp, l.GrantShards, l.InStep = 0, 0, true
	case renews:
		l.Capacity = max(l.Renewed, balance)
	}
	if l.Renewal != nil && l.Varies != nil {
		is := l.At(max(at, now))
		l.Capacity, l.Renewed = is.Capacity, is.Renewed
	}
	return l, balance
}

// Later is [Limit.Advanced] for a wait, in which nobody writes, and the stamp that the balance then has. Within a
// period of a quota, that stays: only the amounts at the stamp and at the end count. A balance that is out
// of step is cut by the write that finds a lower amount, and there may be none before the amount rises.
func (l Limit) Later(tokens, at, now int64) (_ Limit, balance, stamp int64) {
	if l.Renewal != nil && !l.Renews(at, now) {
		return l, tokens, at
	}
	l, balance = l.Advanced(tokens, at, now)
	return l, balance, max(at, now)
}

// waitForRenewal is Wait for a quota.
func (l Limit) waitForRenewal(tokens, at, now, need int64) (ms int64, ok bool) {
	balance := l.Balance(tokens, at, now)
	switch {
	case balance >= need:
		return 0, true
	case need > l.Renewed && (!l.carries() || need-l.Renewed > l.Rollover):
		return 0, false
	case !l.carries():
		return waitUntil(l.Renewal.End(l.Opened, max(at, now)), now)
	}
	l, balance = l.Advanced(tokens, at, now)
	k := l.periodsTo(l.carried(balance), need-l.Renewed)
	n, end := l.Renewal.Edges(max(at, now), math.MaxInt64, k)
	if n < k {
		return 0, false
	}
	return waitUntil(end, now)
}
