package sim_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// loads changes what a store loads. Only one goroutine uses it at a time.
type loads struct {
	clocked

	mu     *sync.Mutex
	change func(*store.Load, *store.Loaded)
}

func (s loads) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, l)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(l, loaded)
	return loaded, nil
}

// staleFor returns what an earlier read of the same found, up to the given age.
func staleFor(age time.Duration, records bool) func() func(*store.Load, *store.Loaded) {
	type entry struct {
		at     time.Time
		config *limiter.Config
		entity *limiter.Entity
	}
	return func() func(*store.Load, *store.Loaded) {
		configs, entities := map[limiter.ConfigKey]entry{}, map[string]entry{}
		return func(l *store.Load, loaded *store.Loaded) {
			now := time.Now()
			for i, k := range l.Configs {
				if e, ok := configs[k]; !ok || now.Sub(e.at) > age {
					configs[k] = entry{now, loaded.Configs[i], nil}
				}
				if !records {
					loaded.Configs[i] = configs[k].config
				}
			}
			if e, ok := entities[l.Entity]; !ok || now.Sub(e.at) > age {
				entities[l.Entity] = entry{now, nil, loaded.Entity}
			}
			if records {
				loaded.Entity = entities[l.Entity].entity
			}
		}
	}
}

// without changes every level that is loaded.
func without(f func(*limiter.Config)) func() func(*store.Load, *store.Loaded) {
	return func() func(*store.Load, *store.Loaded) {
		return func(_ *store.Load, loaded *store.Loaded) {
			for i, c := range loaded.Configs {
				if c != nil {
					other := *c
					f(&other)
					loaded.Configs[i] = &other
				}
			}
		}
	}
}

// TestLongestBrokenSeasonsAreSeen: each law about changing configuration fails when its subject is
// broken.
func TestLongestBrokenSeasonsAreSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func() func(*store.Load, *store.Loaded)
		texts  []string
	}{
		{"old configuration", staleFor(7*time.Minute, false), []string{"granted by", "it is told", "brings it to something", "made from something", "is put on the item again"}},
		{"old records", staleFor(7*time.Minute, true), []string{"charged to"}},
		{"off for good", without(func(c *limiter.Config) { c.Disabled = store.Switch{Policy: store.Yes} }), []string{"nothing was switched off"}},
		{"never off", without(func(c *limiter.Config) { c.Disabled = store.Switch{} }), []string{"granted by"}},
		{"no limits", without(func(c *limiter.Config) { c.Limits = nil }), []string{"all of it was configured"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken := breakage{store: func(s limiter.Store) limiter.Store {
				known, _ := s.(clocked)
				return loads{known, new(sync.Mutex), c.change()}
			}}
			const tries = 12
			for seed := uint64(1); seed <= tries && len(c.texts) > 0; seed++ {
				res := seasoned(t, seed, odds{}, broken)
				c.texts = slices.DeleteFunc(slices.Clone(c.texts), func(text string) bool { return says(res, text) })
			}
			if len(c.texts) > 0 {
				t.Errorf("%d seeds did not report: %v", tries, c.texts)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		if res := seasoned(t, 1, odds{}, breakage{}); len(res.violations) > 0 {
			t.Error(res.report)
		}
	})
}

// says reports whether a violation of a run contains a text.
func says(r result, text string) bool {
	for _, v := range r.violations {
		if strings.Contains(v.text, text) {
			return true
		}
	}
	return false
}
