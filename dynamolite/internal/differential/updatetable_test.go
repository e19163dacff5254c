package differential_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// changeTable returns an UpdateTable of the table that cases make.
func changeTable(change func(*dynamodb.UpdateTableInput)) *dynamodb.UpdateTableInput {
	return tweak(&dynamodb.UpdateTableInput{TableName: new("Made")}, change)
}

// addIndex returns an UpdateTable that makes an index, and defines its keys.
func addIndex(spec indexSpec) *dynamodb.UpdateTableInput {
	return changeTable(func(in *dynamodb.UpdateTableInput) {
		in.AttributeDefinitions = spec.keys
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: spec.index.IndexName, KeySchema: spec.index.KeySchema, Projection: spec.index.Projection,
		}}}
	})
}

func dropIndex(name string) *dynamodb.UpdateTableInput {
	return changeTable(func(in *dynamodb.UpdateTableInput) {
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &name}}}
	})
}

// madeSettled is settle for the table that cases make.
var madeSettled = settle{"Made"}

// updateTableCases change tables.
func updateTableCases() []testCase {
	return append(append(addIndexCases(), badIndexCases()...), tableChangeCases()...)
}

// addIndexCases add and drop indexes of tables with items.
func addIndexCases() []testCase {
	all, keysOnly, include := types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude
	items := []any{
		put("Made", fields{"pk": "a", "sk": "1", "gpk": "g", "gsk": 2, "x": 1, "w": 1}),
		put("Made", fields{"pk": "a", "sk": "2", "gpk": "g", "gsk": 1, "x": 2}),
		put("Made", fields{"pk": "b", "sk": "1", "gpk": "h", "gsk": 3}),
		put("Made", fields{"pk": "b", "sk": "2", "gpk": "g"}),
		put("Made", fields{"pk": "b", "sk": "3", "gsk": 4}),
	}
	violations := []any{ // of the type or the size of the index's keys
		put("Made", fields{"pk": "c", "sk": "1", "gpk": 5, "gsk": 4}),
		put("Made", fields{"pk": "c", "sk": "2", "gpk": "g", "gsk": "text"}),
		put("Made", fields{"pk": "c", "sk": "3", "gpk": strings.Repeat("g", 2049), "gsk": 1}),
		put("Made", fields{"pk": "c", "sk": "4", "gpk": "", "gsk": 1}),
	}
	filled := func(requests ...any) []any {
		return append(append([]any{table("Made", "pk:S sk:S")}, items...), requests...)
	}
	sorted := func(condition string, values fields) any { return query("Made.One", condition, values) }
	byG := sorted("gpk = :g", fields{":g": "g"})
	var cases []testCase
	for _, projection := range []types.ProjectionType{all, keysOnly, include} {
		var names []string
		if projection == include {
			names = []string{"x"}
		}
		cases = append(cases, testCase{"updatetable/backfill " + string(projection), nil, filled(
			addIndex(index("One", projection, "gpk:S gsk:N", names...)), madeSettled, byG,
			sorted("gpk = :g AND gsk >= :n", fields{":g": "g", ":n": 2}), sweep{scan("Made.One"), 0},
			put("Made", fields{"pk": "d", "sk": "1", "gpk": "g", "gsk": 0}), byG,
		)})
	}
	return append(cases,
		testCase{"updatetable/backfill of an empty table", nil, []any{table("Made", "pk:S"), addIndex(index("One", all, "gpk:S")), madeSettled, sorted("gpk = :g", fields{":g": "g"})}},
		testCase{"updatetable/backfill with a partition key alone", nil, filled(addIndex(index("One", keysOnly, "gpk:S")), madeSettled, sweep{byG, 0})},
		testCase{"updatetable/backfill on table keys", nil, filled(
			tweak(addIndex(index("One", all, "sk:S pk:S")), func(in *dynamodb.UpdateTableInput) { in.AttributeDefinitions = nil }), madeSettled, sorted("sk = :s", fields{":s": "1"}))},
		testCase{"updatetable/backfill with definitions of all keys", nil, filled(
			tweak(addIndex(index("One", all, "gpk:S pk:S")), func(in *dynamodb.UpdateTableInput) {
				in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: new("sk"), AttributeType: "S"})
			}), madeSettled, sorted("gpk = :s", fields{":s": "g"}))},
		testCase{"updatetable/backfill by pages", nil, filled(addIndex(index("One", all, "gpk:S gsk:N")), madeSettled,
			pages{query("Made.One", "gpk = :g", fields{":g": "g"})}, pages{tweak(query("Made.One", "gpk = :g", fields{":g": "g"}), func(in *dynamodb.QueryInput) { in.Limit = new(int32(1)) })})},
		testCase{"updatetable/writes after a backfill", nil, filled(
			addIndex(index("One", all, "gpk:S gsk:N")), madeSettled,
			put("Made", fields{"pk": "e", "sk": "1", "gpk": 1}),
			tweak(update("SET gsk = :v", fields{":v": 9}), func(in *dynamodb.UpdateItemInput) {
				in.TableName, in.Key = new("Made"), fields{"pk": "a", "sk": "1"}.values()
			}),
			remove("Made", fields{"pk": "a", "sk": "2"}), byG,
		)},
		testCase{"updatetable/backfill of key violations", nil, append(filled(violations...),
			addIndex(index("One", all, "gpk:S gsk:N")), madeSettled, sweep{scan("Made.One"), 0}, byG)},
		testCase{"updatetable/drop an index", nil, filled(
			addIndex(index("One", all, "gpk:S gsk:N")), madeSettled, dropIndex("One"), madeSettled, byG, put("Made", fields{"pk": "e", "sk": "1", "gpk": 1}), scan("Made.One"))},
		testCase{"updatetable/drop an index made with the table", nil, []any{
			table("Made", "pk:S", index("One", all, "a:S"), index("Two", keysOnly, "b:S")), dropIndex("One"), madeSettled, put("Made", fields{"pk": "k", "a": 1, "b": "b"}),
			query("Made.Two", "b = :b", fields{":b": "b"}), dropIndex("Two"), madeSettled,
		}},
		testCase{"updatetable/drop and add again", nil, filled(
			addIndex(index("One", keysOnly, "gpk:S gsk:N")), madeSettled, dropIndex("One"), madeSettled,
			addIndex(index("One", all, "gsk:N")), madeSettled, sorted("gsk = :n", fields{":n": 1}))},
		testCase{"updatetable/two indexes, one after the other", nil, filled(
			addIndex(index("One", keysOnly, "gpk:S gsk:N")), madeSettled, addIndex(index("Two", all, "gsk:N")), madeSettled,
			byG, query("Made.Two", "gsk = :n", fields{":n": 1}), put("Made", fields{"pk": "a", "sk": "1", "gpk": "g", "gsk": 9}))},
		testCase{"updatetable/backfill of many", nil, manyBackfilled()},
		testCase{"updatetable/add beside local indexes", nil, []any{
			local(table("Made", "pk:S sk:S"), index("Two", all, "pk:S a:N")), put("Made", fields{"pk": "p", "sk": "s", "a": 1, "gpk": "g"}),
			addIndex(index("One", all, "gpk:S")), madeSettled, byG, query("Made.Two", "pk = :p", fields{":p": "p"}), put("Made", fields{"pk": "p", "sk": "s", "a": 2, "gpk": "h"}),
		}})
}

// manyBackfilled puts a hundred items before the index exists.
func manyBackfilled() []any {
	requests := []any{table("Made", "pk:S")}
	for batch := range 4 {
		var writes []types.WriteRequest
		for i, k := range numbered(100)[batch*25 : batch*25+25] {
			writes = append(writes, batchPut(k.with(fields{"g": strconv.Itoa(i % 3), "n": batch*25 + i})))
		}
		requests = append(requests, batchWrite("Made", writes...))
	}
	return append(requests, addIndex(index("One", types.ProjectionTypeAll, "g:S n:N")), madeSettled,
		query("Made.One", "g = :g", fields{":g": "1"}), pages{tweak(query("Made.One", "g = :g", fields{":g": "2"}), func(in *dynamodb.QueryInput) { in.Limit = new(int32(7)) })})
}

// badIndexCases are refused.
func badIndexCases() []testCase {
	all, keysOnly, include := types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude
	with := func(spec indexSpec, change func(*dynamodb.UpdateTableInput)) any {
		return tweak(addIndex(spec), change)
	}
	created := func(in *dynamodb.UpdateTableInput) *types.CreateGlobalSecondaryIndexAction {
		return in.GlobalSecondaryIndexUpdates[0].Create
	}
	var many []indexSpec
	for i := range 20 {
		many = append(many, index(fmt.Sprintf("Index%02d", i), keysOnly, "g:S"))
	}
	for i := range many[1:] {
		many[i+1].keys = nil
	}
	var tooMany []string
	for i := range 21 {
		tooMany = append(tooMany, fmt.Sprintf("n%d", i))
	}
	var cases []testCase
	for _, c := range []struct {
		name    string
		request any
	}{
		{"of a taken name", addIndex(index("Has", all, "a:S"))},
		{"of no definition", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { in.AttributeDefinitions = nil })},
		{"of a definition too many", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: new("q"), AttributeType: "S"})
		})},
		{"of a definition of another type", addIndex(index("One", all, "h:N"))},
		{"of a bogus definition", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = []types.AttributeDefinition{{AttributeName: new("a"), AttributeType: "BOOL"}}
		})},
		{"with no key", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { created(in).KeySchema = []types.KeySchemaElement{} })},
		{"with a sort key alone", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { created(in).KeySchema[0].KeyType = types.KeyTypeRange })},
		{"with the same key twice", addIndex(index("One", all, "a:S "+"a:S"))},
		{"without projection", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { created(in).Projection = &types.Projection{} })},
		{"with a bogus projection", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { created(in).Projection.ProjectionType = "BOGUS" })},
		{"that includes nothing", addIndex(index("One", include, "a:S"))},
		{"that names attributes on ALL", addIndex(index("One", all, "a:S", "x"))},
		{"that names attributes on KEYS_ONLY", addIndex(index("One", keysOnly, "a:S", "x"))},
		{"that includes too many", addIndex(index("One", include, "a:S", tooMany...))},
		{"of a short name", addIndex(index("On", all, "a:S"))},
		{"of a bad name", addIndex(index("O/ne", all, "a:S"))},
		{"and another", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			two := addIndex(index("Two", all, "b:S"))
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, two.GlobalSecondaryIndexUpdates...)
			in.AttributeDefinitions = append(in.AttributeDefinitions, two.AttributeDefinitions...)
		})},
		{"and drop another", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, dropIndex("Has").GlobalSecondaryIndexUpdates...)
		})},
		{"and drop it", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, dropIndex("One").GlobalSecondaryIndexUpdates...)
		})},
		{"and drop it in one action", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates[0].Delete = &types.DeleteGlobalSecondaryIndexAction{IndexName: new("Has")}
		})},
	} {
		cases = append(cases, testCase{"updatetable/add an index " + c.name, nil, []any{table("Made", "pk:S", index("Has", all, "h:S")), c.request, madeSettled}})
	}
	for _, c := range []struct { // DynamoDB Local accepts these, so nothing can be compared afterwards
		name    string
		request any
	}{
		{"of a definition twice", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, in.AttributeDefinitions[0])
		})},
		{"with throughput on demand", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { created(in).ProvisionedThroughput = throughput(1, 1) })},
		{"and protect the table", with(index("One", all, "a:S"), func(in *dynamodb.UpdateTableInput) { in.DeletionProtectionEnabled = new(true) })},
	} {
		cases = append(cases, testCase{"updatetable/add an index " + c.name, nil, []any{table("Made", "pk:S", index("Has", all, "h:S")), c.request}})
	}
	for _, c := range []struct {
		name    string
		request any
	}{
		{"drop of an unknown index", dropIndex("None")},
		{"drop of two indexes", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = append(dropIndex("Has").GlobalSecondaryIndexUpdates, dropIndex("Too").GlobalSecondaryIndexUpdates...)
		})},
		{"drop of an index twice", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = append(dropIndex("Has").GlobalSecondaryIndexUpdates, dropIndex("Has").GlobalSecondaryIndexUpdates...)
		})},
		{"drop of a bad name", dropIndex("H")},
		{"drop with a definition", tweak(dropIndex("Has"), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = []types.AttributeDefinition{{AttributeName: new("q"), AttributeType: "S"}}
		})},
		{"drop with the definitions kept", tweak(dropIndex("Has"), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = []types.AttributeDefinition{{AttributeName: new("pk"), AttributeType: "S"}, {AttributeName: new("i"), AttributeType: "S"}}
		})},
		{"empty index update", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{}}
		})},
		{"no index updates", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{}
		})},
		{"throughput of an index on demand", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: new("Has"), ProvisionedThroughput: throughput(2, 2)}}}
		})},
		{"drop with a table key of another type", tweak(dropIndex("Has"), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = []types.AttributeDefinition{{AttributeName: new("pk"), AttributeType: "N"}}
		})},
		{"no index updates and another change", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates, in.DeletionProtectionEnabled = []types.GlobalSecondaryIndexUpdate{}, new(true)
		})},
		{"definitions alone", changeTable(func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = []types.AttributeDefinition{{AttributeName: new("pk"), AttributeType: "S"}}
		})},
	} {
		cases = append(cases, testCase{"updatetable/" + c.name, nil, []any{table("Made", "pk:S", index("Has", all, "h:S"), index("Too", all, "i:S")), c.request, madeSettled}})
	}
	return append(cases,
		testCase{"updatetable/a 21st index", nil, []any{table("Made", "pk:S", many...), addIndex(index("One", all, "a:S")), madeSettled}},
		testCase{"updatetable/index of a missing table", nil, []any{addIndex(index("One", all, "a:S")), dropIndex("One")}},
		testCase{"updatetable/drop a local index", nil, []any{local(table("Made", "pk:S sk:S"), index("Has", all, "pk:S a:S")), dropIndex("Has"), madeSettled}},
		testCase{"updatetable/add one of a local index's name", nil, []any{local(table("Made", "pk:S sk:S"), index("Has", all, "pk:S a:S")), addIndex(index("Has", all, "b:S")), madeSettled}},
		testCase{"updatetable/add a provisioned index", nil, []any{
			tweak(table("Made", "pk:S"), provision(5, 6)), addIndex(index("One", all, "a:S")), madeSettled,
			with(index("Two", all, "b:S"), func(in *dynamodb.UpdateTableInput) { created(in).ProvisionedThroughput = throughput(2, 3) }), madeSettled,
			with(index("Three", all, "c:S"), func(in *dynamodb.UpdateTableInput) { created(in).ProvisionedThroughput = throughput(0, 3) }), madeSettled,
		}})
}

// tableChangeCases change the billing, the throughput, and other settings.
func tableChangeCases() []testCase {
	demand := func(in *dynamodb.UpdateTableInput) { in.BillingMode = types.BillingModePayPerRequest }
	provisioned := func(read, write int64) func(in *dynamodb.UpdateTableInput) {
		return func(in *dynamodb.UpdateTableInput) {
			in.BillingMode, in.ProvisionedThroughput = types.BillingModeProvisioned, throughput(read, write)
		}
	}
	rates := func(read, write int64) func(in *dynamodb.UpdateTableInput) {
		return func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = throughput(read, write) }
	}
	indexRates := func(name string, read, write int64) types.GlobalSecondaryIndexUpdate {
		return types.GlobalSecondaryIndexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: &name, ProvisionedThroughput: throughput(read, write)}}
	}
	paid := tweak(table("Made", "pk:S"), provision(5, 6))
	paidIndexed := tweak(table("Made", "pk:S", index("One", types.ProjectionTypeAll, "a:S")), func(in *dynamodb.CreateTableInput) {
		provision(5, 6)(in)
		in.GlobalSecondaryIndexes[0].ProvisionedThroughput = throughput(7, 8)
	})
	var cases []testCase
	for _, c := range []struct {
		name    string
		table   *dynamodb.CreateTableInput
		changes []func(*dynamodb.UpdateTableInput)
	}{
		{"nothing", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){func(*dynamodb.UpdateTableInput) {}}},
		{"nothing of a provisioned table", paid, []func(*dynamodb.UpdateTableInput){func(*dynamodb.UpdateTableInput) {}}},
		{"on demand to on demand", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){demand}},
		{"on demand to provisioned", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){provisioned(5, 6)}},
		{"on demand to provisioned without throughput", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			in.BillingMode = types.BillingModeProvisioned
		}}},
		{"on demand to provisioned with an index", table("Made", "pk:S", index("One", types.ProjectionTypeAll, "a:S")), []func(*dynamodb.UpdateTableInput){
			provisioned(5, 6),
			func(in *dynamodb.UpdateTableInput) {
				provisioned(5, 6)(in)
				in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{indexRates("One", 3, 4)}
			},
		}},
		{"on demand with throughput", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){rates(5, 6), func(in *dynamodb.UpdateTableInput) {
			demand(in)
			rates(5, 6)(in)
		}}},
		{"provisioned to on demand", paid, []func(*dynamodb.UpdateTableInput){demand, demand}},
		{"provisioned to on demand with an index", paidIndexed, []func(*dynamodb.UpdateTableInput){demand}},
		{"provisioned to on demand and back", paid, []func(*dynamodb.UpdateTableInput){demand, provisioned(1, 2)}},
		{"throughput", paid, []func(*dynamodb.UpdateTableInput){rates(10, 12)}},
		{"throughput down", paid, []func(*dynamodb.UpdateTableInput){rates(1, 1)}},
		{"throughput to the same", paid, []func(*dynamodb.UpdateTableInput){rates(5, 6)}},
		{"throughput of one kind", paid, []func(*dynamodb.UpdateTableInput){rates(5, 7)}},
		{"throughput of zero", paid, []func(*dynamodb.UpdateTableInput){rates(0, 6)}},
		{"throughput negative", paid, []func(*dynamodb.UpdateTableInput){rates(5, -6)}},
		{"throughput with the billing mode", paid, []func(*dynamodb.UpdateTableInput){provisioned(9, 9)}},
		{"billing mode to the same", paid, []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) { in.BillingMode = types.BillingModeProvisioned }}},
		{"throughput of an index", paidIndexed, []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{indexRates("One", 3, 4)}
		}}},
		{"throughput of an index to the same", paidIndexed, []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{indexRates("One", 7, 8)}
		}}},
		{"throughput of an unknown index", paidIndexed, []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{indexRates("Two", 3, 4)}
		}}},
		{"throughput of table and index", paidIndexed, []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			rates(2, 2)(in)
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{indexRates("One", 3, 4)}
		}}},
		{"throughput of an index twice", paidIndexed, []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{indexRates("One", 3, 4), indexRates("One", 4, 4)}
		}}},
		{"bogus billing mode", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) { in.BillingMode = "BOGUS" }}},
		{"bad name", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			demand(in)
			in.TableName = new("no/name")
		}}},
		{"missing table", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) {
			demand(in)
			in.TableName = new("Nowhere")
		}}},
		{"missing table and nothing", table("Made", "pk:S"), []func(*dynamodb.UpdateTableInput){func(in *dynamodb.UpdateTableInput) { in.TableName = new("Nowhere") }}},
	} {
		requests := []any{c.table}
		for _, change := range c.changes {
			requests = append(requests, changeTable(change), madeSettled)
		}
		cases = append(cases, testCase{"updatetable/change " + c.name, nil, requests})
	}
	return cases
}
