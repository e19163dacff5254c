package dynamo_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// The races of soft limits of ADR 050, one test each.

var (
	userOfBed = store.ConfigKey{Entity: "user", Resource: testbed.Resource}
	softly    = limiter.PerHour("rph", 10, limiter.Soft())
	hard      = limiter.PerHour("rph", 10)
)

// inSoftWorld has a bucket of a soft limit that owes 20 of 10 tokens, and a limiter that writes
// through a tap.
func inSoftWorld(t *testing.T, f func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{})
		fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{softly})
		slow := faults.NewTap(w.API)
		l := w.NewLimiter(w.OpenOn(slow), limiter.Options{})
		w.Serve(l, testbed.Ask("user", "rph", 30))
		f(w, slow, l)
	})
}

// writesOf is how many writes of buckets f makes, and what they cost.
func writesOf(w *testbed.World, f func()) (requests int64, units float64) {
	before := w.Meter.Totals()
	f()
	of := w.Meter.Totals().Sub(before)["UpdateItem"]
	return of.Requests, of.WCU
}

// doubleSoft doubles the bucket with a keeper.
func doubleSoft(w *testbed.World, keeper *upkeep.Keeper) error {
	img := *w.Images("user")[0]
	img.Writes.Tokens = -1000 // as if its writes were used up
	_, err := keeper.Double(w.Context(), &img, time.UnixMilli(img.RefilledAt))
	return err
}

// A stamp that passes between the last image and a write costs nothing but the refill that
// renews it.
func TestAStampThatPassedIsRenewedByTheWrite(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		take := func() { w.Serve(l, testbed.Ask("user", "rph", 30)) }
		if n, units := writesOf(w, take); n != 1 || units != 1 {
			t.Errorf("while the stamp holds: %d requests, %v units", n, units)
		}
		s := w.Images("user")[0].Limits[0]
		for _, late := range []time.Duration{0, time.Millisecond} {
			time.Sleep(time.Until(time.UnixMilli(s.SoftUntil())) + late)
			if n, units := writesOf(w, take); n != 1 || units != 1 {
				t.Errorf("%v after it has passed: %d requests, %v units", late, n, units)
			}
			was := s.SoftUntil()
			s = w.Images("user")[0].Limits[0]
			if left := s.SoftUntil() - time.Now().UnixMilli(); s.SoftUntil() == was || left < 48_000 || left > 60_000 {
				t.Errorf("the stamp lives for %d ms", left)
			}
		}
		if s.Consumed != 120_000 {
			t.Errorf("%d are counted", s.Consumed)
		}
	})
}

// A stamp that passes on the way refuses the write, which is sent again.
func TestAStampThatPassesOnTheWay(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		slow.Set(once(is("UpdateItem"), func() {
			patchBucket(t, w, schema.Item{"b_rph_soft": schema.N(time.Now().UnixMilli())})
		}))
		w.Serve(l, testbed.Ask("user", "rph", 30))
		if s := w.Images("user")[0].Limits[0]; s.SoftUntil() <= time.Now().UnixMilli() || s.Consumed != 60_000 {
			t.Errorf("%+v with the stamp %d", s, s.SoftUntil())
		}
	})
}

// patchBucket sets attributes of the bucket, as a peer that moves no stamp does.
func patchBucket(t *testing.T, w *testbed.World, set schema.Item) {
	t.Helper()
	_, ns := w.Store.Namespace()
	behind(t, w.API, schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: testbed.Resource}), set)
}

// A take that was planned before an operator made the limit hard is refused. The debt stays.
func TestATakeUnderWayMeetsAHardLimit(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		slow.Set(once(is("UpdateItem"), func() { fixture.SetLimits(t, w.Store, userOfBed, []store.Limit{hard}) }))
		refused := w.Take(l, testbed.Ask("user", "rph", 1))
		if refused == nil || refused.RetryAfter() < 2*time.Hour || w.Balance("user", "rph") != -20 {
			t.Errorf("%v, and %d are left", refused, w.Balance("user", "rph"))
		}
	})
}

// The same where a peer removes the stamp and nothing else, as of a resource's limits.
func TestATakeUnderWayMeetsALimitThatAPeerMadeHard(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, slow *faults.Tap, l *limiter.Limiter) {
		slow.Set(once(is("UpdateItem"), func() {
			_, ns := w.Store.Namespace()
			behind(t, w.API, schema.ConfigKey(ns, userOfBed), schema.Item{"l_rph_soft": nil})
			patchBucket(t, w, schema.Item{"b_rph_soft": nil})
		}))
		if refused := w.Take(l, testbed.Ask("user", "rph", 1)); refused == nil || w.Balance("user", "rph") != -20 {
			t.Errorf("%v, and %d are left", refused, w.Balance("user", "rph"))
		}
	})
}

// A shard born while the stamp is live has it, and the debt is divided.
func TestAShardBornOfASoftOneIsSoft(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		keeper := w.NewKeeper(w.Store, process.Options{})
		err := doubleSoft(w, keeper)
		images := w.Images("user")
		if err != nil || len(images) != 2 {
			t.Fatal(err, len(images))
		}
		for _, img := range images {
			if s := img.Limits[0]; s.SoftUntil() != images[0].Limits[0].SoftUntil() || s.Tokens != -10_000 {
				t.Errorf("shard %d: %+v with the stamp %d", img.Shard, s, s.SoftUntil())
			}
		}
		for range 10 {
			w.Serve(l, testbed.Ask("user", "rph", 30))
		}
		if w.Balance("user", "rph") != -320 {
			t.Errorf("%d are left", w.Balance("user", "rph"))
		}
		merged, err := keeper.Merge(t.Context(), w.Images("user"))
		if images = w.Images("user"); err != nil || !merged || len(images) != 1 || !images[0].Limits[0].IsSoft() || images[0].Limits[0].Tokens != -320_000 {
			t.Errorf("merged %t, %v: %+v", merged, err, images[0].Limits)
		}
		w.Serve(l, testbed.Ask("user", "rph", 30))
	})
}

// A stamp that had passed when the item last accrued does not keep the bucket from being
// doubled: a settlement accrues, and renews no stamp.
func TestAStampThatHasPassedIsDivided(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		patchBucket(t, w, schema.Item{"b_rph_soft": schema.N(1)})
		if err := doubleSoft(w, w.NewKeeper(w.Store, process.Options{})); err != nil {
			t.Fatal(err)
		}
		images := w.Images("user")
		if len(images) != 2 || images[0].Limits[0].SoftUntil() != 1 || images[1].Limits[0].SoftUntil() != 1 {
			t.Fatalf("%d shards: %+v", len(images), images[0].Limits)
		}
		w.Serve(l, testbed.Ask("user", "rph", 30))
	})
}

// A doubling that was planned before the limit was made hard gives birth to no soft shard.
func TestADoublingMeetsAHardLimit(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, slow *faults.Tap, _ *limiter.Limiter) {
		keeper := w.NewKeeper(w.OpenOn(slow), process.Options{})
		slow.Set(once(is("TransactWriteItems"), func() { patchBucket(t, w, schema.Item{"b_rph_soft": nil}) }))
		if err := doubleSoft(w, keeper); err != nil && !errors.Is(err, store.ErrConflict) {
			t.Fatal(err)
		}
		for _, img := range w.Images("user") {
			if img.Limits[0].IsSoft() {
				t.Errorf("shard %d is soft", img.Shard)
			}
		}
	})
}

// Processes that meet a stamp that has passed renew it once each at most, and all are admitted.
func TestTwoProcessesRenewAStamp(t *testing.T) {
	inSoftWorld(t, func(w *testbed.World, _ *faults.Tap, l *limiter.Limiter) {
		all := []*limiter.Limiter{l}
		for range 3 {
			all = append(all, w.NewLimiter(w.OpenOn(w.API), limiter.Options{}))
			w.Serve(all[len(all)-1], testbed.Ask("user", "rph", 1))
		}
		s := w.Images("user")[0].Limits[0]
		time.Sleep(time.Until(time.UnixMilli(s.SoftUntil())))
		n, _ := writesOf(w, func() {
			var wg sync.WaitGroup
			for _, l := range all {
				wg.Go(func() { w.Serve(l, testbed.Ask("user", "rph", 30)) })
			}
			wg.Wait()
		})
		after := w.Images("user")[0].Limits[0]
		if took := after.ConsumedSince(&s); took != 120_000 || n > 2*int64(len(all)) {
			t.Errorf("%d requests took %d", n, took)
		}
	})
}
