//go:build conformance

package conformance_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// soft gives a resource a soft rpd of 100 tokens, and a hard rpm of 1000.
func (b *both) soft(byPython bool) {
	b.Helper()
	rpd := perDay("rpd", 100)
	rpd.Soft = true
	if limits := []limiter.Limit{rpd, perDay("rpm", 1000)}; byPython {
		b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(limits...)}, nil)
	} else {
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, limits))
	}
	b.InvalidateConfig()
}

// softly checks that both libraries overdraw rpd, on a bucket that one of them has made, and that a
// hard limit beside it stays exact.
func (b *both) softly(maker string) {
	b.Helper()
	one, other := b.sides(maker)
	for _, s := range []side{one, other, one, other} {
		b.takes(s, 60)
	}
	b.balance("user", "gpt-4", "rpd", -140)
	b.books("user", "gpt-4", "rpd", 100, 240)
	b.take("user", "gpt-4", args{"rpd": 10, "rpm": 600})
	if e := b.take("user", "gpt-4", args{"rpd": 10, "rpm": 600}); e == nil {
		b.Error("Go took 1200 of 1000 of a hard limit")
	}
	if !b.py.take("user", "gpt-4", args{"rpd": 10, "rpm": 600}) {
		b.Error("Python took 1200 of 1000 of a hard limit")
	}
	b.balance("user", "gpt-4", "rpd", -150)
}

// shadow gives a resource an rpd of 100 tokens in shadow, and a hard rpm of 1000.
func (b *both) shadow() {
	b.Helper()
	rpd := perDay("rpd", 100)
	rpd.Mode = limiter.Shadow
	b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{rpd, perDay("rpm", 1000)}))
	b.InvalidateConfig()
}

// shadowed checks that neither library refuses by a limit in shadow, on a bucket that one of them has made,
// that both count, and that a hard limit beside it stays exact. To Python it is a soft one, so it debits at
// any balance. Its takes leave the mode on the item.
func (b *both) shadowed(maker string) {
	b.Helper()
	b.shadow()
	one, other := b.sides(maker)
	for _, s := range []side{one, other, one, other} {
		b.takes(s, 60)
	}
	lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 60}))
	b.must(err)
	if would := lease.WouldRefuse(); len(would) != 1 || would[0].Limit.Name != "rpd" {
		b.Errorf("after 240 of 100, %+v would refuse", would)
	}
	if mode := schema.Plain(b.item("user", "gpt-4")["b_rpd_mode"]); mode != "shadow" || b.stamp() == 0 {
		b.Errorf("the item has the mode %v, and the stamp %d", mode, b.stamp())
	}
	s, _ := b.images("user", "gpt-4", 1)[0].Limit("rpd")
	if s.Consumed != 300_000 || s.Tokens < -100_000 {
		b.Errorf("%d are counted, and the balance is %d", s.Consumed, s.Tokens)
	}
	b.take("user", "gpt-4", args{"rpm": 600})
	if e := b.take("user", "gpt-4", args{"rpm": 600}); e == nil {
		b.Error("Go took 1200 of 1000 of a hard limit")
	}
	if !b.py.take("user", "gpt-4", args{"rpm": 600}) {
		b.Error("Python took 1200 of 1000 of a hard limit")
	}
}

// stamp is the stamp of rpd, 0 if there is none.
func (b *both) stamp() int64 {
	b.Helper()
	if b.item("user", "gpt-4")["b_rpd_soft"] == nil {
		return 0
	}
	return b.number(0, "b_rpd_soft")
}

var softCases = []interopCase{
	{"limits that Python sets, a bucket that Python makes", func(b *both) { b.soft(true); b.softly("Python") }},
	{"limits that Python sets, a bucket that Go makes", func(b *both) { b.soft(true); b.softly("Go") }},
	{"limits that Go sets, a bucket that Python makes", func(b *both) { b.soft(false); b.softly("Python") }},
	{"limits that Go sets, a bucket that Go makes", func(b *both) { b.soft(false); b.softly("Go") }},
	{"stamps that have passed, renewed by either", func(b *both) {
		b.soft(false)
		for i, who := range []string{"Go", "Python", "Go", "Python"} {
			one, _ := b.sides(who)
			b.at(time.Now().Add(time.Duration(i+1) * 2 * time.Minute))
			b.takes(one, 150)
			if left := b.stamp() - b.store.Now().UnixMilli(); left < 40_000 || left > 70_000 {
				b.Errorf("%s stamps for %d ms", who, left)
			}
		}
		b.books("user", "gpt-4", "rpd", 100, 600)
	}},
	{"a limit that either makes hard, for both", func(b *both) {
		for _, byPython := range []bool{false, true} {
			b.soft(byPython)
			b.take("user", "gpt-4", args{"rpd": 150})
			key, limits := limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 100), perDay("rpm", 1000)}
			if byPython {
				b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(limits...)}, nil)
			} else {
				b.must(b.store.SetLimits(b.Context(), key, limits))
			}
			b.InvalidateConfig()
			if b.stamp() != 0 {
				b.Errorf("by Python %t: the stamp stays", byPython)
			}
			if e := b.take("user", "gpt-4", args{"rpd": 1}); e == nil {
				b.Error("Go takes of a hard limit in debt")
			}
			if !b.py.take("user", "gpt-4", args{"rpd": 1}) {
				b.Error("Python takes of a hard limit in debt")
			}
			b.must(b.store.DeleteLimits(b.Context(), key))
		}
	}},
	{"a shard that Go makes while the stamp is live", func(b *both) {
		b.soft(false)
		b.take("user", "gpt-4", args{"rpd": 150})
		b.double("user", "gpt-4", 2)
		for range 8 {
			b.take("user", "gpt-4", args{"rpd": 20})
			if b.py.take("user", "gpt-4", args{"rpd": 20}) {
				b.Error("Python refuses")
			}
		}
		var consumed int64
		for _, img := range b.images("user", "gpt-4", 2) {
			s, _ := img.Limit("rpd")
			consumed += s.Consumed
			if !s.IsSoft() {
				b.Errorf("shard %d is hard", img.Shard)
			}
		}
		if consumed != 470_000 {
			b.Errorf("%d are counted", consumed)
		}
	}},
	{"the level's attribute is the same", func(b *both) {
		b.soft(false)
		ours := b.level(limiter.ConfigKey{Resource: "gpt-4"})
		b.soft(true)
		if theirs := b.level(limiter.ConfigKey{Resource: "gpt-4"}); schema.Plain(ours["l_rpd_soft"]) != schema.Plain(theirs["l_rpd_soft"]) || ours["l_rpd_soft"] == nil || ours["l_rpm_soft"] != nil {
			b.Errorf("%v and %v", ours["l_rpd_soft"], theirs["l_rpd_soft"])
		}
	}},
	{"a limit in shadow, a bucket that Python makes", func(b *both) { b.shadowed("Python") }},
	{"a limit in shadow, a bucket that Go makes", func(b *both) { b.shadowed("Go") }},
	{"a level in shadow that Python sets anew", func(b *both) {
		b.shadow()
		b.take("user", "gpt-4", args{"rpd": 150})
		for _, soft := range []bool{true, false} {
			rpd := perDay("rpd", 100)
			rpd.Soft = soft
			b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(rpd, perDay("rpm", 1000))}, nil)
			b.InvalidateConfig()
			if mode := b.level(limiter.ConfigKey{Resource: "gpt-4"})["l_rpd_mode"]; mode != nil {
				b.Errorf("the level has the mode %v", mode)
			}
			if e := b.take("user", "gpt-4", args{"rpd": 150}); (e == nil) != soft {
				b.Errorf("soft %v: Go got %v", soft, e)
			}
			if refused := b.py.take("user", "gpt-4", args{"rpd": 150}); refused == soft {
				b.Errorf("soft %v: Python was refused: %v", soft, refused)
			}
		}
	}},
}
