package dynamo_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		projection dynamo.Projection
		update     float64 // cost of a write that moves no key
	}{{dynamo.ProjectKeys, 1}, {dynamo.ProjectAll, 2}} {
		db := testbed.NewEngine(t, dynamolite.Options{})
		if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: table, GSI2Projection: c.projection}); err != nil {
			t.Fatal(err)
		}
		m := dynamo.NewMeter(db)
		s := fixture.OpenStore(t, m)
		_, ns := s.Namespace()
		opened := m.Totals()
		if diff := cmp.Diff(dynamo.Totals{"BatchGetItem": {Requests: 1, RCU: 2}}, opened); diff != "" {
			t.Errorf("open (-want +got):\n%s", diff)
		}
		b := store.Bucket{Entity: "user", Resource: "gpt-4"}
		fixture.PutBucket(t, s, m, "user", "gpt-4", 0, 1) // table, GSI2, GSI3, GSI4
		in := &dynamodb.UpdateItemInput{
			TableName: aws.String(table), Key: schema.BucketKey(ns, b).Item(),
			UpdateExpression: aws.String("ADD b_rpm_tk :one"), ExpressionAttributeValues: schema.Item{":one": schema.N(1)},
		}
		if _, err := m.UpdateItem(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if in.ReturnConsumedCapacity != "" {
			t.Error("the caller's input was changed")
		}
		in.ConditionExpression = aws.String("attribute_not_exists(PK)")
		if _, err := m.UpdateItem(t.Context(), in); err == nil {
			t.Fatal("the condition held")
		}
		if _, err := s.Buckets(t.Context(), "user", "gpt-4", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := resourceBuckets(t.Context(), s, "gpt-4"); err != nil {
			t.Fatal(err)
		}
		fixture.CreateEntity(t, s, store.Entity{ID: "proj"})
		if _, err := s.CreateEntity(t.Context(), store.Entity{ID: "x", Parent: "nobody"}); err == nil {
			t.Fatal("there is no parent")
		}
		want := dynamo.Totals{
			"PutItem":            {Requests: 1, WCU: 4},
			"UpdateItem":         {Requests: 2, Failed: 1, WCU: c.update + 1},
			"Query":              {Requests: 17, RCU: 8.5}, // one for each partition of the index
			"BatchGetItem":       {Requests: 2, RCU: 1.5},
			"GetItem":            {Requests: 1, RCU: 1},
			"TransactWriteItems": {Requests: 2, Failed: 1, WCU: 8 + 6},
		}
		got := m.Totals().Sub(opened)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.projection, diff)
		}
		if sum := got.Sum(); sum.Requests != 25 || sum.Failed != 2 || sum.RCU != 11 || sum.WCU != 4+c.update+1+8+6 {
			t.Errorf("%s: sum is %+v", c.projection, sum)
		}
	}
}

// A refused write costs one unit for each started KB of the item that refused it.
func TestMeterChargesFailuresBySize(t *testing.T) {
	t.Parallel()
	m := dynamo.NewMeter(fixture.NewTable(t))
	it := schema.Key{PK: "a", SK: "b"}.Item()
	it["x"] = schema.S(strings.Repeat("x", 2048))
	fixture.Put(t, m, it)
	before := m.Totals()
	_, err := m.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(table), Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if got, want := m.Totals().Sub(before), (dynamo.Totals{"PutItem": {Requests: 1, Failed: 1, WCU: 3}}); err == nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestMeterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := dynamo.NewMeter(fixture.NewTable(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				fixture.Get(t, m, schema.VersionKey())
				m.Totals()
			}
		})
	}
	wg.Wait()
	if got := m.Totals().Sum().Requests; got != 400 {
		t.Errorf("counted %d requests, want 400", got)
	}
}
