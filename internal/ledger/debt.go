package ledger

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Debt is what one write is to debit an item of again: its entries were removed, so what was reserved went
// back, and leases have used it. Amounts have each limit once, and may be none. What went back to a period that has
// ended only counts, in a write of its own, after the others. The caller ends the debt with [Book.Pay].
type Debt struct {
	Amounts []store.Amount

	of    store.Bucket
	parts []Freed
}

// Owed returns what an item is owed, as far as an image tells, with own if that is owed; nil if nothing, or if
// another caller pays.
func (b *Book) Owed(img *store.Image, own *Freed, now int64) *Debt {
	if b.IsEmpty() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.items[img.Bucket]
	if p == nil || p.paying {
		return nil
	}
	if !own.IsTold() && !b.isThere(own.entry, img) && own.entry.removed {
		own.entry.free(own.amounts, 0)
		own.amounts = nil
	}
	current, past := &Debt{of: img.Bucket}, &Debt{of: img.Bucket}
	for _, e := range p.entries {
		if !b.isThere(e, img) && e.removed {
			e.owes(img, current, past, now)
		}
	}
	d, until := current, func(limit string) int64 { return plan.PeriodEnd(img, limit) }
	if len(d.parts) == 0 {
		d, until = past, func(string) int64 { return store.NoBalance }
	}
	if len(d.parts) == 0 {
		return nil
	}
	d.Amounts = positive(d.Amounts)
	for i := range d.Amounts {
		d.Amounts[i].Until = until(d.Amounts[i].Limit)
	}
	p.paying = true
	return d
}

// owes adds what an entry has freed to the debt of the period that it began in.
func (e *Entry) owes(img *store.Image, current, past *Debt, now int64) {
	for _, a := range e.freed {
		d := past
		s, has := img.Limit(a.Limit)
		if !has || plan.IsOfPeriod(img, &s, e.name, now) {
			d = current
		}
		d.parts = append(d.parts, Freed{e, []store.Amount{a}})
		if has { // otherwise there is nothing to debit
			d.Amounts = add(d.Amounts, a.Limit, a.Milli)
		}
	}
}

// positive leaves out what is no debit.
func positive(amounts []store.Amount) []store.Amount {
	return slices.DeleteFunc(amounts, func(a store.Amount) bool { return a.Milli <= 0 })
}

// Pay ends a debt. If it was not debited, it is owed as before.
func (b *Book) Pay(d *Debt, paid bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.items[d.of]; p != nil {
		p.paying = false
	}
	if !paid {
		return
	}
	for _, part := range d.parts {
		for _, a := range part.amounts {
			part.entry.freed = add(part.entry.freed, a.Limit, -a.Milli)
		}
	}
}

// Void drops what is reserved of an item that no longer exists: nothing of it goes back.
func (b *Book) Void(of store.Bucket) {
	if b.IsEmpty() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.items[of]; p != nil {
		for _, e := range p.entries {
			e.held, e.freed, e.removed = nil, nil, true
		}
	}
}

// A Due is an item to which the process is to write for its reservations.
type Due struct {
	store.Bucket
	Renews bool // even if nothing has been freed
}

// Due returns the items that are to be written to by now, and how long to rest until the next ones, if nothing
// happens. With all, it returns each that has freed something. It forgets entries that have had nothing for
// long. idle says that the book has nothing that will ever be due.
func (b *Book) Due(up time.Duration, all bool) (due []Due, rest time.Duration, idle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := up + mostRest
	idle = true
	for of, p := range b.items {
		p.entries = slices.DeleteFunc(p.entries, func(e *Entry) bool {
			return len(e.held)+len(e.freed)+e.inFlight == 0 && (e.removed || up-max(p.wrote, e.freedAt) > plan.LostAfter)
		})
		if len(p.entries) == 0 && !p.paying {
			delete(b.items, of)
			b.size.Add(-1)
			continue
		}
		at := p.due(up)
		if at == never {
			continue
		}
		idle = false
		switch {
		case at <= up || all && p.hasFreed():
			due = append(due, Due{of, up-p.wrote >= RenewAge})
		default:
			next = min(next, at)
		}
	}
	return due, max(leastRest, next-up), idle
}

// never is no instant of the uptime.
const never = time.Duration(1<<63 - 1)

// due is when the item is to be written to, by the uptime.
func (p *page) due(up time.Duration) time.Duration {
	at := never
	for _, e := range p.entries {
		switch {
		case len(e.freed) > 0 && e.removed:
			at = up
		case len(e.freed) > 0:
			at = min(at, e.freedAt+FreedAge)
		}
		if len(e.held) > 0 && !e.removed {
			at = min(at, p.wrote+RenewAge)
		}
	}
	return at
}

func (p *page) hasFreed() bool {
	return slices.ContainsFunc(p.entries, func(e *Entry) bool { return len(e.freed) > 0 })
}

// HasFreed reports whether anything freed of an item is to be told.
func (b *Book) HasFreed(of store.Bucket) bool {
	if b.IsEmpty() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.items[of]
	return p != nil && p.hasFreed()
}

// Wrote records that a write of the process has left its number at a position of an item.
func (b *Book) Wrote(of store.Bucket, up time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.items[of]; p != nil {
		p.wrote = up
	}
}
