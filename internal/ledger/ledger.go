package ledger

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// When a process writes for its reservations alone.
const (
	// FreedAge is how long after a commit without changes the item is told. If the process is killed
	// before, what the commit kept may go back. A write that is made for something else tells it, too.
	FreedAge = time.Minute
	// RenewAge is how long after its last write a process with something reserved writes again. It is a
	// third of [plan.LostAfter], so that two such writes may fail.
	RenewAge = plan.LostAfter / 3
	// leastRest and mostRest bound the time between two looks at what is due.
	leastRest, mostRest = 5 * time.Second, 15 * time.Second
)

// A Book is what a process has reserved, item by item. It is safe for concurrent use.
//
//	take ──▶ held ── the lease ends ──▶ freed ── a write that lands carries it ──▶ nothing
//	         └──────────── an image shows that the entry was removed ────────────▶ owed
//
// Invariant: as long as its entry is there, what the item has reserved for it is at most what is held and
// freed, and what no lease holds because its write was lost. So a lost process never gets back more than it
// took. A write of which nobody knows whether it landed counts as one that did not: what it freed is told again,
// and less goes back.
type Book struct {
	process string

	mu    sync.Mutex
	items map[store.Bucket]*page
	// began is when the process began its latest entry. Most items have an entry of that name: few names make
	// few shapes of writes.
	began int64
	size  atomic.Int64 // of items, for [Book.IsEmpty]

	Unreserved atomic.Uint64 // takes that keep although their limits return, because their items have no room
	Removed    atomic.Uint64 // entries of this process that were removed while it held something
	Returned   atomic.Uint64 // millitokens of lost processes that writes of this process returned
	Kept       atomic.Uint64 // millitokens of the same debits that stay, by the limits
}

// A page is the entries of one item.
type page struct {
	entries []*Entry      // the last one is of the takes from now on
	paying  bool          // a debt is being paid
	wrote   time.Duration // when a write of this process left its number there last, by the uptime
}

// An Entry is what a process reserves on one item, under one name. The book's mu guards it.
type Entry struct {
	name   string
	bucket store.Bucket
	made   int64 // when its item was
	// round is that of removals on the item when the entry got there: a first write to it is refused in any other
	// one. A later round may have removed it, and an image of that round tells.
	round       int32
	stamp       int64 // the latest of images that had it
	has         []string
	held, freed []store.Amount // by limit
	freedAt     time.Duration
	inFlight    int // writes that have it
	removed     bool
}

// New returns the book of a process, which has reserved nothing.
func New(process string) *Book {
	return &Book{process: process, items: map[store.Bucket]*page{}}
}

// IsEmpty reports whether the process has no reservations at all.
func (b *Book) IsEmpty() bool { return b.size.Load() == 0 }

// A Take is what a write debits, as far as a lost process gets it back.
type Take struct {
	// After is the item in whose periods the write debits.
	After *store.Image
	// Returns are by limit what goes back of the amounts that the write debits. It has no amounts of 0.
	Returns []store.Amount
}

// A Carried is what one write adds to reservations. The caller ends it with [Book.End]; nil adds nothing.
type Carried struct {
	Adds []store.ReserveAdd
	// Spent are earlier reservations of this process, which are 0 and of no use: a refill removes them.
	Spent []store.Reservation

	entry *Entry         // of what the write takes; nil if it reserves nothing
	takes []store.Amount // by limit
	freed []Freed
	own   *Freed // that the caller tells by this write
	of    store.Bucket
}

// Freed is what an entry has freed, by limit.
type Freed struct {
	entry   *Entry
	amounts []store.Amount
}

// IsTold reports whether nothing is to be told of it. So does that of nothing.
func (f *Freed) IsTold() bool { return f == nil || len(f.amounts) == 0 }

// Entry is that of what the write takes; nil if that is kept.
func (c *Carried) Entry() *Entry {
	if c == nil {
		return nil
	}
	return c.entry
}

// IsIn reports whether an item has what the write that made it reserved. So does that of nothing.
func (c *Carried) IsIn(img *store.Image) bool { return c.Entry() == nil || hasEntry(img, c.entry.name) }

// Carry works out what a write adds that is worked out from an image: what it takes, and what has been
// freed. hasSequence says that the write leaves a number at a position, which tells others that the process is
// there: without it, nothing is taken. newPosition says that this one is new. lost are the reservations that the
// write removes. own, if not nil, is told by this write alone: once it has landed, own is told.
func (b *Book) Carry(img *store.Image, take Take, own *Freed, hasSequence, newPosition bool, lost []store.Reservation, now int64) *Carried {
	if len(take.Returns) == 0 && b.IsEmpty() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &Carried{of: img.Bucket}
	if p := b.items[img.Bucket]; p != nil {
		for _, e := range p.entries {
			if b.isThere(e, img) && !slices.ContainsFunc(lost, func(r store.Reservation) bool { return r.Entry == e.name }) {
				c.tell(e)
			}
		}
	}
	if !own.IsTold() && b.isThere(own.entry, img) {
		c.own = own
		c.lower(own)
	}
	if len(take.Returns) > 0 {
		if !hasSequence || !b.reserve(c, img, take, newPosition, lost, now) {
			b.Unreserved.Add(1)
		}
	}
	c.Adds = slices.DeleteFunc(c.Adds, func(a store.ReserveAdd) bool { return a.Milli == 0 && !a.New })
	if c.entry == nil && len(c.freed) == 0 && c.own == nil {
		return nil
	}
	c.Spent = b.spent(img, lost)
	c.begin()
	return c
}

// spent are the reservations of this process on an item that no entry of the book has, and that are 0. The write
// removes lost ones anyway.
func (b *Book) spent(img *store.Image, lost []store.Reservation) (spent []store.Reservation) {
	var entries []*Entry // none of a forgotten item, to which a lease may still tell what it no longer holds
	if p := b.items[img.Bucket]; p != nil {
		entries = p.entries
	}
	for _, r := range img.Reservations() {
		if r.Process() == b.process && r.Milli <= 0 && !slices.Contains(lost, r) && !slices.ContainsFunc(entries, func(e *Entry) bool { return e.name == r.Entry }) {
			spent = append(spent, r)
		}
	}
	return spent
}

// tell adds what an entry has freed.
func (c *Carried) tell(e *Entry) {
	if len(e.freed) == 0 {
		return
	}
	f := Freed{e, e.freed}
	c.lower(&f)
	c.freed = append(c.freed, f)
	e.freed = nil
}

// lower adds that reservations are lowered.
func (c *Carried) lower(f *Freed) {
	for _, a := range f.amounts {
		c.add(store.ReserveAdd{Reservation: store.Reservation{Entry: f.entry.name, Limit: a.Limit, Milli: -a.Milli}})
	}
}

// add joins what is added to one reservation.
func (c *Carried) add(more store.ReserveAdd) {
	i := slices.IndexFunc(c.Adds, func(a store.ReserveAdd) bool { return a.Entry == more.Entry && a.Limit == more.Limit })
	if i >= 0 {
		c.Adds[i].Milli += more.Milli
	} else {
		c.Adds = append(c.Adds, more)
	}
}

// reserve adds what a write takes. It reports whether there is room for that.
func (b *Book) reserve(c *Carried, img *store.Image, take Take, newPosition bool, lost []store.Reservation, now int64) bool {
	at := max(now, take.After.RefilledAt)
	e, adds := b.current(img, take, lost, at), []store.ReserveAdd(nil)
	if e == nil {
		return false
	}
	for _, a := range take.Returns {
		_, has := img.ReservedBy(e.name, a.Limit)
		adds = append(adds, store.ReserveAdd{
			Reservation: store.Reservation{Entry: e.name, Limit: a.Limit, Milli: a.Milli},
			New:         !has && !slices.Contains(e.has, a.Limit),
		})
	}
	places := img.Places() + store.NewPlaces(adds)
	if newPosition {
		places++
	}
	if more := store.NewPlaces(adds); more > 0 && places > int(img.PositionCap)%store.PositionRound {
		return false
	}
	b.keep(e)
	for _, more := range adds {
		c.add(more)
	}
	c.entry, c.takes = e, take.Returns
	return true
}

// current returns the entry of what is taken of an item at an instant, which may be a new one. It is nil if a
// new one would be of another period.
func (b *Book) current(img *store.Image, take Take, lost []store.Reservation, at int64) *Entry {
	p := b.items[img.Bucket]
	fits := func(name string) bool {
		if slices.ContainsFunc(lost, func(r store.Reservation) bool { return r.Entry == name }) {
			return false
		}
		return !slices.ContainsFunc(take.Returns, func(a store.Amount) bool {
			s, _ := take.After.Limit(a.Limit)
			return !plan.IsOfPeriod(take.After, &s, name, at)
		})
	}
	if p != nil && len(p.entries) > 0 {
		e := p.entries[len(p.entries)-1]
		isLate := len(e.has) == 0 && round(img) > e.round // it did not get there, or was removed at once
		if !e.removed && !isLate && e.made == img.CreatedAt && fits(e.name) {
			return e
		}
	}
	name := plan.EntryOf(b.process, b.began)
	isUsed := func(e *Entry) bool { return e.name == name }
	if b.began == 0 || !fits(name) || p != nil && slices.ContainsFunc(p.entries, isUsed) {
		b.began = max(at, b.began+1) // no two have one name
		if name = plan.EntryOf(b.process, b.began); !fits(name) {
			return nil
		}
	}
	return &Entry{name: name, bucket: img.Bucket, made: img.CreatedAt, round: round(img)}
}

// round is how often reservations or positions were removed from an item.
func round(img *store.Image) int32 { return img.PositionCap / store.PositionRound }

// keep enters an entry in the book.
func (b *Book) keep(e *Entry) {
	p := b.items[e.bucket]
	if p == nil {
		p = &page{}
		b.items[e.bucket] = p
		b.size.Add(1)
	}
	if !slices.Contains(p.entries, e) {
		p.entries = append(p.entries, e)
	}
}

// isThere reports whether an entry is on its item, as far as an image tells. An image from before it began
// tells nothing, and has no later round of removals.
func (b *Book) isThere(e *Entry, img *store.Image) bool {
	switch {
	case e.made != img.CreatedAt:
		if e.made < img.CreatedAt { // with its item, the entry is gone, and nothing has gone back
			e.held, e.freed = nil, nil
		}
		return false
	case e.removed || len(e.has) == 0:
		return false
	case hasEntry(img, e.name):
		e.stamp = max(e.stamp, img.RefilledAt)
		return true
	case e.made == 0 && e.stamp != 0 && img.RefilledAt > e.stamp: // a peer made the item, and does not say when
		e.held, e.freed, e.removed = nil, nil, true
		return false
	case round(img) <= e.round:
		return true
	}
	e.removed = true
	if len(e.held)+len(e.freed)+e.inFlight > 0 {
		b.Removed.Add(1)
	}
	return false
}

func hasEntry(img *store.Image, name string) bool {
	return slices.ContainsFunc(img.Reservations(), func(r store.Reservation) bool { return r.Entry == name })
}

func (c *Carried) begin() {
	if c.entry != nil {
		c.entry.inFlight++
	}
	for _, f := range c.freed {
		f.entry.inFlight++
	}
}

// End records what became of a write: whether it landed, as far as is known.
func (b *Book) End(c *Carried, landed, hasSequence bool, up time.Duration) {
	if c == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.entry != nil {
		c.entry.inFlight--
		if landed {
			c.took()
		}
	}
	for _, f := range c.freed {
		f.entry.inFlight--
		if !landed {
			f.entry.free(f.amounts, up)
		}
	}
	if landed && c.own != nil {
		c.own.amounts = nil
	}
	if p := b.items[c.of]; landed && hasSequence && p != nil {
		p.wrote = up
	}
}

// took records that what a write takes is held.
func (c *Carried) took() {
	for _, a := range c.takes {
		c.entry.held = add(c.entry.held, a.Limit, a.Milli)
		if !slices.Contains(c.entry.has, a.Limit) {
			c.entry.has = append(c.entry.has, a.Limit)
		}
	}
}

// Landed records that a write had landed of which nobody knew, after [Book.End].
func (b *Book) Landed(c *Carried, up time.Duration) {
	if c == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.entry != nil {
		b.keep(c.entry)
		c.took()
	}
	for _, f := range c.freed { // it was told twice, maybe
		b.keep(f.entry)
		f.entry.free(negative(f.amounts), up)
	}
}

func negative(amounts []store.Amount) []store.Amount {
	opposite := slices.Clone(amounts)
	for i := range opposite {
		opposite[i].Milli = -opposite[i].Milli
	}
	return opposite
}

// CarryNew is [Book.Carry] for the write that makes an item. Whether that has room for reservations, only the item
// tells: see [Carried.IsIn].
func (b *Book) CarryNew(img *store.Image, take Take, hasSequence bool, now int64) *Carried {
	if len(take.Returns) == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var e *Entry
	if hasSequence {
		e = b.current(img, take, nil, max(now, take.After.RefilledAt))
	}
	if e == nil {
		b.Unreserved.Add(1)
		return nil
	}
	b.keep(e)
	c := &Carried{of: img.Bucket, entry: e, takes: take.Returns}
	for _, a := range take.Returns {
		c.Adds = append(c.Adds, store.ReserveAdd{Reservation: store.Reservation{Entry: e.name, Limit: a.Limit, Milli: a.Milli}, New: true})
	}
	c.begin()
	return c
}

// Free records that a lease no longer holds an amount of a limit. It reports whether the entry was removed, so that
// the amount is owed.
func (b *Book) Free(e *Entry, limit string, milli int64, up time.Duration) (owes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(e)
	e.held = add(e.held, limit, -milli)
	e.free([]store.Amount{{Limit: limit, Milli: milli}}, up)
	return e.removed
}

// Release is [Book.Free] for amounts that the caller tells itself.
func (b *Book) Release(e *Entry, amounts []store.Amount) *Freed {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range amounts {
		e.held = add(e.held, a.Limit, -a.Milli)
	}
	return &Freed{e, slices.Clone(amounts)}
}

// Untold gives what was released, and could not be told, to the next write.
func (b *Book) Untold(f *Freed, up time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(f.entry)
	f.entry.free(f.amounts, up)
	f.amounts = nil
}

func (e *Entry) free(amounts []store.Amount, up time.Duration) {
	if len(e.freed) == 0 {
		e.freedAt = up
	}
	for _, a := range amounts {
		e.freed = add(e.freed, a.Limit, a.Milli)
	}
}

// add adds an amount of a limit to amounts by limit, and leaves out what is then 0.
func add(amounts []store.Amount, limit string, milli int64) []store.Amount {
	i, found := slices.BinarySearchFunc(amounts, limit, func(a store.Amount, name string) int { return cmp.Compare(a.Limit, name) })
	if !found {
		amounts = slices.Insert(amounts, i, store.Amount{Limit: limit})
	}
	if amounts[i].Milli += milli; amounts[i].Milli == 0 {
		return slices.Delete(amounts, i, i+1)
	}
	return amounts
}

// NoteLost counts what a write has given back of lost processes, and what the limits keep of the same debits.
func (b *Book) NoteLost(lost []store.Reservation, w *plan.Wanted) {
	for i := range lost {
		b.Returned.Add(uint64(max(0, lost[i].Milli))) //nolint:gosec // not negative
	}
	if len(lost) > 0 && w != nil {
		b.Kept.Add(uint64(w.Keeps(lost))) //nolint:gosec // not negative
	}
}

// Process is the name of the process, with which its entries begin.
func (b *Book) Process() string { return b.process }
