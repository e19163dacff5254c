//go:build conformance

package conformance_test

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// switched sets a switch with this library.
func (b *both) switched(k limiter.ConfigKey, to dynamo.Switch) {
	b.Helper()
	_, err := b.store.SetSwitch(b.Context(), k, to, nil)
	b.must(err)
	b.InvalidateConfig()
}

// enabled checks that both libraries acquire from a resource.
func (b *both) enabled(entity, resource string) {
	b.Helper()
	if refused := b.take(entity, resource, args{"rpd": 1}); refused != nil {
		b.Errorf("Go was refused: %v", refused)
	}
	b.must(b.py.try("acquire", args{"entity": entity, "resource": resource, "consume": args{"rpd": 1}}, nil))
}

var switchCases = []interopCase{
	{"an entity that this library disables and enables", func(b *both) {
		b.system(perDay("rpd", 500))
		b.enabled("user", "gpt-4")
		all := limiter.ConfigKey{Entity: "user", Resource: limiter.DefaultResource}
		b.switched(all, dynamo.Switch{Policy: store.Yes, Cause: dynamo.Cause{Reason: "abuse"}})
		b.disabled("user", "gpt-4") // it exists
		b.disabled("user", "gpt-5") // it does not
		b.enabled("other", "gpt-4")
		b.switched(all, dynamo.Switch{})
		b.enabled("user", "gpt-4")
		b.enabled("user", "gpt-5")
	}},
	{"a resource that this library disables, and an entity that Python enables", func(b *both) {
		b.system(perDay("rpd", 500))
		b.enabled("user", "gpt-4")
		b.enabled("other", "gpt-4")
		b.switched(limiter.ConfigKey{Resource: "gpt-4"}, dynamo.Switch{Policy: store.Yes})
		b.disabled("user", "gpt-4")
		b.disabled("other", "gpt-4")
		b.py.call("enable_entity", args{"entity_id": "user"}, nil)
		b.InvalidateConfig()
		b.enabled("user", "gpt-4")
		b.disabled("other", "gpt-4")
		b.py.call("enable_resource", args{"resource": "gpt-4"}, nil)
		b.InvalidateConfig()
		b.enabled("other", "gpt-4")
	}},
	{"an end that Python ignores", func(b *both) {
		b.system(perDay("rpd", 500))
		b.enabled("user", "gpt-4")
		until := time.Now().Add(3 * time.Second)
		b.switched(own, dynamo.Switch{Policy: store.Yes, Until: until})
		b.disabled("user", "gpt-4")
		time.Sleep(time.Until(until) + 100*time.Millisecond)
		if err := b.py.try("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 1}}, nil); err == nil {
			b.Error("Python acquired after the end: docs/python.md says that it ignores it")
		}
		if refused := b.take("user", "gpt-4", args{"rpd": 1}); refused != nil { // removes the mark
			b.Error(refused)
		}
		b.must(b.py.try("acquire", args{"entity": "user", "resource": "gpt-4", "consume": args{"rpd": 1}}, nil))
	}},
}
