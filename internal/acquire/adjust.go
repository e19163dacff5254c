package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// allotDebits chooses the shards to debit, even if they cannot afford it. The shard from which
// the lease was taken comes first. If it holds too little, the others are debited too:
// a bucket must not admit from one shard what it owes on another.
func (s *Settler) allotDebits(ctx context.Context, img *store.Image, amounts []store.Amount) []plan.Portion {
	m := s.Moment()
	acct := s.accounts.of(img.Entity, img.Resource)
	count := acct.ShardCount()
	if last := acct.Image(img.Shard, m.Up, memory.ImageAge); last != nil {
		img = last
	}
	terms := plan.Terms{Amounts: amounts}
	if parts, short := terms.Allot([]*store.Image{img}, m.Now, true); !short || count == 1 || !img.IsEvaluable() {
		return parts
	}
	images, all := acct.Images(m.Up, s.accounts.trust)
	if !all {
		read, err := s.upkeep.ReadShards(ctx, &acct.Account, img.Bucket)
		if err != nil || len(read) == 0 || obstacle(img.Bucket, read) != nil {
			return []plan.Portion{{Image: img, Amounts: amounts}}
		}
		images = read
	}
	parts, _ := terms.Allot(images, m.Now, true)
	return parts
}

// adjust debits (positive deltas) or credits (negative ones) a shard, together with what
// other callers adjust. It returns the tokens that exceed the shard's capacity, for
// [Settler.passOn].
func (s *Settler) adjust(ctx context.Context, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	acct := s.accounts.of(img.Entity, img.Resource)
	if !s.isQueued() || plan.IsWide(img) {
		return s.adjustAlone(ctx, acct, img, deltas)
	}
	defer acct.leave()
	ln := &acct.enter().at(img.Shard).credits
	t := &ticket{Claim: &Claim{Bucket: img.Bucket, Terms: plan.Terms{Amounts: deltas}}}
	switch told, err := s.attend(ctx, ln, t, s.places, nil); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrConflict, err) // nothing was sent
	case told == lane.Done:
		return nil, t.Err
	case told == lane.Solo:
		return s.adjustAlone(ctx, acct, img, deltas)
	}
	defer ln.Leave(s.places)
	crowd := ln.Along(t, mostShared, func(other *Claim) bool {
		return !plan.Lacks(img, other.Terms.Amounts) && plan.AreOfOnePeriod(deltas, other.Terms.Amounts)
	})
	if len(crowd) > 1 {
		ctx = s.Detach(ctx) // the write belongs to no single caller
	}
	over, err = s.adjustAlone(ctx, acct, img, sumOf(crowd))
	if len(crowd) == 1 {
		return over, err
	}
	if err == nil {
		err = s.passOn(ctx, img, over)
	}
	tellAll(crowd, err)
	return nil, err
}

// adjustAlone adjusts one shard. It returns credits that exceed the shard's capacity,
// for example because the shard has been split since the debit. It returns all amounts
// if the shard is gone, for example because it was merged.
func (s *Settler) adjustAlone(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	if last := acct.Image(img.Shard, s.Uptime(), memory.ImageAge); last != nil {
		img = last
	}
	over, gone, err := s.adjustShard(ctx, acct, img, deltas, true)
	if gone && img.ShardCount > 1 {
		over = slices.DeleteFunc(slices.Clone(deltas), func(a store.Amount) bool { return a.Milli == 0 })
	}
	return over, err
}

// adjustShard adjusts one shard. With spare, it leaves out and returns the credits that
// exceed the shard's capacity; without, those overflow. gone says that the shard does
// not exist.
func (s *Settler) adjustShard(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount, spare bool) (over []store.Amount, gone bool, err error) {
	for tries := range process.MaxTries {
		if tries > 0 {
			if err := s.Pause(ctx, nil, tries); err != nil {
				return nil, false, err
			}
		}
		after, paid, err := s.payOwed(ctx, acct, img, nil)
		switch {
		case err != nil && !errors.Is(err, store.ErrConflict):
			return nil, false, err
		case err != nil:
			continue
		case after == nil:
			return nil, true, nil
		}
		if img = after; !paid {
			continue
		}
		debit := &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: plan.Present(img, deltas)}
		m := s.Moment()
		if spare {
			debit.Amounts, over = plan.SplitOff(debit.Amounts, img, m.Now)
		}
		out, err := s.settle(ctx, acct, debit, img, m, settling{})
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return nil, false, err
		case out.Applied:
			return over, false, nil
		case out.Image == nil:
			return nil, true, nil
		default:
			img = out.Image
		}
	}
	return nil, false, refusedTooOften(img.Bucket, process.MaxTries)
}

// settle carries out a settlement on the image seen.
func (s *Settler) settle(ctx context.Context, acct *account, debit *plan.Debit, img *store.Image, m memory.Moment, also settling) (store.Outcome, error) {
	if len(debit.Amounts) == 0 && !also.renews {
		return store.Outcome{Applied: true, Image: img}, nil
	}
	refills := debit.Overflows(img, m.Now) || debit.Owes(img)
	w := s.BeginWrite(&acct.Account, img, memory.StampUse{Moves: refills}, m)
	var adds []store.ReserveAdd
	if c := s.Carry(&w, ledger.Take{}, also.own, nil); c != nil {
		adds = c.Adds
	}
	var write func(context.Context) (store.Outcome, error)
	if refills {
		refill, _, _ := debit.Refill(img, m.Now, s.Multiplier)
		plan.NumberRefill(refill, w.Sequence, m.Now)
		refill.Reserve = adds
		write = func(ctx context.Context) (store.Outcome, error) { return s.Store.Refill(ctx, refill) }
	} else {
		adjust := debit.Adjustment(img, m.Now)
		adjust.Sequence, adjust.Reserve = w.Sequence, adds
		write = func(ctx context.Context) (store.Outcome, error) { return s.Store.Adjust(ctx, adjust) }
	}
	out, err := w.Send(ctx, s.Process, write)
	if s.EndWrite(ctx, &w, out, err) {
		var undo func(*ledger.Entry)
		if err == nil || also.repeats { // it is planned again; otherwise it counts as written
			undo = s.undo(context.WithoutCancel(ctx), acct, img, debit.Amounts)
		}
		s.ReturnLost(&w, undo)
	}
	return out, err
}

// undo settles the opposite of amounts.
func (s *Settler) undo(ctx context.Context, acct *account, img *store.Image, amounts []store.Amount) func(*ledger.Entry) {
	opposite := slices.Clone(amounts)
	for i := range opposite {
		opposite[i].Milli = -opposite[i].Milli
	}
	return func(*ledger.Entry) {
		ctx := s.Detach(ctx)
		over, err := s.adjustAlone(ctx, acct, img, opposite)
		s.LogKept(ctx, img.Bucket, cmp.Or(err, s.passOn(ctx, img, over)))
	}
}

// passOn settles on other shards the credits that exceeded one shard's capacity, or
// amounts meant for a shard that is gone. The survivor comes first: the shard that took the
// balance over in a merge. Credits that exceed all capacities overflow, on the first shard
// that has the limit.
func (s *Settler) passOn(ctx context.Context, img *store.Image, over []store.Amount) error {
	if len(over) == 0 {
		return nil
	}
	acct := s.accounts.of(img.Entity, img.Resource)
	images, err := s.upkeep.ReadShards(ctx, &acct.Account, img.Bucket)
	if err != nil {
		return partlyReturned(err)
	}
	survivor := max(0, slices.IndexFunc(images, func(other *store.Image) bool { return img.Shard%other.ShardCount == other.Shard }))
	images = slices.Concat(images[survivor:], images[:survivor])
	for _, spare := range [...]bool{true, false} {
		for _, other := range images {
			if over, err = s.passOnTo(ctx, acct, other, over, spare); err != nil {
				return partlyReturned(err)
			}
		}
	}
	return nil
}

// passOnTo settles amounts on a shard, as far as it has their limits and, with spare,
// the capacity. It returns the rest.
func (s *Settler) passOnTo(ctx context.Context, acct *account, img *store.Image, over []store.Amount, spare bool) (rest []store.Amount, err error) {
	here := plan.Present(img, over)
	fitting := here
	if spare {
		fitting, _ = plan.SplitOff(here, img, s.Now())
	}
	if len(fitting) == 0 {
		return over, nil
	}
	left, gone, err := s.adjustShard(ctx, acct, img, here, spare)
	if err != nil || gone {
		return over, err
	}
	for _, a := range over {
		if _, ok := img.Limit(a.Limit); !ok {
			left = append(left, a)
		}
	}
	slices.SortFunc(left, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	return left, nil
}

// partlyReturned is the error of a settlement that was partly applied: the caller must not
// repeat it.
func partlyReturned(err error) error {
	if err == nil || !process.IsTurnedAway(err) {
		return err
	}
	return fmt.Errorf("a part was not returned: %w: %v", store.ErrUnavailable, err) //nolint:errorlint // the cause invites to try again
}
