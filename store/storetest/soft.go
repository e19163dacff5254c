package storetest

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// Promises of soft limits: they count, and refuse nobody, and hard limits beside them hold.
var softTests = []limiterTest{
	{"a soft limit admits at any balance, and its debt is paid", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 100, limiter.Soft()))
		for i, overdrawn := range []map[string]int64{{}, {"rph": 20}, {"rph": 80}} {
			lease := u.acquire("user-1", one("rph", 60))
			if diff := cmp.Diff(overdrawn, lease.Overdrawn()); diff != "" {
				u.Errorf("acquire %d (-want +got):\n%s", i, diff)
			}
			if s := lease.Statuses()[0]; !s.Limit.Soft || s.Exceeded || s.RetryAfter != 0 {
				u.Errorf("acquire %d: %+v", i, s)
			}
		}
		u.holds("user-1", one("rph", -80))
		time.Sleep(time.Hour)
		u.holds("user-1", one("rph", 20))
		lease := u.acquire("user-1", one("rph", 1000)) // more than it ever holds
		u.must(lease.Rollback(u.Context()))
		u.holds("user-1", one("rph", 20))
	}},
	{"a hard limit beside a soft one refuses exactly", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 100, limiter.Soft()), limiter.PerHour("tph", 60))
		both := map[string]int64{"rph": 90, "tph": 30}
		u.acquire("user-1", both)
		u.acquire("user-1", both)
		u.holds("user-1", map[string]int64{"rph": -80, "tph": 0})
		e := u.refused(both)
		if wait := e.RetryAfter(); wait != 30*time.Minute {
			u.Errorf("it waits for %v", wait)
		}
		for _, s := range e.Statuses {
			if s.Exceeded != (s.Limit.Name == "tph") || s.Limit.Soft == s.Exceeded {
				u.Errorf("refused with %+v", s)
			}
		}
		time.Sleep(30*time.Minute - time.Millisecond)
		_ = u.refused(both)
		time.Sleep(time.Millisecond)
		u.acquire("user-1", both)
	}},
	{"a quota and a schedule can be soft", Virtual, func(u *user) {
		quota, varying := u.each("day", 10), u.varying("* 9-16 * * * x0.5")
		quota.Soft, varying.Soft = true, true
		u.system(quota, varying)
		u.sleepTo(8 * time.Hour)
		both := map[string]int64{"rpd": 15, "rph": 150}
		u.acquire("user-1", both)
		u.holds("user-1", map[string]int64{"rpd": -5, "rph": -50})
		time.Sleep(2 * time.Hour)
		u.acquire("user-1", both)
		u.holds("user-1", map[string]int64{"rpd": -20, "rph": -100}) // it held 50, the most by day
		u.sleepTo(0)
		u.holds("user-1", map[string]int64{"rpd": 10, "rph": 100})
	}},
	{"a limit made hard refuses until its debt is paid, and one made soft admits", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 100, limiter.Soft()))
		u.acquire("user-1", one("rph", 200))
		u.system(limiter.PerHour("rph", 100))
		u.InvalidateConfig()
		u.exactly(20, 72*time.Minute)
		u.system(limiter.PerHour("rph", 100, limiter.Soft()))
		u.InvalidateConfig()
		u.acquire("user-1", one("rph", 500))
		u.holds("user-1", one("rph", -500))
	}},
	{"nobody waits for a soft limit", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 10, limiter.Soft()), limiter.PerHour("tph", 60))
		u.acquire("user-1", map[string]int64{"rph": 10, "tph": 60})
		began := u.Now()
		_, err := u.Wait(u.Context(), ask("user-1", map[string]int64{"rph": 20, "tph": 1}))
		u.must(err)
		if waited := u.Now().Sub(began); waited < time.Minute || waited > time.Minute+time.Second {
			u.Errorf("it waited for %v", waited)
		}
		began = u.Now()
		_, err = u.Wait(u.Context(), ask("user-1", one("rph", 20)))
		u.must(err)
		if waited := u.Now().Sub(began); waited > time.Second {
			u.Errorf("it waited for %v", waited)
		}
	}},
	{"a soft limit of a parent counts, and one of the entity beside a hard one of the parent", Virtual, func(u *user) {
		u.family()
		u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"}, []store.Limit{
			limiter.PerHour("rph", 100, limiter.Soft()), limiter.PerHour("tph", 60),
		}))
		u.system(limiter.PerHour("rph", 1000), limiter.PerHour("tph", 10, limiter.Soft()))
		both := map[string]int64{"rph": 90, "tph": 30}
		u.acquire("user-1", both)
		if diff := cmp.Diff(map[string]int64{"rph": 80, "tph": 50}, u.acquire("user-1", both).Overdrawn()); diff != "" {
			u.Errorf("(-want +got):\n%s", diff)
		}
		if wait := u.refused(both).RetryAfter(); wait != 30*time.Minute {
			u.Errorf("it waits for %v", wait)
		}
	}},
	{"a new bucket opens in debt", Virtual, func(u *user) {
		u.system(limiter.PerHour("rph", 10, limiter.Soft()), limiter.PerHour("tph", 60))
		u.acquire("user-1", map[string]int64{"rph": 25, "tph": 1})
		u.holds("user-1", map[string]int64{"rph": -15, "tph": 59})
	}},
	{"many callers of several limiters are admitted, and each is counted", Virtual, func(u *user) {
		const limiters, callers, times = 4, 16, 10
		u.system(limiter.PerHour("rph", 100, limiter.Soft()), limiter.PerHour("tph", 10_000))
		all := make([]*limiter.Limiter, limiters)
		for i := range all {
			all[i] = newLimiter(u.T, u.Store)
		}
		var wg sync.WaitGroup
		var admitted atomic.Int64
		for i := range limiters * callers {
			wg.Go(func() {
				for range times {
					_, err := all[i%limiters].Acquire(u.Context(), ask("user-1", map[string]int64{"rph": 1, "tph": 1}))
					switch {
					case err == nil:
						admitted.Add(1)
					case !errors.Is(err, limiter.ErrConflict):
						u.Errorf("caller %d: %v", i, err)
					}
					time.Sleep(10 * time.Second) // through two ends of stamps
				}
			})
		}
		wg.Wait()
		images, err := u.Buckets(u.Context(), "user-1", "gpt-4", 1)
		u.must(err)
		for _, limit := range []string{"rph", "tph"} {
			if s, _ := images[0].Limit(limit); s.Consumed != admitted.Load()*store.Milli {
				u.Errorf("%s counts %d, and %d were admitted", limit, s.Consumed, admitted.Load())
			}
		}
		if admitted.Load() < limiters*callers*times*9/10 {
			u.Errorf("%d were admitted", admitted.Load())
		}
	}},
	{"all limits of a bucket can be soft", Virtual, func(u *user) {
		consume, limits := map[string]int64{}, make([]store.Limit, store.MaxLimits)
		for i := range limits {
			limits[i] = limiter.PerHour("limit-"+strconv.Itoa(i), 10, limiter.Soft())
			consume[limits[i].Name] = 7
		}
		u.system(limits...)
		for range 3 {
			u.acquire("user-1", consume)
			time.Sleep(time.Millisecond)
		}
		for i := range limits {
			limits[i].Capacity, limits[i].Soft = 20, i%2 == 0
		}
		u.system(limits...)
		u.InvalidateConfig()
		if names := exceeded(u.refused(consume)); len(names) != store.MaxLimits/2 {
			u.Errorf("%v refused", names)
		}
		maps.DeleteFunc(consume, func(name string, _ int64) bool {
			return !slices.ContainsFunc(limits, func(l store.Limit) bool { return l.Name == name && l.Soft })
		})
		u.acquire("user-1", consume)
	}},
}

// exceeded names the limits that refused.
func exceeded(e *limiter.ExceededError) (names []string) {
	for _, s := range e.Statuses {
		if s.Exceeded {
			names = append(names, s.Limit.Name)
		}
	}
	return names
}
