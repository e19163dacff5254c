package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// gatherCrowd decides the claim of the caller at the front, and of the callers behind
// it, on all shards of their bucket.
//
// To debit one shard after the other, and to return all if the last one lacks its part,
// would show other callers tokens as taken that nobody gets, and would lose them if the
// process dies in between. So one transaction debits all shards, or none. Transactions of
// two callers refuse each other even if there is enough for both: the callers of a process
// stand in one line for the whole bucket, and the first decides for all.
//
//	this process   read 32 shards ─── debit 5 of them, if each still has its stamp and covers its part
//	another one            debit of one shard ──▶ the transaction fails: read again
//
// A first attempt uses the remembered images if there is a recent one of every shard:
// the transaction is conditional. A refusal rests on images that were read for it,
// after the last of the crowd had come.
func (d *Driver) gatherCrowd(ctx context.Context, ln *lane.Lane[*Claim], front *ticket) {
	switch rest, err := d.gatherAll(ctx, ln, front); {
	case err != nil:
		tellAll(rest, err)
	case len(rest) > 0:
		ln.Back(rest)
	}
}

// behind returns the caller at the front and, if there is a lane, the callers in it
// that may decide together with it.
func behind(ln *lane.Lane[*Claim], front *ticket) []*ticket {
	last := front.Claim.acct.Last()
	if ln == nil || last == nil || !front.Claim.Terms.Fits(last) {
		return []*ticket{front}
	}
	return ln.Along(front, mostShared, front.Claim.alike(last))
}

// gatherAll looks at the shards and decides, and repeats this while others get in
// between. It ends when the caller at the front has been told, or when a step fails.
// It returns the callers that it has not told.
//
// If the bucket is shared, each round pauses like any write to an item. It then reads
// the shards again and asks for a part of what they hold.
func (d *Driver) gatherAll(ctx context.Context, ln *lane.Lane[*Claim], front *ticket) ([]*ticket, error) {
	crowd := behind(ln, front)
	if len(crowd) > 1 {
		ctx = d.Detach(ctx) // not the context of any caller
	}
	acct, bucket := front.Claim.acct, front.Claim.Bucket
	images, recent := acct.Images(d.Uptime(), d.trust)
	read, failed := false, 0
	for tries := 0; tries < process.MaxTries; tries++ {
		shared := d.sharing.isQueued() && acct.IsShared(d.Uptime())
		err := d.paceRound(ctx, front.Claim, shared, failed)
		if err != nil {
			return crowd, err
		}
		if failed > 0 || shared || !recent {
			if images, err = d.survey(ctx, front.Claim); err != nil {
				return crowd, err
			}
			read = true
		}
		switch differ, err := d.repairIfNeeded(ctx, front.Claim, images); {
		case err != nil:
			return crowd, err
		case differ:
			recent = false
			continue
		}
		r, err := d.decide(ctx, sendOn(crowd, images), images, read, shared)
		switch {
		case err != nil && !errors.Is(err, store.ErrConflict):
			return r.rest, err
		case len(r.rest) == 0:
			return nil, nil
		case r.after == nil:
			failed++
		default:
			images, recent, read, failed, tries = r.after, !r.lost, false, 0, 0
		}
		if crowd = r.rest; crowd[0] != front {
			return crowd, nil
		}
	}
	return crowd, refusedTooOften(bucket, process.MaxTries)
}

// paceRound waits before a round. failed is how many rounds failed since the last
// success. In a shared bucket it also pauses like a writer to one item.
func (d *Driver) paceRound(ctx context.Context, c *Claim, shared bool, failed int) error {
	if failed > 1 {
		if err := d.Pause(ctx, nil, failed+process.FreeTries); err != nil {
			return err
		}
	}
	if !shared {
		return nil
	}
	return process.Sleep(ctx, nil, c.acct.BeginRound(c.Terms.Amounts, d.Uptime(), d.Rand))
}

// sendOn sends callers on by themselves if they want a limit that the bucket has lost
// since they came. The caller at the front finds that out itself.
func sendOn(crowd []*ticket, images []*store.Image) []*ticket {
	stay := crowd[:1:1]
	for _, t := range crowd[1:] {
		if slices.ContainsFunc(images, func(img *store.Image) bool { return plan.Lacks(img, t.Claim.Terms.Amounts) }) {
			t.Tell(errShardsChanged)
		} else {
			stay = append(stay, t)
		}
	}
	return stay
}

// A round is one try to decide a crowd's claims.
type round struct {
	rest  []*ticket      // callers that the round has not told
	after []*store.Image // the shards afterwards; nil if nothing was debited
	lost  bool           // the round failed to debit some claims that it tried
}

// A ballot is the outcome of one round for a crowd.
type ballot struct {
	admitted []*ticket
	left     []*store.Image // the images after the debits of those
	refused  []*ticket      // the shards together cannot serve them
	braked   []*ticket      // the shards could serve them, but for the throttled ones
	idle     []*ticket      // they named only limits that the bucket is not to have
}

// vote serves a crowd with what shards hold, first come first served: each claim from
// one shard if possible, and otherwise from several.
func vote(crowd []*ticket, images []*store.Image, held []int, now int64, draw func(int64) int64) (b ballot) {
	rest := slices.Clone(images)
	b.left = rest
	for _, t := range crowd {
		t.Claim.portions = nil
		if len(t.Claim.Terms.Amounts) == 0 {
			b.idle = append(b.idle, t)
			continue
		}
		free := unbraked(rest, held)
		parts, short := t.Claim.anyOf(free, now, draw), false
		if parts == nil {
			parts, short = t.Claim.Terms.Allot(free, now, false)
		}
		if !short {
			b.admitted = append(b.admitted, t)
			t.Claim.portions = parts
			for _, p := range parts {
				i := slices.IndexFunc(rest, func(img *store.Image) bool { return img.Shard == p.Image.Shard })
				rest[i] = plan.Debited(p.Image, p.Amounts, now)
			}
			continue
		}
		if _, short = t.Claim.Terms.Allot(rest, now, false); short {
			b.refused = append(b.refused, t)
		} else {
			b.braked = append(b.braked, t)
		}
	}
	return b
}

// unbraked returns the images of shards that may be written to.
func unbraked(images []*store.Image, held []int) []*store.Image {
	if len(held) == 0 {
		return images
	}
	return slices.DeleteFunc(slices.Clone(images), func(img *store.Image) bool { return slices.Contains(held, img.Shard) })
}

// decide serves a crowd from what the shards together hold, first come first served.
// It debits claims that one shard can serve by one write for each shard, and other
// claims in one transaction. It refuses claims that come too late for the tokens, but
// only if the images were read for this round. If the claims before them are not
// debited in the end, the refusals still hold: another client has taken the tokens.
func (d *Driver) decide(ctx context.Context, crowd []*ticket, images []*store.Image, read, shared bool) (r round, err error) {
	m := d.Moment()
	now, front := m.Now, crowd[0].Claim
	r.rest = crowd
	if err := obstacle(front.Bucket, images); err != nil {
		return r, err
	}
	b := vote(crowd, images, front.acct.Braked(m.Up), now, d.Rand)
	if len(b.refused) > 0 && !read {
		return r, nil
	}
	if shared {
		b.admitted = withinPace(b.admitted, images, now)
	}
	tried := len(b.admitted)
	var failed []*ticket
	switch {
	case tried > 0 && len(b.admitted[0].Claim.portions) == 1:
		b.admitted, failed, r.after = d.debitEach(ctx, b.admitted, images, m)
	case tried > 0:
		r.after, err = d.debitAll(ctx, front, b.admitted, images, m)
	}
	told := r.after
	if r.after == nil {
		told, b.admitted = images, nil
	}
	r.lost = len(b.admitted) < tried
	r.rest = without(crowd, slices.Concat(b.admitted, b.refused, b.braked, b.idle, failed))
	d.tellOutcomes(&b, told, now)
	return r, err
}

// tellOutcomes tells each caller of a crowd its outcome, on the shards as they are then.
func (d *Driver) tellOutcomes(b *ballot, after []*store.Image, now int64) {
	whole, left, parent := plan.WholeSet(after), plan.WholeSet(b.left), plan.CascadeOf(after[0])
	leaveBehind(b.admitted)
	for _, t := range b.admitted {
		c := t.Claim
		c.Granted, c.image, c.images, c.At, c.Parent = true, after[0], whole, now, parent
		t.Tell(nil)
	}
	for _, t := range b.refused {
		c := t.Claim
		c.Refused, c.image, c.images, c.At, c.Parent = true, b.left[0], left, now, parent
		t.Tell(nil)
	}
	for _, t := range b.idle {
		t.Claim.image, t.Claim.At, t.Claim.Parent = after[0], now, parent
		t.Tell(nil)
	}
	for _, t := range b.braked {
		t.Tell(d.countBraked(t.Claim))
	}
}

// survey reads all shards of a bucket, and first makes any that are missing, because
// a part of the shards cannot refuse a claim. Shards that disagree about their number
// count as whole, as long as they are all there.
func (d *Driver) survey(ctx context.Context, c *Claim) ([]*store.Image, error) {
	for range maxRetries {
		images, err := d.Upkeep.ReadShards(ctx, &c.acct.Account, c.Bucket)
		if err != nil || plan.IsWhole(images) || plan.AreStamped(images) {
			return images, err
		}
		if exists, err := d.Upkeep.Mend(ctx, &c.acct.Account, c.Bucket, nil); err != nil || !exists {
			return nil, cmp.Or(err, errShardsChanged)
		}
	}
	return nil, errShardsChanged // others are mending the set
}

// debitAll debits what claims were allotted, all or none. It returns all shards
// afterwards, nil if it debited nothing.
func (d *Driver) debitAll(ctx context.Context, front *Claim, crowd []*ticket, images []*store.Image, m memory.Moment) ([]*store.Image, error) {
	refills, short := d.refillsFor(front.acct, crowd, images, m)
	switch {
	case short:
		return nil, nil
	case len(refills) == 0: // amounts of 0
		return images, nil
	}
	for _, r := range refills {
		if img := r.Seen; plan.WritesLeft(img, m.Now) < plan.WriteCost {
			d.Upkeep.DoubleInBackground(ctx, &front.acct.Account, img.Bucket)
		}
		front.acct.TestBrake(r.Shard, m.Up)
	}
	of := make([]store.Bucket, len(refills))
	for i, r := range refills {
		of[i] = r.Bucket
	}
	after := func(i int) *store.Image { return plan.AfterRefill(refills[i]) }
	joint, err := d.SendJoint(ctx, &front.acct.Account, of, after, m, func(ctx context.Context) (store.Joint, error) { return d.Store.Gather(ctx, refills) })
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
	d.Counts.Gathered.Add(1)
	all := slices.Clone(images)
	for n, r := range refills {
		front.acct.EaseBrake(r.Shard)
		i := slices.Index(images, r.Seen)
		all[i] = after(n)
		front.acct.Remember(all[i], m)
		for _, t := range crowd {
			t.Claim.tookFrom(all[i])
		}
	}
	return all, nil
}

// refillsFor returns the writes that debit what claims were allotted. short says that
// one of the shards holds less than that.
func (d *Driver) refillsFor(acct *account, crowd []*ticket, images []*store.Image, m memory.Moment) (refills []*store.Refill, short bool) {
	for _, img := range images {
		part := plan.Debit{Bucket: img.Bucket, Pressing: true, Amounts: allotted(crowd, img.Shard)}
		if len(part.Amounts) == 0 {
			continue
		}
		part.Stamp = acct.StampRule(img.Shard, m.Up, d.Rand)
		r := part.RefillAtStamp(img, m.Now)
		if r == nil {
			if r, _, short = part.Refill(img, m.Now, d.Multiplier); short {
				return nil, true
			}
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
