package acquire_test

import (
	"math/rand/v2"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// A limit in shadow decides as an enforced one, request for request: whom that refuses, it would have
// refused. Nobody is refused, and no request costs more.
func TestShadowDecidesAsEnforcement(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		inBubble(t, testbed.Options{Remote: seed%3 != 0, Limiter: limiter.Options{}}, func(w *world) {
			r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			limits := [...]limiter.Limit{
				limiter.PerMinute("rpm", 30), limiter.PerSecond("rpm", 2, limiter.Burst(9)),
			}
			is := limits[seed%2]
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: "real"}, []limiter.Limit{is}))
			is.Mode = limiter.Shadow
			w.Must(w.Store.SetLimits(w.Context(), limiter.ConfigKey{Resource: "trial"}, []limiter.Limit{is}))
			for i := range 60 {
				ask := limiter.Request{Entity: "key", Resource: "real", Consume: map[string]int64{"rpm": 1 + r.Int64N(6)}}
				enforced, refused := w.Acquire(w.Context(), ask)
				ask.Resource = "trial"
				trial, err := w.Acquire(w.Context(), ask)
				if err != nil {
					w.Fatal(err)
				}
				s := trial.Statuses()[0]
				if s.WouldRefuse != (refused != nil) {
					w.Fatalf("seed %d, request %d of %v: enforced %v, in shadow %+v", seed, i, ask.Consume, refused, s)
				}
				if refused == nil {
					if got := enforced.Statuses()[0].Available; got != s.Available {
						w.Fatalf("seed %d, request %d: %d left, and %d in shadow", seed, i, got, s.Available)
					}
				}
				if r.IntN(3) == 0 {
					delta := r.Int64N(12) - 6
					for _, l := range []*limiter.Lease{enforced, trial} {
						if l == nil {
							continue
						}
						used := max(0, ask.Consume["rpm"]+delta)
						if err := l.Settle("rpm", used); err != nil {
							w.Fatal(err)
						}
						if err := l.Commit(w.Context()); err != nil {
							w.Fatal(err)
						}
					}
				}
				time.Sleep(time.Duration(r.IntN(2500)) * time.Millisecond)
			}
		})
	}
}
