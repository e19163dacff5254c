package slots

import (
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// The times of entries.
const (
	LeaseTime = lease
)

// A Book is a [book] that a test drives.
type Book struct {
	book

	Up  func() time.Duration
	Now func() int64 // ms

	sent moment
}

// NewBook returns the book of a process.
func NewBook(process string, k store.SlotKey, rand func(int64) int64, seq func() int64) *Book {
	return &Book{book: book{SlotKey: k, process: process, rand: rand, seq: seq, holds: map[*Lease]struct{}{}}}
}

func (b *Book) moment() moment { return moment{b.Up(), b.Now()} }

// A Claim is what a caller of a Book has got.
type Claim struct{ c *claim }

// Lease is the lease of a claim; nil if there is none.
func (c Claim) Lease() *Lease {
	if !c.c.isDone() {
		return nil
	}
	return c.c.lease
}

// IsDone reports whether the claim was granted or refused.
func (c Claim) IsDone() bool { return c.c.isDone() }

// Join adds a caller.
func (b *Book) Join(n, most int64, waits bool) Claim {
	m := b.moment()
	c := &claim{n: n, waits: waits, since: m.up, lease: &Lease{n: n, lost: make(chan struct{})}, done: make(chan struct{})}
	b.join(c, most, m)
	return Claim{c}
}

// Leave takes a caller out of the line.
func (b *Book) Leave(c Claim) { b.drop(c.c) }

// Return takes a lease back.
func (b *Book) Return(l *Lease) { b.release(l, b.moment()) }

// A HandOver is a lease of a Book that is being written down.
type HandOver struct{ *handover }

// HandOver begins to write a lease down.
func (b *Book) HandOver(l *Lease, entry store.Holding) HandOver {
	entry.Held = l.n
	h := &handover{lease: l, entry: entry, done: make(chan struct{})}
	b.handOver(h)
	return HandOver{h}
}

// TakeBack takes it back.
func (b *Book) TakeBack(h HandOver) { b.takeBack(h.handover) }

// Is returns whether it is decided, and the error.
func (h HandOver) Is() (done bool, err error) { return h.isDone(), h.err }

// Lease is the lease, and Entry its entry.
func (h HandOver) Lease() *Lease        { return h.lease }
func (h HandOver) Entry() store.Holding { return h.entry }

// HandOverTime is how long a handover may take.
const HandOverTime = handOverTime

// Next is what to send: a write, a look, or nothing.
func (b *Book) Next() (write *store.Hold, look bool) {
	b.sent = b.moment()
	s, _ := b.next(b.sent)
	return s.write, s.look
}

// Answer gives the answer to what was sent last.
func (b *Book) Answer(h *store.Hold, out store.SlotOutcome, err error) {
	switch {
	case err != nil:
		b.failed(err, b.moment())
	case h == nil:
		b.looked(out.Image, b.moment())
	default:
		b.wrote(h, out, b.sent, b.moment())
	}
}

// Held is how many slots leases have, and until when.
func (b *Book) Held() (slots int64, until time.Duration) { return b.out, b.fence }
