package dynamolite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

func transactPut(item attrs) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: ptr(mainTable), Item: item}}
}

func transactUpdate(key attrs, expression string, values attrs) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: ptr(mainTable), Key: key, UpdateExpression: &expression, ExpressionAttributeValues: values,
	}}
}

func transactDelete(key attrs) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: ptr(mainTable), Key: key}}
}

func transactCheck(key attrs, condition string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: ptr(mainTable), Key: key, ConditionExpression: &condition}}
}

// transact sends a transaction without a token.
func (f *fixture) transact(ctx context.Context, items ...types.TransactWriteItem) error {
	_, err := f.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
	return err
}

func TestTransactWrite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(with(keyed("a", "1"), attrs{"n": num("1")}), keyed("a", "2"), keyed("a", "3"))
	err := f.transact(t.Context(),
		transactUpdate(keyed("a", "1"), "ADD n :one", attrs{":one": num("1")}),
		transactDelete(keyed("a", "2")),
		transactCheck(keyed("a", "3"), "attribute_exists(pk)"),
		transactPut(with(keyed("a", "4"), attrs{"kpk": str("k")})),
		types.TransactWriteItem{Put: &types.Put{TableName: ptr(otherName), Item: attrs{"id": str("x")}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
		{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "1"), ProjectionExpression: ptr("n")}},
		{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "2")}},
		{Get: &types.Get{TableName: ptr(otherName), Key: attrs{"id": str("x")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "responses", []types.ItemResponse{{Item: attrs{"n": num("2")}}, {}, {Item: attrs{"id": str("x")}}}, out.Responses)
	mustEqual(t, "checked", keyed("a", "3"), f.get(keyed("a", "3")))
	mustEqual(t, "index", []attrs{with(keyed("a", "4"), attrs{"kpk": str("k")})}, f.entries(keysOnly, "kpk", "k"))
}

func TestTransactCancelled(t *testing.T) {
	t.Parallel()
	one, x := num("1"), str("x")
	for _, tt := range []struct {
		name  string
		item  types.TransactWriteItem
		code  string
		image attrs
	}{
		{"check", transactCheck(keyed("a", "1"), "attribute_not_exists(pk)"), "ConditionalCheckFailed", nil},
		{"check of nothing", transactCheck(keyed("z", "z"), "attribute_exists(pk)"), "ConditionalCheckFailed", nil},
		{"check with image", types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: ptr(mainTable), Key: keyed("a", "1"), ConditionExpression: ptr("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: "ALL_OLD",
		}}, "ConditionalCheckFailed", with(keyed("a", "1"), attrs{"s": x})},
		{"put", types.TransactWriteItem{Put: &types.Put{
			TableName: ptr(mainTable), Item: keyed("a", "1"), ConditionExpression: ptr("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: "ALL_OLD",
		}}, "ConditionalCheckFailed", with(keyed("a", "1"), attrs{"s": x})},
		{"update", types.TransactWriteItem{Update: &types.Update{
			TableName: ptr(mainTable), Key: keyed("a", "1"), UpdateExpression: ptr("SET n = :v"), ConditionExpression: ptr("s > :v"),
			ExpressionAttributeValues: attrs{":v": one}, ReturnValuesOnConditionCheckFailure: "ALL_OLD",
		}}, "ConditionalCheckFailed", with(keyed("a", "1"), attrs{"s": x})},
		{"delete", types.TransactWriteItem{Delete: &types.Delete{
			TableName: ptr(mainTable), Key: keyed("a", "1"), ConditionExpression: ptr("n = :v"),
			ExpressionAttributeValues: attrs{":v": one}, ReturnValuesOnConditionCheckFailure: "ALL_OLD",
		}}, "ConditionalCheckFailed", with(keyed("a", "1"), attrs{"s": x})},
		{"operand type", transactUpdate(keyed("a", "1"), "ADD s :v", attrs{":v": one}), "ValidationError", nil},
		{"index key type", transactUpdate(keyed("a", "1"), "SET kpk = s, spk = :v", attrs{":v": one}), "ValidationError", nil},
		{"missing operand", transactUpdate(keyed("a", "1"), "SET n = nothing", nil), "ValidationError", nil},
		{"key type", transactDelete(attrs{"pk": num("1"), "sk": str("1")}), "ValidationError", nil},
		{"key type of a put", transactPut(attrs{"pk": num("1"), "sk": str("1")}), "ValidationError", nil},
		{"index key type of a put", transactPut(with(keyed("a", "1"), attrs{"kpk": num("1")})), "ValidationError", nil},
		{"long key", transactDelete(attrs{"pk": blob(2049), "sk": str("1")}), "ValidationError", nil},
		{"part of the key", transactUpdate(keyed("a", "1"), "REMOVE sk", nil), "ValidationError", nil},
		{"size", transactUpdate(keyed("a", "1"), "SET b = :v", attrs{":v": blob(400*1024 - 5)}), "ValidationError", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.put(with(keyed("a", "1"), attrs{"s": x}))
			err := f.transact(t.Context(), transactPut(keyed("b", "1")), tt.item, transactDelete(keyed("b", "2")))
			cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if len(cancelled.CancellationReasons) != 3 {
				t.Fatalf("got %d reasons", len(cancelled.CancellationReasons))
			}
			for i, want := range []string{"None", tt.code, "None"} {
				if got := *cancelled.CancellationReasons[i].Code; got != want {
					t.Errorf("reason %d: got %s, want %s", i, got, want)
				}
			}
			reason := cancelled.CancellationReasons[1]
			mustEqual(t, "image", tt.image, reason.Item)
			if reason.Message == nil || *reason.Message == "" {
				t.Error("the reason has no message")
			}
			mustEqual(t, "what the transaction wrote", attrs(nil), f.get(keyed("b", "1")))
			mustEqual(t, "what the transaction wrote", with(keyed("a", "1"), attrs{"s": x}), f.get(keyed("a", "1")))
		})
	}
}

func TestTransactGetCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
		{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "b")}},
		{Get: &types.Get{TableName: ptr(mainTable), Key: attrs{"pk": num("1"), "sk": str("b")}}},
	}})
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || len(cancelled.CancellationReasons) != 2 {
		t.Fatalf("got %v", err)
	}
	for i, want := range []string{"None", "ValidationError"} {
		if got := *cancelled.CancellationReasons[i].Code; got != want {
			t.Errorf("reason %d: got %s, want %s", i, got, want)
		}
	}
}

func TestTransactToken(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }}))
	key := keyed("a", "b")
	send := func(token string, items ...types.TransactWriteItem) (*dynamodb.TransactWriteItemsOutput, error) {
		return f.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			TransactItems: items, ClientRequestToken: &token, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
	}
	add := func(amount string) types.TransactWriteItem {
		return transactUpdate(key, "ADD n :v SET m = :m", attrs{":v": num(amount), ":m": doc(attrs{
			"ss": strSet("a", "b"), "l": &types.AttributeValueMemberL{Value: []types.AttributeValue{str("a"), bin("b")}},
			"ns": &types.AttributeValueMemberNS{Value: []string{"1", "2"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
			"t": &types.AttributeValueMemberBOOL{Value: true}, "0": &types.AttributeValueMemberNULL{Value: true},
		})})
	}
	total := func(want string) {
		t.Helper()
		mustEqual(t, "total", num(want), f.get(key)["n"])
	}
	out, err := send("t", add("1"))
	if err != nil || *out.ConsumedCapacity[0].WriteCapacityUnits != 2 || out.ConsumedCapacity[0].ReadCapacityUnits != nil {
		t.Fatalf("got %v, %v", out, err)
	}
	total("1")
	// A repetition changes nothing and is billed as a read.
	out, err = send("t", add("1"))
	if err != nil || *out.ConsumedCapacity[0].ReadCapacityUnits != 2 || out.ConsumedCapacity[0].WriteCapacityUnits != nil {
		t.Fatalf("got %v, %v", out, err)
	}
	total("1")
	for name, other := range map[string][]types.TransactWriteItem{
		"another value": {add("2")},
		"one more":      {add("1"), transactDelete(keyed("c", "d"))},
		"another kind":  {transactDelete(key)},
		"a check":       {transactCheck(key, "attribute_exists(pk)")},
		"a put":         {transactPut(key)},
	} {
		_, err = send("t", other...)
		if _, ok := errors.AsType[*types.IdempotentParameterMismatchException](err); !ok {
			t.Errorf("%s under the same token: %v", name, err)
		}
	}
	aliased := func(name string) types.TransactWriteItem {
		it := transactPut(keyed("x", "y"))
		it.Put.ConditionExpression, it.Put.ExpressionAttributeNames = ptr("attribute_not_exists(#a)"), map[string]string{"#a": name}
		return it
	}
	if _, err = send("names", aliased("a")); err != nil {
		t.Fatal(err)
	}
	_, err = send("names", aliased("b"))
	if _, ok := errors.AsType[*types.IdempotentParameterMismatchException](err); !ok {
		t.Errorf("another name under the same token: %v", err)
	}
	if _, err = send("u", add("1")); err != nil {
		t.Fatal(err)
	}
	total("2")
	// The token holds for ten minutes.
	now = now.Add(10*time.Minute - 1)
	if _, err = send("t", add("1")); err != nil {
		t.Fatal(err)
	}
	total("2")
	now = now.Add(1)
	if _, err = send("t", add("1")); err != nil {
		t.Fatal(err)
	}
	total("3")
	// A transaction that failed may be tried again.
	refused := types.TransactWriteItem{Put: &types.Put{
		TableName: ptr(mainTable), Item: keyed("c", "d"), ConditionExpression: ptr("attribute_exists(pk)"),
	}}
	if _, err = send("v", refused); err == nil {
		t.Fatal("the condition should have failed")
	}
	f.put(with(keyed("c", "d"), attrs{"n": num("1")}))
	if _, err = send("v", refused); err != nil {
		t.Errorf("trying again: %v", err)
	}
	mustEqual(t, "retried", keyed("c", "d"), f.get(keyed("c", "d")))
	for _, token := range []string{"", "1234567890123456789012345678901234567"} {
		_, err = send(token, add("1"))
		wantInvalid(t, err, "clientRequestToken")
	}
}

// A repetition that overtakes its original gets an error. A transaction reads the clock when it
// begins and when it ends. The clock of the test sends the transaction again at its end, which
// makes such a repetition.
func TestTransactTokenInUse(t *testing.T) {
	t.Parallel()
	var atEnd func()
	readings := 0
	f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time {
		if readings++; atEnd != nil && readings == 2 {
			atEnd()
		}
		return time.Unix(0, 0)
	}}))
	in := &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{transactPut(keyed("a", "b"))}, ClientRequestToken: ptr("t"),
	}
	overtook := false
	readings, atEnd = 0, func() {
		_, err := f.db.TransactWriteItems(t.Context(), in)
		_, overtook = errors.AsType[*types.TransactionInProgressException](err)
	}
	if _, err := f.db.TransactWriteItems(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if !overtook {
		t.Error("the repetition was not told that its original is in progress")
	}
}
