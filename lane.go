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

// A lane lines up the callers of one process that want to write to one bucket
// item. While writes are under way, those that arrive wait; the next write
// carries what they want together, as in the group commit of a log:
//
//	caller 1   ── write ──────▶ answer
//	caller 2     waits ▏
//	caller 3     waits ▏── one write for 2, 3, 4 ──▶ answer
//	caller 4       waits ▏
//
// Callers take turns in the order of their arrival. Whoever comes to the front
// leads: it takes those behind it along, writes, and hands its place on to the
// next in line. So there is no goroutine that belongs to a lane.
//
// A line that grows long may get places more, each for one write: its callers are
// many enough to be worth one, and need not wait for those under way.
type lane struct {
	mu       sync.Mutex
	underWay int       // places that are taken
	more     int       // how many of them are those of a long line
	line     []*ticket // in order of arrival; empty unless all places are taken
	expected int       // callers who were granted what they wanted together, and may be about to come back
}

// A ticket is a caller's place in a line.
type ticket struct {
	claim *claim
	// turn is told once: to lead, to go alone, or that the work was done.
	turn chan turn
	err  error      // what came of it, once done
	room [1]*ticket // for a crowd of its own
}

// A turn is what a caller in line is told.
type turn uint8

const (
	lead turn = iota // its place is at the front
	solo             // its claim cannot be carried along with others
	done             // somebody carried it along
)

// places is how many of them a lane has.
type places struct {
	base int
	more int // for lines that are long
}

// longLine is how many callers in line are worth a place more.
const longLine = 16

// placesFor is how many places there are for those who want to write to an item.
// Where it is not known, whoever comes first finds out for the others. There are
// more for long lines as long as the item's partition has capacity to spare. Where
// others write too, there is one: a second write would know no more than the first.
func (l *Limiter) placesFor(c *claim, img *store.Image) places {
	if img == nil || c.acct.isSharedShard(c.Shard, l.uptime()) {
		return places{base: 1}
	}
	if isRelaxed(img, l.now()) {
		return l.places
	}
	return places{base: l.places.base}
}

// enter gives a caller a place, at once if one is free; otherwise it waits. It
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

// quit takes a caller out of the line; false if it is not in it any more.
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

// leave hands a place on to the first in line, if there is one and no more places
// are taken than the lane has now.
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

// disperse sends everybody in line to go alone.
func (ln *lane) disperse() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, t := range ln.line {
		t.turn <- solo
	}
	ln.line = nil
}

// back lines callers up again, before all others.
func (ln *lane) back(crowd []*ticket) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.line = slices.Insert(ln.line, 0, crowd...)
}

// maxCrowd bounds the callers of one write.
const maxCrowd = 1024

// along takes those in line along with the one at the front, as far as their
// sum stays a number that one caller could ask for. fits says who may come.
func (ln *lane) along(front *ticket, fits func(*claim) bool) []*ticket {
	return ln.join(append(front.room[:0], front), fits)
}

// join takes those in line along with a crowd, in the same way.
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

// expect notes that so many callers are about to be granted what they wanted.
func (ln *lane) expect(callers int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.expected += callers
}

// wait lets the caller at the front stand back for those who are expected, if
// they come soon: without it, the first of a crowd to come back would write for
// itself alone, and the others would wait for the write after that.
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

// maxYields is how often a caller at the front lets others run first.
const maxYields = 32

// attend enters a caller and waits until it is told something. An error says
// that the caller has left the line, by its own will or because its time is up.
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
	// A place that is of no use any more is handed on.
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

// tell gives a caller that was carried along its turn, after what came of it.
func (t *ticket) tell(err error) {
	t.err = err
	if t.turn != nil {
		t.turn <- done
	}
}

// sumOf is what a crowd wants together, by limit name.
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

// addTo adds amounts to a sum, which is in the order of the limits' names.
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

// debitCrowd carries out the claims of a crowd against one bucket item: one
// write for all whom the item can serve, first come first served as far as its
// image says. Whoever that leaves out is decided anew on the image that the
// write brought, so that nobody is refused for the sake of another who was not
// admitted in the end, or on the word of an old image; unless the item is fought
// over, or one of several. Where it is fought over, those who have come meanwhile
// join before each try, and the place is handed on once the caller at the front has
// been told.
//
// What takes more than a debit, such as making the item anew, is done by one
// caller alone; the others line up again behind it. The time for the write is
// no caller's own: the one at the front has waited for longest and has the
// least left.
func (l *Limiter) debitCrowd(ctx context.Context, ln *lane, crowd []*ticket, img *store.Image, left <-chan struct{}) {
	shared := l.deadlines.Detach(ctx)
	front, acct := crowd[0], crowd[0].claim.acct
	p := pursuit{l: l, acct: acct, img: img, left: left, c: front.claim.common()}
	err := error(nil)
	for tries := 0; tries < maxTries && (err == nil || errors.Is(err, ErrConflict)); tries++ {
		if tries > 0 {
			if err = p.space(ctx, crowd[0].claim, tries); err != nil {
				ln.back(crowd[1:]) // who may have come later
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

// serve makes one try to serve a crowd, after some that were lost. It returns whom
// it has not told, and whether it served others.
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
	crowd = without(crowd, admitted) // whose claims are not this goroutine's any more
	p.acct.shard(p.c.Shard).takes.expect(len(admitted))
	grant(admitted, p.img, p.now)
	return p.l.refuseRest(crowd, p.img, p.l.now()), true, nil
}

// turnAway refuses those of a crowd for whom the item holds too little, by the image
// that a refused write has just brought. It returns the others.
//
// One of several shards is as short as it was when the write was worked out: what it
// has earned since does not matter to those who can go to others.
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

// isCovered reports whether an item holds what a claim wants.
func (c *claim) isCovered(img *store.Image, now int64) bool {
	return !slices.ContainsFunc(c.amounts, func(a store.Amount) bool { return a.Milli > 0 && c.holds(img, a.Limit, now) < a.Milli })
}

// pick is whom of a crowd to write for: whom the item serves, everybody if it
// cannot tell; where others write too, only as many as are modest, or the first.
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

// carry takes the next step about a crowd's claim. more says that it is more than
// a crowd can take.
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

// regroup lines a crowd up again, but for the caller at the front, if it is one
// of them still: that one goes alone, and finds out for the others.
func (l *Limiter) regroup(ctx context.Context, front *ticket, crowd []*ticket, left <-chan struct{}) {
	ln := &front.claim.acct.shard(front.claim.Shard).takes
	if crowd[0] != front {
		ln.back(crowd)
		return
	}
	ln.back(crowd[1:])
	front.err = l.debitAlone(ctx, front.claim, left)
}

// without is who of a crowd is not among some others of it.
func without(crowd, others []*ticket) []*ticket {
	return slices.DeleteFunc(slices.Clone(crowd), func(t *ticket) bool { return slices.Contains(others, t) })
}

// admit is who of a crowd an item serves, first come first served; of an item
// that this version cannot refill, with what it holds as it is.
// Together they ask for no more than is modest, but for no less than the first of
// them wants.
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
	least := make([]int64, len(held)) // what is to be left
	for i := range least {
		least[i] = held[i] - (held[i]+shareOf(img, img.Limits[i].Params).Earned(now, now+m.way))/m.part
	}
	// leaves says whether a claim leaves that much of each limit.
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

// grant tells a crowd that one write has debited what they wanted.
func grant(crowd []*ticket, img *store.Image, now int64) {
	leaveBehind(crowd)
	for _, t := range crowd {
		c := t.claim
		c.granted, c.image, c.at, c.parent = true, img, now, cascadeOf(img)
		t.tell(nil)
	}
}

// leaveBehind gives each caller of a crowd what those behind it took: each sees
// the bucket as it was when those before it had been served.
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

// refuseRest refuses those of a crowd who come too late for what an item that was
// just seen holds: at once, for something is earned all the time, and who waits
// for it in line is neither served nor refused. It returns the others. If those
// lose what there is, somebody else has taken it.
func (l *Limiter) refuseRest(crowd []*ticket, img *store.Image, now int64) []*ticket {
	if len(crowd) == 0 || img.Foreign != "" || crowd[0].claim.want.differs(img) {
		return crowd
	}
	served := admit(crowd, img, modesty{part: 1}, now)
	// What it could give one of the others goes to those who are served.
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
