//go:build conformance

package conformance_test

import (
	"maps"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// sharesSession checks that two libraries share sessions: one makes the bucket and begins the
// first one, and one begins the next ones.
func (b *both) sharesSession(maker, beginner string) {
	b.Helper()
	b.system(b.quota("rpd", 100, "session 5h", ""), limiter.PerMinute("rpm", 6000))
	now, _ := noon()
	b.at(now)
	makes, joins := b.sides(maker)
	b.takes(makes, 10)
	begin := b.began(now)
	b.takes(joins, 20)
	b.takes(makes, 30)
	b.balance("user", "gpt-4", "rpd", 40)
	end := begin.Add(5 * time.Hour)
	b.isRefused(41, 40, end)
	b.at(end.Add(-time.Minute))
	b.isRefused(41, 40, end)

	// Two hours later the next session begins, and not at the end of the last one.
	later := end.Add(2 * time.Hour)
	b.at(later)
	begins, joins := b.sides(beginner)
	b.takes(begins, 20)
	begin = b.began(later)
	b.takes(joins, 50)
	b.takes(begins, 30)
	b.balance("user", "gpt-4", "rpd", 0)
	b.isRefused(1, 0, begin.Add(5*time.Hour))
	b.rpdConsumed(160)
	if vu := b.number(0, schema.ValidUntil); vu != begin.Add(5*time.Hour).UnixMilli() {
		b.Errorf("vu is %d", vu)
	}
}

// began checks that a session began at an instant or little later, and returns when.
func (b *both) began(at time.Time) time.Time {
	b.Helper()
	began := time.UnixMilli(b.number(0, "b_rpd_ws")).UTC()
	if late := began.Sub(at); late < -2*time.Second || late > time.Minute {
		b.Errorf("a session began at %v, want %v", began, at)
	}
	if applied := b.number(0, "b_rpd_wa"); applied != began.UnixMilli() {
		b.Errorf("the balance is of the session of %d, want %d", applied, began.UnixMilli())
	}
	return began
}

// sharesSessionOfShards checks that two libraries share sessions of a bucket that one of them
// doubles: each session admits its amount, whichever begins it.
func (b *both) sharesSessionOfShards(doubler, beginner string) {
	b.Helper()
	b.system(b.quota("rpd", 100, "session 5h", ""), limiter.PerMinute("rpm", 6000))
	now, _ := noon()
	b.at(now)
	ours, _ := b.sides("Go")
	b.takes(ours, 20)
	begin := b.began(now)
	if doubler == "Go" {
		b.double("user", "gpt-4", 4)
	} else {
		b.widens(1)
		b.widens(2)
	}
	b.isHeld(80)
	b.exhaust(80, begin.Add(5*time.Hour))

	for later := range 2 {
		now = begin.Add(time.Duration(6+later) * time.Hour)
		b.at(now)
		begins, _ := b.sides(beginner)
		b.takes(begins, 10)
		begin = time.UnixMilli(b.number(0, "b_rpd_ws")).UTC()
		if late := begin.Sub(now); late < -2*time.Second || late > time.Minute {
			b.Errorf("a session began at %v, want %v", begin, now)
		}
		for shard := range 4 {
			ws, wa := b.number(shard, "b_rpd_ws"), b.number(shard, "b_rpd_wa")
			if ws != begin.UnixMilli() || beginner == "Go" && wa != ws {
				b.Errorf("shard %d has a session that began at %d, and a balance of %d; shard 0 has one that began at %d", shard, ws, wa, begin.UnixMilli())
			}
		}
		b.exhaust(90, begin.Add(5*time.Hour))
	}
}

// sessionCases test a quota whose period begins with a use.
var sessionCases = []interopCase{
	{"a session that Go begins, and Go begins the next one", func(b *both) { b.sharesSession("Go", "Go") }},
	{"a session that Go begins, and Python begins the next one", func(b *both) { b.sharesSession("Go", "Python") }},
	{"a session that Python begins, and Go begins the next one", func(b *both) { b.sharesSession("Python", "Go") }},
	{"a session that Python begins, and Python begins the next one", func(b *both) { b.sharesSession("Python", "Python") }},
	{"sessions of every level", func(b *both) {
		for i, l := range interopLevels {
			want := []limiter.Limit{limiter.PerMinute("rpm", 60), b.quota("sess", int64(100+i), "session 90m", "")}
			with := args{"limits": asPython(want...)}
			maps.Copy(with, l.where)
			b.py.call(l.set, with, nil)
			b.agree(l, want)
			want[1] = b.quota("sess", 7, "session 7d", "")
			if l.key == (limiter.ConfigKey{}) {
				b.must(b.store.SetSystem(b.Context(), want, ""))
			} else {
				b.must(b.store.SetLimits(b.Context(), l.key, want))
			}
			b.agree(l, want)
		}
	}},
	{"Python shortens a session", func(b *both) {
		b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(b.quota("rpd", 100, "session 5h", ""), limiter.PerMinute("rpm", 6000))}, nil)
		now, _ := noon()
		b.at(now)
		ours, theirs := b.sides("Go")
		b.takes(ours, 90)
		b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(b.quota("rpd", 100, "session 1h", ""), limiter.PerMinute("rpm", 6000))}, nil)
		b.InvalidateConfig()
		b.at(now.Add(30 * time.Minute))
		begin := b.began(now)
		b.isRefused(11, 10, begin.Add(time.Hour))
		b.at(now.Add(90 * time.Minute))
		b.takes(ours, 95)
		b.takes(theirs, 5)
		begin = b.began(now.Add(90 * time.Minute))
		b.isRefused(1, 0, begin.Add(time.Hour))
	}},
	{"a session of shards that Go makes, and Go begins the next one", func(b *both) { b.sharesSessionOfShards("Go", "Go") }},
	{"a session of shards that Go makes, and Python begins the next one", func(b *both) { b.sharesSessionOfShards("Go", "Python") }},
	{"a session of shards that Python makes, and Go begins the next one", func(b *both) { b.sharesSessionOfShards("Python", "Go") }},
	{"a session of shards that Python makes, and Python begins the next one", func(b *both) { b.sharesSessionOfShards("Python", "Python") }},
}
