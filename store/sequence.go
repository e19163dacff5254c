package store

// A Sequence lets a write be sent again after its answer was lost: it is applied once (ADR 060). The
// write then also requires that the item was made when Seen was, and that the number at the position is
// below Below, or that there is none if Cap says so. It leaves Number there.
//
//	process   number 7 ── applied, answer lost ── number 7 again ──▶ refused; the image has 7: it was applied
//
// One write at a time uses a position, so each of its numbers is of one write. The zero Sequence is
// none: the write must not be sent again.
type Sequence struct {
	Position string // 2 to 17 lower-case letters and digits: of one process, and of one of its places there
	Number   int64  // larger than all before it at the position; in milliseconds since the epoch, or just above
	// Below is Number, or the least number of an earlier write of which nobody knows what became. Such a
	// write is refused if this one was applied, and the other way round.
	Below int64
	// Cap, if not 0, says that the item does not have the position yet. The count of positions must then be below it
	// ([Image.PositionCap]), so that they never make the item cost another unit. 0 says that it has the position:
	// the write is refused if that was removed.
	Cap int
}

// IsNone reports whether the write must not be sent again.
func (s *Sequence) IsNone() bool { return s.Position == "" }

// Positions of an item, and their count.
const (
	// ProcessLength is the length of the name of a process. Its positions and its entries ([Reservation])
	// begin with it.
	ProcessLength = 8
	// MostPositions is the most positions of an item, with what its reservations count as.
	MostPositions = 24
	// PositionRound is what a write that removes positions adds to their count, less the removed ones. So no
	// write for which a position is new is applied on both sides of a removal: whoever removes positions may
	// have a clock that is far ahead, and take away one whose write is under way.
	PositionRound = 1000
)

// A Position is the last number that a process left at one of its positions of an item.
type Position struct {
	Name   string
	Number int64
}

// NumberAt is the last number at a position; 0 if there is none.
func (i *Image) NumberAt(position string) int64 {
	for k := range i.Positions {
		if i.Positions[k].Name == position {
			return i.Positions[k].Number
		}
	}
	return 0
}
