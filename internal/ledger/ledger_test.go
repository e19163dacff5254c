package ledger_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/plan"
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
			Limits:    []store.LimitState{{Name: "tpm", Params: &store.Params{}}},
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

// What went back to two periods is debited by two writes. One that lands is not repeated if the other does not.
func TestADebtOfTwoPeriods(t *testing.T) {
	t.Parallel()
	const day, hour, rounds = 86_400_000, 3_600_000, store.PositionRound + 24
	renews, err := store.ParseRenewal("day", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	daily := &store.Params{Capacity: 1_000_000, Period: 1000, Renewal: renews}
	at := func(now int64, room int32) *store.Image {
		return &store.Image{
			CreatedAt: 1000, RefilledAt: now, ShardCount: 1, PositionCap: room,
			Limits: []store.LimitState{{Name: "tpd", Tokens: 500_000, Params: daily}},
		}
	}
	b := ledger.New("aaaaaaaa")
	var entries []*ledger.Entry
	taken := []int64{7000, 5000} // on the first day, and on the second
	for i, milli := range taken {
		img := at(int64(i)*day+hour, 24)
		c := b.Carry(img, ledger.Take{After: img, Returns: []store.Amount{{Limit: "tpd", Milli: milli}}}, nil, true, false, nil, img.RefilledAt)
		b.End(c, true, true, 0)
		entries = append(entries, c.Entry())
	}
	for i, e := range entries {
		b.Free(e, "tpd", taken[i], 0)
	}
	removed, now := at(day+2*hour, rounds), int64(day+2*hour)
	for _, want := range []struct {
		milli int64
		past  bool // counted only
		paid  bool
	}{{5000, false, false}, {5000, false, true}, {7000, true, false}, {7000, true, true}} {
		d := b.Owed(removed, nil, now)
		if d == nil || len(d.Amounts) != 1 || d.Amounts[0].Milli != want.milli || (d.Amounts[0].Until == store.NoBalance) != want.past {
			t.Fatalf("%+v is owed, want %+v", d, want)
		}
		b.Pay(d, want.paid)
	}
	if d := b.Owed(removed, nil, now); d != nil {
		t.Errorf("%+v is owed, want nothing", d)
	}
}

// A first write that was refused since others were removed meanwhile is made again, in the new round. An image
// of that round, from before it landed, is no sign that this process was removed.
func TestAnEntryBeginsInTheRoundInWhichItLands(t *testing.T) {
	t.Parallel()
	at := func(rounds int32, has ...store.Reservation) *store.Image {
		return &store.Image{
			CreatedAt: 1000, RefilledAt: 1000, PositionCap: rounds*store.PositionRound + 24,
			Limits: []store.LimitState{{Name: "tpm", Params: &store.Params{}}}, Reserved: &has,
		}
	}
	carry := func(b *ledger.Book, img *store.Image, now int64) *ledger.Carried {
		return b.Carry(img, ledger.Take{After: img, Returns: []store.Amount{{Limit: "tpm", Milli: 7}}}, nil, true, false, nil, now)
	}
	b := ledger.New("aaaaaaaa")
	b.End(carry(b, at(0), 2000), false, true, 0)
	first := carry(b, at(1), 2001)
	b.End(first, true, true, 0)
	if late := carry(b, at(1), 2002); b.Removed.Load() != 0 || late.Entry() != first.Entry() {
		t.Errorf("%d entries were removed, by an older image", b.Removed.Load())
	}
	// The first write may have landed, and the entry been removed before the answer came.
	b = ledger.New("aaaaaaaa")
	unknown := carry(b, at(0), 2000)
	known := carry(b, at(1), 2001)
	b.End(unknown, true, true, 0)
	b.End(known, true, true, 0)
	carry(b, at(1, known.Adds[0].Reservation), 2002)
	if b.Removed.Load() != 1 || !b.Free(unknown.Entry(), "tpm", 7, 0) || b.Free(known.Entry(), "tpm", 7, 0) {
		t.Errorf("%d entries were removed, want the one that the item lacks", b.Removed.Load())
	}
}

// A process that was idle for so long that its own entry is lost removes that once: an expression must not
// name an attribute twice.
func TestWhatIsLostIsNotSpent(t *testing.T) {
	t.Parallel()
	old := []store.Reservation{{Entry: "aaaaaaaa1", Limit: "tpm"}, {Entry: "aaaaaaaa2", Limit: "tpm"}}
	img := &store.Image{
		CreatedAt: 1000, RefilledAt: 1000, PositionCap: 24, Reserved: &old,
		Limits: []store.LimitState{{Name: "tpm", Params: &store.Params{}}},
	}
	take := ledger.Take{After: img, Returns: []store.Amount{{Limit: "tpm", Milli: 7}}}
	c := ledger.New("aaaaaaaa").Carry(img, take, nil, true, false, old[:1], 2000)
	if len(c.Spent) != 1 || c.Spent[0] != old[1] {
		t.Errorf("%+v are spent, of which the first is lost", c.Spent)
	}
}

// A lease may tell an item what it no longer holds after the book has forgotten the item.
func TestAForgottenItemIsStillTold(t *testing.T) {
	t.Parallel()
	reserved := []store.Reservation{{Entry: "aaaaaaaa1", Limit: "tpm"}}
	img := &store.Image{
		CreatedAt: 1000, RefilledAt: 1000, PositionCap: 24, Reserved: &reserved,
		Limits: []store.LimitState{{Name: "tpm", Params: &store.Params{}}},
	}
	amounts := []store.Amount{{Limit: "tpm", Milli: 7}}
	b := ledger.New("aaaaaaaa")
	c := b.Carry(img, ledger.Take{After: img, Returns: amounts}, nil, true, false, nil, 2000)
	b.End(c, true, true, 0)
	own := b.Release(c.Entry(), amounts)
	if b.Due(2*plan.LostAfter, false); !b.IsEmpty() {
		t.Fatal("the item is not forgotten")
	}
	other := b.Carry(&store.Image{Bucket: store.Bucket{Entity: "other"}, CreatedAt: 1000, RefilledAt: 1000, PositionCap: 24, Limits: img.Limits}, ledger.Take{After: img, Returns: amounts}, nil, true, false, nil, 2000)
	b.End(other, true, true, 0)
	reserved = append(reserved, store.Reservation{Entry: c.Adds[0].Entry, Limit: "tpm", Milli: 7})
	told := b.Carry(img, ledger.Take{}, own, true, false, nil, 3000)
	if told == nil || len(told.Adds) != 1 || told.Adds[0].Milli != -7 || len(told.Spent) != 1 || told.Spent[0] != reserved[0] {
		t.Errorf("%+v", told)
	}
}
