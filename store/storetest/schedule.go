package storetest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

// varying is rph of 100 tokens an hour, with a schedule in Berlin.
func (u *user) varying(entries string) store.Limit {
	u.Helper()
	s, err := limiter.ParseSchedule(entries, "Europe/Berlin")
	u.must(err)
	return limiter.PerHour("rph", 100, limiter.Varies(s))
}

// exactly checks that a request is refused with a wait, and admitted then and not before.
func (u *user) exactly(tokens int64, want time.Duration) {
	u.Helper()
	if wait := u.refused(one("rph", tokens)).RetryAfter(); wait != want {
		u.Fatalf("%d tokens wait for %v, want %v", tokens, wait, want)
	}
	time.Sleep(want - time.Millisecond)
	if wait := u.refused(one("rph", tokens)).RetryAfter(); wait != time.Millisecond {
		u.Errorf("a millisecond before, %v remain", wait)
	}
	time.Sleep(time.Millisecond)
	u.acquire("user-1", one("rph", tokens))
}

// Promises of schedules: what holds, holds at once, and waits are exact across changes.
var scheduleTests = []limiterTest{
	{"a lower capacity holds at once, a higher one is earned", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.sleepTo(8 * time.Hour)
		u.acquire("user-1", one("rph", 10))
		u.holds("user-1", one("rph", 90))
		time.Sleep(time.Hour)
		u.holds("user-1", one("rph", 50))
		if s := u.refused(one("rph", 51)).Statuses[0]; s.Limit.Capacity != 50 || s.Limit.Amount != 50 || s.Limit.Varies != nil {
			u.Errorf("by day the limit is %v", s.Limit)
		}
		u.acquire("user-1", one("rph", 50))
		time.Sleep(8 * time.Hour)
		u.holds("user-1", one("rph", 50))
		time.Sleep(15 * time.Minute)
		u.holds("user-1", one("rph", 75))
	}},
	{"a bucket is born with the capacity that holds", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.sleepTo(10 * time.Hour)
		u.acquire("user-1", one("rph", 50))
		u.exactly(1, 72*time.Second)
	}},
	{"a wait passes a change of the rate", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.sleepTo(16*time.Hour + 30*time.Minute)
		u.acquire("user-1", one("rph", 50))
		u.exactly(50, 45*time.Minute) // 25 at 50 an hour, 25 at 100
	}},
	{"a wait passes a time in which the capacity is too small", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.sleepTo(8*time.Hour + 30*time.Minute)
		u.acquire("user-1", one("rph", 100))
		u.exactly(60, 8*time.Hour+30*time.Minute+6*time.Minute)
	}},
	{"a request that no time has room for waits for ever", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x2"))
		u.sleepTo(8 * time.Hour)
		u.acquire("user-1", one("rph", 0)) // a bucket that is not there yet would open full, also at nine
		if wait := u.refused(one("rph", 201)).RetryAfter(); wait != limiter.Never {
			u.Errorf("it waits for %v", wait)
		}
		u.exactly(150, time.Hour+15*time.Minute)
	}},
	{"a debt is paid at the rates that hold", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.sleepTo(8 * time.Hour)
		lease := u.acquire("user-1", one("rph", 100))
		u.must(lease.Adjust("rph", 200))
		u.must(lease.Commit(u.Context()))
		u.holds("user-1", one("rph", -200))
		u.exactly(50, 4*time.Hour) // 100 by 9:00, 150 by 12:00
	}},
	{"an edit of the schedule holds at once", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.8"))
		u.sleepTo(10 * time.Hour)
		u.acquire("user-1", one("rph", 0))
		u.holds("user-1", one("rph", 80))
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.InvalidateConfig()
		u.acquire("user-1", one("rph", 0))
		u.must(u.Close()) // a repair in the background
		u.Limiter = newLimiter(u.T, u.Store)
		u.holds("user-1", one("rph", 50))
		u.system(limiter.PerHour("rph", 100))
		u.InvalidateConfig()
		u.acquire("user-1", one("rph", 10))
		u.exactly(100, 36*time.Minute)
	}},
	{"returned tokens find room in the capacity that holds", Virtual, func(u *user) {
		u.system(u.varying("* 9-16 * * * x0.5"))
		u.sleepTo(9*time.Hour - time.Minute)
		lease := u.acquire("user-1", one("rph", 100))
		time.Sleep(2 * time.Minute)
		u.must(lease.Rollback(u.Context()))
		u.holds("user-1", one("rph", 50))
	}},
}
