package limiter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/store"
)

// A lane is the queue of one process's callers for writes to one bucket item (ADR 014).
// While writes are under way, callers that arrive wait. The next write has their claims
// together, as in the group commit of a log:
//
//	caller 1   ── write ──────▶ answer
//	caller 2     waits ▏
//	caller 3     waits ▏── one write for 2, 3, 4 ──▶ answer
//	caller 4       waits ▏
//
// Callers take turns in the order of their arrival. The caller at the front leads: it
// takes the callers behind it along, writes, and hands its place to the next in line.
// So no goroutine belongs to a lane.
//
// A long line may get extra places, each for one write. Its callers are numerous enough
// to be worth a write, and need not wait for the writes under way.
type lane struct {
	mu       sync.Mutex
	underWay int       // taken places
	more     int       // how many of them are extra places of a long line
	line     []*ticket // in order of arrival; empty unless all places are taken
	expected int       // callers that one write has granted; they may come back soon
}

// A ticket is one caller's position in a lane.
type ticket struct {
	claim *claim
	// turn receives one value: lead, solo or done.
	turn chan turn
	err  error      // the result, once done
	room [1]*ticket // storage for a crowd of one
}

// A turn is what the lane tells a caller in line.
type turn uint8

const (
	lead turn = iota // the caller is at the front and has a place
	solo             // the claim cannot share a write
	done             // another caller's write included the claim
)

// places is the number of places of a lane.
type places struct {
	base int
	more int // extra, for long lines
}

// longLine is the number of callers in line for which the lane gives an extra place.
const longLine = 16

// placesFor is the number of places for writes to an item. If the item is not known,
// there is one: the first caller finds out for the others. A long line gets extra
// places while the item has half of its hidden write limit. A shared item has one
// place: a second write would know no more than the first.
func (l *Limiter) placesFor(c *claim, img *store.Image) places {
	if img == nil || c.acct.isSharedShard(c.Shard, l.uptime()) {
		return places{base: 1}
	}
	if isRelaxed(img, l.now()) {
		return l.places
	}
	return places{base: l.places.base}
}

// enter gives a caller a place at once if one is free; otherwise the caller waits. It
// reports whether the caller leads.
func (ln *lane) enter(t *ticket, p places) (leads bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.expected = max(0, ln.expected-1)
	if ln.underWay < p.base && len(ln.line) == 0 {
		ln.underWay++
		return true
	}
	t.turn = make(chan turn, 1)
	ln.line = append(ln.line, t)
	if len(ln.line) >= longLine && ln.more < p.more {
		ln.underWay++
		ln.more++
		ln.nextLocked()
	}
	return false
}

// nextLocked tells the first in line to lead.
func (ln *lane) nextLocked() {
	next := ln.line[0]
	ln.line = slices.Delete(ln.line, 0, 1)
	next.turn <- lead
}

// quit removes a caller from the line; false if it has left the line already.
func (ln *lane) quit(t *ticket) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	i := slices.Index(ln.line, t)
	if i < 0 {
		return false
	}
	ln.line = slices.Delete(ln.line, i, i+1)
	return true
}

// leave hands a place to the first in line. If the line is empty, the place is an extra
// one, or too many places are taken by now, it gives the place up.
func (ln *lane) leave(p places) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	switch {
	case ln.more > 0:
		ln.more--
		ln.underWay--
	case len(ln.line) == 0 || ln.underWay > p.base:
		ln.underWay--
	default:
		ln.nextLocked()
	}
}

// disperse tells every caller in line to go alone.
func (ln *lane) disperse() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, t := range ln.line {
		t.turn <- solo
	}
	ln.line = nil
}

// back puts callers back at the front of the line.
func (ln *lane) back(crowd []*ticket) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.line = slices.Insert(ln.line, 0, crowd...)
}

// maxCrowd bounds the callers of one write.
const maxCrowd = 1024

// along takes callers in line along with the front caller, while their sum stays an
// amount that one caller could request. fits chooses the claims that may share the
// write.
func (ln *lane) along(front *ticket, fits func(*claim) bool) []*ticket {
	return ln.join(append(front.room[:0], front), fits)
}

// join adds callers in line to a crowd, in the same way.
func (ln *lane) join(crowd []*ticket, fits func(*claim) bool) []*ticket {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	const most = MaxTokens * milli
	var sum int64
	add := func(c *claim) bool {
		for _, a := range c.amounts {
			sum = min(sum+max(a.Milli, -a.Milli), most+1)
		}
		return sum <= most
	}
	for _, t := range crowd {
		add(t.claim)
	}
	n := 0
	for ; n < len(ln.line) && len(crowd) < maxCrowd; n++ {
		t := ln.line[n]
		if !fits(t.claim) {
			t.turn <- solo
			continue
		}
		if !add(t.claim) {
			break
		}
		crowd = append(crowd, t)
	}
	ln.line = slices.Delete(ln.line, 0, n)
	return crowd
}

// expect records that so many callers are about to be granted.
func (ln *lane) expect(callers int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.expected += callers
}

// wait makes the caller at the front wait briefly for the expected callers. Otherwise
// the first caller of a crowd to come back would write for itself alone. The others
// would then wait for the write after that.
func (ln *lane) wait() {
	for yields := 0; ; yields++ {
		ln.mu.Lock()
		if yields == maxYields {
			ln.expected = 0
		}
		expected := ln.expected
		ln.mu.Unlock()
		if expected == 0 {
			return
		}
		runtime.Gosched()
	}
}

// maxYields is how often a caller at the front yields to other goroutines.
const maxYields = 32

// attend enters a caller and waits for its turn. An error says that the caller is out
// of the line: it left, or its time is up.
func (ln *lane) attend(ctx context.Context, t *ticket, p places, left <-chan struct{}) (turn, error) {
	told := lead
	if !ln.enter(t, p) {
		select {
		case told = <-t.turn:
		case <-left:
			if ln.quit(t) {
				return solo, errLeft
			}
			told = <-t.turn
		case <-ctx.Done():
			if ln.quit(t) {
				return solo, late(ctx)
			}
			told = <-t.turn
		}
	}
	if told != lead {
		return told, nil
	}
	// The caller no longer needs the place, so the next one gets it.
	select {
	case <-left:
		ln.leave(p)
		return solo, errLeft
	case <-ctx.Done():
		ln.leave(p)
		return solo, late(ctx)
	default:
	}
	ln.wait()
	return lead, nil
}

// late is the error of a caller whose time was up before its turn.
func late(ctx context.Context) error {
	return fmt.Errorf("waiting for other writes to the bucket: %w: %w", ErrUnavailable, context.Cause(ctx))
}

// tell tells a caller whose claim shared a write that it is done, with the result.
func (t *ticket) tell(err error) {
	t.err = err
	if t.turn != nil {
		t.turn <- done
	}
}

// sumOf is the sum of a crowd's amounts, by limit name.
func sumOf(crowd []*ticket) []store.Amount {
	if len(crowd) == 1 {
		return crowd[0].claim.amounts
	}
	var sum []store.Amount
	for _, t := range crowd {
		sum = addTo(sum, t.claim.amounts)
	}
	return sum
}

// addTo adds amounts to a sum, which is ordered by limit name.
func addTo(sum, amounts []store.Amount) []store.Amount {
	for _, a := range amounts {
		i, found := slices.BinarySearchFunc(sum, a.Limit, func(s store.Amount, name string) int { return strings.Compare(s.Limit, name) })
		if !found {
			sum = slices.Insert(sum, i, store.Amount{Limit: a.Limit})
		}
		sum[i].Milli += a.Milli
	}
	return sum
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
func (l *Limiter) debitCrowd(ctx context.Context, ln *lane, crowd []*ticket, img *store.Image, left <-chan struct{}) {
	shared := l.deadlines.Detach(ctx)
	front, acct := crowd[0], crowd[0].claim.acct
	p := pursuit{l: l, acct: acct, img: img, left: left, c: front.claim.common()}
	err := error(nil)
	for tries := 0; tries < maxTries && (err == nil || errors.Is(err, ErrConflict)); tries++ {
		if tries > 0 {
			if err = p.space(ctx, crowd[0].claim, tries); err != nil {
				ln.back(crowd[1:]) // they may have come later
				crowd = crowd[:1]
				break
			}
			if p.img != nil {
				crowd = ln.join(crowd, p.c.alike(p.img))
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
			tries = 0
		}
		if crowd[0] != front && err == nil {
			ln.back(crowd)
			return
		}
	}
	if err == nil || errors.Is(err, ErrConflict) {
		err = contended(p.c.Bucket)
	}
	tellAll(crowd, err)
}

// serve makes one try to serve a crowd, possibly after refused ones. It returns the
// callers without an answer, and whether it served others.
func (p *pursuit) serve(ctx context.Context, front *ticket, crowd []*ticket) (rest []*ticket, served bool, err error) {
	p.catchUp()
	if p.fresh && p.img != nil {
		if crowd = p.l.refuseRest(crowd, p.img, p.now); len(crowd) == 0 {
			return nil, false, nil
		}
	}
	admitted := p.pick(crowd)
	switch {
	case len(admitted) == 0 && p.c.want.differs(p.img):
		p.l.regroup(ctx, front, crowd, p.left)
		return nil, false, nil
	case len(admitted) == 0:
		refuse(crowd, p.img, p.now)
		return nil, false, nil
	}
	p.c.amounts, p.c.granted = sumOf(admitted), false
	more, err := p.carry(ctx)
	switch {
	case more:
		p.l.regroup(ctx, front, crowd, p.left)
		return nil, false, nil
	case !p.c.granted:
		return p.turnAway(crowd), false, err
	}
	crowd = without(crowd, admitted) // their claims no longer belong to this goroutine
	p.acct.shard(p.c.Shard).takes.expect(len(admitted))
	grant(admitted, p.img, p.now)
	return p.l.refuseRest(crowd, p.img, p.l.now()), true, nil
}

// turnAway refuses the callers of a crowd for whom the item holds too little, by the
// image that a refused write has just brought. It returns the others.
//
// For one of several shards, it uses the instant at which the write was worked out.
// Tokens that the shard has earned since do not matter to callers that can go to other
// shards.
func (p *pursuit) turnAway(crowd []*ticket) []*ticket {
	if !p.fresh || p.img == nil || p.img.Disabled {
		return crowd
	}
	now := p.l.now()
	if p.lacked && p.img.ShardCount > 1 {
		now = p.now
	}
	return p.l.refuseRest(crowd, p.img, now)
}

// isCovered reports whether an item holds a claim's amounts.
func (c *claim) isCovered(img *store.Image, now int64) bool {
	return !slices.ContainsFunc(c.amounts, func(a store.Amount) bool { return a.Milli > 0 && c.holds(img, a.Limit, now) < a.Milli })
}

// pick chooses the callers of a crowd to write for: those that the item can serve, or
// all if the image cannot tell. For a shared item, it chooses as many as the pace
// allows, or the first one.
func (p *pursuit) pick(crowd []*ticket) []*ticket {
	m := p.acct.modesty(p.c.Shard, p.up)
	if admitted := admit(crowd, p.likely(), m, p.now); len(admitted) > 0 {
		return admitted
	}
	if m.part > 1 && !p.fresh {
		return crowd[:1]
	}
	if !p.fresh || p.img == nil || p.img.Foreign != "" || p.img.Disabled {
		return crowd
	}
	return nil
}

// carry takes the next step of a crowd's claim. more says that the step is one that a
// crowd cannot take.
func (p *pursuit) carry(ctx context.Context) (more bool, err error) {
	next, refill, wait := p.plan()
	switch next {
	case stepTake, stepRefill:
		_, err = p.write(ctx, next, refill)
	case stepWait:
		err = p.l.relieve(ctx, p.acct, p.img, wait, nil)
	case stepDisabled:
		err = &DisabledError{Entity: p.c.Entity, Resource: p.c.Resource}
	case stepForeign:
		err = &UnsupportedError{Entity: p.c.Entity, Resource: p.c.Resource, Feature: p.img.Foreign}
	default:
		more = true
	}
	return more, err
}

// regroup returns a crowd to the line. If the front caller is still one of them, it
// goes alone and finds out for the others.
func (l *Limiter) regroup(ctx context.Context, front *ticket, crowd []*ticket, left <-chan struct{}) {
	ln := &front.claim.acct.shard(front.claim.Shard).takes
	if crowd[0] != front {
		ln.back(crowd)
		return
	}
	ln.back(crowd[1:])
	front.err = l.debitAlone(ctx, front.claim, left)
}

// without returns the callers of a crowd that are not among others.
func without(crowd, others []*ticket) []*ticket {
	return slices.DeleteFunc(slices.Clone(crowd), func(t *ticket) bool { return slices.Contains(others, t) })
}

// admit returns the callers of a crowd that an item can serve, in the order of their
// arrival. If this version cannot refill the item, only its stored balances count. The
// callers together ask for no more than the pace allows, but at least for the amounts
// of the first of them.
func admit(crowd []*ticket, img *store.Image, m modesty, now int64) []*ticket {
	if img == nil {
		return nil
	}
	held := make([]int64, len(img.Limits))
	for i := range img.Limits {
		s := &img.Limits[i]
		held[i] = s.Tokens
		if img.Foreign == "" {
			held[i] = shareOf(img, s.Params).Balance(s.Tokens, img.RefilledAt, now)
		}
	}
	least := make([]int64, len(held)) // what the write must leave
	for i := range least {
		least[i] = held[i] - (held[i]+shareOf(img, img.Limits[i].Params).Earned(now, now+m.way))/m.part
	}
	// leaves reports whether a claim leaves at least that much of each limit.
	leaves := func(c *claim, least []int64) bool {
		return !slices.ContainsFunc(c.amounts, func(a store.Amount) bool {
			i := slices.IndexFunc(img.Limits, func(s store.LimitState) bool { return s.Name == a.Limit })
			return i >= 0 && a.Milli > 0 && held[i]-a.Milli < least[i]
		})
	}
	nothing := make([]int64, len(held))
	admitted := make([]*ticket, 0, len(crowd))
	for _, t := range crowd {
		switch {
		case !leaves(t.claim, nothing):
			continue
		case len(admitted) > 0 && !leaves(t.claim, least):
			return admitted
		}
		for i := range img.Limits {
			held[i] -= t.claim.amount(img.Limits[i].Name)
		}
		admitted = append(admitted, t)
	}
	return admitted
}

// grant tells a crowd that one write has debited their amounts.
func grant(crowd []*ticket, img *store.Image, now int64) {
	leaveBehind(crowd)
	for _, t := range crowd {
		c := t.claim
		c.granted, c.image, c.at, c.parent = true, img, now, cascadeOf(img)
		t.tell(nil)
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
		for _, a := range t.claim.amounts {
			for i := range behind {
				if behind[i].Limit == a.Limit {
					t.claim.behind = append(t.claim.behind, behind[i].Milli)
					behind[i].Milli += a.Milli
				}
			}
		}
	}
}

// refuseRest refuses the callers of a crowd that come too late for what a just seen
// item holds, and returns the others. It does so at once: limits earn all the time, so
// a caller that waited in line for that would be neither served nor refused. If a write
// for the others is refused, another process has taken the tokens.
func (l *Limiter) refuseRest(crowd []*ticket, img *store.Image, now int64) []*ticket {
	if len(crowd) == 0 || img.Foreign != "" || crowd[0].claim.want.differs(img) {
		return crowd
	}
	served := admit(crowd, img, modesty{part: 1}, now)
	// The tokens that could serve one of these go to the callers that are served.
	refuse(without(crowd, served), debited(img, sumOf(served), now), now)
	return served
}

// refuse tells a crowd that an item can serve none of them.
func refuse(crowd []*ticket, img *store.Image, now int64) {
	for _, t := range crowd {
		t.claim.refusedBy(img, now)
		t.tell(nil)
	}
}

func tellAll(crowd []*ticket, err error) {
	for _, t := range crowd {
		t.tell(err)
	}
}
