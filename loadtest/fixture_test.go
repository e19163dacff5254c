package loadtest_test

import (
	"context"
	"flag"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
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

// stalling is an engine that answers no item writes during part of the time.
type stalling struct {
	*dynamolite.DB
	from, to atomic.Int64 // nanoseconds
}

func (s *stalling) stall(from time.Time, d time.Duration) {
	s.from.Store(from.UnixNano())
	s.to.Store(from.Add(d).UnixNano())
}

// Immediate hides that the engine itself never waits.
func (*stalling) Immediate() bool { return false }

func (s *stalling) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if now := time.Now().UnixNano(); now >= s.from.Load() && now < s.to.Load() {
		time.Sleep(time.Duration(s.to.Load() - now))
	}
	return s.DB.UpdateItem(ctx, in, opts...)
}

// opening is an engine that counts how often stores on a table were opened.
type opening struct {
	*dynamolite.DB
	table  string
	opened atomic.Int64
}

func (o *opening) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for _, key := range in.RequestItems[o.table].Keys {
		if schema.KeyOf(key) == schema.VersionKey() {
			o.opened.Add(1)
		}
	}
	return o.DB.BatchGetItem(ctx, in, opts...)
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
