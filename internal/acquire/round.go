package acquire

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A round is one try to decide the claims of callers on all shards.
type round struct {
	admitted []*ticket
	left     []*store.Image // the shards after the debits of those
	refused  []*ticket      // the shards together cannot serve them
	braked   []*ticket      // the shards could serve them, but for the throttled ones
	idle     []*ticket      // they named only limits that the bucket is not to have
}

// allot divides what shards hold among callers, first come first served: each claim from
// one shard if possible, and otherwise from several. What they ask for may begin a session.
func allot(callers []*ticket, images []*store.Image, held []int, now int64, draw func(int64) int64) (r round) {
	r.left = slices.Clone(plan.Together(images, sumOf(callers), now))
	for _, t := range callers {
		c := t.Claim
		c.portions, c.landed, c.counted, c.entry = nil, nil, plan.Counted{}, nil
		if len(c.Terms.Amounts) == 0 {
			r.idle = append(r.idle, t)
			continue
		}
		free := unbraked(r.left, held)
		parts, short := c.anyOf(free, now, draw), false
		if parts == nil {
			parts, short = c.Terms.Allot(free, now, false)
		}
		if !short {
			r.admitted = append(r.admitted, t)
			c.portions = parts
			for _, p := range parts {
				i := slices.IndexFunc(r.left, func(img *store.Image) bool { return img.Shard == p.Image.Shard })
				r.left[i] = plan.Debited(p.Image, p.Amounts, now)
			}
			continue
		}
		if _, short = c.Terms.Allot(r.left, now, false); short {
			r.refused = append(r.refused, t)
		} else {
			r.braked = append(r.braked, t)
		}
	}
	if len(r.admitted) == 0 {
		r.left = images // no session begins
	}
	return r
}

// decide makes one round. It serves callers from what the shards together hold, first come
// first served. It debits claims that one shard can serve by one write for each shard, and
// other claims in one transaction. It refuses claims that come too late for the tokens, but
// only if the images were read for this round. If the claims before them are not
// debited in the end, the refusals still hold: another client has taken the tokens.
//
// after are the shards then, nil if nothing was debited. all says that no debit failed.
func (g *gathering) decide(ctx context.Context) (after []*store.Image, all bool, err error) {
	wr, m := g.wr, g.wr.Moment()
	if err := obstacle(g.front.Claim.Bucket, g.images); err != nil {
		return nil, false, err
	}
	r := allot(g.callers, g.images, g.front.Claim.acct.Braked(m.Up), m.Now, wr.Rand)
	if len(r.refused) > 0 && !g.read {
		return nil, false, nil
	}
	if g.shared {
		r.admitted = withinPace(r.admitted, g.images, m.Now)
	}
	tried := len(r.admitted)
	begins := plan.BeginningOf(g.images, sumOf(r.admitted), m.Now)
	var failed []*ticket
	switch {
	case tried > 0 && len(begins.Limits) == 0 && len(r.admitted[0].Claim.portions) == 1:
		r.admitted, failed, after = g.debitEach(ctx, r.admitted, m)
	case tried > 0:
		after, err = g.debitAll(ctx, r.admitted, begins, m)
	}
	told := after
	if after == nil {
		told, r.admitted = g.images, nil
	}
	g.callers = without(g.callers, slices.Concat(r.admitted, r.refused, r.braked, r.idle, failed))
	r.tell(wr, told, m.Now)
	return after, len(r.admitted) == tried, err
}

// tell tells each caller its outcome, on the shards as they are then.
func (r *round) tell(wr *writer, after []*store.Image, now int64) {
	leaveBehind(r.admitted, plan.Counted{})
	end := func(tickets []*ticket, on, all []*store.Image, o Outcome) {
		for _, t := range tickets {
			c := t.Claim
			c.Granted, c.Refused = o.Granted, o.Refused
			c.image, c.images, c.At, c.Parent = on[0], all, now, plan.CascadeOf(after[0])
			t.Tell(nil)
		}
	}
	end(r.admitted, after, plan.WholeSet(after), Outcome{Granted: true})
	end(r.refused, r.left, plan.WholeSet(r.left), Outcome{Refused: true})
	end(r.idle, after, nil, Outcome{})
	for _, t := range r.braked {
		t.Tell(wr.countBraked(t.Claim))
	}
}

// unbraked returns the images of shards that may be written to.
func unbraked(images []*store.Image, held []int) []*store.Image {
	if len(held) == 0 {
		return images
	}
	return slices.DeleteFunc(slices.Clone(images), func(img *store.Image) bool { return slices.Contains(held, img.Shard) })
}

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
			return a.Milli > held/memory.LeastPart && !plan.IsSoft(images[0], a.Limit)
		}) {
			return crowd[:n]
		}
	}
	return crowd
}

// debitEach debits the claims at the front that were allotted one shard each, with one write
// for each shard. It returns the claims that it debited, the claims that it told an error,
// and the shards afterwards, nil if it debited nothing.
func (g *gathering) debitEach(ctx context.Context, admitted []*ticket, m memory.Moment) (served, failed []*ticket, after []*store.Image) {
	if n := slices.IndexFunc(admitted, func(t *ticket) bool { return len(t.Claim.portions) != 1 }); n >= 0 {
		admitted = admitted[:n]
	}
	var crowds []*crowd
	for _, img := range g.images {
		callers := slices.DeleteFunc(slices.Clone(admitted), func(t *ticket) bool { return t.Claim.portions[0].Image.Shard != img.Shard })
		if len(callers) > 0 {
			p := pursuit{wr: g.wr, c: callers[0].Claim.common(), img: img, sight: remembered, pressing: true, begins: &plan.Beginning{}, Moment: m}
			crowds = append(crowds, &crowd{p: p, callers: callers})
		}
	}
	errs := make([]error, len(crowds))
	g.wr.AtOnce(len(crowds), func(i int) { errs[i] = crowds[i].debitOnce(ctx) })
	after = slices.Clone(g.images)
	for i, cr := range crowds {
		switch {
		case cr.p.c.Granted:
			served = append(served, cr.callers...)
			after[slices.IndexFunc(after, func(img *store.Image) bool { return img.Shard == cr.p.img.Shard })] = cr.p.img
			for _, t := range cr.callers {
				t.Claim.tookFrom(cr.p.img)
				t.Claim.counted, t.Claim.entry = cr.p.c.counted, cr.p.c.entry
				t.Claim.countOn(cr.p.img.Shard, cr.p.c.counted)
			}
		case errs[i] != nil && !process.IsTurnedAway(errs[i]):
			failed = append(failed, cr.callers...)
			tellAll(cr.callers, errs[i])
		}
	}
	if len(served) == 0 {
		after = nil
	}
	return served, failed, after
}

// debitOnce debits the claims of a crowd from their shard, if one write can do that.
func (cr *crowd) debitOnce(ctx context.Context) error {
	p := &cr.p
	p.c.Bucket, p.c.Terms.Amounts = p.img.Bucket, sumOf(cr.callers)
	if plan.WritesLeft(p.img, p.Now) < plan.WriteCost {
		p.wr.upkeep.DoubleInBackground(ctx, &p.c.acct.Account, p.img.Bucket)
	}
	p.c.acct.TestBrake(p.img.Shard, p.Up)
	next := p.plan()
	if next.Kind != plan.Take && next.Kind != plan.Refill {
		return nil
	}
	_, err := p.write(ctx, next)
	return err
}

// debitAll debits what claims were allotted, and begins sessions, all or none. It returns all
// shards afterwards, nil if it debited nothing.
func (g *gathering) debitAll(ctx context.Context, admitted []*ticket, begins *plan.Beginning, m memory.Moment) ([]*store.Image, error) {
	wr, front := g.wr, g.front.Claim
	refills, short := g.refillsFor(admitted, begins, m)
	switch {
	case short:
		return nil, nil
	case len(refills) == 0: // amounts of 0
		return g.images, nil
	}
	for _, r := range refills {
		if img := r.Seen; plan.WritesLeft(img, m.Now) < plan.WriteCost {
			wr.upkeep.DoubleInBackground(ctx, &front.acct.Account, img.Bucket)
		}
		front.acct.TestBrake(r.Shard, m.Up)
	}
	of := make([]store.Bucket, len(refills))
	for i, r := range refills {
		of[i] = r.Bucket
	}
	after := func(i int) *store.Image { return plan.AfterRefill(refills[i]) }
	joint, err := wr.SendJoint(ctx, &front.acct.Account, of, after, m, func(ctx context.Context) (store.Joint, error) { return wr.Store.Gather(ctx, refills) })
	if err != nil {
		return nil, fmt.Errorf("debit shards of %s of %s: %w", front.Resource, front.Entity, err)
	}
	for i, refusal := range joint.Refusals {
		switch {
		case refusal.Image != nil:
			front.acct.Remember(refusal.Image, m)
		case refusal.Refused:
			front.acct.Forget(refills[i].Shard)
		}
	}
	if !joint.Applied {
		return nil, nil
	}
	wr.Counts.Gathered.Add(1)
	for _, t := range admitted {
		if len(t.Claim.Terms.Returns(t.Claim.counted)) > 0 {
			wr.Ledger.Unreserved.Add(1)
		}
	}
	all := slices.Clone(g.images)
	for n, r := range refills {
		front.acct.EaseBrake(r.Shard)
		i := slices.Index(g.images, r.Seen)
		all[i] = after(n)
		front.acct.Remember(all[i], m)
		for _, t := range admitted {
			t.Claim.tookFrom(all[i])
		}
	}
	return all, nil
}

// refillsFor returns the writes that debit what claims were allotted. A session begins on
// every shard. short says that one of the shards holds less than it is to be debited.
func (g *gathering) refillsFor(admitted []*ticket, begins *plan.Beginning, m memory.Moment) (refills []*store.Refill, short bool) {
	for _, img := range g.images {
		part := plan.Debit{
			Bucket: img.Bucket, Pressing: true, Stamps: true, Amounts: allotted(admitted, img.Shard),
			Bypass: g.front.Claim.Terms.BypassStamp(m.Now), Begins: begins,
		}
		if len(part.Amounts) == 0 && len(begins.Limits) == 0 {
			continue
		}
		part.Stamp = g.front.Claim.acct.StampRule(img.Shard, m.Up, g.wr.Rand)
		r := part.RefillAtStamp(img, m.Now)
		if g.insists {
			r = cmp.Or(part.Loosely(img, m.Now, g.wr.Multiplier), r)
		}
		if r == nil {
			if r, _, short = part.Refill(img, m.Now, g.wr.Multiplier); short {
				return nil, true
			}
		}
		counted := plan.CountedBy(r)
		for _, t := range admitted {
			t.Claim.countOn(img.Shard, counted)
		}
		refills = append(refills, r)
	}
	return refills, false
}

// allotted returns the amounts that claims together take from a shard, by limit name.
func allotted(crowd []*ticket, shard int) []store.Amount {
	var sum []store.Amount
	for _, t := range crowd {
		for _, p := range t.Claim.portions {
			if p.Image.Shard == shard {
				sum = addTo(sum, p.Amounts)
			}
		}
	}
	return sum
}
