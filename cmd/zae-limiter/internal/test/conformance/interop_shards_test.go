//go:build conformance

package conformance_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// shared is a bucket with count shards that Go created, used by both libraries.
func (b *both) shared(count int) {
	b.Helper()
	capacity := 100 * int64(count)
	b.system(perDay("rpd", capacity))
	b.take("user", "gpt-4", args{"rpd": 7})
	b.double("user", "gpt-4", count)
	b.ledger("user", count, capacity, 7)
	b.finds(count)

	// The peer picks every shard.
	taken := 15 * count
	before := b.shards("user", "gpt-4", count)
	for range taken {
		if b.py.take("user", "gpt-4", args{"rpd": 1}) {
			b.Fatal("Python refused 1")
		}
	}
	for i, img := range b.shards("user", "gpt-4", count) {
		was, _ := before[i].Limit("rpd")
		if is, _ := img.Limit("rpd"); is.Consumed == was.Consumed {
			b.Errorf("Python took nothing of shard %d", i)
		}
	}
	used := int64(7 + taken)
	b.ledger("user", count, capacity, used)

	// The peer refuses a request above one share; our client gathers.
	if !b.py.take("user", "gpt-4", args{"rpd": 101}) {
		b.Error("Python admitted 101 of a share of 100")
	}
	if refused := b.take("user", "gpt-4", args{"rpd": 101}); refused != nil {
		b.Errorf("Go refused 101 of %d: %v", capacity-used, refused)
	}
	used += 101
	b.ledger("user", count, capacity, used)
	b.finds(count)

	// Whichever library finds the remaining tokens takes them, to the last one.
	rest := capacity - used - 10
	b.take("user", "gpt-4", args{"rpd": int(rest)})
	if got := b.drain("gpt-4"); got != 10 {
		b.Errorf("%d admitted of 10", got)
	}
	if !b.py.take("user", "gpt-4", args{"rpd": 1}) {
		b.Error("Python admitted 1 of 0")
	}
	b.ledger("user", count, capacity, capacity)
}

var shardCases = []interopCase{
	{"2 shards of Go's", func(b *both) { b.shared(2) }},
	{"4 shards of Go's", func(b *both) { b.shared(4) }},
	{"8 shards of Go's", func(b *both) { b.shared(8) }},
	{"a shard that Go made is one that Python would have made", func(b *both) {
		b.system(perDay("rpd", 1000))
		for _, entity := range []string{"theirs", "ours"} {
			b.py.call("create_entity", args{"entity_id": "parent-of-" + entity}, nil)
			b.py.call("create_entity", args{"entity_id": entity, "parent_id": "parent-of-" + entity, "cascade": true}, nil)
			b.py.take(entity, "gpt-4", args{"rpd": 1})
		}
		b.py.call("set_limits", args{"entity_id": "theirs", "resource": "gpt-3.5", "limits": asPython(perDay("rpd", 10))}, nil)
		b.py.call("set_limits", args{"entity_id": "ours", "resource": "gpt-3.5", "limits": asPython(perDay("rpd", 10))}, nil)
		for _, resource := range []string{"gpt-4", "gpt-3.5"} {
			b.py.take("theirs", resource, args{"rpd": 0})
			b.py.take("ours", resource, args{"rpd": 0})
			for _, from := range []int{1, 2} {
				b.raise("theirs", resource, from)
				for shard := range 2 * from {
					for b.shardItem("theirs", resource, shard) == nil {
						b.py.take("theirs", resource, args{"rpd": 0})
					}
				}
			}
			b.double("ours", resource, 4)
			for shard := range 4 {
				want, got := stamps(b.shardItem("theirs", resource, shard)), stamps(b.shardItem("ours", resource, shard))
				for name := range want {
					if got[name] != want[name] && name != "pinc" && name != "pgen" {
						b.Errorf("%s shard %d: %s is %q, Python's %q", resource, shard, name, got[name], want[name])
					}
				}
				for name := range got {
					if want[name] == "" && name != schema.Created && !isOurs(name) { // which Python ignores
						b.Errorf("%s shard %d: Python has no %s", resource, shard, name)
					}
				}
			}
		}
		for _, resource := range []string{"gpt-4", "gpt-3.5"} {
			first := stamps(b.shardItem("ours", resource, 0))
			for shard := range 4 {
				other := stamps(b.shardItem("ours", resource, shard))
				for _, owner := range []string{"pinc", "pgen"} {
					if first[owner] != other[owner] {
						b.Errorf("%s shard %d: %s is %q, shard 0's %q", resource, shard, owner, other[owner], first[owner])
					}
				}
			}
		}
	}},
	{"a set of shards that Python began is finished by Go", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.py.take("user", "gpt-4", args{"rpd": 500})
		used, left := int64(500), int64(500)
		take := func() {
			if refused := b.take("user", "gpt-4", args{"rpd": 1}); refused != nil {
				b.Fatal(refused)
			}
			used, left = used+1, left-1
		}
		for _, from := range []int{1, 2} {
			b.raise("user", "gpt-4", from)
			for i := 0; len(b.some()) < 2*from; i++ {
				if i == 100 {
					b.Fatalf("Go made no more shards than %d of %d", len(b.some()), 2*from)
				}
				take()
			}
			b.fresh()
			b.settled("user", 2*from, 1000_000, used)
			b.shards("user", "gpt-4", 2*from)
		}
		// As after a peer that died when it had stamped shard 0, and not yet the others.
		b.update("user", "gpt-4", 0, "SET shard_count = :n", schema.Item{":n": schema.N(8)})
		b.reopen()
		take()
		b.py.take("user", "gpt-4", args{"rpd": 1})
		used, left = used+1, left-1
		for i := 0; len(b.some()) < 8 || !b.even(8); i++ {
			if i == 100 {
				b.Fatalf("Go did not finish: %d shards", len(b.some()))
			}
			take()
		}
		b.fresh()
		b.settled("user", 8, 1000_000, used)
		b.shards("user", "gpt-4", 8)
		if refused := b.take("user", "gpt-4", args{"rpd": int(left) - 10}); refused != nil {
			b.Fatal(refused)
		}
		if got := b.drain("gpt-4"); got != 10 {
			b.Errorf("%d admitted of 10", got)
		}
		b.ledger("user", 8, 1000, 1000)
	}},
	{"what is more than a share of Python's doubling is not minted", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.py.take("user", "gpt-4", args{"rpd": 100})
		b.raise("user", "gpt-4", 1)
		b.take("user", "gpt-4", args{"rpd": 1})
		for len(b.some()) < 2 {
			b.take("user", "gpt-4", args{"rpd": 1})
		}
		b.fresh()
		held, consumed := sums(b.shards("user", "gpt-4", 2))
		if held+consumed > 1000_000 {
			b.Errorf("%d millitokens held and %d consumed of 1000 tokens", held, consumed)
		}
		b.take("user", "gpt-4", args{"rpd": int(held/1000) - 10})
		if got := b.drain("gpt-4"); got != 10 {
			b.Errorf("%d admitted of 10", got)
		}
		b.settled("user", 2, held+consumed, (held+consumed)/1000)
	}},
	{"what Python minted by doubling is trimmed by Go where it meets it", func(b *both) {
		b.system(perDay("rpd", 800))
		b.py.take("user", "gpt-4", args{"rpd": 100})
		for _, from := range []int{1, 2} {
			b.raise("user", "gpt-4", from)
			for len(b.some()) < 2*from {
				b.py.take("user", "gpt-4", args{"rpd": 1})
			}
		}
		minted, used := sums(b.images("user", "gpt-4", 4))
		if minted+used <= 800_000 {
			b.Fatalf("Python minted nothing: %d millitokens held, %d consumed", minted, used)
		}
		met := func() bool {
			for _, img := range b.images("user", "gpt-4", 4) {
				if l, _ := img.Limit("rpd"); l.Tokens > 200_000 {
					return false
				}
			}
			return true
		}
		for i := 0; !met(); i++ {
			if i == 200 {
				b.Fatal("Go has not trimmed what it met")
			}
			b.take("user", "gpt-4", args{"rpd": 1})
		}
		held, consumed := sums(b.shards("user", "gpt-4", 4))
		if held > 800_000 {
			b.Errorf("%d millitokens are held", held)
		}
		// From here on only admissions change the balances.
		b.py.take("user", "gpt-4", args{"rpd": 20})
		b.take("user", "gpt-4", args{"rpd": 30})
		b.settled("user", 4, held+consumed, consumed/1000+50)
		b.take("user", "gpt-4", args{"rpd": int(held/1000) - 70})
		if got := b.drain("gpt-4"); got != held/1000-(held/1000-70)-50 {
			b.Errorf("%d admitted of 20", got)
		}
		b.settled("user", 4, held+consumed, consumed/1000+held/1000)
	}},
	{"leases on 4 shards adjusted and given back by each", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.double("user", "gpt-4", 4)
		b.py.take("user", "gpt-4", args{"rpd": 1})
		used := int64(2)
		for range 3 {
			var theirs, back int
			b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 60}}, &theirs)
			b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 50}}, &back)
			gathered, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 400}))
			b.must(err)
			given, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 300}))
			b.must(err)
			b.settled("user", 4, 1000_000, used+60+50+400+300)

			b.py.do("settle", args{"lease": theirs, "adjust": args{"rpd": -40}}, nil)
			b.must(gathered.Adjust("rpd", -370))
			b.must(gathered.Commit(b.Context()))
			b.py.do("settle", args{"lease": back, "rollback": true}, nil)
			b.must(given.Rollback(b.Context()))
			used += 20 + 30
			b.ledger("user", 4, 1000, used)
			b.shards("user", "gpt-4", 4)
		}
		// The shard that the peer picks goes into debt, which our client then pays.
		var debtor int
		b.py.do("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 10}}, &debtor)
		b.py.do("settle", args{"lease": debtor, "adjust": args{"rpd": 290}}, nil)
		lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 0}))
		b.must(err)
		b.must(lease.Adjust("rpd", 350))
		b.must(lease.Commit(b.Context()))
		used += 300 + 350
		b.settled("user", 4, 1000_000, used)
		var held int64
		for _, img := range b.images("user", "gpt-4", 4) {
			l, _ := img.Limit("rpd")
			held += max(0, l.Tokens)
		}
		if refused := b.take("user", "gpt-4", args{"rpd": int(held/1000) + 1}); refused == nil {
			b.Error("Go admitted more than is held")
		}
	}},
	{"both at once on 4 shards", func(b *both) {
		const capacity = 200
		b.system(perDay("rpd", capacity))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.double("user", "gpt-4", 4)
		got := 1 + b.swarms("user")
		if got > capacity {
			b.Errorf("%d admitted of %d", got, capacity)
		}
		if got += b.drain("gpt-4"); got != capacity {
			b.Errorf("%d admitted of %d in the end", got, capacity)
		}
		b.ledger("user", 4, capacity, capacity)
	}},
	{"both at once on 4 shards, with adjustments and rollbacks", func(b *both) {
		b.system(perDay("rpd", 10_000))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.double("user", "gpt-4", 4)
		var net atomic.Int64
		var moving sync.WaitGroup
		for range swarmThreads {
			l := b.limiter()
			moving.Go(func() {
				for range swarmTries {
					n, err := b.move(l)
					net.Add(n)
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		got := b.swarms("user")
		moving.Wait()
		b.ledger("user", 4, 10_000, 1+got+net.Load())
		b.shards("user", "gpt-4", 4)
	}},
	{"both at once on 4 shards that accrue", func(b *both) {
		const (
			capacity = 40
			rate     = capacity / 4 // of a shard, in millitokens per millisecond
			late     = 50 * rate    // the possible cost of contention, ADR 017
		)
		b.system(limiter.PerSecond("rpd", capacity)) // the helpers use this name
		b.take("other", "gpt-4", args{"rpd": 1})
		b.double("other", "gpt-4", 4)
		// The peer takes from the stored balance and then adds everything earned since the
		// stamp, even for a full shard. So elapsed time does not bound what is admitted:
		// each shard's own stamps do. A nearly empty bucket does not overflow.
		b.take("other", "gpt-4", args{"rpd": capacity - 2})
		before := b.shards("other", "gpt-4", 4)
		got := b.swarms("other")
		now := b.store.Now().UnixMilli()
		after := b.shards("other", "gpt-4", 4)
		for i, img := range after {
			was, _ := before[i].Limit("rpd")
			is, _ := img.Limit("rpd")
			earned := (img.RefilledAt - before[i].RefilledAt) * rate
			if most := was.Tokens + was.Consumed + earned + late; is.Tokens+is.Consumed > most || img.RefilledAt > now {
				b.Errorf("shard %d: was %+v at %d, is %+v at %d, and it is %d", i, was, before[i].RefilledAt, is, img.RefilledAt, now)
			}
		}
		_, first := sums(before)
		if _, consumed := sums(after); consumed-first != got*1000 {
			b.Errorf("%d millitokens consumed when %d were admitted", consumed-first, got)
		}
	}},
	{"a cascade from 2 shards to 4", func(b *both) {
		b.project(true)
		b.system(perDay("rpd", 1000))
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "project", Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 200)}))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.double("project", "gpt-4", 4)
		b.double("user", "gpt-4", 2)
		used := int64(1)
		for range 20 {
			b.py.take("user", "gpt-4", args{"rpd": 1})
			b.take("user", "gpt-4", args{"rpd": 1})
			used += 2
		}
		b.ledger("user", 2, 1000, used)
		b.ledger("project", 4, 200, used)
		if !b.py.take("user", "gpt-4", args{"rpd": 51}) {
			b.Error("Python admitted 51 of a share of 50")
		}
		if refused := b.take("user", "gpt-4", args{"rpd": 51}); refused != nil {
			b.Errorf("Go refused 51 of %d: %v", 200-used, refused)
		}
		used += 51
		b.ledger("user", 2, 1000, used)
		b.ledger("project", 4, 200, used)
		b.take("user", "gpt-4", args{"rpd": int(200-used) - 10})
		if got := b.drain("gpt-4"); got != 10 {
			b.Errorf("%d admitted of the parent's 10", got)
		}
		b.ledger("user", 2, 1000, 200)
		b.ledger("project", 4, 200, 200)
	}},
	{"shards of Go's deleted by Python", func(b *both) {
		b.populate()
		b.take("user", "gpt-3.5", args{"rpd": 1})
		b.double("user", "gpt-3.5", 4)
		b.py.call("delete_entity", args{"entity_id": "user"}, nil)
		b.vanished()
	}},
	{"shards of Python's deleted by Go", func(b *both) {
		b.populate()
		b.raise("user", "gpt-4", 1)
		for b.shardItem("user", "gpt-4", 1) == nil {
			b.py.take("user", "gpt-4", args{"rpd": 0})
		}
		b.raise("user", "gpt-4", 2) // and nobody creates the new shards
		_, err := b.store.DeleteEntity(b.Context(), "user")
		b.must(err)
		b.vanished()
	}},
}

// move acquires, and rolls back or adjusts; it returns the net consumption.
func (b *both) move(l *limiter.Limiter) (net int64, err error) {
	lease, err := l.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 9}))
	if err != nil {
		return 0, err
	}
	switch rand.IntN(3) {
	case 0:
		return 0, lease.Rollback(b.Context())
	case 1:
		return 4, errors.Join(lease.Adjust("rpd", -5), lease.Commit(b.Context()))
	default:
		return 11, errors.Join(lease.Adjust("rpd", 2), lease.Commit(b.Context()))
	}
}

// vanished checks that nothing is left of user's buckets, and that a client of ours that
// still remembers the shards admits at most the limit.
func (b *both) vanished() {
	b.Helper()
	for _, k := range b.keys() {
		if strings.Contains(k.PK, "BUCKET#user#") {
			b.Errorf("%v is left", k)
		}
	}
	for shard := range 4 {
		for _, resource := range []string{"gpt-4", "gpt-3.5"} {
			if b.shardItem("user", resource, shard) != nil {
				b.Errorf("shard %d of %s is left", shard, resource)
			}
		}
	}
	b.reopen()
	b.InvalidateConfig() // but not the remembered shards
	if refused := b.take("user", "gpt-3.5", args{"rpd": 980}); refused != nil {
		b.Error(refused)
	}
	b.py.take("user", "gpt-3.5", args{"rpd": 10})
	if got := b.drain("gpt-3.5"); got != 10 {
		b.Errorf("%d admitted of 10", got)
	}
	b.books("user", "gpt-3.5", "rpd", 1000, 1000)
}
