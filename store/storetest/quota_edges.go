package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// A skewed is a store as a process sees it whose clock is wrong. It counts writes.
type skewed struct {
	store.Store

	by              time.Duration
	writes, refused *atomic.Int64
}

func (s *skewed) Now() time.Time { return s.Store.Now().Add(s.by) }

func (s *skewed) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	return s.count(s.Store.Take(ctx, t))
}

func (s *skewed) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	return s.count(s.Store.Refill(ctx, r))
}

func (s *skewed) count(out store.Outcome, err error) (store.Outcome, error) {
	s.writes.Add(1)
	if err == nil && !out.Applied {
		s.refused.Add(1)
	}
	return out, err
}

// processes are limiters of processes whose clocks differ by up to a skew, to either side.
func (u *user) processes(n int, skew time.Duration) (all []*limiter.Limiter, writes, refused *atomic.Int64) {
	u.Helper()
	writes, refused = new(atomic.Int64), new(atomic.Int64)
	for i := range n {
		by := time.Duration(0)
		if n > 1 {
			by = -skew + time.Duration(i)*2*skew/time.Duration(n-1)
		}
		all = append(all, newLimiter(u.T, &skewed{u.Store, by, writes, refused}))
	}
	return all, writes, refused
}

// rush lets callers acquire a token each, again and again, and returns how many were admitted.
func (u *user) rush(all []*limiter.Limiter, callers, times int, every time.Duration) int64 {
	u.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range times {
				_, err := all[i%len(all)].Acquire(u.Context(), ask("user-1", one("rpd", 1)))
				if err == nil {
					admitted.Add(1)
				} else if !errors.Is(err, limiter.ErrExceeded) {
					u.Error(err)
				}
				time.Sleep(every)
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}

// edgeTests are what many callers, processes and buckets do about the edge of a period.
var edgeTests = []limiterTest{
	{"processes whose clocks disagree get one quota a period", Virtual, func(u *user) {
		const tokens = 50
		u.system(u.each("day", tokens))
		all, _, _ := u.processes(5, 5*time.Second)
		u.sleepTo(-time.Hour)
		u.acquire("user-1", one("rpd", tokens-10))
		for range 2 {
			u.sleepTo(-8 * time.Second)
			before := u.rush(all, 20, 64, 250*time.Millisecond) // until 8 s after the edge
			if before != tokens+10 {
				u.Errorf("%d were admitted about the edge, of 10 that were left and %d", before, tokens)
			}
			if more := u.rush(all, 20, 4, time.Hour); more != 0 {
				u.Errorf("%d more were admitted on that day", more)
			}
			u.sleepTo(time.Hour)
			u.acquire("user-1", one("rpd", tokens-10))
		}
	}},
	{"a quota cascades: each renews by its own calendar", Virtual, func(u *user) {
		u.family()
		u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "user-1", Resource: "gpt-4"}, []store.Limit{u.each("day", 10)}))
		u.must(u.SetLimits(u.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"}, []store.Limit{u.each("day at 06:00", 15)}))
		u.sleepTo(7 * time.Hour)
		u.acquire("user-1", one("rpd", 10))
		if wait := u.refused(one("rpd", 1)).RetryAfter(); wait != 17*time.Hour {
			u.Errorf("the child waits for %v", wait)
		}
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 5))
		u.holds("project", one("rpd", 0))
		if wait := u.refused(one("rpd", 1)).RetryAfter(); wait != 5*time.Hour {
			u.Errorf("it waits for its parent for %v", wait)
		}
		time.Sleep(5 * time.Hour)
		lease := u.acquire("user-1", one("rpd", 5))
		u.must(lease.Rollback(u.Context()))
		u.holds("user-1", one("rpd", 5))
		u.holds("project", one("rpd", 15))
	}},
	{"callers in line get what each period has, in their order", Virtual, func(u *user) {
		u.system(u.each("day", 10))
		u.sleepTo(time.Hour)
		u.acquire("user-1", one("rpd", 10))
		var order []int
		var at []time.Time
		var mu sync.Mutex
		var wg sync.WaitGroup
		start := u.Now()
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Minute)
				_, err := u.Wait(u.Context(), ask("user-1", one("rpd", 4)))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					u.Error(err)
				}
				order, at = append(order, i), append(at, u.Now())
			})
		}
		wg.Wait()
		for i, day := range []int{1, 1, 2, 2, 3} {
			edge := start.Add(23*time.Hour + time.Duration(day-1)*24*time.Hour)
			if order[i] != i || at[i].Before(edge) || at[i].Sub(edge) > 2*time.Second {
				u.Errorf("caller %d came %v, %v after the edge", order[i], at[i], at[i].Sub(edge))
			}
		}
	}},
	{"a week of waits is exact", Virtual, func(u *user) {
		const tokens = 30
		u.system(u.each("day at 06:30", tokens))
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a seed is a history
		period, left := int64(0), int64(tokens)
		for end := u.Now().Add(8 * 24 * time.Hour); u.Now().Before(end); {
			want := 1 + r.Int64N(12)
			edge := u.each("day at 06:30", 1).Renews.Next(u.Now().UnixMilli())
			if edge != period {
				period, left = edge, tokens
			}
			if want <= left {
				u.acquire("user-1", one("rpd", want))
				left -= want
				time.Sleep(time.Duration(r.Int64N(int64(3 * time.Hour))))
				continue
			}
			wait := u.refused(one("rpd", want)).RetryAfter()
			if due := time.UnixMilli(edge).Sub(u.Now()).Truncate(time.Millisecond); wait < due || wait > due+time.Millisecond {
				u.Errorf("%d of %d wait for %v, want %v", want, left, wait, due)
			}
			time.Sleep(wait - 2*time.Millisecond)
			_ = u.refused(one("rpd", want))
			time.Sleep(2 * time.Millisecond)
		}
	}},
	{"the first of a month costs 64 callers of 8 processes few refused writes", Virtual, func(u *user) {
		const callers = 64
		u.system(u.each("month", 1000))
		all, writes, refused := u.processes(8, 0)
		month := u.each("month", 1).Renews.Next(u.Now().UnixMilli())
		time.Sleep(time.UnixMilli(month).Sub(u.Now()) - time.Minute)
		u.rush(all, callers, 1, 0)
		time.Sleep(time.UnixMilli(month).Sub(u.Now()) + time.Millisecond)
		writes.Store(0)
		refused.Store(0)
		if n := u.rush(all, callers, 1, 0); n != callers {
			u.Errorf("%d were admitted", n)
		}
		u.Logf("%d writes, %d of them refused", writes.Load(), refused.Load())
		if n := refused.Load(); n > callers/2 {
			u.Errorf("%d writes were refused, of %d callers", n, callers)
		}
	}},
	{"a warm acquire on a quota is one write, applied", Virtual, func(u *user) {
		u.system(u.each("day", 1000), limiter.PerMinute("rpm", 600))
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
