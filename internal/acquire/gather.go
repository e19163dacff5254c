package acquire

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A gathering decides the claims of callers on all shards of their bucket, for the caller at
// the front and those behind it in line.
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
// after the last of the callers had come.
//
// Invariant: callers are those that were not told yet, in the order of their arrival. A round
// refuses one only if read is set.
type gathering struct {
	wr      *writer
	front   *ticket
	callers []*ticket
	images  []*store.Image // all shards, as last seen
	read    bool           // images were read from the store, and nothing was debited since
	shared  bool           // other processes write to the bucket, too
	insists bool           // the last round debited nothing
}

// gatherFor decides for the caller at the front and, if there is a lane, for callers in it.
func (wr *writer) gatherFor(ctx context.Context, ln *lane.Lane[*Claim], front *ticket) {
	g := gathering{wr: wr, front: front, callers: behind(ln, front, wr.Now())}
	switch err := g.run(ctx); {
	case err != nil:
		tellAll(g.callers, err)
	case len(g.callers) > 0:
		ln.Back(g.callers)
	}
}

// behind returns the caller at the front and, if there is a lane, the callers in it
// that may decide together with it at an instant.
func behind(ln *lane.Lane[*Claim], front *ticket, now int64) []*ticket {
	last := front.Claim.acct.Last()
	if ln == nil || last == nil || !front.Claim.Terms.Fits(last, now) {
		return []*ticket{front}
	}
	return ln.Along(front, mostShared, front.Claim.alike(last, now))
}

// run looks at the shards and decides, and repeats this while others get in
// between. It ends when the caller at the front has been told, or when a step fails.
//
// If the bucket is shared, each round pauses like any write to an item. It then reads
// the shards again and asks for a part of what they hold.
func (g *gathering) run(ctx context.Context) error {
	wr, c := g.wr, g.front.Claim
	if len(g.callers) > 1 {
		ctx = wr.Detach(ctx) // not the context of any caller
	}
	var recent bool // the images need not be read before they are used
	g.images, recent = c.acct.Images(wr.Uptime(), wr.trust)
	failed := 0 // rounds since the last one that debited something
	for tries := 0; tries < process.MaxTries; tries++ {
		g.insists = failed > 0
		g.shared = wr.isQueued() && c.acct.IsShared(wr.Uptime())
		err := g.pause(ctx, failed)
		if err != nil {
			return err
		}
		if failed > 0 || g.shared || !recent {
			if g.images, err = g.survey(ctx); err != nil {
				return err
			}
			g.read = true
		}
		switch differ, err := wr.repairIfNeeded(ctx, c, g.images); {
		case err != nil:
			return err
		case differ:
			recent = false
			continue
		}
		g.sendOn()
		after, all, err := g.decide(ctx)
		switch {
		case err != nil && !errors.Is(err, store.ErrConflict):
			return err
		case len(g.callers) == 0:
			return nil
		case after == nil:
			failed++
		default:
			g.images, g.read, recent, failed, tries = after, false, all, 0, 0
		}
		if g.callers[0] != g.front {
			return nil
		}
	}
	return refusedTooOften(c.Bucket, process.MaxTries)
}

// pause waits before a round. failed is how many rounds failed since the last
// success. In a shared bucket it also pauses like a writer to one item.
func (g *gathering) pause(ctx context.Context, failed int) error {
	wr, c := g.wr, g.front.Claim
	if failed > 1 {
		if err := wr.Pause(ctx, nil, failed+process.FreeTries); err != nil {
			return err
		}
	}
	if !g.shared {
		return nil
	}
	return process.Sleep(ctx, nil, c.acct.BeginRound(c.Terms.Amounts, wr.Uptime(), wr.Rand))
}

// sendOn sends callers on by themselves if they want a limit that the bucket has lost
// since they came. The caller at the front finds that out itself.
func (g *gathering) sendOn() {
	stay := g.callers[:1:1]
	for _, t := range g.callers[1:] {
		if slices.ContainsFunc(g.images, func(img *store.Image) bool { return plan.Lacks(img, t.Claim.Terms.Amounts) }) {
			t.Tell(errShardsChanged)
		} else {
			stay = append(stay, t)
		}
	}
	g.callers = stay
}

// survey reads all shards of a bucket, and first makes any that are missing, because
// a part of the shards cannot refuse a claim. Shards that disagree about their number
// count as whole, as long as they are all there.
func (g *gathering) survey(ctx context.Context) ([]*store.Image, error) {
	wr, c := g.wr, g.front.Claim
	for range maxRetries {
		images, err := wr.upkeep.ReadShards(ctx, &c.acct.Account, c.Bucket)
		if err != nil || plan.IsWhole(images) || plan.AreStamped(images) {
			return images, err
		}
		if exists, err := wr.upkeep.Mend(ctx, &c.acct.Account, c.Bucket, nil); err != nil || !exists {
			return nil, cmp.Or(err, errShardsChanged)
		}
	}
	return nil, errShardsChanged // others are mending the set
}
