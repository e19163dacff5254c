package store

// A Reservation is what goes back to a limit of an item if a process is lost (ADR 071). The process
// raises it with each take of the limit, and lowers it with each settlement.
type Reservation struct {
	// Entry is the name of the process, and the millisecond in which it began the entry, in base 36. No
	// two entries have the same name.
	Entry string
	Limit string
	Milli int64 // millitokens
}

// Process is the name of the process.
func (r *Reservation) Process() string { return r.Entry[:min(ProcessLength, len(r.Entry))] }

// Places is how many positions of an item a reservation counts as, by its size.
func (r *Reservation) Places() int {
	const others, position = 27, 19 // bytes: of its attribute without the limit's name, and of a position
	return (others + len(r.Limit) + position - 1) / position
}

// Reservations are those of an item, by entry and then by limit.
func (i *Image) Reservations() []Reservation {
	if i.Reserved == nil {
		return nil
	}
	return *i.Reserved
}

// Places is how many positions an item's positions and reservations count as.
func (i *Image) Places() int {
	n := len(i.Positions)
	for _, r := range i.Reservations() {
		n += r.Places()
	}
	return n
}

// ReservedBy is what an entry has reserved of a limit. It is not ok if the item does not have it.
func (i *Image) ReservedBy(entry, limit string) (milli int64, ok bool) {
	for _, r := range i.Reservations() {
		if r.Limit == limit && r.Entry == entry {
			return r.Milli, true
		}
	}
	return 0, false
}

// A ReserveAdd is what a write adds to one reservation. If it is New, the write also requires the count of
// positions to leave room for it ([Image.PositionCap]), and that the item was made when it was seen; otherwise,
// that the item has it. So a write that lowers a reservation which was removed is refused.
type ReserveAdd struct {
	Reservation // Milli is added; negative lowers it
	New         bool
}

// NewPlaces is how many positions the new ones count as.
func NewPlaces(adds []ReserveAdd) (n int) {
	for i := range adds {
		if adds[i].New {
			n += adds[i].Places()
		}
	}
	return n
}
