package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/internal/token"
	"github.com/zeroae/zae-limiter-go/store"
)

// MinSlotsWritten is the least time for which a lease with slots is written down. SlotSkew is how long before
// its end whoever works under it gives up.
const (
	MinSlotsWritten = slots.MinWritten
	SlotSkew        = slots.Skew
)

// Entries are the slots as they are written down.
func (h *HeldSlots) Entries() (entries []token.Slots) {
	for _, a := range h.asks[:len(h.leases)] {
		entries = append(entries, token.Slots{Entity: a.Entity, Limit: a.Limit, Held: a.Slots})
	}
	return entries
}

// EntryOf is the entry of a lease's slots, but for their number.
func EntryOf(l *token.Lease) store.Holding {
	return store.Holding{Process: l.Entry(), Until: (l.Made + l.Within) * time.Second.Milliseconds(), Seq: l.Within}
}

// WriteDown gives the slots of requests to entries that do not end with the process (ADR 069): those of all
// limits, or of none. It fails with [ErrSlotsLost] if some are lost.
func (d *Driver) WriteDown(ctx context.Context, what string, held []*HeldSlots, entry store.Holding) error {
	var leases []*slots.Lease
	for _, h := range held {
		leases = append(leases, h.leases...)
	}
	overs, errs := make([]*slots.Handover, len(leases)), make([]error, len(leases))
	bound, cancel := context.WithTimeout(ctx, d.Time())
	defer cancel()
	d.AtOnce(len(leases), func(i int) { overs[i], errs[i] = d.slots.HandOver(bound, leases[i], entry) })
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	for _, h := range overs {
		h.TakeBack() //nolint:contextcheck // the call may be over
	}
	switch {
	case errors.Is(err, ErrSlotsLost):
		return fmt.Errorf("%s: %w", what, ErrSlotsLost)
	case bound.Err() != nil:
		return process.OutOfTime(bound, what)
	}
	return fmt.Errorf("%s: %w", what, process.Unavailable(err))
}

// EndSlots gives the slots of a lease back that was written down, in all its limits. It does nothing where that
// was done before, or where the time of the lease was up.
func (d *Driver) EndSlots(ctx context.Context, l *token.Lease) error {
	return d.eachWritten(l, "give back", func(k store.SlotKey, entry store.Holding) error { return d.slots.End(ctx, k, entry) })
}

// ExtendSlots lets the slots of a lease that was written down end later. It fails with [ErrSlotsLost] if the lease
// has been settled, or its time was up.
func (d *Driver) ExtendSlots(ctx context.Context, was, to *token.Lease) error {
	return d.eachWritten(was, "extend", func(k store.SlotKey, entry store.Holding) error {
		return d.slots.Extend(ctx, k, entry, EntryOf(to))
	})
}

// eachWritten does something with the entries of a lease, at the same time.
func (d *Driver) eachWritten(l *token.Lease, verb string, do func(store.SlotKey, store.Holding) error) error {
	var keys []store.SlotKey
	var entries []store.Holding
	for i := range l.Resources {
		r := &l.Resources[i]
		for _, s := range r.Slots {
			entry := EntryOf(l)
			entry.Held = s.Held
			keys, entries = append(keys, store.SlotKey{Entity: s.Entity, Resource: r.Name, Limit: s.Limit}), append(entries, entry)
		}
	}
	if len(keys) > 0 && d.slots == nil {
		return fmt.Errorf("%s slots: the store keeps none: %w", verb, store.ErrUnsupported)
	}
	errs := make([]error, len(keys))
	d.AtOnce(len(keys), func(i int) {
		if err := do(keys[i], entries[i]); err != nil {
			errs[i] = fmt.Errorf("%s slots of %s of %s for %s: %w", verb, keys[i].Limit, keys[i].Resource, keys[i].Entity, err)
		}
	})
	return errors.Join(errs...)
}
