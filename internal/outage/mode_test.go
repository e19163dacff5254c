package outage_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/outage"
	"github.com/zeroae/zae-limiter-go/store"
)

// inMode is a share of a bucket with 10 tokens of a limit that is in a mode.
func inMode(mode store.Mode) (*outage.Book, *outage.Share) {
	limit := &store.Limit{Name: "n", Capacity: 10, Amount: 1, Period: time.Hour}
	b := outage.NewBook(1)
	s, _ := b.Share(key, begun, begun, func() ([]memory.Seen, int) {
		seen := image(limit, 10)
		seen.Image.Limits[0].SetExtra(store.Extra{SoftUntil: begun + 1_000_000, Observed: store.Observed{Mode: mode}})
		return []memory.Seen{seen}, 1
	})
	return b, s
}

// taking takes tokens, which nobody may refuse.
func taking(t *testing.T, b *outage.Book, s *outage.Share, tokens int64) *outage.Hold {
	t.Helper()
	holds, refused := b.Take([]outage.Ask{{Share: s, Amounts: []store.Amount{{Limit: "n", Milli: tokens * store.Milli}}}}, begun)
	if len(refused) > 0 {
		t.Fatalf("%d tokens are refused: %+v", tokens, refused)
	}
	return holds[0]
}

// owed is what the debt of a share debits and only counts, in tokens.
func owed(b *outage.Book, s *outage.Share) (lacking, counted int64) {
	d, _ := b.Pay(s, "id", begun)
	if d == nil {
		return 0, 0
	}
	for _, a := range d.Lacking {
		lacking += a.Milli / store.Milli
	}
	for _, a := range d.Counted {
		counted += a.Milli / store.Milli
	}
	return lacking, counted
}

// In an outage a limit in a mode refuses nobody. In shadow it owes what it would have admitted, and off
// it owes nothing: the rest is only counted. A return of what was only counted moves no balance.
func TestALimitInAModeOwesWhatItsModeDebits(t *testing.T) {
	for mode, want := range map[store.Mode][2]int64{store.Shadow: {8, 15}, store.Off: {0, 23}} {
		b, s := inMode(mode)
		taking(t, b, s, 8)
		if got := taking(t, b, s, 15).Taken()[0].Until; got != store.NoBalance {
			t.Errorf("%v: 15 of 2 tokens are taken until %d", mode, got)
		}
		if lacking, counted := owed(b, s); lacking != want[0] || counted != want[1] {
			t.Errorf("%v: %d tokens are owed and %d counted, want %v", mode, lacking, counted, want)
		}
		b, s = inMode(mode)
		taking(t, b, s, 8)
		h := taking(t, b, s, 15)
		if !h.Change([]store.Amount{{Limit: "n", Milli: -15 * store.Milli}}, begun) {
			t.Fatal("the share is closed")
		}
		if lacking, counted := owed(b, s); lacking != want[0] || counted != want[1]-15 {
			t.Errorf("%v, returned: %d tokens are owed and %d counted, want %v less 15", mode, lacking, counted, want)
		}
		b, s = inMode(mode)
		taking(t, b, s, 8)
		lost := taking(t, b, s, 15)
		lost.Forgive(begun)
		if lacking, counted := owed(b, s); lacking != want[0] || counted != want[1]-15 {
			t.Errorf("%v, maybe landed: %d tokens are owed and %d counted, want %v less 15", mode, lacking, counted, want)
		}
	}
}

// Two holds of which one moved the balance join as one that only counts: the limit refuses nobody.
func TestHoldsThatDifferInShadowJoin(t *testing.T) {
	for _, first := range []int{0, 1} {
		b, s := inMode(store.Shadow)
		holds := []*outage.Hold{taking(t, b, s, 8), taking(t, b, s, 15)}
		all := holds[first]
		if !all.IsOf(holds[1-first]) {
			t.Fatal("they are of two shares")
		}
		all.Join(holds[1-first])
		if got := all.Taken(); len(got) != 1 || got[0].Milli != 23*store.Milli || got[0].Until != store.NoBalance {
			t.Errorf("first %d: %+v is taken, want 23 tokens that count", first, got)
		}
		if lacking, counted := owed(b, s); lacking != 0 || counted != 23 {
			t.Errorf("first %d: %d tokens are owed and %d counted, want 0 and 23", first, lacking, counted)
		}
	}
}

// A limit that is off debits nothing that a lease takes later, even if the lease took nothing at first.
func TestALeaseOfALimitThatIsOffGrows(t *testing.T) {
	b, s := inMode(store.Off)
	if !taking(t, b, s, 0).Change([]store.Amount{{Limit: "n", Milli: 5 * store.Milli}}, begun) {
		t.Fatal("the share is closed")
	}
	if lacking, counted := owed(b, s); lacking != 0 || counted != 5 {
		t.Errorf("%d tokens are owed and %d counted, want 0 and 5", lacking, counted)
	}
}

// What only counts of a quota moves no balance, in whichever period it was taken.
func TestWhatAQuotaInShadowCountsIsOfNoPeriod(t *testing.T) {
	session, err := store.ParseRenewal("session 5h", "")
	if err != nil {
		t.Fatal(err)
	}
	b := outage.NewBook(1)
	s, _ := b.Share(key, begun, begun, func() ([]memory.Seen, int) {
		seen := image(&store.Limit{Name: "n", Capacity: 10, Renews: session}, 2)
		seen.Image.Limits[0].SetExtra(store.Extra{Opened: begun, SoftUntil: begun + 1_000_000, Observed: store.Observed{Mode: store.Shadow}})
		return []memory.Seen{seen}, 1
	})
	if got := taking(t, b, s, 15).Taken()[0].Until; got != store.NoBalance {
		t.Errorf("15 of 2 tokens are taken until %d", got)
	}
}
