package dynamo_test

import (
	"runtime"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// slotCosts are the paths of requests that hold slots.
var slotCosts = []cost{
	{"first slot ever of an entity", price{3, 3, 5, 4}, nil, func(c *till) {
		c.slots()
		c.start()
		c.must(c.hold(c.limiter, nil, 1).Commit(c.Context()))
	}},
	{"warm acquire with a slot, and its return", price{2, 3, 0, 3}, nil, func(c *till) {
		c.slots()
		c.must(c.hold(c.limiter, map[string]int64{"rpd": 1}, 1).Commit(c.Context()))
		time.Sleep(pauseOfSlots)
		c.start()
		c.must(c.hold(c.limiter, map[string]int64{"rpd": 1}, 1).Commit(c.Context()))
	}},
	{"warm slot, that an earlier request has just returned", price{0, 0, 0, 0}, nil, func(c *till) {
		c.slots()
		c.hold(c.limiter, nil, 1)
		c.must(c.hold(c.limiter, nil, 1).Commit(c.Context()))
		c.start()
		c.hold(c.limiter, nil, 1)
		c.aside = c.closing()
	}},
	{"slots refused, which the client could not know", price{1, 1, 0, 1}, nil, func(c *till) {
		c.slots()
		c.must(c.hold(c.limiter, nil, 1).Commit(c.Context()))
		time.Sleep(pauseOfSlots)
		c.hold(c.other, nil, 8)
		c.start()
		c.full()
	}},
	{"slots refused, as the client knows", price{}, nil, func(c *till) {
		c.slots()
		c.hold(c.other, nil, 8)
		c.full()
		c.start()
		c.full()
	}},
	{"standing, with a limit of slots", price{3, 3, 2.5, 0}, nil, func(c *till) {
		c.slots()
		c.hold(c.limiter, nil, 1)
		c.start()
		_, err := c.limiter.Standing(c.Context(), "user", "gpt-4")
		c.must(err)
		c.aside = c.closing()
	}},
	{"top slots, of which one is held", price{3, 19, 9.5, 0}, &price{3, 3, 1.5, 0}, func(c *till) {
		c.slots()
		c.hold(c.limiter, nil, 1)
		c.start()
		_, err := c.limiter.TopSlots(c.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 1})
		c.must(err)
		c.aside = c.closing()
	}},
	{"a lease with a slot written down", price{0, 1, 0, 1}, nil, func(c *till) {
		c.slots()
		lease := c.hold(c.limiter, nil, 1)
		c.start()
		_, err := lease.Token(c.Context(), time.Minute)
		c.must(err)
		c.aside = c.closing()
	}},
	{"a lease with a slot settled by another process", price{1, 1, 0, 1}, nil, func(c *till) {
		c.slots()
		lease := c.hold(c.other, nil, 1)
		text, err := lease.Token(c.Context(), time.Minute)
		c.must(err)
		c.start()
		resumed, err := c.limiter.Resume(text)
		c.must(err)
		c.must(resumed.Commit(c.Context()))
	}},
	{"a slot held for 59 seconds", price{11, 11, 0, 11}, nil, func(c *till) {
		c.slots()
		c.hold(c.limiter, nil, 1)
		c.start()
		time.Sleep(59 * time.Second)
		c.aside = c.closing()
	}},
}

// pauseOfSlots is longer than slots linger that nobody needs.
const pauseOfSlots = 3 * time.Second

// slots configures eight slots.
func (c *till) slots() {
	c.Helper()
	c.must(c.admin.SetSlots(c.Context(), limiter.ConfigKey{}, []limiter.SlotLimit{limiter.Slots("inflight", 8)}, ""))
}

// hold acquires tokens and slots for the user.
func (c *till) hold(l *limiter.Limiter, consume map[string]int64, n int64) *limiter.Lease {
	c.Helper()
	lease, err := l.Acquire(c.Context(), limiter.Request{
		Entity: "user", Resource: "gpt-4", Consume: consume, Slots: map[string]int64{"inflight": n},
	})
	c.must(err)
	c.Cleanup(func() { runtime.KeepAlive(lease) }) // a lease that nobody has returns its slots
	return lease
}

// full is an acquire that must be refused for its slots.
func (c *till) full() {
	c.Helper()
	_, err := c.limiter.Acquire(c.Context(), limiter.Request{Entity: "user", Resource: "gpt-4", Slots: map[string]int64{"inflight": 1}})
	if err == nil {
		c.Error("admitted")
	}
}

// closing is what the limiter writes as it closes.
func (c *till) closing() price {
	before := c.meter.Totals().Sum()
	c.must(c.limiter.Close())
	u := c.meter.Totals().Sum()
	return price{requests: u.Requests - before.Requests, rcu: u.RCU - before.RCU, wcu: u.WCU - before.WCU, trips: 1}
}
