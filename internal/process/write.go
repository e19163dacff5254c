package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Write is a write to a shard under way that is applied once, however often it is sent (ADR 060):
//
//	begin ─▶ sent ─┬─ answered ──────────────────────▶ end
//	               └─ lost: the same again, after a pause
//
// The naive way sends it once: if the answer is lost, the tokens may be gone, and the caller gets
// nothing for them. To send it twice without a sequence debits twice.
//
// Invariant: end gets the true outcome, or an error that is [store.ErrUnavailable] and not
// [store.ErrThrottled]. After such an error, and after a refusal of which a copy may be under way,
// the account keeps the write until an image tells. So no debit is kept for nobody, as long as the
// process goes on writing to the item.
type Write struct {
	Sequence store.Sequence // of the write; none if the item has no room, and then it is sent once
	makes    bool           // the item

	acct    *memory.Account
	seen    *store.Image
	at      memory.Moment
	sent    memory.SentWrite
	carried *ledger.Carried // of reservations; nil if there are none
	lost    bool            // an answer was lost
	mute    bool            // so was its outcome: no image will tell
}

// BeginWrite begins a write that was worked out from an image at an instant.
func (p *Process) BeginWrite(acct *memory.Account, seen *store.Image, use memory.StampUse, at memory.Moment) Write {
	q := acct.BeginSequence(p.sequences, seen, at.Now)
	if q.IsNone() {
		p.Counts.SentOnce.Add(1)
	}
	return Write{Sequence: q, acct: acct, seen: seen, at: at, sent: acct.BeginWrite(seen.Shard, use, at.Up)}
}

// BeginCreation begins the write that makes an item, the first one of its bucket. Its sequence is the first position
// there. An item that has no room for that does not tell whether a write was applied.
func (p *Process) BeginCreation(acct *memory.Account, made *store.Image, at memory.Moment) Write {
	q := acct.BeginFirst(p.sequences, made.Shard, at.Now)
	if q.IsNone() {
		p.Counts.SentOnce.Add(1)
	}
	return Write{Sequence: q, makes: true, acct: acct, seen: made, at: at, sent: acct.BeginWrite(made.Shard, memory.StampUse{Moves: true}, at.Up)}
}

// Carry works out what the write adds to reservations, of which it removes lost ones: what it takes, and what leases
// no longer hold, own besides (ADR 071). It is nil if the write adds nothing. [Process.EndWrite] records whether that landed.
func (p *Process) Carry(w *Write, take ledger.Take, own *ledger.Freed, lost []store.Reservation) *ledger.Carried {
	q := &w.Sequence
	if w.makes {
		w.carried = p.Ledger.CarryNew(w.seen, take, !q.IsNone(), w.at.Now)
		return w.carried
	}
	w.carried = p.Ledger.Carry(w.seen, take, own, !q.IsNone(), q.Cap != 0, lost, w.at.Now)
	return w.carried
}

// Entry is the entry in which the write reserved what it took; nil if nothing goes back of that.
func (w *Write) Entry() *ledger.Entry { return w.carried.Entry() }

// IsLost reports whether the answer to the write was lost, and it may be sent again.
func (w *Write) IsLost(err error) bool {
	return !w.Sequence.IsNone() && isLost(err)
}

func isLost(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrThrottled) && !errors.Is(err, calls.ErrUnsent)
}

// Send sends a write until its outcome is known, see [Write.Insist].
func (w *Write) Send(ctx context.Context, p *Process, send func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	if w.Sequence.IsNone() || p.IsInline() {
		return send(ctx)
	}
	first, cancel := p.First(ctx)
	defer cancel()
	out, err := send(first)
	return w.Insist(ctx, p, out, err, send)
}

// again sends a write another time. That gets as long as the attempts before it together, and the time of
// [calls.Crew.Attempt] more. So a few lost answers leave time for others, and a store that is slow is waited for.
func (w *Write) again(ctx context.Context, p *Process, send func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Uptime()-w.at.Up+p.Attempt())
	defer cancel()
	return send(ctx)
}

// Insist sends a write again while its answers are lost, for five eighths of the time of a call: the rest is
// for what the outcome asks for, or for the error. out and err are the first answer.
func (w *Write) Insist(ctx context.Context, p *Process, out store.Outcome, err error, send func(context.Context) (store.Outcome, error)) (store.Outcome, error) {
	const shortest, longest = 10 * time.Millisecond, 320 * time.Millisecond
	for tries := 0; w.lost || w.IsLost(err); tries++ {
		if w.lost = true; err == nil {
			return w.decide(out)
		}
		pause := min(longest, shortest<<min(tries, 10))
		if p.Uptime()-w.at.Up > p.Time()*5/8 || calls.Sleep(ctx, nil, pause/2+time.Duration(p.Rand(int64(pause/2)))) != nil {
			return store.Outcome{}, lostAnswer(err)
		}
		p.Counts.Resent.Add(1)
		out, err = w.again(ctx, p, send)
	}
	return out, err
}

// lostAnswer is the error of a write of which an answer was lost. Whatever the last answer says of the
// last attempt, it does not say that nothing was applied.
func lostAnswer(last error) error {
	if isLost(last) {
		return fmt.Errorf("an answer was lost, and the write may have been applied; the last one: %w", last)
	}
	return fmt.Errorf("%w: an answer was lost, and the write may have been applied; the last one: %v", store.ErrUnavailable, last) //nolint:errorlint // it proves nothing
}

// WasLost reports whether an answer was lost, so that the outcome is by a later image.
func (w *Write) WasLost() bool { return w.lost }

// decide is the true outcome of a write of which an answer was lost, by a later answer.
func (w *Write) decide(out store.Outcome) (store.Outcome, error) {
	switch plan.FateOf(&w.Sequence, w.seen, out, w.makes) {
	case plan.Landed:
		out.Applied = true
	case plan.Unknown:
		w.mute = true
		return store.Outcome{}, lostAnswer(errors.New("the item no longer tells"))
	case plan.Refused:
		w.lost = false
	case plan.Open:
	}
	return out, nil
}

// EndWrite records what became of a write. It reports whether an image may show that the write was applied, and
// nobody has what it took: see [Process.ReturnLost].
func (p *Process) EndWrite(ctx context.Context, w *Write, out store.Outcome, err error) (isOpen bool) {
	isOpen = !w.mute && (w.IsLost(err) || w.lost && err == nil && !out.Applied)
	if !isOpen {
		w.acct.EndSequence(p.sequences, &w.Sequence, w.seen, out.Applied, nil)
	}
	p.endCarried(w, out, err)
	p.Record(ctx, w.acct, w.seen.Bucket, w.sent, w.at, out, err)
	return isOpen
}

// endCarried records what became of the reservations of a write. A new item may have had no room for them.
func (p *Process) endCarried(w *Write, out store.Outcome, err error) {
	landed := err == nil && out.Applied
	if unreserved := landed && w.makes && !w.carried.IsIn(out.Image); unreserved {
		p.Ledger.Unreserved.Add(1)
		p.Ledger.End(w.carried, false, true, p.Uptime())
		w.carried = nil
		return
	}
	p.Ledger.End(w.carried, landed, !w.Sequence.IsNone(), p.Uptime())
}

// ReturnLost lets back return what an open write took, once an image shows that it was applied. back gets the entry
// in which that reserved it. nil leaves it taken. So do too many other ones of the shard, and then it reports false.
func (p *Process) ReturnLost(w *Write, back func(*ledger.Entry)) bool {
	if back == nil {
		return w.acct.EndSequence(p.sequences, &w.Sequence, w.seen, false, nil)
	}
	c, makes := w.carried, w.makes
	return w.acct.EndSequence(p.sequences, &w.Sequence, w.seen, false, func(img *store.Image) {
		if makes && !c.IsIn(img) {
			back(nil)
			return
		}
		p.Ledger.Landed(c, p.Uptime())
		back(c.Entry())
	})
}
