package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// would names the limits that would have refused what a lease took.
func would(lease *limiter.Lease) (names []string) {
	for _, s := range lease.WouldRefuse() {
		names = append(names, s.Limit.Name)
	}
	return names
}

// state is rph on the first item of a bucket.
func (u *user) state(entity string) store.LimitState {
	u.Helper()
	images, err := u.Buckets(u.Context(), entity, "gpt-4", 1)
	u.must(err)
	if len(images) == 0 {
		u.Fatalf("%s has no bucket", entity)
	}
	s, _ := images[0].Limit("rph")
	return s
}

// counts compares what an item has counted as consumed of rph, and what it noted as refused in shadow, in tokens.
func (u *user) counts(entity string, consumed, shadowed int64) {
	u.Helper()
	if s := u.state(entity); s.Consumed != consumed*milli || s.Observed().Shadowed != shadowed*milli {
		u.Errorf("rph of %s: %d are counted, and %d noted; want %d and %d", entity, s.Consumed/milli, s.Observed().Shadowed/milli, consumed, shadowed)
	}
}

// Promises of limits in a mode (ADR 062): they refuse nobody, and those beside them are enforced.
var modeTests = []limiterTest{
	{"a limit in shadow debits what it would admit, and counts the rest", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 100, limiter.InShadow(0)))
		for i, c := range []struct {
			asks, left int64
			refused    bool
		}{{60, 40, false}, {60, 40, true}, {40, 0, false}, {1, 0, true}, {1000, 0, true}} {
			lease := u.acquire("user-1", one("rph", c.asks))
			if refused := len(would(lease)) > 0; refused != c.refused || lease.Statuses()[0].Exceeded {
				u.Errorf("request %d: %+v", i, lease.Statuses())
			}
			u.holds("user-1", one("rph", c.left))
		}
		u.counts("user-1", 1161, 1061)
		time.Sleep(30 * time.Minute)
		u.holds("user-1", one("rph", 50))
	}},
	{"a limit that is off counts, and keeps its balance", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 100))
		u.acquire("user-1", one("rph", 70))
		u.system(limiter.PerHour("rph", 100, limiter.SwitchedOff()))
		u.InvalidateConfig()
		for range 3 {
			if lease := u.acquire("user-1", one("rph", 60)); len(would(lease)) > 0 {
				u.Errorf("%+v", lease.Statuses())
			}
		}
		u.holds("user-1", one("rph", 30))
		u.counts("user-1", 250, 0)
		u.system(limiter.PerHour("rph", 100))
		u.InvalidateConfig()
		u.exactly(31, 36*time.Second)
	}},
	{"an enforced limit beside one in shadow refuses exactly, and the other counts nothing of that", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 10, limiter.InShadow(0)), limiter.PerHour("tph", 60))
		both := map[string]int64{"rph": 90, "tph": 60}
		if names := would(u.acquire("user-1", both)); !slices.Equal(names, []string{"rph"}) {
			u.Errorf("%v would have refused", names)
		}
		e := u.refused(both)
		if names := exceeded(e); !slices.Equal(names, []string{"tph"}) || e.RetryAfter() != time.Hour {
			u.Errorf("%v refused, for %v", names, e.RetryAfter())
		}
		u.counts("user-1", 90, 90)
	}},
	{"a mode for a part of the entities enforces the limit for the others, and a smaller part for more", Virtual, func(u *user) {
		const entities = 40
		before := map[string]bool{}
		for _, percent := range []int{100, 60, 20} {
			u.system(limiter.PerHour("rph", 10, limiter.InShadow(percent)))
			u.InvalidateConfig()
			free := 0
			for i := range entities {
				entity := fmt.Sprint("entity-", i)
				_, err := u.Acquire(u.Context(), ask(entity, one("rph", 11)))
				if isRefused := errors.Is(err, limiter.ErrExceeded); isRefused != (err != nil) || before[entity] && !isRefused {
					u.Errorf("%d %%: %s got %v, after a refusal %v", percent, entity, err, before[entity])
				} else if before[entity] = isRefused; !isRefused {
					free++
				}
			}
			if want := entities * percent / 100; free < want-10 || free > want+10 {
				u.Errorf("%d of %d entities are in shadow, for %d %%", free, entities, percent)
			}
		}
	}},
	{"enforcement begins with what a shadow has left, and forgives a debt", Virtual, func(u *user) {
		for entity, c := range map[string]struct{ take, more, left int64 }{"user-1": {30, 30, 70}, "user-2": {90, 250, 0}} {
			shadow := limiter.PerHour("rph", 100, limiter.InShadow(0))
			u.system(shadow)
			u.InvalidateConfig()
			lease := u.acquire(entity, one("rph", c.take))
			u.must(lease.Settle("rph", c.more)) // into debt
			u.must(lease.Commit(u.Context()))
			u.system(limiter.PerHour("rph", 100))
			u.InvalidateConfig()
			if _, err := u.Acquire(u.Context(), ask(entity, one("rph", c.left+1))); !errors.Is(err, limiter.ErrExceeded) {
				u.Errorf("%s: more than %d tokens: %v", entity, c.left, err)
			}
			u.acquire(entity, one("rph", c.left))
		}
	}},
	{"what only counted moves no balance when it is settled or returned, in whichever mode", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 10, limiter.InShadow(0)))
		u.acquire("user-1", one("rph", 8))
		later, back := u.acquire("user-1", one("rph", 20)), u.acquire("user-1", one("rph", 30))
		u.system(limiter.PerHour("rph", 10))
		u.InvalidateConfig()
		u.acquire("user-1", one("rph", 1))
		u.must(later.Settle("rph", 25))
		u.must(later.Commit(u.Context()))
		u.must(back.Rollback(u.Context()))
		u.holds("user-1", one("rph", 1))
		u.counts("user-1", 34, 0)
	}},
	{"what only counted, and is released, moves no balance when more is settled", Virtual, func(u *user) {
		for entity, limits := range map[string][]limiter.Limit{
			"user-1": {limiter.PerHour("rph", 10, limiter.InShadow(0))},
			"user-2": {limiter.PerHour("rph", 10, limiter.InShadow(0)), limiter.PerHour("tph", 60)},
		} {
			u.system(limits...)
			u.InvalidateConfig()
			u.acquire(entity, one("rph", 8))
			asked := map[string]int64{}
			for _, l := range limits {
				asked[l.Name] = 20
			}
			lease := u.acquire(entity, asked)
			u.must(lease.Release(u.Context(), asked))
			u.must(lease.Settle("rph", 5))
			u.must(lease.Commit(u.Context()))
			u.holds(entity, one("rph", 2))
			u.counts(entity, 13, 20)
		}
	}},
	{"what only counted moves no balance either when it is settled by the write that fills the bucket", Virtual, func(u *user) {
		for _, mode := range []limiter.Limit{limiter.PerHour("rph", 10, limiter.InShadow(0)), limiter.PerHour("rph", 10, limiter.SwitchedOff())} {
			for entity, used := range map[string]int64{"more": 50, "less": 12} {
				entity += mode.Mode.String()
				u.system(mode, limiter.PerMinute("rpm", 60))
				u.InvalidateConfig()
				lease := u.acquire(entity, map[string]int64{"rph": 20, "rpm": 0})
				time.Sleep(time.Second)
				u.must(lease.Settle("rph", used))
				u.must(lease.Settle("rpm", 3))
				u.must(lease.Commit(u.Context()))
				u.holds(entity, map[string]int64{"rph": 10, "rpm": 57})
			}
		}
	}},
	{"a lease settles as it took: what an extension counted only, and what a limit that is off was asked for later, moves no balance", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 10, limiter.InShadow(0)), limiter.PerHour("tph", 10, limiter.SwitchedOff()))
		u.acquire("user-1", one("rph", 4))
		asked := map[string]int64{"rph": 0, "tph": 0}
		open := u.acquire("user-1", asked)
		u.must(open.Take(u.Context(), one("rph", 20)))
		u.must(open.Settle("rph", 30))
		u.must(open.Settle("tph", 30))
		u.must(open.Release(u.Context(), one("rph", 5)))
		u.holds("user-1", map[string]int64{"rph": 6, "tph": 10})
		u.must(open.Settle("rph", 3))
		u.must(open.Settle("tph", 1))
		u.must(open.Commit(u.Context()))
		u.holds("user-1", map[string]int64{"rph": 6, "tph": 10})
		both := u.acquire("user-1", one("rph", 2))
		u.must(both.Take(u.Context(), one("rph", 20)))
		u.must(both.Settle("rph", 25)) // the balance pays for one part of it, and so for the rest
		u.must(both.Commit(u.Context()))
		u.holds("user-1", map[string]int64{"rph": 1, "tph": 10})
	}},
	{"a limit in shadow of a parent refuses no child", Virtual, func(u *user) {
		u.family()
		u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"}, []store.Limit{limiter.PerHour("rph", 10, limiter.InShadow(0))}))
		u.system(limiter.PerHour("rph", 50))
		u.acquire("user-1", one("rph", 8))
		lease := u.acquire("user-1", one("rph", 8))
		if w := lease.WouldRefuse(); len(w) != 1 || w[0].Entity != "project" {
			u.Errorf("%+v", w)
		}
		if names := exceeded(u.refused(one("rph", 35))); len(names) != 1 {
			u.Errorf("%v refused", names)
		}
		u.counts("project", 16, 8)
	}},
	{"a quota in shadow renews, and decides as it would", Virtual, func(u *user) {
		quota := u.each("day", 10)
		quota.Mode = limiter.Shadow
		u.system(quota)
		u.sleepTo(8 * time.Hour)
		if names := would(u.acquire("user-1", one("rpd", 7))); len(names) > 0 {
			u.Errorf("%v would have refused", names)
		}
		if names := would(u.acquire("user-1", one("rpd", 7))); len(names) != 1 {
			u.Errorf("%v would have refused", names)
		}
		u.sleepTo(0)
		u.holds("user-1", one("rpd", 10))
		if names := would(u.acquire("user-1", one("rpd", 10))); len(names) > 0 {
			u.Errorf("%v would have refused", names)
		}
	}},
	{"many limiters on a limit in shadow are all admitted, and its debt is at most one capacity", Virtual, func(u *user) {
		const limiters, callers, times, capacity = 4, 8, 10, 20
		u.system(limiter.PerHour("rph", capacity, limiter.InShadow(0)))
		u.acquire("user-1", one("rph", 0))
		all := make([]*limiter.Limiter, limiters)
		for i := range all {
			all[i] = newLimiter(u.T, u.Store)
		}
		var admitted atomic.Int64
		atOnce(limiters*callers, func(i int) {
			for range times {
				_, err := all[i%limiters].Acquire(u.Context(), ask("user-1", one("rph", 3)))
				switch {
				case err == nil:
					admitted.Add(3)
				case !errors.Is(err, limiter.ErrConflict):
					u.Error(err)
				}
				time.Sleep(time.Second)
			}
		})
		s := u.state("user-1")
		if s.Consumed != admitted.Load()*milli || s.Tokens < -capacity*milli || admitted.Load() < limiters*callers*times*3*9/10 {
			u.Errorf("%d are counted, and %d were admitted; the balance is %d", s.Consumed/milli, admitted.Load(), s.Tokens/milli)
		}
	}},
	{"all limits of a bucket can be in a mode", Virtual, func(u *user) {
		consume, limits := map[string]int64{}, make([]store.Limit, store.MaxLimits)
		for i := range limits {
			limits[i] = limiter.PerHour("limit-"+strconv.Itoa(i), 10, limiter.InShadow(0))
			consume[limits[i].Name] = 7
		}
		u.system(limits...)
		for i := range 3 {
			if names := would(u.acquire("user-1", consume)); len(names) != min(i, 1)*store.MaxLimits {
				u.Errorf("request %d: %v would have refused", i, names)
			}
		}
		for i := range limits {
			limits[i].Mode = []store.Mode{store.Enforce, store.Shadow, store.Off}[i%3]
		}
		u.system(limits...)
		u.InvalidateConfig()
		if names := exceeded(u.refused(consume)); len(names) != (store.MaxLimits+2)/3 {
			u.Errorf("%v refused", names)
		}
	}},
}
