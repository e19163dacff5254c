package plan

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// PayerOf returns the entity that an owner cascades to, "" if none.
func PayerOf(o *store.Owner) string {
	if !o.Cascade {
		return ""
	}
	return o.Parent
}

// IsOverfull reports whether a shard holds more than its share. That is so if a peer
// doubled the bucket: the excess may belong to a shard that does not exist yet.
func IsOverfull(i *store.Image) bool {
	return i.ShardCount > 1 && WasPlain(i, i.RefilledAt) && slices.ContainsFunc(i.Limits, func(s store.LimitState) bool {
		return s.Tokens > ShareOf(i, &s).Capacity
	})
}

// SiblingOf returns the shard that was one with this shard before the last doubling.
func SiblingOf(i *store.Image) int { return (i.Shard + i.ShardCount/2) % i.ShardCount }

// IsAhead reports whether an item's stamp lies further ahead than any honest clock.
func IsAhead(i *store.Image, now int64) bool { return i.RefilledAt-now > MaxSkew.Milliseconds() }

const (
	// MaxSkew is how far ahead of the clock an honest client may stamp.
	MaxSkew = 30 * time.Second
)

// IsPlain reports whether an item takes debits as it is. It must not be disabled, not
// use a peer's feature, not have a ValidUntil but that of its calendars, not have a stamp that
// has passed, of a soft limit or of a bypass, and not have expired.
func IsPlain(i *store.Image, now int64) bool {
	return WasPlain(i, now) && i.Bypassed == i.IsBypassed(now) && (!i.HasValidUntil || i.ValidUntil > now) &&
		!slices.ContainsFunc(i.Limits, func(s store.LimitState) bool { return isUnstamped(&s, now) })
}

// WasPlain reports whether an item has not expired, and took debits as it is at its stamp. A
// quota may have begun a period since, a schedule changed, or a session have ended, which
// then rests. A stamp that has passed, of a soft limit or of a bypass, counts for nothing:
// shards copy it.
func WasPlain(i *store.Image, now int64) bool {
	return !i.Disabled && i.IsEvaluable() && (!i.HasValidUntil || hasCalendar(i) && i.ValidUntil > i.RefilledAt || rests(i, i.RefilledAt)) && (i.ExpiresAt == 0 || i.ExpiresAt > now/store.Milli)
}

// hasCalendar reports whether a limit of an item renews or varies by a calendar.
func hasCalendar(i *store.Image) bool {
	return slices.ContainsFunc(i.Limits, func(s store.LimitState) bool { return s.Renewal != nil || s.Varies != nil })
}

// hasQuota reports whether a limit of an item renews by a calendar.
func hasQuota(i *store.Image) bool {
	return slices.ContainsFunc(i.Limits, func(s store.LimitState) bool { return s.Renewal != nil })
}

// changesAny reports whether a schedule of an item's limits has changed since the item's stamp.
func changesAny(i *store.Image, now int64) bool {
	return slices.ContainsFunc(i.Limits, func(s store.LimitState) bool { return s.Varies != nil && ShareOf(i, &s).Changes(i.RefilledAt, now) })
}

// isLong reports whether a schedule has changed so often since an item's stamp, or a quota that
// carries has renewed so often, that the stamp must be moved for the balance to stay exact.
func isLong(i *store.Image, now int64) bool {
	return slices.ContainsFunc(i.Limits, func(s store.LimitState) bool { return ShareOf(i, &s).IsLong(i.RefilledAt, now) })
}

// isAskedToTrim reports whether a peer has asked for a write that trims every balance of an
// item without calendars.
func isAskedToTrim(i *store.Image, now int64) bool {
	return i.HasValidUntil && i.ValidUntil <= now
}

// CascadeOf is the entity to which an image cascades, "" if none.
func CascadeOf(img *store.Image) string {
	if img == nil || !img.Cascade {
		return ""
	}
	return img.Parent
}

// IsBehind reports whether an image is an earlier one of the same item. Each write
// moves the stamp forward or raises the count of writes. Only healing moves the stamp
// back, and it raises the count.
func IsBehind(i, other *store.Image) bool {
	if i.RefilledAt != other.RefilledAt {
		return i.RefilledAt < other.RefilledAt && i.Writes.ConsumedSince(&other.Writes) <= 0
	}
	return i.ShardCount == other.ShardCount && i.Writes.ConsumedSince(&other.Writes) < 0
}

// IsFrozen reports whether the item's stamp lies so far ahead that the hidden write
// limit would have filled by then. Nothing accrues to that limit until then, and its
// balance does not show how much the item is written to.
func IsFrozen(i *store.Image, now int64) bool { return i.RefilledAt-now > WriteParams.Period }

// WritesLeft is the balance of the hidden write limit. If the item is frozen, the
// balance is unknown and counts as full.
func WritesLeft(i *store.Image, now int64) int64 {
	w := WritesOf(i)
	if IsFrozen(i, now) {
		return w.Capacity
	}
	return w.Balance(i.Writes.Tokens, i.RefilledAt, now)
}

// IsWide reports whether an item has more limits than one write can carry; only a peer
// makes such an item. Its callers share no writes, and write only the limits that they
// name.
func IsWide(i *store.Image) bool { return i != nil && len(i.Limits) > store.MaxLimits }

// IsPressed reports whether an item has used four fifths of the hidden write limit.
func IsPressed(i *store.Image, at int64) bool {
	const left = 5 // at most one part of this many is left
	return i.Writes.Name != "" && WritesLeft(i, at) <= i.Writes.Capacity/left
}
