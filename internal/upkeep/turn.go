package upkeep

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// turnAttempts bounds the turns of one hour. Each attempt but the first works on the item that
// refused the one before.
const turnAttempts = 4

// Turn turns the diary of an item to an hour, for clients that write no diary (ADR 039). from
// has the counts before the first write of the hour, and img is the item at any time since.
//
// The hour that is open closes with what the counts gained until from. So what such a client
// consumed in its first write of the new hour counts there, although the turn follows it:
//
//	peer            takes in hour 9 ── takes in hour 10: record
//	this process                                     from: the old image ── turns to 10
//
// Every writer of a turn requires the open hour that it saw, so a turn that is repeated, or that
// comes after another writer's, is refused and changes nothing. If an item refuses the counts of
// from, it is another item of the same key, or its clients have returned tokens or removed a
// limit. Then the hour begins with the counts at the turn. Turn reports whether it turned the item.
func (k *Keeper) Turn(ctx context.Context, img *store.Image, hour int32, from *store.Image) (bool, error) {
	what := process.OpOn(img.Bucket, "close the hour")
	return process.InTime(ctx, k.process, what, func(ctx context.Context) (bool, error) {
		return k.upkeep.turn(ctx, k.account(img.Bucket), img, hour, from)
	})
}

func (d *Driver) turn(ctx context.Context, acct *memory.Account, img *store.Image, hour int32, from *store.Image) (bool, error) {
	for range turnAttempts {
		if img == nil || len(img.Limits) == 0 || img.Hour >= hour {
			return false, nil
		}
		m := d.Moment()
		a := &store.Adjust{Bucket: img.Bucket, Seen: img, Turn: &store.Turn{Seen: img, Hour: hour, From: from}}
		out, err := d.Send(ctx, acct, img.Bucket, memory.StampUse{}, m, func(ctx context.Context) (store.Outcome, error) { return d.Store.Adjust(ctx, a) })
		if err != nil {
			return false, fmt.Errorf("%s: %w", process.OpOn(img.Bucket, "close the hour"), err)
		}
		if out.Applied {
			return true, nil
		}
		if out.Image != nil && out.Image.Hour == img.Hour {
			from = nil // nobody has turned: the item does not have these counts
		}
		img = out.Image
	}
	return false, fmt.Errorf("%s: %w", process.OpOn(img.Bucket, "close the hour"), store.ErrConflict)
}
