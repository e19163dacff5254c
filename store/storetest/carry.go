package storetest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// carrying is a quota of rpd for each day, which carries.
func (u *user) carrying(tokens int64, opts ...limiter.LimitOption) store.Limit {
	u.Helper()
	return limiter.Quota("rpd", tokens, u.each("day", 1).Renews, opts...)
}

// overdraw leaves rpd of user-1 with a debt.
func (u *user) overdraw(take, more int64) {
	u.Helper()
	lease := u.acquire("user-1", one("rpd", take))
	u.must(lease.Adjust("rpd", more))
	u.must(lease.Commit(u.Context()))
}

// balance is what user-1 has of rpd.
func (u *user) balance() int64 {
	u.Helper()
	statuses, err := u.Available(u.Context(), ask("user-1", one("rpd", 0)))
	u.must(err)
	return statuses[0].Available
}

// A day of a quota that carries is the oracle: what is left at its end.
type carriedDay struct {
	amount, most, left int64
	debt               bool
}

// end ends days.
func (d *carriedDay) end(days int) {
	for range days {
		if !d.debt {
			d.left = max(d.left, 0)
		}
		d.left = d.amount + min(d.left, d.most)
	}
}

// Promises of quotas that carry: over any k periods they admit k amounts and what may be carried.
var carryTests = []limiterTest{
	{"what is left rolls over, up to a maximum, and once", Virtual, func(u *user) {
		u.system(u.carrying(10, limiter.Rollover(4)))
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 8))
		u.sleepTo(time.Hour)
		u.holds("user-1", one("rpd", 12))
		u.acquire("user-1", one("rpd", 5))
		u.sleepTo(time.Hour)
		u.holds("user-1", one("rpd", 14))
		time.Sleep(40 * 24 * time.Hour)
		u.sleepTo(time.Hour)
		u.holds("user-1", one("rpd", 14))
		u.acquire("user-1", one("rpd", 14))
		_ = u.refused(one("rpd", 1))
		u.sleepTo(time.Hour)
		u.holds("user-1", one("rpd", 10))
	}},
	{"a debt is paid by as many periods as it needs, and waits are exact", Virtual, func(u *user) {
		u.system(u.carrying(10, limiter.CarryDebt()))
		u.sleepTo(time.Hour)
		u.overdraw(10, 25)
		u.holds("user-1", one("rpd", -25))
		for want, days := range map[int64]int{1: 3, 5: 3, 6: 4, 10: 4} {
			if wait, due := u.refused(one("rpd", want)).RetryAfter(), time.Duration(24*days-1)*time.Hour; wait > due+time.Second || wait < due-time.Second {
				u.Errorf("%d wait for %v, want %v", want, wait, due)
			}
		}
		e := u.refused(one("rpd", 5))
		if s := e.Statuses[0]; s.ResetsIn >= s.RetryAfter || s.ResetsIn > 24*time.Hour {
			u.Errorf("it resets in %v, and a wait is %v", s.ResetsIn, s.RetryAfter)
		}
		time.Sleep(e.RetryAfter() - time.Millisecond)
		u.holds("user-1", one("rpd", -5))
		if again := u.refused(one("rpd", 5)).RetryAfter(); again != time.Millisecond {
			u.Errorf("a millisecond before the edge, %v remain", again)
		}
		time.Sleep(time.Millisecond)
		u.acquire("user-1", one("rpd", 5))
	}},
	{"a request above the amount waits for what rolls over, and for ever above that", Virtual, func(u *user) {
		u.system(u.carrying(10, limiter.Rollover(25)))
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 8))
		for want, days := range map[int64]int{12: 1, 13: 2, 35: 4} {
			if wait, due := u.refused(one("rpd", want)).RetryAfter(), time.Duration(24*days-1)*time.Hour; wait > due+time.Second || wait < due-time.Second {
				u.Errorf("%d wait for %v, want %v", want, wait, due)
			}
		}
		if wait := u.refused(one("rpd", 36)).RetryAfter(); wait != limiter.Never {
			u.Errorf("more than it ever holds waits for %v", wait)
		}
	}},
	{"callers of many limiters that meet an edge carry once", Virtual, func(u *user) {
		const tokens, most, limiters, callers = 40, 25, 8, 64
		u.system(u.carrying(tokens, limiter.Rollover(most), limiter.CarryDebt()))
		all := make([]*limiter.Limiter, limiters)
		for i := range all {
			all[i] = newLimiter(u.T, u.Store)
		}
		for _, left := range []int64{15, 40, 0, -7} {
			u.sleepTo(time.Hour)
			holds := u.balance()
			u.overdraw(holds, -left)
			u.sleepTo(time.Second)
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for range 3 {
						if _, err := all[i%limiters].Acquire(u.Context(), ask("user-1", one("rpd", 1))); err == nil {
							admitted.Add(1)
						}
						time.Sleep(150 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			if got, want := admitted.Load(), tokens+min(left, most); got != want {
				u.Errorf("%d were left, and %d admitted, want %d", left, got, want)
			}
		}
	}},
	{"a credit after the edge reaches its own period only", Virtual, func(u *user) {
		u.system(u.carrying(10, limiter.Rollover(10), limiter.CarryDebt()))
		u.sleepTo(-time.Hour)
		unseen := u.acquire("user-1", one("rpd", 4))
		u.sleepTo(time.Hour)
		u.must(unseen.Rollback(u.Context())) // nobody has renewed: it is carried
		u.holds("user-1", one("rpd", 20))
		u.sleepTo(-time.Hour)
		late := u.acquire("user-1", one("rpd", 19))
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 1))
		u.must(late.Rollback(u.Context()))
		u.holds("user-1", one("rpd", 10))
	}},
	{"an edit of what is carried changes no balance", Virtual, func(u *user) {
		u.edit(u.carrying(10))
		u.sleepTo(time.Hour)
		u.overdraw(10, 3)
		u.edit(u.carrying(10, limiter.CarryDebt(), limiter.Rollover(5)))
		u.holds("user-1", one("rpd", -3))
		u.sleepTo(time.Hour)
		u.holds("user-1", one("rpd", 7))
		u.acquire("user-1", one("rpd", 1))
		u.sleepTo(time.Hour) // 15 now, by the option that the bucket has
		u.edit(u.carrying(10))
		u.holds("user-1", one("rpd", 15))
		u.acquire("user-1", one("rpd", 1))
		u.edit(u.carrying(12, limiter.Rollover(5)))
		u.holds("user-1", one("rpd", 16))
		u.edit(u.carrying(12))
		u.acquire("user-1", one("rpd", 1))
		u.sleepTo(time.Hour)
		u.holds("user-1", one("rpd", 12))
	}},
	{"an oracle over many days, some of them idle", Virtual, func(u *user) {
		for seed, is := range []carriedDay{{amount: 10, most: 4}, {amount: 10, most: 35}, {amount: 10, debt: true}, {amount: 10, most: 15, debt: true}} {
			r := rand.New(rand.NewPCG(uint64(seed), 2)) //nolint:gosec // a seed is a history
			limit := u.carrying(is.amount)
			limit.Carries = store.Carry{Rollover: is.most, Debt: is.debt}
			u.edit(limit)
			u.sleepTo(time.Hour)
			is.left = u.balance()
			for range 60 {
				switch n := r.Int64N(is.amount + is.most); {
				case n > max(is.left, 0):
					_ = u.refused(one("rpd", n))
				case n > 0:
					more := min(2*n, r.Int64N(4)*r.Int64N(9))
					u.overdraw(n, more)
					is.left -= n + more
				}
				days := 1 + int(max(0, r.Int64N(9)-5))
				time.Sleep(time.Duration(days-1) * 24 * time.Hour)
				u.sleepTo(time.Hour)
				is.end(days)
				if got := u.balance(); got != is.left {
					u.Fatalf("%+v: it has %d", is, got)
				}
			}
		}
	}},
	{"a warm acquire on a quota that carries is one write, applied", Virtual, func(u *user) {
		u.system(u.carrying(1000, limiter.Rollover(1000), limiter.CarryDebt()), limiter.PerMinute("rpm", 600))
		all, writes, refused := u.processes(1, 0)
		u.rush(all, 1, 2, 0)
		writes.Store(0)
		const times = 72
		u.rush(all, 1, times, 55*time.Minute) // over several edges
		if w, r := writes.Load(), refused.Load(); w != times || r != 0 {
			u.Errorf("%d acquires cost %d writes, %d refused", times, w, r)
		}
	}},
}
