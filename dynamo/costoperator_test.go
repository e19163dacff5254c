package dynamo_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// operatorCosts are what operators' changes of a bucket cost, by AWS's rules. Each is the first
// change of its store in a minute, which reads the retention of audit events: one unit. They are
// not compared with the bills of DynamoDB Local.
var operatorCosts = []cost{
	{"disable an entity that has a bucket", price{12, 12, 15, 15}, nil, func(c *till) { c.switches(store.Inherit, store.Yes, "") }},
	{"the same, with a key", price{13, 13, 17, 19}, nil, func(c *till) { c.switches(store.Inherit, store.Yes, "k") }},
	{"the same again, with the key", price{8, 8, 12, 0}, nil, func(c *till) { c.switches(store.Yes, store.Yes, "k") }},
	{"remove the switch of an entity that has a bucket", price{12, 12, 15, 7}, nil, func(c *till) { c.switches(store.Yes, store.Inherit, "") }},
	{"raise the limits of an entity that has a bucket", price{11, 11, 12, 15}, nil, func(c *till) { c.raises("", 0) }},
	{"the same, with a key", price{12, 12, 14, 19}, nil, func(c *till) { c.raises("k", 0) }},
	{"the same again, with the key", price{7, 7, 10, 1}, nil, func(c *till) { c.raises("k", 1) }},
	{"reset a bucket", price{4, 4, 38, 6}, nil, func(c *till) { c.resets("", 0) }},
	{"the same, with a key", price{5, 5, 40, 10}, nil, func(c *till) { c.resets("k", 0) }},
	{"the same again, with the key", price{1, 1, 2, 0}, nil, func(c *till) { c.resets("k", 1) }},
	{"top a bucket up, with a key", price{5, 5, 40, 10}, nil, func(c *till) {
		c.acquire(c.other, "rpd", 5000)
		c.start()
		c.must(errOf(c.store.TopUpBucket(c.Context(), dynamo.TopUp{Entity: "user", Resource: "gpt-4", Amounts: map[string]int64{"rpd": 10}, Cause: dynamo.Cause{Key: "k"}})))
	}},
	{"the same, if the level is as seen", price{6, 6, 41, 12}, nil, func(c *till) {
		c.acquire(c.other, "rpd", 5000)
		c.start()
		c.must(errOf(c.store.TopUpBucket(c.Context(), dynamo.TopUp{
			Entity: "user", Resource: "gpt-4", Amounts: map[string]int64{"rpd": 10}, Cause: dynamo.Cause{Key: "k"}, If: func(*store.Config) error { return nil },
		})))
	}},
}

// switches sets the switch of an entity that has a bucket, after the same or another one.
func (c *till) switches(from, to store.Policy, key string) {
	c.Helper()
	c.acquire(c.other, "rpd", 1)
	set := func(p store.Policy, s *dynamo.Store) {
		c.must(errOf(s.SetSwitch(c.Context(), store.ConfigKey{Entity: "user", Resource: "gpt-4"}, dynamo.Switch{Policy: p, Cause: dynamo.Cause{Key: key}}, nil)))
	}
	if from != store.Inherit {
		set(from, c.admin)
	}
	c.start()
	set(to, c.store)
}

// raises doubles the limits of an entity that has a bucket, after so many other calls with the same
// key.
func (c *till) raises(key string, before int) {
	c.Helper()
	c.acquire(c.other, "rpd", 1)
	k := store.ConfigKey{Entity: "user", Resource: "gpt-4"}
	r := dynamo.Raise{Limits: map[string]int64{"rpd": 2000}, Until: time.Now().Add(time.Hour), Cause: dynamo.Cause{Key: key}}
	for range before {
		c.must(errOf(c.admin.RaiseLimits(c.Context(), k, r)))
	}
	c.start()
	c.must(errOf(c.store.RaiseLimits(c.Context(), k, r)))
}

// resets makes a bucket full, after so many other calls with the same key.
func (c *till) resets(key string, before int) {
	c.Helper()
	c.acquire(c.other, "rpd", 5000)
	r := dynamo.Reset{Entity: "user", Resource: "gpt-4", Cause: dynamo.Cause{Key: key}}
	for range before {
		c.must(errOf(c.admin.ResetBucket(c.Context(), r)))
	}
	c.start()
	c.must(errOf(c.store.ResetBucket(c.Context(), r)))
}
