package dynamo

import (
	"cmp"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/store"
)

// A tally is what a write does to the positions of its item, and to the reservations there.
type tally struct {
	sequence *store.Sequence
	idle     []store.Position
	reserve  []store.ReserveAdd
	lost     []store.Reservation
}

// describeTally makes a write one that may be sent again (ADR 060), changes reservations (ADR 071), and removes
// idle positions and lost reservations if they are as seen. A deleted item has lost its numbers, so another one in
// its place must not be taken for it. A turn may require that already.
//
// One count bounds positions and reservations: an expression cannot ask for the size of an item.
func describeTally(w *expression.Write, t tally, seen *store.Image, turn *turning) {
	const firstIdle, letter = 200, 'q' // no limit of a write has such a number
	for i, is := range t.idle {
		p := w.Position(firstIdle+i, is.Name)
		w.Remove(p.Last())
		w.Require(p.Last().Equals(p.Number(letter, is.Number)))
	}
	added := store.NewPlaces(t.reserve)
	more := int64(describeReservations(w, t.reserve, t.lost) - len(t.idle))
	if len(t.idle)+len(t.lost) > 0 {
		more += store.PositionRound
	}
	if s := t.sequence; !s.IsNone() {
		last, number := w.Position(0, s.Position).Last(), w.Number(":q", s.Number)
		w.Set(last, number)
		switch {
		case s.Cap != 0:
			more++
			added++
			w.Require(last.Absent())
		case s.Below != s.Number:
			w.Require(last.Below(w.Number(":qb", s.Below)))
		default:
			w.Require(last.Below(number))
		}
	}
	if added > 0 { // the count before the write leaves room for all of them
		most := cmp.Or(t.sequence.Cap, int(seen.PositionCap))
		w.Require(expression.PositionCount.AbsentOrBelow(w.Number(":qc", int64(most-added+1))))
	}
	if (added > 0 || !t.sequence.IsNone()) && (turn == nil || turn.Seen.Hour == 0) {
		w.Require(isMadeAt(w, seen.CreatedAt))
	}
	if more != 0 {
		w.Add(expression.PositionCount, w.Number(":qn", more))
	}
}
