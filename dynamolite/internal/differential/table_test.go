package differential_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableCases create, describe and delete tables.
func tableCases() []testCase {
	describe := func(name string) any { return &dynamodb.DescribeTableInput{TableName: &name} }
	drop := func(name string) any { return &dynamodb.DeleteTableInput{TableName: &name} }
	made := func(name string, in *dynamodb.CreateTableInput) testCase {
		return testCase{name: "table/create " + name, requests: []any{in, describe("Made")}}
	}
	element := func(name string, role types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: role}
	}
	all, keysOnly, include := types.ProjectionTypeAll, types.ProjectionTypeKeysOnly, types.ProjectionTypeInclude
	change := func(name string, f func(*dynamodb.CreateTableInput)) testCase {
		return made(name, tweak(table("Made", "pk:S sk:N"), f))
	}
	var hundredNames []string
	for i := range 101 {
		hundredNames = append(hundredNames, fmt.Sprintf("n%d", i))
	}
	var indexes []indexSpec
	for i := range 21 {
		indexes = append(indexes, index(fmt.Sprintf("Index%02d", i), keysOnly, "gpk:S"))
	}
	for i := range indexes[1:] {
		indexes[i+1].keys = nil
	}
	return []testCase{
		made("with a partition key", table("Made", "pk:S")),
		made("with a sort key", table("Made", "pk:S sk:N")),
		made("with binary keys", table("Made", "pk:B sk:B")),
		made("with indexes", table("Made", "pk:S sk:S", index("One", all, "a:S b:N"), index("Two", keysOnly, "c:B"), index("Three", include, "d:S", "x", "y"))),
		made("with 20 indexes", table("Made", "pk:S", indexes[:20]...)),
		made("with 21 indexes", table("Made", "pk:S", indexes...)),
		made("with two indexes of one name", table("Made", "pk:S", index("One", all, "a:S"), index("One", all, "b:S"))),
		made("with an index on its own key", tweak(table("Made", "pk:S sk:S", index("One", all, "sk:S pk:S")), func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = in.AttributeDefinitions[:2]
		})),
		made("with an index that includes nothing", table("Made", "pk:S", index("One", include, "a:S"))),
		made("with names on KEYS_ONLY", table("Made", "pk:S", index("One", keysOnly, "a:S", "x"))),
		made("with too many included", table("Made", "pk:S", index("One", include, "a:S", hundredNames...))),
		made("with an index of a bad name", table("Made", "pk:S", index("On", all, "a:S"))),
		made("with a bogus projection", table("Made", "pk:S", index("One", "BOGUS", "a:S"))),
		change("without definitions", func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions = []types.AttributeDefinition{} }),
		change("with too few definitions", func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions = in.AttributeDefinitions[:1] }),
		change("with too many definitions", func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: new("x"), AttributeType: "S"})
		}),
		change("with one definition twice", func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: new("pk"), AttributeType: "S"})
		}),
		change("with a bool key", func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions[1].AttributeType = "BOOL" }),
		change("without keys", func(in *dynamodb.CreateTableInput) { in.KeySchema = []types.KeySchemaElement{} }),
		change("with only a sort key", func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions = in.KeySchema[1:], in.AttributeDefinitions[1:]
		}),
		change("with keys in the wrong order", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = []types.KeySchemaElement{element("sk", types.KeyTypeRange), element("pk", types.KeyTypeHash)}
		}),
		change("with two partition keys", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = []types.KeySchemaElement{element("pk", types.KeyTypeHash), element("sk", types.KeyTypeHash)}
		}),
		change("with one key in both roles", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = []types.KeySchemaElement{element("pk", types.KeyTypeHash), element("pk", types.KeyTypeRange)}
			in.AttributeDefinitions = in.AttributeDefinitions[:1]
		}),
		change("with three keys", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = append(in.KeySchema, element("x", types.KeyTypeRange))
		}),
		change("with a bogus billing mode", func(in *dynamodb.CreateTableInput) { in.BillingMode = "BOGUS" }),
		change("provisioned without throughput", func(in *dynamodb.CreateTableInput) { in.BillingMode = types.BillingModeProvisioned }),
		change("provisioned", func(in *dynamodb.CreateTableInput) {
			in.BillingMode = types.BillingModeProvisioned
			in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: new(int64(5)), WriteCapacityUnits: new(int64(5))}
		}),
		change("on demand with throughput", func(in *dynamodb.CreateTableInput) {
			in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: new(int64(5)), WriteCapacityUnits: new(int64(5))}
		}),
		{"table/create twice", nil, []any{table("Made", "pk:S"), table("Made", "pk:S")}},
		{"table/create with a short name", nil, []any{table("ab", "pk:S")}},
		{"table/create with a long name", nil, []any{table(strings.Repeat("t", 256), "pk:S")}},
		{"table/create with a bad name", nil, []any{table("no/name", "pk:S")}},
		{"table/create with odd good name", nil, []any{table("T.a-b_1", "pk:S"), describe("T.a-b_1")}},
		{"table/describe nothing", nil, []any{describe("Nowhere")}},
		{"table/describe", nil, []any{describe(hashTable), describe(indexedTable)}},
		{"table/delete", nil, []any{table("Made", "pk:S"), put("Made", key), drop("Made"), drop("Made"), describe("Made"), get("Made", key)}},
		{"table/delete nothing", nil, []any{drop("Nowhere")}},
		{"table/delete and create again", nil, []any{table("Made", "pk:S"), put("Made", key), drop("Made"), table("Made", "pk:S"), get("Made", key), drop("Made")}},
	}
}
