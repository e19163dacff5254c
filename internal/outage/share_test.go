package outage_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/outage"
	"github.com/zeroae/zae-limiter-go/store"
)

// shareOf is the share of one of n processes of a bucket with these images.
func shareOf(n int, since int64, seen ...memory.Seen) (*outage.Book, *outage.Share) {
	b := outage.NewBook(1)
	s, _ := b.Share(key, since, since, func() ([]memory.Seen, int) { return seen, n })
	return b, s
}

// holdsOf checks how many tokens of a limit the share has at an instant: so many, and no more.
func holdsOf(t *testing.T, b *outage.Book, s *outage.Share, tokens, now int64) {
	t.Helper()
	if take(b, s, (tokens+1)*store.Milli, now) == nil {
		t.Errorf("more than %d tokens are admitted", tokens)
	}
	if q := take(b, s, tokens*store.Milli, now); q != nil {
		t.Errorf("%d tokens are refused, of %d", tokens, q.Held)
	}
}

// The images of two shards are of different ages: one was seen before the bucket was doubled, and one
// after. Together they have more than the limit. The share of n processes has an n-th of it at most.
func TestAShareIsNeverMoreThanItsPart(t *testing.T) {
	limit := &store.Limit{Name: "n", Capacity: 100, Amount: 1, Period: time.Hour}
	for n, most := range map[int]int64{1: 100, 2: 50, 3: 33} {
		before, after := image(limit, 100), image(limit, 50)
		after.Image.Shard, after.Image.ShardCount = 1, 2
		b, s := shareOf(n, begun, before, after)
		holdsOf(t, b, s, most, begun)
	}
}

// A quota that has renewed since its image was seen begins with its new amount. Others may have taken
// meanwhile what a rate has earned: it begins with what was seen.
func TestAShareBeginsAtTheInstantOfTheLoss(t *testing.T) {
	day, err := store.ParseRenewal("day", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limit *store.Limit
		want  int64
	}{
		"a quota": {&store.Limit{Name: "n", Capacity: 100, Renews: day}, 100},
		"a rate":  {&store.Limit{Name: "n", Capacity: 100, Amount: 10, Period: time.Hour}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			since := int64(begun + 25*time.Hour/time.Millisecond)
			b, s := shareOf(1, since, image(c.limit, 7))
			holdsOf(t, b, s, c.want, since)
		})
	}
}

// A write that may have landed is known to be lost after its tokens were put into a debt. It counts as
// taken all the same: the next debt has that much less. It never gives tokens back.
func TestForgivingWhatIsInADebt(t *testing.T) {
	for _, later := range []int64{0, 3, 8, 20} {
		for _, isPaid := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d later, paid %v", later, isPaid), func(t *testing.T) {
				limit := &store.Limit{Name: "n", Capacity: 100, Amount: 1, Period: time.Hour}
				b, s := shareOf(1, begun, image(limit, 100))
				h := taking(t, b, s, 8)
				d, _ := b.Pay(s, "first", begun)
				if isPaid {
					b.Paid(s, true)
				}
				h.Forgive(begun)
				if !isPaid {
					b.Paid(s, true)
				}
				if d.Spent() != 8*store.Milli {
					t.Errorf("the debt has %d", d.Spent())
				}
				taking(t, b, s, later)
				lacking, counted := owed(b, s)
				if want := max(0, later-8); lacking != want || lacking+counted != later-8 {
					t.Errorf("%d tokens are owed and %d counted, want %d and %d in all", lacking, counted, want, later-8)
				}
			})
		}
	}
}

// A share that is closed has paid what it took. A write that may have landed changes nothing then,
// neither there nor in the share that the bucket has after that.
func TestForgivingAShareThatIsClosed(t *testing.T) {
	limit := &store.Limit{Name: "n", Capacity: 100, Amount: 1, Period: time.Hour}
	b, s := shareOf(1, begun, image(limit, 100))
	h := taking(t, b, s, 8)
	if lacking, _ := owed(b, s); lacking != 8 {
		t.Fatalf("%d tokens are owed", lacking)
	}
	b.Paid(s, true)
	if d, _ := b.Pay(s, "id", begun); d != nil || b.Len() != 0 {
		t.Fatalf("it is not closed: %+v", d)
	}
	next, _ := b.Share(key, begun, begun, func() ([]memory.Seen, int) { return []memory.Seen{image(limit, 92)}, 1 })
	h.Forgive(begun)
	taking(t, b, next, 5)
	if lacking, counted := owed(b, next); lacking != 5 || counted != 0 {
		t.Errorf("%d tokens are owed and %d counted, want 5 and 0", lacking, counted)
	}
	if d, busy := b.Pay(s, "id", begun); d != nil || busy != nil {
		t.Errorf("the closed share owes %+v", d)
	}
	if got := h.Taken(); len(got) != 1 || got[0].Milli != 8*store.Milli {
		t.Errorf("the hold has %+v", got)
	}
}

// An image that was seen after the loss, by an answer that came late, is earned on from its own instant:
// what the limit had earned until then is in it.
func TestAShareBeginsWithAnImageSeenAfterTheLoss(t *testing.T) {
	t.Parallel()
	const later = begun + 10_000
	seen := image(&store.Limit{Name: "n", Capacity: 100, Amount: 1, Period: time.Second}, 7)
	seen.At.Now, seen.Image.RefilledAt = later, later
	b, s := shareOf(1, begun, seen)
	holdsOf(t, b, s, 7, later)
}

// A caller looks at what a share has while others take of it. The race detector tells whether it may.
func TestAShareIsLookedAtWhileOthersTake(t *testing.T) {
	t.Parallel()
	limit := &store.Limit{Name: "n", Capacity: 1000, Amount: 1, Period: time.Second}
	b := outage.NewBook(1)
	s, err := b.Share(key, begun, begun, func() ([]memory.Seen, int) { return []memory.Seen{image(limit, 1000)}, 1 })
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for n := range int64(50) {
				if !s.Has("n") || s.Has("m") {
					t.Error("the share has another limit")
				}
				b.Take([]outage.Ask{{Share: s, Amounts: []store.Amount{{Limit: "n", Milli: 1}}}}, begun+n*int64(i+1))
			}
		})
	}
	wait.Wait()
}
