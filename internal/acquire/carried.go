package acquire

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A carried is a claim whose first write its caller carries. It has done what comes before the
// write in [Driver.pursue], [search.run] and [writer.debitInLane], and does what comes after it
// there.
type carried struct {
	d    *Driver
	ctx  *calls.Leavable // of the write
	p    pursuit
	next plan.Step
	ln   *lane.Lane[*Claim] // in which the caller leads; nil if it does not
	sent process.Write
	out  store.Outcome // of the write
	err  error
	todo todo
}

// A todo is what remains to be done of a claim.
type todo uint8

const (
	nothing    todo = iota
	toPursue        // all: nothing was sent
	toAwait         // its write is under way
	toResend        // the answer to its write was lost
	toHeal          // the item that the write met must be healed
	toConclude      // the outcome of its write does not grant it
	toCompare       // it is granted, and its bucket must be compared with the configuration
)

// prepare plans the write of a claim. It reports whether the caller may carry that.
func (w *carried) prepare(c *Claim, at memory.Moment, left <-chan struct{}) bool {
	d := w.d
	wanted, img := c.acct.Wanted(), c.lastImage(at.Up)
	if img == nil || c.acct.ShardCount() != 1 || wanted == nil || !d.Config.IsYoung(wanted, at.Up) || d.disabling(c.acct, at).Disabled {
		return false
	}
	c.adopt(wanted)
	if _, lacked := c.acct.Lacked(0, c.Terms.Amounts, at); lacked || c.want.TakesNothing(&c.Terms) || c.acct.IsSharedShard(0, at.Up) {
		return false
	}
	w.p = pursuit{wr: d.writer, c: c, left: left, img: img, sight: remembered, Moment: at, began: at.Up}
	w.next = w.p.plan()
	return w.next.Take != nil || w.next.Kind == plan.Refill && w.next.Refill.FullSince != 0
}

// seize takes the caller to the front of the lane, if nobody else is there.
func (w *carried) seize() bool {
	c := w.p.c
	if ln := &c.acct.enter().at(0).takes; ln.Seize(w.d.writer.placesFor(ln, c)) {
		w.ln = ln
		return true
	}
	c.acct.leave()
	return false
}

// choose reports whether the claim is routed to the item.
func (w *carried) choose() bool {
	c, wr := w.p.c, w.d.writer
	on, _ := c.acct.Choose(&c.Terms, nil, nil, w.p.Moment, wr.trust, wr.Rand)
	return on == memory.Alone
}

// leave hands the caller's place on, if it has one.
func (w *carried) leave() {
	if w.ln != nil {
		w.ln.Leave(w.d.writer.placesFor(w.ln, w.p.c))
		w.p.c.acct.leave()
		w.ln = nil
	}
}

// begin makes the write.
func (w *carried) begin(ctx context.Context) {
	if w.sent = w.p.begin(&w.next); !w.sent.Sequence.IsNone() {
		w.d.Limit(w.ctx)
	}
	w.write(ctx)
}

// write makes the write, or goes on with it.
func (w *carried) write(ctx context.Context) {
	w.out, w.err = w.d.writer.writeStep(ctx, &w.next)
}

// meet takes in what became of the write on the caller's goroutine. It reports whether the claim
// is granted, and nothing remains to be done.
func (w *carried) meet() (granted bool) {
	d, c := w.d, w.p.c
	switch {
	case errors.Is(w.err, calls.ErrGoesOn):
		w.todo = toAwait
		return false
	case w.sent.IsLost(w.err):
		w.todo = toResend
		return false
	case w.out.Image != nil && plan.NeedsHealing(w.out.Image, w.p.Now):
		w.todo = toHeal
		return false
	}
	bound := &w.ctx.Detached // nothing but the write must let the caller leave
	w.record(bound)
	switch {
	case errors.Is(w.err, calls.ErrApart):
		w.leave()
		w.todo = toPursue
		return false
	case w.err != nil || !w.out.Applied:
		w.todo = toConclude
		return false
	}
	_, _ = w.p.wrote(w.out, nil, w.next.Counted(), true)
	w.leave()
	if wanted := c.acct.Wanted(); wanted == nil || !d.Config.IsYoung(wanted, d.Uptime()) {
		w.todo = toCompare
		return false
	}
	d.startUpkeep(bound, c)
	return true
}

func (w *carried) record(ctx context.Context) {
	w.err = w.p.close(ctx, &w.sent, &w.next, w.out, w.err)
}

// finish does what remains to be done of the claim.
func (w *carried) finish(ctx context.Context) (err error) {
	d, c := w.d, w.p.c
	switch w.todo {
	case nothing:
		return nil
	case toPursue:
		return d.pursue(ctx, c, w.p.left)
	case toAwait, toResend:
		if w.todo == toAwait {
			w.write(w.ctx.Apart()) //nolint:contextcheck // it is the context of the same call
		}
		w.out, w.err = w.sent.Insist(ctx, d.Process, w.out, w.err, func(ctx context.Context) (store.Outcome, error) { return d.writer.writeStep(ctx, &w.next) })
		w.record(ctx)
		err = w.conclude(ctx)
	case toHeal:
		w.out.Image = d.Heal(ctx, w.out.Image)
		w.record(ctx)
		err = w.conclude(ctx)
	case toConclude:
		err = w.conclude(ctx)
	case toCompare:
	}
	if err != nil {
		return err
	}
	again, err := d.revise(ctx, c, c.acct.Wanted(), nil, w.p.left)
	if again {
		err = d.pursue(ctx, c, w.p.left)
	}
	return err
}

// conclude takes in the outcome of the write, and goes on as an acquire does that has written.
func (w *carried) conclude(ctx context.Context) error {
	wr, c := w.d.writer, w.p.c
	done, err := w.p.wrote(w.out, w.err, w.next.Counted(), true)
	if done, err = w.p.isOver(done, err, 0); !done {
		err = w.p.insist(ctx, 1)
	}
	w.leave()
	s := search{wr: wr, c: c, left: w.p.left}
	return s.goOn(ctx, memory.Alone, wr.earned(ctx, c, err, w.p.left))
}
