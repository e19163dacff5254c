package limiter

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
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
		return l.readShards(ctx, l.memory(b.Entity, b.Resource), b)
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
		acct := l.memory(images[0].Entity, images[0].Resource)
		_, waited := acct.Reshaping.Do(ctx, nil, func() { merged, err = l.merge(ctx, acct, images) })
		return merged, errors.Join(err, unavailable(waited))
	})
}

func (l *Limiter) merge(ctx context.Context, acct *memory.Account, images []*store.Image) (bool, error) {
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
		if len(images) != count || !plan.AreMergeable(images, m.Now) {
			return false, nil
		}
		pairs := plan.PairsOf(images, before, m.Now, l.multiplier)
		joint, err := l.mergePairs(ctx, acct, images, pairs, m)
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil:
			return false, fmt.Errorf("merge the shards of %s of %s: %w", b.Resource, b.Entity, err)
		case joint.Applied:
			l.counts.merges.Add(1)
			survivors := make([]*store.Image, len(pairs))
			for i := range survivors {
				survivors[i] = plan.AfterRefill(pairs[i].Survivor)
			}
			acct.Recount(survivors, m)
			return true, nil
		}
	}
	return false, nil
}

// mergePairs merges the second half of a bucket's shards into the first half.
func (l *Limiter) mergePairs(ctx context.Context, acct *memory.Account, images []*store.Image, pairs []*store.Pair, m memory.Moment) (store.Joint, error) {
	of := make([]Bucket, len(images))
	for i := range of {
		of[i] = images[i/2+i%2*len(images)/2].Bucket
	}
	after := func(i int) *store.Image {
		if i%2 == 1 {
			return nil
		}
		return plan.AfterRefill(pairs[i/2].Survivor)
	}
	return l.sendJoint(ctx, acct, of, after, m, func(ctx context.Context) (store.Joint, error) { return l.store.Merge(ctx, pairs) })
}
