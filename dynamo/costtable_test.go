package dynamo_test

import (
	"fmt"
	"log/slog"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// pause is long enough for the fast limit to earn some tokens.
const pause = 20 * time.Millisecond

// costs are the paths and their allowed costs.
var costs = []cost{
	{"open a table", price{1, 1, 2, 0}, nil, func(c *till) {
		c.start()
		c.open(c.meter)
	}},
	{"first acquire ever of an entity", price{3, 4, 8.5, 4}, &price{3, 4, 1.5, 4}, func(c *till) {
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"first acquire ever, cascading", price{6, 8, 16, 8}, &price{6, 8, 5.5, 8}, func(c *till) {
		c.cascade()
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"warm acquire", price{1, 1, 0, 1}, nil, func(c *till) {
		c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"warm acquire, cascading", price{1, 2, 0, 2}, nil, func(c *till) {
		c.cascade()
		c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"warm acquire of two resources", price{1, 2, 0, 2}, nil, func(c *till) {
		c.must(c.acquireTwo(5000))
		c.start()
		c.must(c.acquireTwo(1))
	}},
	{"warm acquire of two resources, cascading", price{1, 4, 0, 4}, nil, func(c *till) {
		c.cascade()
		c.must(c.acquireTwo(5000))
		c.start()
		c.must(c.acquireTwo(1))
	}},
	{"acquire of two resources, refused by one, which the client could not know", price{2, 3, 0, 3}, nil, func(c *till) {
		c.must(c.acquireTwo(5000))
		c.drain("user")
		c.start()
		fixture.WantErr(c.T, c.acquireTwo(5000), limiter.ErrExceeded)
	}},
	{"acquire of two resources, refused by one, as the client knows", price{}, nil, func(c *till) {
		c.must(c.acquireTwo(5000))
		c.drain("user")
		fixture.WantErr(c.T, c.acquireTwo(5000), limiter.ErrExceeded)
		c.start()
		fixture.WantErr(c.T, c.acquireTwo(5000), limiter.ErrExceeded)
	}},
	{"acquire of two resources, one of them known to be disabled", price{}, nil, func(c *till) {
		_, ns := c.store.Namespace()
		c.must(c.acquireTwo(5000))
		behind(c.T, c.api, schema.ConfigKey(ns, store.ConfigKey{Resource: "images"}), schema.Item{schema.Disabled: schema.Bool(true)})
		c.limiter.InvalidateConfig()
		fixture.WantErr(c.T, c.acquireTwo(1), store.ErrDisabled)
		c.start()
		fixture.WantErr(c.T, c.acquireTwo(1), store.ErrDisabled)
	}},
	{"warm acquire of a bucket that has filled up meanwhile", price{1, 1, 0, 1}, nil, func(c *till) {
		c.acquire(c.limiter, "fast", 1)
		time.Sleep(pause)
		c.start()
		c.acquire(c.limiter, "fast", 1)
	}},
	{"refused, which the client could not know", price{1, 1, 0, 1}, nil, func(c *till) {
		c.acquire(c.limiter, "rpd", 1)
		c.acquire(c.other, "rpd", 86_000)
		c.start()
		c.refuse()
	}},
	{"refill needed, as the client's image says", price{1, 1, 0, 1}, nil, func(c *till) {
		c.acquire(c.limiter, "fast", 50_000)
		time.Sleep(pause)
		c.start()
		c.acquire(c.limiter, "fast", 5)
	}},
	{"refill needed, and the client's image is stale", price{2, 2, 0, 2}, nil, func(c *till) {
		c.acquire(c.limiter, "fast", 1)
		c.acquire(c.other, "fast", 49_999)
		c.start()
		c.acquire(c.limiter, "fast", 5)
	}},
	{"refill needed, and another client refilled in between", price{2, 2, 0, 2}, nil, func(c *till) {
		c.acquire(c.limiter, "fast", 50_000)
		time.Sleep(pause)
		c.acquire(c.other, "fast", 5)
		c.start()
		c.acquire(c.limiter, "fast", 5)
	}},
	{"commit without adjustments", price{}, nil, func(c *till) {
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.must(lease.Commit(c.Context()))
	}},
	{"commit with adjustments", price{1, 1, 0, 1}, nil, func(c *till) {
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.must(lease.Adjust("rpd", 7))
		c.start()
		c.must(lease.Commit(c.Context()))
	}},
	{"commit with adjustments, cascading", price{1, 2, 0, 2}, nil, func(c *till) {
		c.cascade()
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.must(lease.Adjust("rpd", -7))
		c.start()
		c.must(lease.Commit(c.Context()))
	}},
	{"rollback", price{1, 1, 0, 1}, nil, func(c *till) {
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.must(lease.Rollback(c.Context()))
	}},
	{"rollback, cascading", price{1, 2, 0, 2}, nil, func(c *till) {
		c.cascade()
		lease := c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.must(lease.Rollback(c.Context()))
	}},
	{"cascade refused by the parent", price{2, 3, 0, 3}, nil, func(c *till) {
		c.cascade()
		c.acquire(c.limiter, "rpd", 5000)
		c.drain("project")
		c.start()
		c.refuse()
	}},
	{"cascade refused by the child", price{2, 3, 0, 3}, nil, func(c *till) {
		c.cascade()
		c.must(c.admin.SetLimits(c.Context(), store.ConfigKey{Entity: "project", Resource: "gpt-4"},
			[]store.Limit{limiter.PerDay("rpd", 500_000)}))
		c.acquire(c.limiter, "rpd", 5000)
		c.drain("user")
		c.start()
		c.refuse()
	}},
	{"cascade refused by both", price{1, 2, 0, 2}, nil, func(c *till) {
		c.cascade()
		c.acquire(c.limiter, "rpd", 5000)
		c.drain("user")
		c.start()
		c.refuse()
	}},
	{"first acquire by a client, of a bucket that others made", price{2, 2, 3, 1}, &price{2, 2, 1, 1}, func(c *till) {
		c.acquire(c.other, "rpd", 5000)
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"the same, and the configuration has changed", price{3, 3, 8, 1}, &price{3, 3, 2, 1}, func(c *till) {
		c.acquire(c.other, "rpd", 5000)
		c.must(c.admin.SetSystem(c.Context(), []store.Limit{limiter.PerDay("rpd", 100_000)}, ""))
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"comparison of a bucket with its configuration, in the background, once per TTL", price{1, 1, 2.5, 0}, &price{1, 1, 0.5, 0}, func(c *till) {
		c.overdue()
	}},
	{"acquire of a bucket that was so compared, and has to be repaired", price{2, 2, 5, 1}, &price{2, 2, 1, 1}, func(c *till) {
		c.must(c.admin.SetSystem(c.Context(), []store.Limit{limiter.PerDay("rpd", 100_000)}, ""))
		c.overdue()
		time.Sleep(overdueTTL / 4) // the comparison is over, and the next one not due
		c.aside = price{}
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"acquire of a bucket that was compared longer ago than the TTL", price{1, 2, 2.5, 1}, &price{1, 2, 0.5, 1}, func(c *till) {
		c.acquire(c.limiter, "rpd", 5000)
		time.Sleep(limiter.DefaultConfigTTL)
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"the same, where others keep the levels above the entity fresh", price{1, 2, 1.5, 1}, &price{1, 2, 0, 1}, func(c *till) {
		c.acquire(c.limiter, "rpd", 5000)
		time.Sleep(limiter.DefaultConfigTTL)
		lease, err := c.limiter.Acquire(c.Context(), limiter.Request{Entity: "other", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}})
		c.must(errOf(lease, err))
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"the same as before the last, and the configuration has changed", price{4, 5, 7.5, 3}, &price{4, 5, 1.5, 3}, func(c *till) {
		c.acquire(c.limiter, "rpd", 5000)
		c.must(c.admin.SetSystem(c.Context(), []store.Limit{limiter.PerDay("rpd", 100_000)}, ""))
		time.Sleep(limiter.DefaultConfigTTL)
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"refused, of a bucket that is known to be disabled", price{}, nil, func(c *till) {
		_, ns := c.store.Namespace()
		c.acquire(c.limiter, "rpd", 5000)
		behind(c.T, c.api, schema.ConfigKey(ns, store.ConfigKey{Resource: "gpt-4"}), schema.Item{schema.Disabled: schema.Bool(true)})
		c.limiter.InvalidateConfig()
		c.refuseAs(store.ErrDisabled)
		c.start()
		c.refuseAs(store.ErrDisabled)
	}},
	{"available, of a bucket", price{1, 1, 1, 0}, nil, func(c *till) {
		c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.available()
	}},
	{"available, of a bucket that cascades", price{2, 2, 2, 0}, nil, func(c *till) {
		c.cascade()
		c.acquire(c.limiter, "rpd", 5000)
		c.start()
		c.available()
	}},
	{"top of the 40 buckets of a resource", price{2, 18, 28.5, 0}, &price{2, 18, 28, 0}, func(c *till) {
		for _, user := range c.spreadUsers(40) {
			c.must(errOf(c.other.Acquire(c.Context(), limiter.Request{
				Entity: user, Resource: "gpt-4", Consume: map[string]int64{"rpd": 1},
			})))
		}
		c.start()
		c.must(errOf(c.limiter.Top(c.Context(), limiter.TopQuery{Resource: "gpt-4", Most: 10})))
	}},
	{"available, before the first acquire", price{2, 3, 4, 0}, &price{2, 3, 0.5, 0}, func(c *till) {
		c.start()
		c.available()
	}},
	{"split of a shard in two", price{1, 1, 0, 10}, &price{1, 1, 0, 20}, func(c *till) {
		img := c.shards(1)[0]
		c.start()
		c.joint(c.store.Bear(c.Context(), split(img)))
	}},
	{"birth of a shard without a sibling", price{1, 1, 0, 12}, &price{1, 1, 0, 20}, func(c *till) {
		img := c.shards(1)[0]
		learn := oneToken(img)
		learn.ShardCount = 4
		c.must(errOf(c.admin.Refill(c.Context(), learn)))
		c.start()
		b := split(img)
		b.Shard, b.ShardCount, b.Sibling, b.Donor = 3, 4, 1, nil
		c.joint(c.store.Bear(c.Context(), b))
	}},
	gathers(2, price{1, 1, 0, 4}, nil),
	gathers(4, price{1, 1, 0, 8}, &price{1, 1, 0, 4}),
	{"gather from 4 shards, refused by one of them", price{1, 1, 0, 8}, nil, func(c *till) {
		images := c.shards(4)
		c.must(errOf(c.admin.Refill(c.Context(), later(images[3]))))
		c.start()
		j, err := c.store.Gather(c.Context(), gathering(images))
		c.must(err)
		if j.Applied {
			c.Error("gathered")
		}
	}},
	merges(2, price{1, 1, 0, 10}, &price{1, 1, 0, 20}),
	merges(32, price{1, 1, 0, 160}, &price{1, 1, 0, 20}),
	{"read of 4 shards", price{1, 1, 4, 0}, nil, func(c *till) {
		c.shards(4)
		c.start()
		c.must(errOf(c.store.Buckets(c.Context(), "user", "gpt-4", 4)))
	}},

	{"register a namespace", price{1, 1, 0, 12}, &price{1, 1, 0, 8}, func(c *till) {
		namespaces, err := admin.NewNamespaces(dynamo.Options{API: c.meter, Table: table})
		c.must(err)
		c.start()
		c.must(errOf(namespaces.Register(c.Context(), c.name+"-2")))
	}},
	{"create an entity", price{1, 1, 0, 8}, nil, func(c *till) {
		c.audited()
		c.start()
		fixture.CreateEntity(c.T, c.store, store.Entity{ID: "project"})
	}},
	{"the same, the first change in a minute", price{2, 2, 1, 8}, nil, func(c *till) {
		c.start()
		fixture.CreateEntity(c.T, c.store, store.Entity{ID: "project"})
	}},
	{"create an entity that has a parent", price{1, 1, 0, 12}, &price{1, 1, 0, 24}, func(c *till) {
		c.audited()
		fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "project"})
		c.start()
		fixture.CreateEntity(c.T, c.store, store.Entity{ID: "user", Parent: "project"})
	}},
	{"read an entity", price{1, 1, 1, 0}, nil, func(c *till) {
		fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "user"})
		c.start()
		c.must(errOf(c.store.Entity(c.Context(), "user")))
	}},
	{"set the system's limits", price{2, 2, 1, 6}, &price{2, 2, 1, 12}, func(c *till) {
		c.start()
		c.must(c.store.SetSystem(c.Context(), costLimits[:1], ""))
	}},
	{"set limits that are set already", price{1, 1, 1, 0}, nil, func(c *till) {
		c.start()
		c.must(c.store.SetSystem(c.Context(), costLimits, ""))
	}},
	{"set the retention of audit events", price{2, 2, 1, 6}, &price{2, 2, 1, 12}, func(c *till) {
		c.start()
		c.must(c.store.SetAuditRetention(c.Context(), 30))
	}},
	{"list up to 9 audit events", price{1, 1, 1, 0}, nil, func(c *till) {
		c.start()
		c.must(errOf(c.store.AuditEvents(c.Context(), audit.Query{Entity: audit.System})))
	}},
	firstLimits("a resource's", store.ConfigKey{Resource: "gpt-4"}, price{2, 2, 1, 12}, &price{2, 2, 1, 8}),
	firstLimits("an entity's default", store.ConfigKey{Entity: "user", Resource: store.DefaultResource}, price{4, 4, 2, 14}, &price{4, 4, 1, 20}),
	firstLimits("an entity's", store.ConfigKey{Entity: "user", Resource: "gpt-4"}, price{4, 4, 2, 14}, &price{4, 4, 1, 20}),
	{"the same, of an entity that has a bucket", price{7, 7, 8, 15}, &price{7, 7, 5, 21}, func(c *till) {
		c.audited()
		c.acquire(c.other, "rpd", 1)
		c.start()
		c.must(c.store.SetLimits(c.Context(), store.ConfigKey{Entity: "user", Resource: "gpt-4"}, costLimits))
	}},
	warned("a resource's", store.ConfigKey{Resource: "gpt-4"}, price{3, 3, 3, 12}, &price{3, 3, 2, 8}),
	warned("an entity's", store.ConfigKey{Entity: "user", Resource: "gpt-4"}, price{5, 5, 6, 14}, &price{5, 5, 2, 20}),
	{"read limits of a level", price{1, 1, 1, 0}, nil, func(c *till) {
		c.start()
		c.must(errOf(c.store.Limits(c.Context(), store.ConfigKey{})))
	}},
	{"delete an entity's limits", price{5, 5, 2, 13}, &price{5, 5, 1, 25}, func(c *till) {
		c.audited()
		k := store.ConfigKey{Entity: "user", Resource: "gpt-4"}
		c.must(c.admin.SetLimits(c.Context(), k, costLimits))
		c.start()
		c.must(c.store.DeleteLimits(c.Context(), k))
	}},
	moved(1, price{13, 13, 18.5, 13}, &price{13, 13, 9, 25}),
	moved(16, price{28, 28, 63.5, 28}, &price{28, 28, 54, 40}),
	{"first acquire after a move, of a client that knows the bucket", price{4, 5, 2, 4}, &price{4, 5, 1, 4}, func(c *till) {
		c.cascade()
		fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "team"})
		c.acquire(c.limiter, "rpd", 5000)
		c.must(errOf(c.other.Acquire(c.Context(), limiter.Request{Entity: "team", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1}})))
		c.must(errOf(c.admin.SetParent(c.Context(), "user", dynamo.Move{Parent: "team"}, nil)))
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"warm acquire, cascading, after a move", price{1, 2, 0, 2}, nil, func(c *till) {
		c.cascade()
		fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "team"})
		c.acquire(c.limiter, "rpd", 5000)
		c.must(errOf(c.admin.SetParent(c.Context(), "user", dynamo.Move{Parent: "team"}, nil)))
		c.acquire(c.limiter, "rpd", 1)
		c.acquire(c.limiter, "rpd", 1)
		c.start()
		c.acquire(c.limiter, "rpd", 1)
	}},
	{"delete an entity with a bucket and limits of its own", price{10, 10, 4.5, 26}, &price{10, 10, 2.5, 38}, func(c *till) {
		c.audited()
		fixture.CreateEntity(c.T, c.admin, store.Entity{ID: "user"})
		c.must(c.admin.SetLimits(c.Context(), store.ConfigKey{Entity: "user", Resource: "gpt-4"}, costLimits))
		c.acquire(c.other, "rpd", 1)
		c.start()
		c.must(errOf(c.store.DeleteEntity(c.Context(), "user")))
	}},
}

// moved moves the user, whose bucket has n shards, to another parent.
func moved(n int, want price, local *price) cost {
	return cost{fmt.Sprintf("move to another parent, %d shards", n), want, local, func(c *till) {
		c.audited()
		for _, e := range []store.Entity{{ID: "org"}, {ID: "team"}, {ID: "user", Parent: "org", Cascade: true}} {
			fixture.CreateEntity(c.T, c.admin, e)
		}
		c.shards(n)
		c.start()
		c.must(errOf(c.store.SetParent(c.Context(), "user", dynamo.Move{Parent: "team"}, nil)))
	}}
}

// firstLimits sets the limits of a level for the first time.
func firstLimits(whose string, k store.ConfigKey, want price, local *price) cost {
	return cost{"set " + whose + " limits", want, local, func(c *till) {
		c.audited()
		c.start()
		c.must(c.store.SetLimits(c.Context(), k, costLimits))
	}}
}

// warned sets the limits of a level with a Logger, which hears of limits that end.
func warned(whose string, k store.ConfigKey, want price, local *price) cost {
	return cost{"set " + whose + " limits, with a Logger", want, local, func(c *till) {
		s, err := dynamo.Open(c.Context(), dynamo.Options{API: c.meter, Table: table, Namespace: c.name, Logger: slog.New(&records{})})
		c.must(err)
		c.must(errOf(s.AuditRetention(c.Context())))
		c.start()
		c.must(s.SetLimits(c.Context(), k, costLimits))
	}}
}

// audited makes the store know the retention of events, as it does for a minute after a
// change.
func (c *till) audited() {
	c.Helper()
	c.must(errOf(c.store.AuditRetention(c.Context())))
}

// gathers takes a token from each of n shards.
func gathers(n int, want price, local *price) cost {
	return cost{fmt.Sprintf("gather from %d shards", n), want, local, func(c *till) {
		images := c.shards(n)
		c.start()
		c.joint(c.store.Gather(c.Context(), gathering(images)))
	}}
}

// merges halves the number of n shards.
func merges(n int, want price, local *price) cost {
	return cost{fmt.Sprintf("merge of %d shards", n), want, local, func(c *till) {
		images := c.shards(n)
		c.start()
		c.joint(c.store.Merge(c.Context(), halving(images)))
	}}
}

func gathering(images []*store.Image) []*store.Refill {
	var refills []*store.Refill
	for _, img := range images {
		refills = append(refills, oneToken(img))
	}
	return refills
}

// later returns a refill that moves the stamp.
func later(img *store.Image) *store.Refill {
	r := oneToken(img)
	r.RefilledAt++
	return r
}

// shards makes n shards of the user's bucket, not through the measured client.
func (c *till) shards(n int) []*store.Image {
	c.Helper()
	return shardsOf(c.T, c.admin, "user", n)
}

// joint is a write of several items that must be applied.
func (c *till) joint(j store.Joint, err error) {
	c.Helper()
	c.must(err)
	if !j.Applied {
		c.Fatalf("refused: %+v", j)
	}
}

// available reads the status of the user's bucket.
func (c *till) available() {
	c.Helper()
	c.must(errOf(c.limiter.Available(c.Context(), limiter.Request{
		Entity: "user", Resource: "gpt-4", Consume: map[string]int64{"rpd": 1},
	})))
}

// overdueTTL is the time to live of configuration for overdue. A slow server has a
// quarter of it to answer.
const overdueTTL = 4 * time.Second

// overdue acquires when the comparison of the bucket with its configuration is due. It
// excludes the acquire itself from the cost.
func (c *till) overdue() {
	c.Helper()
	system, err := c.admin.Limits(c.Context(), store.ConfigKey{})
	c.must(err)
	c.must(c.admin.SetSystem(c.Context(), costLimits, ""))
	c.must(c.limiter.Close())
	c.limiter, err = limiter.New(c.store, limiter.Options{ConfigTTL: overdueTTL})
	c.must(err)
	c.acquire(c.limiter, "rpd", 5000)
	c.must(c.admin.SetSystem(c.Context(), system.Limits, ""))
	time.Sleep(overdueTTL * 3 / 4)
	c.start()
	c.acquire(c.limiter, "rpd", 1)
	c.aside = price{1, 1, 0, 1}
}

// drain empties the bucket of an entity, not through the measured client.
func (c *till) drain(entity string) {
	c.Helper()
	lease, err := c.other.Acquire(c.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: map[string]int64{"rpd": 0}})
	c.must(err)
	c.must(lease.Adjust("rpd", 86_400))
	c.must(lease.Commit(c.Context()))
}
