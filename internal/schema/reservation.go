package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// reservationPrefix begins the names of attributes with what a process has reserved of a limit, N in
// millitokens: see [store.Reservation]. The peer knows none of them, and leaves them alone.
const reservationPrefix = "o_"

// ReservationAttr is the attribute with what an entry has reserved of a limit. No entry has an
// underscore in its name.
func ReservationAttr(entry, limit string) string { return reservationPrefix + entry + "_" + limit }

// readReservation reads an attribute; false if it is no reservation. One of which the number cannot be
// read is of no process of this library, and stays.
func (s *BucketScan) readReservation(attr string, v Scalar) bool {
	rest, ok := strings.CutPrefix(attr, reservationPrefix)
	if !ok {
		return false
	}
	entry, limit, ok := strings.Cut(rest, "_")
	if milli, isNumber := v.integer(); ok && isNumber && len(entry) > store.ProcessLength {
		s.reserved = append(s.reserved, store.Reservation{Entry: strings.Clone(entry), Limit: strings.Clone(limit), Milli: milli})
	}
	return true
}

// reservations returns them by entry, then by limit.
func (s *BucketScan) reservations() *[]store.Reservation {
	all := s.reserved
	slices.SortFunc(all, func(a, b store.Reservation) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Limit, b.Limit))
	})
	return &all
}

// PutFirst gives a new item its first position, and reservations of the process that has it.
func PutFirst(item Item, c *store.Create) {
	places := 0
	for i := range c.Reserved {
		r := &c.Reserved[i]
		item[ReservationAttr(r.Entry, r.Limit)] = N(r.Milli)
		places += r.Places()
	}
	if c.Position.Name != "" {
		item[PositionAttr(c.Position.Name)] = N(c.Position.Number)
		places++
	}
	if places > 0 {
		item[PositionCount] = N(int64(places))
	}
}
