package usage_test

import (
	"testing"
	"testing/synctest"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A parent has consumed what its keys took from it, and what it took itself.
func TestUsageOfAParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{})
		w.Entities(limiter.Entity{ID: "acme"}, limiter.Entity{ID: "alone", Parent: "acme"}, testbed.Child("key-1", "acme"), testbed.Child("key-2", "acme"))
		rph := limiter.PerHour("rph", 1000)
		for _, entity := range []string{"acme", "alone", "key-1"} {
			w.Must(w.Store.SetLimits(t.Context(), store.ConfigKey{Entity: entity, Resource: testbed.Resource}, []store.Limit{rph}))
		}
		w.Must(w.Store.SetLimits(t.Context(), store.ConfigKey{Entity: "key-2", Resource: testbed.Resource}, []store.Limit{rph, limiter.PerHour("own", 1000)}))
		w.Serve(w.Limiter, testbed.Ask("acme", "rph", 1))
		w.Serve(w.Limiter, testbed.Ask("alone", "rph", 10))
		w.Serve(w.Limiter, testbed.Ask("key-1", "rph", 100))
		w.Serve(w.Limiter, testbed.AskAll("key-2", testbed.Tokens{"rph": 200, "own": 3}))
		lease := w.Lease(w.Limiter, testbed.Ask("key-2", "rph", 50))
		w.Must(lease.Rollback(t.Context()))
		for entity, want := range map[string]map[string]int64{
			"acme": {"rph": 301}, "alone": {"rph": 10}, "key-1": {"rph": 100}, "key-2": {"rph": 200, "own": 3},
			"": {"rph": 611, "own": 3},
		} {
			sum, err := w.Store.Usage().Sum(t.Context(), usage.Query{Entity: entity, Resource: testbed.Resource, Now: true})
			w.Must(err)
			for _, l := range sum.Limits {
				if l.Total.Int64() != want[l.Limit]*1000 {
					t.Errorf("%q consumed %v of %s, want %d", entity, l.Total, l.Limit, want[l.Limit]*1000)
				}
				delete(want, l.Limit)
			}
			if len(want) > 0 {
				t.Errorf("%q lacks %v", entity, want)
			}
		}
	})
}
