package dynamolite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// warmUpdate returns a database with an item of 25 attributes under four indexes that contain it.
// The update changes none of the indexes: six additions under a condition of ten terms, answered
// with the whole new item.
func warmUpdate(tb testing.TB) (*dynamolite.DB, *dynamodb.UpdateItemInput) {
	tb.Helper()
	db := dynamolite.New(dynamolite.Options{})
	table := &dynamodb.CreateTableInput{
		TableName: ptr("bench"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: schemaOf("PK", "SK"), AttributeDefinitions: definitionsOf("PK:S", "SK:S"),
	}
	key := attrs{"PK": str("0123456789/ENTITY#user-1"), "SK": str("#BUCKET#gpt-4#0")}
	item := with(key, attrs{"entity": str("user-1"), "resource": str("gpt-4"), "rf": num("1790000000000")})
	for i := range 4 {
		hash, rng := fmt.Sprintf("GSI%dPK", i), fmt.Sprintf("GSI%dSK", i)
		table.AttributeDefinitions = append(table.AttributeDefinitions, definitionsOf(hash+":S", rng+":S")...)
		table.GlobalSecondaryIndexes = append(table.GlobalSecondaryIndexes,
			gsiOf(fmt.Sprint("GSI", i), types.ProjectionTypeKeysOnly, nil, hash, rng))
		item[hash], item[rng] = str("0123456789/RESOURCE#gpt-4"), str("BUCKET#user-1#0")
	}
	for i := range 3 {
		for _, field := range []string{"tk", "tc", "cp", "ra"} {
			item[fmt.Sprintf("b_l%d_%s", i, field)] = num("900000000000000000")
		}
	}
	if len(item) != 25 {
		tb.Fatalf("the item has %d attributes, want 25", len(item))
	}
	if _, err := db.CreateTable(tb.Context(), table); err != nil {
		tb.Fatal(err)
	}
	if _, err := db.PutItem(tb.Context(), &dynamodb.PutItemInput{TableName: ptr("bench"), Item: item}); err != nil {
		tb.Fatal(err)
	}
	in := &dynamodb.UpdateItemInput{
		TableName: ptr("bench"), Key: key, ReturnValues: types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ExpressionAttributeNames:            map[string]string{"#rf": "rf", "#pk": "PK"},
		ExpressionAttributeValues:           attrs{":minus": num("-1"), ":one": num("1"), ":rf": num("1800000000000"), ":n": num("2")},
	}
	var adds, terms []string
	for i := range 3 {
		tk, tc, cp := fmt.Sprintf("#t%d", i), fmt.Sprintf("#c%d", i), fmt.Sprintf("#m%d", i)
		in.ExpressionAttributeNames[tk] = fmt.Sprintf("b_l%d_tk", i)
		in.ExpressionAttributeNames[tc] = fmt.Sprintf("b_l%d_tc", i)
		in.ExpressionAttributeNames[cp] = fmt.Sprintf("b_l%d_cp", i)
		adds = append(adds, tk+" :minus", tc+" :one")
		terms = append(terms, tk+" >= :one", cp+" > :n")
	}
	terms = append(terms, "attribute_exists(#pk)", "#rf <= :rf", "attribute_not_exists(disabled)", "(attribute_not_exists(vu) OR vu > :rf)")
	in.UpdateExpression = ptr("ADD " + strings.Join(adds, ", "))
	in.ConditionExpression = ptr(strings.Join(terms, " AND "))
	return db, in
}

func BenchmarkUpdateItemWarm(b *testing.B) {
	db, in := warmUpdate(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.UpdateItem(ctx, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdateItemWarmParallel(b *testing.B) {
	db, in := warmUpdate(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := db.UpdateItem(ctx, in); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// The same update fails its condition: the image comes back in the error.
func BenchmarkUpdateItemRefused(b *testing.B) {
	db, in := warmUpdate(b)
	in.ExpressionAttributeValues[":rf"] = num("0")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.UpdateItem(ctx, in); err == nil {
			b.Fatal("the condition should have failed")
		}
	}
}

func BenchmarkGetItem(b *testing.B) {
	db, in := warmUpdate(b)
	get := &dynamodb.GetItemInput{TableName: in.TableName, Key: in.Key}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.GetItem(ctx, get); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutItem(b *testing.B) {
	db, in := warmUpdate(b)
	ctx := b.Context()
	got, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: in.TableName, Key: in.Key})
	if err != nil {
		b.Fatal(err)
	}
	put := &dynamodb.PutItemInput{TableName: in.TableName, Item: got.Item}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.PutItem(ctx, put); err != nil {
			b.Fatal(err)
		}
	}
}

// Allocations are the part of the cost that does not depend on the machine. Not parallel: the
// allocations of other tests would be counted.
func TestAllocationBudget(t *testing.T) {
	db, in := warmUpdate(t)
	refused := *in
	refused.ExpressionAttributeValues = with(in.ExpressionAttributeValues, attrs{":rf": num("0")})
	ctx := t.Context()
	for _, tt := range []struct {
		name   string
		budget float64
		do     func()
	}{
		{"UpdateItem", 40, func() {
			if _, err := db.UpdateItem(ctx, in); err != nil {
				t.Error(err)
			}
		}},
		{"refused UpdateItem", 30, func() {
			_, err := db.UpdateItem(ctx, &refused)
			if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); !ok {
				t.Error(err)
			}
		}},
		{"GetItem", 15, func() {
			if _, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: in.TableName, Key: in.Key}); err != nil {
				t.Error(err)
			}
		}},
	} {
		if got := testing.AllocsPerRun(200, tt.do); got > tt.budget {
			t.Errorf("%s makes %v allocations, more than its budget of %v", tt.name, got, tt.budget)
		}
	}
}
