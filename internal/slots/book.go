package slots

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

const (
	// lease is how long an entry is good for after the write that renewed it.
	lease = 15 * time.Second
	// skew is by how much the clock of a process may differ from the right time. An entry is dead
	// for others that much after its deadline. Its own process gives up that much before.
	skew = 5 * time.Second
	// renewal is after what time a process renews an entry to which it had nothing to write.
	renewal = lease / 3
	// linger is how long slots stay with a process that does not need them.
	linger = time.Second
	// trust is how long an image may refuse who does not wait.
	trust = 100 * time.Millisecond
	// expiry is how long an item is kept after its last write: longer than a lease that the write
	// made or extended. A process that knows nothing of such an entry may write last (ADR 069).
	expiry = 7 * 24 * time.Hour
	// poolShare is the part of a process's share of the slots that lingers at most.
	poolShare = 4

	// A process with callers in line looks at the item after minLook. It doubles that time, up to
	// maxLook, while the same number of slots is used.
	minLook, maxLook = 50 * time.Millisecond, time.Second
	// After a failure a process waits for minPause, and twice as long after each further one, up
	// to maxPause.
	minPause, maxPause = 100 * time.Millisecond, time.Second
)

// IsGone reports whether the process of an entry is gone at an instant, in ms, whatever its clock
// says.
func IsGone(h *store.Holding, now int64) bool { return now > h.Until+skew.Milliseconds() }

// RenewedAt is when an entry was written, in ms, by the clock of its process.
func RenewedAt(h *store.Holding) int64 { return h.Until - lease.Milliseconds() }

// A book has what a process knows of an item, and who of its callers holds or waits for what.
//
//	out ≤ sure ≤ what the entry holds, whatever became of writes whose answer was lost
//
// The process gives out no more than sure, and nothing from fence on: others remove the entry
// after that. Every write replaces the entry that was seen last, with a new sequence number. So at
// most one of the writes that are under way, or lost, is applied, and the next image shows which.
type book struct {
	store.SlotKey

	process string
	cap     int64        // of the last caller
	seq     func() int64 // the next sequence number of the process

	image *store.SlotImage // the last one; nil if none is known
	at    time.Duration    // when it was seen
	sight map[string]sight // of the other processes' entries in image
	own   *store.Holding   // the entry as it was seen; nil if there is none

	out   int64               // slots of leases
	sure  int64               // slots that the process surely holds until fence
	fence time.Duration       // when it gives up what it has not renewed
	holds map[*Lease]struct{} // leases that are out

	abandoned []*Lease // to be taken back

	leaving []*handover         // leases to be written down, which count as out until they are
	strays  map[string]struct{} // names of leases that may have been written down, and are out here again

	line []*claim // callers that wait for slots, in the order of their arrival

	renewAt time.Duration // when the entry is due
	spare   int64         // the least that lingered since spareAt - linger
	spareAt time.Duration // when spare goes back
	lookAt  time.Duration // when the process looks again, for those in line
	look    time.Duration // the time between two looks
	pause   time.Duration // after the last failure; 0 if there was none since the last answer
	after   time.Duration // nothing is sent before
	closed  bool          // everything is to be returned
	rand    func(n int64) int64
}

// A sight is since when an entry has been seen with the same sequence number.
type sight struct {
	seq   int64
	since time.Duration
}

// A claim is a caller in line.
type claim struct {
	n     int64
	waits bool          // until there is room; otherwise it is refused
	since time.Duration // its arrival
	lease *Lease        // to be granted; nil once refused
	err   error         // once refused
	done  chan struct{} // closed once it is one of them
}

// refuse tells the caller that it gets nothing.
func (c *claim) refuse(err error) {
	c.lease, c.err = nil, err
	close(c.done)
}

func (c *claim) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// A step is what a process does next about an item: one of a write, a look and, if there is none,
// nothing until an instant, unless it is woken. The zero step is that there is nothing more to do.
type step struct {
	write *store.Hold
	look  bool
	until time.Duration
}

// A moment is an instant: by a clock that only moves on, and by the clock that stamps entries.
type moment struct {
	up  time.Duration
	now int64 // ms
}

// join adds a claim to the line, and serves it at once if enough is held. of is how many
// slots there are in all.
func (b *book) join(c *claim, of int64, m moment) {
	b.cap, b.line = of, append(b.line, c)
	if len(b.line) == 1 {
		b.look, b.lookAt = 0, m.up
	}
	if b.give(m); !c.waits && !c.isDone() {
		b.plan(b.others(m)) // which refuses it if the last image does
	}
}

// give serves the line from what the process holds.
func (b *book) give(m moment) {
	if m.up >= b.fence || len(b.line) == 0 {
		return
	}
	crowd := b.others(m)
	for len(b.line) > 0 && b.out+b.line[0].n <= min(b.sure, b.share(crowd)) {
		b.grant(b.line[0])
		b.line = b.line[1:]
	}
}

func (b *book) grant(c *claim) {
	b.out += c.n
	b.spare = min(b.spare, b.idle())
	b.holds[c.lease] = struct{}{}
	close(c.done)
}

// idle are the slots that the process surely holds, and no lease has.
func (b *book) idle() int64 { return max(0, b.sure-b.out) }

// drop takes a claim out of the line. It is false if the claim has been decided.
func (b *book) drop(c *claim) bool {
	i := slices.Index(b.line, c)
	if i >= 0 {
		b.line = slices.Delete(b.line, i, i+1)
	}
	return i >= 0
}

// refuse refuses the callers in line that do not wait, and all others too if it is for all of them.
func (b *book) refuse(err error, all bool) {
	b.line = slices.DeleteFunc(b.line, func(c *claim) bool {
		if c.waits && !all {
			return false
		}
		c.refuse(err)
		return true
	})
}

// release takes a lease back, for those in line. A lost one is not there anymore.
func (b *book) release(l *Lease, m moment) {
	if _, isOut := b.holds[l]; !isOut {
		return
	}
	delete(b.holds, l)
	was := b.idle()
	b.out -= l.n
	b.give(m)
	if idle := b.idle(); was == 0 {
		b.spare, b.spareAt = idle, m.up+linger
	}
}

// lose ends all leases: the process holds nothing. It returns how many slots that were.
func (b *book) lose() (lost int64) {
	for l := range b.holds {
		l.lose()
	}
	clear(b.holds)
	for _, h := range b.leaving {
		h.lease.lose()
		b.disown(h)
		h.end(ErrLost)
	}
	lost, b.out, b.sure, b.spare, b.leaving = b.out, 0, 0, 0, nil
	return lost
}

// isDead reports whether the process of an entry is gone. The second rule needs no clock: the
// entry was written before it was first seen, and has not been renewed since. It is not for leases that
// were written down, which nobody renews.
func (b *book) isDead(h *store.Holding, m moment) bool {
	s := b.sight[h.Process]
	return IsGone(h, m.now) || !h.IsLease() && s.seq == h.Seq && m.up-s.since >= lease || b.isStray(h.Process)
}

// A crowd is what the last image shows of the other processes that live.
type crowd struct {
	held    int64 // slots
	members int64 // processes, with this one
	wants   bool  // one of them has callers in line
	dead    []store.Holding
	more    bool // that are dead than one write removes
	strays  bool // some of them are strays
}

func (b *book) others(m moment) crowd {
	c := crowd{members: 1}
	if b.image == nil {
		return c
	}
	for i := range b.image.Holdings {
		switch h := &b.image.Holdings[i]; {
		case h.Process == b.process:
		case !b.isDead(h, m):
			if c.held += h.Held; !h.IsLease() {
				c.members++
			}
			c.wants = c.wants || h.Wants > 0
		case len(c.dead) < store.MaxDead:
			c.dead, c.strays = append(c.dead, *h), c.strays || b.isStray(h.Process)
		default: // a later write removes it
			c.held += h.Held
			c.more = true
		}
	}
	return c
}

// share is the most that the process holds: all, unless others have callers in line. A large claim
// must not be larger than every share for ever, so the first one of all may be.
func (b *book) share(c crowd) int64 {
	if !c.wants {
		return b.cap
	}
	share := max(1, b.cap/c.members)
	if b.out == 0 && len(b.line) > 0 {
		share = max(share, min(b.cap, b.line[0].n))
	}
	return share
}

// pool is the most that lingers for the next callers.
func (b *book) pool(c crowd) int64 {
	if c.wants || b.closed {
		return 0
	}
	return b.cap / (poolShare * c.members)
}

// next says what the process does next, and how many slots it has lost because it did not renew
// them in time. It refuses callers for whom there is no room.
func (b *book) next(m moment) (s step, lost int64) {
	for _, l := range b.abandoned {
		b.release(l, m)
	}
	b.abandoned = nil
	if b.out > 0 && m.up >= b.fence {
		lost = b.lose()
	}
	b.give(m)
	c := b.others(m)
	hold, wants, looks := b.plan(c)
	if b.isDue(c, hold, wants, m) {
		return b.write(c, hold, wants, m), lost
	}
	looks = looks || wants > 0 && m.up >= b.lookAt
	if looks && m.up >= b.after {
		return step{look: true}, lost
	}
	return step{until: b.idleUntil(wants, m)}, lost
}

// plan returns what the process is to hold for its leases and for those in line who fit, and how
// many slots the others in line wait for. looks is that somebody cannot be refused without a look.
func (b *book) plan(c crowd) (hold, wants int64, looks bool) {
	most := min(b.cap-c.held, b.share(c))
	hold = b.out
	fits := true
	stay := b.line[:0]
	for _, claim := range b.line {
		fits = fits && hold+claim.n <= most
		switch {
		case fits:
			hold += claim.n
		case claim.waits:
			wants += claim.n
		case b.image != nil && b.at >= claim.since-trust && !c.more:
			claim.refuse(ErrFull)
			continue
		default:
			looks = true
		}
		stay = append(stay, claim)
	}
	clear(b.line[len(stay):])
	b.line = stay
	return hold, wants, looks
}

// keep is what the process is to hold, with what lingers.
func (b *book) keep(c crowd, hold int64, m moment) int64 {
	idle := b.idle()
	if m.up >= b.spareAt {
		idle -= b.spare
	}
	return max(hold, b.out+min(idle, b.pool(c)))
}

// isDue reports whether the entry is to be written.
func (b *book) isDue(c crowd, hold, wants int64, m moment) bool {
	switch {
	case len(b.leaving) > 0, c.strays:
		return true
	case b.closed:
		return b.own != nil
	case hold > b.sure, c.more && len(b.line) > 0: // somebody fits, or may fit then
		return true
	case b.own == nil:
		return wants > 0 && b.image != nil
	case m.up >= b.renewAt, b.keep(c, hold, m) < b.own.Held:
		return true
	case wants > 0:
		return b.own.Wants == 0
	}
	return b.own.Wants > 0 && m.up >= b.spareAt
}

// write is the step that writes the entry.
func (b *book) write(c crowd, hold, wants int64, m moment) step {
	if m.up < b.after {
		until := b.after
		if b.out > 0 {
			until = min(until, b.fence)
		}
		return step{until: until}
	}
	h := &store.Hold{
		SlotKey: b.SlotKey, Cap: b.cap, Seen: b.own, Dead: c.dead, ExpiresAt: expiresAt(m.now),
		Next: store.Holding{Process: b.process, Held: b.keep(c, hold, m), Wants: wants, Until: m.now + lease.Milliseconds(), Seq: b.seq()},
	}
	b.send(h)
	b.sure = min(b.sure, h.Next.Held)
	return step{write: h}
}

// idleUntil is when there is something to do again; 0 if nothing is left to do.
func (b *book) idleUntil(wants int64, m moment) time.Duration {
	if b.own == nil && len(b.line) == 0 && b.out == 0 {
		if b.image == nil || b.closed || m.up >= b.at+linger {
			return 0
		}
		return b.at + linger // the image may refuse until then
	}
	until := m.up + lease
	at := func(is bool, at time.Duration) {
		if is {
			until = min(until, at)
		}
	}
	if m.up >= b.spareAt { // the slots that lingered were needed
		b.spare, b.spareAt = b.idle(), m.up+linger
	}
	at(b.own != nil, b.renewAt)
	at(b.idle() > 0 || b.own != nil && b.own.Wants > 0, b.spareAt)
	at(wants > 0, b.lookAt)
	at(len(b.line) > 0 && b.after > m.up, b.after)
	until = max(until, b.after)
	at(b.out > 0, b.fence)
	return until
}

// wrote takes the answer to a write, which was sent at an earlier moment. It returns how many slots
// are lost.
func (b *book) wrote(h *store.Hold, out store.SlotOutcome, sent, m moment) (lost int64) {
	if !out.Applied {
		return b.looked(out.Image, m)
	}
	b.see(out.Image, m)
	b.left(func(l *handover) bool { return slices.Contains(l.seqs, h.Next.Seq) })
	b.settleStrays()
	b.own, b.sure = &h.Next, h.Next.Held
	b.fence, b.renewAt = sent.up+lease-skew, sent.up+renewal
	b.spare, b.spareAt = b.idle(), m.up+linger
	if h.Next.IsEmpty() {
		b.own = nil
	}
	b.give(m)
	return 0
}

// looked takes an image, which shows what became of earlier writes. If the entry is gone, the slots
// are lost. If it is another one than the process knows of, an earlier write was applied late.
func (b *book) looked(img *store.SlotImage, m moment) (lost int64) {
	if img == nil {
		img = &store.SlotImage{SlotKey: b.SlotKey}
	}
	b.see(img, m)
	is := img.Of(b.process)
	switch {
	case is == nil:
		b.left(func(l *handover) bool { return img.Of(l.entry.Process) != nil })
		lost, b.own = b.lose(), nil
		b.settleStrays()
	case b.own == nil || is.Seq != b.own.Seq:
		b.left(func(l *handover) bool { return slices.Contains(l.seqs, is.Seq) })
		b.own, b.sure, b.renewAt = is, min(b.sure, is.Held), m.up
	}
	return lost
}

// see takes an image.
func (b *book) see(img *store.SlotImage, m moment) {
	b.pause, b.after = 0, 0
	if b.image == nil || b.image.Used != img.Used {
		b.look = 0
	}
	b.look = min(max(2*b.look, minLook), maxLook)
	b.lookAt = m.up + b.look/2 + time.Duration(b.rand(int64(b.look)))
	sight := make(map[string]sight, len(img.Holdings))
	for i := range img.Holdings {
		h := &img.Holdings[i]
		s, known := b.sight[h.Process]
		if !known || s.seq != h.Seq {
			s.seq, s.since = h.Seq, m.up
		}
		sight[h.Process] = s
	}
	b.image, b.at, b.sight = img, m.up, sight
}

// failed notes that a request was not answered, or was turned away. A caller that does not wait
// gets the error.
func (b *book) failed(err error, m moment) {
	b.pause = min(max(2*b.pause, minPause), maxPause)
	b.after = m.up + b.pause/2 + time.Duration(b.rand(int64(b.pause)))
	b.refuse(err, false)
}

// close ends all callers, so that everything is returned.
func (b *book) close() {
	b.closed, b.after = true, 0
	b.refuse(ErrClosed, true)
	b.lose()
}
