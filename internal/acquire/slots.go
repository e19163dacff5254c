package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/store"
)

// ErrSlotsLost is the cause with which a context ends because slots are lost.
var ErrSlotsLost = slots.ErrLost

// A SlotRequest asks for slots of limits of an entity and, if it cascades, of its parent.
type SlotRequest struct {
	Entity string
	Parts  []SlotPart
	Waits  bool // for room
}

// A SlotPart is what a request asks for of one resource.
type SlotPart struct {
	Resource string
	Slots    map[string]int64  // by limit; at least 1 of each
	Fallback []store.SlotLimit // as those of a [Request]
}

// A FullError says that the slots of a limit are held.
type FullError struct {
	store.SlotKey
	Slots int64 // asked for
	Of    int64
}

// Error says which slots.
func (e *FullError) Error() string {
	return fmt.Sprintf("%d slots of %s of %s for %s are not there, of %d", e.Slots, e.Limit, e.Resource, e.Entity, e.Of)
}

// HeldSlots are the slots of a request: held, or asked for.
type HeldSlots struct {
	driver *Driver
	what   string
	waits  bool
	asks   []slots.Ask
	begun  []*slots.Pending // of the first asks
	leases []*slots.Lease   // of the first of those
}

// BeginSlots asks for slots, of all limits of all resources at once. A request that waits gets one
// after the other: those of the entity before those of its parent, and of each in the order of
// resources and limits. So no two requests wait for each other's slots. The caller calls
// [HeldSlots.Wait] and then, whatever that says, [HeldSlots.Release].
func (d *Driver) BeginSlots(ctx context.Context, req *SlotRequest) (*HeldSlots, error) {
	h := &HeldSlots{driver: d, what: "hold slots of " + req.Parts[0].Resource + " for " + req.Entity, waits: req.Waits}
	if d.slots == nil {
		return h, fmt.Errorf("%s: the store keeps none: %w", h.what, store.ErrUnsupported)
	}
	for i := range req.Parts {
		if err := h.plan(ctx, req, &req.Parts[i]); err != nil {
			return h, err
		}
	}
	slices.SortFunc(h.asks, func(a, b slots.Ask) int {
		return cmp.Or(
			cmp.Compare(rank(a.Entity == req.Entity), rank(b.Entity == req.Entity)),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit),
		)
	})
	if req.Waits {
		return h, nil
	}
	for range h.asks {
		if err := h.begin(); err != nil { //nolint:contextcheck // the work of an item is for other callers, too
			return h, err
		}
	}
	return h, nil
}

// rank orders the slots of the entity before those of its parent.
func rank(own bool) int {
	if own {
		return 0
	}
	return 1
}

// plan finds out which slots the request needs of a resource.
func (h *HeldSlots) plan(ctx context.Context, req *SlotRequest, part *SlotPart) error {
	own := store.Bucket{Entity: req.Entity, Resource: part.Resource}
	w, err := h.driver.wanted(ctx, own)
	if err != nil {
		return err
	}
	limits := w.Slots
	if len(limits) == 0 {
		limits = part.Fallback
	}
	missing := h.add(own, w, limits, part)
	payer := plan.PayerOf(&w.Owner)
	if payer != "" {
		of := store.Bucket{Entity: payer, Resource: part.Resource}
		pw, err := h.driver.wanted(ctx, of)
		if err != nil {
			return err
		}
		lacks := h.add(of, pw, pw.Slots, part)
		missing = slices.DeleteFunc(missing, func(name string) bool { return !slices.Contains(lacks, name) })
	}
	if len(missing) == 0 {
		return nil
	}
	e := &store.NotConfiguredError{Entity: req.Entity, Resource: part.Resource, Limits: missing, Slots: true}
	if len(w.Slots) > 0 {
		e.Level = plan.ConfigKeys(req.Entity, part.Resource)[w.SlotsAt].String()
	}
	for _, l := range limits {
		e.Known = append(e.Known, l.Name)
	}
	return e
}

// add adds the slots of an entity, and returns the limits that it does not have. A bypassed entity
// needs none, and a disabled one gets none.
func (h *HeldSlots) add(b store.Bucket, w *plan.Wanted, limits []store.SlotLimit, part *SlotPart) (missing []string) {
	for _, name := range slices.Sorted(maps.Keys(part.Slots)) {
		of := plan.SlotsOf(limits, name)
		switch {
		case of == 0:
			missing = append(missing, name)
		case !w.Switches.At(h.driver.Now()).Bypassed:
			h.asks = append(h.asks, slots.Ask{
				SlotKey: store.SlotKey{Entity: b.Entity, Resource: b.Resource, Limit: name}, Slots: part.Slots[name], Cap: of, Waits: h.waits,
			})
		}
	}
	return missing
}

// wanted is what is configured for a bucket, of which it fails if the bucket is disabled. It is
// read if what is remembered is older than the time to live.
func (d *Driver) wanted(ctx context.Context, b store.Bucket) (*plan.Wanted, error) {
	acct := d.accounts.of(b.Entity, b.Resource)
	w := acct.Wanted()
	if w == nil || !d.Config.IsYoung(w, d.Uptime()) {
		var err error
		if w, err = d.Verify(ctx, &acct.Account, b); err != nil {
			return nil, err
		}
	}
	if is := w.Switches.At(d.Now()); is.Disabled {
		return nil, disabledError(b, is)
	}
	return w, nil
}

// begin asks for the next slots.
func (h *HeldSlots) begin() error {
	a := h.asks[len(h.begun)]
	p, err := h.driver.slots.Begin(a)
	if err == nil {
		h.begun = append(h.begun, p)
	}
	return h.explain(a, err)
}

// IsDecided reports whether Wait need not wait.
func (h *HeldSlots) IsDecided() bool {
	return len(h.begun) == len(h.asks) && !slices.ContainsFunc(h.begun, func(p *slots.Pending) bool { return !p.IsDecided() })
}

// Wait waits until all slots are held, or until there is no room for some.
func (h *HeldSlots) Wait(ctx context.Context) error {
	for i, a := range h.asks {
		if i == len(h.begun) {
			if err := h.begin(); err != nil { //nolint:contextcheck // as above
				return err
			}
		}
		if i < len(h.leases) {
			continue
		}
		lease, err := h.begun[i].Wait(ctx)
		if err != nil {
			h.begun = slices.Delete(h.begun, i, i+1) // it has nothing to release
			h.asks = slices.Delete(h.asks, i, i+1)
			return h.explain(a, err)
		}
		h.leases = append(h.leases, lease)
	}
	return nil
}

// Of are the slots of one resource, which are released for themselves.
func (h *HeldSlots) Of(resource string) *HeldSlots {
	of := &HeldSlots{driver: h.driver, what: h.what, waits: h.waits}
	for i, a := range h.asks {
		if a.Resource != resource {
			continue
		}
		of.asks = append(of.asks, a)
		if i < len(h.begun) {
			of.begun = append(of.begun, h.begun[i])
		}
		if i < len(h.leases) {
			of.leases = append(of.leases, h.leases[i])
		}
	}
	return of
}

// explain is an error of slots for callers of a limiter.
func (h *HeldSlots) explain(a slots.Ask, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, slots.ErrFull):
		return &FullError{SlotKey: a.SlotKey, Slots: a.Slots, Of: a.Cap}
	case errors.Is(err, slots.ErrClosed):
		return fmt.Errorf("%s: %w", h.what, process.ErrClosed)
	case h.waits: // its context has ended
		return fmt.Errorf("%s: %w: %w", h.what, err, &FullError{SlotKey: a.SlotKey, Slots: a.Slots, Of: a.Cap})
	}
	return fmt.Errorf("%s: %w", h.what, err)
}

// Release returns all slots, and takes the request out of all lines.
func (h *HeldSlots) Release() {
	for _, p := range h.begun {
		p.Leave()
	}
}

// Abandon is Release for a lease that nobody ends, see [slots.Lease.Abandon].
func (h *HeldSlots) Abandon() {
	for _, l := range h.leases {
		l.Abandon()
	}
}

// OnLoss calls f when slots are lost, unless stop is called before. f must not block.
func (h *HeldSlots) OnLoss(f func()) (stop func()) {
	stops := make([]func(), len(h.leases))
	for i, l := range h.leases {
		stops[i] = l.OnLoss(f)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// SlotCounts are how many slots were lost, and how many entries of processes that are gone were
// removed.
func (d *Driver) SlotCounts() (lost, removed uint64) {
	if d.slots == nil {
		return 0, 0
	}
	return d.slots.Lost.Load(), d.slots.Removed.Load()
}

// SlotUses are how many slots the requests of the process hold and wait for, in no order.
func (d *Driver) SlotUses() []slots.Use {
	if d.slots == nil {
		return nil
	}
	return d.slots.Uses()
}

// CloseSlots returns all slots. Leases that have any lose them.
func (d *Driver) CloseSlots() {
	if d.slots != nil {
		d.slots.Close()
	}
}
