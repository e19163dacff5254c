package plan

import (
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A process reserves on an item what its limits return if it is lost (ADR 071). It raises the
// reservation with each take, and lowers it with each settlement:
//
//	take 600 of a limit that returns 50 %     tk −600   o +300
//	settle 200                                tk +400   o −300
//	the process is lost before it settles     tk +300   o removed, by the next refill of anybody
//
// The naive way is a list of leases on the item, of which each has a deadline. It grows with the leases,
// and each settlement must find its own.

// LostAfter is how long ago a process must have used its positions of an item last for it to be lost
// there. It is the age at which positions are removed: longer than any write is under way, and
// than any two honest clocks differ. A process that holds something writes more often.
const LostAfter = 15 * time.Minute

// EntryOf is the name of the entry that a process began at an instant, in milliseconds.
func EntryOf(process string, began int64) string {
	return process + strconv.FormatInt(began, entryBase)
}

const entryBase = 36

// began is when an entry began, by its name; 0 if that does not tell.
func began(entry string) int64 {
	at, err := strconv.ParseInt(entry[min(store.ProcessLength, len(entry)):], entryBase, 64)
	if err != nil {
		return 0
	}
	return at
}

// LostOn returns the reservations of an item whose processes are lost, as far as one write removes
// them. It removes entries whole.
func LostOn(img *store.Image, now int64) (lost []store.Reservation) {
	const most = 8
	all := img.Reservations()
	for i := range all {
		r := &all[i]
		switch isSame := len(lost) > 0 && lost[len(lost)-1].Entry == r.Entry; {
		case isSame || len(lost) < most && !isSeen(img, r, now):
			lost = append(lost, *r)
		}
	}
	return lost
}

// HasLost reports whether the item has any.
func HasLost(img *store.Image, now int64) bool {
	return slices.ContainsFunc(img.Reservations(), func(r store.Reservation) bool { return !isSeen(img, &r, now) })
}

// isSeen reports whether the process of a reservation has written to the item, or begun the entry,
// within [LostAfter].
func isSeen(img *store.Image, r *store.Reservation, now int64) bool {
	oldest := now - LostAfter.Milliseconds()
	if began(r.Entry) >= oldest {
		return true
	}
	return slices.ContainsFunc(img.Positions, func(p store.Position) bool {
		return p.Number >= oldest && len(p.Name) > store.ProcessLength && p.Name[:store.ProcessLength] == r.Process()
	})
}

// IsOfPeriod reports whether a limit of an item, as it is at an instant, is in the period in which an
// entry began that was begun at another one. A rate has one period.
func IsOfPeriod(img *store.Image, s *store.LimitState, entry string, now int64) bool {
	at := began(entry)
	switch {
	case s.Renewal == nil:
		return true
	case IsSession(s.Renewal):
		return s.Opened() > store.NoSession && at >= s.Opened() && s.Told().Opened == 0 && !Renewed(img, s, now)
	}
	return s.Renewal.End(0, at) == s.Renewal.End(0, now)
}

// returned works out what goes back of lost reservations at an instant: to the balances, and what only
// counts as returned, because its period has ended. Each has a limit once.
func returned(img *store.Image, lost []store.Reservation, now int64) (credits, counted []store.Amount) {
	for i := range lost {
		r := &lost[i]
		s, ok := img.Limit(r.Limit)
		switch {
		case !ok || r.Milli <= 0:
		case img.IsBypassed(now) || !IsOfPeriod(img, &s, r.Entry, now):
			counted = Join(counted, store.Amount{Limit: r.Limit, Milli: -r.Milli, Until: store.NoBalance})
		default:
			credits = Join(credits, store.Amount{Limit: r.Limit, Milli: -r.Milli})
		}
	}
	return credits, counted
}

// reclaims works out what a claim's refill gives back of lost reservations: the amounts of the refill with the
// credits, and what is only counted. Other writes leave lost reservations alone: a settlement may return to
// another period, and an operator's write says what the balances are to be.
func (d *Debit) reclaims(img *store.Image, now int64) (lost []store.Reservation, amounts, counted []store.Amount) {
	if d.Settling || d.Amendment != nil || !img.IsEvaluable() {
		return nil, d.Amounts, nil
	}
	if lost = LostOn(img, now); len(lost) == 0 {
		return nil, d.Amounts, nil
	}
	credits, counted := returned(img, lost, now)
	amounts = slices.Clone(d.Amounts)
	for _, c := range credits {
		amounts = Join(amounts, c)
	}
	for i := range amounts {
		if amounts[i].Milli < 0 {
			amounts[i].Until = PeriodEnd(img, amounts[i].Limit)
		}
	}
	return lost, amounts, counted
}

// returnsNow is what would go back to a limit of an item at an instant, in millitokens.
func returnsNow(img *store.Image, limit string, now int64) int64 {
	if img.Reserved == nil || !img.IsEvaluable() {
		return 0
	}
	credits, _ := returned(img, LostOn(img, now), now)
	return -AmountOf(credits, limit)
}

// Returns are what goes back of amounts that a write debits, if its process is lost: the parts of them that the
// limits return. What only counts is of no balance. Amounts of requests are whole tokens, so the parts are exact.
func (t *Terms) Returns(counted Counted) (parts []store.Amount) {
	if t.Target == nil || counted.All || !t.Target.returns() {
		return nil
	}
	for _, a := range t.Amounts {
		if l := t.Target.Find(a.Limit); a.Milli > 0 && l != nil && l.Returns > 0 && !counted.Has(a.Limit) {
			parts = append(parts, store.Amount{Limit: a.Limit, Milli: a.Milli / wholePercent * int64(l.Returns)})
		}
	}
	return parts
}

const wholePercent = 100

// Keeps is what the limits of a bucket keep of what was taken with reservations, in millitokens: by their
// percentages now, since the item has what goes back alone. A limit that returns nothing any more does not tell.
func (w *Wanted) Keeps(lost []store.Reservation) (milli int64) {
	for i := range lost {
		if l := w.Find(lost[i].Limit); l != nil && l.Returns > 0 && lost[i].Milli > 0 {
			milli += lost[i].Milli / int64(l.Returns) * int64(wholePercent-l.Returns)
		}
	}
	return milli
}

// returns reports whether any limit returns a part.
func (w *Wanted) returns() bool {
	return slices.ContainsFunc(w.Limits, func(l store.Limit) bool { return l.Returns > 0 })
}
