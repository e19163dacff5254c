package acquire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

// Held returns what was taken of each shard, as it is written down (ADR 058). Every limit that the
// request named is in the first one, if only with 0.
func (t *Taken) Held() []token.Held {
	held := make([]token.Held, 0, len(t.parts))
	for j := range t.parts {
		p := &t.parts[j]
		h := token.Held{Shard: p.image.Shard}
		for i := range t.Entries {
			if name := t.Entries[i].Limit; p.written[i] > 0 || j == 0 {
				h.Amounts = append(h.Amounts, store.Amount{Limit: name, Milli: max(0, p.written[i]), Until: p.until(name)})
			}
		}
		if len(h.Amounts) > 0 {
			held = append(held, h)
		}
	}
	return held
}

// Assumed is [Taken.Held] of what [Taken.Assume] has recorded: nothing was taken.
func (t *Taken) Assumed() []token.Held {
	h := token.Held{Amounts: make([]store.Amount, 0, len(t.Entries))}
	for i := range t.Entries {
		h.Amounts = append(h.Amounts, store.Amount{Limit: t.Entries[i].Limit, Milli: t.Entries[i].Total})
	}
	return []token.Held{h}
}

// Restore makes of what was written down what was taken, for [Settler.SettleOnce].
func Restore(b store.Bucket, held []token.Held) *Taken {
	t := &Taken{Claim: &Claim{Bucket: b}}
	for _, h := range held {
		t.raise(h.Amounts)
	}
	for _, h := range held {
		b.Shard = h.Shard
		p := part{image: &store.Image{Bucket: b}, held: h.Amounts, written: make([]int64, len(t.Entries))}
		for i := range t.Entries {
			p.written[i] = plan.AmountOf(h.Amounts, t.Entries[i].Limit)
		}
		p.counted = plan.CountedOf(h.Amounts)
		t.parts = append(t.parts, p)
	}
	return t
}

// Owed is what a bucket is to be debited of, and what is to be counted besides, for
// [Settler.SettleOnce]: nothing of it was debited yet. Each has a limit once.
func Owed(b store.Bucket, debits, counted []store.Amount) *Taken {
	t := &Taken{Claim: &Claim{Bucket: b}, counted: counted}
	t.add(&store.Image{Bucket: b})
	t.raise(debits)
	return t
}

// First names the shard from which was taken first.
func (t *Taken) First() store.Bucket { return t.parts[0].image.Bucket }

// SettleOnce makes the store debit exactly the target of each entry of all that was taken, in one
// transaction with a record. If there is a record already, it changes nothing, and returns that.
//
// Unlike [Settler.Settle], it may be called again after any error: the record keeps the settlement
// from being applied twice.
//
//	this process   rolls back ──▶ record, 10 returned ── lost answer ──▶ rolls back ──▶ finds the record
//	another one                 commits 7 ──▶ finds the record: 0 were kept
//
// What was taken may be of shards that have been split, merged or deleted since. As for any
// settlement, a credit goes to the shard it was taken from, as far as that has room; then to the one
// that took its balance over, and to the others; and what no shard has room for overflows. The whole
// transaction is worked out on images of all shards, and again if one of them was outdated.
func (s *Settler) SettleOnce(ctx context.Context, r store.SettlementRecord, sides []*Taken, target func(*Entry) int64) (before *store.SettlementRecord, err error) {
	for tries := range process.MaxTries {
		if tries > 0 {
			if err := s.Pause(ctx, nil, tries); err != nil {
				return nil, err
			}
		}
		m := s.Moment()
		writes, err := s.planOnce(ctx, sides, target, tries > 0)
		if err != nil {
			return nil, err
		}
		done, err := s.Once.SettleOnce(ctx, &store.Settlement{Record: r, Writes: writes})
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return nil, err
		case done.Before != nil:
			return done.Before, nil
		case done.Applied:
			for i := range writes {
				b := writes[i].Bucket()
				s.accounts.of(b.Entity, b.Resource).Remember(plan.AfterSettlement(&writes[i]), m)
			}
			return nil, nil
		}
	}
	return nil, refusedTooOften(r.Bucket, process.MaxTries)
}

// planOnce works out the writes that settle all that was taken. They rest on remembered images, or
// on fresh ones.
func (s *Settler) planOnce(ctx context.Context, sides []*Taken, target func(*Entry) int64, fresh bool) (writes []store.SettlementWrite, err error) {
	shards := make([][]*store.Image, len(sides))
	for i, t := range sides {
		if t.IsSettled(target) && len(t.counted) == 0 {
			continue
		}
		if shards[i], err = s.shardsOf(ctx, t, fresh); err != nil {
			return nil, fmt.Errorf("settle %s of %s: %w", t.Claim.Resource, t.Claim.Entity, err)
		}
	}
	now := s.Now()
	for _, narrow := range [...]bool{false, true} {
		writes = nil
		for i, t := range sides {
			if len(shards[i]) > 0 { // otherwise there is nothing to settle, or the bucket is gone
				writes = append(writes, t.settlement(shards[i], target, narrow, now, s.Multiplier)...)
			}
		}
		if len(writes) <= store.MaxSettlementWrites {
			break
		}
	}
	return writes, nil
}

// shardsOf returns the shards of a bucket.
func (s *Settler) shardsOf(ctx context.Context, t *Taken, fresh bool) ([]*store.Image, error) {
	acct := s.accounts.of(t.Claim.Entity, t.Claim.Resource)
	if !fresh {
		if images, all := acct.Images(s.Uptime(), memory.ImageAge); all {
			return images, nil
		}
	}
	b := t.Claim.Bucket
	for i := range t.parts {
		b.Shard = max(b.Shard, t.parts[i].image.Shard)
	}
	return s.upkeep.ReadShards(ctx, &acct.Account, b)
}

// A lot is what a settlement does to one shard.
type lot struct {
	image            *store.Image
	amounts, counted []store.Amount // each by limit, once
}

// settlement works out the writes to the shards of a bucket. With narrow, it spares shards of which
// nothing was taken.
func (t *Taken) settlement(shards []*store.Image, target func(*Entry) int64, narrow bool, now, multiplier int64) (writes []store.SettlementWrite) {
	lots := t.lots(shards, narrow)
	more, deltas := t.due(target)
	var over []store.Amount
	for j := range t.parts {
		back := deltas[j]
		if i := slices.IndexFunc(lots, func(l lot) bool { return l.image.Shard == t.parts[j].image.Shard }); i >= 0 {
			back = lots[i].add(back, now, true)
		}
		over = append(over, back...)
	}
	for _, spare := range [...]bool{true, false} {
		for i := range lots {
			over = lots[i].add(over, now, spare)
		}
	}
	t.takeMore(lots, more, now)
	for _, a := range plan.Present(lots[0].image, t.counted) {
		lots[0].counted = plan.Join(lots[0].counted, a)
	}
	for i := range lots {
		if l := &lots[i]; len(l.amounts)+len(l.counted) > 0 {
			writes = append(writes, plan.Settlement(l.image, l.amounts, l.counted, now, multiplier))
		}
	}
	return writes
}

// lots are the shards, the one first from which most was taken first, or that took its balance over.
func (t *Taken) lots(shards []*store.Image, narrow bool) []lot {
	first := t.parts[0].image.Shard
	at := max(0, slices.IndexFunc(shards, func(img *store.Image) bool { return first%img.ShardCount == img.Shard }))
	var lots []lot
	for i, img := range slices.Concat(shards[at:], shards[:at]) {
		if !narrow || i == 0 || slices.ContainsFunc(t.parts, func(p part) bool { return p.image.Shard == img.Shard }) {
			lots = append(lots, lot{image: img})
		}
	}
	return lots
}

// add adds credits as far as the shard has their limits and, with spare, the capacity. It returns
// the rest.
func (l *lot) add(credits []store.Amount, now int64, spare bool) (rest []store.Amount) {
	present := plan.Present(l.image, credits)
	here, counted := plan.Aside(l.image, present)
	for _, a := range counted {
		l.counted = plan.Join(l.counted, a)
	}
	for _, a := range here {
		l.amounts = plan.Join(l.amounts, a)
	}
	if spare {
		l.amounts, rest = plan.SplitOff(l.amounts, l.image, now)
	}
	for _, a := range credits {
		if _, ok := l.image.Limit(a.Limit); !ok {
			rest = append(rest, a)
		}
	}
	return rest
}

// takeMore adds debits: to the first shard, if it holds them; otherwise to whichever shards do.
func (t *Taken) takeMore(lots []lot, more []store.Amount, now int64) {
	if len(more) == 0 {
		return
	}
	only, more := t.divide(more, lots[0].image)
	for _, a := range plan.Present(lots[0].image, only) {
		lots[0].counted = plan.Join(lots[0].counted, a)
	}
	terms := plan.Terms{Amounts: more}
	images := make([]*store.Image, len(lots))
	for i := range lots {
		images[i] = lots[i].image
	}
	portions, short := terms.Allot(images[:1], now, true)
	switch {
	case obstacle(t.Claim.Bucket, images) != nil:
		portions = []plan.Portion{{Image: images[0], Amounts: more}}
	case short:
		portions, _ = terms.Allot(images, now, true)
	}
	for _, p := range portions {
		l := &lots[slices.Index(images, p.Image)]
		for _, a := range plan.Present(p.Image, p.Amounts) {
			l.amounts = plan.Join(l.amounts, a)
		}
	}
}
