package limiter

import (
	"context"
	"slices"
)

// Where many processes ask for more than a limit gives, what there is was earned a
// moment ago and is gone a moment later. A write then races with those of
// others for the same tokens, and loses more often than not:
//
//	process 1   ── asks for 1 of 1.2 ──▶ served, 0.2 left
//	process 2     ── asks for 1 of 1.2 ──▶ refused: 0.2, by now 0.9
//	process 3        holds back, on an image from before
//
// Who holds back then and asks again knows nothing any more. It may lose in the same
// way for seconds, and those in line behind it with it, while a newcomer at
// another shard is served at once. So here:
//
//   - The image that a lost write brings decides at once: who came before it was
//     read and comes too late for what it holds is refused, or goes on to another
//     shard. Who would be served by it asks again without holding back, every other
//     time.
//   - Whoever is in line at an item joins before each try, to be decided by it too;
//     and the place is handed on as soon as the caller at the front has its answer.
//   - Of a bucket with several shards, those whom a few of them turned away stand in
//     one line, in order, and newcomers behind them. Each round reads all shards and
//     debits those whom one shard can serve, shard by shard: a transaction over all
//     of them would lose to anybody who takes anything from any of them.
//
// No more is refused than before: by an image read after the caller came, that shows
// too little for it and those before it.

// isContested reports whether others spoil many writes to any of a bucket's shards.
func (a *account) isContested(now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.shards, func(s *shard) bool {
		return s != nil && s.contention.part > many && now-s.contention.wroteAt <= contentionMemory
	})
}

// isQueued reports whether other callers of the process came before for what all
// shards of a contested bucket hold.
func (l *Limiter) isQueued(c *claim) bool {
	return l.places.base > 0 && c.acct.gathers.isBusy() && c.acct.isContested(l.now())
}

// isCovered reports whether an item holds what a claim wants.
func (c *claim) isCovered(img *Image, now int64) bool {
	return !slices.ContainsFunc(c.amounts, func(a Amount) bool { return a.Milli > 0 && c.holds(img, a.Limit, now) < a.Milli })
}

// space waits before a try, so that it is likely not to be in vain: not before every
// other one that follows a write that found too little, which knows best what there is.
func (p *pursuit) space(ctx context.Context, tries int) error {
	err := p.l.pause(ctx, p.left, tries)
	if err != nil || p.lacked && tries%2 == 1 {
		return err
	}
	return p.l.holdBack(ctx, p.acct, p.c.Shard, p.left)
}

// joined are a crowd and those who have come since, if the item is contested.
func (p *pursuit) joined(ln *lane, crowd []*ticket) []*ticket {
	if p.img == nil || !p.acct.isSpaced(p.c.Shard, p.l.now()) {
		return crowd
	}
	return ln.join(crowd, p.c.alike(p.img))
}

// turnAway refuses those of a crowd for whom the item holds too little, by the image
// that a lost write to a contested one has just brought. It returns the others.
//
// One of several shards is as short as it was when the write was worked out: what it
// has earned since does not matter to those who can go to others.
func (p *pursuit) turnAway(crowd []*ticket) []*ticket {
	now := p.l.now()
	if !p.fresh || p.img == nil || p.img.Disabled || !p.acct.isSpaced(p.c.Shard, now) {
		return crowd
	}
	if p.lacked && p.img.ShardCount > 1 {
		now = p.now
	}
	return p.l.refuseRest(crowd, p.img, now)
}

// anyOf is a shard that can serve a claim alone, drawn at random so that processes
// do not all choose the same; none if there is none.
func (c *claim) anyOf(images []*Image, now int64, draw func(int64) int64) []portion {
	able := slices.DeleteFunc(slices.Clone(images), func(img *Image) bool { return !c.isCovered(img, now) })
	if len(able) == 0 {
		return nil
	}
	return []portion{{able[draw(int64(len(able)))], c.amounts}}
}

// A batch is what one of several shards is debited for part of a crowd.
type batch struct {
	p     pursuit
	crowd []*ticket
	err   error
}

// debitEach debits claims at the front of a crowd that were allotted one shard each,
// by a write for each shard. It returns those that were debited, those that were
// told of an error, and the shards as they are then, nil if nothing was debited.
func (l *Limiter) debitEach(ctx context.Context, crowd []*ticket, images []*Image, now int64) (served, failed []*ticket, after []*Image) {
	batches := make([]*batch, len(images))
	var some []*batch
	for _, t := range crowd {
		c := t.claim
		if len(c.portions) != 1 {
			break
		}
		i := slices.IndexFunc(images, func(img *Image) bool { return img.Shard == c.portions[0].image.Shard })
		if batches[i] == nil {
			batches[i] = &batch{p: pursuit{l: l, acct: c.acct, img: images[i], now: now}}
			some = append(some, batches[i])
		}
		batches[i].crowd = append(batches[i].crowd, t)
	}
	l.atOnce(len(some), func(i int) { some[i].debit(ctx) })
	after = slices.Clone(images)
	for i, b := range batches {
		switch {
		case b == nil:
		case b.p.c.granted:
			served, after[i] = append(served, b.crowd...), b.p.img
			for _, t := range b.crowd {
				t.claim.tookFrom(b.p.img)
			}
		case b.err != nil && !isTurnedAway(b.err):
			failed = append(failed, b.crowd...)
			tellAll(b.crowd, b.err)
		}
	}
	if len(served) == 0 {
		after = nil
	}
	return served, failed, after
}

// debit carries a batch out, if one write can do that.
func (b *batch) debit(ctx context.Context) {
	p, img := &b.p, b.p.img
	p.c = b.crowd[0].claim.common()
	p.c.Bucket, p.c.pressing, p.c.amounts = img.Bucket, true, sumOf(b.crowd)
	if img.Writes.whole().Balance(img.Writes.Tokens, img.RefilledAt, p.now) < writeCost {
		p.l.widenInBackground(ctx, p.acct, img.Bucket)
	}
	p.acct.testBrake(img.Shard, p.now)
	if next, refill, _ := p.plan(); next == stepTake || next == stepRefill {
		_, b.err = p.write(ctx, next, refill)
	}
}
