package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// each is a quota of rpd for each period of a calendar in Berlin.
func (u *user) each(words string, tokens int64) store.Limit {
	u.Helper()
	r, err := limiter.ParseRenewal(words, "Europe/Berlin")
	u.must(err)
	return limiter.Quota("rpd", tokens, r)
}

// sleepTo lets time pass until an offset from the next midnight in Berlin.
func (u *user) sleepTo(offset time.Duration) {
	u.Helper()
	next := time.UnixMilli(u.each("day", 1).Renews.Next(u.Now().UnixMilli()))
	if until := next.Add(offset).Sub(u.Now()); until > 0 {
		time.Sleep(until)
	} else {
		time.Sleep(until + 24*time.Hour) // no clock changes on these days
	}
}

// edit gives user-1 a limit, and its bucket.
func (u *user) edit(l store.Limit) {
	u.Helper()
	u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "user-1", Resource: "gpt-4"}, []store.Limit{l}))
	u.InvalidateConfig()
	_, err := u.Acquire(u.Context(), ask("user-1", one("rpd", 0)))
	u.must(err)
	u.must(u.Close()) // a repair in the background
	u.Limiter = newLimiter(u.T, u.Store)
}

// Promises of quotas: a period admits what the quota says, whatever races with its edge.
var quotaTests = []limiterTest{
	{"a quota renews as a whole, at the edge and not before", Virtual, func(u *user) {
		u.system(u.each("day", 10), limiter.PerMinute("rpm", 60_000))
		both := map[string]int64{"rpd": 10, "rpm": 1}
		for range 3 {
			u.sleepTo(time.Hour)
			u.acquire("user-1", both)
			time.Sleep(20 * time.Hour)
			e := u.refused(one("rpd", 1))
			if s := e.Statuses[0]; s.ResetsIn != s.RetryAfter || s.ResetsAt.Sub(u.Now()) != s.RetryAfter || s.Limit != u.each("day", 10) {
				u.Errorf("refused with %+v", s)
			}
			time.Sleep(e.RetryAfter() - time.Millisecond)
			if again := u.refused(one("rpd", 1)).RetryAfter(); again != time.Millisecond {
				u.Errorf("a millisecond before the edge, %v remain", again)
			}
			time.Sleep(time.Millisecond)
			u.acquire("user-1", both)
			u.holds("user-1", map[string]int64{"rpd": 0, "rpm": 59_999})
		}
	}},
	{"a quota that slept through several edges is full once", Virtual, func(u *user) {
		u.system(u.each("day", 10))
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 7))
		time.Sleep(5 * 24 * time.Hour)
		u.holds("user-1", one("rpd", 10))
		u.acquire("user-1", one("rpd", 10))
		_ = u.refused(one("rpd", 1))
	}},
	{"a request above a quota waits for ever", Virtual, func(u *user) {
		u.system(u.each("month", 10))
		if wait := u.refused(one("rpd", 11)).RetryAfter(); wait != limiter.Never {
			u.Errorf("it waits for %v", wait)
		}
	}},
	{"callers of many limiters that meet an edge get one quota", Virtual, func(u *user) {
		const tokens, limiters, callers = 40, 8, 64
		u.system(u.each("day", tokens))
		all := make([]*limiter.Limiter, limiters)
		for i := range all {
			all[i] = newLimiter(u.T, u.Store)
		}
		for range 3 {
			u.sleepTo(-time.Second)
			var admitted [2]atomic.Int64
			var wg sync.WaitGroup
			edge := u.each("day", 1).Renews.Next(u.Now().UnixMilli())
			for i := range callers {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 7 * time.Millisecond)
					for range 12 {
						lease, err := all[i%limiters].Acquire(u.Context(), ask("user-1", one("rpd", 1)))
						if err == nil {
							period := 0
							if lease.Statuses()[0].ResetsAt.UnixMilli() > edge {
								period = 1
							}
							admitted[period].Add(1)
						} else if !errors.Is(err, limiter.ErrExceeded) {
							u.Error(err)
						}
						time.Sleep(150 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			if before, after := admitted[0].Load(), admitted[1].Load(); before > tokens || after != tokens {
				u.Errorf("%d admitted before the edge, and %d after it, of %d", before, after, tokens)
			}
		}
	}},
	{"a credit returns to the period in which it was taken, or to none", Virtual, func(u *user) {
		u.system(u.each("day", 10))
		u.sleepTo(-time.Hour)
		early, late := u.acquire("user-1", one("rpd", 4)), u.acquire("user-1", one("rpd", 3))
		u.must(early.Rollback(u.Context()))
		u.holds("user-1", one("rpd", 7))
		u.sleepTo(time.Hour)
		today := u.acquire("user-1", one("rpd", 6))
		u.must(late.Rollback(u.Context()))
		u.holds("user-1", one("rpd", 4))
		u.must(today.Adjust("rpd", -2))
		u.must(today.Commit(u.Context()))
		u.holds("user-1", one("rpd", 6))
	}},
	{"a debt ends with its period", Virtual, func(u *user) {
		u.system(u.each("day", 10))
		u.sleepTo(-time.Hour)
		lease := u.acquire("user-1", one("rpd", 10))
		u.must(lease.Adjust("rpd", 25))
		u.must(lease.Commit(u.Context()))
		u.holds("user-1", one("rpd", -25))
		if wait := u.refused(one("rpd", 1)).RetryAfter(); wait != time.Hour {
			u.Errorf("it waits for %v", wait)
		}
		time.Sleep(time.Hour)
		u.holds("user-1", one("rpd", 10))
	}},
	{"no sequence of edits gives anything back", Virtual, func(u *user) {
		u.edit(u.each("day", 100))
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 60))
		for _, step := range []struct {
			to   store.Limit
			want int64
		}{
			{u.each("day", 50), -10},
			{u.each("day", 100), 40},
			{u.each("day", 250), 190},
			{u.each("month", 250), 190},
			{u.each("day at 00:30", 100), 40},
			{limiter.PerDay("rpd", 100), 40},
			{u.each("day", 100), 40},
		} {
			u.edit(step.to)
			u.holds("user-1", one("rpd", step.want))
		}
		u.sleepTo(0)
		u.holds("user-1", one("rpd", 100))
	}},
}
