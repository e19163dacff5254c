package differential_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// testCase is a sequence of requests to a database that holds some items.
type testCase struct {
	// name is area/subject; the golden file has the name of the area.
	name string
	// setup is the initial contents of the tables.
	setup []stored
	// requests are pointers to the SDK's inputs, sent in order, or one of the kinds of
	// kinds_test.go. A request gets the consumed capacity by index, unless it sets something
	// else.
	requests []any
}

// stored is an item of one of the fixed tables; see tables.
type stored struct {
	table string
	item  fields
}

// outcome is the result of a case, in the canonical form of encode.
type outcome struct {
	// Input is a fingerprint of the case, which detects an outdated golden.
	Input string `json:"input"`
	// Answers has one element for each request sent: the output, or the error.
	Answers []any `json:"answers"`
	// After has the final items under every key that the case mentions.
	After []any `json:"after,omitempty"`
}

// engine is the interface of both sides.
type engine interface { //nolint:interfacebloat // it is all that is compared
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactGetItems(context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error)
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	TagResource(context.Context, *dynamodb.TagResourceInput, ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error)
	UntagResource(context.Context, *dynamodb.UntagResourceInput, ...func(*dynamodb.Options)) (*dynamodb.UntagResourceOutput, error)
	ListTagsOfResource(context.Context, *dynamodb.ListTagsOfResourceInput, ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error)
	DescribeLimits(context.Context, *dynamodb.DescribeLimitsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeLimitsOutput, error)
	DescribeEndpoints(context.Context, *dynamodb.DescribeEndpointsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeEndpointsOutput, error)
}

var (
	_ engine = (*dynamodb.Client)(nil)
	_ engine = (*dynamolite.DB)(nil)
)

// liteEngine returns a new database with all the fixed tables.
func liteEngine(t *testing.T) engine {
	t.Helper()
	db := dynamolite.New(dynamolite.Options{})
	createTables(t, db)
	return db
}

func createTables(t *testing.T, e engine) {
	t.Helper()
	for _, table := range tables() {
		if _, err := e.CreateTable(t.Context(), table); err != nil {
			t.Fatalf("create table %s: %v", *table.TableName, err)
		}
	}
}

// run sends the case's requests to an engine that holds the fixed, empty tables.
func (c *testCase) run(t *testing.T, e engine) outcome {
	t.Helper()
	for _, s := range c.setup {
		put := &dynamodb.PutItemInput{TableName: &s.table, Item: s.item.values()}
		if _, err := e.PutItem(t.Context(), put); err != nil {
			t.Fatalf("set up %s: %v", c.name, err)
		}
	}
	got := outcome{Input: c.fingerprint()}
	for _, request := range c.requests {
		got.Answers = append(got.Answers, send(t, e, request)...)
	}
	for _, key := range c.keys(t) {
		get := &dynamodb.GetItemInput{TableName: &key.table, Key: key.key, ConsistentRead: aws.Bool(true)}
		out, err := e.GetItem(t.Context(), get)
		if err == nil && out.Item != nil { // a request with an invalid key was already refused above
			got.After = append(got.After, encodeItem(out.Item))
		}
	}
	return got
}

// fingerprint changes when the case's setup or requests do.
func (c *testCase) fingerprint() string {
	sum := fnv.New64a()
	for _, s := range c.setup {
		sum.Write(marshal(encodeItem(s.item.values())))
		sum.Write([]byte(s.table))
	}
	for _, request := range c.requests {
		if k, ok := request.(kind); ok {
			sum.Write([]byte(k.label()))
			request = k.sends()
		}
		fmt.Fprintf(sum, "%T", request)
		sum.Write(marshal(encode(request)))
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

// send makes one request and returns its answer; for some kinds, all of them.
func send(t *testing.T, e engine, request any) []any { //nolint:cyclop,funlen // a table of methods
	t.Helper()
	ctx := t.Context()
	switch in := request.(type) {
	case kind:
		return in.send(t, e)
	case *dynamodb.CreateTableInput:
		return []any{answer(ctx, e.CreateTable, in)}
	case *dynamodb.DescribeTableInput:
		return []any{answer(ctx, e.DescribeTable, in)}
	case *dynamodb.UpdateTableInput:
		return []any{answer(ctx, e.UpdateTable, in)}
	case *dynamodb.DeleteTableInput:
		return []any{answer(ctx, e.DeleteTable, in)}
	case *dynamodb.ListTablesInput:
		return []any{answer(ctx, e.ListTables, in)}
	case *dynamodb.UpdateTimeToLiveInput:
		return []any{answer(ctx, e.UpdateTimeToLive, in)}
	case *dynamodb.DescribeTimeToLiveInput:
		return []any{answer(ctx, e.DescribeTimeToLive, in)}
	case *dynamodb.TagResourceInput:
		return []any{answer(ctx, e.TagResource, in)}
	case *dynamodb.UntagResourceInput:
		return []any{answer(ctx, e.UntagResource, in)}
	case *dynamodb.ListTagsOfResourceInput:
		return []any{answer(ctx, e.ListTagsOfResource, in)}
	case *dynamodb.DescribeLimitsInput:
		return []any{answer(ctx, e.DescribeLimits, in)}
	case *dynamodb.DescribeEndpointsInput:
		return []any{answer(ctx, e.DescribeEndpoints, in)}
	case *dynamodb.GetItemInput:
		return []any{answer(ctx, e.GetItem, in)}
	case *dynamodb.PutItemInput:
		return []any{answer(ctx, e.PutItem, in)}
	case *dynamodb.UpdateItemInput:
		return []any{answer(ctx, e.UpdateItem, in)}
	case *dynamodb.DeleteItemInput:
		return []any{answer(ctx, e.DeleteItem, in)}
	case *dynamodb.QueryInput:
		return []any{ordered(answer(ctx, e.Query, in), in.IndexName)}
	case *dynamodb.ScanInput:
		return []any{ordered(answer(ctx, e.Scan, in), in.IndexName)}
	case *dynamodb.BatchGetItemInput:
		return []any{answer(ctx, e.BatchGetItem, in)}
	case *dynamodb.BatchWriteItemInput:
		return []any{answer(ctx, e.BatchWriteItem, in)}
	case *dynamodb.TransactGetItemsInput:
		return []any{answer(ctx, e.TransactGetItems, in)}
	case *dynamodb.TransactWriteItemsInput:
		return []any{answer(ctx, e.TransactWriteItems, in)}
	default:
		t.Fatalf("no method takes a %T", request)
		return nil
	}
}

// answer calls a method of an engine. It copies the input, because the SDK's client puts a random
// token into an input that has none.
func answer[In, Out any](
	ctx context.Context, method func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), in *In,
) any {
	input := *in
	out, err := method(ctx, &input)
	if err != nil {
		return encodeError(err)
	}
	return encode(out)
}

// tableKey is the place of an item.
type tableKey struct {
	table string
	key   map[string]types.AttributeValue
}

// keys returns the keys that the setup and the requests mention, each once.
func (c *testCase) keys(t *testing.T) []tableKey {
	t.Helper()
	var all []tableKey
	seen := map[string]bool{}
	add := func(table *string, item map[string]types.AttributeValue) {
		key := map[string]types.AttributeValue{}
		for _, name := range []string{"pk", "sk"} {
			if v, ok := item[name]; ok {
				key[name] = v
			}
		}
		id := aws.ToString(table) + string(marshal(encodeItem(key)))
		if table != nil && !seen[id] {
			seen[id] = true
			all = append(all, tableKey{*table, key})
		}
	}
	for _, s := range c.setup {
		add(&s.table, s.item.values())
	}
	for _, request := range c.requests {
		switch in := request.(type) {
		case *dynamodb.PutItemInput:
			add(in.TableName, in.Item)
		case *dynamodb.UpdateItemInput:
			add(in.TableName, in.Key)
		case *dynamodb.DeleteItemInput:
			add(in.TableName, in.Key)
		case *dynamodb.BatchWriteItemInput:
			for _, table := range slices.Sorted(maps.Keys(in.RequestItems)) {
				for _, w := range in.RequestItems[table] {
					if w.PutRequest != nil {
						add(&table, w.PutRequest.Item)
					}
				}
			}
		case *dynamodb.TransactWriteItemsInput:
			for _, w := range in.TransactItems {
				if w.Put != nil {
					add(w.Put.TableName, w.Put.Item)
				}
				if w.Update != nil {
					add(w.Update.TableName, w.Update.Key)
				}
			}
		}
	}
	return all
}
