//go:build conformance

package conformance_test

import (
	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// serves checks that both admit what no balance covers, on the bucket of an entity.
func (b *both) serves(entity string) {
	b.Helper()
	for range 8 {
		if b.py.take(entity, "gpt-4", args{"rpd": 5000}) {
			b.Errorf("Python refused %s", entity)
		}
		if e := b.take(entity, "gpt-4", args{"rpd": 5000}); e != nil {
			b.Errorf("Go refused %s: %v", entity, e)
		}
	}
}

var bypassCases = []interopCase{
	{"what Go bypasses, on a bucket that Python made and on one that Go makes", func(b *both) {
		b.system(perDay("rpd", 1000))
		b.py.take("user", "gpt-4", args{"rpd": 10})
		_, err := b.store.SetSwitch(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, dynamo.Switch{Policy: store.Bypass}, nil)
		b.must(err)
		b.serves("user")
		b.balance("user", "gpt-4", "rpd", 990)
		if e := b.take("other", "gpt-4", args{"rpd": 5000}); e != nil {
			b.Errorf("Go refused a new bucket: %v", e)
		}
		if b.item("other", "gpt-4")[schema.Bypass] == nil {
			b.Error("Go made a bucket without a stamp")
		}
		b.serves("other")
		b.balance("other", "gpt-4", "rpd", 1000)
		var policy string
		b.py.call("get_resource_disabled", args{"resource": "gpt-4"}, &policy)
		if policy != "bypass" {
			b.Errorf("for Python the policy is %q", policy)
		}
		_, err = b.store.SetSwitch(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, dynamo.Switch{}, nil)
		b.must(err)
		if !b.py.take("user", "gpt-4", args{"rpd": 5000}) {
			b.Error("Python took 5000 of 990 after the bypass")
		}
		if e := b.take("user", "gpt-4", args{"rpd": 5000}); e == nil {
			b.Error("Go took 5000 of 990 after the bypass")
		}
	}},
}
