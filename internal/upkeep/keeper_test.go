package upkeep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

var hourly = limiter.PerHour("rph", 3600)

// A verb is one call of a keeper on a bucket of one shard, or of several.
type verb struct {
	name string
	call func(context.Context, *upkeep.Keeper) error
}

// verbs are all calls of a keeper that have something to do on the given shards.
func verbs(images []*store.Image) []verb {
	pressed := *images[0]
	pressed.Writes.Tokens = 0
	empty := *images[0]
	empty.Limits = []store.LimitState{images[0].Limits[0]}
	empty.RefilledAt, empty.Limits[0].Tokens = empty.RefilledAt-time.Hour.Milliseconds(), 0
	all := []verb{
		{"Shards", func(ctx context.Context, k *upkeep.Keeper) error {
			_, err := k.Shards(ctx, pressed.Bucket)
			return err
		}},
		{"Mend", func(ctx context.Context, k *upkeep.Keeper) error { return k.Mend(ctx, pressed.Bucket) }},
		{"Configure", func(ctx context.Context, k *upkeep.Keeper) error {
			_, err := k.Configure(ctx, pressed.Bucket)
			return err
		}},
		{"Replenish", func(ctx context.Context, k *upkeep.Keeper) error {
			_, err := k.Replenish(ctx, &empty, upkeep.Demand{Amounts: []store.Amount{{Limit: "rph", Milli: 1_000_000}}})
			return err
		}},
		{"Amend", func(ctx context.Context, k *upkeep.Keeper) error {
			_, err := k.Amend(ctx, &upkeep.Amendment{Bucket: pressed.Bucket, Resets: true, Write: func(context.Context, []*store.Refill, upkeep.Given) (store.Joint, error) {
				return store.Joint{}, nil
			}})
			return err
		}},
		{"Double", func(ctx context.Context, k *upkeep.Keeper) error {
			_, err := k.Double(ctx, &pressed, time.UnixMilli(pressed.RefilledAt))
			return err
		}},
	}
	if len(images) > 1 {
		all = append(all, verb{"Merge", func(ctx context.Context, k *upkeep.Keeper) error {
			_, err := k.Merge(ctx, images)
			return err
		}})
	}
	return all
}

// world is a table behind a network, with a bucket of one shard.
func world(t *testing.T) *testbed.World {
	t.Helper()
	w := testbed.New(t, testbed.Options{Remote: true})
	w.System(hourly)
	w.Take(w.Limiter, testbed.Ask("user", "rph", 600))
	return w
}

// press makes the items of the bucket look as if their writes were used up.
func press(images []*store.Image) *store.Image {
	img := *images[0]
	img.Writes.Tokens = -1000
	return &img
}

// A keeper doubles, merges, replenishes and configures, and no token is lost or made.
func TestUpkeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t)
		k := w.NewKeeper(w.Store, process.Options{})
		img := press(w.Images("user"))
		if done, err := k.Double(t.Context(), img, time.UnixMilli(img.RefilledAt)); err != nil || !done {
			t.Fatalf("doubled: %t, %v", done, err)
		}
		if n, held := len(w.Images("user")), w.Balance("user", "rph"); n != 2 || held != 3000 {
			t.Errorf("%d shards hold %d, want 2 that hold 3000", n, held)
		}
		images, err := k.Shards(t.Context(), img.Bucket)
		w.Must(err)
		if merged, err := k.Merge(t.Context(), images); err != nil || !merged {
			t.Errorf("merged: %t, %v", merged, err)
		}
		if n, held := len(w.Images("user")), w.Balance("user", "rph"); n != 1 || held != 3000 {
			t.Errorf("%d shards hold %d, want 1 that holds 3000", n, held)
		}
		time.Sleep(11 * time.Minute)
		demand := upkeep.Demand{Amounts: []store.Amount{{Limit: "rph", Milli: 3_600_000}}}
		if done, err := k.Replenish(t.Context(), w.Images("user")[0], demand); err != nil || !done {
			t.Errorf("replenished: %t, %v", done, err)
		}
		if l, _ := w.Images("user")[0].Limit("rph"); l.Tokens != 3_600_000 {
			t.Errorf("the item holds %d", l.Tokens)
		}
		for _, want := range []bool{true, false} {
			w.System(limiter.PerHour("rph", 1800))
			if changed, err := k.Configure(t.Context(), img.Bucket); err != nil || changed != want {
				t.Errorf("configured: %t, want %t, %v", changed, want, err)
			}
		}
		if s := k.Stats(); s.Buckets != 1 || s.Doublings != 1 || s.Merges != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Every call returns within the keeper's timeout, and by the end of its context, from a
// table that answers nothing.
func TestEveryCallReturnsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t)
		images := w.Images("user")
		var slot faults.Slot
		s := w.Open(dynamo.Options{API: faults.Wrap(w.Meter, slot.Apply)})
		k := w.NewKeeper(s, process.Options{Timeout: 2 * time.Second})
		slot.Set(faults.Hang)
		hurried, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, v := range verbs(images) {
			began := time.Now()
			if err := v.call(hurried, k); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v", v.name, err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s took %v", v.name, took)
			}
			time.Sleep(time.Minute) // what goes on without its caller ends
			ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began = time.Now()
			if err := v.call(ctx, k); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s of a caller in a hurry: %v", v.name, err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("%s of a caller in a hurry took %v", v.name, took)
			}
			leave()
			time.Sleep(time.Minute)
		}
	})
}

// After a throttled write, the keeper sends no refill ahead to the shard for a time.
func TestAThrottledShardIsNotReplenished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t)
		var slot faults.Slot
		s := w.Open(dynamo.Options{API: faults.Wrap(w.Meter, slot.Apply)})
		k, img := w.NewKeeper(s, process.Options{}), w.Images("user")[0]
		time.Sleep(11 * time.Minute)
		demand := upkeep.Demand{Amounts: []store.Amount{{Limit: "rph", Milli: 3_600_000}}}
		slot.Set(faults.Fail(faults.BusyTable()))
		if done, err := k.Replenish(t.Context(), img, demand); done || !errors.Is(err, store.ErrThrottled) {
			t.Fatalf("replenished: %t, %v", done, err)
		}
		slot.Set(nil)
		before := w.Meter.Totals()
		if done, err := k.Replenish(t.Context(), img, demand); done || err != nil || len(w.Meter.Totals().Sub(before)) != 0 {
			t.Errorf("replenished at once: %t, %v", done, err)
		}
		if stats := k.Stats(); stats.Braked != 1 || stats.Throttled == 0 {
			t.Errorf("the keeper counts %+v", stats)
		}
		time.Sleep(time.Minute)
		if done, err := k.Replenish(t.Context(), img, demand); !done || err != nil {
			t.Errorf("not replenished later: %t, %v", done, err)
		}
	})
}

// A mend that finds another one under way waits for it, and then mends too: the other one
// may have failed.
func TestAMendThatWaitedMendsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t)
		var slot faults.Slot
		s := w.Open(dynamo.Options{API: faults.Wrap(w.Meter, slot.Apply)})
		k, b := w.NewKeeper(s, process.Options{Timeout: 2 * time.Second}), w.Images("user")[0].Bucket
		slot.Set(faults.Hang)
		first := make(chan error)
		go func() { first <- k.Mend(t.Context(), b) }()
		time.Sleep(time.Second)
		slot.Set(nil)
		before, began := w.Meter.Totals(), time.Now()
		err := k.Mend(t.Context(), b)
		if n := w.Meter.Totals().Sub(before).Sum().Requests; err != nil || n != 1 || time.Since(began) != time.Second {
			t.Errorf("the second mend sent %d requests in %v: %v", n, time.Since(began), err)
		}
		if err := <-first; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the first mend: %v", err)
		}
	})
}

// After Close every call fails with the same error, at once and without a request.
func TestAClosedKeeperSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t)
		k := w.NewKeeper(w.Store, process.Options{})
		img := press(w.Images("user"))
		_, err := k.Double(t.Context(), img, time.UnixMilli(img.RefilledAt))
		w.Must(err)
		images := w.Images("user")
		w.Must(k.Close())
		w.Must(k.Close())
		before := w.Meter.Totals()
		calls := append(verbs(images),
			verb{"Merge of nothing", func(ctx context.Context, k *upkeep.Keeper) error {
				_, err := k.Merge(ctx, nil)
				return err
			}},
			verb{"Double of an item at leisure", func(ctx context.Context, k *upkeep.Keeper) error {
				_, err := k.Double(ctx, images[0], time.Now())
				return err
			}},
		)
		for _, v := range calls {
			if err := v.call(t.Context(), k); !errors.Is(err, process.ErrClosed) {
				t.Errorf("%s: %v", v.name, err)
			}
		}
		if d := w.Meter.Totals().Sub(before); len(d) != 0 {
			t.Errorf("requests were sent: %v", d)
		}
	})
}

// An option that makes no sense is named.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	for field, o := range map[string]process.Options{"Timeout": {Timeout: -1}, "Memory": {Memory: -1}} {
		_, err := upkeep.NewKeeper(w.Store, o)
		bad, ok := errors.AsType[*store.ValidationError](err)
		if !ok || bad.Field != field || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := upkeep.NewKeeper(nil, process.Options{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a store: %v", err)
	}
}
