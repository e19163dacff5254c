//go:build conformance

package conformance_test

import (
	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/store"
)

var inflight = store.SlotKey{Entity: "user", Resource: "gpt-4", Limit: "inflight"}

// slots sets limits and slots of a resource.
func (b *both) slots() {
	b.Helper()
	k := limiter.ConfigKey{Resource: "gpt-4"}
	b.must(b.store.SetLimits(b.Context(), k, []limiter.Limit{perDay("rpm", 100)}))
	b.must(b.store.SetSlots(b.Context(), k, []limiter.SlotLimit{limiter.Slots("inflight", 2)}, ""))
	b.InvalidateConfig()
}

// hold acquires a token and a slot.
func (b *both) hold() *limiter.Lease {
	b.Helper()
	lease, err := b.Acquire(b.Context(), limiter.Request{
		Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpm": 10}, Slots: map[string]int64{"inflight": 1},
	})
	b.must(err)
	return lease
}

// used are the slots that are held.
func (b *both) used() int64 {
	b.Helper()
	img, err := b.store.Slots(b.Context(), inflight)
	b.must(err)
	if img == nil {
		return 0
	}
	return img.Used
}

var slotsCases = []interopCase{
	{"buckets beside slots, for both", func(b *both) {
		b.slots()
		lease := b.hold()
		if b.py.take("user", "gpt-4", args{"rpm": 40}) {
			b.Error("Python was refused")
		}
		b.balance("user", "gpt-4", "rpm", 50)
		if !b.py.take("user", "gpt-4", args{"rpm": 60}) {
			b.Error("Python took more than there is")
		}
		b.reads(interopLevels[1], []limiter.Limit{perDay("rpm", 100)})
		if n := b.used(); n != 1 {
			b.Errorf("%d slots are held", n)
		}
		b.must(lease.Commit(b.Context()))
	}},
	{"an entity that Python deletes, with its slots", func(b *both) {
		b.slots()
		b.hold()
		b.py.call("delete_entity", args{"entity_id": "user"}, nil)
		if n := b.used(); n != 0 {
			b.Errorf("%d slots are held", n)
		}
	}},
	{"limits that Python sets, which drop slots", func(b *both) {
		b.slots()
		b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(perDay("rpm", 7))}, nil)
		c, err := b.store.Limits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"})
		b.must(err)
		if len(c.Slots) > 0 {
			b.Errorf("the level has %v: say so in docs/concurrency.md", c.Slots)
		}
	}},
}
