package config_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A slow store answers a request after a second, with the levels as they were after half of it.
type slow struct {
	store.Store

	mu    sync.Mutex
	has   map[store.ConfigKey]*store.Config
	asked map[store.ConfigKey]int
	loads int
	fails error // of requests for the system's level
}

func (s *slow) Load(ctx context.Context, in *store.Load) (*store.Loaded, error) {
	s.mu.Lock()
	s.loads++
	s.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	out := &store.Loaded{}
	s.mu.Lock()
	for _, k := range in.Configs {
		out.Configs = append(out.Configs, s.has[k])
		s.asked[k]++
		if k == system && s.fails != nil {
			out = nil
			break
		}
	}
	err := s.fails
	s.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	if out != nil {
		err = nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, err
}

func (s *slow) set(k store.ConfigKey, capacity int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has[k] = of(capacity)
}

func newSlow() (*slow, *config.Reader) {
	s := &slow{has: map[store.ConfigKey]*store.Config{system: of(1)}, asked: map[store.ConfigKey]int{}}
	began := time.Now()
	return s, config.NewReader(s, func() time.Duration { return time.Since(began) }, time.Minute, 1000, true)
}

// Many new entities at a time read the levels above them a few times, and each its own levels once, in one
// request.
func TestNewEntitiesShareReadsOfTheLevelsAboveThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, r := newSlow()
		s.set(store.ConfigKey{Entity: "stranger-7", Resource: "gpt-4"}, 7)
		var all sync.WaitGroup
		const strangers, spacing = 1000, 10 * time.Millisecond
		for i := range strangers {
			all.Go(func() {
				time.Sleep(time.Duration(i) * spacing)
				began := time.Now()
				w, err := r.Reread(t.Context(), fmt.Sprintf("stranger-%d", i), "gpt-4")
				want := map[bool]int64{true: 7, false: 1}[i == 7]
				if err != nil || w.Limits[0].Capacity != want || w.Expires != (i != 7) {
					t.Errorf("stranger %d: %+v, %v", i, w, err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("stranger %d waited %v, for more than one read under way", i, took)
				}
			})
		}
		all.Wait()
		seconds := int(strangers * spacing / time.Second)
		if n := s.asked[system]; n > seconds+3 || s.loads != strangers {
			t.Errorf("the system's level was read %d times in %d s, in %d requests", n, seconds, s.loads)
		}
	})
}

// A change is in every read that was asked for after it, also if another read is under way that has missed it.
func TestASharedReadIsNeverOlderThanTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, r := newSlow()
		var all sync.WaitGroup
		ask := func(at time.Duration, who string, want int64) {
			all.Go(func() {
				time.Sleep(at)
				w, err := r.Reread(t.Context(), who, "gpt-4")
				if err != nil || w.Limits[0].Capacity != want || w.Read < at {
					t.Errorf("%s: %+v, %v; want %d, read at %v or later", who, w, err, want, at)
				}
			})
		}
		ask(0, "a", 1)
		all.Go(func() { time.Sleep(600 * time.Millisecond); s.set(system, 2) })
		for i, who := range []string{"b", "c", "d"} {
			ask(700*time.Millisecond+time.Duration(i)*time.Millisecond, who, 2)
		}
		all.Wait()
	})
}

// If a read fails, it fails for all who share it, and for nobody after them.
func TestASharedReadThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, r := newSlow()
		s.fails = errors.New("throttled")
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if _, err := r.Reread(t.Context(), strconv.Itoa(i), "gpt-4"); !errors.Is(err, s.fails) {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		s.fails = nil
		if w, err := r.Reread(t.Context(), "a", "gpt-4"); err != nil || w.Level != plan.ConfigLevels-1 {
			t.Errorf("after it: %+v, %v", w, err)
		}
	})
}
