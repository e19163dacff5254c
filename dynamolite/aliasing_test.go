package dynamolite_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// fullItem returns an item with every type that can be changed through a reference.
func fullItem() attrs {
	return with(keyed("a", "b"), attrs{
		"fpk": str("f"), "fsk": num("1"), "kpk": str("k"),
		"s": str("s"), "n": num("1"), "b": bin("b"), "bool": &types.AttributeValueMemberBOOL{Value: true},
		"null": &types.AttributeValueMemberNULL{Value: true}, "ss": strSet("a", "b"),
		"ns": &types.AttributeValueMemberNS{Value: []string{"1", "2"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
		"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{str("x"), num("1")}},
		"m": doc(attrs{"x": str("x"), "deep": doc(attrs{"y": bin("y")})}),
	})
}

// scribble changes everything that is reachable from an item.
func scribble(item attrs) {
	for name, v := range item {
		scribbleOn(v)
		item[name] = str("scribbled")
	}
	item["new"] = str("scribbled")
}

func scribbleOn(v types.AttributeValue) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		v.Value = "scribbled"
	case *types.AttributeValueMemberN:
		v.Value = "666"
	case *types.AttributeValueMemberB:
		v.Value[0] = 'Z'
	case *types.AttributeValueMemberBOOL:
		v.Value = !v.Value
	case *types.AttributeValueMemberNULL:
		v.Value = !v.Value
	case *types.AttributeValueMemberSS:
		v.Value[0] = "scribbled"
	case *types.AttributeValueMemberNS:
		v.Value[0] = "666"
	case *types.AttributeValueMemberBS:
		v.Value[0][0] = 'Z'
	case *types.AttributeValueMemberL:
		scribbleOn(v.Value[0])
		v.Value[len(v.Value)-1] = str("scribbled")
	case *types.AttributeValueMemberM:
		scribble(v.Value)
	}
}

// No input or output of a call is an alias of stored data.
func TestNoAliases(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	table := ptr(mainTable)
	key := func() attrs { return keyed("a", "b") }
	values := func() attrs {
		v := attrs{}
		for name, value := range fullItem() {
			if _, isKey := key()[name]; !isKey && name != "fpk" && name != "fsk" && name != "kpk" {
				v[":"+name] = value
			}
		}
		return v
	}
	const setAll = "SET s = :s, n = :n, b = :b, #bool = :bool, #null = :null, ss = :ss, ns = :ns, bs = :bs, l = :l, m = :m"
	aliases := map[string]string{"#bool": "bool", "#null": "null"}
	for _, step := range []struct {
		name string
		do   func() ([]attrs, error) // returns its inputs and outputs
	}{
		{"put", func() ([]attrs, error) {
			in := fullItem()
			out, err := f.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: in, ReturnValues: "ALL_OLD"})
			if err != nil {
				return nil, err
			}
			return []attrs{in, out.Attributes}, nil
		}},
		{"update", func() ([]attrs, error) {
			k, v := key(), values()
			out, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: table, Key: k, UpdateExpression: ptr(setAll), ExpressionAttributeValues: v,
				ExpressionAttributeNames: aliases, ReturnValues: "ALL_NEW",
			})
			if err != nil {
				return nil, err
			}
			return []attrs{k, v, out.Attributes}, nil
		}},
		{"update, old", func() ([]attrs, error) {
			out, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: table, Key: key(), UpdateExpression: ptr("SET m.x = m.x, l[0] = l[0], ss = ss"), ReturnValues: "UPDATED_OLD",
			})
			if err != nil {
				return nil, err
			}
			return []attrs{out.Attributes}, nil
		}},
		{"update, new", func() ([]attrs, error) {
			out, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: table, Key: key(), UpdateExpression: ptr("SET m.x = m.x, b = b, bs = bs"), ReturnValues: "UPDATED_NEW",
			})
			if err != nil {
				return nil, err
			}
			return []attrs{out.Attributes}, nil
		}},
		{"upsert", func() ([]attrs, error) {
			if _, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: table, Key: key()}); err != nil {
				return nil, err
			}
			k, v := key(), values()
			v[":fpk"], v[":fsk"], v[":kpk"] = str("f"), num("1"), str("k")
			_, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: table, Key: k, UpdateExpression: ptr(setAll + ", fpk = :fpk, fsk = :fsk, kpk = :kpk"),
				ExpressionAttributeValues: v, ExpressionAttributeNames: aliases,
			})
			return []attrs{k, v}, err
		}},
		{"get", func() ([]attrs, error) { return []attrs{f.get(key())}, nil }},
		{"projected get", func() ([]attrs, error) {
			out, err := f.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key(), ProjectionExpression: ptr("m, l, ss, b")})
			if err != nil {
				return nil, err
			}
			return []attrs{out.Item}, nil
		}},
		{"failed condition", func() ([]attrs, error) {
			_, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: table, Key: key(), ConditionExpression: ptr("attribute_not_exists(pk)"), ReturnValuesOnConditionCheckFailure: "ALL_OLD",
			})
			failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
			if !ok {
				return nil, err
			}
			return []attrs{failed.Item}, nil
		}},
		{"query", func() ([]attrs, error) {
			out := f.query(&dynamodb.QueryInput{
				KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}, Limit: ptr(int32(1)),
			})
			return append(out.Items, out.LastEvaluatedKey), nil
		}},
		{"index query", func() ([]attrs, error) {
			return append(f.entries(fullIndex, "fpk", "f"), f.entries(keysOnly, "kpk", "k")...), nil
		}},
		{"batch", func() ([]attrs, error) {
			in, k := fullItem(), key()
			if _, err := f.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
				RequestItems: map[string][]types.WriteRequest{mainTable: {putRequest(in)}},
			}); err != nil {
				return nil, err
			}
			out, err := f.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{mainTable: {Keys: []attrs{k}}}})
			if err != nil {
				return nil, err
			}
			return append(out.Responses[mainTable], in, k), nil
		}},
		{"transaction", func() ([]attrs, error) {
			in, k := fullItem(), key()
			if err := f.transact(ctx, transactPut(in)); err != nil {
				return nil, err
			}
			out, err := f.db.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{
				TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: table, Key: k}}},
			})
			if err != nil {
				return nil, err
			}
			return []attrs{in, k, out.Responses[0].Item}, nil
		}},
		{"cancelled transaction", func() ([]attrs, error) {
			err := f.transact(ctx, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
				TableName: table, Key: key(), ConditionExpression: ptr("attribute_not_exists(pk)"), ReturnValuesOnConditionCheckFailure: "ALL_OLD",
			}})
			cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
			if !ok {
				return nil, err
			}
			return []attrs{cancelled.CancellationReasons[0].Item}, nil
		}},
	} {
		reachable, err := step.do()
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		for _, item := range reachable {
			if item != nil {
				scribble(item)
			}
		}
		mustEqual(t, "stored, after "+step.name, fullItem(), f.get(key()))
		mustEqual(t, "index, after "+step.name, []attrs{fullItem()}, f.entries(fullIndex, "fpk", "f"))
		mustEqual(t, "keys, after "+step.name, []attrs{with(key(), attrs{"kpk": str("k")})}, f.entries(keysOnly, "kpk", "k"))
	}
}
