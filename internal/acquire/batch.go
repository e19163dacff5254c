package acquire

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// anyOf returns a shard that can serve a claim alone, or nil if there is none. It
// draws at random so that processes do not all choose the same shard.
func (c *Claim) anyOf(images []*store.Image, now int64, draw func(int64) int64) []plan.Portion {
	able := slices.DeleteFunc(slices.Clone(images), func(img *store.Image) bool { return !c.Terms.Covers(img, now) })
	if len(able) == 0 {
		return nil
	}
	return []plan.Portion{{Image: able[draw(int64(len(able)))], Amounts: c.Terms.Amounts}}
}

// withinPace returns the front of a crowd, as far as its sum is at most 1/leastPart of
// the tokens that all shards hold. Other processes then find the rest. The first
// caller is always included.
func withinPace(crowd []*ticket, images []*store.Image, now int64) []*ticket {
	var asked []store.Amount
	for n, t := range crowd {
		asked = addTo(asked, t.Claim.Terms.Amounts)
		if n > 0 && slices.ContainsFunc(asked, func(a store.Amount) bool {
			var held int64
			for _, img := range images {
				held += t.Claim.Terms.Holds(img, a.Limit, now)
			}
			return a.Milli > held/memory.LeastPart
		}) {
			return crowd[:n]
		}
	}
	return crowd
}

// A batch is the part of a crowd that one of several shards serves in a round.
type batch struct {
	p     pursuit
	crowd []*ticket
	err   error
}

// debitEach debits the claims at the front of a crowd that were allotted one shard
// each, with one write for each shard. It returns the claims that it debited, the
// claims that it told an error, and the shards afterwards, nil if it debited nothing.
func (d *Driver) debitEach(ctx context.Context, crowd []*ticket, images []*store.Image, m memory.Moment) (served, failed []*ticket, after []*store.Image) {
	batches := make([]*batch, len(images))
	var some []*batch
	for _, t := range crowd {
		c := t.Claim
		if len(c.portions) != 1 {
			break
		}
		i := slices.IndexFunc(images, func(img *store.Image) bool { return img.Shard == c.portions[0].Image.Shard })
		if batches[i] == nil {
			batches[i] = &batch{p: pursuit{d: d, acct: c.acct, img: images[i], Moment: m}}
			some = append(some, batches[i])
		}
		batches[i].crowd = append(batches[i].crowd, t)
	}
	d.AtOnce(len(some), func(i int) { some[i].debit(ctx) })
	after = slices.Clone(images)
	for i, b := range batches {
		switch {
		case b == nil:
		case b.p.c.Granted:
			served, after[i] = append(served, b.crowd...), b.p.img
			for _, t := range b.crowd {
				t.Claim.tookFrom(b.p.img)
			}
		case b.err != nil && !process.IsTurnedAway(b.err):
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
	p.c = b.crowd[0].Claim.common()
	p.c.Bucket, p.pressing, p.c.Terms.Amounts = img.Bucket, true, sumOf(b.crowd)
	if plan.WritesLeft(img, p.Now) < plan.WriteCost {
		p.d.Upkeep.DoubleInBackground(ctx, &p.acct.Account, img.Bucket)
	}
	p.acct.TestBrake(img.Shard, p.Up)
	if next := p.plan(); next.Kind == plan.Take || next.Kind == plan.Refill {
		_, b.err = p.write(ctx, next)
	}
}
