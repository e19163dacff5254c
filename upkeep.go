package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Demand is the debits that the aggregator expects of a bucket item before it looks
// at the item again.
type Demand struct {
	Amounts []store.Amount // by limit; no use is expected of the others
	Writes  int64          // writes to the item
}

// Replenish accrues a bucket item ahead of its users, if the item, as the image shows
// it, holds less than the demand. Accruing must make up for at least half of the
// shortage. Debits that then find enough tokens need no refill, so they move no stamp.
// All limits of the item accrue in one write, by the same arithmetic and conditions as
// in a request's refill. The hidden write limit pays for the write.
//
// Replenish sends nothing if that would gain nothing. It also leaves an item alone that
// is disabled, has expired, uses a peer's feature, or holds more than its share. It
// reports whether it wrote the item: if another process has refilled the item since the
// image, it did not, which is not an error. It makes one attempt. If the stamp lies far
// ahead, Replenish first moves it back, which does not count as an attempt.
func (l *Limiter) Replenish(ctx context.Context, img *store.Image, next Demand) (bool, error) {
	m, acct := l.moment(), l.memory(img.Entity, img.Resource)
	if acct.IsBraked(img.Shard, m.Up) {
		return false, l.closedFor(opOn(img.Bucket, "replenish"))
	}
	return inTime(ctx, l, opOn(img.Bucket, "replenish"), func(ctx context.Context) (bool, error) {
		img := l.heal(ctx, img)
		if img == nil {
			return false, nil
		}
		r := replenishment(img, next, m.Now, l.multiplier)
		if r == nil {
			return false, nil
		}
		out, err := l.send(ctx, acct, img.Bucket, memory.StampUse{Moves: true}, m, func(ctx context.Context) (store.Outcome, error) { return l.store.Refill(ctx, r) })
		switch {
		case errors.Is(err, ErrConflict):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("%s: %w", opOn(img.Bucket, "replenish"), err)
		}
		return out.Applied, nil
	})
}

// opOn names an operation on a bucket item, for errors.
func opOn(b Bucket, verb string) string {
	return fmt.Sprintf("%s shard %d of %s of %s", verb, b.Shard, b.Resource, b.Entity)
}

// replenishment is the refill by which an item meets a demand, nil if no refill is
// worth its write.
func replenishment(img *store.Image, next Demand, now, multiplier int64) *store.Refill {
	if !plan.IsPlain(img, now) || plan.IsOverfull(img) || !next.gains(img, now) {
		return nil
	}
	d := plan.Debit{Bucket: img.Bucket}
	r, wait, _ := d.Refill(img, now, multiplier)
	if wait > 0 {
		return nil
	}
	return r
}

// gains reports whether accruing up to now makes up for at least half of the shortage
// of some limit.
func (d *Demand) gains(img *store.Image, now int64) bool {
	writes := plan.WholeOf(&img.Writes)
	if img.Writes.Name != "" && covers(img.Writes.Tokens, writes.Balance(img.Writes.Tokens, img.RefilledAt, now), writes.Capacity, d.Writes*plan.WriteCost) {
		return true
	}
	for _, a := range d.Amounts {
		s, ok := img.Limit(a.Limit)
		if !ok {
			continue
		}
		if l := plan.ShareOf(img, s.Params); covers(s.Tokens, l.Balance(s.Tokens, img.RefilledAt, now), l.Capacity, a.Milli) {
			return true
		}
	}
	return false
}

// covers reports whether a balance falls short of a need, and half of the shortage has
// accrued by now. The need is at most the capacity.
func covers(stored, balance, capacity, need int64) bool {
	need = min(need, capacity)
	return stored < need && balance > max(0, stored) && balance-need/2 >= stored/2
}

// Double doubles the number of shards of a bucket if img shows that its item has used
// four fifths of its hidden write limit. It counts what that limit had earned until the
// instant at. So the bucket doubles before requests have to wait for the limit. The
// instant must be that of the image; Double does not see later writes to the item.
//
// Double sends nothing while the last doubling that this limiter knows of has not had
// its effect. It also sends nothing where it can gain nothing: at [MaxShards], and for
// items that are disabled, have expired or use a peer's feature. It reports whether
// there are now more shards than the image says. Errors are those of the [Store]. The
// next client that notices a half-done doubling finishes it.
func (l *Limiter) Double(ctx context.Context, img *store.Image, at time.Time) (bool, error) {
	if !plan.IsPlain(img, l.now()) || img.ShardCount >= MaxShards || !plan.IsPressed(img, at.UnixMilli()) {
		return false, l.closedFor(opOn(img.Bucket, "double"))
	}
	acct := l.memory(img.Entity, img.Resource)
	if acct.ShardCount() > img.ShardCount || !acct.MayDouble(l.uptime(), memory.DoublingPause) {
		return false, l.closedFor(opOn(img.Bucket, "double"))
	}
	return inTime(ctx, l, opOn(img.Bucket, "double"), func(ctx context.Context) (bool, error) {
		return l.widen(ctx, acct, img.Bucket, img.ShardCount, nil)
	})
}

// Mend completes the set of shards of a bucket. It finishes a half-done doubling, left
// by a client that died or by a peer that leaves the rest to others. It makes missing
// shards from their siblings. A shard 0 that a peer made again beside existing siblings
// learns their number. Mend reads as many shards as this limiter knows of, and at least
// up to the one that b names. If the shards agree, Mend costs only that read. Errors
// are those of the [Store].
func (l *Limiter) Mend(ctx context.Context, b Bucket) error {
	_, err := inTime(ctx, l, opOn(b, "mend"), func(ctx context.Context) (bool, error) {
		return l.mend(ctx, l.memory(b.Entity, b.Resource), b, nil)
	})
	return err
}
