package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
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

// A crowd is callers of one bucket item for which the caller at the front writes. One write
// serves all callers that the item can serve by its image, in the order of their arrival.
// Before each further try, callers that have arrived meanwhile join. Once the caller at the
// front has its answer, the place is handed on.
//
// The remaining callers are decided again on the image that the write brought. So no
// caller is refused because of another one that was not admitted in the end, or because
// of an old image. This does not hold if the item is shared, or is one of several
// shards.
//
// The naive crowd is fixed when its write begins, and is admitted or refused as one. A caller
// that asks for too much would then refuse all:
//
//	in line    3  900  2  1        the item holds 10
//	write      3       2  1  ──▶   refused: another process took 6, and 4 are left
//	write      3          1  ──▶   applied; 900 and 2 are refused by the image that it brings
//
// If a step is more than a debit, for example creating the item again, one caller does
// it alone. The others return to the line. The write has a time limit of its own,
// because the front caller has waited longest and has the least time left.
//
// Invariants: each caller is told once, or returns to the line, or is among the callers. A
// caller that was told owns its claim again, so nothing touches that any more. The caller at
// the front is the first of the callers until it is told, and never returns to the line: it
// has the place, and waits for no turn.
type crowd struct {
	p       pursuit // of the callers' common claim
	ln      *lane.Lane[*Claim]
	front   *ticket
	callers []*ticket // those without an answer, in the order of their arrival
}

// debitCrowd carries out the claims of the callers in a lane against one bucket item.
// looked says that the image came after the caller at the front.
func (wr *writer) debitCrowd(ctx context.Context, ln *lane.Lane[*Claim], callers []*ticket, img *store.Image, looked bool, left <-chan struct{}) {
	front := callers[0]
	cr := crowd{p: pursuit{wr: wr, img: img, sight: remembered, left: left, c: front.Claim.common()}, ln: ln, front: front, callers: callers}
	if looked {
		cr.p.sight = answered
	}
	cr.p.met, cr.p.began = front.Claim.acct.SeenAt(front.Claim.Shard), wr.Uptime()
	shared := wr.Detach(ctx)
	err, tries := error(nil), 0
	for ; tries < process.MaxTries && (err == nil || errors.Is(err, store.ErrConflict) && cr.p.mayInsist(tries)); tries++ {
		if tries > 0 {
			if err = cr.rejoin(ctx, tries); err != nil {
				break
			}
		}
		if len(cr.callers) > 1 {
			ctx, cr.p.left = shared, nil //nolint:fatcontext // always the same one
		}
		var served bool
		switch served, err = cr.serve(ctx); {
		case len(cr.callers) == 0:
			return
		case served:
			tries, cr.p.began = 0, wr.Uptime()
		}
		if cr.callers[0] != front && err == nil {
			ln.Back(cr.callers)
			return
		}
	}
	if err == nil || errors.Is(err, store.ErrConflict) {
		err = refusedTooOften(cr.p.c.Bucket, tries)
	}
	tellAll(cr.callers, err)
}

// rejoin waits before another try, and takes along the callers that have arrived meanwhile.
func (cr *crowd) rejoin(ctx context.Context, tries int) error {
	if err := cr.p.pauseBeforeTry(ctx, cr.callers[0].Claim, tries); err != nil {
		cr.ln.Back(cr.callers[1:]) // they may have come later
		cr.callers = cr.callers[:1]
		return err
	}
	if cr.p.img != nil {
		cr.callers = cr.ln.Join(cr.callers, mostShared, cr.p.c.alike(cr.p.img, cr.p.Now))
	}
	return nil
}

// serve makes one try to serve a crowd, possibly after refused ones. It reports whether it
// served callers.
func (cr *crowd) serve(ctx context.Context) (served bool, err error) {
	p := &cr.p
	p.catchUp()
	if p.sight == answered {
		if cr.refuseRest(ctx, p.Now); len(cr.callers) == 0 {
			return false, nil
		}
	}
	admitted := cr.pick()
	switch {
	case len(admitted) == 0 && p.c.Terms.Target.Differs(p.img, p.Now):
		cr.regroup(ctx)
		return false, nil
	case len(admitted) == 0:
		refuse(cr.callers, p.img, p.Now)
		cr.callers = nil
		return false, nil
	}
	p.c.Terms.Amounts, p.c.Granted = sumOf(admitted), false
	switch next := p.plan(); next.Kind {
	case plan.Take, plan.Refill, plan.Wait, plan.Disabled, plan.Unsupported:
		_, err = p.carry(ctx, next)
	default: // a crowd cannot take such a step
		cr.regroup(ctx)
		return false, nil
	}
	if !p.c.Granted {
		cr.turnAway(ctx)
		return false, err
	}
	cr.callers = without(cr.callers, admitted) // their claims no longer belong to this goroutine
	acct := p.c.acct
	acct.enter().at(p.c.Shard).takes.Expect(len(admitted))
	acct.leave()
	acct.TookTurn(p.img, amounts(admitted[0]), p.Up, p.c.until, p.wr.Rand)
	grant(admitted, p, p.ahead())
	cr.refuseRest(ctx, p.wr.Now())
	return true, nil
}

// turnAway refuses the callers of a crowd for whom the item holds too little, by the
// image that a refused write has just brought.
//
// For one of several shards, it uses the instant at which the write was worked out.
// Tokens that the shard has earned since do not matter to callers that can go to other
// shards.
func (cr *crowd) turnAway(ctx context.Context) {
	p := &cr.p
	if p.sight != answered || p.img.Disabled {
		return
	}
	now := p.wr.Now()
	if p.lacked && p.img.ShardCount > 1 {
		now = p.Now
	}
	cr.refuseRest(ctx, now)
}

// pick chooses the callers of a crowd to write for: those that the item can serve, or
// all if the image cannot tell. For a shared item, it chooses as many as the pace
// allows, or the first one.
func (cr *crowd) pick() []*ticket {
	p := &cr.p
	p.c.by = slices.MinFunc(cr.callers, func(a, b *ticket) int { return cmp.Compare(a.Claim.by, b.Claim.by) }).Claim.by
	m := p.c.acct.Pace(p.c.Shard, p.Up, p.c.by)
	if admitted := plan.Admit(cr.callers, amounts, p.likely(), m, p.Now); len(admitted) > 0 {
		return plan.AlikeInShadow(admitted, amounts, p.likely(), p.Now)
	}
	switch {
	case m.Part > 1 && p.sight < answered:
		return cr.callers[:1]
	case p.sight == answered && p.img.IsEvaluable() && !p.img.Disabled:
		return nil
	}
	return cr.callers
}

// regroup returns a crowd to the line. If the front caller is still one of them, it
// goes alone and finds out for the others.
func (cr *crowd) regroup(ctx context.Context) {
	callers, left := cr.callers, cr.p.left
	if cr.callers = nil; callers[0] != cr.front {
		cr.ln.Back(callers)
		return
	}
	cr.ln.Back(callers[1:])
	cr.front.Err = cr.p.wr.debitAlone(ctx, cr.front.Claim, left)
}

// refuseRest refuses the callers of a crowd that come too late for what a just seen
// item holds. It does so at once: limits earn all the time, so a caller that waited in
// line for that would be neither served nor refused. If a write for the others is
// refused, another process has taken the tokens. Where processes take turns, some more
// callers stay for later ones.
func (cr *crowd) refuseRest(ctx context.Context, now int64) {
	callers, img, wr := cr.callers, cr.p.img, cr.p.wr
	if len(callers) == 0 || !img.IsEvaluable() || callers[0].Claim.Terms.Target.Differs(img, now) {
		return
	}
	served := plan.Admit(callers, amounts, img, plan.Pace{Part: 1}, now)
	served = append(served, wr.waitForTurns(without(callers, served), plan.Debited(img, sumOf(served), now), len(served), now)...)
	if len(served) == 0 {
		wr.lose(ctx, callers[0].Claim.acct, img)
	}
	// The tokens that could serve one of these go to the callers that are served.
	refused := without(callers, served)
	refuse(refused, plan.Debited(img, sumOf(served), now), now)
	cr.callers = without(callers, refused) // in the order of their arrival: the front stays first
}

// without returns the callers of a crowd that are not among others.
func without(crowd, others []*ticket) []*ticket {
	return slices.DeleteFunc(slices.Clone(crowd), func(t *ticket) bool { return slices.Contains(others, t) })
}

// amounts is what a caller asks for.
func amounts(t *ticket) []store.Amount { return t.Claim.Terms.Amounts }

// grant tells a crowd that the write of a pursuit has debited their amounts.
func grant(crowd []*ticket, p *pursuit, ahead int64) {
	if !p.c.counted.All {
		leaveBehind(crowd, p.c.counted)
	}
	for _, t := range crowd {
		c := t.Claim
		c.Granted, c.counted, c.entry, c.image, c.landed, c.Parent = true, p.c.counted, p.c.entry, p.img, p.c.landed, plan.CascadeOf(p.img)
		c.earned(p.img, p.Moment, ahead)
		t.Tell(nil)
	}
}

// leaveBehind gives each caller of a crowd the amounts of those behind it. So each
// caller sees the bucket as it was after the callers before it. counted moved no balance.
func leaveBehind(crowd []*ticket, counted plan.Counted) {
	if len(crowd) < 2 {
		return
	}
	var behind []store.Amount
	for _, t := range slices.Backward(crowd) {
		for _, a := range amounts(t) {
			of := plan.AmountOf(behind, a.Limit)
			if counted.Has(a.Limit) {
				of = 0
			}
			t.Claim.Behind = append(t.Claim.Behind, of)
		}
		behind = addTo(behind, amounts(t))
	}
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
// an item as it is at an instant. The filter makes them adopt the configuration of c.
func (c *Claim) alike(img *store.Image, now int64) func(*Claim) bool {
	return func(other *Claim) bool {
		other.adopt(c.Terms.Configured)
		return other.Terms.Fits(img, now)
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
