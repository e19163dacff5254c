package plan

import (
	"math"

	"github.com/zeroae/zae-limiter-go/store"
)

// NeedsHealing reports whether an item is not as clients should meet it: its stamp lies
// ahead of every honest clock, or the switch that disables it has ended.
func NeedsHealing(img *store.Image, now int64) bool { return IsAhead(img, now) || HasEnded(img, now) }

// HasEnded reports whether the switch that disables an item has ended.
func HasEnded(img *store.Image, now int64) bool {
	return img.Disabled && img.MarkedUntil != 0 && img.MarkedUntil <= now
}

// Enabled is the write that removes from an item a switch which has ended, and does nothing
// else. It is conditional on that end, so it removes no other switch (ADR 045).
func Enabled(img *store.Image) *store.Refill {
	return &store.Refill{Bucket: img.Bucket, Seen: img, RefilledAt: img.RefilledAt, Writes: pressingWrite(img), Enables: true}
}

// healedSession is the begin of a session that lies ahead of every honest clock: it is now
// instead, or the session would last longer by that much. 0 keeps another one.
func healedSession(s *store.LimitState, now int64) int64 {
	if s.Opened() > now {
		return now
	}
	return 0
}

// Healed is the write that moves an item's stamp back to now. It takes back what the
// item has earned for the time until its stamp, as far as the item still holds that. It
// adds nothing to a debt. Where a schedule changes until the stamp, it cuts the balance to the
// capacity in force now. So the item ends with no more than it would have by now. The
// excess that was admitted is at most what the client with the fast clock took: one
// capacity.
//
// A quota that began a period early comes back to the earlier period empty. Its debt there is
// forgiven, as it would be at the edge; one that is carried was paid at the early edge. It
// holds nothing, so the earlier period admits no more. At most one amount was admitted early,
// besides the amount that the edge will bring.
//
// Takes may land in between; the item then owes what they took. Credits in between
// refuse the write. The hidden write limit becomes full, as if nothing had been
// written. How much of it was earned since it ran dry is unknown.
func Healed(img *store.Image, now, multiplier int64) *store.Refill {
	r := &store.Refill{
		Bucket: img.Bucket, Seen: img, Turn: TurnOf(img, now), RefilledAt: now,
		Writes:  pressingWrite(img),
		Changes: make([]store.Change, 0, len(img.Limits)),
	}
	if r.Writes.Kind == store.KeepParams {
		r.Writes.Earned, r.Writes.AtMost = img.Writes.Capacity-img.Writes.Tokens, img.Writes.Tokens
	}
	for i := range img.Limits {
		s := &img.Limits[i]
		part := ShareOf(img, s)
		early := part.Earned(now, img.RefilledAt)
		if part.Changes(now, img.RefilledAt) {
			early = max(early, s.Tokens-part.At(now).Capacity)
		}
		r.Changes = append(r.Changes, store.Change{
			Limit: s.Name, Earned: -min(max(0, s.Tokens), early), AtLeast: math.MinInt64, AtMost: s.Tokens, Opened: healedSession(s, now),
		})
	}
	r.Expiry, r.Validity = RefillExpiry(r, img.ExpiresAt != 0, now, multiplier), validityOf(r)
	return r
}
