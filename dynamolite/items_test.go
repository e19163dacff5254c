package dynamolite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestGetItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := with(keyed("a", "b"), attrs{"n": num("1"), "m": doc(attrs{"x": num("2"), "y": num("3")})})
	f.put(item)
	for _, tt := range []struct {
		name       string
		key        attrs
		projection string
		names      map[string]string
		want       attrs
	}{
		{"all of it", keyed("a", "b"), "", nil, item},
		{"missing", keyed("a", "c"), "", nil, nil},
		{"missing, projected", keyed("a", "c"), "n", nil, nil},
		{"projected", keyed("a", "b"), "#n, m.y", map[string]string{"#n": "n"}, attrs{"n": num("1"), "m": doc(attrs{"y": num("3")})}},
		{"nothing there", keyed("a", "b"), "zz", nil, attrs{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: tt.key, ExpressionAttributeNames: tt.names}
			if tt.projection != "" {
				in.ProjectionExpression = &tt.projection
			}
			out, err := f.db.GetItem(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			mustEqual(t, "item", tt.want, out.Item)
		})
	}
}

// Every operation that takes a key returns an error for a key that does not match the schema.
func TestKeyValidation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tt := range []struct {
		name    string
		key     attrs
		mention string
	}{
		{"no key", nil, "Key"},
		{"empty key", attrs{}, "schema"},
		{"half a key", attrs{"pk": str("a")}, "schema"},
		{"wrong name", attrs{"pk": str("a"), "zz": str("a")}, "schema"},
		{"one too many", with(keyed("a", "b"), attrs{"zz": str("c")}), "schema"},
		{"wrong type", attrs{"pk": num("1"), "sk": str("a")}, "schema"},
		{"no value", attrs{"pk": nil, "sk": str("a")}, "schema"},
		{"nil string", attrs{"pk": (*types.AttributeValueMemberS)(nil), "sk": str("a")}, "schema"},
		{"not scalar", attrs{"pk": strSet("a"), "sk": str("a")}, "schema"},
		{"empty hash", keyed("", "a"), "empty"},
		{"empty range", keyed("a", ""), "empty"},
		{"long hash", keyed(strings.Repeat("a", 2049), "a"), "2048"},
		{"long range", keyed("a", strings.Repeat("a", 1025)), "1024"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			_, err := f.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: ptr(mainTable), Key: tt.key})
			wantInvalid(t, err, tt.mention)
			_, err = f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: tt.key})
			wantInvalid(t, err, tt.mention)
			_, err = f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: tt.key})
			wantInvalid(t, err, tt.mention)
		})
	}
	longest := keyed(strings.Repeat("a", 2048), strings.Repeat("a", 1024))
	f.put(longest)
	mustEqual(t, "longest key", longest, f.get(longest))
}

func TestNumberKeysAreNumeric(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: ptr("numbers"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: schemaOf("id"), AttributeDefinitions: definitionsOf("id:N"),
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr("numbers"), Item: attrs{"id": num("1.50")}}); err != nil {
		t.Fatal(err)
	}
	out, err := f.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: ptr("numbers"), Key: attrs{"id": num("015e-1")}})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "item", attrs{"id": num("1.5")}, out.Item)
	_, err = f.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: ptr("numbers"), Key: attrs{"id": num("one")}})
	wantInvalid(t, err, "")
}

func TestPutItemValidation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// The names and values of pk and sk, and the name of the attribute, leave this much of 400
	// KB.
	const room = 400*1024 - len("pk") - len("a") - len("sk") - len("b") - len("s")
	for _, tt := range []struct {
		name    string
		item    attrs
		mention string // "" if the item is valid
	}{
		{"no item", nil, "Item"},
		{"no hash", attrs{"sk": str("a")}, "pk"},
		{"no range", attrs{"pk": str("a")}, "sk"},
		{"hash type", attrs{"pk": num("1"), "sk": str("a")}, "pk"},
		{"empty hash", keyed("", "a"), "empty"},
		{"long range", keyed("a", strings.Repeat("a", 1025)), "1024"},
		{"empty attribute", with(keyed("a", "b"), attrs{"s": str("")}), ""},
		{"not a number", with(keyed("a", "b"), attrs{"n": num("x")}), ""},
		{"empty set", with(keyed("a", "b"), attrs{"ss": strSet()}), ""},
		{"largest item", with(keyed("a", "b"), attrs{"s": blob(room)}), ""},
		{"too large an item", with(keyed("a", "b"), attrs{"s": blob(room + 1)}), "size"},
		{"index key type", with(keyed("a", "b"), attrs{"fsk": str("1")}), "fsk"},
		{"index key type, hash", with(keyed("a", "b"), attrs{"kpk": num("1")}), "kpk"},
		{"empty index key", with(keyed("a", "b"), attrs{"spk": str("")}), "spk"},
		{"long index hash", with(keyed("a", "b"), attrs{"spk": blob(2049)}), "2048"},
		{"long index range", with(keyed("a", "b"), attrs{"ssk": blob(1025)}), "1024"},
		{"index keys", with(keyed("a", "b"), attrs{"fpk": str("a"), "fsk": num("1")}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: tt.item})
			switch {
			case tt.mention != "":
				wantInvalid(t, err, tt.mention)
			case tt.name == "not a number", tt.name == "empty set":
				wantInvalid(t, err, "")
			case err != nil:
				t.Fatal(err)
			}
		})
	}
}

func TestReturnValues(t *testing.T) {
	t.Parallel()
	old := with(keyed("a", "b"), attrs{"n": num("1"), "gone": str("x"), "m": doc(attrs{"x": num("1"), "y": num("2")})})
	const expression = "SET n = n + :one, m.x = :one, fresh = :one REMOVE gone"
	updated := with(keyed("a", "b"), attrs{"n": num("2"), "m": doc(attrs{"x": num("1"), "y": num("2")}), "fresh": num("1")})
	for _, tt := range []struct {
		want   types.ReturnValue
		update attrs
		insert attrs // for an item that did not exist
		put    attrs // also for a delete
		bad    bool  // for put and delete
	}{
		{"", nil, nil, nil, false},
		{types.ReturnValueNone, nil, nil, nil, false},
		{types.ReturnValueAllOld, old, nil, old, false},
		{types.ReturnValueAllNew, updated, with(keyed("z", "z"), attrs{"n": num("1")}), nil, true},
		{types.ReturnValueUpdatedOld, attrs{"n": num("1"), "gone": str("x"), "m": doc(attrs{"x": num("1")})}, nil, nil, true},
		{types.ReturnValueUpdatedNew, attrs{"n": num("2"), "fresh": num("1"), "m": doc(attrs{"x": num("1")})}, attrs{"n": num("1")}, nil, true},
	} {
		t.Run(string(tt.want), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.put(old)
			ctx := t.Context()
			out, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: ptr(mainTable), Key: keyed("a", "b"), ReturnValues: tt.want,
				UpdateExpression: ptr(expression), ExpressionAttributeValues: attrs{":one": num("1")},
			})
			if err != nil {
				t.Fatal(err)
			}
			mustEqual(t, "update", tt.update, out.Attributes)
			mustEqual(t, "stored", updated, f.get(keyed("a", "b")))
			out, err = f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: ptr(mainTable), Key: keyed("z", "z"), ReturnValues: tt.want,
				UpdateExpression: ptr("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
			})
			if err != nil {
				t.Fatal(err)
			}
			mustEqual(t, "insert", tt.insert, out.Attributes)

			f.put(old)
			put, err := f.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: old, ReturnValues: tt.want})
			if tt.bad {
				wantInvalid(t, err, "")
			} else if err != nil {
				t.Fatal(err)
			} else {
				mustEqual(t, "put", tt.put, put.Attributes)
			}
			del, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "b"), ReturnValues: tt.want})
			if tt.bad {
				wantInvalid(t, err, "")
			} else if err != nil {
				t.Fatal(err)
			} else {
				mustEqual(t, "delete", tt.put, del.Attributes)
				mustEqual(t, "deleted", attrs(nil), f.get(keyed("a", "b")))
			}
		})
	}
}

func TestUpdateItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	// Without an expression the update creates the item from its key, and then leaves it
	// unchanged.
	for range 2 {
		if _, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: keyed("a", "b")}); err != nil {
			t.Fatal(err)
		}
		mustEqual(t, "upsert", keyed("a", "b"), f.get(keyed("a", "b")))
	}
	for _, tt := range []struct {
		name, expression string
		values           attrs
		mention          string
	}{
		{"hash key", "SET pk = :v", attrs{":v": str("c")}, "part of the key"},
		{"range key", "REMOVE sk", nil, "part of the key"},
		{"index key type", "SET fsk = :v", attrs{":v": str("1")}, "fsk"},
		{"index key type by ADD", "ADD kpk :v", attrs{":v": num("1")}, "kpk"},
		{"empty index key", "SET kpk = :v", attrs{":v": str("")}, "kpk"},
		{"type mismatch", "ADD pk2 :v", attrs{":v": str("1")}, ""},
		{"unused value", "SET x = :v", attrs{":v": str("1"), ":w": str("1")}, ":w"},
		{"too large", "SET x = :v", attrs{":v": blob(400 * 1024)}, "size"},
	} {
		for _, key := range []attrs{keyed("a", "b"), keyed("not", "there")} {
			_, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: ptr(mainTable), Key: key, UpdateExpression: &tt.expression, ExpressionAttributeValues: tt.values,
			})
			t.Run(tt.name, func(t *testing.T) { wantInvalid(t, err, tt.mention) })
		}
	}
	mustEqual(t, "after failures", keyed("a", "b"), f.get(keyed("a", "b")))
	mustEqual(t, "after failures", attrs(nil), f.get(keyed("not", "there")))
}

// The size stored with an item is the actual size of the item, after any updates.
func TestUpdateKeepsSize(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, step := range []struct {
		expression string
		values     attrs
	}{
		{"SET a = :v, b = :v", attrs{":v": blob(1000)}},
		{"SET m = :m", attrs{":m": doc(attrs{"x": num("1"), "y": blob(100)})}},
		{"SET m.x = :v, m.z = :v, a = :n REMOVE b, nothing", attrs{":v": blob(10), ":n": num("-12345")}},
		{"REMOVE m.y, m.z ADD c :s, a :n", attrs{":s": strSet("a", "bc"), ":n": num("12345.5")}},
		{"DELETE c :s", attrs{":s": strSet("a", "bc")}},
	} {
		f.update(keyed("a", "b"), step.expression, step.values)
		grown := f.tableBytes()
		item := f.get(keyed("a", "b"))
		f.put(item) // measured from scratch
		if put := f.tableBytes(); put != grown {
			t.Errorf("after %s: kept as %d bytes, measured as %d", step.expression, grown, put)
		}
	}
}

func (f *fixture) tableBytes() int64 {
	f.t.Helper()
	out, err := f.db.DescribeTable(f.t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(mainTable)})
	if err != nil {
		f.t.Fatal(err)
	}
	return *out.Table.TableSizeBytes
}

// Each write can be conditional, and on request returns the item that failed the condition.
func TestConditionFailure(t *testing.T) {
	t.Parallel()
	item := with(keyed("a", "b"), attrs{"n": num("1")})
	values := attrs{":v": num("2")}
	for _, onFailure := range []types.ReturnValuesOnConditionCheckFailure{"", "NONE", "ALL_OLD"} {
		for _, key := range []attrs{keyed("a", "b"), keyed("not", "there")} {
			t.Run(fmt.Sprintf("%s/%s", onFailure, key["pk"].(*types.AttributeValueMemberS).Value), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.put(item)
				ctx, condition := t.Context(), ptr("n = :v")
				for name, write := range map[string]func() error{
					"PutItem": func() error {
						_, err := f.db.PutItem(ctx, &dynamodb.PutItemInput{
							TableName: ptr(mainTable), Item: key, ConditionExpression: condition,
							ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: onFailure,
						})
						return err
					},
					"UpdateItem": func() error {
						_, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
							TableName: ptr(mainTable), Key: key, ConditionExpression: condition, UpdateExpression: ptr("SET n = :v"),
							ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: onFailure,
						})
						return err
					},
					"DeleteItem": func() error {
						_, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
							TableName: ptr(mainTable), Key: key, ConditionExpression: condition,
							ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: onFailure,
						})
						return err
					},
				} {
					failed, ok := errors.AsType[*types.ConditionalCheckFailedException](write())
					if !ok {
						t.Fatalf("%s: no ConditionalCheckFailedException", name)
					}
					var want attrs
					if onFailure == "ALL_OLD" {
						want = f.get(key)
					}
					mustEqual(t, name, want, failed.Item)
				}
				mustEqual(t, "stored", item, f.get(keyed("a", "b")))
				mustEqual(t, "stored", attrs(nil), f.get(keyed("not", "there")))
			})
		}
	}
}

func TestConditionMet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, absent, present := t.Context(), ptr("attribute_not_exists(pk)"), ptr("attribute_exists(pk)")
	if _, err := f.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: keyed("a", "b"), ConditionExpression: absent}); err != nil {
		t.Error(err)
	}
	if _, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: ptr(mainTable), Key: keyed("a", "b"), ConditionExpression: present,
	}); err != nil {
		t.Error(err)
	}
	if _, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "b"), ConditionExpression: present}); err != nil {
		t.Error(err)
	}
	if _, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "b"), ConditionExpression: absent}); err != nil {
		t.Error(err)
	}
}
