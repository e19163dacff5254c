//go:build conformance

package conformance_test

import (
	"maps"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// edits lets Python set user's own limits, which rewrites the bucket: cp, rsched and vu = 0.
func (b *both) edits(limits ...limiter.Limit) {
	b.Helper()
	b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(limits...)}, nil)
	if vu := b.number(0, schema.ValidUntil); vu != 0 {
		b.Errorf("Python left vu at %d", vu)
	}
	b.fresh() // our configuration is cached for a minute
}

// owned gives user a quota of 100 a day, of which both libraries take 70 at noon.
func (b *both) owned() (midnight time.Time) {
	b.Helper()
	b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(b.quota("rpd", 100, "day", "UTC"), limiter.PerMinute("rpm", 6000))}, nil)
	now, midnight := noon()
	b.at(now)
	ours, theirs := b.sides("Go")
	b.takes(theirs, 30)
	b.takes(ours, 40)
	b.balance("user", "gpt-4", "rpd", 30)
	return midnight
}

// edited is a case in which Python changes the quota at noon: what is left then, and how much
// a period has from midnight on.
func edited(name string, of func(*both) limiter.Limit, left, next int64) interopCase {
	return interopCase{"Python changes a quota: " + name, func(b *both) {
		midnight := b.owned()
		b.edits(of(b), limiter.PerMinute("rpm", 6000))
		if left < next {
			b.isRefused(int(left)+1, left, midnight)
		}
		if vu := b.number(0, schema.ValidUntil); vu != 0 && vu != midnight.UnixMilli() {
			b.Errorf("vu is %d", vu)
		}
		ours, theirs := b.sides("Go")
		b.takes(ours, 5)
		b.takes(theirs, 5)
		b.balance("user", "gpt-4", "rpd", left-10)
		b.exhaust(left-10, midnight)
		b.at(midnight)
		b.takes(ours, 10)
		b.balance("user", "gpt-4", "rpd", next-10)
	}}
}

// quotaEditCases test changes by one library that the other one adopts, and the peer's operations.
var quotaEditCases = []interopCase{
	// Python keeps the balance where we add or take the difference.
	edited("more", func(b *both) limiter.Limit { return b.quota("rpd", 200, "day", "UTC") }, 30, 200),
	edited("fewer", func(b *both) limiter.Limit { return b.quota("rpd", 50, "day", "UTC") }, 30, 50),
	edited("fewer than it holds", func(b *both) limiter.Limit { return b.quota("rpd", 20, "day", "UTC") }, 20, 20),
	edited("another calendar", func(b *both) limiter.Limit { return b.quota("rpd", 100, "0 0,11 * * *", "UTC") }, 30, 100),
	{"Go changes a quota", func(b *both) {
		midnight := b.owned()
		key := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}
		rpm := limiter.PerMinute("rpm", 6000)
		b.must(b.store.SetLimits(b.Context(), key, []limiter.Limit{b.quota("rpd", 200, "day", "UTC"), rpm}))
		b.fresh()
		ours, theirs := b.sides("Go")
		b.takes(theirs, 100) // 70 of 200 were taken
		b.takes(ours, 10)
		b.isRefused(21, 20, midnight)
		b.must(b.store.SetLimits(b.Context(), key, []limiter.Limit{b.quota("rpd", 100, "day", "UTC"), rpm}))
		b.fresh()
		b.isRefused(1, -80, midnight)
		b.must(b.store.SetLimits(b.Context(), key, []limiter.Limit{b.quota("rpd", 190, "day", "UTC"), rpm}))
		b.fresh()
		b.takes(theirs, 10)
		b.exhausted(midnight)
		// A calendar with an edge since noon would renew it. The edge counts as past.
		hour := midnight.Add(-6 * time.Hour)
		b.at(hour.Add(30 * time.Minute))
		b.must(b.store.SetLimits(b.Context(), key, []limiter.Limit{b.quota("rpd", 190, "0 * * * *", "UTC"), rpm}))
		b.fresh()
		b.exhausted(hour.Add(time.Hour))
		b.at(hour.Add(time.Hour))
		b.takes(theirs, 190)
		b.exhausted(hour.Add(2 * time.Hour))
	}},
	{"Python gives a quota a calendar that has renewed since the last write", func(b *both) {
		midnight := b.owned()
		hour := midnight.Add(-6 * time.Hour)
		b.at(hour.Add(30 * time.Minute))
		b.edits(b.quota("rpd", 100, "0 * * * *", "UTC"), limiter.PerMinute("rpm", 6000))
		ours, theirs := b.sides("Go")
		b.takes(ours, 60) // full again, as for Python: the item does not say that it was edited
		b.takes(theirs, 40)
		b.exhausted(hour.Add(time.Hour))
	}},
	{"Python makes a quota a rate, and a quota again", func(b *both) {
		midnight := b.owned()
		b.edits(perDay("rpd", 100), limiter.PerMinute("rpm", 6000))
		ours, theirs := b.sides("Go")
		b.takes(ours, 10)
		b.takes(theirs, 10)
		b.balance("user", "gpt-4", "rpd", 10)
		b.edits(b.quota("rpd", 100, "day", "UTC"), limiter.PerMinute("rpm", 6000))
		b.takes(ours, 5)
		b.takes(theirs, 5)
		b.exhausted(midnight)
		b.at(midnight)
		b.takes(ours, 50)
		b.takes(theirs, 50)
		b.exhausted(midnight.AddDate(0, 0, 1))
	}},
	{"Python takes a quota off, and gives it back", func(b *both) {
		midnight := b.owned()
		b.operates("top_up", args{"amounts": args{"rpd": 500}})
		b.edits(limiter.PerMinute("rpm", 6000))
		if b.take("user", "gpt-4", args{"rpm": 1}) != nil {
			b.Error("Go was refused a rate")
		}
		b.edits(b.quota("rpd", 100, "day", "UTC"), limiter.PerMinute("rpm", 6000))
		ours, theirs := b.sides("Go")
		b.takes(ours, 60) // a new quota is full
		b.takes(theirs, 40)
		b.exhausted(midnight)
	}},
	{"a top-up by Python", func(b *both) {
		midnight := b.daily()
		ours, theirs := b.sides("Go")
		b.takes(ours, 90)
		b.operates("top_up", args{"amounts": args{"rpd": 50}})
		b.balance("user", "gpt-4", "rpd", 60)
		b.takes(ours, 20)
		b.takes(theirs, 20)
		// A credit is cut at the raised ceiling, which is 150.
		lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 10}))
		b.must(err)
		b.must(lease.Rollback(b.Context()))
		b.isRefused(21, 20, midnight)
		b.at(midnight)
		b.takes(ours, 10)
		b.balance("user", "gpt-4", "rpd", 90)
		if _, ok := b.item("user", "gpt-4")[schema.LimitAttr("rpd", schema.FieldToppedUp)]; ok {
			b.Error("the top-up is left on the item")
		}
		b.exhaust(90, midnight.AddDate(0, 0, 1))
	}},
	{"a top-up of several shards by Python", func(b *both) {
		midnight := b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 60)
		b.double("user", "gpt-4", 2)
		b.operates("top_up", args{"amounts": args{"rpd": 50}})
		b.isHeld(90)
		b.takes(ours, 70)
		b.exhaust(20, midnight)
		b.at(midnight)
		b.exhaust(100, midnight.AddDate(0, 0, 1))
	}},
	{"a reset by Python", func(b *both) {
		midnight := b.daily()
		ours, theirs := b.sides("Go")
		b.takes(ours, 90)
		b.operates("reset_bucket", nil)
		b.takes(ours, 60)
		b.takes(theirs, 40)
		b.exhausted(midnight)
		b.at(midnight)
		b.takes(ours, 60)
		b.takes(theirs, 40)
		b.exhausted(midnight.AddDate(0, 0, 1))
	}},
	{"a reset of several shards by Python", func(b *both) {
		midnight := b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 60)
		b.double("user", "gpt-4", 2)
		b.operates("reset_bucket", nil)
		b.isHeld(100)
		b.exhaust(100, midnight)
	}},
	{"a lease over a reset by Python", func(b *both) {
		midnight := b.daily()
		lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 60}))
		b.must(err)
		b.py.call("reset_bucket", args{"entity_id": "user", "resource": "gpt-4"}, nil)
		_, theirs := b.sides("Go")
		b.takes(theirs, 50)
		b.must(lease.Rollback(b.Context()))
		b.balance("user", "gpt-4", "rpd", 100) // never above the amount
		b.exhaust(100, midnight)
	}},
	{"a top-up and a reset by Python's command line", func(b *both) {
		now := time.Now().UTC().Truncate(time.Minute)
		end := now.Add(6 * time.Hour)
		b.system(b.quota("rpd", 100, "day at "+end.Format("15:04"), "UTC"), limiter.PerMinute("rpm", 6000))
		ours, theirs := b.sides("Go")
		b.takes(ours, 90)
		b.command("top-up", "--add", "rpd:50")
		b.balance("user", "gpt-4", "rpd", 60)
		b.takes(ours, 55)
		b.command("reset")
		b.takes(theirs, 5)
		b.balance("user", "gpt-4", "rpd", 95)
		b.at(end)
		b.takes(ours, 60)
		b.takes(theirs, 40)
		b.exhausted(end.AddDate(0, 0, 1))
	}},
}

// operates calls a method of the peer's for user's bucket.
func (b *both) operates(method string, more args) {
	b.Helper()
	a := args{"entity_id": "user", "resource": "gpt-4"}
	maps.Copy(a, more)
	b.py.call(method, a, nil)
	b.fresh() // a refusal is remembered for a second
}
