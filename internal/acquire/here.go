package acquire

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Rest is what remains to be done of an acquire, see [Driver.Acquire]. It may take time.
type Rest func(ctx context.Context) (child, parent *Claim, err error)

// Start does on the caller's goroutine what it can of an acquire. rest is what remains, for a
// goroutine of its own; it is nil if the child is granted, and nothing remains.
//
// The naive acquire runs on a goroutine of its own, because its caller may leave (ADR 005).
// Waking that one, and the caller again, costs a third of an acquire's CPU time. But most
// acquires need one write, in which nobody else has a part: their bucket is known, and its
// answer grants the claim. The caller carries such a write itself, under a context with which
// it can leave meanwhile (ADR 038):
//
//	caller   ── write ──▶ granted
//	              ├─ refused, failed ─────▶ rest: the next steps
//	              └─ the caller has left ──▶ rest: waits for the answer
//
// The rest is the whole acquire if that is likely to need more than one such write.
func (d *Driver) Start(ctx *calls.Leavable, req *Request, left <-chan struct{}) (child *Claim, rest Rest) {
	if d.Leavable && d.writer.isQueued() {
		h := here{d: d, req: req, left: left}
		if h.prepare() {
			if rest, carried := h.begin(ctx); carried {
				return h.p.c, rest
			}
		}
	}
	return nil, func(ctx context.Context) (child, parent *Claim, err error) { return d.Acquire(ctx, req, left) }
}

// A here is an acquire whose first write its caller carries. It has done what comes before the
// write in [Driver.Acquire], [Driver.pursue], [search.run] and [writer.debitInLane], and
// does what comes after it there.
type here struct {
	d    *Driver
	req  *Request
	left <-chan struct{}

	p    pursuit
	next plan.Step
	ln   *lane.Lane[*Claim] // in which the caller leads
	sent memory.SentWrite
}

// prepare makes the claim and plans its write. It reports whether the caller may carry that,
// and then leads.
func (h *here) prepare() bool {
	d, wr, at := h.d, h.d.writer, h.req.At
	c := d.accounts.claim(h.req)
	w, img := c.acct.Wanted(), c.lastImage(at.Up)
	if img == nil || plan.CascadeOf(img) != "" || c.acct.ShardCount() != 1 || w == nil || !d.Config.IsYoung(w, at.Up) || d.isDisabled(c.acct, at.Up) {
		return false
	}
	c.adopt(w)
	if _, lacked := c.acct.Lacked(0, c.Terms.Amounts, at); lacked || c.want.TakesNothing(&c.Terms) || c.acct.IsSharedShard(0, at.Up) {
		return false
	}
	h.p = pursuit{wr: wr, c: c, left: h.left, img: img, sight: remembered, Moment: at, began: at.Up}
	if h.next = h.p.plan(); h.next.Take == nil && (h.next.Kind != plan.Refill || h.next.Refill.FullSince == 0) {
		return false
	}
	h.ln = &c.acct.enter().at(0).takes
	if !h.ln.Seize(wr.placesFor(h.ln, c)) {
		c.acct.leave()
		return false
	}
	if on, _ := c.acct.Choose(&c.Terms, nil, nil, at, wr.trust, wr.Rand); on != memory.Alone {
		h.leave()
		return false
	}
	return true
}

// leave hands the caller's place on.
func (h *here) leave() {
	h.ln.Leave(h.d.writer.placesFor(h.ln, h.p.c))
	h.p.c.acct.leave()
}

// begin writes. If the caller could not carry the write, nothing was sent. A nil rest says that
// the claim is granted, and nothing remains.
func (h *here) begin(ctx *calls.Leavable) (rest Rest, carried bool) {
	d, c := h.d, h.p.c
	h.sent = c.acct.BeginWrite(0, useOf(&h.next), h.p.Up)
	out, err := h.write(ctx)
	if errors.Is(err, calls.ErrGoesOn) || out.Image != nil && plan.IsAhead(out.Image, h.p.Now) {
		return h.goOn(ctx, out, err), true
	}
	bound := &ctx.Detached // nothing but the write must let the caller leave
	h.record(bound, out, err)
	switch {
	case errors.Is(err, calls.ErrApart):
		h.leave()
		return nil, false
	case err != nil || !out.Applied || plan.CascadeOf(out.Image) != "":
		return h.conclude(out, err), true
	}
	_, _ = h.p.wrote(out, nil, true)
	h.leave()
	if w := c.acct.Wanted(); w == nil || !d.Config.IsYoung(w, d.Uptime()) {
		return h.compare(), true
	}
	d.startUpkeep(bound, c)
	return nil, true
}

func (h *here) write(ctx context.Context) (store.Outcome, error) {
	if h.next.Take != nil {
		return h.d.Store.Take(ctx, h.next.Take)
	}
	return h.d.Store.Refill(ctx, h.next.Refill)
}

func (h *here) record(ctx context.Context, out store.Outcome, err error) {
	c := h.p.c
	h.d.Record(ctx, &c.acct.Account, c.Bucket, h.sent, h.p.Moment, out, err)
}

// goOn is the rest of an acquire whose write is under way, or whose item must be healed.
func (h *here) goOn(of *calls.Leavable, out store.Outcome, err error) Rest {
	own := *h // only a rest outlives the caller
	return func(ctx context.Context) (child, parent *Claim, _ error) {
		if err != nil {
			out, err = own.write(of.Apart()) //nolint:contextcheck // it is the context of the same call
		} else {
			out.Image = own.d.Heal(ctx, out.Image)
		}
		own.record(ctx, out, err)
		return own.finish(ctx, out, err)
	}
}

// conclude is the rest of an acquire whose write has an outcome.
func (h *here) conclude(out store.Outcome, err error) Rest {
	own := *h
	return func(ctx context.Context) (child, parent *Claim, _ error) { return own.finish(ctx, out, err) }
}

// compare is the rest of an acquire that is granted, whose bucket's configuration must be
// compared.
func (h *here) compare() Rest {
	own := *h
	return func(ctx context.Context) (child, parent *Claim, err error) { return own.settle(ctx, nil) }
}

// finish takes in the outcome of the write, and goes on as an acquire does that has written.
func (h *here) finish(ctx context.Context, out store.Outcome, err error) (child, parent *Claim, _ error) {
	wr, c := h.d.writer, h.p.c
	done, err := h.p.wrote(out, err, true)
	if done, err = h.p.isOver(done, err, 0); !done {
		err = h.p.insist(ctx, 1)
	}
	h.leave()
	s := search{wr: wr, c: c, left: h.left}
	return h.settle(ctx, s.goOn(ctx, memory.Alone, wr.earned(ctx, c, err, h.left)))
}

// settle compares what the claim was granted by, if that is due, and debits the parent if the
// entity has one by now.
func (h *here) settle(ctx context.Context, err error) (child, parent *Claim, _ error) {
	d, c := h.d, h.p.c
	if err == nil {
		var again bool
		if again, err = d.revise(ctx, c, c.acct.Wanted(), nil, h.left); again {
			err = d.pursue(ctx, c, h.left)
		}
	}
	return d.complete(ctx, h.req, sides{child: c, childErr: err}, h.left)
}
