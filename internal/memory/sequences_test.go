package memory_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

// No two writes of a process to one item that are under way have the same position, whether they make the item or
// find it. The fifth one has none, until another one ends.
func TestNoTwoWritesUnderWayHaveOnePosition(t *testing.T) {
	t.Parallel()
	acct, s := &memory.Account{}, memory.NewSequences()
	img := &store.Image{PositionCap: store.MostPositions}
	begin := map[bool]func() store.Sequence{
		true:  func() store.Sequence { return acct.BeginFirst(s, 0, 1) },
		false: func() store.Sequence { return acct.BeginSequence(s, img, 1) },
	}
	used := map[string]store.Sequence{}
	for i := range 4 {
		q := begin[i%2 == 0]()
		used[q.Position] = q
	}
	if _, none := used[""]; len(used) != 4 || none {
		t.Fatalf("positions %v", used)
	}
	for makes, next := range begin {
		if q := next(); !q.IsNone() {
			t.Errorf("makes %t: the fifth one is at %s", makes, q.Position)
		}
	}
	for _, q := range used {
		acct.EndSequence(s, &q, img, true, nil)
		if next := begin[true](); next.Position != q.Position || next.Number <= q.Number {
			t.Errorf("after %v: %v", q, next)
		}
	}
}
