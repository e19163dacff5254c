package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A ticket is one caller's position in a lane of claims on a bucket.
type ticket = lane.Ticket[*Claim]

// mostShared is the most that the claims of one write may sum to, in millitokens: an
// amount that one caller could request.
const mostShared = store.MaxTokens * store.Milli

// Size is the sum of a claim's amounts, for the lane. Anything above mostShared counts
// as one more than that.
func (c *Claim) Size() (sum int64) {
	for _, a := range c.Terms.Amounts {
		sum = min(sum+max(a.Milli, -a.Milli), mostShared+1)
	}
	return sum
}

// outOfLine is the error of a caller whose time was up before its turn, or who left.
func outOfLine(err error) error {
	if errors.Is(err, calls.ErrLeft) {
		return err
	}
	return fmt.Errorf("waiting for other writes to the bucket: %w: %w", store.ErrUnavailable, err)
}

// debitCrowd carries out the claims of a crowd against one bucket item. One write
// serves all callers that the item can serve by its image, in the order of their
// arrival. Before each further try, callers that have arrived meanwhile join. Once the
// caller at the front has its answer, the place is handed on.
//
// The remaining callers are decided again on the image that the write brought. So no
// caller is refused because of another one that was not admitted in the end, or because
// of an old image. This does not hold if the item is shared, or is one of several
// shards.
//
// If a step is more than a debit, for example creating the item again, one caller does
// it alone. The others return to the line. The write has a time limit of its own,
// because the front caller has waited longest and has the least time left.
//
// looked says that the image came after the caller at the front.
func (d *Driver) debitCrowd(ctx context.Context, ln *lane.Lane[*Claim], crowd []*ticket, img *store.Image, looked bool, left <-chan struct{}) {
	shared := d.Detach(ctx)
	front, acct := crowd[0], crowd[0].Claim.acct
	p := pursuit{d: d, acct: acct, img: img, fresh: looked, left: left, c: front.Claim.common()}
	p.met, p.began = acct.SeenAt(front.Claim.Shard), d.Uptime()
	err, tries := error(nil), 0
	for ; tries < process.MaxTries && (err == nil || errors.Is(err, store.ErrConflict) && p.mayInsist(tries)); tries++ {
		if tries > 0 {
			if crowd, err = p.rejoin(ctx, ln, crowd, tries); err != nil {
				break
			}
		}
		if len(crowd) > 1 {
			ctx, p.left = shared, nil //nolint:fatcontext // always the same one
		}
		var served bool
		switch crowd, served, err = p.serve(ctx, front, crowd); {
		case len(crowd) == 0:
			return
		case served:
			tries, p.began = 0, d.Uptime()
		}
		if crowd[0] != front && err == nil {
			ln.Back(crowd)
			return
		}
	}
	if err == nil || errors.Is(err, store.ErrConflict) {
		err = refusedTooOften(p.c.Bucket, tries)
	}
	tellAll(crowd, err)
}

// rejoin waits before another try, and takes along the callers that have arrived meanwhile.
func (p *pursuit) rejoin(ctx context.Context, ln *lane.Lane[*Claim], crowd []*ticket, tries int) ([]*ticket, error) {
	if err := p.pauseBeforeTry(ctx, crowd[0].Claim, tries); err != nil {
		ln.Back(crowd[1:]) // they may have come later
		return crowd[:1], err
	}
	if p.img == nil {
		return crowd, nil
	}
	return ln.Join(crowd, mostShared, p.c.alike(p.img)), nil
}

// serve makes one try to serve a crowd, possibly after refused ones. It returns the
// callers without an answer, and whether it served others.
func (p *pursuit) serve(ctx context.Context, front *ticket, crowd []*ticket) (rest []*ticket, served bool, err error) {
	p.catchUp()
	if p.fresh && p.img != nil {
		if crowd = p.d.refuseRest(ctx, crowd, p.img, p.Now); len(crowd) == 0 {
			return nil, false, nil
		}
	}
	admitted := p.pick(crowd)
	switch {
	case len(admitted) == 0 && p.c.Terms.Target.Differs(p.img):
		p.d.regroup(ctx, front, crowd, p.left)
		return nil, false, nil
	case len(admitted) == 0:
		refuse(crowd, p.img, p.Now)
		return nil, false, nil
	}
	p.c.Terms.Amounts, p.c.Granted = sumOf(admitted), false
	more, err := p.carry(ctx)
	switch {
	case more:
		p.d.regroup(ctx, front, crowd, p.left)
		return nil, false, nil
	case !p.c.Granted:
		return p.turnAway(ctx, crowd), false, err
	}
	crowd = without(crowd, admitted) // their claims no longer belong to this goroutine
	p.acct.at(p.c.Shard).takes.Expect(len(admitted))
	p.acct.TookTurn(p.img, amounts(admitted[0]), p.Up, p.c.until, p.d.Rand)
	grant(admitted, p.img, p.Moment, p.ahead())
	return p.d.refuseRest(ctx, crowd, p.img, p.d.Now()), true, nil
}

// turnAway refuses the callers of a crowd for whom the item holds too little, by the
// image that a refused write has just brought. It returns the others.
//
// For one of several shards, it uses the instant at which the write was worked out.
// Tokens that the shard has earned since do not matter to callers that can go to other
// shards.
func (p *pursuit) turnAway(ctx context.Context, crowd []*ticket) []*ticket {
	if !p.fresh || p.img == nil || p.img.Disabled {
		return crowd
	}
	now := p.d.Now()
	if p.lacked && p.img.ShardCount > 1 {
		now = p.Now
	}
	return p.d.refuseRest(ctx, crowd, p.img, now)
}

// pick chooses the callers of a crowd to write for: those that the item can serve, or
// all if the image cannot tell. For a shared item, it chooses as many as the pace
// allows, or the first one.
func (p *pursuit) pick(crowd []*ticket) []*ticket {
	p.by = slices.MinFunc(crowd, func(a, b *ticket) int { return cmp.Compare(a.Claim.by, b.Claim.by) }).Claim.by
	m := p.acct.Pace(p.c.Shard, p.Up, p.by)
	if admitted := plan.Admit(crowd, amounts, p.likely(), m, p.Now); len(admitted) > 0 {
		return admitted
	}
	if m.Part > 1 && !p.fresh {
		return crowd[:1]
	}
	if !p.fresh || p.img == nil || !p.img.IsEvaluable() || p.img.Disabled {
		return crowd
	}
	return nil
}

// carry takes the next step of a crowd's claim. more says that the step is one that a
// crowd cannot take.
func (p *pursuit) carry(ctx context.Context) (more bool, err error) {
	next := p.plan()
	switch next.Kind {
	case plan.Take, plan.Refill:
		_, err = p.write(ctx, next)
	case plan.Wait:
		err = p.d.doubleOrWait(ctx, &p.acct.Account, p.img, next.Wait, nil)
	case plan.Disabled:
		err = p.disabled()
	case plan.Unsupported:
		err = unsupported(p.c.Bucket, p.img.Features)
	default:
		more = true
	}
	return more, err
}

// regroup returns a crowd to the line. If the front caller is still one of them, it
// goes alone and finds out for the others.
func (d *Driver) regroup(ctx context.Context, front *ticket, crowd []*ticket, left <-chan struct{}) {
	ln := &front.Claim.acct.at(front.Claim.Shard).takes
	if crowd[0] != front {
		ln.Back(crowd)
		return
	}
	ln.Back(crowd[1:])
	front.Err = d.debitAlone(ctx, front.Claim, left)
}

// without returns the callers of a crowd that are not among others.
func without(crowd, others []*ticket) []*ticket {
	return slices.DeleteFunc(slices.Clone(crowd), func(t *ticket) bool { return slices.Contains(others, t) })
}

// amounts is what a caller asks for.
func amounts(t *ticket) []store.Amount { return t.Claim.Terms.Amounts }

// grant tells a crowd that one write has debited their amounts.
func grant(crowd []*ticket, img *store.Image, m memory.Moment, ahead int64) {
	leaveBehind(crowd)
	for _, t := range crowd {
		c := t.Claim
		c.Granted, c.image, c.Parent = true, img, plan.CascadeOf(img)
		c.earned(img, m, ahead)
		t.Tell(nil)
	}
}

// leaveBehind gives each caller of a crowd the amounts of those behind it. So each
// caller sees the bucket as it was after the callers before it.
func leaveBehind(crowd []*ticket) {
	if len(crowd) < 2 {
		return
	}
	behind := sumOf(crowd)
	for i := range behind {
		behind[i].Milli = 0
	}
	for _, t := range slices.Backward(crowd) {
		for _, a := range t.Claim.Terms.Amounts {
			for i := range behind {
				if behind[i].Limit == a.Limit {
					t.Claim.Behind = append(t.Claim.Behind, behind[i].Milli)
					behind[i].Milli += a.Milli
				}
			}
		}
	}
}

// refuseRest refuses the callers of a crowd that come too late for what a just seen
// item holds, and returns the others. It does so at once: limits earn all the time, so
// a caller that waited in line for that would be neither served nor refused. If a write
// for the others is refused, another process has taken the tokens. Where processes take
// turns, some more callers stay for later ones.
func (d *Driver) refuseRest(ctx context.Context, crowd []*ticket, img *store.Image, now int64) []*ticket {
	if len(crowd) == 0 || !img.IsEvaluable() || crowd[0].Claim.Terms.Target.Differs(img) {
		return crowd
	}
	acct := crowd[0].Claim.acct
	served := plan.Admit(crowd, amounts, img, plan.Pace{Part: 1}, now)
	served = append(served, d.waitForTurns(without(crowd, served), plan.Debited(img, sumOf(served), now), len(served), now)...)
	if len(served) == 0 {
		d.lose(ctx, acct, img)
	}
	// The tokens that could serve one of these go to the callers that are served.
	refuse(without(crowd, served), plan.Debited(img, sumOf(served), now), now)
	return served
}

// waitForTurns returns those of a crowd who may wait for later turns of this process, behind a
// number of others: they are as many as there is room for, and have the time for one more
// turn and for what it takes ahead. Others would make the process write before its turn.
func (d *Driver) waitForTurns(crowd []*ticket, img *store.Image, behind int, now int64) []*ticket {
	if len(crowd) == 0 {
		return nil
	}
	acct, up := crowd[0].Claim.acct, d.Uptime()
	turnAt, room := acct.NextTurn(img.Shard)
	crowd = slices.DeleteFunc(crowd, func(t *ticket) bool { return t.Claim.by-up < 2*(turnAt-up) })
	ahead := acct.Ahead(up, up+memory.LongestAhead).Milliseconds()
	if ahead == 0 || behind >= room {
		return nil
	}
	later := plan.Admit(crowd, amounts, img, plan.Pace{Part: 1, Ahead: ahead, Turn: ahead}, now)
	return later[:min(len(later), room-behind)]
}

// refuse tells a crowd that an item can serve none of them.
func refuse(crowd []*ticket, img *store.Image, now int64) {
	for _, t := range crowd {
		t.Claim.refusedBy(img, now)
		t.Tell(nil)
	}
}

func tellAll(crowd []*ticket, err error) {
	for _, t := range crowd {
		t.Tell(err)
	}
}

// alike returns a filter for the claims of one bucket that can be added up with c, on
// an item as it is. The filter makes them adopt the configuration of c.
func (c *Claim) alike(img *store.Image) func(*Claim) bool {
	return func(other *Claim) bool {
		other.adopt(c.Terms.Configured)
		return other.Terms.Fits(img)
	}
}

// common returns a claim that stands for all claims that can be added up with c.
func (c *Claim) common() *Claim {
	return &Claim{Bucket: c.Bucket, acct: c.acct, Terms: plan.Terms{Configured: c.Terms.Configured, Target: c.Terms.Target}}
}

// sumOf is the sum of a crowd's amounts, by limit name.
func sumOf(crowd []*ticket) []store.Amount {
	if len(crowd) == 1 {
		return crowd[0].Claim.Terms.Amounts
	}
	var sum []store.Amount
	for _, t := range crowd {
		sum = addTo(sum, t.Claim.Terms.Amounts)
	}
	return sum
}
