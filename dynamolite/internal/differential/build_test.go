package differential_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The vocabulary of the cases.

// Plain Go values stand for attribute values: a string for S, an int for N, []byte for B, bool
// for BOOL, nil for NULL, []any for L, fields for M. The other types have the types below.
type (
	num  string   // N, by its digits
	strs []string // SS
	nums []string // NS
	bins []string // BS
)

func attribute(v any) types.AttributeValue {
	switch v := v.(type) {
	case types.AttributeValue:
		return v
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}
	case string:
		return &types.AttributeValueMemberS{Value: v}
	case int:
		return &types.AttributeValueMemberN{Value: strconv.Itoa(v)}
	case num:
		return &types.AttributeValueMemberN{Value: string(v)}
	case []byte:
		return &types.AttributeValueMemberB{Value: v}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case []any:
		list := make([]types.AttributeValue, len(v))
		for i, e := range v {
			list[i] = attribute(e)
		}
		return &types.AttributeValueMemberL{Value: list}
	case fields:
		return &types.AttributeValueMemberM{Value: v.values()}
	case strs:
		return &types.AttributeValueMemberSS{Value: append([]string{}, v...)}
	case nums:
		return &types.AttributeValueMemberNS{Value: append([]string{}, v...)}
	case bins:
		list := make([][]byte, len(v))
		for i, e := range v {
			list[i] = []byte(e)
		}
		return &types.AttributeValueMemberBS{Value: list}
	default:
		panic(fmt.Sprintf("no attribute value for a %T", v))
	}
}

// The fixed tables. All have the partition key pk, which is a string except in binaryTable.
const (
	hashTable    = "Hash"     // no sort key
	rangeTable   = "Range"    // sk is a string
	numberTable  = "Number"   // sk is a number
	binaryTable  = "Binary"   // pk and sk are binary
	indexedTable = "Indexed"  // sk is a string, and it has the next three indexes
	allIndex     = "All"      // gpk (S), gsk (N); projects everything
	keysIndex    = "Keys"     // kpk (S); projects the keys
	someIndex    = "Some"     // spk (S), ssk (S); projects x and y
	localTable   = "Local"    // sk is a string, and it has the next four indexes, all local but the last
	byNumber     = "ByNumber" // nsk (N); projects everything
	byText       = "ByText"   // tsk (S); projects the keys
	bySome       = "BySome"   // ssk (S); projects x and y
	besideIndex  = "Beside"   // gpk (S), nsk (N); projects the keys; global
)

// indexKeys are the key attributes of the indexes of the fixed tables.
var indexKeys = map[string]struct{ hash, rng string }{
	allIndex: {"gpk", "gsk"}, keysIndex: {"kpk", ""}, someIndex: {"spk", "ssk"},
	byNumber: {"pk", "nsk"}, byText: {"pk", "tsk"}, bySome: {"pk", "ssk"}, besideIndex: {"gpk", "nsk"},
}

// tables returns the requests that create the fixed tables.
func tables() []*dynamodb.CreateTableInput {
	return []*dynamodb.CreateTableInput{
		table(hashTable, "pk:S"),
		table(rangeTable, "pk:S sk:S"),
		table(numberTable, "pk:S sk:N"),
		table(binaryTable, "pk:B sk:B"),
		table(indexedTable, "pk:S sk:S",
			index(allIndex, types.ProjectionTypeAll, "gpk:S gsk:N"),
			index(keysIndex, types.ProjectionTypeKeysOnly, "kpk:S"),
			index(someIndex, types.ProjectionTypeInclude, "spk:S ssk:S", "x", "y")),
		local(table(localTable, "pk:S sk:S", index(besideIndex, types.ProjectionTypeKeysOnly, "gpk:S nsk:N")),
			index(byNumber, types.ProjectionTypeAll, "pk:S nsk:N"),
			index(byText, types.ProjectionTypeKeysOnly, "pk:S tsk:S"),
			index(bySome, types.ProjectionTypeInclude, "pk:S ssk:S", "x", "y")),
	}
}

// indexSpec is an index with the types of its keys.
type indexSpec struct {
	index types.GlobalSecondaryIndex
	keys  []types.AttributeDefinition
}

// table makes a request for an on-demand table. Keys are written as name:type, the partition key
// first.
func table(name, keys string, indexes ...indexSpec) *dynamodb.CreateTableInput {
	schema, definitions := keySchema(keys)
	in := &dynamodb.CreateTableInput{
		TableName: &name, KeySchema: schema, AttributeDefinitions: definitions,
		BillingMode: types.BillingModePayPerRequest,
	}
	for _, spec := range indexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, spec.index)
		in.AttributeDefinitions = append(in.AttributeDefinitions, spec.keys...)
	}
	return in
}

func index(name string, projection types.ProjectionType, keys string, include ...string) indexSpec {
	schema, definitions := keySchema(keys)
	return indexSpec{types.GlobalSecondaryIndex{
		IndexName: &name, KeySchema: schema,
		Projection: &types.Projection{ProjectionType: projection, NonKeyAttributes: include},
	}, definitions}
}

// local adds local secondary indexes to the request for a table, and the missing definitions of
// their keys.
func local(in *dynamodb.CreateTableInput, indexes ...indexSpec) *dynamodb.CreateTableInput {
	for _, spec := range indexes {
		in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{
			IndexName: spec.index.IndexName, KeySchema: spec.index.KeySchema, Projection: spec.index.Projection,
		})
		for _, d := range spec.keys {
			if !slices.ContainsFunc(in.AttributeDefinitions, func(has types.AttributeDefinition) bool { return *has.AttributeName == *d.AttributeName }) {
				in.AttributeDefinitions = append(in.AttributeDefinitions, d)
			}
		}
	}
	return in
}

func keySchema(keys string) (schema []types.KeySchemaElement, definitions []types.AttributeDefinition) {
	role := types.KeyTypeHash
	for key := range strings.FieldsSeq(keys) {
		name, kind := key[:len(key)-2], key[len(key)-1:]
		schema = append(schema, types.KeySchemaElement{AttributeName: &name, KeyType: role})
		definitions = append(definitions, types.AttributeDefinition{
			AttributeName: &name, AttributeType: types.ScalarAttributeType(kind),
		})
		role = types.KeyTypeRange
	}
	return schema, definitions
}

// key is the key of cases that can use any key.
var key = fields{"pk": "k"}

// one returns an item of the hash table under that key.
func one(item fields) []stored { return []stored{{hashTable, key.with(item)}} }

// many returns items of one table.
func many(table string, items ...fields) []stored {
	var all []stored
	for _, item := range items {
		all = append(all, stored{table, item})
	}
	return all
}

// names returns expression attribute names: alias, name, alias, name.
func names(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// update returns an UpdateItem of the hash table's usual item. The answer has the whole new item.
func update(expression string, values fields) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(hashTable), Key: key.values(),
		UpdateExpression:          text(expression),
		ExpressionAttributeValues: values.values(),
		ReturnValues:              types.ReturnValueAllNew,
	}
}

// check returns an UpdateItem that changes nothing, under a condition. The answer has the item in
// either case.
func check(condition string, values fields, aliases ...string) *dynamodb.UpdateItemInput {
	in := update("", values)
	in.ConditionExpression = &condition
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	if len(aliases) > 0 {
		in.ExpressionAttributeNames = names(aliases...)
	}
	return in
}

func put(table string, item fields) *dynamodb.PutItemInput {
	return &dynamodb.PutItemInput{TableName: &table, Item: item.values()}
}

func get(table string, key fields) *dynamodb.GetItemInput {
	return &dynamodb.GetItemInput{TableName: &table, Key: key.values()}
}

func remove(table string, key fields) *dynamodb.DeleteItemInput {
	return &dynamodb.DeleteItemInput{TableName: &table, Key: key.values()}
}

// query returns a Query of a table or, written Table.Index, of an index.
func query(where, condition string, values fields) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		KeyConditionExpression: &condition, ExpressionAttributeValues: values.values(),
	}
	if table, index, ok := strings.Cut(where, "."); ok {
		where, in.IndexName = table, &index
	}
	in.TableName = &where
	return in
}

// scan returns a Scan of a table or, written Table.Index, of an index.
func scan(where string) *dynamodb.ScanInput {
	in := &dynamodb.ScanInput{}
	if table, index, ok := strings.Cut(where, "."); ok {
		where, in.IndexName = table, &index
	}
	in.TableName = &where
	return in
}

// text returns nil for the empty string, which stands for an absent expression.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// tweak changes a request in place, for a parameter that only one case needs.
func tweak[In any](in *In, change func(*In)) *In {
	change(in)
	return in
}

// bill requests the consumed capacity by index if a request does not set it. Transactions must
// request it themselves; see the deviation on them.
func bill(request any) {
	ask := func(r *types.ReturnConsumedCapacity) {
		if *r == "" {
			*r = types.ReturnConsumedCapacityIndexes
		}
	}
	switch in := request.(type) {
	case kind:
		bill(in.sends())
	case *dynamodb.ScanInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.GetItemInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.PutItemInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.UpdateItemInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.DeleteItemInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.QueryInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.BatchGetItemInput:
		ask(&in.ReturnConsumedCapacity)
	case *dynamodb.BatchWriteItemInput:
		ask(&in.ReturnConsumedCapacity)
	}
}
