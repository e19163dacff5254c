package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Settler makes buckets give back, or debit, the difference between what a request has
// taken and what it is to have taken.
//
// Invariant: no token is returned twice. A write that was turned away was not applied, so it
// may be sent again, and so may one with a sequence (ADR 060). If nobody knows what became of one when
// the time is up, the tokens stay debited: too little is admitted then, and never too much.
//
// The naive way returns tokens to the shard that they were taken from. That shard may have
// been split or merged meanwhile, so it is smaller than they are, or gone:
//
//	this process   takes 8 of shard 3 of 4 ──────────────────────── returns 8 ──▶ gone: to shard 1 of 2,
//	an aggregator                            merges 3 into 1 of 2                 and what is too much to 0
type Settler struct {
	sharing

	upkeep   *upkeep.Driver
	accounts *accounts
	keeper   keeper
}

// Settle makes the store debit exactly the target of each entry. It returns tokens to
// the shards from which they were taken. If more is to be taken, it debits whichever
// shards hold it. If an error says that nothing was applied, Settle may be called again.
// closes says that the lease ends by that, and then reserves nothing any more.
func (s *Settler) Settle(ctx context.Context, t *Taken, target func(*Entry) int64, closes bool) error {
	more, deltas := t.due(target)
	if len(more) > 0 {
		only, debits := t.divide(more, t.parts[0].image)
		for _, a := range only {
			j := t.counting(a.Limit)
			deltas[j] = append(deltas[j], a)
		}
		var portions []plan.Portion
		if len(debits) > 0 {
			portions = s.allotDebits(ctx, t.parts[0].image, debits)
		}
		for _, p := range portions {
			j := t.paying(p)
			if j == len(t.parts) {
				t.add(p.Image)
				deltas = append(deltas, nil)
			}
			deltas[j] = append(deltas[j], p.Amounts...)
		}
	}
	s.freeDue(t, deltas, closes)
	return s.settleParts(ctx, t, deltas)
}

// settleParts adjusts the shards concurrently. Then it passes on the credits that exceed
// a shard's capacity.
func (s *Settler) settleParts(ctx context.Context, t *Taken, deltas [][]store.Amount) error {
	errs, spare := make([]error, len(deltas), len(deltas)+1), make([][]store.Amount, len(deltas))
	s.AtOnce(len(deltas), func(j int) { spare[j], errs[j] = s.settlePart(ctx, t, &t.parts[j], deltas[j]) })
	var over, counted []store.Amount // of balances, and of none
	for j, amounts := range spare {
		only, rest := t.parts[j].counted.Split(amounts)
		counted, over = addTo(counted, only), addTo(over, rest)
	}
	errs = append(errs, s.passOn(ctx, t.parts[0].image, over), s.passOn(ctx, t.parts[0].image, counted))
	for _, err := range errs {
		if !process.IsTurnedAway(err) {
			t.lost = cmp.Or(t.lost, err)
		}
	}
	return errors.Join(errs...)
}

// settlePart adjusts one shard. It returns the credits that exceed the shard's
// capacity.
func (s *Settler) settlePart(ctx context.Context, t *Taken, p *part, deltas []store.Amount) (over []store.Amount, err error) {
	if len(deltas) == 0 {
		return nil, nil
	}
	slices.SortFunc(deltas, func(a, b store.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
	over, err = s.adjust(ctx, p.image, deltas)
	if err != nil {
		err = fmt.Errorf("adjust %s of %s: %w", p.image.Resource, p.image.Entity, err)
		if process.IsTurnedAway(err) {
			return nil, err
		}
	}
	for i := range t.Entries {
		p.written[i] += plan.AmountOf(deltas, t.Entries[i].Limit)
	}
	return over, err
}

// Refund returns the amounts that claims have debited, if any, at the same time. It gets the
// time of a call anew, because the call's own time may already be up. If the store turns a
// return away, Refund repeats it in the background, after the caller has its answer.
func (s *Settler) Refund(ctx context.Context, claims ...*Claim) {
	var granted []*Claim
	for _, c := range claims {
		if c != nil && c.Granted {
			granted = append(granted, c)
		}
	}
	s.AtOnce(len(granted), func(i int) {
		c := granted[i]
		back := s.returned(c)
		err := back(s.Detach(ctx))
		if process.IsTurnedAway(err) {
			s.InBackground(func() { s.LogKept(ctx, c.Bucket, s.Insist(ctx, back)) })
			return
		}
		s.LogKept(ctx, c.Bucket, err)
	})
}

// takeBack returns what a claim has debited, before the claim is decided again. It
// fails if nobody can tell whether the tokens were returned: deciding again could
// debit the claim twice, or not at all.
func (s *Settler) takeBack(ctx context.Context, c *Claim) error {
	if !c.Granted {
		return nil
	}
	if err := s.Insist(ctx, s.returned(c)); err != nil {
		return fmt.Errorf("return what was taken of %s of %s by other limits: %w", c.Resource, c.Entity, err)
	}
	return nil
}

// returned makes a claim one that has debited nothing. The function returns the tokens. It
// may be called again while its error says that a part was turned away.
func (s *Settler) returned(c *Claim) func(context.Context) error {
	c.Granted = false
	t := &Taken{}
	t.Init(s.Uptime(), c)
	return func(ctx context.Context) error {
		err := s.Settle(ctx, t, func(*Entry) int64 { return 0 }, true)
		if process.IsTurnedAway(err) {
			return err
		}
		return t.lost
	}
}

// LogKept logs that tokens were not returned, because of err.
func (s *Settler) LogKept(ctx context.Context, b store.Bucket, err error) {
	if err != nil {
		s.Logger.WarnContext(ctx, "tokens were not returned", "entity", b.Entity, "resource", b.Resource, "error", err)
	}
}
