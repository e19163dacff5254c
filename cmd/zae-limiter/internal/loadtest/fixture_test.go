package loadtest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/loadtest/result"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// run runs a scenario that must succeed.
func run(t *testing.T, o loadtest.Options) *result.Result {
	t.Helper()
	r, err := loadtest.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// builtin returns a scenario of the program that lasts a time.
func builtin(tb testing.TB, name string, lasting time.Duration) *scenario.Scenario {
	tb.Helper()
	s, err := scenario.Builtin(name)
	if err != nil {
		tb.Fatal(err)
	}
	return s.Scaled(lasting)
}

// at gives the first class of a scenario a constant rate.
func at(s *scenario.Scenario, rate float64, clients int) *scenario.Scenario {
	s.Classes = slices.Clone(s.Classes)
	s.Classes[0].Arrival = scenario.Arrival{Stages: []scenario.Stage{{FromRate: rate, ToRate: rate}}, Clients: clients}
	return s
}

// limited gives the only resource of a scenario one limit.
func limited(s *scenario.Scenario, l store.Limit) *scenario.Scenario {
	s.Resources = []scenario.Resource{{Name: s.Resources[0].Name, Limits: []store.Limit{l}}}
	s.Classes[0].Calls = []scenario.Call{{Weight: 1, Consume: []scenario.Amount{{Limit: l.Name, Least: 1, Most: 1}}}}
	return s
}

// of gives the only population of a scenario a number of entities.
func of(s *scenario.Scenario, entities int) *scenario.Scenario {
	s.Populations = slices.Clone(s.Populations)
	s.Populations[0].Count = entities
	return s
}

// options are the options of a run on its own engine.
func options(s *scenario.Scenario, engine dynamolite.Options) (o loadtest.Options, db *dynamolite.DB) {
	db = dynamolite.New(engine)
	return loadtest.Options{Scenario: s, API: db, Table: "limits", Namespace: "load-test"}, db
}

// class is the first class of the first phase of a side.
func class(s *result.Side) *result.Class { return &s.Phases[0].Classes[0] }

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
