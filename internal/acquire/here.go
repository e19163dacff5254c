package acquire

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/plan"
)

// A Rest is what remains to be done of an acquire, see [Driver.Acquire]. It may take time.
type Rest func(ctx context.Context)

// Start does on the caller's goroutine what it can of an acquire. rest is what remains, for a
// goroutine of its own; it is nil if the claims are granted, and nothing remains.
//
// The naive acquire runs on a goroutine of its own, because its caller may leave (ADR 005).
// Waking that one, and the caller again, costs a third of an acquire's CPU time. But most
// acquires need one write on each side, in which nobody else has a part: the buckets are known,
// and the answers grant the claims. The caller carries such writes itself, under contexts with
// which it can leave meanwhile (ADR 038). It sends both before it waits for either:
//
//	caller   ── child's write ── parent's ──▶ both granted
//	                               ├─ refused, failed ─────▶ rest: the next steps
//	                               └─ the caller has left ──▶ rest: waits for the answers
//
// The rest is the whole acquire if that is likely to need more than such writes, or names
// several resources. Parts say what became of the acquire, after the rest if there is one.
func (d *Driver) Start(ctx *calls.Leavable, req *Request, left <-chan struct{}, parts []Part) (rest Rest) {
	if d.Leavable && d.writer.isQueued() && len(parts) == 1 {
		h := here{d: d, req: req}
		if h.prepare(ctx, left) {
			return h.carry(&parts[0])
		}
	}
	return func(ctx context.Context) { d.Acquire(ctx, req, left, parts) }
}

// A here is an acquire whose first writes its caller carries.
type here struct {
	d             *Driver
	req           *Request
	child, parent carried // the parent has no claim if the entity does not cascade
}

func (h *here) cascades() bool { return h.parent.p.c != nil }

// prepare plans the writes. It reports whether the caller may carry them, and then leads.
func (h *here) prepare(ctx *calls.Leavable, left <-chan struct{}) bool {
	accounts := h.d.accounts
	if h.child = (carried{d: h.d, ctx: ctx}); !h.child.prepare(accounts.claim(h.req), h.req.At, left) {
		return false
	}
	if payer := plan.CascadeOf(h.child.p.img); payer != "" {
		h.parent = carried{d: h.d, ctx: ctx.Another()}
		if !h.parent.prepare(accounts.parentClaim(h.req, payer), h.req.At, left) || len(UnknownToAll(h.child.p.c, h.parent.p.c)) > 0 {
			return false
		}
	}
	return h.lead()
}

// lead takes the caller to the front of both lanes, or of none. To choose comes last, because
// only one write for a while may go to an item that was throttled.
func (h *here) lead() bool {
	leads := h.child.seize() && (!h.cascades() || h.parent.seize()) && h.child.choose() && (!h.cascades() || h.parent.choose())
	if !leads {
		h.child.leave()
		h.parent.leave()
	}
	return leads
}

// carry writes. A nil rest says that the claims are granted, and nothing remains.
func (h *here) carry(part *Part) Rest {
	var granted bool
	payer := ""
	if h.cascades() {
		granted, payer = h.carryBoth(), h.parent.p.c.Entity
	} else {
		h.child.begin(h.child.ctx)
		granted = h.child.meet()
	}
	if granted && h.child.p.c.Parent == payer {
		*part = Part{Child: h.child.p.c, Parent: h.parent.p.c}
		return nil
	}
	return h.rest(part)
}

// carryBoth is carry with a parent. Its answer comes first: callers of many children may wait in
// the parent's lane, and must not wait for this child's bucket there.
func (h *here) carryBoth() (granted bool) {
	child, parent := &h.child, &h.parent
	child.begin(child.ctx.Begin())
	parent.begin(parent.ctx.Begin())
	granted = !errors.Is(child.err, calls.ErrApart)
	for _, w := range [...]*carried{parent, child} {
		if granted && errors.Is(w.err, calls.ErrGoesOn) {
			w.write(w.ctx.GoOn())
		}
		granted = w.meet() && granted
	}
	return granted
}

// rest is what remains after the caller has written.
func (h *here) rest(part *Part) Rest {
	own := *h // only a rest outlives the caller
	return func(ctx context.Context) {
		both, errs, n := [...]*carried{&own.child, &own.parent}, [2]error{}, 1
		if own.cascades() {
			n = len(both)
		}
		own.d.AtOnce(n, func(i int) { errs[i] = both[i].finish(ctx) })
		*part = own.d.complete(ctx, own.req, sides{own.child.p.c, own.parent.p.c, errs[0], errs[1]}, own.child.p.left)
	}
}
