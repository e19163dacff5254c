package slots

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

var (
	// ErrFull says that there is no room for who does not wait.
	ErrFull = errors.New("all slots are held")
	// ErrLost is the cause with which the contexts of a lease end whose slots are lost.
	ErrLost = errors.New("slots lost")
	// ErrClosed says that the holder is closed.
	ErrClosed = errors.New("closed")
)

// Options of a [Holder]; all are required.
type Options struct {
	// Now is the clock that stamps entries, in ms. Uptime only moves on.
	Now    func() int64
	Uptime func() time.Duration
	Rand   func(n int64) int64 // from [0, n)
	Logger *slog.Logger
}

// A Holder holds the slots of one process. It is safe for concurrent use.
type Holder struct {
	o       Options
	store   store.SlotStore
	process string

	mu     sync.Mutex
	items  map[store.SlotKey]*item
	closed bool
	work   sync.WaitGroup
	seq    atomic.Int64 // of all items: an item may be forgotten while a write to it is lost

	// Lost counts slots that were lost. Removed counts entries of processes that were gone.
	Lost, Removed atomic.Uint64
}

// requestTime bounds a request, so that there is time for another one before an entry is dead.
const requestTime = 2 * time.Second

// An item is a book with a goroutine that carries out what it says, while there is something to do.
type item struct {
	mu    sync.Mutex // held briefly, never during a request
	book  book
	ended bool          // the goroutine has ended, and the holder forgets the item
	wake  chan struct{} // has room for one
}

// New returns a holder that holds nothing yet.
func New(s store.SlotStore, o Options) *Holder {
	id := make([]byte, 5) // 8 characters
	_, _ = rand.Read(id)  // it never fails
	return &Holder{
		o: o, store: s, process: strings.ToLower(base32.StdEncoding.EncodeToString(id)),
		items: map[store.SlotKey]*item{},
	}
}

// A Lease is a number of slots. Its holder must release it.
type Lease struct {
	item   *item
	holder *Holder
	n      int64
	lost   chan struct{}
	losses []*func() // to call when they are lost; under the item's mu
}

// Lost returns a channel that is closed when the slots are lost: others may have them.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// OnLoss calls f when the slots are lost, unless stop is called before. f must not block, nor call
// the lease.
func (l *Lease) OnLoss(f func()) (stop func()) {
	mu := &l.item.mu
	mu.Lock()
	defer mu.Unlock()
	select {
	case <-l.lost:
		f()
		return func() {}
	default:
	}
	l.losses = append(l.losses, &f)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		l.losses = slices.DeleteFunc(l.losses, func(other *func()) bool { return other == &f })
	}
}

// lose tells whoever wants to know that the slots are lost.
func (l *Lease) lose() {
	close(l.lost)
	for _, f := range l.losses {
		(*f)()
	}
}

// Release returns the slots, unless they are lost. It sends nothing: the goroutine of the item
// does. It may be called several times.
func (l *Lease) Release() {
	it := l.item
	it.mu.Lock()
	defer it.mu.Unlock()
	it.book.release(l, l.holder.moment())
	it.rouse()
}

// Abandon is Release for whoever finds that nobody else does. The goroutine of the item takes the
// slots back when it next has something to do, within the time in which it renews. Abandon uses no
// channel and no clock: it may be called from outside of the world that the lease belongs to.
func (l *Lease) Abandon() {
	l.item.mu.Lock()
	defer l.item.mu.Unlock()
	l.item.book.abandoned = append(l.item.book.abandoned, l)
}

// An Ask is what a caller asks for.
type Ask struct {
	store.SlotKey
	Slots int64 // at least 1
	Cap   int64 // slots of all processes
	Waits bool  // for room, in the order of arrival; otherwise the caller is refused
}

// Acquire is [Holder.Begin] and [Pending.Wait].
func (h *Holder) Acquire(ctx context.Context, a Ask) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := h.Begin(a) //nolint:contextcheck // the work of an item is for other callers, too
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// A Pending is a caller that has asked for slots.
type Pending struct {
	item  *item
	claim *claim
}

// Begin asks for slots. It fails with [ErrFull] if there are not so many for all, and with
// [ErrClosed]. The caller must wait, and release the lease that it gets.
func (h *Holder) Begin(a Ask) (*Pending, error) {
	if a.Slots > a.Cap {
		return nil, ErrFull
	}
	return h.ask(a)
}

// IsDecided reports whether Wait need not wait.
func (p *Pending) IsDecided() bool { return p.claim.isDone() }

// Wait waits for a lease, which holds slots until [Lease.Release]. It fails with [ErrFull] if they
// are not there for a caller that does not wait. If ctx ends, the caller leaves the line.
func (p *Pending) Wait(ctx context.Context) (*Lease, error) {
	it, c := p.item, p.claim
	select {
	case <-c.done:
	case <-ctx.Done():
		if it.drop(c) {
			return nil, context.Cause(ctx)
		}
	}
	return c.lease, c.err
}

// Leave takes the caller out of the line, or releases its lease.
func (p *Pending) Leave() {
	if !p.item.drop(p.claim) && p.claim.lease != nil {
		p.claim.lease.Release()
	}
}

// drop takes a claim out of the line. It is false if the claim has been decided.
func (it *item) drop(c *claim) bool {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.rouse()
	return it.book.drop(c)
}

// ask adds a claim to the line of its item.
func (h *Holder) ask(a Ask) (*Pending, error) {
	c := &claim{n: a.Slots, waits: a.Waits, done: make(chan struct{})}
	for {
		it := h.item(a.SlotKey)
		if it == nil {
			return nil, ErrClosed
		}
		it.mu.Lock()
		if !it.ended {
			m := h.moment()
			c.since, c.lease = m.up, &Lease{item: it, holder: h, n: a.Slots, lost: make(chan struct{})}
			it.book.join(c, a.Cap, m)
			if !c.isDone() {
				it.rouse()
			}
			it.mu.Unlock()
			return &Pending{it, c}, nil
		}
		it.mu.Unlock()
		h.forget(it)
	}
}

// item returns the item of a key, which it begins if need be; nil if the holder is closed.
func (h *Holder) item(k store.SlotKey) *item {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	it := h.items[k]
	if it == nil {
		it = &item{wake: make(chan struct{}, 1)}
		it.book = book{SlotKey: k, process: h.process, seq: func() int64 { return h.seq.Add(1) }, rand: h.o.Rand, holds: map[*Lease]struct{}{}}
		h.items[k] = it
		h.work.Go(func() { h.run(it) })
	}
	return it
}

func (h *Holder) moment() moment { return moment{h.o.Uptime(), h.o.Now()} }

// rouse has the goroutine look at the book.
func (it *item) rouse() {
	select {
	case it.wake <- struct{}{}:
	default:
	}
}

// run carries out what the book of an item says, until nothing is left to do.
func (h *Holder) run(it *item) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		it.mu.Lock()
		m := h.moment()
		s, lost := it.book.next(m)
		fence := it.book.fence
		if it.book.out == 0 {
			fence = m.up + requestTime
		}
		it.ended = s == step{}
		it.mu.Unlock()
		h.note(it, lost)
		switch {
		case it.ended:
			h.forget(it)
			return
		case s.until == 0:
			h.send(it, s, m, min(requestTime, fence-m.up))
		default:
			timer.Reset(s.until - m.up)
			select {
			case <-timer.C:
			case <-it.wake:
			}
		}
	}
}

// send carries out a write or a look, within a time.
func (h *Holder) send(it *item, s step, sent moment, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var out store.SlotOutcome
	var err error
	if s.write != nil {
		out, err = h.store.Hold(ctx, s.write)
	} else {
		out.Image, err = h.store.Slots(ctx, it.book.SlotKey)
	}
	it.mu.Lock()
	var lost int64
	b, m, closed := &it.book, h.moment(), it.book.closed
	switch {
	case err != nil:
		b.failed(err, m)
		if closed {
			b.own = nil // others remove it
		}
	case s.write != nil:
		lost = b.wrote(s.write, out, sent, m)
	default:
		lost = b.looked(out.Image, m)
	}
	it.mu.Unlock()
	if out.Applied {
		h.Removed.Add(uint64(len(s.write.Dead)))
	}
	h.note(it, lost)
}

// note counts slots that are lost, and logs them.
func (h *Holder) note(it *item, lost int64) {
	if lost == 0 {
		return
	}
	h.Lost.Add(uint64(lost)) //nolint:gosec // it is not negative
	k := it.book.SlotKey
	h.o.Logger.Warn("slots lost", "entity", k.Entity, "resource", k.Resource, "limit", k.Limit, "slots", lost)
}

// A Use is how many slots of an item the callers of a process hold and wait for.
type Use struct {
	store.SlotKey
	Held, Waiting int64
}

// Uses are those of all items that the process knows of.
func (h *Holder) Uses() []Use {
	h.mu.Lock()
	items := slices.Collect(maps.Values(h.items))
	h.mu.Unlock()
	uses := make([]Use, len(items))
	for i, it := range items {
		it.mu.Lock()
		uses[i] = Use{SlotKey: it.book.SlotKey, Held: it.book.out}
		for _, c := range it.book.line {
			uses[i].Waiting += c.n
		}
		it.mu.Unlock()
	}
	return uses
}

// Processes is how many processes hold slots of a bucket's limits, this one among them, by what was
// seen last. It is 0 if none of its slots are in use here.
func (h *Holder) Processes(entity, resource string) int {
	h.mu.Lock()
	items := slices.Collect(maps.Values(h.items))
	h.mu.Unlock()
	names := map[string]bool{}
	for _, it := range items {
		if it.book.Entity != entity || it.book.Resource != resource {
			continue
		}
		names[h.process] = true
		it.mu.Lock()
		if it.book.image != nil {
			for i := range it.book.image.Holdings {
				if of := &it.book.image.Holdings[i]; !of.IsLease() {
					names[of.Process] = true
				}
			}
		}
		it.mu.Unlock()
	}
	return len(names)
}

// forget drops an item that has ended.
func (h *Holder) forget(it *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.items[it.book.SlotKey] == it {
		delete(h.items, it.book.SlotKey)
	}
}

// Close returns all slots, and ends the leases that have not released theirs. It returns once
// nothing is under way.
func (h *Holder) Close() {
	h.mu.Lock()
	h.closed = true
	for _, it := range h.items {
		it.mu.Lock()
		it.book.close()
		it.rouse()
		it.mu.Unlock()
	}
	h.mu.Unlock()
	h.work.Wait()
}
