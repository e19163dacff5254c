//go:build conformance

package conformance_test

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// returns sets a limit of a resource that returns what is lost.
func (b *both) returns() (rpd limiter.Limit) {
	b.Helper()
	rpd = perDay("rpd", 100)
	rpd.Returns = 100
	b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{rpd}))
	b.InvalidateConfig()
	return rpd
}

// reserved is what the bucket's item says that processes have reserved, in tokens.
func (b *both) reserved() (sum int64) {
	b.Helper()
	images, err := b.store.Buckets(b.Context(), "user", "gpt-4", 1)
	b.must(err)
	for _, r := range images[0].Reservations() {
		sum += r.Milli / 1000
	}
	return sum
}

var returnsCases = []interopCase{
	{"a level that Python reads as if it kept, and then sets", func(b *both) {
		b.reads(interopLevels[1], []limiter.Limit{b.returns()}) // Python compares what it knows
		b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(perDay("rpd", 7))}, nil)
		c, err := b.store.Limits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"})
		b.must(err)
		if len(c.Limits) != 1 || c.Limits[0].Returns != 0 {
			b.Errorf("%+v", c.Limits)
		}
	}},
	{"a bucket with reservations, on which both take and settle", func(b *both) {
		b.returns()
		lease, err := b.Acquire(b.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 30}})
		b.must(err)
		if b.py.take("user", "gpt-4", args{"rpd": 50}) {
			b.Error("Python was refused")
		}
		b.balance("user", "gpt-4", "rpd", 20)
		if n := b.reserved(); n != 30 {
			b.Errorf("%d reserved", n)
		}
		if !b.py.take("user", "gpt-4", args{"rpd": 21}) {
			b.Error("Python took more than there is")
		}
		b.must(lease.Settle("rpd", 10))
		b.must(lease.Commit(b.Context()))
		b.balance("user", "gpt-4", "rpd", 40)
		if n := b.reserved(); n != 0 {
			b.Errorf("%d reserved", n)
		}
	}},
	{"what a lost process took, which goes back beside what Python took", func(b *both) {
		b.returns()
		b.must(b.Do(b.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}}, nothing))
		if b.py.take("user", "gpt-4", args{"rpd": 40}) {
			b.Error("Python was refused")
		}
		entry := plan.EntryOf("gone0000", time.Now().Add(-time.Hour).UnixMilli())
		b.update("user", "gpt-4", 0, "SET "+schema.ReservationAttr(entry, "rpd")+" = :n", schema.Item{":n": schema.N(25_000)})
		for range 2 { // the first one meets the reservation
			b.must(b.Do(b.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}}, nothing))
		}
		b.balance("user", "gpt-4", "rpd", 100-1-40-2+25)
	}},
}

// nothing is work that uses what was estimated.
func nothing(context.Context, *limiter.Lease) error { return nil }
