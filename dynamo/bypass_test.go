package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// takes acquires tokens of rph with a client.
func (w *township) takes(l *limiter.Limiter, entity string, tokens int64) (*limiter.Lease, error) {
	return l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"rph": tokens}})
}

// bypasses sets a switch that ends after some time, or never.
func (w *township) bypasses(k store.ConfigKey, after time.Duration) {
	w.Helper()
	to := dynamo.Switch{Policy: store.Bypass}
	if after != 0 {
		to.Until = time.Now().Add(after)
	}
	w.must(errOf(w.SetSwitch(w.Context(), k, to, nil)))
	time.Sleep(limiter.DefaultTrust) // no client refuses from memory any more
}

// counts tells of each shard of an entity's bucket the tokens of rph that it holds and has
// consumed, and whether it is bypassed.
func (w *township) counts(entity string) string {
	w.Helper()
	images, err := w.Buckets(w.Context(), entity, "gpt-4", 1)
	w.must(err)
	var shards []string
	for _, img := range images {
		s, _ := img.Limit("rph")
		is := ""
		switch now := time.Now().UnixMilli(); {
		case img.IsBypassed(now):
			is = " bypassed"
		case img.Bypassed:
			is = " bypassed before"
		}
		shards = append(shards, fmt.Sprintf("%d-%d%s", s.Tokens/1000, s.Consumed/1000, is))
	}
	return strings.Join(shards, "+")
}

func (w *township) wantCounts(entity, want string) {
	w.Helper()
	if got := w.counts(entity); got != want {
		w.Errorf("the bucket of %s has %q, want %q", entity, got, want)
	}
}

// wantExceeded checks that a limit refused a client.
func (w *township) wantExceeded(err error, when string) {
	w.Helper()
	if !errors.Is(err, limiter.ErrExceeded) {
		w.Errorf("%s: got %v, want a refusal", when, err)
	}
}

// hourly are limits that earn nothing that a test of seconds would see.
func (w *township) hourly(tokens int64) {
	w.Helper()
	fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, []store.Limit{{Name: "rph", Capacity: tokens, Amount: 1, Period: 1000 * time.Hour}})
}

// A bypassed bucket admits everything by one write unit and one round trip, counts it, and
// keeps its balance. So does one that is made meanwhile, for a client that knows older
// configuration.
func TestABypassedBucketCounts(t *testing.T) {
	for _, k := range []store.ConfigKey{theEntity, everything, theResource} {
		t.Run(k.String(), func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.hourly(10)
				warm := w.client(w.api)
				w.must(errOf(w.takes(warm, "user", 7)))
				w.wantExceeded(errOf(w.takes(warm, "user", 50)), "before")
				w.bypasses(k, 0)
				w.wantCounts("user", "3-7 bypassed")
				w.must(errOf(w.takes(warm, "user", 50))) // it learns
				sent := len(w.api.Ops())
				for range 3 {
					w.must(errOf(w.takes(warm, "user", 50)))
				}
				if ops := w.api.Ops()[sent:]; !slices.Equal(ops, slices.Repeat([]string{"UpdateItem"}, 3)) {
					t.Errorf("three acquires took %v", ops)
				}
				w.wantCounts("user", "3-207 bypassed")
				w.must(errOf(w.takes(w.client(w.api.Table), "user", 1)))
				if k == theResource {
					w.must(errOf(w.takes(warm, "other", 50)))
					w.wantCounts("other", "10-50 bypassed")
				}
				w.sets(k, store.Inherit)
				w.wantCounts("user", "3-208")
				w.must(errOf(w.takes(warm, "user", 3)))
				w.wantExceeded(errOf(w.takes(warm, "user", 1)), "afterwards")
			})
		})
	}
}

// A bucket that does not exist is made with a stamp, also for a client that knows the
// configuration from before.
func TestAColdBucketIsBypassed(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(10)
		l := w.client(w.api.Table)
		_, err := l.Limits(w.Context(), "user", "gpt-4")
		w.must(err)
		w.bypasses(theEntity, 0)
		w.must(errOf(w.takes(l, "user", 50)))
		w.wantCounts("user", "10-50 bypassed")
	})
}

// A stamp is renewed by the write that meets it, for as long as the bypass holds. The bucket
// accrues meanwhile, and fills to its capacity.
func TestAStampOfABypassIsRenewed(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
		l := w.client(w.api.Table)
		w.must(errOf(w.takes(l, "user", 1000)))
		w.bypasses(theEntity, 0)
		for range 10 {
			time.Sleep(61 * time.Second)
			w.must(errOf(w.takes(l, "user", 5000)))
			images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
			w.must(err)
			if left := images[0].MarkedUntil - time.Now().UnixMilli(); left < 48_000 || left > 60_000 {
				t.Fatalf("the stamp lives for %d ms", left)
			}
		}
		w.wantCounts("user", "170-51000 bypassed") // 612 s of 1000 an hour
		time.Sleep(2 * time.Hour)
		w.must(errOf(w.takes(l, "user", 5000)))
		w.wantCounts("user", "1000-56000 bypassed")
	})
}

// Of the levels that say something, the first one decides, as with all switches. An end leaves
// it to the next.
func TestTheFirstSwitchDecides(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(10)
		l := w.client(w.api.Table)
		w.must(errOf(w.takes(l, "user", 10)))
		w.sets(theResource, store.Yes)
		time.Sleep(limiter.DefaultTrust)
		w.wantRefused(errOf(w.takes(l, "user", 5)), "the resource is disabled")
		w.bypasses(theEntity, time.Minute)
		l.InvalidateConfig()
		w.must(errOf(w.takes(l, "user", 5)))
		w.sets(theEntity, store.No)
		w.wantExceeded(errOf(w.takes(l, "user", 5)), "the entity is enabled")
		w.bypasses(theEntity, time.Minute)
		w.must(errOf(w.takes(l, "user", 5)))
		time.Sleep(time.Minute)
		w.wantRefused(errOf(w.takes(l, "user", 5)), "the bypass has ended")
		w.wantCounts("user", "0-20 bypassed before")
	})
}

// A parent is debited as ever: a bypass is of its level.
func TestABypassIsNotOfTheParent(t *testing.T) {
	inTownship(t, func(w *township) {
		w.family()
		w.hourly(10)
		w.bypasses(theEntity, 0)
		l := w.client(w.api.Table)
		lease, err := w.takes(l, "user", 8)
		w.must(err)
		w.wantCounts("user", "10-8 bypassed")
		w.wantCounts("a", "2-8")
		w.wantExceeded(errOf(w.takes(l, "user", 8)), "the parent has too little")
		w.wantCounts("user", "10-8 bypassed") // what was counted of the refused one was returned
		w.must(lease.Rollback(w.Context()))
		w.wantCounts("user", "10-0 bypassed")
		w.wantCounts("a", "10-0")
	})
}

// A lease returns what it took to where it was taken of: what was only counted to no balance,
// whenever that is, and what was debited to the balance.
func TestALeaseReturnsWhatItTook(t *testing.T) {
	for name, tt := range map[string]struct {
		taken, settled bool // whether the bucket is bypassed
		used           int64
		want           string
	}{
		"bypassed, returned meanwhile":  {true, true, 2, "4-8 bypassed"},
		"bypassed, returned afterwards": {true, false, 2, "4-8"},
		"bypassed, more meanwhile":      {true, true, 7, "4-13 bypassed"},
		"bypassed, more afterwards":     {true, false, 7, "4-13"},
		"debited, returned in a bypass": {false, true, 1, "3-7 bypassed"},
		"debited, more in a bypass":     {false, true, 6, "-2-12 bypassed"},
	} {
		t.Run(name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				w.hourly(10)
				l := w.client(w.api.Table)
				w.must(errOf(w.takes(l, "user", 6)))
				turn := func(on bool) {
					if on {
						w.bypasses(theEntity, 0)
					} else {
						w.sets(theEntity, store.Inherit)
					}
				}
				turn(tt.taken)
				if tt.taken {
					w.must(errOf(w.takes(l, "user", 0))) // it learns
				}
				lease, err := w.takes(l, "user", map[bool]int64{true: 5, false: 4}[tt.taken])
				w.must(err)
				turn(tt.settled)
				w.must(lease.Settle("rph", tt.used))
				w.must(lease.Commit(w.Context()))
				w.wantCounts("user", tt.want)
			})
		})
	}
}

// What one lease was counted under a bypass, and what it took of the balance after that, are
// returned each to where they came from.
func TestALeaseOfBothReturnsEachPart(t *testing.T) {
	inTownship(t, func(w *township) {
		w.hourly(10)
		l := w.client(w.api.Table)
		w.must(errOf(w.takes(l, "user", 0)))
		w.bypasses(theEntity, 0)
		w.must(errOf(w.takes(l, "user", 0))) // it learns
		lease, err := w.takes(l, "user", 5)
		w.must(err)
		w.wantCounts("user", "10-5 bypassed")
		w.sets(theEntity, store.Inherit)
		w.must(lease.Take(w.Context(), map[string]int64{"rph": 4}))
		w.wantCounts("user", "6-9")
		w.must(lease.Settle("rph", 2))
		w.must(lease.Commit(w.Context()))
		w.wantCounts("user", "8-2")
	})
}

// An aggregator of the peer that makes shards without the stamp must be upgraded first. Then
// clients that do not know it are refused.
func TestABypassNeedsAnAggregatorThatKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{})
		record := func(lambda string) {
			fixture.Put(t, w.Engine, schema.EncodeVersion(schema.Version{Schema: dynamo.SchemaVersion, ClientMin: "0.15.0", Lambda: lambda, Updated: time.Now()}))
		}
		record("0.16.2") // without spread index keys, as the Python package has it
		s := w.Open(dynamo.Options{})
		err := errOf(s.SetSwitch(t.Context(), theEntity, dynamo.Switch{Policy: store.Bypass}, nil))
		if old := (*dynamo.VersionError)(nil); !errors.As(err, &old) || old.Least != "0.17.0" || old.Feature != "bypasses" {
			t.Errorf("an old aggregator: %v", err)
		}
		if _, err := s.Limits(t.Context(), theEntity); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the level has something: %v", err)
		}
		record("0.17.0")
		w.Must(errOf(w.Open(dynamo.Options{}).SetSwitch(t.Context(), theEntity, dynamo.Switch{Policy: store.Bypass}, nil)))
		if v, _, err := dynamo.ReadVersion(t.Context(), w.StoreOptions(dynamo.Options{})); err != nil || v.ClientMin != "0.17.0" {
			t.Errorf("the record says %+v, %v", v, err)
		}
	})
}

// A use under a bypass begins no session, and one that was under way before goes on. Both a new
// bucket and one whose session has ended are tried.
func TestABypassedUseBeginsNoSession(t *testing.T) {
	inTownship(t, func(w *township) {
		fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, []limiter.Limit{limiter.Quota("rph", 10, session("session 1h"))})
		w.bypasses(theEntity, 0)
		l := w.client(w.api.Table)
		opened := func(when string, want int64) {
			w.Helper()
			images, err := w.Buckets(w.Context(), "user", "gpt-4", 1)
			w.must(err)
			if s, _ := images[0].Limit("rph"); s.Opened() != want {
				w.Errorf("%s: the session began at %d, want %d", when, s.Opened(), want)
			}
		}
		w.must(errOf(w.takes(l, "user", 50)))
		opened("a new bucket", store.NoSession)
		w.sets(theEntity, store.Inherit)
		begin := time.Now().UnixMilli()
		w.must(errOf(w.takes(l, "user", 3)))
		opened("the first use", begin)
		w.bypasses(theEntity, 0)
		w.must(errOf(w.takes(l, "user", 50)))
		opened("under way", begin)
		time.Sleep(2 * time.Hour)
		w.must(errOf(w.takes(l, "user", 50)))
		if images, err := w.Buckets(w.Context(), "user", "gpt-4", 1); err != nil || images[0].Limits[0].Opened() > begin {
			t.Errorf("after its end: %+v, %v", images, err)
		}
	})
}
