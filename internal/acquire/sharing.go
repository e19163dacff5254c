package acquire

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// alone lets every caller write for itself. It suits a store that answers at once.
type alone struct{ *Driver }

func (a alone) debit(ctx context.Context, c *Claim, left <-chan struct{}) error {
	return a.debitAlone(ctx, c, left)
}

func (a alone) gather(ctx context.Context, c *Claim, _ <-chan struct{}) error {
	t := &ticket{Claim: c}
	a.gatherCrowd(ctx, nil, t)
	return t.Err
}

func (a alone) adjust(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	return a.adjustAlone(ctx, acct, img, deltas)
}

func (alone) isQueued() bool { return false }

// queued lets callers queue in lanes and share writes.
type queued struct {
	*Driver

	places lane.Places // for concurrent writes to one item
}

// debit lets a claim wait in the lane of its item. The caller at the front writes for
// those behind it.
func (q queued) debit(ctx context.Context, c *Claim, left <-chan struct{}) error {
	img := c.acct.Image(c.Shard, q.Uptime(), memory.ImageAge)
	c.adopt(c.acct.Wanted())
	fits := img != nil && c.Terms.Fits(img)
	ps := lane.Places{Base: 1} // the first caller finds out for the others
	if fits {
		ps = q.placesFor(c, img)
	}
	ln := &c.acct.at(c.Shard).takes
	t := &ticket{Claim: c}
	switch told, err := q.attend(ctx, ln, t, ps, left); {
	case err != nil: // the ticket still belongs to others
		return err
	case told == lane.Done:
		return t.Err
	case told == lane.Solo:
		return q.debitAlone(ctx, c, left)
	}
	defer func() { ln.Leave(q.placesFor(c, c.acct.Image(c.Shard, q.Uptime(), memory.ImageAge))) }()
	if err := q.pauseIfShared(ctx, c, left); err != nil {
		return err
	}
	img = c.acct.Image(c.Shard, q.Uptime(), memory.ImageAge)
	if c.adopt(c.acct.Wanted()); img != nil && c.Terms.Fits(img) {
		crowd := ln.Along(t, mostShared, c.alike(img))
		if len(crowd) > 1 || c.acct.IsSharedShard(c.Shard, q.Uptime()) {
			q.debitCrowd(ctx, ln, crowd, img, left)
			return t.Err
		}
	}
	err := q.debitAlone(ctx, c, left)
	if ps.Base == 1 && c.acct.Image(c.Shard, q.Uptime(), memory.ImageAge) == nil {
		ln.Disperse() // one after the other, they would find out no more
	}
	return err
}

// attend lets a caller wait in a lane for its turn.
func (q queued) attend(ctx context.Context, ln *lane.Lane[*Claim], t *ticket, ps lane.Places, left <-chan struct{}) (told lane.Turn, err error) {
	told, err = ln.Attend(ctx, t, ps, left)
	if err != nil {
		return told, outOfLine(err)
	}
	if told == lane.Done {
		q.Counts.Carried.Add(1)
		t.Claim.Carried = true
	}
	return told, nil
}

// gather lets a claim wait in the lane of its bucket, because gathers would only refuse
// each other's writes. The caller at the front decides for all that have come meanwhile.
func (q queued) gather(ctx context.Context, c *Claim, left <-chan struct{}) error {
	t, ln := &ticket{Claim: c}, &c.acct.gathers
	switch told, err := q.attend(ctx, ln, t, lane.Places{Base: 1}, left); {
	case err != nil: // the ticket still belongs to others
		return err
	case told == lane.Done:
		return t.Err
	case told == lane.Solo:
		q.gatherCrowd(ctx, nil, t)
		return t.Err
	}
	defer ln.Leave(lane.Places{Base: 1})
	q.gatherCrowd(ctx, ln, t)
	return t.Err
}

// adjust settles amounts together with those of other callers.
func (q queued) adjust(ctx context.Context, acct *account, img *store.Image, deltas []store.Amount) (over []store.Amount, err error) {
	ln := &acct.at(img.Shard).credits
	t := &ticket{Claim: &Claim{Bucket: img.Bucket, Terms: plan.Terms{Amounts: deltas}}}
	switch told, err := q.attend(ctx, ln, t, lane.Places{Base: q.places.Base}, nil); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrConflict, err) // nothing was sent
	case told == lane.Done:
		return nil, t.Err
	case told == lane.Solo:
		return q.adjustAlone(ctx, acct, img, deltas)
	}
	defer ln.Leave(lane.Places{Base: q.places.Base})
	crowd := ln.Along(t, mostShared, func(other *Claim) bool { return !plan.Lacks(img, other.Terms.Amounts) })
	if len(crowd) > 1 {
		ctx = q.Detach(ctx) // the write belongs to no single caller
	}
	over, err = q.adjustAlone(ctx, acct, img, sumOf(crowd))
	if len(crowd) == 1 {
		return over, err
	}
	if err == nil {
		err = q.passOn(ctx, img, over)
	}
	tellAll(crowd, err)
	return nil, err
}

func (queued) isQueued() bool { return true }

// placesFor is the number of places for writes to an item. If the item is not known,
// there is one: the first caller finds out for the others. A long line gets extra
// places while the item has half of its hidden write limit. A shared item has one
// place: a second write would know no more than the first.
func (q queued) placesFor(c *Claim, img *store.Image) lane.Places {
	if img == nil || c.acct.IsSharedShard(c.Shard, q.Uptime()) {
		return lane.Places{Base: 1}
	}
	if plan.IsRelaxed(img, q.Now()) {
		return q.places
	}
	return lane.Places{Base: q.places.Base}
}
