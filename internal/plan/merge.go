package plan

import (
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// AreMergeable reports whether images are all shards of a bucket and agree, so that one
// shard can take over another (ADR 021).
func AreMergeable(images []*store.Image, now int64) bool {
	first := images[0]
	for i, img := range images {
		if img.Shard != i || img.ShardCount != len(images) || !WasPlain(img, now) || IsOverfull(img) || IsAhead(img, now) ||
			img.Owner() != first.Owner() || (img.ExpiresAt == 0) != (first.ExpiresAt == 0) ||
			!slices.EqualFunc(img.Limits, first.Limits, func(s, o store.LimitState) bool {
				return s.Name == o.Name && *s.Params == *o.Params && s.IsSoft() == o.IsSoft() && s.Mode() == o.Mode() && s.Granted().Shards == 0 && o.Granted().Shards == 0 &&
					s.Told() == (store.Told{}) && o.Told() == (store.Told{}) &&
					(s.Opened() == o.Opened() || Renewed(img, &s, now) && Renewed(first, &o, now))
			}) {
			return false
		}
	}
	return len(images) > 1
}

// isGranted reports whether a shard's part of a quota is another one than its share, until the
// period ends: a peer doubled the bucket, or somebody has topped it up.
func isGranted(s *store.LimitState) bool { return s.Granted() != store.Granted{} }

// PairsOf returns the pairs of the images of all shards. before are the images of the
// attempt before, if that was refused.
//
// A pair adds the balance of shard i+n to shard i, and deletes shard i+n. Takes and credits
// land on both meanwhile. Those on the shard that stays commute with the addition. Those on
// the shard that goes would be lost with it: a take that comes between would be forgotten,
// and its tokens would be there twice. So the deletion is conditional on what was seen. If
// it is refused, the next attempt expects as much consumption again, and withholds it:
// tokens may be lost by a merge, but none are made.
func PairsOf(images, before []*store.Image, now, multiplier int64) []*store.Pair {
	n := len(images) / 2
	pairs := make([]*store.Pair, n)
	for i := range pairs {
		var earlier *store.Image
		if before != nil {
			earlier = before[i+n]
		}
		pairs[i] = join(images[i], images[i+n], earlier, now, multiplier)
	}
	return pairs
}

// join is the merge of two shards. Both accrue to one instant, each up to its own
// share. So their sum is within the survivor's share: share i of n is the sum of shares
// i and i+n of 2n.
//
// The stamps are locks, as in any refill, so that nothing accrues twice. The new stamp
// is later than both. That distinguishes images from before the merge.
//
// After a refused attempt, takes may land between image and write. The write adds to
// the survivor, which therefore keeps what takes have debited. Of the retired shard,
// join moves less than was seen, by twice what was taken since an earlier image. The
// shard then holds at least that, even if it has overflowed: a balance that was just
// debited had not overflowed at that time. Credits in between would be lost, so they
// refuse the merge.
func join(survivor, retired, earlier *store.Image, now, multiplier int64) *store.Pair {
	at := stampOf(survivor, max(now, survivor.RefilledAt+1, retired.RefilledAt+1))
	r := &store.Refill{
		Bucket: survivor.Bucket, Seen: survivor, Turn: TurnOf(survivor, now), RefilledAt: at, ShardCount: survivor.ShardCount / 2,
		Changes: make([]store.Change, 0, len(survivor.Limits)),
	}
	r.Writes, _ = WritesChange(survivor, at, true)
	p := &store.Pair{Survivor: r, Retired: retired, AtLeast: make([]int64, 0, len(retired.Limits))}
	for i := range survivor.Limits {
		s, t := &survivor.Limits[i], &retired.Limits[i]
		least := t.Tokens - allowance(t, earlier, retired, at)
		given := ShareOf(retired, t).Balance(least, retired.RefilledAt, at)
		part := ShareOf(survivor, s)
		earned, clamped := part.Refill(s.Tokens, survivor.RefilledAt, at)
		ch := store.Change{
			Limit: s.Name, Earned: earned + given, AtLeast: math.MinInt64, AtMost: part.At(at).Capacity - earned, Renews: s.Renewal != nil,
			Opened: closedAt(survivor, s, at), SoftUntil: max(s.SoftUntil(), t.SoftUntil()),
			Shadowed: t.Observed().Shadowed,
		}
		if s.Renewal != nil {
			ch.TopUp = min(toppedUp(survivor, s, at)+toppedUp(retired, t, at), store.MaxTokens*store.Milli)
		}
		if clamped {
			ch.AtMost = s.Tokens // a credit in between would be cut by a capacity that held on the way
		}
		if clamped && earlier == nil {
			ch.AtLeast = s.Tokens // a take in between would make room that the cut leaves empty
		}
		r.Changes, p.AtLeast = append(r.Changes, ch), append(p.AtLeast, least)
	}
	r.Expiry, r.Validity = RefillExpiry(r, survivor.ExpiresAt != 0, now, multiplier), validityOf(r)
	r.Validity.InStep = r.Validity.InStep && staysInStep(retired, r)
	return p
}

// allowance is the part of a shard's balance that a merge withholds: twice what was
// taken since an earlier image, but at most the balance.
func allowance(s *store.LimitState, earlier, img *store.Image, at int64) int64 {
	if earlier == nil {
		return 0
	}
	was, _ := earlier.Limit(s.Name)
	took := min(max(0, s.ConsumedSince(&was)), math.MaxInt64/2)
	return min(2*took, max(0, ShareOf(img, s).Balance(s.Tokens, img.RefilledAt, at)))
}
