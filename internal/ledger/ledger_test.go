package ledger_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/store"
)

// A process with a position reserves only where the count leaves room for that, and says so if not.
func TestReservationsNeedRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most        int32 // that the count must be below
		newPosition bool
		reserves    bool
	}{{5, false, true}, {4, false, true}, {3, false, true}, {2, false, false}, {3, true, false}, {4, true, true}, {0, false, false}} {
		b := ledger.New("aaaaaaaa")
		img := &store.Image{
			CreatedAt: 1000, RefilledAt: 1000, PositionCap: c.most,
			Positions: []store.Position{{Name: "aaaaaaaa0", Number: 1000}},
			Limits:    []store.LimitState{{Name: "tpm"}},
		}
		take := ledger.Take{After: img, Returns: []store.Amount{{Limit: "tpm", Milli: 7}}}
		carried := b.Carry(img, take, nil, true, c.newPosition, nil, 2000)
		if got := carried != nil && len(carried.Adds) == 1 && carried.Adds[0].New; got != c.reserves || b.Unreserved.Load() != map[bool]uint64{false: 1}[got] {
			t.Errorf("%+v: %+v, %d unreserved", c, carried, b.Unreserved.Load())
		}
		if b.Carry(img, take, nil, false, false, nil, 2000).Entry() != nil {
			t.Error("reserved without a position, so that nobody sees the process")
		}
	}
}
