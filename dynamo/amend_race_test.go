package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// between is a store before whose first transactions others write: once they have been worked
// out, and before they reach the table.
func between(w *testbed.World, transactions int, write func()) *dynamo.Store {
	w.Helper()
	left := transactions
	return w.OpenOn(faults.Wrap(w.Meter, faults.On(faults.Before(func(*faults.Call) error {
		if left--; left >= 0 {
			write()
		}
		return nil
	}), faults.TransactWriteItems)))
}

// merge halves the number of shards.
func merge(w *testbed.World) {
	w.Helper()
	k := w.NewKeeper(w.Open(dynamo.Options{API: w.Meter}), process.Options{})
	images, err := k.Shards(w.Context(), store.Bucket{Entity: "user", Resource: testbed.Resource})
	w.Must(err)
	if merged, err := k.Merge(w.Context(), images); err != nil || !merged {
		w.Errorf("merged: %v, %v", merged, err)
	}
}

// halfDouble makes shard 1 of 2 into two of four, and leaves shard 0 of 2, as a client does
// that dies between.
func halfDouble(w *testbed.World) {
	w.Helper()
	img := w.Images("user")[1]
	s := w.Open(dynamo.Options{API: w.Meter})
	joint, err := s.Bear(w.Context(), plan.Split(img, 3, 4, false, time.Now().UnixMilli(), lawMultiplier))
	if err != nil || !joint.Applied {
		w.Errorf("split: %+v, %v", joint, err)
	}
}

// toEdge waits until a second before the period of the quota ends.
func toEdge(w *testbed.World) {
	w.Helper()
	time.Sleep(time.Until(time.UnixMilli(w.Images("user")[0].ValidUntil)) - time.Second)
}

// Others write between the plan of a top-up or a reset and its transaction. Their tokens are
// neither lost nor there twice.
func TestAmendmentsRace(t *testing.T) {
	type balances struct{ rate, rpd int64 }
	take := func(w *testbed.World) {
		w.Serve(w.Limiter, testbed.AskAll("user", testbed.Tokens{"rate": 2, "rpd": 3}))
	}
	var lease *limiter.Lease
	hold := func(w *testbed.World) {
		var err error
		lease, err = w.Acquire(w.Context(), testbed.AskAll("user", testbed.Tokens{"rate": 2, "rpd": 3}))
		w.Must(err)
	}
	for name, c := range map[string]struct {
		before func(*testbed.World)
		during func(*testbed.World)
		// after a top-up of 500 and of 4, and after a reset
		topped, reset balances
	}{
		"nothing":              {nil, func(*testbed.World) {}, balances{54, 560}, balances{60, 100}},
		"a take":               {nil, take, balances{52, 557}, balances{58, 97}},
		"a credit":             {hold, func(w *testbed.World) { w.Must(lease.Rollback(w.Context())) }, balances{54, 560}, balances{60, 100}},
		"a take of shards":     {double, take, balances{52, 557}, balances{58, 97}},
		"a doubling":           {nil, double, balances{54, 560}, balances{60, 100}},
		"a doubling of shards": {double, double, balances{54, 560}, balances{60, 100}},
		"a half-done doubling": {func(w *testbed.World) { double(w); halfDouble(w) }, func(*testbed.World) {}, balances{54, 560}, balances{60, 100}},
		"half of a doubling":   {double, halfDouble, balances{54, 560}, balances{60, 100}},
		"a merge":              {double, merge, balances{54, 560}, balances{60, 100}},
		"an end of a period": {toEdge, func(w *testbed.World) {
			time.Sleep(2 * time.Second)
			w.Serve(w.Limiter, testbed.Ask("user", "rpd", 3))
		}, balances{60, 597}, balances{60, 100}},
		"an end that nobody sees": {toEdge, func(*testbed.World) { time.Sleep(2 * time.Second) }, balances{60, 100}, balances{60, 100}},
		"a reset by another": {nil, func(w *testbed.World) {
			must(w.Open(dynamo.Options{API: w.Meter}).ResetBucket(w.Context(), resetOf("other")))
		}, balances{60, 600}, balances{60, 100}},
		"a top-up by another": {nil, func(w *testbed.World) {
			must(w.Open(dynamo.Options{API: w.Meter}).TopUpBucket(w.Context(), topUpOf("other", map[string]int64{"rpd": 7})))
		}, balances{54, 567}, balances{60, 100}},
		"an edit": {nil, func(w *testbed.World) {
			w.System(limiter.PerDay("rate", 60), limiter.Quota("rpd", 110, calendar("day")))
			take(w)
		}, balances{52, 567}, balances{60, 110}},
	} {
		for _, op := range []string{"top-up", "reset"} {
			t.Run(name+" and a "+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := amending(t)
					if c.before != nil {
						c.before(w)
					}
					s, want := between(w, 1, func() { c.during(w) }), c.topped
					var got dynamo.Amended
					var err error
					if op == "top-up" {
						got, err = s.TopUpBucket(t.Context(), topUpOf("k", map[string]int64{"rpd": 500, "rate": 4}))
					} else {
						want = c.reset
						got, err = s.ResetBucket(t.Context(), resetOf("k"))
						storesAtMost(t, w, 60, want.rpd)
					}
					if err != nil || got.Repeated {
						t.Errorf("got %+v, %v", got, err)
					}
					time.Sleep(1100 * time.Millisecond) // the limiter trusts its images for so long
					holds(t, w, want.rate, want.rpd)
					w.Serve(w.Limiter, testbed.Ask("user", "rpd", want.rpd))
				})
			})
		}
	}
}

// storesAtMost checks what all shards together have stored, which a reader would cut.
func storesAtMost(t *testing.T, w *testbed.World, rate, rpd int64) {
	t.Helper()
	sums := map[string]int64{}
	for _, img := range w.Images("user") {
		for i := range img.Limits {
			sums[img.Limits[i].Name] += img.Limits[i].Tokens
		}
	}
	if sums["rate"] > rate*store.Milli || sums["rpd"] > rpd*store.Milli {
		t.Errorf("%v millitokens are stored, want at most %d and %d tokens", sums, rate, rpd)
	}
}

func must(_ dynamo.Amended, err error) {
	if err != nil {
		panic(err)
	}
}

// Two operators with the same key: one of them acts, and both are told the same.
func TestTwoCallsWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		amounts := map[string]int64{"rpd": 500}
		s := between(w, 1, func() {
			got, err := w.Open(dynamo.Options{API: w.Meter}).TopUpBucket(t.Context(), topUpOf("k", amounts))
			amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: amounts})
		})
		got, err := s.TopUpBucket(t.Context(), topUpOf("k", amounts))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: amounts, Repeated: true})
		holds(t, w, 50, 560)
		fixture.WantActions(t, w.Store, "user", audit.BucketToppedUp)
		s = between(w, 1, func() { must(w.Open(dynamo.Options{API: w.Meter}).ResetBucket(t.Context(), resetOf("l"))) })
		if _, err := s.TopUpBucket(t.Context(), topUpOf("l", amounts)); !errors.Is(err, dynamo.ErrKeyUsed) {
			t.Errorf("the other one did something else: %v", err)
		}
		holds(t, w, 60, 100)
	})
}

// If an answer is lost, a call with the key tells what was done.
func TestLostAnswersOfAmendments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		var slot faults.Slot
		s := w.OpenOn(faults.Wrap(w.Meter, faults.On(slot.Apply, faults.TransactWriteItems)))
		amounts := map[string]int64{"rpd": 500}
		slot.Set(faults.LoseAnswer(context.DeadlineExceeded))
		if _, err := s.TopUpBucket(t.Context(), topUpOf("k", amounts)); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("no answer: %v", err)
		}
		slot.Set(nil)
		got, err := s.TopUpBucket(t.Context(), topUpOf("k", amounts))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: amounts, Repeated: true})
		holds(t, w, 50, 560)
		fixture.WantActions(t, w.Store, "user", audit.BucketToppedUp)
	})
}

// A caller that leaves, or a process that ends, leaves all done or nothing.
func TestAnInterruptedAmendment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		double(w)
		ctx, cancel := context.WithCancel(t.Context())
		s := w.OpenOn(faults.Wrap(w.Meter, faults.On(faults.Before(func(*faults.Call) error {
			cancel()
			return context.Canceled
		}), faults.TransactWriteItems)))
		if _, err := s.ResetBucket(ctx, resetOf("k")); err == nil {
			t.Error("the reset succeeded")
		}
		holds(t, w, 50, 60)
		got, err := w.Store.ResetBucket(t.Context(), resetOf("k"))
		if err != nil || got.Repeated {
			t.Errorf("got %+v, %v", got, err)
		}
		holds(t, w, 60, 100)
	})
}

// Others that come first each time make it give up after four attempts, with nothing done.
func TestAnAmendmentGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		tries := 0
		s := between(w, 100, func() {
			tries++
			must(w.Open(dynamo.Options{API: w.Meter}).ResetBucket(t.Context(), resetOf("")))
		})
		if _, err := s.TopUpBucket(t.Context(), topUpOf("k", map[string]int64{"rpd": 500})); !errors.Is(err, store.ErrConflict) || tries != 4 {
			t.Errorf("after %d tries: %v", tries, err)
		}
		holds(t, w, 60, 100)
		_, ns := w.Store.Namespace()
		if it := fixture.Get(t, w.Engine, schema.OperationKey(ns, store.Bucket{Entity: "user", Resource: testbed.Resource}, "k")); it != nil {
			t.Errorf("there is a record: %v", it)
		}
	})
}

// A credit planned before a reset finds no more room than the reset left.
func TestACreditAndAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		must(w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 50})))
		time.Sleep(1100 * time.Millisecond)
		lease := w.Lease(w.Limiter, testbed.Ask("user", "rpd", 110))
		must(w.Store.ResetBucket(t.Context(), resetOf("")))
		w.Must(lease.Rollback(t.Context()))
		holds(t, w, 60, 100)
	})
}

// A credit planned before a reset does not fill what the top-up before it had made room for.
func TestACreditAndATopUpThatAResetEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		must(w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 50})))
		time.Sleep(1100 * time.Millisecond)
		lease := w.Lease(w.Limiter, testbed.Ask("user", "rpd", 60))
		other := w.OpenOn(w.API)
		must(other.ResetBucket(t.Context(), resetOf("")))
		w.Serve(w.NewLimiter(other, limiter.Options{}), testbed.Ask("user", "rpd", 30)) // 70 are left
		w.Must(lease.Rollback(t.Context()))
		if s, _ := w.Images("user")[0].Limit("rpd"); s.Tokens != 100_000 {
			t.Errorf("%d are left", s.Tokens)
		}
	})
}

// Another process notices a top-up, although it remembers that a quota is empty until its
// period ends.
func TestARefusalDoesNotOutliveATopUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		w.Serve(w.Limiter, testbed.Ask("user", "rpd", 60))
		refused := w.Take(w.Limiter, testbed.Ask("user", "rpd", 1))
		if refused == nil || refused.RetryAfter() < time.Hour {
			t.Fatalf("got %v", refused)
		}
		waited := make(chan time.Duration)
		go func() {
			began := time.Now()
			lease, err := w.Wait(t.Context(), testbed.Ask("user", "rpd", 2))
			if err == nil {
				err = lease.Commit(t.Context())
			}
			w.Check(err)
			waited <- time.Since(began)
		}()
		time.Sleep(time.Minute)
		must(w.Open(dynamo.Options{API: w.Meter}).TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 5})))
		time.Sleep(1001 * time.Millisecond)
		if refused := w.Take(w.NewLimiter(w.Store, limiter.Options{}), testbed.Ask("user", "rpd", 1)); refused != nil {
			t.Errorf("another process: %v", refused)
		}
		if refused := w.Take(w.Limiter, testbed.Ask("user", "rpd", 1)); refused != nil {
			t.Errorf("the process that was refused: %v", refused)
		}
		if got := <-waited; got > 2*time.Minute {
			t.Errorf("the caller that waits was served after %v", got)
		}
	})
}

// Two shards that hold the same share would both be made full. Such a set is mended first: a
// peer has made shard 0 again, which does not know that there are two.
func TestAnAmendmentMendsTheShardsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		double(w)
		w.Must(forgetsShards(w.Context(), w.Meter, w.Store, "user", testbed.Resource))
		if _, err := w.Store.ResetBucket(t.Context(), resetOf("")); err != nil {
			t.Fatal(err)
		}
		var rpd int64
		for _, img := range w.Images("user") {
			s, _ := img.Limit("rpd")
			if rpd += s.Tokens; img.ShardCount != 2 {
				t.Errorf("shard %d knows of %d shards", img.Shard, img.ShardCount)
			}
		}
		if rpd != 100*store.Milli {
			t.Errorf("after a reset to 100, the shards hold %d millitokens", rpd)
		}
	})
}

// A loose split requires no stamp, so it may come after a top-up that it has not seen. It leaves
// the top-up.
func TestALooseSplitLeavesATopUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		seen := w.Images("user")[0]
		if _, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 15})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		joint, err := w.Store.Bear(w.Context(), plan.Split(seen, 1, 2, true, time.Now().UnixMilli(), lawMultiplier))
		if err != nil || !joint.Applied {
			t.Fatalf("split: %+v, %v", joint, err)
		}
		s, _ := w.Images("user")[0].Limit("rpd")
		if s.Granted().TopUp != 15*store.Milli {
			t.Errorf("the shard was granted %+v", s.Granted())
		}
		holds(t, w, 50, 75)
	})
}
