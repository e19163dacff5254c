package dynamo_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// amending is a table with a bucket that has used 10 of 60 rate and 40 of 100 rpd.
func amending(t *testing.T) *testbed.World {
	t.Helper()
	w := testbed.New(t, testbed.Options{Remote: true})
	w.System(limiter.PerDay("rate", 60), limiter.Quota("rpd", 100, calendar("day")))
	w.Serve(w.Limiter, testbed.AskAll("user", testbed.Tokens{"rate": 10, "rpd": 40}))
	return w
}

// resetOf and topUpOf are amendments to the bucket.
func resetOf(key string, limits ...string) dynamo.Reset {
	return dynamo.Reset{Entity: "user", Resource: testbed.Resource, Limits: limits, Cause: dynamo.Cause{Key: key}}
}

func topUpOf(key string, amounts map[string]int64) dynamo.TopUp {
	return dynamo.TopUp{Entity: "user", Resource: testbed.Resource, Amounts: amounts, Cause: dynamo.Cause{Key: key}}
}

// holds checks what all shards of the bucket hold together.
func holds(t *testing.T, w *testbed.World, rate, rpd int64) {
	t.Helper()
	if a, b := w.Balance("user", "rate"), w.Balance("user", "rpd"); a != rate || b != rpd {
		t.Errorf("rate holds %d, want %d; rpd holds %d, want %d", a, rate, b, rpd)
	}
}

func amended(t *testing.T, got dynamo.Amended, err error, want dynamo.Amended) {
	t.Helper()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// double makes two shards of each shard of the bucket.
func double(w *testbed.World) {
	w.Helper()
	images := w.Images("user")
	img := *images[0]
	img.Writes.Tokens = -1000
	done, err := w.NewKeeper(w.Open(dynamo.Options{API: w.Meter}), process.Options{}).Double(w.Context(), &img, time.UnixMilli(img.RefilledAt))
	if w.Must(err); !done {
		w.Error("the bucket was not doubled")
	}
}

// A reset fills limits, and moves neither the end of a period nor the counters.
func TestAResetFills(t *testing.T) {
	for name, c := range map[string]struct {
		limits    []string
		rate, rpd int64
		want      map[string]int64
	}{
		"all":  {nil, 60, 100, map[string]int64{"rate": 10, "rpd": 40}},
		"some": {[]string{"rpd"}, 50, 100, map[string]int64{"rpd": 40}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := amending(t)
				before := w.Images("user")[0]
				r := resetOf("", c.limits...)
				r.DryRun = true
				got, err := w.Store.ResetBucket(t.Context(), r)
				amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: c.want})
				holds(t, w, 50, 60)
				r.DryRun, r.Reason = false, "they asked"
				got, err = w.Store.ResetBucket(t.Context(), r)
				amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: c.want})
				holds(t, w, c.rate, c.rpd)
				after := w.Images("user")[0]
				if after.ValidUntil != before.ValidUntil {
					t.Errorf("the period ends at %d, and not at %d", after.ValidUntil, before.ValidUntil)
				}
				for i := range after.Limits {
					if used := after.Limits[i].ConsumedSince(&before.Limits[i]); used != 0 {
						t.Errorf("%s counts %d more", after.Limits[i].Name, used)
					}
				}
				event := fixture.Trail(t, w.Store, "user")[0]
				if event.Action != audit.BucketReset || event.Resource != testbed.Resource || event.Details["reason"] != "they asked" {
					t.Errorf("the event is %+v", event)
				}
			})
		})
	}
}

// A reset forgives a debt.
func TestAResetForgives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		lease := w.Lease(w.Limiter, testbed.Ask("user", "rpd", 1))
		w.Must(lease.Adjust("rpd", 1000))
		w.Must(lease.Commit(t.Context()))
		got, err := w.Store.ResetBucket(t.Context(), resetOf("", "rpd"))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": 1041}})
		holds(t, w, 50, 100)
	})
}

// A top-up adds to a quota until its period ends, and to a rate what it lacks.
func TestATopUpAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		got, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 500, "rate": 30}))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": 500, "rate": 10}})
		holds(t, w, 60, 560)
		time.Sleep(1100 * time.Millisecond) // the limiter trusts its image for so long
		w.Serve(w.Limiter, testbed.Ask("user", "rpd", 560))
		fixture.WantActions(t, w.Store, "user", audit.BucketToppedUp)
		time.Sleep(24 * time.Hour)
		holds(t, w, 60, 100)
		w.Serve(w.Limiter, testbed.Ask("user", "rpd", 100))
		holds(t, w, 60, 0)
	})
}

// A reset takes a top-up away.
func TestAResetEndsATopUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		_, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 500}))
		w.Must(err)
		got, err := w.Store.ResetBucket(t.Context(), resetOf("", "rpd"))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": -460}})
		holds(t, w, 50, 100)
	})
}

// A bucket of most shards: a quota is divided by shares, a rate by what each shard lacks.
func TestAmendmentsToMostShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		for range 5 {
			double(w)
		}
		got, err := w.Store.TopUpBucket(t.Context(), topUpOf("k", map[string]int64{"rpd": 500, "rate": 30}))
		if got.Amounts["rpd"] != 500 || got.Amounts["rate"] > 10 || got.Shards != limiter.MaxShards || err != nil {
			t.Errorf("got %+v, %v", got, err)
		}
		holds(t, w, 50+got.Amounts["rate"], 560)
		for _, img := range w.Images("user") {
			if s, _ := img.Limit("rpd"); s.Granted().TopUp < 15_000 {
				t.Errorf("shard %d got %+v", img.Shard, s.Granted())
			}
		}
		time.Sleep(1100 * time.Millisecond) // the limiter trusts its images for so long
		w.Serve(w.Limiter, testbed.Ask("user", "rpd", 555))
		_, err = w.Store.ResetBucket(t.Context(), resetOf("l"))
		w.Must(err)
		holds(t, w, 60, 100)
		fixture.WantActions(t, w.Store, "user", audit.BucketToppedUp, audit.BucketReset)
	})
}

// A key acts once. A call for something else with the same key is told what was done.
func TestAKeyActsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		amounts := map[string]int64{"rpd": 500, "rate": 30}
		want := dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": 500, "rate": 10}}
		got, err := w.Store.TopUpBucket(t.Context(), topUpOf("order-7", amounts))
		amended(t, got, err, want)
		want.Repeated = true
		for _, dryRun := range []bool{false, true} {
			again := topUpOf("order-7", amounts)
			again.DryRun = dryRun
			got, err = w.Open(dynamo.Options{}).TopUpBucket(t.Context(), again)
			amended(t, got, err, want)
		}
		holds(t, w, 60, 560)
		used := (*dynamo.KeyUsedError)(nil)
		if _, err := w.Store.TopUpBucket(t.Context(), topUpOf("order-7", map[string]int64{"rpd": 500})); !errors.As(err, &used) || used.Operation != "top-up" || used.Amounts["rpd"] != 500 || !strings.Contains(err.Error(), "rate by +10") {
			t.Errorf("another amount: %v", err)
		}
		if _, err := w.Store.ResetBucket(t.Context(), resetOf("order-7")); !errors.Is(err, dynamo.ErrKeyUsed) {
			t.Errorf("another operation: %v", err)
		}
		fixture.WantActions(t, w.Store, "user", audit.BucketToppedUp)
		if got := time.Until(used.Until); got > 3*24*time.Hour || got < 3*24*time.Hour-time.Minute {
			t.Errorf("the key is kept for %v", got)
		}
	})
}

// A record belongs to one life of an entity; one of an entity without a record belongs to all.
func TestAKeyOfEachLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		_, ns := w.Store.Namespace()
		acts := func(what string, want bool) {
			t.Helper()
			got, err := w.Store.ResetBucket(t.Context(), resetOf("k"))
			if err != nil || got.Repeated == want {
				t.Errorf("%s: got %+v, %v", what, got, err)
			}
		}
		acts("without an entity's record", true)
		w.Entities(limiter.Entity{ID: "user"})
		acts("the entity was created", false)
		key := schema.OperationKey(ns, store.Bucket{Entity: "user", Resource: testbed.Resource}, "k")
		record := fixture.Get(t, w.Engine, key)
		record["ent"] = schema.S("an earlier one")
		fixture.Put(t, w.Engine, record)
		acts("the record is of an earlier entity", true)
		acts("the record was replaced", false)
		_, err := w.Store.DeleteEntity(t.Context(), "user")
		w.Must(err)
		w.Serve(w.Limiter, testbed.Ask("user", "rpd", 1))
		acts("the entity was deleted with its records", true)
	})
}

// An amendment that cannot be carried out says why, and leaves no event.
func TestAmendmentsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		w.System(limiter.PerDay("rate", 60), limiter.Quota("rpd", 100, calendar("day")))
		of := func(entity string) error {
			_, err := w.Store.ResetBucket(t.Context(), dynamo.Reset{Entity: entity, Resource: testbed.Resource})
			return err
		}
		for name, c := range map[string]struct {
			call func() error
			want error
			says string
		}{
			"no bucket":        {func() error { return of("nobody") }, store.ErrNotFound, "acquire once"},
			"a name":           {func() error { return of("a#b") }, store.ErrInvalid, "entity"},
			"an unknown limit": {func() error { _, err := w.Store.ResetBucket(t.Context(), resetOf("", "tpm")); return err }, store.ErrNotConfigured, "rate, rpd"},
			"the hidden limit": {func() error { _, err := w.Store.ResetBucket(t.Context(), resetOf("", "wcu")); return err }, store.ErrInvalid, "reserved"},
			"a limit twice":    {func() error { _, err := w.Store.ResetBucket(t.Context(), resetOf("", "rate", "rate")); return err }, store.ErrInvalid, "once"},
			"no amounts":       {func() error { _, err := w.Store.TopUpBucket(t.Context(), topUpOf("", nil)); return err }, store.ErrInvalid, "at least one"},
			"an amount of 0": {func() error {
				_, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 0}))
				return err
			}, store.ErrInvalid, "1 to"},
			"too large an amount": {func() error {
				_, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": store.MaxTokens + 1}))
				return err
			}, store.ErrInvalid, "1 to"},
			"a key":      {func() error { _, err := w.Store.ResetBucket(t.Context(), resetOf("a b")); return err }, store.ErrInvalid, "idempotency key"},
			"a long key": {func() error { _, err := w.Store.ResetBucket(t.Context(), resetOf(strings.Repeat("k", 65))); return err }, store.ErrInvalid, "64"},
			"a reason": {func() error {
				r := resetOf("")
				r.Reason = "a\nb"
				_, err := w.Store.ResetBucket(t.Context(), r)
				return err
			}, store.ErrInvalid, "one line"},
			"a long reason": {func() error {
				r := resetOf("")
				r.Reason = strings.Repeat("ä", 257)
				_, err := w.Store.ResetBucket(t.Context(), r)
				return err
			}, store.ErrInvalid, "256"},
		} {
			if err := c.call(); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		fixture.WantActions(t, w.Store, "user")
		holds(t, w, 50, 60)
	})
}

// More than an item can say is refused before it is written.
func TestTopUpsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		most := map[string]int64{"rpd": store.MaxTokens}
		_, err := w.Store.TopUpBucket(t.Context(), topUpOf("", most))
		w.Must(err)
		if _, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 1})); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		holds(t, w, 50, 60+store.MaxTokens)
		_, err = w.Store.ResetBucket(t.Context(), resetOf(""))
		w.Must(err)
		_, err = w.Store.TopUpBucket(t.Context(), topUpOf("", most))
		w.Must(err)
	})
}

// A disabled bucket gets its tokens, and stays disabled. A feature that nobody here can
// evaluate is left alone.
func TestAmendmentsToBucketsOfAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		_, ns := w.Store.Namespace()
		key := schema.BucketKey(ns, w.Images("user")[0].Bucket)
		item := fixture.Get(t, w.Engine, key)
		item["disabled"] = schema.Bool(true)
		fixture.Put(t, w.Engine, item)
		_, err := w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 5}))
		w.Must(err)
		img := w.Images("user")[0]
		if s, _ := img.Limit("rpd"); s.Tokens != 65_000 || !img.Disabled {
			t.Errorf("rpd holds %d, disabled: %v", s.Tokens, img.Disabled)
		}
		delete(item, "disabled")
		item[schema.LimitAttr("rpd", schema.FieldSched)] = schema.S("1h9-17a500")
		fixture.Put(t, w.Engine, item)
		if _, err := w.Store.ResetBucket(t.Context(), resetOf("")); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("a schedule that gives a quota a rate: %v", err)
		}
	})
}

// A reset fills to what is configured now, also limits that the bucket does not have yet.
func TestAmendmentsRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		w.System(limiter.PerDay("rate", 600), limiter.Quota("rpd", 200, calendar("day")), limiter.Quota("rpy", 10, calendar("year")))
		got, err := w.Store.ResetBucket(t.Context(), resetOf("", "rate"))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rate": 550}})
		holds(t, w, 600, 160)
		got, err = w.Store.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 1, "rpy": 5}))
		amended(t, got, err, dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": 1, "rpy": 5}})
		holds(t, w, 600, 161)
		if held := w.Balance("user", "rpy"); held != 15 {
			t.Errorf("rpy holds %d", held)
		}
	})
}

// An aggregator that would take top-ups away is named. Otherwise older clients are refused from then on.
func TestTopUpsNeedAnAggregatorThatKnowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := amending(t)
		record := func(lambda string) {
			fixture.Put(t, w.Engine, schema.EncodeVersion(schema.Version{Schema: dynamo.SchemaVersion, ClientMin: "0.15.0", Lambda: lambda, Updated: time.Now()}))
		}
		record("0.16.2") // without spread index keys, as the Python package has it
		old := w.Open(dynamo.Options{})
		_, err := old.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 1}))
		if wrong := (*dynamo.VersionError)(nil); !errors.As(err, &wrong) || !errors.Is(err, store.ErrIncompatible) || wrong.Version != "0.16.2" || wrong.Least != "0.17.0" {
			t.Errorf("an old aggregator: %v", err)
		}
		_, err = old.TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rate": 1}))
		w.Must(err)
		_, err = old.ResetBucket(t.Context(), resetOf("", "rate"))
		w.Must(err)
		for _, lambda := range []string{"0.17.0", ""} {
			record(lambda)
			_, err = w.Open(dynamo.Options{}).TopUpBucket(t.Context(), topUpOf("", map[string]int64{"rpd": 1}))
			w.Must(err)
			if v, _, err := dynamo.ReadVersion(t.Context(), w.StoreOptions(dynamo.Options{})); err != nil || v.ClientMin != "0.17.0" || v.Lambda != lambda {
				t.Errorf("the record says %+v, %v", v, err)
			}
		}
		holds(t, w, 60, 62)
	})
}
