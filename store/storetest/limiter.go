package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// Time says whether the clock of a store under test is virtual.
type Time bool

// The values of [Time].
const (
	// Real time passes by itself. The suite checks waits against the instant at which
	// the stored balance suffices.
	Real Time = false
	// Virtual time passes when every goroutine waits. Each test runs in a synctest
	// bubble, in which it also calls open, and lets the waits pass.
	Virtual Time = true
)

// RunLimiter runs the limiter on a store, from end to end. open is as for [Run]; the
// store reads time.Now, corrected or not.
func RunLimiter(t *testing.T, clock Time, open func(t *testing.T) Store) {
	t.Helper()
	for _, c := range limiterTests {
		if c.needs == Virtual && clock == Real {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := func(t *testing.T) {
				t.Helper()
				s := open(t)
				c.run(&user{T: t, Store: s, Limiter: newLimiter(t, s)})
			}
			if clock == Virtual {
				synctest.Test(t, run)
				return
			}
			run(t)
		})
	}
}

// A limiterTest is one thing that a limiter does.
type limiterTest struct {
	name  string
	needs Time
	run   func(*user)
}

// A user is a caller of a limiter on a store.
type user struct {
	*testing.T
	Store
	*limiter.Limiter
}

func newLimiter(t *testing.T, s store.Store) *limiter.Limiter {
	t.Helper()
	l, err := limiter.New(s, limiter.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// daily is a limit that earns almost nothing during a test.
func daily(name string, tokens int64) store.Limit {
	return limiter.Custom(name, tokens, 1000*24*time.Hour)
}

func ask(entity string, consume map[string]int64) limiter.Request {
	return limiter.Request{Entity: entity, Resource: "gpt-4", Consume: consume}
}

func one(limit string, tokens int64) map[string]int64 { return map[string]int64{limit: tokens} }

func (u *user) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *user) system(limits ...store.Limit) {
	u.Helper()
	u.must(u.SetSystem(u.Context(), limits, ""))
}

// acquire is an acquire that must be admitted.
func (u *user) acquire(entity string, consume map[string]int64) *limiter.Lease {
	u.Helper()
	lease, err := u.Acquire(u.Context(), ask(entity, consume))
	u.must(err)
	return lease
}

// refused is an acquire for user-1 that must be refused.
func (u *user) refused(consume map[string]int64) *limiter.ExceededError {
	u.Helper()
	lease, err := u.Acquire(u.Context(), ask("user-1", consume))
	e := (*limiter.ExceededError)(nil)
	if !errors.As(err, &e) || !errors.Is(err, limiter.ErrExceeded) || lease != nil {
		u.Fatalf("acquire %v: %v, %v; want a refusal", consume, lease, err)
	}
	return e
}

// holds checks the balances that the limiter reports for an entity, by limit.
func (u *user) holds(entity string, want map[string]int64) {
	u.Helper()
	consume := make(map[string]int64, len(want))
	for limit := range want {
		consume[limit] = 0
	}
	statuses, err := u.Available(u.Context(), ask(entity, consume))
	u.must(err)
	got := make(map[string]int64, len(want))
	for _, s := range statuses {
		if s.Entity == entity {
			got[s.Limit.Name] = s.Available
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		u.Errorf("available to %s (-want +got):\n%s", entity, diff)
	}
}

// family makes project, and user-1, which cascades to it.
func (u *user) family() {
	u.Helper()
	u.must(errOf(u.CreateEntity(u.Context(), store.Entity{ID: "project"})))
	u.must(errOf(u.CreateEntity(u.Context(), store.Entity{ID: "user-1", Parent: "project", Cascade: true})))
}

var limiterTests = slices.Concat(requestTests, quotaTests, edgeTests, carryTests, scheduleTests, softTests, modeTests)

var requestTests = []limiterTest{
	{"takes from a bucket made at need", Real, func(u *user) {
		u.system(daily("rpd", 100), daily("tpd", 5000))
		u.holds("user-1", map[string]int64{"rpd": 100, "tpd": 5000})
		for i := range int64(3) {
			lease := u.acquire("user-1", map[string]int64{"rpd": 1, "tpd": 400})
			if diff := cmp.Diff(map[string]int64{"rpd": 1, "tpd": 400}, lease.Consumed()); diff != "" {
				u.Errorf("consumed (-want +got):\n%s", diff)
			}
			for _, s := range lease.Statuses() {
				if want := s.Limit.Capacity - s.Requested*(i+1); s.Available != want || s.Exceeded || s.Entity != "user-1" || s.Resource != "gpt-4" {
					u.Errorf("status %+v, want %d available", s, want)
				}
			}
			u.must(lease.Commit(u.Context()))
		}
		u.holds("user-1", map[string]int64{"rpd": 97, "tpd": 3800})
		u.holds("user-2", map[string]int64{"rpd": 100, "tpd": 5000})
	}},
	{"refuses and takes nothing", Real, func(u *user) {
		u.system(daily("rpd", 100), daily("tpd", 5000))
		u.acquire("user-1", map[string]int64{"rpd": 60, "tpd": 1})
		e := u.refused(map[string]int64{"rpd": 41, "tpd": 10})
		if len(e.Statuses) != 2 || !e.Statuses[0].Exceeded || e.Statuses[1].Exceeded ||
			e.Statuses[0].Available != 40 || e.Statuses[1].Available != 4999 {
			u.Errorf("refused with %+v", e.Statuses)
		}
		u.holds("user-1", map[string]int64{"rpd": 40, "tpd": 4999})
	}},
	{"a request above the capacity waits for ever", Real, func(u *user) {
		u.system(daily("rpd", 100))
		for range 2 {
			if e := u.refused(one("rpd", 101)); e.RetryAfter() != limiter.Never {
				u.Errorf("101 of 100: wait %v", e.RetryAfter())
			}
			u.acquire("user-1", one("rpd", 1))
		}
	}},
	{"an unknown limit is an error that names it", Real, func(u *user) {
		u.system(daily("rpd", 100))
		for range 2 {
			_, err := u.Acquire(u.Context(), ask("user-1", map[string]int64{"rpd": 1, "rps": 1}))
			if !errors.Is(err, store.ErrNotConfigured) || !strings.Contains(err.Error(), "rps") {
				u.Errorf("got %v", err)
			}
			u.holds("user-1", one("rpd", 100))
			u.acquire("user-1", one("rpd", 0))
		}
	}},
	{"the first level that has limits holds", Real, func(u *user) {
		for i, level := range slices.Backward(levels) {
			limits := []store.Limit{daily("rpd", int64(100*(i+1)))}
			if level == (store.ConfigKey{}) {
				u.system(limits...)
			} else {
				u.must(u.SetLimits(u.Context(), level, limits))
			}
			u.InvalidateConfig()
			for range 2 {
				u.acquire("user-1", one("rpd", 0))
				u.must(u.Close()) // wait for the comparison in the background
				u.Limiter = newLimiter(u.T, u.Store)
			}
			if s := u.acquire("user-1", one("rpd", 0)).Statuses(); s[0].Limit != limits[0] {
				u.Errorf("level %d has %v, the bucket %v", i, limits[0], s[0].Limit)
			}
		}
	}},
	{"a lowered limit trims what is held", Real, func(u *user) {
		u.system(daily("rpd", 100))
		u.acquire("user-1", one("rpd", 1))
		u.system(daily("rpd", 10))
		u.InvalidateConfig()
		u.acquire("user-1", one("rpd", 0))
		u.must(u.Close())
		u.Limiter = newLimiter(u.T, u.Store)
		u.acquire("user-1", one("rpd", 4))
		u.holds("user-1", one("rpd", 6))
	}},
	{"fallback limits hold where nothing is configured", Real, func(u *user) {
		req := ask("user-1", one("rpd", 3))
		req.Fallback = []store.Limit{daily("rpd", 20)}
		lease, err := u.Acquire(u.Context(), req)
		u.must(err)
		if s := lease.Statuses()[0]; s.Limit != req.Fallback[0] || s.Available != 17 {
			u.Errorf("status %+v", s)
		}
		u.system(daily("rpd", 100))
		lease, err = u.Acquire(u.Context(), req)
		u.must(err)
		if s := lease.Statuses()[0]; s.Limit != daily("rpd", 100) || s.Available != 14 {
			u.Errorf("status %+v, once a level has limits", s)
		}
	}},
	{"cascades, and a refusal of either takes from neither", Real, func(u *user) {
		u.family()
		u.system(daily("rpd", 100))
		u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"}, []store.Limit{daily("rpd", 50)}))
		for range 2 { // first without, then with the parent remembered
			lease := u.acquire("user-1", one("rpd", 10))
			if s := lease.Statuses(); len(s) != 2 || s[0].Entity != "user-1" || s[1].Entity != "project" {
				u.Errorf("statuses %+v", s)
			}
			if got := lease.Consumed(); !maps.Equal(got, one("rpd", 10)) {
				u.Errorf("consumed %v: the entity's own, not the sum", got)
			}
		}
		for _, tokens := range []int64{31, 81} { // refused by the parent alone, then by both
			e := u.refused(one("rpd", tokens))
			if s := e.Statuses; len(s) != 2 || s[0].Exceeded != (tokens > 80) || !s[1].Exceeded || s[0].Available != 80 || s[1].Available != 30 {
				u.Errorf("%d of 80 and 30: %+v", tokens, s)
			}
		}
		u.acquire("project", one("rpd", 5))
		u.holds("user-1", one("rpd", 80))
		u.holds("project", one("rpd", 25))
	}},
	{"adjusts, into debt and back", Real, func(u *user) {
		u.family()
		u.system(daily("rpd", 100))
		lease := u.acquire("user-1", one("rpd", 10))
		u.must(lease.Adjust("rpd", 120))
		u.holds("user-1", one("rpd", 90))
		u.must(lease.Commit(u.Context()))
		u.must(lease.Commit(u.Context()))
		u.holds("user-1", one("rpd", -30))
		u.holds("project", one("rpd", -30))
		_ = u.refused(one("rpd", 1))
		lease = u.acquire("user-1", one("rpd", 0))
		u.must(lease.Commit(u.Context()))
		if err := lease.Adjust("rpd", 1); !errors.Is(err, limiter.ErrLeaseClosed) {
			u.Errorf("adjusted a closed lease: %v", err)
		}
	}},
	{"gives back what was not used", Real, func(u *user) {
		u.system(daily("rpd", 100))
		lease := u.acquire("user-1", one("rpd", 60))
		u.acquire("user-1", one("rpd", 30))
		u.must(lease.Adjust("rpd", -55))
		u.must(lease.Commit(u.Context()))
		u.holds("user-1", one("rpd", 65))
	}},
	{"rolls back, after an error and a panic too", Real, func(u *user) {
		u.family()
		u.system(daily("rpd", 100))
		lease := u.acquire("user-1", one("rpd", 60))
		u.must(lease.Rollback(u.Context()))
		u.must(lease.Rollback(u.Context()))
		failure := errors.New("the model is down")
		if err := u.Do(u.Context(), ask("user-1", one("rpd", 60)), failing(failure)); !errors.Is(err, failure) {
			u.Errorf("got %v, want %v", err, failure)
		}
		u.panics(ask("user-1", one("rpd", 60)))
		u.holds("user-1", one("rpd", 100))
		u.holds("project", one("rpd", 100))
	}},
	{"many limiters admit what there is", Real, func(u *user) {
		const tokens, tries = 40, 3
		u.family()
		u.system(daily("rpd", 1000))
		u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"}, []store.Limit{daily("rpd", tokens)}))
		limiters := make([]*limiter.Limiter, 4)
		for i := range limiters {
			limiters[i] = newLimiter(u.T, u.Store)
		}
		var admitted atomic.Int64
		atOnce(crowd/2, func(i int) {
			for range tries {
				lease, err := limiters[i%len(limiters)].Acquire(u.Context(), ask("user-1", one("rpd", 1)))
				switch {
				case err == nil:
					admitted.Add(1)
					err = lease.Commit(u.Context())
				case errors.Is(err, limiter.ErrExceeded):
					err = nil
				}
				if err != nil {
					u.Error(err)
				}
			}
		})
		if got := admitted.Load(); got != tokens {
			u.Errorf("%d admitted of %d", got, tokens)
		}
		u.holds("project", one("rpd", 0))
		u.holds("user-1", one("rpd", 1000-tokens))
	}},
	{"quotes the instant at which the balance suffices", Real, func(u *user) {
		u.system(limiter.Custom("rpm", 7, time.Minute, limiter.Burst(50)))
		u.acquire("user-1", one("rpm", 50))
		images, err := u.Buckets(u.Context(), "user-1", "gpt-4", 1)
		u.must(err)
		l, _ := images[0].Limit("rpm")
		// The first instant whose accrual since the stamp makes 13 tokens.
		at := images[0].RefilledAt
		for at*l.Amount/l.Period-images[0].RefilledAt*l.Amount/l.Period+l.Tokens < 13*milli {
			at++
		}
		before := u.Now().UnixMilli()
		e := u.refused(one("rpm", 13))
		after := u.Now().UnixMilli()
		if wait := e.RetryAfter().Milliseconds(); wait < at-after || wait > at-before {
			u.Errorf("a wait of %d ms, asked between %d and %d ms before it is over", wait, at-after, at-before)
		}
	}},
	{"admits after exactly the wait it quoted", Virtual, func(u *user) {
		u.family()
		u.system(limiter.Custom("rpm", 7, time.Minute, limiter.Burst(50)), limiter.PerHour("tph", 1_000_003))
		u.acquire("user-1", map[string]int64{"rpm": 50, "tph": 1_000_003})
		for _, consume := range []map[string]int64{one("rpm", 1), one("rpm", 13), {"rpm": 2, "tph": 99_991}, one("tph", 1)} {
			e := u.refused(consume)
			time.Sleep(e.RetryAfter() - time.Millisecond)
			if again := u.refused(consume).RetryAfter(); again != time.Millisecond {
				u.Errorf("%v: a millisecond before the end of the wait, %v remain", consume, again)
			}
			time.Sleep(time.Millisecond)
			u.acquire("user-1", consume)
		}
	}},
	{"admits the configured rate, no more and no less", Virtual, func(u *user) {
		const seconds = 60
		u.system(limiter.PerSecond("rps", 7))
		admitted, end := 0, u.Now().Add(seconds*time.Second)
		for ; u.Now().Before(end); time.Sleep(9 * time.Millisecond) {
			if _, err := u.Acquire(u.Context(), ask("user-1", one("rps", 1))); err == nil {
				admitted++
			} else if !errors.Is(err, limiter.ErrExceeded) {
				u.Fatal(err)
			}
		}
		if most := 7 + 7*seconds; admitted > most || admitted < most*99/100 {
			u.Errorf("%d admitted in %d s, want %d", admitted, seconds, most)
		}
	}},
}

// failing is work that fails.
func failing(err error) func(context.Context, *limiter.Lease) error {
	return func(context.Context, *limiter.Lease) error { return err }
}

// panics does work that panics, and recovers.
func (u *user) panics(req limiter.Request) {
	u.Helper()
	defer func() {
		if recover() == nil {
			u.Error("the panic was swallowed")
		}
	}()
	err := u.Do(u.Context(), req, func(context.Context, *limiter.Lease) error { panic("the model is down") })
	u.Errorf("a panic became %v", err)
}
