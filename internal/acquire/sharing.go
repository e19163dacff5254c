package acquire

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
)

// A sharing says how the callers of one process write to one bucket item: they queue in
// lanes, and one writes for all that wait. The naive way is one write for each caller. A
// partition takes 1,000 writes a second, so 64 callers of one bucket would mostly wait for
// each other's refused writes (ADR 014). It suits only a store that answers at once.
type sharing struct {
	*process.Process

	// places is the number of places for concurrent writes to one item. It is 0 if callers do not
	// queue. Then their refills do not queue either, and their writes do not pause.
	places int
}

func (s *sharing) isQueued() bool { return s.places > 0 }

// attend lets a caller wait in a lane for its turn. A caller that does not queue goes alone.
func (s *sharing) attend(ctx context.Context, ln *lane.Lane[*Claim], t *ticket, places int, left <-chan struct{}) (told lane.Turn, err error) {
	if !s.isQueued() {
		return lane.Solo, nil
	}
	if told, err = ln.Attend(ctx, t, places, left); err != nil {
		return told, outOfLine(err)
	}
	if told == lane.Done {
		s.Counts.Carried.Add(1)
		t.Claim.Carried = true
	}
	return told, nil
}

// debitInLane lets a claim wait in the lane of its item. The caller at the front writes for
// those behind it.
//
//	arrive ──▶ wait in line ──▶ lead ──▶ pause for other processes ──▶ write for all in line
//	                 ├─ done: another caller's write included the claim           │
//	                 └─ solo: the claim cannot be added up, debit it alone        └─▶ hand the place on
//
// What the caller knew when it arrived is old when it leads: those before it have written.
// So the image, the configuration and the number of places are looked up again at each step,
// and none is carried over the wait.
func (wr *writer) debitInLane(ctx context.Context, c *Claim, left <-chan struct{}) error {
	if !wr.isQueued() {
		return wr.debitAlone(ctx, c, left)
	}
	began := wr.Uptime()
	c.adopt(c.acct.Wanted())
	defer c.acct.leave()
	ln := &c.acct.enter().at(c.Shard).takes
	places := wr.placesFor(ln, c)
	t := &ticket{Claim: c}
	switch told, err := wr.attend(ctx, ln, t, places, left); {
	case err != nil: // the ticket still belongs to others
		return err
	case told == lane.Done:
		return t.Err
	case told == lane.Solo:
		return wr.debitAlone(ctx, c, left)
	}
	defer func() { ln.Leave(wr.placesFor(ln, c)) }()
	if err := wr.pauseIfShared(ctx, c, left); err != nil {
		return err
	}
	looked, err := wr.lookIfLacked(ctx, c, left)
	if err != nil {
		return err
	}
	// An image that came after the caller may refuse it, unless a write would do more than debit.
	looked = looked || wr.trust >= 0 && c.acct.SeenAt(c.Shard) >= began
	img := c.lastImage(wr.Uptime())
	if c.adopt(c.acct.Wanted()); img != nil && c.Terms.Fits(img, wr.Now()) {
		looked = looked && plan.IsPlain(img, wr.Now())
		crowd := ln.Along(t, mostShared, c.alike(img, wr.Now()))
		if len(crowd) > 1 || looked || c.acct.IsSharedShard(c.Shard, wr.Uptime()) {
			wr.debitCrowd(ctx, ln, crowd, img, looked, left)
			return t.Err
		}
	}
	err = wr.debitAlone(ctx, c, left)
	if places == 1 && c.lastImage(wr.Uptime()) == nil {
		ln.Disperse() // one after the other, they would find out no more
	}
	return err
}

// gather debits a claim from several shards at once, because the tried shards could not
// serve it, or because it exceeds any share. It ends with the claim granted, or refused
// because all shards together hold too little.
//
// The claim waits in the lane of its bucket, because gathers would only refuse each other's
// writes. The caller at the front decides for all that have come meanwhile.
func (wr *writer) gather(ctx context.Context, c *Claim, left <-chan struct{}) error {
	c.short = false
	defer c.acct.leave()
	t, ln := &ticket{Claim: c}, &c.acct.enter().gathers
	switch told, err := wr.attend(ctx, ln, t, 1, left); {
	case err != nil: // the ticket still belongs to others
		return err
	case told == lane.Solo:
		wr.gatherFor(ctx, nil, t)
	case told == lane.Lead:
		defer ln.Leave(1)
		wr.gatherFor(ctx, ln, t)
	}
	return t.Err
}

// placesFor is the number of places for writes to an item. There is one while a second
// write would know no more than the first: the item is not known, needs a repair, is shared,
// or does not hold enough for two such claims. There is one, too, while callers come in
// crowds: a write that carries them all costs no more than one that carries a few.
func (wr *writer) placesFor(ln *lane.Lane[*Claim], c *Claim) int {
	img := c.lastImage(wr.Uptime())
	if img == nil || !c.Terms.Fits(img, wr.Now()) || c.acct.IsSharedShard(c.Shard, wr.Uptime()) || ln.Crowded(wr.places) || !plan.CoversTwice(img, c.Terms.Amounts, wr.Now()) {
		return 1
	}
	return wr.places
}
