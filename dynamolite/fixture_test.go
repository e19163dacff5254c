package dynamolite_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// attrs is an item, a key, or expression values.
type attrs = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
func bin(s string) types.AttributeValue { return &types.AttributeValueMemberB{Value: []byte(s)} }
func blob(n int) types.AttributeValue   { return str(strings.Repeat("x", n)) }

func strSet(s ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: s} }
func doc(m attrs) types.AttributeValue        { return &types.AttributeValueMemberM{Value: m} }
func keyed(pk, sk string) attrs               { return attrs{"pk": str(pk), "sk": str(sk)} }
func with(item, more attrs) attrs {
	out := attrs{}
	maps.Copy(out, item)
	maps.Copy(out, more)
	return out
}

// The table of most tests. Each index has its own keys, so that a test touches only the index
// that it checks.
const (
	mainTable = "main"     // pk S, sk S
	otherName = "other"    // id S, no sort key, no index
	fullIndex = "full"     // fpk S, fsk N; ALL
	keysOnly  = "keysonly" // kpk S; KEYS_ONLY
	someAttrs = "some"     // spk S, ssk S; INCLUDE x, y
)

func schemaOf(names ...string) []types.KeySchemaElement {
	kinds := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}
	var out []types.KeySchemaElement
	for i, name := range names {
		out = append(out, types.KeySchemaElement{AttributeName: &name, KeyType: kinds[min(i, 1)]})
	}
	return out
}

// definitionsOf reads "name:type" pairs.
func definitionsOf(pairs ...string) []types.AttributeDefinition {
	var out []types.AttributeDefinition
	for _, pair := range pairs {
		name, kind, _ := strings.Cut(pair, ":")
		out = append(out, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeType(kind)})
	}
	return out
}

func gsiOf(name string, projection types.ProjectionType, include []string, keys ...string) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{
		IndexName: &name, KeySchema: schemaOf(keys...),
		Projection: &types.Projection{ProjectionType: projection, NonKeyAttributes: include},
	}
}

func mainInput() *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            ptr(mainTable),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            schemaOf("pk", "sk"),
		AttributeDefinitions: definitionsOf("pk:S", "sk:S", "fpk:S", "fsk:N", "kpk:S", "spk:S", "ssk:S"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			gsiOf(fullIndex, types.ProjectionTypeAll, nil, "fpk", "fsk"),
			gsiOf(keysOnly, types.ProjectionTypeKeysOnly, nil, "kpk"),
			gsiOf(someAttrs, types.ProjectionTypeInclude, []string{"x", "y"}, "spk", "ssk"),
		},
	}
}

func otherInput() *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            ptr(otherName),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            schemaOf("id"),
		AttributeDefinitions: definitionsOf("id:S"),
	}
}

func ptr[T any](v T) *T { return new(v) }

// fixture is a database with the tables above.
type fixture struct {
	t  testing.TB
	db *dynamolite.DB
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	return fixtureIn(tb, dynamolite.New(dynamolite.Options{}))
}

func fixtureIn(tb testing.TB, db *dynamolite.DB) *fixture {
	tb.Helper()
	f := &fixture{tb, db}
	for _, in := range []*dynamodb.CreateTableInput{mainInput(), otherInput()} {
		if _, err := db.CreateTable(tb.Context(), in); err != nil {
			tb.Fatal(err)
		}
	}
	return f
}

// put stores items in the main table.
func (f *fixture) put(items ...attrs) {
	f.t.Helper()
	for _, item := range items {
		if _, err := f.db.PutItem(f.t.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: item}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// get reads an item of the main table.
func (f *fixture) get(key attrs) attrs {
	f.t.Helper()
	out, err := f.db.GetItem(f.t.Context(), &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: key, ConsistentRead: ptr(true)})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Item
}

// update updates an item of the main table without conditions.
func (f *fixture) update(key attrs, expression string, values attrs) {
	f.t.Helper()
	if _, err := f.db.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
		TableName: ptr(mainTable), Key: key, UpdateExpression: &expression, ExpressionAttributeValues: values,
	}); err != nil {
		f.t.Fatal(err)
	}
}

// query queries the main table, or an index of it.
func (f *fixture) query(in *dynamodb.QueryInput) *dynamodb.QueryOutput {
	f.t.Helper()
	in.TableName = ptr(mainTable)
	out, err := f.db.Query(f.t.Context(), in)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// entries returns the entries of an index under one partition key.
func (f *fixture) entries(index, attribute, value string) []attrs {
	f.t.Helper()
	return f.query(&dynamodb.QueryInput{
		IndexName: &index, KeyConditionExpression: ptr(attribute + " = :v"), ExpressionAttributeValues: attrs{":v": str(value)},
	}).Items
}

// diff compares the values in the SDK's types.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(
		types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{},
		types.AttributeValueMemberNULL{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{},
		types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.ConsumedCapacity{}, types.Capacity{}, types.KeysAndAttributes{},
		types.CancellationReason{}, types.ItemResponse{},
	))
}

func mustEqual(tb testing.TB, what string, want, got any) {
	tb.Helper()
	if d := diff(want, got); d != "" {
		tb.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wantInvalid checks for a ValidationException that mentions a text. It must be wrapped as the
// SDK's client wraps it.
func wantInvalid(tb testing.TB, err error, mention string) {
	tb.Helper()
	if err == nil {
		tb.Errorf("succeeded, want a ValidationException that mentions %q", mention)
		return
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || api.ErrorCode() != "ValidationException" || api.ErrorFault() != smithy.FaultClient {
		tb.Errorf("got %v, want a ValidationException", err)
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); !ok || !strings.HasPrefix(op.Service(), "DynamoDB") || op.Operation() == "" {
		tb.Errorf("%v does not name its operation", err)
	}
	if !strings.Contains(err.Error(), mention) {
		tb.Errorf("%v does not mention %q", err, mention)
	}
}
