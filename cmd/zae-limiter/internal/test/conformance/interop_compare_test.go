//go:build conformance

package conformance_test

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// capacity checks the stored capacity of a limit of the user's bucket; 0 means no limit.
func (b *both) capacity(resource, limit string, want int64) {
	b.Helper()
	images, err := b.store.Buckets(b.Context(), "user", resource, 1)
	b.must(err)
	for _, img := range images {
		if s, _ := img.Limit(limit); s.Capacity != want*1000 {
			b.Errorf("shard %d of the user for %s has %d millitokens of %s, want %d tokens", img.Shard, resource, s.Capacity, limit, want)
		}
	}
	if len(images) == 0 {
		b.Errorf("the user has no bucket for %s", resource)
	}
}

// unstamp removes an operator's stamp from a bucket, as if the bucket was being created
// when the stamps were set.
func (b *both) unstamp(entity, resource string) {
	b.Helper()
	_, ns := b.store.Namespace()
	_, err := b.api.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
		TableName: &b.table, Key: schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: resource}).Item(),
		UpdateExpression: aws.String("REMOVE disabled"),
	})
	b.must(err)
}

var own = limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}

// Our client uses its cached configuration beside Python, which changes the configuration
// and never compares.
var compareCases = []interopCase{
	{"what Python sets is not undone by a client that cached what was before", func(b *both) {
		b.must(b.store.SetLimits(b.Context(), own, []limiter.Limit{perDay("rpd", 1000), perDay("tpd", 1000)}))
		if refused := b.take("user", "gpt-4", args{"rpd": 1, "tpd": 1}); refused != nil {
			b.Fatal(refused)
		}
		b.py.do("limit", args{"method": "set_limits", "entity_id": "user", "resource": "gpt-4", "limits": asPython(perDay("rpd", 10))}, nil)
		for range 3 {
			if refused := b.take("user", "gpt-4", args{"rpd": 1}); refused != nil {
				b.Error(refused)
			}
		}
		b.capacity("gpt-4", "rpd", 10)
		b.capacity("gpt-4", "tpd", 0)
		b.balance("user", "gpt-4", "rpd", 7)
		if refused := b.take("user", "gpt-4", args{"rpd": 11}); refused == nil || refused.RetryAfter() != limiter.Never {
			b.Errorf("11 of 10: %v", refused)
		}
		if _, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"tpd": 1})); !errors.Is(err, limiter.ErrNotConfigured) {
			b.Errorf("a limit that Python removed: %v", err)
		}
		if b.py.take("user", "gpt-4", args{"rpd": 7}) || !b.py.take("user", "gpt-4", args{"rpd": 1}) {
			b.Error("Python does not enforce what it set")
		}
	}},
	{"what Python deletes is not undone either", func(b *both) {
		b.system(perDay("rpd", 50))
		b.must(b.store.SetLimits(b.Context(), own, []limiter.Limit{perDay("rpd", 1000)}))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.do("limit", args{"method": "delete_limits", "entity_id": "user", "resource": "gpt-4"}, nil)
		for range 3 {
			if refused := b.take("user", "gpt-4", args{"rpd": 1}); refused != nil {
				b.Error(refused)
			}
		}
		b.capacity("gpt-4", "rpd", 50)
		b.balance("user", "gpt-4", "rpd", 47)
	}},
	{"what Go sets and deletes reaches a bucket that only Python uses", func(b *both) {
		b.system(perDay("rpd", 500), perDay("tpd", 70))
		if b.py.take("user", "gpt-4", args{"rpd": 100, "tpd": 1}) {
			b.Fatal("refused to Python")
		}
		b.must(b.store.SetLimits(b.Context(), own, []limiter.Limit{perDay("rpd", 10)}))
		b.capacity("gpt-4", "rpd", 10)
		if b.py.take("user", "gpt-4", args{"rpd": 10}) || !b.py.take("user", "gpt-4", args{"rpd": 1}) {
			b.Error("Python does not enforce 10")
		}
		b.must(b.store.SetLimits(b.Context(), own, []limiter.Limit{perDay("new", 5), perDay("rpd", 1000)}))
		if b.py.take("user", "gpt-4", args{"new": 5}) || !b.py.take("user", "gpt-4", args{"rpd": 1}) {
			b.Error("raising fills nothing, and a limit that is added is full")
		}
		b.must(b.store.DeleteLimits(b.Context(), own))
		b.capacity("gpt-4", "rpd", 500)
		b.capacity("gpt-4", "new", 0)
		if b.py.take("user", "gpt-4", args{"tpd": 70}) || !b.py.take("user", "gpt-4", args{"tpd": 1}) {
			b.Error("Python does not enforce the system's limits")
		}
	}},
	{"what Go sets by default reaches all buckets that only Python uses", func(b *both) {
		b.system(perDay("rpd", 500))
		for _, resource := range []string{"gpt-3", "gpt-4"} {
			b.py.take("user", resource, args{"rpd": 1})
		}
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource}, []limiter.Limit{perDay("rpd", 3)}))
		for _, resource := range []string{"gpt-3", "gpt-4"} {
			b.capacity(resource, "rpd", 3)
			if b.py.take("user", resource, args{"rpd": 3}) || !b.py.take("user", resource, args{"rpd": 1}) {
				b.Errorf("Python does not enforce 3 of %s", resource)
			}
		}
	}},
	{"an entity that Python disabled gets no new bucket from a client that cached it", func(b *both) {
		b.system(perDay("rpd", 500))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.take("user", "gpt-3", args{"rpd": 1})
		b.py.call("disable_entity", args{"entity_id": "user"}, nil)
		for _, resource := range []string{"gpt-3", "gpt-4", "gpt-5"} {
			b.disabled("user", resource)
		}
		b.py.call("enable_entity", args{"entity_id": "user"}, nil)
		b.InvalidateConfig()
		for _, resource := range []string{"gpt-3", "gpt-4", "gpt-5"} {
			if refused := b.take("user", resource, args{"rpd": 1}); refused != nil {
				b.Error(refused)
			}
		}
	}},
	{"a resource that Python disabled, whose stamp a bucket missed", func(b *both) {
		b.system(perDay("rpd", 500))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.call("disable_resource", args{"resource": "gpt-4"}, nil)
		b.unstamp("user", "gpt-4")
		b.InvalidateConfig() // as if a time to live had passed
		if _, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"rpd": 1})); !errors.Is(err, limiter.ErrDisabled) {
			b.Errorf("got %v", err)
		}
		b.books("user", "gpt-4", "rpd", 500, 1)
	}},
	{"fallback limits beside Python", func(b *both) {
		req := request("user", "gpt-4", args{"rpd": 3})
		req.Fallback = []limiter.Limit{perDay("rpd", 10)}
		lease, err := b.Acquire(b.Context(), req)
		b.must(err)
		b.must(lease.Commit(b.Context()))
		b.py.call("set_resource_defaults", args{"resource": "gpt-4", "limits": asPython(perDay("rpd", 5))}, nil)
		b.InvalidateConfig()
		if _, err := b.Acquire(b.Context(), req); err != nil {
			b.Error(err)
		}
		b.capacity("gpt-4", "rpd", 5)
		b.balance("user", "gpt-4", "rpd", 2)
	}},
}
