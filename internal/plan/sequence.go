package plan

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Fate is what became of a write that was sent, maybe several times (ADR 060).
type Fate uint8

const (
	// Landed is that it was applied, once.
	Landed Fate = iota
	// Refused is that it was not applied, and no copy of it is under way.
	Refused
	// Open is that it was not applied so far. A copy whose answer was lost may still be.
	Open
	// Unknown is that it may have been applied, and the item no longer tells.
	Unknown
)

// FateOf decides what became of a write of which an answer was lost, by a later answer.
//
// A removed position tells nothing. Nor does a deleted item, or another one in its place: the balance with
// the debit may have gone to the shard that survived a merge. makes says that the write makes the first item of a
// bucket, which seen describes. No merge deletes that one: where another item is, the write has debited nothing that
// is left.
func FateOf(s *store.Sequence, seen *store.Image, out store.Outcome, makes bool) Fate {
	switch {
	case out.Applied:
		return Landed
	case out.Image == nil:
		return Unknown
	case makes && isMadeByOther(s, seen, out.Image):
		return Open
	case out.Image.CreatedAt != seen.CreatedAt:
		return Unknown
	}
	switch last := out.Image.NumberAt(s.Position); {
	case last == s.Number:
		return Landed
	case last == 0 && (s.Cap == 0 || s.Cap/store.PositionRound != int(out.Image.PositionCap)/store.PositionRound):
		return Unknown // the position was removed: by a process whose clock is far ahead
	case last > s.Number:
		return Unknown
	case last >= s.Below: // an earlier write was applied instead, and this one never will be
		return Refused
	}
	return Open
}

// isMadeByOther reports whether an item is not the one that a write would have made, as seen. An item of the same
// millisecond may lack the position for three reasons. Another process made it. Or the position was removed: removals
// add a round to the count. Or there was no room for it: there is little now, unless limits were removed.
func isMadeByOther(s *store.Sequence, seen, img *store.Image) bool {
	if img.CreatedAt != seen.CreatedAt {
		return true
	}
	hasRoom := img.PositionCap > 1 && img.PositionCap < store.PositionRound
	return img.NumberAt(s.Position) == 0 && hasRoom && len(img.Limits) >= len(seen.Limits)
}

// mostSequenced is the most limits of an item whose writes have sequences: they fit the expression.
const mostSequenced = 16

// SequenceAt returns the sequence of a write to an item, at a position; none if the item has no room for
// it. Such a write is sent once, so a sequence never costs a unit.
func SequenceAt(img *store.Image, position string, number, below int64) store.Sequence {
	q := store.Sequence{Position: position, Number: number, Below: below}
	switch {
	case len(img.Limits) > mostSequenced:
		return store.Sequence{}
	case img.NumberAt(position) != 0:
	case img.Places() >= int(img.PositionCap)%store.PositionRound:
		return store.Sequence{}
	default:
		q.Cap = int(img.PositionCap)
	}
	return q
}

// NumberRefill gives a refill a sequence, and lets it remove idle positions.
func NumberRefill(r *store.Refill, q store.Sequence, now int64) {
	r.Sequence, r.Idle = q, idlePositions(r.Seen, q.Position, now)
}

// idlePositions returns positions at which nobody has written for longer than any write is under way.
// The position own is none of them.
func idlePositions(img *store.Image, own string, now int64) (idle []store.Position) {
	const most = 8
	for _, p := range img.Positions {
		if p.Number < now-LostAfter.Milliseconds() && p.Name != own && len(idle) < most {
			idle = append(idle, p)
		}
	}
	return slices.Clip(idle)
}
