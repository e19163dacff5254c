//go:build conformance

package conformance_test

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
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
	{"Python reads days that Go copied, and Go counts them once", func(b *both) {
		b.must(b.store.SetLimits(b.Context(), limiter.ConfigKey{Resource: "gpt-4"}, []limiter.Limit{perDay("rpd", 1000), perDay("tpd", 100_000)}))
		for range 3 {
			b.take("user", "gpt-4", args{"rpd": 1, "tpd": 500})
			b.py.take("user", "gpt-4", args{"rpd": 1, "tpd": 70})
		}
		today := time.Now()
		for range 2 {
			for _, day := range []time.Time{today, today.AddDate(0, 0, -1)} { // midnight may have passed
				b.must(b.store.Usage().SaveDay(b.Context(), "user", "gpt-4", day))
			}
		}
		want := map[string]int64{"rpd": 6, "tpd": 1710}
		described, err := b.api.DescribeTable(b.Context(), &dynamodb.DescribeTableInput{TableName: &b.table})
		b.must(err)
		projectsAll := slices.ContainsFunc(described.Table.GlobalSecondaryIndexes, func(ix types.GlobalSecondaryIndexDescription) bool {
			return *ix.IndexName == schema.GSI2 && ix.Projection.ProjectionType == types.ProjectionTypeAll
		})
		for _, of := range []args{{"entity_id": "user"}, {"resource": "gpt-4"}, {"entity_id": "user", "resource": "gpt-4"}} {
			of["window_type"] = "daily"
			var summary struct{ Total map[string]int64 }
			b.py.call("get_usage_summary", of, &summary)
			found := want
			if of["entity_id"] == nil && !projectsAll {
				found = map[string]int64{} // Python reads the index only
			}
			if diff := cmp.Diff(found, summary.Total); diff != "" {
				b.Errorf("%v (-want +Python):\n%s", of, diff)
			}
		}
		b.readUsage("user", want)
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
