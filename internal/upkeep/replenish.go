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

// Replenish accrues a bucket item ahead of its users, if that makes up for at least half
// of what the item lacks for the debits that are expected next: amounts, by limit, in a
// number of writes. It makes one attempt, and reports whether it wrote the item.
func (d *Driver) Replenish(ctx context.Context, acct *memory.Account, img *store.Image, amounts []store.Amount, writes int64) (bool, error) {
	m := d.Moment()
	if img = d.Heal(ctx, img); img == nil {
		return false, nil
	}
	r := replenishment(img, amounts, writes, m.Now, d.Multiplier)
	if r == nil {
		return false, nil
	}
	out, err := d.Send(ctx, acct, img.Bucket, memory.StampUse{Moves: true}, m, func(ctx context.Context) (store.Outcome, error) { return d.Store.Refill(ctx, r) })
	switch {
	case errors.Is(err, store.ErrConflict):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", process.OpOn(img.Bucket, "replenish"), err)
	}
	return out.Applied, nil
}

// replenishment is the refill by which an item meets the expected debits, nil if no refill is
// worth its write.
func replenishment(img *store.Image, amounts []store.Amount, writes, now, multiplier int64) *store.Refill {
	if !plan.IsPlain(img, now) || plan.IsOverfull(img) || !gains(img, amounts, writes, now) {
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
func gains(img *store.Image, amounts []store.Amount, writes, now int64) bool {
	hidden := plan.WritesOf(img)
	if img.Writes.Name != "" && covers(img.Writes.Tokens, hidden.Balance(img.Writes.Tokens, img.RefilledAt, now), hidden.Capacity, writes*plan.WriteCost) {
		return true
	}
	for _, a := range amounts {
		s, ok := img.Limit(a.Limit)
		if !ok {
			continue
		}
		if l := plan.ShareOf(img, &s); covers(s.Tokens, l.Balance(s.Tokens, img.RefilledAt, now), l.At(now).Capacity, a.Milli) {
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
