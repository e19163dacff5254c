//go:build conformance

package conformance_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// carrying gives the system a quota of 100 tokens a day, which carries, and sets the clocks to
// noon. It returns when the day ends.
func (b *both) carrying(opts ...limiter.LimitOption) (midnight time.Time) {
	b.Helper()
	q := b.quota("rpd", 100, "day", "UTC")
	for _, opt := range opts {
		opt(&q)
	}
	b.system(q, limiter.PerMinute("rpm", 6000))
	now, midnight := noon()
	b.at(now)
	return midnight
}

var carryCases = []interopCase{
	{"what Go has rolled over, both may take, and no more", func(b *both) {
		midnight := b.carrying(limiter.Rollover(50))
		b.take("user", "gpt-4", args{"rpd": 20, "rpm": 1})
		b.at(midnight.Add(time.Hour))
		b.take("user", "gpt-4", args{"rpd": 10, "rpm": 1})
		b.balance("user", "gpt-4", "rpd", 140)
		for range 4 {
			b.at(b.store.Now().Add(time.Minute)) // the rate refills: Python trims by its slow path
			if b.py.take("user", "gpt-4", args{"rpd": 10, "rpm": 1}) {
				b.Error("Python was refused")
			}
			b.take("user", "gpt-4", args{"rpd": 10, "rpm": 1})
		}
		b.balance("user", "gpt-4", "rpd", 60)
		if e := b.take("user", "gpt-4", args{"rpd": 61}); e == nil {
			b.Error("Go took 61 of 60")
		}
		if !b.py.take("user", "gpt-4", args{"rpd": 61}) {
			b.Error("Python took 61 of 60")
		}
	}},
	{"a period that Python begins has its amount, neither less nor more", func(b *both) {
		midnight := b.carrying(limiter.Rollover(50), limiter.CarryDebt())
		for day, overdraws := range []int{-30, 30} { // less than a day's amount is taken, and then more
			b.at(midnight.Add(time.Duration(48*day)*time.Hour + time.Hour))
			lease, err := b.Acquire(b.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 100}})
			b.must(err)
			b.must(lease.Adjust("rpd", int64(overdraws)))
			b.must(lease.Commit(b.Context()))
			b.at(midnight.Add(time.Duration(48*day+24) * time.Hour).Add(time.Minute))
			if b.py.take("user", "gpt-4", args{"rpd": 10, "rpm": 1}) {
				b.Error("Python was refused")
			}
			b.balance("user", "gpt-4", "rpd", 90)
			b.take("user", "gpt-4", args{"rpd": 90, "rpm": 1})
			b.balance("user", "gpt-4", "rpd", 0)
		}
	}},
	{"the attribute survives what Python writes to the bucket", func(b *both) {
		midnight := b.carrying(limiter.Rollover(50), limiter.CarryDebt())
		b.take("user", "gpt-4", args{"rpd": 20, "rpm": 1})
		for day := range 2 {
			b.at(midnight.Add(time.Duration(24*day) * time.Hour).Add(time.Hour))
			if b.py.take("user", "gpt-4", args{"rpd": 20, "rpm": 1}) {
				b.Error("Python was refused")
			}
			if got := schema.Plain(b.item("user", "gpt-4")["b_rpd_co"]); got != "50d" {
				b.Errorf("the bucket carries %v", got)
			}
		}
		b.at(midnight.Add(49 * time.Hour))
		b.take("user", "gpt-4", args{"rpd": 0, "rpm": 1})
		b.balance("user", "gpt-4", "rpd", 150)
	}},
}
