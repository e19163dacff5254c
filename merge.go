package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// mergeTries bounds the attempts of a merge. Each that is refused was in the way of
// others.
const mergeTries = 10

// Shards reads the shards of a bucket that exist, in order. It looks at least as far as
// the shard that b names. [Limiter.Merge] takes its result. Errors are those of the
// [Store].
func (l *Limiter) Shards(ctx context.Context, b Bucket) ([]*store.Image, error) {
	return inTime(ctx, l, opOn(b, "read"), func(ctx context.Context) ([]*store.Image, error) {
		return l.readShards(ctx, l.account(b.Entity, b.Resource), b)
	})
}

// Merge halves the number of shards of a bucket: shard i of 2n takes over what shard
// i+n holds and becomes shard i of n, and the other one is deleted, for all of them
// in one transaction. images are all shards, as [Limiter.Shards] has just read them.
//
// Merge moves tokens and creates none. It loses nothing if nobody writes to the bucket
// meanwhile. If somebody does, it tries again on new images, and withholds from each
// retired shard twice what was consumed between the two reads. Tokens withheld and not
// consumed are forfeited.
//
// Merge leaves the shards alone if one is missing, is disabled, has expired, uses a
// peer's feature, holds more than its share or is stamped far ahead, and if they disagree
// about their number, their limits or their owner. It reports whether it merged the
// bucket: it does not if others write at every attempt, or if the bucket is being doubled.
// Errors are those of the [Store]; after [ErrUnavailable] the bucket may be merged or not.
//
// A peer's client that still knows of a retired shard makes it anew, full.
func (l *Limiter) Merge(ctx context.Context, images []*store.Image) (bool, error) {
	if len(images) == 0 {
		return false, l.closedFor("merge no shards")
	}
	return inTime(ctx, l, opOn(images[0].Bucket, "merge"), func(ctx context.Context) (merged bool, err error) {
		acct := l.account(images[0].Entity, images[0].Resource)
		_, waited := acct.widening.do(ctx, nil, func() { merged, err = l.merge(ctx, acct, images) })
		return merged, errors.Join(err, waited)
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

// mergePairs merges the second half of a bucket's shards into the first.
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

// areMergeable reports whether images are all shards of a bucket and of one mind, so
// that one of two can stand for both.
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

// pairsOf are the pairs that images of all shards make up. before are images from a
// moment earlier, if it was tried with them in vain.
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

// join is the merge of two shards. Both are accrued to one instant, each up to its own
// share, so that the sum is within the share of the one that is left: share i of n is
// share i and share i+n of 2n together.
//
// The stamps are locks, as of any refill, so that nothing accrues twice. The new one is
// past both: so images from before a merge can be told. Takes may
// land in between, after a first try in vain: the survivor is added to, and keeps what
// is taken off it; of the retired shard less is moved than was seen, by twice what was
// taken of it since an earlier image. What it holds then is at least that,
// whatever overflowed: a balance that somebody took from had not overflowed then.
// Credits in between would be lost, and are in the way.
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
			ch.AtLeast = s.Tokens // what overflowed is not cut off what is taken
		}
		r.Changes, p.AtLeast = append(r.Changes, ch), append(p.AtLeast, least)
	}
	r.Expiry = refillExpiry(r, survivor.ExpiresAt != 0, now, multiplier)
	return p
}

// allowance is how much less of a limit is moved than a shard holds: twice what was
// taken of it since an earlier image, and not more than there is.
func allowance(s *store.LimitState, earlier, img *store.Image, at int64) int64 {
	if earlier == nil {
		return 0
	}
	was, _ := earlier.Limit(s.Name)
	took := min(max(0, s.ConsumedSince(&was)), math.MaxInt64/2)
	return min(2*took, max(0, shareOf(img, s.Params).Balance(s.Tokens, img.RefilledAt, at)))
}
