package dynamo_test

import (
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
)

// An amendment that comes after the end of a period comes on top of what the quota has carried:
// a top-up adds to it, and a reset takes it away. The rest of a top-up rolls over.
func TestAmendmentsOfAQuotaThatCarries(t *testing.T) {
	for name, topsUp := range map[string]bool{"top-up": true, "reset": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := testbed.New(t, testbed.Options{Remote: true})
				w.System(limiter.PerDay("rate", 60), limiter.Quota("rpd", 100, calendar("day"), limiter.Rollover(250), limiter.CarryDebt()))
				w.Serve(w.Limiter, testbed.AskAll("user", testbed.Tokens{"rate": 10, "rpd": 40}))
				time.Sleep(24 * time.Hour)
				if !topsUp {
					got, err := w.Store.ResetBucket(t.Context(), resetOf("", "rpd"))
					amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": -60}})
					holds(t, w, 60, 100)
					time.Sleep(24 * time.Hour)
					holds(t, w, 60, 200)
					return
				}
				got, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 500}))
				amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": 500}})
				holds(t, w, 60, 660)
				time.Sleep(24 * time.Hour)
				holds(t, w, 60, 350)
				w.Serve(w.Limiter, testbed.Ask("user", "rpd", 350))
				time.Sleep(24 * time.Hour)
				holds(t, w, 60, 100)
			})
		})
	}
}
