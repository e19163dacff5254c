//go:build conformance

package conformance_test

import (
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

var usageCases = []interopCase{
	{"Go's usage has what Python consumed of the same buckets", func(b *both) {
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 1000), perDay("tpd", 100_000)}))
		for range 5 {
			b.take("user", "gpt-4", args{"rpd": 1, "tpd": 500})
			b.py.take("user", "gpt-4", args{"rpd": 1, "tpd": 70})
			b.take("other", "gpt-4", args{"rpd": 2})
		}
		b.readUsage("user", map[string]int64{"rpd": 10, "tpd": 2850})
		b.readUsage("other", map[string]int64{"rpd": 10})
	}},
}

// readUsage checks the usage of an entity as Go sums it up.
func (b *both) readUsage(entity string, want map[string]int64) {
	b.Helper()
	for _, q := range []usage.Query{{Entity: entity}, {Entity: entity, Resource: "gpt-4"}, {Resource: "gpt-4"}} {
		q.Window = usage.Daily
		page, err := b.store.Usage().Read(b.Context(), q)
		b.must(err)
		got := map[string]int64{}
		for _, u := range page.Snapshots {
			for _, a := range u.Tokens {
				if u.Entity == entity {
					got[a.Limit] += a.Milli.Int64() / 1000
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("%+v (-want +Go):\n%s", q, diff)
		}
	}
}
