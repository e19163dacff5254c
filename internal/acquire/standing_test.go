package acquire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// The first level that has limits holds, whole, and Limits says which one it is.
func TestLimitsSaysWhichLevelHolds(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		check := func(level limiter.Level, limits ...limiter.Limit) {
			w.Helper()
			got, err := w.Limits(w.Context(), "key", "gpt-4")
			w.Must(err)
			want := &limiter.EffectiveLimits{Entity: "key", Resource: "gpt-4", Level: level, Limits: limits, OnUnavailable: limiter.Block}
			if diff := cmp.Diff(want, got); diff != "" {
				w.Errorf("%v (-want +got): %s", level, diff)
			}
		}
		rpm, tpm := limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100)
		check(limiter.LevelNone)
		w.System(rpm, tpm)
		check(limiter.LevelSystem, rpm, tpm)
		for level, k := range map[int]limiter.ConfigKey{
			0: {Resource: "gpt-4"}, 1: {Entity: "key", Resource: limiter.DefaultResource}, 2: {Entity: "key", Resource: "gpt-4"},
		} {
			w.Must(w.Store.SetLimits(w.Context(), k, []limiter.Limit{limiter.PerMinute("rpm", int64(20+level))}))
		}
		check(limiter.LevelEntityResource, limiter.PerMinute("rpm", 22))
		w.Must(w.Store.DeleteLimits(w.Context(), limiter.ConfigKey{Entity: "key", Resource: "gpt-4"}))
		check(limiter.LevelEntity, limiter.PerMinute("rpm", 21))
		w.Must(w.Store.DeleteLimits(w.Context(), limiter.ConfigKey{Entity: "key", Resource: limiter.DefaultResource}))
		check(limiter.LevelResource, limiter.PerMinute("rpm", 20))
	})
}

// Limits has the parent's limits of an entity that cascades, what an outage does, and the
// operator's switch.
func TestLimitsShowsTheParentTheOutageAndTheSwitch(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		rpm := limiter.PerMinute("rpm", 10)
		w.family(rpm)
		w.Must(w.Store.SetSystem(w.Context(), []limiter.Limit{rpm}, limiter.Allow))
		w.switchOff(limiter.ConfigKey{Entity: "key", Resource: "gpt-4"}, true)
		got, err := w.Limits(w.Context(), "key", "gpt-4")
		w.Must(err)
		want := &limiter.EffectiveLimits{
			Entity: "key", Resource: "gpt-4", Level: limiter.LevelSystem, Limits: []limiter.Limit{rpm}, Disabled: true, DisabledBy: limiter.LevelEntityResource, OnUnavailable: limiter.Allow,
			Parent: &limiter.EffectiveLimits{
				Entity: "project", Resource: "gpt-4", Level: limiter.LevelSystem, Limits: []limiter.Limit{rpm}, OnUnavailable: limiter.Allow,
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("(-want +got): %s", diff)
		}
		got.Limits[0].Name = "changed" // the caller's own
		if again, err := w.Limits(w.Context(), "key", "gpt-4"); err != nil || again.Limits[0] != rpm {
			w.Errorf("then: %+v, %v", again, err)
		}
	})
}

// balance is a balance in short: the limit's name, whole tokens, the wait for a token and
// for a full limit.
func balance(b *limiter.Balance) string {
	return fmt.Sprintf("%s/%s %d of %d, %v, %v", b.Entity, b.Limit.Name, b.Available, b.Limit.Capacity, b.RetryAfter, b.FullAfter)
}

func (w *world) stands(entity string, level limiter.Level, want ...string) *limiter.Standing {
	w.Helper()
	s, err := w.Standing(w.Context(), entity, "gpt-4")
	w.Must(err)
	var got []string
	for side := s; side != nil; side = side.Parent {
		for i := range side.Limits {
			got = append(got, balance(&side.Limits[i]))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || s.Level != level {
		w.Errorf("%s stands at %v, want %v (-want +got): %s", entity, s.Level, level, diff)
	}
	return s
}

// Standing shows every limit of both sides without being told their names: full where
// nothing was taken, and never the hidden write limit.
func TestStandingShowsEveryLimit(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.family(limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 6000, limiter.Burst(100)))
		w.stands("key", limiter.LevelSystem,
			"key/rpm 60 of 60, 0s, 0s", "key/tpm 100 of 100, 0s, 0s",
			"project/rpm 60 of 60, 0s, 0s", "project/tpm 100 of 100, 0s, 0s")
		w.Take(w.Limiter, askAll("key", tokens{"rpm": 60, "tpm": 40}))
		w.Take(w.Limiter, askAll("project", tokens{"tpm": 10}))
		w.stands("key", limiter.LevelSystem,
			"key/rpm 0 of 60, 1s, 1m0s", "key/tpm 60 of 100, 0s, 400ms",
			"project/rpm 0 of 60, 1s, 1m0s", "project/tpm 50 of 100, 0s, 500ms")
		time.Sleep(30 * time.Second)
		s := w.stands("project", limiter.LevelSystem, "project/rpm 30 of 60, 0s, 30s", "project/tpm 100 of 100, 0s, 0s")
		if used := s.Limits[0].Used; used != 0.5 {
			w.Errorf("%v of rpm is used, want half", used)
		}
		text, err := json.Marshal(s)
		w.Must(err)
		if strings.Contains(string(text), "wcu") || !strings.Contains(string(text), `"full_after_ms":30000,"used":0.5`) {
			w.Errorf("as JSON: %s", text)
		}
	})
}

// The wait of a limit in debt pays the debt off and then earns a token.
func TestStandingInDebt(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerMinute("rpm", 60))
		lease := w.Lease(w.Limiter, ask("user", "rpm", 60))
		w.Must(lease.Adjust("rpm", 30))
		w.Must(lease.Commit(w.Context()))
		s := w.stands("user", limiter.LevelSystem, "user/rpm -30 of 60, 31s, 1m30s")
		if used := s.Limits[0].Used; used < 1.499 || used > 1.5 {
			w.Errorf("%v is used, want 1.5", used)
		}
		time.Sleep(31 * time.Second)
		w.stands("user", limiter.LevelSystem, "user/rpm 1 of 60, 0s, 59s")
		w.Serve(w.Limiter, ask("user", "rpm", 1))
	})
}

// The balances of all shards add up, and a shard that is missing counts as empty.
func TestStandingAddsUpShards(t *testing.T) {
	inWorld(t, limiter.Options{Rand: func(int64) int64 { return 0 }}, func(w *world) {
		w.System(limiter.PerHour("rph", 3600))
		w.Take(w.Limiter, ask("user", "rph", 599))
		w.double(w.Limiter, "rph")
		w.double(w.Limiter, "rph")
		if s := w.stands("user", limiter.LevelSystem, "user/rph 2999 of 3600, 0s, 10m3s"); s.Shards != 4 {
			w.Errorf("%d shards, want 4", s.Shards)
		}
	})
}

// Standing shows a disabled bucket, which cannot be acquired, and one whose limits came
// with requests.
func TestStandingOfUnusualBuckets(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		if s := w.stands("user", limiter.LevelNone); s.Disabled || s.Shards != 0 || len(s.Limits) > 0 {
			w.Errorf("nothing is configured: %+v", s)
		}
		w.Take(w.Limiter, with(ask("user", "rpm", 4), limiter.PerMinute("rpm", 10)))
		w.stands("user", limiter.LevelNone, "user/rpm 6 of 10, 0s, 24s")
		w.System(limiter.PerMinute("tpm", 10))
		w.stands("user", limiter.LevelSystem, "user/tpm 10 of 10, 0s, 0s")
		w.switchOff(limiter.ConfigKey{Resource: "gpt-4"}, true)
		if s := w.stands("user", limiter.LevelSystem, "user/tpm 10 of 10, 0s, 0s"); !s.Disabled {
			w.Error("the switch does not show")
		}
	})
}

// Bad names are refused before anything is sent, and a closed limiter says so.
func TestStandingRefusesBadInput(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		before := w.Meter.Totals().Sum().Requests
		for _, bad := range [][2]string{{"", "gpt-4"}, {"a#b", "gpt-4"}, {"user", ""}, {"user", limiter.DefaultResource}} {
			_, limits := w.Limits(w.Context(), bad[0], bad[1])
			_, standing := w.Standing(w.Context(), bad[0], bad[1])
			if !errors.Is(limits, limiter.ErrInvalid) || !errors.Is(standing, limiter.ErrInvalid) {
				w.Errorf("%q: %v, %v", bad, limits, standing)
			}
		}
		for _, n := range []int{-1, 0, limiter.MaxTop + 1} {
			if _, err := w.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: n}); !errors.Is(err, limiter.ErrInvalid) {
				w.Errorf("the top %d: %v", n, err)
			}
		}
		if _, err := w.Top(w.Context(), limiter.TopQuery{Resource: limiter.DefaultResource, Most: 1}); !errors.Is(err, limiter.ErrInvalid) {
			w.Errorf("the top of no resource: %v", err)
		}
		if after := w.Meter.Totals().Sum().Requests; after != before {
			w.Errorf("%d requests were sent", after-before)
		}
		w.Must(w.Close())
		_, limits := w.Limits(w.Context(), "user", "gpt-4")
		_, standing := w.Standing(w.Context(), "user", "gpt-4")
		_, top := w.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 1})
		for _, err := range []error{limits, standing, top} {
			if !errors.Is(err, limiter.ErrClosed) {
				w.Errorf("closed: %v", err)
			}
		}
	})
}

// A store that cannot list buckets has no top.
func TestTopNeedsAListingStore(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		l := w.NewLimiter(struct{ store.Store }{w.Store}, limiter.Options{})
		if _, err := l.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 1}); !errors.Is(err, limiter.ErrInvalid) {
			w.Errorf("got %v", err)
		}
	})
}

func (w *world) tops(n int, want ...string) {
	w.Helper()
	top, err := w.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: n})
	w.Must(err)
	var got []string
	for i := range top {
		got = append(got, fmt.Sprintf("%s %.2f", balance(&top[i]), top[i].Used))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("the top %d (-want +got): %s", n, diff)
	}
}

// Top ranks the limits of whole buckets by the fraction used now.
func TestTopRanksWholeBuckets(t *testing.T) {
	inWorld(t, limiter.Options{Rand: func(int64) int64 { return 0 }}, func(w *world) {
		w.tops(5)
		w.System(limiter.PerHour("rph", 3600), limiter.PerMinute("tpm", 600))
		w.Take(w.Limiter, askAll("idle", tokens{"rph": 1, "tpm": 0}))
		w.Take(w.Limiter, askAll("half", tokens{"rph": 1800, "tpm": 60}))
		w.Take(w.Limiter, ask("sharded", "rph", 3000))
		w.double(w.Limiter, "rph")
		for range 2 { // the bucket of another entity is the one that doubles
			w.doubleOf(w.Limiter, ask("sharded", "rph", 1))
		}
		w.tops(3,
			"sharded/rph 598 of 3600, 0s, 50m4s 0.83",
			"half/rph 1800 of 3600, 0s, 30m0s 0.50",
			"half/tpm 540 of 600, 0s, 6s 0.10")
		time.Sleep(15 * time.Minute) // half a limit of an hour earns a quarter
		w.tops(2,
			"sharded/rph 1498 of 3600, 0s, 35m4s 0.58",
			"half/rph 2700 of 3600, 0s, 15m0s 0.25")
	})
}

// Without entities that have a parent, projects are left, and keys without one.
func TestTopWithoutParent(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 100))
		for _, e := range []store.Entity{{ID: "project"}, {ID: "key", Parent: "project"}, {ID: "cascading", Parent: "project", Cascade: true}} {
			_, err := w.Store.CreateEntity(w.Context(), e)
			w.Must(err)
		}
		for i, id := range []string{"key", "cascading", "alone"} {
			w.Take(w.Limiter, ask(id, "rph", int64(50-10*i)))
		}
		top, err := w.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 2, WithoutParent: true})
		w.Must(err)
		var got []string
		for i := range top {
			got = append(got, fmt.Sprintf("%s %.2f", top[i].Entity, top[i].Used))
		}
		if diff := cmp.Diff([]string{"project 0.40", "alone 0.30"}, got); diff != "" {
			w.Errorf("(-want +got): %s", diff)
		}
	})
}

// The ranking stays small, however many buckets there are, and finds the most used ones
// wherever they are.
func TestTopOfManyBuckets(t *testing.T) {
	inWorld(t, limiter.Options{}, func(w *world) {
		w.System(limiter.PerHour("rph", 1000))
		for i := range 350 {
			w.Take(w.Limiter, ask(fmt.Sprintf("user-%03d", i), "rph", int64((i*11)%350)))
		}
		w.tops(3,
			"user-159/rph 651 of 1000, 0s, 20m56.4s 0.35",
			"user-318/rph 652 of 1000, 0s, 20m52.8s 0.35",
			"user-127/rph 653 of 1000, 0s, 20m49.2s 0.35")
	})
}

// Top is not bound by the limiter's timeout, ends when the limiter closes, and with its
// context.
func TestTopEndsWithTheLimiter(t *testing.T) {
	t.Parallel()
	inBubble(t, testbed.Options{Remote: true, Limiter: limiter.Options{Timeout: time.Second}}, func(w *world) {
		w.System(limiter.PerHour("rph", 1000))
		w.Take(w.Limiter, ask("user", "rph", 1))
		var slow faults.Slot
		l := w.NewLimiter(w.OpenOn(faults.Wrap(w.Engine, slow.Apply)), limiter.Options{Timeout: time.Second})
		slow.Set(faults.Latency(3 * time.Second))
		if top, err := l.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 1}); err != nil || len(top) != 1 {
			w.Errorf("after six seconds: %v, %v", top, err)
		}
		done := make(chan error)
		go func() {
			_, err := l.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 1})
			done <- err
		}()
		time.Sleep(time.Second)
		start := time.Now()
		w.Must(l.Close())
		if err := <-done; !errors.Is(err, limiter.ErrClosed) || time.Since(start) > 0 {
			w.Errorf("closed after %v: %v", time.Since(start), err)
		}
	})
}

// A change of limits reaches an idle bucket with the next acquire, also with one that is
// refused. Until then Standing says that the change is pending: the waits that it gives do not
// begin.
func TestStandingSaysThatABucketHasFormerLimits(t *testing.T) {
	inWorld(t, limiter.Options{ConfigTTL: -1}, func(w *world) {
		w.family(limiter.PerDay("rpm", 1))
		w.Take(w.Limiter, ask("key", "rpm", 1))
		w.System(limiter.PerMinute("rpm", 60))
		pending := func(want bool, balance string) {
			w.Helper()
			s := w.stands("project", limiter.LevelSystem, balance)
			if got := s.Limits[0].Pending; got != want {
				w.Errorf("pending: %v, want %v", got, want)
			}
		}
		for range 3 {
			pending(true, "project/rpm 0 of 60, 1s, 1m0s")
			time.Sleep(2 * time.Second)
		}
		if w.Take(w.Limiter, ask("project", "rpm", 1)) == nil {
			w.Error("admitted before the bucket had the new limit")
		}
		pending(false, "project/rpm 0 of 60, 1s, 1m0s")
		time.Sleep(2 * time.Second)
		pending(false, "project/rpm 2 of 60, 0s, 58s")
		top, err := w.Top(w.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 1}) // it shows what buckets have
		w.Must(err)
		if len(top) != 1 || top[0].Pending {
			w.Errorf("the most used limits are %+v", top)
		}
		w.stands("new", limiter.LevelSystem, "new/rpm 60 of 60, 0s, 0s")
	})
}
