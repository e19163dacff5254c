//go:build conformance

package conformance_test

import (
	"errors"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A pythonAmended is what the peer tells of a reset or a top-up.
type pythonAmended struct {
	Shards  int
	Amounts map[string]int64
}

// resets and topsUp are operations of this library on user's bucket.
func (b *both) resets(key string, limits ...string) dynamo.Amended {
	b.Helper()
	done, err := b.store.ResetBucket(b.Context(), dynamo.Reset{Entity: "user", Resource: "gpt-4", Limits: limits, Cause: dynamo.Cause{Key: key, Reason: "they asked"}})
	b.must(err)
	b.fresh()
	return done
}

func (b *both) topsUp(key string, amounts map[string]int64) dynamo.Amended {
	b.Helper()
	done, err := b.store.TopUpBucket(b.Context(), dynamo.TopUp{Entity: "user", Resource: "gpt-4", Amounts: amounts, Cause: dynamo.Cause{Key: key}})
	b.must(err)
	b.fresh()
	return done
}

// amendCases are resets and top-ups by Go, on buckets that Python uses, and keys that both use.
var amendCases = []interopCase{
	{"a top-up by Go", func(b *both) {
		midnight := b.daily()
		ours, theirs := b.sides("Go")
		b.takes(ours, 45)
		b.takes(theirs, 45)
		b.topsUp("", map[string]int64{"rpd": 50})
		b.balance("user", "gpt-4", "rpd", 60)
		b.takes(theirs, 20)
		b.takes(ours, 20)
		b.isRefused(21, 20, midnight)
		b.at(midnight)
		b.takes(theirs, 10)
		b.balance("user", "gpt-4", "rpd", 90)
		if _, ok := b.item("user", "gpt-4")[schema.LimitAttr("rpd", schema.FieldToppedUp)]; ok {
			b.Error("the top-up is left on the item")
		}
		b.exhaust(90, midnight.AddDate(0, 0, 1))
	}},
	{"a top-up of several shards by Go", func(b *both) {
		midnight := b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 60)
		b.double("user", "gpt-4", 2)
		b.topsUp("", map[string]int64{"rpd": 51})
		b.isHeld(91)
		b.takes(ours, 71)
		b.exhaust(20, midnight)
		b.at(midnight)
		b.exhaust(100, midnight.AddDate(0, 0, 1))
	}},
	{"a reset by Go", func(b *both) {
		midnight := b.daily()
		ours, theirs := b.sides("Go")
		b.takes(theirs, 90)
		b.resets("")
		b.takes(ours, 60)
		b.takes(theirs, 40)
		b.exhausted(midnight)
		b.at(midnight)
		b.takes(theirs, 60)
		b.takes(ours, 40)
		b.exhausted(midnight.AddDate(0, 0, 1))
	}},
	{"a reset of several shards by Go", func(b *both) {
		midnight := b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 60)
		b.double("user", "gpt-4", 2)
		b.resets("", "rpd")
		b.isHeld(100)
		b.exhaust(100, midnight)
	}},
	{"a key that Go has used", func(b *both) {
		b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 90)
		want := pythonAmended{1, map[string]int64{"rpd": 50}}
		if done := b.topsUp("order-7", map[string]int64{"rpd": 50}); done.Repeated {
			b.Errorf("got %+v", done)
		}
		var got pythonAmended
		a := args{"entity_id": "user", "resource": "gpt-4", "idempotency_key": "order-7"}
		b.py.call("top_up", args{"entity_id": "user", "resource": "gpt-4", "idempotency_key": "order-7", "amounts": args{"rpd": 50}}, &got)
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("Python was told (-want +got):\n%s", diff)
		}
		a["op"], a["method"] = "call", "reset_bucket"
		if err := b.py.try("call", a, nil); err == nil || !strings.Contains(err.Error(), "already used for a top_up") {
			b.Errorf("Python was told: %v", err)
		}
		b.command("top-up", "--add", "rpd:50", "--idempotency-key", "order-7")
		b.balance("user", "gpt-4", "rpd", 60)
	}},
	{"a key that Python has used", func(b *both) {
		b.daily()
		ours, _ := b.sides("Go")
		b.takes(ours, 90)
		b.operates("top_up", args{"amounts": args{"rpd": 50}, "idempotency_key": "order-7"})
		want := dynamo.Amended{Shards: 1, Amounts: map[string]int64{"rpd": 50}, Repeated: true}
		if diff := cmp.Diff(want, b.topsUp("order-7", map[string]int64{"rpd": 50})); diff != "" {
			b.Errorf("Go was told (-want +got):\n%s", diff)
		}
		b.balance("user", "gpt-4", "rpd", 60)
		_, err := b.store.ResetBucket(b.Context(), dynamo.Reset{Entity: "user", Resource: "gpt-4", Cause: dynamo.Cause{Key: "order-7"}})
		if !errors.Is(err, dynamo.ErrKeyUsed) {
			b.Errorf("Go was told: %v", err)
		}
	}},
}
