package plan

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// RefillExpiry renews the item's expiry, by the limits that the write leaves on it and
// their debts. It also switches the expiry on or off.
func RefillExpiry(r *store.Refill, expires bool, now, multiplier int64) store.Expiry {
	switch {
	case !expires && r.Seen.ExpiresAt == 0:
		return store.Expiry{}
	case !expires:
		return store.Expiry{Change: true}
	}
	count := r.ShardCount
	if count == 0 {
		count = r.Seen.ShardCount
	}
	var life int64
	for i := range r.Changes {
		ch := &r.Changes[i]
		if ch.Kind == store.RemoveLimit {
			continue
		}
		s, _ := r.Seen.Limit(ch.Limit)
		if s = afterChange(ch, s, false, r.RefilledAt); ch.Kind == store.AddLimit {
			s.Tokens = 0
		}
		life = max(life, LifeOf(&s, r.Shard, count, now, multiplier))
	}
	if isUsedAgain(r.Seen, now) {
		life = max(life, earnedLife)
	}
	return store.Expiry{Change: true, At: ExpiresAt(life, now, multiplier)}
}

// A bucket that is created again costs four write units: the item and three index entries.
// To keep its kilobyte for a month costs a tenth of that. So a bucket that was used in two
// hours of its life is kept for a month of silence, and its diary with it. One that was used
// in one hour only is kept for two days and an hour: that costs a hundredth, and whoever
// comes once a day is known on the second day (ADR 040).
const (
	firstLife  = 49 * 3_600_000      // in milliseconds
	earnedLife = 32 * 24 * 3_600_000 // in milliseconds
)

// isUsedAgain reports whether a write to an item comes in a later hour than its creation, or
// than its last accrual if the time of its creation is unknown.
func isUsedAgain(img *store.Image, now int64) bool {
	since := img.CreatedAt
	if since == 0 {
		since = img.RefilledAt
	}
	return diary.HourOf(now) > diary.HourOf(since)
}

// LifeOf is how long one limit keeps a shard, one of count, in milliseconds. It is the time to
// earn what the shard owes, plus the time to fill, several times over: the longest of those
// that a schedule has. A quota keeps it for a week beyond the next period, and beyond the one
// in which a debt that it carries is paid; for ever if it rolls over what is left.
func LifeOf(s *store.LimitState, shard, count int, now, multiplier int64) int64 {
	const week = 7 * 24 * 3_600_000
	const most = math.MaxInt64 / store.Milli
	switch {
	case s.Renewal != nil && s.Carries.Rollover != 0:
		return most // made anew, it would be without what it carries
	case s.Renewal != nil:
		part := Share(*s.Params, shard, count, now)
		ms, pays := part.Wait(s.Tokens, now, now, part.Renewed)
		if !pays {
			return most
		}
		return min(most, max(s.Renewal.Next(s.Renewal.Next(now))-now, ms)+week)
	}
	var debt, fill int64
	for part := range Share(*s.Params, shard, count, now).Pieces() {
		ms, pays := part.Wait(s.Tokens, 0, 0, min(1, part.Capacity))
		if s.Tokens < 0 && !pays {
			return most
		}
		if s.Tokens < 0 {
			debt = max(debt, ms)
		}
	}
	for whole := range Share(*s.Params, 0, 1, now).Pieces() {
		ms, fills := whole.Wait(0, 0, 0, whole.Capacity)
		if !fills || ms > most/max(1, multiplier) {
			return most
		}
		fill = max(fill, ms)
	}
	return min(most, debt) + fill*multiplier
}

// ExpiresAt is when the sweep may delete a bucket that is last written now. It is kept
// for life, but at least for that of a bucket that was used once. It is 0, never, if
// multiplier is negative.
func ExpiresAt(life, now, multiplier int64) int64 {
	if multiplier < 0 {
		return 0
	}
	return now/store.Milli + max(life, firstLife)/store.Milli
}
