package acquire

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// The methods below are what a writer does because other processes write to the same item
// (ADR 017, ADR 035).
//
// The naive writer sends its next write as soon as it has callers. Each of two processes then
// works out its write from an image that the other has just changed, so many writes are
// refused. Where little is left, most are:
//
//	process A   write −1 ── applied ── write −1 ── refused ── write −1 ── refused ── …
//	process B     write −1 ── refused ── write −1 ── refused ── write −1 ── applied ── …
//
// A writer that knows of others waits instead: for its turn, at which the bucket has earned
// what it took last. Callers that come meanwhile share the next write. How long to wait is
// decided by [memory.Account.PauseLeft], from the item only. It does not depend on how often
// this process was refused: one that lost once would then lose more each time.

// pauseIfShared waits until the pause before a write has passed, or until the caller leaves.
// A caller that joins the line meanwhile may have less time than the one at the front. The
// pause then ends while half of that caller's time is left.
func (wr *writer) pauseIfShared(ctx context.Context, c *Claim, left <-chan struct{}) error {
	const look = 20 * time.Millisecond // between looks at the line
	if !wr.isQueued() {
		return nil
	}
	by, up := c.by, wr.Uptime()
	end := up + c.acct.PauseLeft(c.Shard, c.Terms.Amounts, up, by)
	if up >= end {
		return nil
	}
	defer c.acct.leave()
	takes := &c.acct.enter().at(c.Shard).takes
	for ; up < end; up = wr.Uptime() {
		if err := process.Sleep(ctx, left, min(end-up, look)); err != nil {
			return err
		}
		for other := range takes.Line() {
			if other.by < by {
				by = other.by
				end = min(end, up+(by-up)/2)
			}
		}
	}
	return nil
}

// lookIfLacked reads an item before it is written to, if others write to it and it lacked
// what the claim asks for. A read costs a tenth of a refused write. Processes that wait for
// the same instant look at different times.
func (wr *writer) lookIfLacked(ctx context.Context, c *Claim, left <-chan struct{}) (looked bool, err error) {
	spread, lacked := c.acct.Lacked(c.Shard, c.Terms.Amounts, wr.Moment())
	if !lacked {
		return false, nil
	}
	if spread = min(spread, (c.by-wr.Uptime())/2); spread > 0 { // there is time for the write, too
		if err := process.Sleep(ctx, left, time.Duration(wr.Rand(int64(spread)))); err != nil {
			return false, err
		}
	}
	m, b := wr.Moment(), c.Bucket
	loaded, err := wr.Store.Load(ctx, &store.Load{Bucket: &b})
	if err != nil || loaded.Image == nil {
		return false, nil //nolint:nilerr // the write finds out why
	}
	c.acct.Remember(loaded.Image, m)
	return true, nil
}

// waitForTurns returns those of a crowd who may wait for later turns of this process, behind a
// number of others: they are as many as there is room for, and have the time for one more
// turn and for what it takes ahead. Others would make the process write before its turn.
func (wr *writer) waitForTurns(crowd []*ticket, img *store.Image, behind int, now int64) []*ticket {
	if len(crowd) == 0 {
		return nil
	}
	acct, up := crowd[0].Claim.acct, wr.Uptime()
	turnAt, room := acct.NextTurn()
	crowd = slices.DeleteFunc(crowd, func(t *ticket) bool { return t.Claim.by-up < 2*(turnAt-up) })
	ahead := acct.Ahead(up, up+memory.LongestAhead).Milliseconds()
	if ahead == 0 || behind >= room {
		return nil
	}
	later := plan.Admit(crowd, amounts, img, plan.Pace{Part: 1, Ahead: ahead, Turn: ahead}, now)
	return later[:min(len(later), room-behind)]
}

// lose notes that other processes took what this one asked for. A process of which others
// may not know tells them of itself: it writes an empty debit, which is applied whatever
// the balances are. Otherwise a process that happens to take all tokens would know of none,
// and go on to be the first.
func (wr *writer) lose(ctx context.Context, acct *account, img *store.Image) {
	if !acct.Lost(img.Shard, wr.Uptime()) {
		return
	}
	wr.InBackground(func() {
		m := wr.Moment()
		take := (&plan.Debit{Bucket: img.Bucket}).Take(img, m.Now)
		_, _ = wr.Send(wr.Detach(ctx), &acct.Account, img.Bucket, memory.StampUse{}, m, func(ctx context.Context) (store.Outcome, error) { return wr.Store.Take(ctx, take) })
	})
}
