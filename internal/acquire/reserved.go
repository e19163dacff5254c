package acquire

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// What a lease has reserved ends with the lease (ADR 071). The book frees it first, and the next write to the item
// tells that, which mostly is the lease's own. If the write is turned away, what was freed stays so: less goes
// back then, and never more.
//
//	commit with changes      frees 600 ── adjusts, and lowers the reservation by 600
//	commit without any       frees 600 ┄┄┄ the next take lowers it; after a minute, the keeper's write does
//	a holder that was taken  frees 600 ── the image lacks the entry: debits 600 again, then adjusts
//	for lost

// HasReserved reports whether anything of what was taken goes back if this process is lost.
func (t *Taken) HasReserved() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return len(p.reserved) > 0 })
}

// Free ends what was reserved of what a lease keeps without a write.
func (s *Settler) Free(t *Taken) {
	for j := range t.parts {
		s.free(&t.parts[j], func(string) int64 { return 0 })
	}
}

// free ends what a part has reserved, but for what stays.
func (s *Settler) free(p *part, stays func(limit string) int64) {
	if p.entry == nil {
		return
	}
	up := s.Uptime()
	for i := range p.reserved {
		a := &p.reserved[i]
		if more := a.Milli - stays(a.Limit); more > 0 {
			if s.Ledger.Free(p.entry, a.Limit, more, up) {
				s.keeper.rouse()
			}
			a.Milli -= more
		}
	}
	p.reserved = slices.DeleteFunc(p.reserved, func(a store.Amount) bool { return a.Milli == 0 })
	s.keep()
}

// freeDue ends what the parts of a lease have reserved before they are settled by deltas. A lease that goes on
// keeps the part that it had reserved of what it keeps.
func (s *Settler) freeDue(t *Taken, deltas [][]store.Amount, closes bool) {
	for j := range t.parts {
		p := &t.parts[j]
		s.free(p, func(limit string) int64 {
			i := slices.IndexFunc(t.Entries, func(e Entry) bool { return e.Limit == limit })
			has, back := plan.AmountOf(p.reserved, limit), int64(0)
			if j < len(deltas) {
				back = max(0, -plan.AmountOf(deltas[j], limit))
			}
			if closes || p.written[i] <= back {
				return 0
			}
			return share(has, p.written[i]-back, p.written[i])
		})
	}
}

// share is the part of an amount that is to it as some is to all, which is more than 0.
func share(of, some, all int64) int64 {
	hi, lo := bits.Mul64(uint64(max(0, of)), uint64(some)) //nolint:gosec // not negative
	quo, _ := bits.Div64(hi, lo, uint64(all))              //nolint:gosec // some is at most all
	return int64(quo)                                      //nolint:gosec // at most of
}

// HandOver ends what was reserved of a lease that another process is to settle: whoever has its token has a
// deadline, and is no process. It fails if the items could not be told, since what was taken could then go back
// twice.
func (s *Settler) HandOver(ctx context.Context, t *Taken) error {
	errs := make([]error, len(t.parts))
	s.AtOnce(len(t.parts), func(j int) {
		p := &t.parts[j]
		if len(p.reserved) == 0 {
			return
		}
		own := s.Ledger.Release(p.entry, p.reserved)
		p.reserved = nil
		if errs[j] = s.tell(ctx, p.image.Bucket, false, own); errs[j] != nil {
			s.Ledger.Untold(own, s.Uptime())
			s.keep()
		}
	})
	return errors.Join(errs...)
}

// tell writes to an item what has been freed of it, and pays what it is owed. With own, which is not in the book
// any more, it does not end before that is told. With renews it writes even if there is nothing, so that others see
// that this process is there.
func (s *Settler) tell(ctx context.Context, b store.Bucket, renews bool, own *ledger.Freed) error {
	acct := s.accounts.of(b.Entity, b.Resource)
	img := acct.Image(b.Shard, s.Uptime(), plan.LostAfter) // a write each five minutes needs no read
	for tries := range process.MaxTries {
		if tries > 0 {
			if err := s.Pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		if img == nil {
			var err error
			if img, err = s.read(ctx, b); img == nil {
				return err
			}
		}
		after, paid, err := s.payOwed(ctx, acct, img, own)
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return err
		case !paid:
			img = after
			continue
		}
		if img = after; !renews && !s.Ledger.HasFreed(b) && own.IsTold() {
			return nil
		}
		out, err := s.settle(ctx, acct, &plan.Debit{Bucket: b, Settling: true}, img, s.Moment(), settling{own: own, renews: true})
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return err
		case out.Applied && own.IsTold():
			s.Ledger.Wrote(b, s.Uptime())
			return nil
		default:
			img = out.Image
		}
	}
	return refusedTooOften(b, process.MaxTries)
}

// read reads an item. If it no longer exists, nothing is reserved of it.
func (s *Settler) read(ctx context.Context, b store.Bucket) (*store.Image, error) {
	loaded, err := s.Store.Load(ctx, &store.Load{Bucket: &b, Consistent: true})
	if err != nil {
		return nil, err
	}
	if loaded.Image == nil {
		s.Ledger.Void(b)
	}
	return loaded.Image, nil
}

// settling is what a settlement does besides.
type settling struct {
	own     *ledger.Freed // it tells this; nil if there is none
	renews  bool          // it writes even if no amount changes
	repeats bool          // it is a debit that is made again unless it is known to be applied; of two that were, one goes back
}

// payOwed debits an item of what it is owed: what went back of this process while it was taken for lost, and was used
// even so. It returns the item after that, and whether it was debited; if not, the item has refused the write.
func (s *Settler) payOwed(ctx context.Context, acct *account, img *store.Image, own *ledger.Freed) (after *store.Image, paid bool, err error) {
	m := s.Moment()
	d := s.Ledger.Owed(img, own, m.Now)
	if d == nil {
		return img, true, nil
	}
	out, err := s.settle(ctx, acct, &plan.Debit{Bucket: img.Bucket, Settling: true, Amounts: d.Amounts}, img, m, settling{repeats: true})
	s.Ledger.Pay(d, err == nil && out.Applied)
	if err != nil {
		return img, false, err
	}
	return out.Image, out.Applied, nil
}

// A keeper is the goroutine that writes for reservations alone: while the process has any.
//
//	freed ── a minute passes, and no other write has carried it ──▶ a write
//	held ─── five minutes pass without any write to the item ────▶ a write
//	removed, and used since ─────────────────────────────────────▶ a write, at once
type keeper struct {
	running atomic.Bool
	wake    chan struct{} // has room for one
	watch   func()        // is [Settler.watch], whose contexts are its own: it is no call's work
}

// rouse lets the keeper look what is due.
func (k *keeper) rouse() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// keep starts the keeper, unless it runs or nothing is reserved.
func (s *Settler) keep() {
	if s.Ledger.IsEmpty() || !s.keeper.running.CompareAndSwap(false, true) {
		return
	}
	if !s.Begin() {
		s.keeper.running.Store(false)
		return
	}
	s.Run(func() {
		defer s.End()
		s.keeper.watch()
	})
}

// watch writes what is due, until nothing will be.
func (s *Settler) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for closing := false; ; {
		due, rest, idle := s.Ledger.Due(s.Uptime(), closing)
		s.writeDue(due)
		switch {
		case closing:
			return
		case idle:
			s.keeper.running.Store(false)
			if _, _, idle = s.Ledger.Due(s.Uptime(), false); idle || !s.keeper.running.CompareAndSwap(false, true) {
				return
			}
		}
		timer.Reset(rest)
		select {
		case <-timer.C:
		case <-s.keeper.wake:
			if !timer.Stop() {
				select {
				case <-timer.C:
				default:
				}
			}
		case <-s.Closing():
			closing = true
		}
	}
}

// writeDue writes to items, some at the same time. What fails is due again.
func (s *Settler) writeDue(due []ledger.Due) {
	const writers = 16
	for some := range slices.Chunk(due, writers) {
		s.AtOnce(len(some), func(i int) {
			ctx, cancel := context.WithTimeout(context.Background(), s.Time())
			defer cancel()
			if err := s.tell(ctx, some[i].Bucket, some[i].Renews, nil); err != nil {
				s.Logger.Warn("reservations not written", "entity", some[i].Entity, "resource", some[i].Resource, "shard", some[i].Shard, "error", err)
			}
		})
	}
}
