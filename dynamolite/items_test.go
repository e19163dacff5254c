package dynamolite_test

import (
	"errors"
	"fmt"
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
