package upkeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// mergeTries bounds the attempts of a merge: each refused attempt gets in the way of
// other writers.
const mergeTries = 10

// Merge halves the number of shards of a bucket in one transaction. Shard i of 2n takes
// over the balance of shard i+n and becomes shard i of n; shard i+n is deleted. images
// are all shards, just read.
func (d *Driver) Merge(ctx context.Context, acct *memory.Account, images []*store.Image) (merged bool, err error) {
	_, waited := acct.Reshaping().Do(ctx, nil, func() { merged, err = d.merge(ctx, acct, images) })
	return merged, errors.Join(err, process.Unavailable(waited))
}

func (d *Driver) merge(ctx context.Context, acct *memory.Account, images []*store.Image) (bool, error) {
	b, count := images[0].Bucket, len(images)
	var before []*store.Image
	for tries := range mergeTries {
		if tries > 0 {
			if err := d.Pause(ctx, nil, tries); err != nil {
				return false, err
			}
			var err error
			before = images
			if images, err = d.ReadMany(ctx, acct, b, count); err != nil {
				return false, err
			}
		}
		m := d.Moment()
		if len(images) != count || !plan.AreMergeable(images, m.Now) {
			return false, nil
		}
		pairs := plan.PairsOf(images, before, m.Now, d.Multiplier)
		joint, err := d.mergePairs(ctx, acct, images, pairs, m)
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return false, fmt.Errorf("merge the shards of %s of %s: %w", b.Resource, b.Entity, err)
		case joint.Applied:
			d.Counts.Merges.Add(1)
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
func (d *Driver) mergePairs(ctx context.Context, acct *memory.Account, images []*store.Image, pairs []*store.Pair, m memory.Moment) (store.Joint, error) {
	of := make([]store.Bucket, len(images))
	for i := range of {
		of[i] = images[i/2+i%2*len(images)/2].Bucket
	}
	after := func(i int) *store.Image {
		if i%2 == 1 {
			return nil
		}
		return plan.AfterRefill(pairs[i/2].Survivor)
	}
	return d.SendJoint(ctx, acct, of, after, m, func(ctx context.Context) (store.Joint, error) { return d.Store.Merge(ctx, pairs) })
}
