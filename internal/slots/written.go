package slots

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// MinWritten is the least time for which a lease is written down, and handOverTime how long that may take. So
// what is taken back is held by its entry for longer than until the fence of the process.
const (
	MinWritten   = 30 * time.Second
	handOverTime = 10 * time.Second
)

// Skew is by how much the clock of a process may differ from the right time.
const Skew = skew

// A handover is a lease that is written down: its slots go from the entry of the process to one of their
// own, in one write (ADR 069).
//
// The naive way makes the new entry first, and lowers the own one then: with all slots held there is no
// room for it. The other order has a moment in which others take the slots. And a write whose answer is lost
// may have been applied. So the lease stays one of the process until an image shows what became of the
// write: the number of the process's entry says which write was applied last.
type handover struct {
	lease *Lease
	entry store.Holding
	seqs  []int64 // of the writes that have it, of which at most one is applied
	err   error   // once done
	done  chan struct{}
}

func (h *handover) end(err error) {
	h.err = err
	close(h.done)
}

func (h *handover) isDone() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// handOver begins to write a lease down.
func (b *book) handOver(h *handover) {
	if _, isOut := b.holds[h.lease]; !isOut {
		h.end(ErrLost)
		return
	}
	delete(b.holds, h.lease)
	b.leaving = append(b.leaving, h)
}

// send notes that a write is sent, which writes leases down.
func (b *book) send(h *store.Hold) {
	for _, l := range b.leaving[:min(len(b.leaving), store.MaxWritten)] {
		h.Written = append(h.Written, l.entry)
		h.Next.Held -= l.lease.n
		l.seqs = append(l.seqs, h.Next.Seq)
	}
}

// left ends the handovers of which an image shows that they are done.
func (b *book) left(is func(*handover) bool) {
	b.leaving = slices.DeleteFunc(b.leaving, func(h *handover) bool {
		if !is(h) {
			return false
		}
		b.out -= h.lease.n
		h.end(nil)
		return true
	})
}

// takeBack makes a lease one of the process again that was to be written down. If that was done, or may
// have been, the next write removes the entry, and takes its slots.
func (b *book) takeBack(h *handover) {
	if i := slices.Index(b.leaving, h); i >= 0 {
		b.leaving = slices.Delete(b.leaving, i, i+1)
	} else if h.err != nil {
		return // it is lost
	} else {
		b.out += h.lease.n
	}
	b.disown(h)
	if b.closed {
		h.lease.lose()
		b.out -= h.lease.n
		return
	}
	b.holds[h.lease] = struct{}{}
}

// disown notes that the entry of a lease is nobody's, if it was ever sent.
func (b *book) disown(h *handover) {
	if len(h.seqs) == 0 {
		return
	}
	if b.strays == nil {
		b.strays = map[string]struct{}{}
	}
	b.strays[h.entry.Process] = struct{}{}
}

func (b *book) isStray(name string) bool {
	_, is := b.strays[name]
	return is
}

// settleStrays forgets those that the last image does not show. No earlier write can be applied any more.
func (b *book) settleStrays() {
	for name := range b.strays {
		if b.image.Of(name) == nil {
			delete(b.strays, name)
		}
	}
}

// expiresAt is when an item may be deleted that was written at an instant, in ms; in seconds.
func expiresAt(now int64) int64 { return now/time.Second.Milliseconds() + int64(expiry/time.Second) }

// A Handover is a lease that was, or is being, written down.
type Handover struct {
	*handover

	holder *Holder
}

// HandOver writes a lease down: an entry of a name holds its slots until an instant, whatever becomes of the
// process. That is at least [MinWritten] from now. It fails with [ErrLost] if the slots are lost. After any
// other error, or if the caller does not need the entry, the caller must call [Handover.TakeBack] at once.
func (h *Holder) HandOver(ctx context.Context, l *Lease, entry store.Holding) (*Handover, error) {
	entry.Held = l.n
	ho := &handover{lease: l, entry: entry, done: make(chan struct{})}
	it := l.item
	it.mu.Lock()
	it.book.handOver(ho)
	it.rouse()
	it.mu.Unlock()
	of := &Handover{ho, h}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	select {
	case <-ho.done:
		return of, ho.err
	case <-ctx.Done():
		return of, context.Cause(ctx)
	}
}

// TakeBack makes the lease one of the process again, which its holder must release. If the item of the
// slots has been forgotten meanwhile, they are lost, and the entry is removed.
func (h *Handover) TakeBack() {
	it := h.lease.item
	it.mu.Lock()
	isOver := it.ended
	if !isOver {
		it.book.takeBack(h.handover)
		it.rouse()
	} else if h.isDone() && h.err == nil {
		h.lease.lose()
	}
	it.mu.Unlock()
	if isOver {
		h.holder.removeLater(it.book.SlotKey, h.entry)
	}
}

// removeLater removes an entry, unless the holder is closed or the store does not answer: it ends then.
func (h *Holder) removeLater(k store.SlotKey, entry store.Holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTime)
		defer cancel()
		_ = h.End(ctx, k, entry)
	})
}

// End removes the entry of a lease that was written down, whichever process made it. It does nothing if
// the entry is gone: the lease has ended before, or its time was up. entry is as the caller knows it;
// another token of the lease may have extended it.
func (h *Holder) End(ctx context.Context, k store.SlotKey, entry store.Holding) error {
	_, err := h.amend(ctx, k, entry, func(seen store.Holding) (next store.Holding, isDue bool) {
		return store.Holding{Process: seen.Process, Seq: seen.Seq + 1}, true
	})
	return err
}

// Extend lets the entry of a lease that was written down end later. It fails with [ErrLost] if the entry is
// gone.
func (h *Holder) Extend(ctx context.Context, k store.SlotKey, entry, to store.Holding) error {
	isThere, err := h.amend(ctx, k, entry, func(seen store.Holding) (next store.Holding, isDue bool) {
		next = seen
		next.Until, next.Seq = to.Until, to.Seq
		return next, to.Seq > seen.Seq
	})
	if err == nil && !isThere {
		err = ErrLost
	}
	return err
}

// amend replaces the entry of a lease that was written down, by what becomes of it as it is. isThere is false if
// the entry is gone. A repetition finds it as the first try left it, or gone.
func (h *Holder) amend(ctx context.Context, k store.SlotKey, seen store.Holding, becomes func(store.Holding) (store.Holding, bool)) (isThere bool, err error) {
	for {
		next, isDue := becomes(seen)
		if !isDue {
			return true, nil
		}
		out, err := h.store.Hold(ctx, &store.Hold{SlotKey: k, Seen: &seen, Next: next, ExpiresAt: expiresAt(h.o.Now())})
		if err != nil || out.Applied {
			return true, err
		}
		is := out.Image.Of(seen.Process)
		if is == nil {
			return false, nil
		}
		seen = *is
	}
}
