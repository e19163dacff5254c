package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// Split makes a shard (ADR 013): one transaction moves half of its sibling's balance to
// it. There are two cases:
//
//	doubling     i of n becomes i of 2n, and i+n is born
//	mending      i of n stays, and its missing sibling is born
//
// In a doubling, balances move as they are at the sibling's stamp. The new shard gets
// that stamp too. So both together accrue what the sibling alone would have.
//
// A missing shard is made beside a sibling that keeps its share, so it accrues only
// from now on. Callers may have taken what the lost shard had earned before. The
// sibling is refilled to now, and both get that stamp. (If the sibling holds more than
// its share, a peer has just given it its number. The new shard was not lost, so the
// split is as in a doubling.)
//
// Takes and credits may land between image and write, since the moved amount is added
// and bounded. A sibling that is refilled all the time, as hot ones are, never has the
// stamp seen for long. A loose split of such a sibling therefore stamps both again, and
// accepts any stamp up to that. The tokens of the few milliseconds in between are lost.
func Split(img *store.Image, born, count int, loose bool, now, multiplier int64) *store.Birth {
	at, replaces := img.RefilledAt, count == img.ShardCount && !IsOverfull(img)
	later := stampOf(img, max(now, at))
	if loose = loose && now-at < Lateness && !renewedAny(img, now) && !changesAny(img, later); loose || replaces {
		at = later
	}
	donor := &store.Refill{
		Bucket: img.Bucket, Seen: img, Turn: TurnOf(img, now), RefilledAt: at, Loose: loose, ShardCount: count,
		KeepsOwner: true, // which the shard born gets
		Bypass:     store.Stamp{Change: true, Until: bypassOf(img)},
		Writes:     pressingWrite(img),
		Changes:    make([]store.Change, 0, len(img.Limits)),
	}
	if replaces && !loose {
		donor.Writes, _ = WritesChange(img, at, true)
	}
	b := &store.Birth{
		Create: store.Create{
			Bucket: store.Bucket{Entity: img.Entity, Resource: img.Resource, Shard: born}, Now: now, RefilledAt: at, ShardCount: count,
			Limits: make([]store.NewLimit, 0, len(img.Limits)), Writes: FirstWrite(), Owner: img.Owner(),
			Disabled: img.Disabled, Bypassed: img.Bypassed, MarkedUntil: img.MarkedUntil,
		},
		Donor: donor, Sibling: img.Shard,
	}
	var life int64
	for i := range img.Limits {
		s := &img.Limits[i]
		most, topUp := Share(*s.Params, born, count, at).Capacity, int64(0)
		if !replaces {
			topUp = movedTopUp(s)
		}
		given := min(s.Tokens/2, most+topUp) // negative balances too: more may have been earned since the stamp
		if replaces && !loose {
			given = max(0, min(ShareOf(img, s).Balance(s.Tokens, img.RefilledAt, at)/2, most))
			donor.Changes = append(donor.Changes, give(img, s, at, given))
		} else {
			donor.Changes = append(donor.Changes, narrow(img, s, count, given, topUp, loose))
		}
		b.Limits = append(b.Limits, store.NewLimit{
			NamedParams: store.NamedParams{Limit: s.Name, Params: *s.Params}, Tokens: given, SoftUntil: s.SoftUntil(), Observed: store.Observed{Mode: s.Mode()},
			Opened: cmp.Or(closedAt(img, s, at), s.Opened()), TopUp: topUp,
		})
		life = max(life, LifeOf(&store.LimitState{Tokens: given, Params: s.Params}, born, count, now, multiplier))
	}
	donor.Expiry, donor.Validity = RefillExpiry(donor, img.ExpiresAt != 0, now, multiplier), validityOf(donor)
	if b.ValidUntil = img.ValidUntil; donor.Validity.Change {
		b.ValidUntil = donor.Validity.Until // an earlier shard of that number may have had other schedules
	}
	b.InStep = donor.Validity.InStep && !replaces // what a lost shard has followed is not known
	if img.ExpiresAt != 0 {
		b.ExpiresAt = ExpiresAt(life, now, multiplier)
	}
	return b
}

// renewedAny reports whether a quota of an item has begun a period since the item's stamp.
func renewedAny(img *store.Image, now int64) bool {
	return slices.ContainsFunc(img.Limits, func(s store.LimitState) bool { return Renewed(img, &s, now) })
}

// followed are the parameters of a limit's state, and when its session began.
func followed(s *store.LimitState) (p store.Params, opened int64) { return *s.Params, s.Opened() }

// narrow is the change of a shard's limit that gives away given tokens and cuts the
// limit to the share of another count. A grant that the item has of its own count is for the share
// that it leaves. Of a top-up, the shard gives away a part, unless the split is loose: it may then
// have been topped up since the image, and keeps what it has.
func narrow(img *store.Image, s *store.LimitState, count int, given, topUp int64, loose bool) store.Change {
	capacity := narrowed(img, s, count, img.RefilledAt)
	divides := s.Granted().Shards == 0 && isGranted(s) && count != img.ShardCount && !loose
	if divides {
		capacity = Share(*s.Params, img.Shard, count, img.RefilledAt).Capacity + s.Granted().TopUp - topUp
	}
	trimmed := max(0, s.Tokens-given-capacity)
	ch := store.Change{
		Limit: s.Name, Params: *s.Params, Earned: -given - trimmed, AtLeast: math.MinInt64, AtMost: capacity + given + trimmed,
		Renews: s.Renewal != nil && !isGranted(s), SoftUntil: s.SoftUntil(),
	}
	if given > 0 {
		ch.AtLeast = given + trimmed
	}
	if divides {
		grant(&ch, s.Granted().TopUp-topUp)
	}
	return ch
}

// narrowed is the most that a shard may hold of a limit at an instant under another count. What
// a peer granted or added for a period stays until it ends. What it carries is its share under
// that count.
func narrowed(img *store.Image, s *store.LimitState, count int, now int64) int64 {
	renewed := Renewed(img, s, now)
	if isGranted(s) && !renewed {
		return ShareOf(img, s).Capacity
	}
	part := Share(*s.Params, img.Shard, count, now)
	if renewed {
		part.Capacity += min(part.Rollover, carriedInto(img, s, now))
	}
	return part.Capacity
}

// give is the change of a shard's limit that refills it and gives away given tokens.
func give(img *store.Image, s *store.LimitState, at, given int64) store.Change {
	part := ShareOf(img, s)
	earned, clamped := part.Refill(s.Tokens, img.RefilledAt, at)
	ch := store.Change{
		Limit: s.Name, Params: *s.Params, Earned: earned - given, AtLeast: math.MinInt64, AtMost: part.At(at).Capacity - earned,
		Renews: isGranted(s) && Renewed(img, s, at), Opened: closedAt(img, s, at), SoftUntil: s.SoftUntil(),
	}
	begin(&ch, img, s, s.Renewal, at)
	switch {
	case clamped:
		ch.AtLeast, ch.AtMost = s.Tokens, s.Tokens
	case given > 0:
		ch.AtLeast = given - earned
	}
	return ch
}

// Tighten gives a larger count to a shard whose sibling already exists.
func Tighten(img *store.Image, count int, now, multiplier int64) *store.Refill {
	r := &store.Refill{
		Bucket: img.Bucket, Seen: img, Turn: TurnOf(img, now), RefilledAt: stampOf(img, max(now, img.RefilledAt)), ShardCount: count,
		Writes: pressingWrite(img), Changes: make([]store.Change, 0, len(img.Limits)),
	}
	for i := range img.Limits {
		s := &img.Limits[i]
		earned, _ := ShareOf(img, s).Refill(s.Tokens, img.RefilledAt, r.RefilledAt)
		most := narrowed(img, s, count, r.RefilledAt)
		over := max(0, s.Tokens+earned-most)
		ch := store.Change{
			Limit: s.Name, Earned: earned - over, AtLeast: s.Tokens, AtMost: s.Tokens, Renews: s.Renewal != nil && (!isGranted(s) || Renewed(img, s, r.RefilledAt)),
			Opened: closedAt(img, s, r.RefilledAt),
		}
		if Renewed(img, s, r.RefilledAt) {
			grant(&ch, most-Share(*s.Params, img.Shard, count, r.RefilledAt).Capacity)
		}
		r.Changes = append(r.Changes, ch)
	}
	r.Expiry, r.Validity = RefillExpiry(r, img.ExpiresAt != 0, now, multiplier), validityOf(r)
	return r
}

// Orphan is the birth of a shard without a sibling to give tokens. The shard copies
// another one's limits, and opens empty.
func Orphan(like *store.Image, born, sibling, count int, now, multiplier int64) *store.Birth {
	b := Split(like, born, count, false, now, multiplier)
	b.Donor, b.Sibling, b.RefilledAt, b.InStep = nil, sibling, now, false // it accrues from now on
	if until := store.ValidUntil(now, like.Limits, followed); b.ValidUntil <= now || until != 0 && until < b.ValidUntil {
		b.ValidUntil = until // a clock far ahead may have stamped the other one after a change
	}
	for i := range b.Limits {
		b.Limits[i].Tokens, b.Limits[i].TopUp = 0, 0
	}
	return b
}
