package dynamo

import (
	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/store"
)

// firstReservation is the number of the first reservation in a write: no limit or position has it.
const firstReservation = 300

// describeReservations changes the reservations of the writing process, and removes those of lost ones if they
// are as seen (ADR 071). It returns by how much that changes the count of positions.
func describeReservations(w *expression.Write, adds []store.ReserveAdd, lost []store.Reservation) (places int) {
	const added, seen = 'u', 'v'
	for i := range adds {
		a := &adds[i]
		r := w.Reservation(firstReservation+i, a.Entry, a.Limit)
		w.Add(r.Milli(), r.Number(added, a.Milli))
		if a.New {
			w.Require(r.Milli().Absent())
		} else {
			w.Require(r.Milli().Exists())
		}
	}
	for i := range lost {
		r := w.Reservation(firstReservation+len(adds)+i, lost[i].Entry, lost[i].Limit)
		w.Remove(r.Milli())
		w.Require(r.Milli().Equals(r.Number(seen, lost[i].Milli)))
		places -= lost[i].Places()
	}
	return places + store.NewPlaces(adds)
}
