package dynamo

import (
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/store"
)

// describeSequence makes a write one that may be sent again (ADR 060), and removes idle positions if
// they are as seen. A deleted item has lost its numbers, so another one in its place must not be taken
// for it. A turn may require that already.
func describeSequence(w *expression.Write, s *store.Sequence, idle []store.Position, seen *store.Image, turn *turning) {
	const firstIdle, letter = 200, 'q' // no limit of a write has such a number
	for i, is := range idle {
		p := w.Position(firstIdle+i, is.Name)
		w.Remove(p.Last())
		w.Require(p.Last().Equals(p.Number(letter, is.Number)))
	}
	more := int64(-len(idle))
	if len(idle) > 0 {
		more += store.PositionRound
	}
	if !s.IsNone() {
		last, number := w.Position(0, s.Position).Last(), w.Number(":q", s.Number)
		w.Set(last, number)
		switch {
		case s.Cap != 0:
			more++
			w.Require(last.Absent())
			w.Require(expression.PositionCount.AbsentOrBelow(w.Number(":qc", int64(s.Cap))))
		case s.Below != s.Number:
			w.Require(last.Below(w.Number(":qb", s.Below)))
		default:
			w.Require(last.Below(number))
		}
		if turn == nil || turn.Seen.Hour == 0 {
			w.Require(isMadeAt(w, seen.CreatedAt))
		}
	}
	if more != 0 {
		w.Add(expression.PositionCount, w.Number(":qn", more))
	}
}
