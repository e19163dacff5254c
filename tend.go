package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Demand is what is expected to be debited from a bucket item before somebody
// looks at it again.
type Demand struct {
	Amounts []store.Amount // by limit; limits without one are not expected to be used
	Writes  int64          // writes to the item
}

// Replenish accrues a bucket item ahead of those who use it, if the item, as an
// image shows it, does not hold what is expected of it next and accruing makes
// up for at least half of what is lacking. Debits that then find what they need
// do not have to refill, so that they move no stamp under others. All limits of
// the item accrue in the one write, by the same arithmetic and under the same
// conditions as when a request refills, and the hidden write limit pays for it.
//
// Nothing is sent if nothing would be gained, and if the item is one that users
// do not simply accrue either: it is disabled, has expired, belongs to a peer's
// feature, or holds more than its share. It reports whether the item was
// written: it is not if anybody has refilled it since the image, which is not an
// error. One attempt is made. A stamp that lies far ahead is moved back first, which
// does not count as that.
func (l *Limiter) Replenish(ctx context.Context, img *store.Image, next Demand) (bool, error) {
	m, acct := l.moment(), l.account(img.Entity, img.Resource)
	if acct.isBraked(img.Shard, m.up) {
		return false, l.closedFor(opOn(img.Bucket, "replenish"))
	}
	return inTime(ctx, l, opOn(img.Bucket, "replenish"), func(ctx context.Context) (bool, error) {
		img := l.heal(ctx, img)
		if img == nil {
			return false, nil
		}
		r := replenishment(img, next, m.now, l.multiplier)
		if r == nil {
			return false, nil
		}
		out, err := l.send(ctx, acct, img.Bucket, stampUse{moves: true}, m, func(ctx context.Context) (store.Outcome, error) { return l.store.Refill(ctx, r) })
		switch {
		case errors.Is(err, ErrConflict):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("%s: %w", opOn(img.Bucket, "replenish"), err)
		}
		return out.Applied, nil
	})
}

// opOn names what is done to a bucket item, for errors.
func opOn(b Bucket, verb string) string {
	return fmt.Sprintf("%s shard %d of %s of %s", verb, b.Shard, b.Resource, b.Entity)
}

// replenishment is the refill that makes an item meet a demand, nil if there is
// none that is worth its write.
func replenishment(img *store.Image, next Demand, now, multiplier int64) *store.Refill {
	if !isPlain(img, now) || isOverfull(img) || !next.gains(img, now) {
		return nil
	}
	c := claim{Bucket: img.Bucket}
	r, wait, _ := c.refill(img, now, multiplier)
	if wait > 0 {
		return nil
	}
	return r
}

// gains reports whether accruing up to now makes up for at least half of what an
// item lacks of some limit.
func (d *Demand) gains(img *store.Image, now int64) bool {
	writes := wholeOf(&img.Writes)
	if img.Writes.Name != "" && covers(img.Writes.Tokens, writes.Balance(img.Writes.Tokens, img.RefilledAt, now), writes.Capacity, d.Writes*writeCost) {
		return true
	}
	for _, a := range d.Amounts {
		s, ok := img.Limit(a.Limit)
		if !ok {
			continue
		}
		if l := shareOf(img, s.Params); covers(s.Tokens, l.Balance(s.Tokens, img.RefilledAt, now), l.Capacity, a.Milli) {
			return true
		}
	}
	return false
}

// covers reports whether a balance is short of a need, and half of that has
// accrued by now. No more than the capacity is ever needed.
func covers(stored, balance, capacity, need int64) bool {
	need = min(need, capacity)
	return stored < need && balance > max(0, stored) && balance-need/2 >= stored/2
}

// Double doubles the number of shards of a bucket if one of its items, as an image
// of it shows, has used up four fifths of its hidden write limit, what that had
// earned until an instant included: before requests have to wait for it. The
// instant is that of the image; what happened to the item later it cannot tell.
//
// Nothing is sent while the last doubling that this limiter knows of has not had
// its effect, and where there is nothing to gain: at [MaxShards], and on items
// that are disabled, have expired or belong to a peer's feature. It reports
// whether there are more shards now than the image says. Errors are those of the
// [Store]; a doubling that got stuck is finished by whoever meets it.
func (l *Limiter) Double(ctx context.Context, img *store.Image, at time.Time) (bool, error) {
	if !isPlain(img, l.now()) || img.ShardCount >= MaxShards || !isPressed(img, at.UnixMilli()) {
		return false, l.closedFor(opOn(img.Bucket, "double"))
	}
	acct := l.account(img.Entity, img.Resource)
	if acct.shardCount() > img.ShardCount || !acct.relievable(l.uptime(), settling) {
		return false, l.closedFor(opOn(img.Bucket, "double"))
	}
	return inTime(ctx, l, opOn(img.Bucket, "double"), func(ctx context.Context) (bool, error) {
		return l.widen(ctx, acct, img.Bucket, img.ShardCount, nil)
	})
}

// isPressed reports whether an item has used up four fifths of the hidden write
// limit.
func isPressed(i *store.Image, at int64) bool {
	const left = 5 // one part in so many, or less
	return i.Writes.Name != "" && writesLeft(i, at) <= i.Writes.Capacity/left
}

// isRelaxed reports whether an item has half of the hidden write limit, or more.
func isRelaxed(i *store.Image, at int64) bool {
	return i.Writes.Name != "" && 2*writesLeft(i, at) >= i.Writes.Capacity
}

// Mend completes the set of shards of a bucket: a doubling that is half done, by a
// client that died or by a peer that leaves the rest to others, is finished; shards that
// are missing are made from their siblings; and a shard 0 that a peer made anew beside
// living siblings learns their number. As many shards are looked at as are known of, and
// at least up to the one that b names. Shards that agree cost the read that finds it out.
// Errors are those of the [Store].
func (l *Limiter) Mend(ctx context.Context, b Bucket) error {
	_, err := inTime(ctx, l, opOn(b, "mend"), func(ctx context.Context) (bool, error) {
		return l.mend(ctx, l.account(b.Entity, b.Resource), b, nil)
	})
	return err
}

// isBraked reports whether a shard is not to be written to now.
func (a *account) isBraked(i int, up time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return i < len(a.shards) && a.shards[i] != nil && a.shards[i].brake.holds(up)
}
