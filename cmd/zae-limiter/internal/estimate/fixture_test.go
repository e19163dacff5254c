package estimate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A trial is a load that is put on the engine in virtual time.
type trial struct {
	rate      float64 // requests a second
	processes int
	buckets   int
	cascade   bool
	parents   int
	adjusted  float64
	limits    []store.Limit
	latency   time.Duration
	warm      time.Duration // the load runs that long before the bill begins
	run       time.Duration
	tokens    map[string]int64
}

// A bill is what a trial cost, by the engine's own ledger, and what became of its requests.
type bill struct {
	requests, refused int
	wcu, rcu          float64
}

// measure runs a trial in a bubble.
func measure(t *testing.T, tr trial) (b bill) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{Remote: true, Engine: dynamolite.Options{Latency: dynamolite.Latency{P50: tr.latency}}})
		w.System(tr.limits...)
		if tr.cascade {
			for i := range tr.parents {
				create(w, store.Entity{ID: fmt.Sprint("team-", i)})
			}
			for i := range tr.buckets {
				create(w, store.Entity{ID: fmt.Sprint("key-", i), Parent: fmt.Sprint("team-", i%tr.parents), Cascade: true})
			}
		}
		limiters := make([]*limiter.Limiter, max(1, tr.processes))
		for i := range limiters {
			limiters[i] = w.NewLimiter(w.Open(dynamo.Options{}), limiter.Options{})
		}
		dice := rand.New(rand.NewPCG(1, 2))
		put(w, limiters, dice, &tr, tr.warm)
		before := w.Engine.Ledger()
		b = put(w, limiters, dice, &tr, tr.run)
		total := w.Engine.Ledger().Since(before).Total()
		b.wcu, b.rcu = total.WriteUnits, total.ReadUnits
	})
	return b
}

func create(w *testbed.World, e store.Entity) {
	w.Helper()
	_, err := w.Store.CreateEntity(w.Context(), e)
	w.Must(err)
}

// put makes requests at random instants for a time, and waits for all of them.
func put(w *testbed.World, limiters []*limiter.Limiter, dice *rand.Rand, tr *trial, long time.Duration) (b bill) {
	w.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(long)
	for {
		time.Sleep(time.Duration(dice.ExpFloat64() / tr.rate * float64(time.Second)))
		if time.Now().After(end) {
			break
		}
		l, entity, adjusts := limiters[dice.IntN(len(limiters))], fmt.Sprint("key-", dice.IntN(tr.buckets)), dice.Float64() < tr.adjusted
		b.requests++
		wg.Go(func() {
			if request(w, l, entity, tr.tokens, adjusts) {
				mu.Lock()
				b.refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return b
}

// request makes one request and reports whether it was refused.
func request(w *testbed.World, l *limiter.Limiter, entity string, tokens map[string]int64, adjusts bool) bool {
	lease, err := l.Acquire(context.WithoutCancel(w.Context()), limiter.Request{Entity: entity, Resource: testbed.Resource, Consume: tokens})
	if errors.Is(err, limiter.ErrExceeded) {
		return true
	}
	w.Check(err)
	if err != nil {
		return false
	}
	if adjusts {
		for name := range tokens {
			w.Check(lease.Adjust(name, 1))
			break
		}
	}
	w.Check(lease.Commit(context.WithoutCancel(w.Context())))
	return false
}
