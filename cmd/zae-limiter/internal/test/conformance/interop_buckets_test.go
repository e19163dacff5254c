//go:build conformance

package conformance_test

import (
	"errors"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// project creates project, and user that cascades to it, with either library.
func (b *both) project(byPython bool) {
	b.Helper()
	if byPython {
		b.py.call("create_entity", args{"entity_id": "project"}, nil)
		b.py.call("create_entity", args{"entity_id": "user", "parent_id": "project", "cascade": true}, nil)
		return
	}
	for _, e := range []limiter.Entity{{ID: "project"}, {ID: "user", Parent: "project", Cascade: true}} {
		_, err := b.store.CreateEntity(b.Context(), e)
		b.must(err)
	}
}

// system sets the system's limits.
func (b *both) system(limits ...limiter.Limit) {
	b.Helper()
	b.must(b.store.SetSystem(b.Context(), limits, ""))
}

func (b *both) cascades() {
	b.Helper()
	b.system(perDay("rpd", 1000))
	b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 500)}))
	b.take("user", "gpt-4", args{"rpd": 1})
	b.py.take("user", "gpt-4", args{"rpd": 2})
	b.take("user", "gpt-4", args{"rpd": 4})
	b.py.take("user", "gpt-4", args{"rpd": 8})
	b.balance("user", "gpt-4", "rpd", 985)
	b.balance("project", "gpt-4", "rpd", 485)
	if !b.py.take("user", "gpt-4", args{"rpd": 486}) {
		b.Error("Python admitted 486 of the parent's 485")
	}
	if b.take("user", "gpt-4", args{"rpd": 486}) == nil {
		b.Error("Go admitted 486 of the parent's 485")
	}
	b.balance("user", "gpt-4", "rpd", 985)
	b.balance("project", "gpt-4", "rpd", 485)
	b.books("user", "gpt-4", "rpd", 1000, 15)
	b.books("project", "gpt-4", "rpd", 500, 15)
}

var bucketCases = []interopCase{
	{"Python creates and consumes, Go continues, and back", func(b *both) {
		b.py.call("set_system_defaults", args{"limits": asPython(perDay("rpd", 1000), perDay("tpd", 50_000))}, nil)
		b.py.take("user", "gpt-4", args{"rpd": 10, "tpd": 4000})
		b.take("user", "gpt-4", args{"rpd": 20, "tpd": 1})
		b.py.take("user", "gpt-4", args{"rpd": 30, "tpd": 2})
		b.take("user", "gpt-4", args{"rpd": 40})
		b.balance("user", "gpt-4", "rpd", 900)
		b.balance("user", "gpt-4", "tpd", 45_997)
		b.books("user", "gpt-4", "rpd", 1000, 100)
		b.books("user", "gpt-4", "tpd", 50_000, 4003)
	}},
	{"Go creates and consumes, Python continues, and back", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.take("user", "gpt-4", args{"rpd": 2})
		b.take("user", "gpt-4", args{"rpd": 3})
		b.balance("user", "gpt-4", "rpd", 994)
		b.books("user", "gpt-4", "rpd", 1000, 6)
	}},
	{"what one has taken the other refuses", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 990})
		if !b.py.take("user", "gpt-4", args{"rpd": 11}) {
			b.Error("Python admitted 11 of 10")
		}
		b.py.take("user", "gpt-4", args{"rpd": 9})
		refused := b.take("user", "gpt-4", args{"rpd": 2})
		if refused == nil || refused.Statuses[0].Available != 1 || refused.Statuses[0].Limit.Capacity != 1000 {
			b.Errorf("2 of 1: %v", refused)
		}
		b.books("user", "gpt-4", "rpd", 1000, 999)
	}},
	{"cascade, of entities that Python made", func(b *both) { b.project(true); b.cascades() }},
	{"cascade, of entities that Go made", func(b *both) { b.project(false); b.cascades() }},
	{"leases adjusted by each while the other consumes", func(b *both) {
		b.system(perDay("rpd", 1000))
		var held int
		b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 100}}, &held)
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.do("settle", args{"lease": held, "adjust": args{"rpd": -60}}, nil)
		b.books("user", "gpt-4", "rpd", 1000, 41)

		lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 100}))
		b.must(err)
		b.py.take("user", "gpt-4", args{"rpd": 1})
		b.must(lease.Adjust("rpd", -60))
		b.must(lease.Commit(b.Context()))
		b.books("user", "gpt-4", "rpd", 1000, 82)

		b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 100}}, &held)
		b.py.do("settle", args{"lease": held, "rollback": true}, nil)
		b.books("user", "gpt-4", "rpd", 1000, 82)
		lease, err = b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 100}))
		b.must(err)
		b.must(lease.Rollback(b.Context()))
		b.books("user", "gpt-4", "rpd", 1000, 82)
		b.balance("user", "gpt-4", "rpd", 918)
	}},
	{"into debt by each", func(b *both) {
		b.system(perDay("rpd", 100))
		var held int
		b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 60}}, &held)
		b.py.do("settle", args{"lease": held, "adjust": args{"rpd": 90}}, nil)
		if b.take("user", "gpt-4", args{"rpd": 1}) == nil {
			b.Error("Go admitted in debt")
		}
		lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 0}))
		b.must(err)
		b.must(lease.Adjust("rpd", 50))
		b.must(lease.Commit(b.Context()))
		if !b.py.take("user", "gpt-4", args{"rpd": 1}) {
			b.Error("Python admitted in debt")
		}
		b.balance("user", "gpt-4", "rpd", -100)
	}},
	{"a credit of Python's that finds no room is trimmed by Go", func(b *both) {
		b.system(limiter.PerSecond("rps", 1000), perDay("rpd", 1000))
		var held int
		b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rps": 1000, "rpd": 1}}, &held)
		for b.balanceOf("rps") < 1000 { // it earns a token a millisecond
		}
		b.take("user", "gpt-4", args{"rpd": 1}) // stamps the earnings
		b.py.do("settle", args{"lease": held, "adjust": args{"rps": -900}}, nil)
		for range 2 {
			b.take("user", "gpt-4", args{"rps": 1})
			images, err := b.store.Buckets(b.Context(), "user", "gpt-4", 1)
			b.must(err)
			if s, _ := images[0].Limit("rps"); s.Tokens >= s.Capacity {
				b.Errorf("after a take, %d millitokens are held of %d", s.Tokens, s.Capacity)
			}
			if images[0].HasValidUntil {
				b.Errorf("the request to trim was not taken off: %d", images[0].ValidUntil)
			}
		}
		b.books("user", "gpt-4", "rpd", 1000, 2)
	}},
	{"an entity whose record is made after its bucket", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.py.take("user", "gpt-4", args{"rpd": 1})
		b.take("user", "gpt-3.5", args{"rpd": 1})
		b.project(false)
		for range 2 {
			b.Limiter = b.limiter()
			b.take("user", "gpt-4", args{"rpd": 1})
			b.take("user", "gpt-3.5", args{"rpd": 1})
			b.must(b.Close()) // waits for the comparison with the record
		}
		b.Limiter = b.limiter()
		b.take("user", "gpt-4", args{"rpd": 10})
		b.py.take("user", "gpt-3.5", args{"rpd": 10})
		for _, resource := range []string{"gpt-4", "gpt-3.5"} {
			if it := b.item("project", resource); it == nil {
				b.Errorf("%s does not cascade: %v", resource, b.item("user", resource))
			}
		}
	}},
	{"a bucket that Python doubled", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 100})
		b.py.call("bump_shard_count", args{"entity_id": "user", "resource": "gpt-4", "current_count": 1}, nil)
		for range 20 {
			b.py.take("user", "gpt-4", args{"rpd": 1})
			b.take("user", "gpt-4", args{"rpd": 1})
		}
		images := b.shards("user", "gpt-4", 2)
		if _, consumed := sums(images); consumed != 140_000 {
			b.Errorf("%d millitokens consumed", consumed)
		}
		var available map[string]int64
		b.py.do("available", args{"entity": "user", "resource": "gpt-4"}, &available)
		ours, theirs := b.balanceOf("rpd"), available["rpd"]
		eachBefore, allBefore := rounded(images, "rpd", 0) // earns nothing yet
		eachNow, allNow := rounded(images, "rpd", b.store.Now().UnixMilli())
		if ours < allBefore || ours > allNow {
			b.Errorf("Go says %d are available, of %d to %d", ours, allBefore, allNow)
		}
		if theirs < eachBefore || theirs > eachNow {
			b.Errorf("Python says %d are available, of %d to %d", theirs, eachBefore, eachNow)
		}
	}},
	{"entities deleted by Python leave nothing to Go", func(b *both) {
		b.populate()
		b.py.call("delete_entity", args{"entity_id": "user"}, nil)
		b.deleted() // its limits too, but the peer's registry still counts them
	}},
	{"entities deleted by Go leave nothing to Python", func(b *both) {
		b.populate()
		_, err := b.store.DeleteEntity(b.Context(), "user")
		b.must(err)
		b.deleted()
		b.lists(nil, nil, "gpt-4", nil)
		b.lists(nil, nil, limiter.DefaultResource, nil)
	}},
}

// rounded is the number of whole tokens of a limit that shards hold when refilled to now:
// each rounded down separately, as the peer adds them up, and all together.
func rounded(images []*store.Image, limit string, now int64) (each, all int64) {
	for _, img := range images {
		l, _ := img.Limit(limit)
		part := bucket.Limit{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}.Share(img.Shard, img.ShardCount)
		held := part.Balance(l.Tokens, img.RefilledAt, now)
		each, all = each+held/1000, all+held
	}
	return each, all / 1000
}

// balanceOf is user's balance of a limit for gpt-4, as Go reports it.
func (b *both) balanceOf(limit string) int64 {
	b.Helper()
	statuses, err := b.Available(b.Context(), request("user", "gpt-4", args{limit: 0}))
	b.must(err)
	return statuses[0].Available
}

// populate gives user a record, buckets and its own limits, created by both libraries.
func (b *both) populate() {
	b.Helper()
	b.project(true)
	b.system(perDay("rpd", 1000))
	b.py.take("user", "gpt-4", args{"rpd": 1})
	b.take("user", "gpt-3.5", args{"rpd": 1})
	b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(perDay("rpd", 10))}, nil)
	b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource}, []limiter.Limit{perDay("rpd", 20)}))
}

// deleted checks that nothing is left of user, and that it starts again from nothing.
func (b *both) deleted() {
	b.Helper()
	for _, k := range b.keys() {
		if k.PK[len(k.PK)-len("/ENTITY#user"):] == "/ENTITY#user" {
			b.Errorf("%v is left", k)
		}
	}
	for _, resource := range []string{"gpt-4", "gpt-3.5"} {
		if it := b.item("user", resource); it != nil {
			b.Errorf("a bucket is left: %v", it)
		}
	}
	if _, err := b.store.Entity(b.Context(), "user"); !errors.Is(err, limiter.ErrNotFound) {
		b.Errorf("Go still knows the entity: %v", err)
	}
	var entity *struct{}
	b.py.call("get_entity", args{"entity_id": "user"}, &entity)
	if entity != nil {
		b.Error("Python still knows the entity")
	}
	b.Limiter = b.limiter()
	b.take("user", "gpt-4", args{"rpd": 3})
	b.py.take("user", "gpt-4", args{"rpd": 4})
	b.books("user", "gpt-4", "rpd", 1000, 7)
}
