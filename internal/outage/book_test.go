package outage_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/outage"
	"github.com/zeroae/zae-limiter-go/store"
)

// begun is when the store was lost.
const begun = 1_700_000_000_000

var key = memory.Key{Entity: "user", Resource: "api"}

// image is a bucket of one limit that holds so many tokens when the store is lost.
func image(limit *store.Limit, tokens int64) memory.Seen {
	img := &store.Image{Bucket: store.Bucket{Entity: key.Entity, Resource: key.Resource}, RefilledAt: begun, ShardCount: 1}
	img.Limits = []store.LimitState{{Name: limit.Name, Params: new(limit.Params()), Tokens: tokens * store.Milli}}
	return memory.Seen{Image: img, At: memory.Moment{Now: begun}}
}

// Any history of takes and returns by any number of processes stays within the published bound, and
// what they owe is what the store's bucket has too much: with all debts paid, it holds what it would
// hold if all had been written in time, and it has counted all that was taken.
func TestAnyHistoryStaysWithinTheBound(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 61))
		limit := &store.Limit{Name: "n", Capacity: 1 + r.Int64N(200), Amount: 1 + r.Int64N(50), Period: time.Duration(1+r.IntN(20)) * time.Second}
		processes := 1 + r.IntN(9)
		assumed := max(1, processes+r.IntN(5)-2)
		held := r.Int64N(limit.Capacity + 1)
		books, holds := make([]*outage.Book, processes), make([][]*outage.Hold, processes)
		shares := make([]*outage.Share, processes)
		for i := range books {
			books[i] = outage.NewBook(3)
			shares[i], _ = books[i].Share(key, begun, begun, func() ([]memory.Seen, int) {
				return []memory.Seen{image(limit, held)}, assumed
			})
		}
		now, taken := int64(begun), int64(0)
		for range 300 {
			now += r.Int64N(400)
			i := r.IntN(processes)
			if n := len(holds[i]); n > 0 && r.IntN(4) == 0 {
				h := holds[i][n-1]
				holds[i] = holds[i][:n-1]
				back := h.Taken()[0].Milli
				if !h.Change([]store.Amount{{Limit: "n", Milli: -back}}, now) {
					t.Fatal("the share is closed")
				}
				taken -= back
				continue
			}
			milli := r.Int64N(5*store.Milli) + 1
			got, refused := books[i].Take([]outage.Ask{{Share: shares[i], Amounts: []store.Amount{{Limit: "n", Milli: milli}}}}, now)
			if len(refused) > 0 {
				continue
			}
			holds[i], taken = append(holds[i], got[0]), taken+milli
		}
		elapsed := float64(now - begun)
		rate := float64(limit.Amount*store.Milli) / float64(limit.Period.Milliseconds())
		if bound := float64(processes)/float64(assumed)*(float64(held*store.Milli)+rate*elapsed) + float64(processes); float64(taken) > bound {
			t.Errorf("seed %d: %d were taken, the bound is %.0f", seed, taken, bound)
		}
		var lacking, counted int64
		for i := range books {
			d, _ := books[i].Pay(shares[i], "id", now)
			if d == nil {
				continue
			}
			for _, a := range d.Lacking {
				lacking += a.Milli
			}
			counted += d.Spent()
			books[i].Paid(shares[i], true)
			if d, busy := books[i].Pay(shares[i], "id", now); d != nil || busy != nil || books[i].Len() != 0 {
				t.Errorf("seed %d: it owes twice", seed)
			}
		}
		if counted != taken {
			t.Errorf("seed %d: %d are counted of %d", seed, counted, taken)
		}
		if most := (limit.Capacity*store.Milli*int64(processes) + int64(assumed)) / int64(assumed); lacking > most || lacking < 0 {
			t.Errorf("seed %d: %d are lacking, of a capacity of %d", seed, lacking, most)
		}
	}
}

func take(b *outage.Book, s *outage.Share, milli, now int64) *outage.Quote {
	if _, refused := b.Take([]outage.Ask{{Share: s, Amounts: []store.Amount{{Limit: "n", Milli: milli}}}}, now); len(refused) > 0 {
		return &refused[0]
	}
	return nil
}

// A wait is exact: the amount is admitted after it, and not a millisecond before.
func TestTheWaitOfAShareIsExact(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 62))
		limit := &store.Limit{Name: "n", Capacity: 10 + r.Int64N(200), Amount: 1 + r.Int64N(50), Period: time.Duration(1+r.IntN(20)) * time.Second}
		milli := 1 + r.Int64N(limit.Capacity*store.Milli/3)
		of := func() (*outage.Book, *outage.Share) {
			b := outage.NewBook(1)
			s, _ := b.Share(key, begun, begun, func() ([]memory.Seen, int) { return []memory.Seen{image(limit, 0)}, 3 })
			return b, s
		}
		b, s := of()
		q := take(b, s, milli, begun)
		if q == nil {
			t.Fatalf("seed %d: admitted of nothing", seed)
		}
		ms := q.Wait.Milliseconds()
		if b, s := of(); ms > 1 && take(b, s, milli, begun+ms-1) == nil {
			t.Errorf("seed %d: admitted a millisecond before %v", seed, q.Wait)
		}
		if b, s := of(); take(b, s, milli, begun+ms) != nil {
			t.Errorf("seed %d: refused after %v", seed, q.Wait)
		}
	}
}

// A debt that was sent and not answered is sent again as it is. Takes from now on are another one.
func TestADebtStaysAsItWasSent(t *testing.T) {
	limit := &store.Limit{Name: "n", Capacity: 100, Amount: 1, Period: time.Hour}
	b := outage.NewBook(1)
	s, _ := b.Share(key, begun, begun, func() ([]memory.Seen, int) { return []memory.Seen{image(limit, 100)}, 1 })
	if q := take(b, s, 10_000, begun); q != nil {
		t.Fatal(q)
	}
	first, _ := b.Pay(s, "first", begun)
	if d, busy := b.Pay(s, "other", begun); d != nil || busy == nil {
		t.Error("two payments at the same time")
	}
	if q := take(b, s, 5_000, begun); q != nil {
		t.Fatal(q)
	}
	b.Paid(s, false)
	again, _ := b.Pay(s, "second", begun)
	if again != first || again.ID != "first" || again.Spent() != 10_000 {
		t.Errorf("sent again: %+v", again)
	}
	b.Paid(s, true)
	next, _ := b.Pay(s, "second", begun)
	if next == nil || next.ID != "second" || next.Spent() != 5_000 {
		t.Errorf("the next debt: %+v", next)
	}
}
