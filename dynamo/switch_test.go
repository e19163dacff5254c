package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

var (
	theResource = store.ConfigKey{Resource: "gpt-4"}
	everything  = store.ConfigKey{Entity: "user", Resource: store.DefaultResource}
)

// sets changes a switch, without an end.
func (w *township) sets(k store.ConfigKey, p store.Policy) dynamo.Switched {
	w.Helper()
	n, err := w.SetSwitch(w.Context(), k, dynamo.Switch{Policy: p}, nil)
	w.must(err)
	return n
}

// marks tells of each shard of an entity's bucket whether it is disabled.
func (w *township) marks(entity, resource string) string {
	w.Helper()
	images, err := w.Buckets(w.Context(), entity, resource, 1)
	w.must(err)
	var shards []string
	for _, img := range images {
		switch {
		case img.Disabled && img.MarkedUntil != 0:
			shards = append(shards, "off until "+fmt.Sprint(time.Until(time.UnixMilli(img.MarkedUntil)).Round(time.Minute)))
		case img.Disabled:
			shards = append(shards, "off")
		default:
			shards = append(shards, "on")
		}
	}
	return strings.Join(shards, "+")
}

func (w *township) wantMarks(entity, want string) {
	w.Helper()
	if got := w.marks(entity, "gpt-4"); got != want {
		w.Errorf("the bucket of %s is %q, want %q", entity, got, want)
	}
}

// client is a new limiter of another process.
func (w *township) client(api dynamo.API) *limiter.Limiter {
	w.Helper()
	l, err := limiter.New(w.open(api), limiter.Options{})
	w.must(err)
	w.Cleanup(func() { w.must(l.Close()) })
	return l
}

// asks acquires a token with a client.
func (w *township) asks(l *limiter.Limiter, entity string) error {
	return errOf(l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"rph": 1}}))
}

// wantRefused checks that a client is refused because somebody disabled the bucket.
func (w *township) wantRefused(err error, when string) {
	w.Helper()
	if !errors.Is(err, store.ErrDisabled) {
		w.Errorf("%s: got %v, want it disabled", when, err)
	}
}

// A switch changes its level and nothing else of it, with its event, and registers a level
// that has no limits. Limits set and deleted beside it leave it alone.
func TestASwitchIsOfItsLevel(t *testing.T) {
	inTownship(t, func(w *township) {
		until := time.Now().Add(time.Hour)
		read := func() *store.Config {
			w.Helper()
			c, err := w.Limits(w.Context(), theEntity)
			w.must(err)
			return c
		}
		_, err := w.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Yes, Until: until, Cause: dynamo.Cause{Reason: "abuse"}}, nil)
		w.must(err)
		want := &store.Config{Disabled: store.Switch{Policy: store.Yes, Until: until.UnixMilli()}}
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("the level (-want +got):\n%s", diff)
		}
		if named, err := w.EntitiesWithLimits(w.Context(), "gpt-4"); err != nil || !slices.Equal(named, []string{"user"}) {
			t.Errorf("levels of %v, %v", named, err)
		}
		fixture.SetLimits(w.T, w.Store, theEntity, perHour(10))
		want.Limits = perHour(10)
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("with limits (-want +got):\n%s", diff)
		}
		w.sets(theEntity, store.No)
		want.Disabled = store.Switch{Policy: store.No}
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("enabled (-want +got):\n%s", diff)
		}
		w.sets(theEntity, store.No) // changes nothing
		w.must(w.DeleteLimits(w.Context(), theEntity))
		w.sets(theEntity, store.Inherit)
		if diff := cmp.Diff(&store.Config{}, read()); diff != "" {
			t.Errorf("without a switch (-want +got):\n%s", diff)
		}
		w.sets(theEntity, store.Inherit)
		page, err := w.AuditEvents(w.Context(), audit.Query{Entity: "user"})
		w.must(err)
		var events []string
		for _, e := range slices.Backward(page.Events) {
			events = append(events, fmt.Sprint(e.Action, e.Details))
		}
		wantEvents := []string{
			fmt.Sprint("limits_set", map[string]any{"disabled": true, "until": schema.Timestamp(until), "reason": "abuse"}),
			events[1], // the limits
			fmt.Sprint("limits_set", map[string]any{"disabled": false}),
			events[3], // their deletion
			fmt.Sprint("limits_set", map[string]any{"disabled": nil}),
		}
		if diff := cmp.Diff(wantEvents, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A resource's switch lists the resource.
func TestASwitchListsItsResource(t *testing.T) {
	inTownship(t, func(w *township) {
		w.sets(theResource, store.Yes)
		if names, err := w.ResourcesWithDefaults(w.Context()); err != nil || !slices.Equal(names, []string{"gpt-4"}) {
			t.Errorf("listed %v, %v", names, err)
		}
	})
}

// Bad switches are refused before anything is sent.
func TestBadSwitchesAreRefused(t *testing.T) {
	inTownship(t, func(w *township) {
		for field, bad := range map[string]struct {
			k  store.ConfigKey
			to dynamo.Switch
		}{
			"level":  {store.ConfigKey{}, dynamo.Switch{Policy: store.Yes}},
			"policy": {theEntity, dynamo.Switch{Policy: 7}},
			"until":  {theEntity, dynamo.Switch{Policy: store.Yes, Until: time.Now()}},
			"reason": {theEntity, dynamo.Switch{Policy: store.Yes, Cause: dynamo.Cause{Reason: strings.Repeat("é", 257)}}},
			"entity": {store.ConfigKey{Entity: "a#b", Resource: "gpt-4"}, dynamo.Switch{Policy: store.Yes}},
		} {
			sent := len(w.api.Ops())
			_, err := w.SetSwitch(w.Context(), bad.k, bad.to, nil)
			var invalid *store.ValidationError
			if !errors.As(err, &invalid) || invalid.Field != field || len(w.api.Ops()) != sent {
				t.Errorf("%s: got %v", field, err)
			}
		}
		_, err := w.SetSwitch(w.Context(), theEntity, dynamo.Switch{Until: time.Now().Add(time.Hour)}, nil)
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a removed switch with an end: got %v", err)
		}
	})
}

// A switch reaches all shards of the buckets below its level, and only those for which no
// earlier level says otherwise. It counts them.
func TestASwitchReachesTheBucketsBelow(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*township) dynamo.Switched
		want string
		n    dynamo.Switched
	}{
		{"an entity for a resource", func(w *township) dynamo.Switched { return w.sets(theEntity, store.Yes) }, "user off+off, its gpt-3 on, other on", dynamo.Switched{Reached: 1, Changed: 1}},
		{"an entity", func(w *township) dynamo.Switched { return w.sets(everything, store.Yes) }, "user off+off, its gpt-3 off, other on", dynamo.Switched{Reached: 2, Changed: 2}},
		{"a resource", func(w *township) dynamo.Switched { return w.sets(theResource, store.Yes) }, "user off+off, its gpt-3 on, other off", dynamo.Switched{Reached: 2, Changed: 2}},
		{"twice", func(w *township) dynamo.Switched {
			w.sets(theResource, store.Yes)
			return w.sets(everything, store.Yes)
		}, "user off+off, its gpt-3 off, other off", dynamo.Switched{Reached: 2, Changed: 1}},
		{"a resource, but not an entity that is enabled", func(w *township) dynamo.Switched {
			w.sets(theEntity, store.No)
			return w.sets(theResource, store.Yes)
		}, "user on+on, its gpt-3 on, other off", dynamo.Switched{Reached: 2, Changed: 1}},
		{"an entity that is enabled while its resource is not", func(w *township) dynamo.Switched {
			w.sets(theResource, store.Yes)
			return w.sets(theEntity, store.No)
		}, "user on+on, its gpt-3 on, other off", dynamo.Switched{Reached: 1, Changed: 1}},
		{"removed, while the next level disables", func(w *township) dynamo.Switched {
			w.sets(theResource, store.Yes)
			w.sets(theEntity, store.No)
			return w.sets(theEntity, store.Inherit)
		}, "user off+off, its gpt-3 on, other off", dynamo.Switched{Reached: 1, Changed: 1}},
		{"removed", func(w *township) dynamo.Switched {
			w.sets(theResource, store.Yes)
			return w.sets(theResource, store.Inherit)
		}, "user on+on, its gpt-3 on, other on", dynamo.Switched{Reached: 2, Changed: 2}},
		{"with an end, and the next level with a later one", func(w *township) dynamo.Switched {
			w.must(errOf(w.SetSwitch(w.Context(), theResource, dynamo.Switch{Policy: store.Yes, Until: time.Now().Add(2 * time.Hour)}, nil)))
			n, err := w.SetSwitch(w.Context(), theEntity, dynamo.Switch{Policy: store.Yes, Until: time.Now().Add(time.Hour)}, nil)
			w.must(err)
			return n
		}, "user off until 2h0m0s+off until 2h0m0s, its gpt-3 on, other off until 2h0m0s", dynamo.Switched{Reached: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				shardsOf(w.T, w.Store, "user", 2)
				w.took("gpt-3", 1)
				w.must(w.asks(w.client(w.api.Table), "other"))
				n := tt.do(w)
				got := fmt.Sprintf("user %s, its gpt-3 %s, other %s", w.marks("user", "gpt-4"), w.marks("user", "gpt-3"), w.marks("other", "gpt-4"))
				if got != tt.want || n != tt.n {
					t.Errorf("the buckets are %q, counted %+v, want %q and %+v", got, n, tt.want, tt.n)
				}
			})
		})
	}
}

// A switch tells how far it is. If it cannot reach all buckets, the error says how many
// follow, and the same call completes it.
func TestAnIncompleteSwitchIsCompletedByMakingItAgain(t *testing.T) {
	for _, failing := range []string{"UpdateItem", "BatchGetItem", "Query"} {
		t.Run(failing, func(t *testing.T) {
			inTownship(t, func(w *township) {
				fixture.SetLimits(w.T, w.Store, store.ConfigKey{}, perHour(1000))
				const all = 30
				l := w.client(w.api.Table)
				for i := range all {
					w.must(w.asks(l, fmt.Sprint("user-", i)))
				}
				var reached atomic.Int64
				w.api.Set(faults.Before(func(c *faults.Call) error {
					if c.Op == failing && (reached.Load() >= 10 || c.Op == "Query") {
						return errors.New("connection reset")
					}
					return nil
				}))
				disable := func() error {
					return errOf(w.SetSwitch(w.Context(), theResource, dynamo.Switch{Policy: store.Yes}, func(n dynamo.Switched) { reached.Store(int64(n.Reached)) }))
				}
				err := disable()
				var incomplete *store.IncompleteError
				if !errors.As(err, &incomplete) || !errors.Is(err, store.ErrUnavailable) || int64(incomplete.Reached) != reached.Load() || incomplete.Reached >= all {
					t.Fatalf("got %v", err)
				}
				if failing != "Query" && incomplete.Reached < 10 {
					t.Errorf("reached %d", incomplete.Reached)
				}
				w.api.Set(nil)
				w.must(disable())
				if reached.Load() != all {
					t.Errorf("told of %d buckets", reached.Load())
				}
				for i := range all {
					w.wantMarks(fmt.Sprint("user-", i), "off")
				}
			})
		})
	}
}
