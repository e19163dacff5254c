package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// mergeTries bounds the attempts of a merge: each refused attempt gets in the way of
// other writers.
const mergeTries = 10

// Shards reads the existing shards of a bucket, in order. It looks at least as far as
// the shard that b names. [Limiter.Merge] takes its result. Errors are those of the
// [Store].
func (l *Limiter) Shards(ctx context.Context, b Bucket) ([]*store.Image, error) {
	return inTime(ctx, l, opOn(b, "read"), func(ctx context.Context) ([]*store.Image, error) {
		return l.readShards(ctx, l.account(b.Entity, b.Resource), b)
	})
}

// Merge halves the number of shards of a bucket in one transaction. Shard i of 2n takes
// over the balance of shard i+n and becomes shard i of n; shard i+n is deleted. images
// are all shards, as [Limiter.Shards] has just read them.
//
// Merge moves tokens and creates none. If nobody writes to the bucket meanwhile, it
// loses nothing. Otherwise it tries again on new images, and withholds from each
// retired shard twice what was consumed between the two reads. Tokens withheld and not
// consumed are forfeited.
//
// Merge leaves the shards alone if one is missing, is disabled, has expired, uses a
// peer's feature or is stamped far ahead. It also does so if one holds more than its
// share, or if they disagree about their number, their limits or their owner. It
// reports whether it merged the bucket. It does not merge if others write at every
// attempt, or if the bucket is being doubled. Errors are those of the [Store]. After
// [ErrUnavailable] the bucket may or may not be merged.
//
// If a peer's client still knows of a retired shard, it makes that shard again, full.
func (l *Limiter) Merge(ctx context.Context, images []*store.Image) (bool, error) {
	if len(images) == 0 {
		return false, l.closedFor("merge no shards")
	}
	return inTime(ctx, l, opOn(images[0].Bucket, "merge"), func(ctx context.Context) (merged bool, err error) {
		acct := l.account(images[0].Entity, images[0].Resource)
		_, waited := acct.widening.Do(ctx, nil, func() { merged, err = l.merge(ctx, acct, images) })
		return merged, errors.Join(err, unavailable(waited))
	})
}

func (l *Limiter) merge(ctx context.Context, acct *account, images []*store.Image) (bool, error) {
	b, count := images[0].Bucket, len(images)
	var before []*store.Image
	for tries := range mergeTries {
		if tries > 0 {
			if err := l.pause(ctx, nil, tries); err != nil {
				return false, err
			}
			var err error
			before = images
			if images, err = l.readManyShards(ctx, acct, b, count); err != nil {
				return false, err
			}
		}
		m := l.moment()
		if len(images) != count || !areMergeable(images, m.now) {
			return false, nil
		}
		pairs := pairsOf(images, before, m.now, l.multiplier)
		joint, err := l.mergePairs(ctx, acct, images, pairs, m)
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil:
			return false, fmt.Errorf("merge the shards of %s of %s: %w", b.Resource, b.Entity, err)
		case joint.Applied:
			l.counts.merges.Add(1)
			survivors := make([]*store.Image, len(pairs))
			for i := range survivors {
				survivors[i] = afterRefill(pairs[i].Survivor)
			}
			acct.recount(survivors, m)
			return true, nil
		}
	}
	return false, nil
}

// mergePairs merges the second half of a bucket's shards into the first half.
func (l *Limiter) mergePairs(ctx context.Context, acct *account, images []*store.Image, pairs []*store.Pair, m moment) (store.Joint, error) {
	of := make([]Bucket, len(images))
	for i := range of {
		of[i] = images[i/2+i%2*len(images)/2].Bucket
	}
	after := func(i int) *store.Image {
		if i%2 == 1 {
			return nil
		}
		return afterRefill(pairs[i/2].Survivor)
	}
	return l.sendJoint(ctx, acct, of, after, m, func(ctx context.Context) (store.Joint, error) { return l.store.Merge(ctx, pairs) })
}

// areMergeable reports whether images are all shards of a bucket and agree, so that one
// shard can take over another.
func areMergeable(images []*store.Image, now int64) bool {
	first := images[0]
	for i, img := range images {
		if img.Shard != i || img.ShardCount != len(images) || !isPlain(img, now) || isOverfull(img) || isAhead(img, now) ||
			ownerOf(img) != ownerOf(first) || (img.ExpiresAt == 0) != (first.ExpiresAt == 0) ||
			!slices.EqualFunc(img.Limits, first.Limits, func(s, o store.LimitState) bool { return s.Name == o.Name && s.Params == o.Params }) {
			return false
		}
	}
	return len(images) > 1
}

// pairsOf returns the pairs of the images of all shards. before are the images of the
// attempt before, if that was refused.
func pairsOf(images, before []*store.Image, now, multiplier int64) []*store.Pair {
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
	at := max(now, survivor.RefilledAt+1, retired.RefilledAt+1)
	r := &store.Refill{
		Bucket: survivor.Bucket, Seen: survivor, RefilledAt: at, ShardCount: survivor.ShardCount / 2,
		Changes: make([]store.Change, 0, len(survivor.Limits)),
	}
	r.Writes, _ = (&claim{pressing: true}).writesChange(survivor, at)
	p := &store.Pair{Survivor: r, Retired: retired, AtLeast: make([]int64, 0, len(retired.Limits))}
	for i := range survivor.Limits {
		s, t := &survivor.Limits[i], &retired.Limits[i]
		least := t.Tokens - allowance(t, earlier, retired, at)
		given := shareOf(retired, t.Params).Balance(least, retired.RefilledAt, at)
		part := shareOf(survivor, s.Params)
		earned, clamped := part.Refill(s.Tokens, survivor.RefilledAt, at)
		ch := store.Change{Limit: s.Name, Earned: earned + given, AtLeast: math.MinInt64, AtMost: part.Capacity - earned}
		if clamped && earlier == nil {
			ch.AtLeast = s.Tokens // a take in between would make room that the cut leaves empty
		}
		r.Changes, p.AtLeast = append(r.Changes, ch), append(p.AtLeast, least)
	}
	r.Expiry = refillExpiry(r, survivor.ExpiresAt != 0, now, multiplier)
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
	return min(2*took, max(0, shareOf(img, s.Params).Balance(s.Tokens, img.RefilledAt, at)))
}
