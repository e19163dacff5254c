//go:build conformance

package conformance_test

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// disabled checks that both libraries refuse to acquire from a resource.
func (b *both) disabled(entity, resource string) {
	b.Helper()
	_, err := b.Acquire(b.Context(), request(entity, resource, args{"rpd": 1}))
	if d := (*limiter.DisabledError)(nil); !errors.As(err, &d) || d.Entity != entity || d.Resource != resource {
		b.Errorf("Go acquired of what Python disabled for %s: %v", entity, err)
	}
	err = b.py.try("acquire", args{"entity": entity, "resource": resource, "consume": args{"rpd": 1}}, nil)
	if thrown := (*pythonError)(nil); !errors.As(err, &thrown) || thrown.Class != "ResourceDisabled" {
		b.Errorf("Python acquired of what it disabled for %s: %v", entity, err)
	}
}

// meters are the attributes that a plain take changes; it changes no others.
func meters(limits ...string) []string {
	attrs := []string{schema.WCUTokens, schema.WCUConsumed}
	for _, l := range limits {
		attrs = append(attrs, schema.LimitAttr(l, schema.FieldTokens), schema.LimitAttr(l, schema.FieldConsumed))
	}
	return attrs
}

// isOurs reports whether an attribute of a bucket item belongs to the diary, or to writes that may be sent again. Our
// takes write it to all items, also to those with a peer's features: the peer ignores it.
func isOurs(attr string) bool {
	switch attr {
	case schema.OpenHour, schema.ClosedHour, schema.DiaryText, schema.Acquires, schema.PositionCount:
		return true
	}
	return slices.ContainsFunc([]string{schema.OpenedAttr(""), schema.GainedAttr(""), schema.PositionAttr("")}, func(prefix string) bool { return strings.HasPrefix(attr, prefix) })
}

// keeps checks that nothing of user's bucket for gpt-4 has changed, except the attributes
// in moved and those of ours.
func (b *both) keeps(before schema.Item, moved ...string) {
	b.Helper()
	after := b.item("user", "gpt-4")
	same := func(it schema.Item) schema.Item {
		it = maps.Clone(it)
		maps.DeleteFunc(it, func(attr string, _ types.AttributeValue) bool { return isOurs(attr) || slices.Contains(moved, attr) })
		return it
	}
	if diff := cmp.Diff(same(before), same(after), cmpopts.IgnoreTypes(document.NoSerde{})); diff != "" {
		b.Errorf("the item was rewritten (-before +after):\n%s", diff)
	}
}

// foreign tests a limit that only the peer can evaluate. It is debited as it is while it
// covers the request, and otherwise left unchanged.
func (b *both) foreign(spec args, capacity int64) {
	b.Helper()
	with := args{"resource": "gpt-4", "limits": []args{spec}}
	b.py.call("set_resource_defaults", with, nil)

	_, err := b.Acquire(b.Context(), request("fresh", "gpt-4", args{"q": 1}))
	if !errors.Is(err, limiter.ErrUnsupported) {
		b.Errorf("a bucket of a limit that Go cannot evaluate: %v, want %v", err, limiter.ErrUnsupported)
	}
	if it := b.item("fresh", "gpt-4"); it != nil {
		b.Errorf("Go made the bucket: %v", it)
	}

	b.py.take("user", "gpt-4", args{"q": 10})
	before := b.item("user", "gpt-4")
	b.take("user", "gpt-4", args{"q": 20})
	b.keeps(before, meters("q")...)
	lease, err := b.Acquire(b.Context(), request("user", "gpt-4", args{"q": 20}))
	b.must(err)
	b.must(lease.Adjust("q", -5))
	b.must(lease.Commit(b.Context()))
	b.keeps(before, meters("q")...)
	b.books("user", "gpt-4", "q", capacity, 45)

	_, err = b.Acquire(b.Context(), request("user", "gpt-4", args{"q": int(capacity - 44)}))
	if !errors.Is(err, limiter.ErrUnsupported) {
		b.Errorf("more than the bucket holds: %v, want %v", err, limiter.ErrUnsupported)
	}
	b.must(b.Close()) // waits for background work
	b.Limiter = b.limiter()
	b.keeps(before, meters("q")...)

	b.py.take("user", "gpt-4", args{"q": 5})
	b.books("user", "gpt-4", "q", capacity, 50)
	var theirs []struct{ Name string }
	b.py.call("get_resource_defaults", args{"resource": "gpt-4"}, &theirs)
	if len(theirs) != 1 || theirs[0].Name != "q" {
		b.Errorf("Python reads %v", theirs)
	}
}

var foreignCases = []interopCase{
	{"a resource that Python disabled", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.call("disable_resource", args{"resource": "gpt-4"}, nil)
		b.disabled("user", "gpt-4")
		b.Limiter = b.limiter()
		b.disabled("user", "gpt-4")
		b.disabled("fresh", "gpt-4")
		if it := b.item("fresh", "gpt-4"); it != nil {
			b.Errorf("a bucket was made: %v", it)
		}
		if _, err := b.Available(b.Context(), request("user", "gpt-4", args{"rpd": 1})); !errors.Is(err, limiter.ErrDisabled) {
			b.Errorf("Available: %v", err)
		}
		// When Go sets the limits, the switch stays.
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 1000)}))
		b.disabled("user", "gpt-4")
		b.disabled("fresh", "gpt-4")
		b.py.call("enable_resource", args{"resource": "gpt-4"}, nil)
		b.Limiter = b.limiter()
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.take("user", "gpt-4", args{"rpd": 1})
		b.books("user", "gpt-4", "rpd", 1000, 3)
	}},
	{"an entity that Python disabled", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.py.take("user", "gpt-4", args{"rpd": 1})
		b.take("other", "gpt-4", args{"rpd": 1})
		b.py.call("disable_entity", args{"entity_id": "user"}, nil)
		b.disabled("user", "gpt-4")
		b.disabled("user", "gpt-3.5")
		b.take("other", "gpt-4", args{"rpd": 1})
		b.py.call("enable_entity", args{"entity_id": "user"}, nil)
		b.Limiter = b.limiter()
		b.take("user", "gpt-4", args{"rpd": 1})
		b.take("user", "gpt-3.5", args{"rpd": 1})
	}},
	{"a limit that Python lowers is trimmed, then served", func(b *both) {
		b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(perDay("rpd", 1000), perDay("tpd", 1000))}, nil)
		b.take("user", "gpt-4", args{"rpd": 100})
		// The peer stamps the bucket with vu = 0.
		b.py.call("set_limits", args{"entity_id": "user", "resource": "gpt-4", "limits": asPython(perDay("rpd", 10), perDay("tpd", 5000))}, nil)
		if vu := b.item("user", "gpt-4")[schema.ValidUntil]; vu == nil {
			b.Error("Python did not ask for a trim")
		}
		refused := b.take("user", "gpt-4", args{"rpd": 11})
		if refused == nil || refused.RetryAfter() != limiter.Never || refused.Statuses[0].Limit.Capacity != 10 {
			b.Errorf("11 of a capacity of 10: %v", refused)
		}
		if refused := b.take("user", "gpt-4", args{"rpd": 4, "tpd": 900}); refused != nil {
			b.Errorf("4 of 10: %v", refused)
		}
		if vu := b.item("user", "gpt-4")[schema.ValidUntil]; vu != nil {
			b.Errorf("the request to trim was not taken off: %v", vu)
		}
		b.balance("user", "gpt-4", "rpd", 6)
		b.balance("user", "gpt-4", "tpd", 100)
		b.py.take("user", "gpt-4", args{"rpd": 6})
		if b.take("user", "gpt-4", args{"rpd": 1}) == nil {
			b.Error("Go admitted 1 of 0")
		}
	}},
	{"a limit that Go lowers", func(b *both) {
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 1000)}))
		b.py.take("user", "gpt-4", args{"rpd": 100})
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Entity: "user", Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 10)}))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.must(b.Close())
		b.Limiter = b.limiter()
		b.take("user", "gpt-4", args{"rpd": 1})
		if !b.py.take("user", "gpt-4", args{"rpd": 11}) {
			b.Error("Python admitted 11 of 10")
		}
		for range 8 {
			b.py.take("user", "gpt-4", args{"rpd": 1})
		}
		if !b.py.take("user", "gpt-4", args{"rpd": 5}) {
			b.Error("Python admitted more than the lowered limit")
		}
	}},
	{"a rate of a quota at some times", func(b *both) {
		b.foreign(args{
			"name": "q", "capacity": 1000, "refill_amount": 0, "refill_period_seconds": 1, "reset": []string{"0 0 1 1 *"},
			"schedule": []args{{"cron": "0 0 2 1 *", "refill_amount": 5}},
		}, 1000)
	}},
	{"a resource that Python bypasses is bypassed for all", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.py.take("user", "gpt-4", args{"rpd": 10})
		b.py.call("bypass_resource", args{"resource": "gpt-4"}, nil)
		before := b.item("user", "gpt-4")
		if before[schema.Bypass] == nil {
			b.Fatal("Python did not stamp the bucket")
		}
		b.take("user", "gpt-4", args{"rpd": 20})
		b.take("user", "gpt-4", args{"rpd": 5000})
		b.take("other", "gpt-4", args{"rpd": 5000}) // which it makes, with a stamp
		b.serves("other")
		b.must(b.Close())
		b.Limiter = b.limiter()
		b.keeps(before, append(meters("rpd"), schema.RF, schema.TTL)...)
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 500)}))
		var policy string
		b.py.call("get_resource_disabled", args{"resource": "gpt-4"}, &policy)
		if policy != "bypass" {
			b.Errorf("limits set by Go made the resource's policy %q", policy)
		}
	}},
	{"a cascade policy of Python's", func(b *both) {
		b.project(true)
		b.system(perDay("rpd", 1000))
		b.py.call("set_resource_cascade", args{"resource": "gpt-4", "cascade": false}, nil)
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.take("user", "gpt-4", args{"rpd": 2})
		b.take("user", "gpt-3.5", args{"rpd": 4})
		b.books("user", "gpt-4", "rpd", 1000, 3)
		if it := b.item("project", "gpt-4"); it != nil {
			b.Errorf("the parent has a bucket: %v", it)
		}
		b.books("project", "gpt-3.5", "rpd", 1000, 4)
		b.py.call("set_resource_cascade", args{"resource": "gpt-4", "cascade": true}, nil)
		b.Limiter = b.limiter()
		b.take("user", "gpt-4", args{"rpd": 5})
		b.books("project", "gpt-4", "rpd", 1000, 5)
	}},
	{"a move to another parent", func(b *both) {
		b.project(true)
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 1})
		b.py.call("create_entity", args{"entity_id": "project-2"}, nil)
		b.py.call("set_parent", args{"entity_id": "user", "parent_id": "project-2"}, nil)
		b.Limiter = b.limiter()
		b.take("user", "gpt-4", args{"rpd": 2})
		b.books("user", "gpt-4", "rpd", 1000, 3)
		b.books("project", "gpt-4", "rpd", 1000, 1)
		b.books("project-2", "gpt-4", "rpd", 1000, 2)
	}},
	{"an operator's reset", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.take("user", "gpt-4", args{"rpd": 700})
		b.py.call("reset_bucket", args{"entity_id": "user", "resource": "gpt-4", "limits": nil, "idempotency_key": "once"}, nil)
		b.take("user", "gpt-4", args{"rpd": 1})
		b.balance("user", "gpt-4", "rpd", 999)
		_, err := b.store.DeleteEntity(b.Context(), "user")
		b.must(err)
		for _, k := range b.keys() {
			if strings.Contains(k.PK, "user") && !strings.Contains(k.PK, "AUDIT") {
				b.Errorf("%v is left", k)
			}
		}
	}},
}
