package loadtest_test

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/faults"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

var update = flag.Bool("update", false, "write golden files")

// run runs a scenario that must succeed.
func run(t *testing.T, o loadtest.Options) *loadtest.Result {
	t.Helper()
	r, err := loadtest.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// options are the options of a short run on its own engine.
func options(s loadtest.Scenario, engine dynamolite.Options) (o loadtest.Options, db *dynamolite.DB) {
	db = dynamolite.New(engine)
	return loadtest.Options{Scenario: s, API: db, Table: "limits", Namespace: "bench-test", Duration: time.Second, Seed: 1}, db
}

// stall answers no updates from an instant on for some time.
func stall(from time.Time, d time.Duration) faults.Hook {
	return faults.On(func(ctx context.Context, c *faults.Call, next faults.Next) error {
		if since := time.Since(from); since >= 0 && since < d {
			return faults.Delay(d-since, 0)(ctx, c, next)
		}
		return next(ctx)
	}, faults.UpdateItem)
}

// opens returns how many of some requests open a store.
func opens(requests []faults.Request) (n int) {
	for _, r := range requests {
		if in, ok := r.Input.(*dynamodb.BatchGetItemInput); ok {
			for _, of := range in.RequestItems {
				if slices.ContainsFunc(of.Keys, func(key schema.Item) bool { return schema.KeyOf(key) == schema.VersionKey() }) {
					n++
				}
			}
		}
	}
	return n
}

// itemsOf returns the keys of all items of a table, in order.
func itemsOf(t *testing.T, db *dynamolite.DB, table string) (keys []string) {
	t.Helper()
	in := &dynamodb.ScanInput{TableName: &table}
	for {
		out, err := db.Scan(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			keys = append(keys, it["PK"].(*types.AttributeValueMemberS).Value+" "+it["SK"].(*types.AttributeValueMemberS).Value)
		}
		if len(out.LastEvaluatedKey) == 0 {
			slices.Sort(keys)
			return keys
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
