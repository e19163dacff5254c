package schema

import (
	"math"
	"slices"
	"strings"
	"unique"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// positionPrefix begins the names of attributes with the last number at a position of an item: N, see
// [store.Sequence]. The peer knows none of them, and leaves them alone.
const positionPrefix = "q_"

// PositionAttr is the attribute with the last number at a position.
func PositionAttr(name string) string { return positionPrefix + name }

// PositionCount is N, how many positions an item has, with what its reservations count as. It bounds them, also if many processes come at
// once: an expression cannot ask for the size of an item.
const PositionCount = "qn"

// Sizes by [ItemSize]: of a position whose name has 9 characters, and of their count.
const (
	positionSize = 19
	countSize    = 4
)

// A positionScan is the positions of a bucket item.
type positionScan struct {
	few   [4]store.Position
	used  int
	more  []store.Position // those beyond the typical number
	count int64            // of the item, with its rounds of removals
}

// read reads an attribute; false if it is none of positions. A number that cannot be read is of no
// process of this library, and stays.
func (s *positionScan) read(attr string, v Scalar) bool {
	name, ok := strings.CutPrefix(attr, positionPrefix)
	if attr == PositionCount {
		if s.count, ok = v.integer(); !ok {
			s.count = -1
		}
		return true
	}
	if !ok {
		return false
	}
	is := store.Position{Name: name}
	switch is.Number, ok = v.integer(); {
	case !ok:
	case s.used < len(s.few):
		s.few[s.used] = is
		s.used++
	default:
		s.more = append(s.more, is)
	}
	return true
}

// positions returns the positions by name. Their names are those of a known image, or shared by all images.
func (s *positionScan) positions(known *store.Image) []store.Position {
	if s.used == 0 {
		return nil
	}
	all := make([]store.Position, 0, s.used+len(s.more))
	all = append(append(all, s.few[:s.used]...), s.more...)
	slices.SortFunc(all, func(a, b store.Position) int { return strings.Compare(a.Name, b.Name) })
	for i := range all {
		if known != nil && i < len(known.Positions) && known.Positions[i].Name == all[i].Name {
			all[i].Name = known.Positions[i].Name
		} else {
			all[i].Name = unique.Make(all[i].Name).Value()
		}
	}
	return all
}

// positionCap is [store.Image.PositionCap]; 0 if the count cannot be read, or has no end.
func (s *BucketScan) positionCap() int32 {
	const rounds = math.MaxInt32/store.PositionRound - 1
	has := s.positions.used + len(s.positions.more)
	for i := range s.reserved {
		has += s.reserved[i].Places()
	}
	most := min(store.MostPositions, has+max(0, diary.Spare(s.diary.bytes, s.diary.text)-countSize)/positionSize)
	round := s.positions.count / store.PositionRound
	if s.positions.count < 0 || round > rounds {
		return 0
	}
	return int32(round*store.PositionRound + int64(most)) //nolint:gosec // see above
}
