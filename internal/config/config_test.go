package config_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// levels is a store that has configuration only.
type levels struct {
	store.Store

	has     map[store.ConfigKey]*store.Config
	entity  *store.Entity
	reading func(*store.Load) // called during each request; nil does nothing
	fails   error
}

func (l *levels) Load(_ context.Context, in *store.Load) (*store.Loaded, error) {
	if l.fails != nil {
		return nil, l.fails
	}
	out := &store.Loaded{Entity: l.entity}
	for _, k := range in.Configs {
		out.Configs = append(out.Configs, l.has[k])
	}
	if l.reading != nil {
		l.reading(in)
	}
	return out, nil
}

var (
	system   = store.ConfigKey{}
	resource = store.ConfigKey{Resource: "gpt-4"}
	entity   = store.ConfigKey{Entity: "user", Resource: store.DefaultResource}
	both     = store.ConfigKey{Entity: "user", Resource: "gpt-4"}
)

// of is a level with one limit of a capacity.
func of(capacity int64) *store.Config {
	return &store.Config{Limits: []store.Limit{{Name: "rpm", Capacity: capacity, Amount: capacity, Period: time.Minute}}}
}

// reader returns a reader of a store, and its clock.
func reader(s store.Store) (*config.Reader, *time.Duration) {
	up := new(time.Duration)
	*up = time.Hour
	return config.NewReader(s, func() time.Duration { return *up }, time.Minute, 100, true), up
}

// All limits come from the first level that has any. Each policy comes from the first
// level that sets it. A bucket expires unless the limits are the entity's own.
func TestTheFirstLevelHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has      map[store.ConfigKey]*store.Config
		entity   *store.Entity
		capacity int64 // 0 is no limits
		expires  bool
		disabled bool
		cascade  bool
	}{
		"none":     {has: nil, expires: true},
		"system":   {has: map[store.ConfigKey]*store.Config{system: of(1)}, capacity: 1, expires: true},
		"resource": {has: map[store.ConfigKey]*store.Config{system: of(1), resource: of(2)}, capacity: 2, expires: true},
		"entity":   {has: map[store.ConfigKey]*store.Config{system: of(1), resource: of(2), entity: of(3)}, capacity: 3},
		"both":     {has: map[store.ConfigKey]*store.Config{system: of(1), entity: of(3), both: of(4)}, capacity: 4},
		"a level without limits is passed over": {
			has: map[store.ConfigKey]*store.Config{both: {Disabled: store.Switch{Policy: store.Yes}}, system: of(1)}, capacity: 1, expires: true, disabled: true,
		},
		"the nearest switch holds": {
			has:      map[store.ConfigKey]*store.Config{both: {Disabled: store.Switch{Policy: store.No}}, resource: {Disabled: store.Switch{Policy: store.Yes}}, system: of(1)},
			capacity: 1, expires: true,
		},
		"an entity cascades": {has: nil, entity: &store.Entity{ID: "user", Parent: "team", Cascade: true}, expires: true, cascade: true},
		"a policy overrides the entity's": {
			has:    map[store.ConfigKey]*store.Config{resource: {Cascade: store.No}},
			entity: &store.Entity{ID: "user", Parent: "team", Cascade: true}, expires: true,
		},
		"nobody cascades without a parent": {has: map[store.ConfigKey]*store.Config{resource: {Cascade: store.Yes}}, expires: true},
	} {
		r, _ := reader(&levels{has: c.has, entity: c.entity})
		w, _, err := r.Resolve(t.Context(), "user", "gpt-4", nil)
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		if l := w.Find("rpm"); l != nil {
			got = l.Capacity
		}
		if got != c.capacity || w.Expires != c.expires || w.IsDisabled(0) != c.disabled || w.Owner.Cascade != c.cascade {
			t.Errorf("%s: capacity %d, expires %t, disabled %t, cascades %t", name, got, w.Expires, w.IsDisabled(0), w.Owner.Cascade)
		}
	}
}

// Levels are read once in their time to live, also those that do not exist. A consistent
// read uses none of them, and renews them all.
func TestLevelsAreRememberedForATime(t *testing.T) {
	t.Parallel()
	s := &levels{has: map[store.ConfigKey]*store.Config{system: of(1)}}
	r, up := reader(s)
	resolve := func() *plan.Wanted {
		t.Helper()
		w, _, err := r.Resolve(t.Context(), "user", "gpt-4", nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := resolve()
	*up += time.Minute - 1
	resolve()
	if stats := r.Stats(); stats.Misses != plan.ConfigLevels || stats.Hits != plan.ConfigLevels || stats.Size != plan.ConfigLevels || !r.IsYoung(first, *up) {
		t.Errorf("%+v", stats)
	}
	*up++
	if r.IsYoung(first, *up) {
		t.Error("it is young after its time to live")
	}
	s.has[system] = of(2)
	if w, err := r.Reread(t.Context(), "user", "gpt-4"); err != nil || w.Find("rpm").Capacity != 2 {
		t.Errorf("a consistent read: %+v, %v", w, err)
	}
	if w := resolve(); w.Find("rpm").Capacity != 2 || r.Stats().Misses != 2*plan.ConfigLevels {
		t.Errorf("after it: %+v, %+v", w, r.Stats())
	}
}

// The reader neither remembers a level that it read before a change of this process, nor
// calls it young.
func TestAChangeDuringARead(t *testing.T) {
	t.Parallel()
	s := &levels{has: map[store.ConfigKey]*store.Config{system: of(1)}}
	r, up := reader(s)
	for name, forget := range map[string]func(){"evict": func() { r.Evict(system) }, "invalidate": r.Invalidate} {
		r.Invalidate()
		s.reading = func(*store.Load) { s.reading = nil; forget() }
		old, _, err := r.Resolve(t.Context(), "user", "gpt-4", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.IsYoung(old, *up) {
			t.Errorf("%s: what was read before it is young", name)
		}
		before := r.Stats().Misses
		w, _, err := r.Resolve(t.Context(), "user", "gpt-4", nil)
		if n := r.Stats().Misses - before; err != nil || n != plan.ConfigLevels || !r.IsYoung(w, *up) {
			t.Errorf("%s: %d levels were read again, want all of that read, %v", name, n, err)
		}
	}
}

// A store that cannot be reached changes nothing that is remembered.
func TestAReadThatFails(t *testing.T) {
	t.Parallel()
	s := &levels{has: map[store.ConfigKey]*store.Config{system: {OnUnavailable: store.Allow}}}
	r, _ := reader(s)
	if r.OnUnavailable("") != store.Block {
		t.Error("an acquire is admitted without a store by default")
	}
	if _, _, err := r.Resolve(t.Context(), "user", "gpt-4", nil); err != nil {
		t.Fatal(err)
	}
	s.fails = store.ErrUnavailable
	if _, err := r.Reread(t.Context(), "user", "gpt-4"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if r.OnUnavailable("") != store.Allow || r.OnUnavailable(store.Block) != store.Block {
		t.Error("the last known setting is lost, or overrides the request's")
	}
}

// Entities without anything of their own share the result of a read. Those whose result
// differs, or is younger, do not.
func TestEqualResultsAreShared(t *testing.T) {
	t.Parallel()
	s := &levels{has: map[store.ConfigKey]*store.Config{
		resource:                            of(10),
		{Resource: "gpt-5"}:                 of(10),
		{Entity: "rich", Resource: "gpt-4"}: of(20),
	}}
	r, up := reader(s)
	read := func(entity, resource string) *plan.Wanted {
		t.Helper()
		w, _, err := r.Resolve(t.Context(), entity, resource, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first, other := read("user", "gpt-4"), read("user", "gpt-5")
	*up += time.Second
	if read("second", "gpt-4") != first || read("second", "gpt-5") != other || first == other {
		t.Error("equal results are not shared")
	}
	if w := read("rich", "gpt-4"); w == first || w.Limits[0].Capacity != 20 {
		t.Errorf("an entity with limits of its own has %+v", w)
	}
	read("third", "gpt-4")
	s.entity = &store.Entity{ID: "child", Parent: "user", Cascade: true}
	if w := read("child", "gpt-4"); w.Owner.Parent != "user" {
		t.Errorf("an entity with a parent has %+v", w)
	}
	s.entity = nil
	first = read("third", "gpt-4")
	r.Invalidate()
	*up += time.Second
	if w := read("fourth", "gpt-4"); w == first || w.Read != *up || w.Epoch != r.Epoch() {
		t.Errorf("a later read is %+v", w)
	}
}
