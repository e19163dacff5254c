package acquire_test

import (
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
)

// owe has leases that were adjusted by more than there is, each by the same.
func (w *world) owe(leases int, each int64) {
	var all sync.WaitGroup
	open := make([]*limiter.Lease, leases)
	for i := range open {
		lease := w.Lease(w.Limiter, ask("user", "rpm", 0))
		w.Must(lease.Adjust("rpm", each))
		open[i] = lease
	}
	for _, lease := range open {
		all.Go(func() { w.Check(lease.Commit(w.Context())) })
	}
	all.Wait()
}

// debts are the ways in which a bucket of 100 a minute gets into debt.
var debts = map[string]func(*world){
	"one adjustment":                    func(w *world) { w.owe(1, 10_000) },
	"two at once":                       func(w *world) { w.owe(2, 5_000) },
	"one after the other":               func(w *world) { w.owe(1, 5_000); w.owe(1, 0); time.Sleep(time.Second) },
	"two that what there is covers one": func(w *world) { w.owe(2, 90) },
	"as often as there are tokens": func(w *world) {
		for range 50 {
			time.Sleep(time.Second)
			if lease, err := w.Acquire(w.Context(), ask("user", "rpm", 1)); err == nil {
				w.Must(lease.Adjust("rpm", 200))
				w.Must(lease.Commit(w.Context()))
			}
		}
	},
	"by processes of which each believes that there is enough": func(w *world) {
		leases := make([]*limiter.Lease, 15)
		for i := range leases {
			lease, err := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{}).Acquire(w.Context(), ask("user", "rpm", 0))
			w.Must(err)
			w.Must(lease.Adjust("rpm", 90))
			leases[i] = lease
		}
		for _, lease := range leases {
			w.Must(lease.Commit(w.Context()))
		}
	},
	"by several processes": func(w *world) {
		var all sync.WaitGroup
		for range 4 {
			l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine)), limiter.Options{})
			lease := w.Lease(l, ask("user", "rpm", 0))
			w.Must(lease.Adjust("rpm", 3000))
			all.Go(func() { w.Check(lease.Commit(w.Context())) })
		}
		all.Wait()
	},
	"and then refilled": func(w *world) {
		w.owe(1, 10_000)
		time.Sleep(time.Minute)
		w.Take(w.Limiter, ask("user", "rpm", 0))
		w.InvalidateConfig()
		w.Take(w.Limiter, ask("user", "rpm", 0))
	},
	"and then sharded": func(w *world) {
		w.owe(1, 10_000)
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
	},
	"of a sharded one": func(w *world) {
		w.Take(w.Limiter, ask("user", "rpm", 1))
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		w.owe(2, 5_000)
	},
	"and then merged": func(w *world) {
		w.Take(w.Limiter, ask("user", "rpm", 1))
		driverOf(w.Limiter).DoubleNow(w.Context(), "user", "gpt-4")
		w.owe(2, 5_000)
		time.Sleep(time.Second)
		w.merge(w.Limiter)
	},
	"and then lowered": func(w *world) {
		w.owe(1, 10_000)
		w.System(limiter.PerMinute("rpm", 50))
		w.Take(w.Limiter, ask("user", "rpm", 0))
	},
}

// A bucket in debt is kept until the debt is paid and the bucket is full. The quoted
// wait is exact, however long it is, and whatever caused the debt.
func TestABucketIsKeptUntilItHasPaid(t *testing.T) {
	for name, debt := range debts {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limiter.Options{}, func(w *world) {
				w.System(limiter.PerMinute("rpm", 100))
				debt(w)

				refused := w.Take(w.Limiter, ask("user", "rpm", 1))
				if refused == nil {
					w.Fatal("it does not owe anything")
				}

				time.Sleep(refused.RetryAfter() - time.Millisecond)
				if again := w.Take(w.Limiter, ask("user", "rpm", 1)); again == nil || again.RetryAfter() != time.Millisecond {
					w.Errorf("it was to wait %v, and a millisecond before: %v", refused.RetryAfter(), again)
				}
				time.Sleep(time.Millisecond)
				if again := w.Take(w.Limiter, ask("user", "rpm", 1)); again != nil {
					w.Errorf("it was to wait %v, and then: %v", refused.RetryAfter(), again)
				}
			})
		})
	}
}
