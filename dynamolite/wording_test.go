package dynamolite_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A table may be named by its ARN, of any account and region, in every operation. Answers use the
// name of the request.
func TestTablesByARN(t *testing.T) {
	t.Parallel()
	for _, arn := range []string{
		"arn:aws:dynamodb:dynamolite:000000000000:table/main", "arn:aws:dynamodb:us-east-1:123456789012:table/main",
		"arn:aws-cn:dynamodb:cn-north-1:123456789012:table/main",
	} {
		db := dynamolite.New(dynamolite.Options{})
		create := mainInput()
		create.TableName = &arn
		out, err := db.CreateTable(t.Context(), create)
		if err != nil || *out.TableDescription.TableName != mainTable {
			t.Fatal(out, err)
		}
		key := keyed("a", "b")
		for _, in := range []any{
			&dynamodb.PutItemInput{TableName: &arn, Item: key}, &dynamodb.GetItemInput{TableName: &arn, Key: key},
			&dynamodb.UpdateItemInput{TableName: &arn, Key: key},
			&dynamodb.QueryInput{TableName: &arn, KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("a")}},
			&dynamodb.ScanInput{TableName: &arn},
			&dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: &arn, Key: key}}}},
			&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Delete: &types.Delete{TableName: &arn, Key: key}}}},
			&dynamodb.DeleteItemInput{TableName: &arn, Key: key},
			&dynamodb.DescribeTableInput{TableName: &arn}, &dynamodb.DescribeTimeToLiveInput{TableName: &arn},
			&dynamodb.UpdateTableInput{TableName: &arn, DeletionProtectionEnabled: ptr(false)},
			&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{arn: {{PutRequest: &types.PutRequest{Item: key}}}}},
		} {
			if got := perform(t, db, in); got.Code != "" {
				t.Errorf("%T: %s %v", in, got.Code, got.Error)
			}
		}
		batch, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{arn: {Keys: []attrs{key}}}})
		if err != nil || !slices.Equal(slices.Collect(maps.Keys(batch.Responses)), []string{arn}) || len(batch.Responses[arn]) != 1 {
			t.Errorf("BatchGetItem: %v, %v", batch, err)
		}
		put := []types.WriteRequest{{PutRequest: &types.PutRequest{Item: key}}}
		_, err = db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{arn: put, mainTable: put}})
		wantInvalid(t, err, "duplicates")
		if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &arn}); err != nil {
			t.Error(err)
		}
		closeDB(t, db)
	}
	for _, other := range []string{
		"arn:aws:dynamodb:us-east-1:123456789012:table/main/index/full", "arn:aws:s3:us-east-1:123456789012:table/main", "arn:aws:dynamodb::123456789012:table/main",
	} {
		_, err := newFixture(t).db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &other})
		wantInvalid(t, err, "tableName")
	}
}

// A read of a transaction with a key that does not fit its table is cancelled, with a reason.
func TestTransactGetOfAMalformedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, key := range map[string]attrs{
		"nothing": {}, "no sort key": {"pk": str("a")}, "too much": {"pk": str("a"), "sk": str("b"), "x": str("c")},
		"another attribute": {"pk": str("a"), "x": str("b")}, "another type": {"pk": num("1"), "sk": str("b")},
	} {
		_, err := f.db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "b")}}, {Get: &types.Get{TableName: ptr(mainTable), Key: key}},
		}})
		e, ok := errors.AsType[*types.TransactionCanceledException](err)
		if !ok || len(e.CancellationReasons) != 2 || *e.CancellationReasons[0].Code != "None" || *e.CancellationReasons[1].Code != "ValidationError" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The errors are those that AWS was recorded to give (github.com/nubo-db/dynamodb-conformance), to
// the letter, except that AWS repeats the requests of a batch or transaction that has too many.
func TestErrorsOfAWS(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const detected = "1 validation error detected: Value "
	const unfit = " failed to satisfy constraint: "
	unknown := ptr("_unknown_")
	requests := make([]types.WriteRequest, 26)
	set := func(v types.AttributeValue) *dynamodb.PutItemInput {
		return &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: with(keyed("a", "b"), attrs{"s": v})}
	}
	created := func(change func(*dynamodb.CreateTableInput)) *dynamodb.CreateTableInput {
		in := &dynamodb.CreateTableInput{
			TableName: ptr("new"), BillingMode: types.BillingModePayPerRequest, KeySchema: schemaOf("pk", ""),
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: ptr("pk"), AttributeType: types.ScalarAttributeTypeS}},
		}
		change(in)
		return in
	}
	for _, tt := range []struct {
		in   any
		want string
	}{
		{&dynamodb.PutItemInput{}, detected + "null at 'tableName'" + unfit + "Member must not be null"},
		{&dynamodb.PutItemInput{TableName: ptr("")}, detected + "'' at 'tableName'" + unfit + "Member must have length greater than or equal to 1"},
		{created(func(in *dynamodb.CreateTableInput) { in.TableName = ptr("ab") }), detected + "'ab' at 'tableName'" + unfit + "Member must have length greater than or equal to 3"},
		{&dynamodb.GetItemInput{TableName: unknown, Key: keyed("a", "b")}, "Requested resource not found"},
		{&dynamodb.DescribeTableInput{TableName: unknown}, "Requested resource not found: Table: _unknown_ not found"},
		{&dynamodb.PutItemInput{
			TableName: unknown, Item: keyed("a", "b"), ReturnConsumedCapacity: "X", ReturnItemCollectionMetrics: "Y", ReturnValues: "Z",
		}, "3 validation errors detected: Value 'X' at 'returnConsumedCapacity'" + unfit + "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]; " +
			"Value 'Y' at 'returnItemCollectionMetrics'" + unfit + "Member must satisfy enum value set: [SIZE, NONE]; " +
			"Value 'Z' at 'returnValues'" + unfit + "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"},
		{set(&types.AttributeValueMemberSS{Value: []string{}}), "One or more parameter values were invalid: An string set  may not be empty"},
		{set(&types.AttributeValueMemberNS{Value: []string{}}), "One or more parameter values were invalid: An number set  may not be empty"},
		{set(&types.AttributeValueMemberBS{Value: [][]byte{}}), "One or more parameter values were invalid: Binary sets should not be empty"},
		{set(strSet("a", "a")), "One or more parameter values were invalid: Input collection [a, a] contains duplicates."},
		{
			&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: keyed("a", "b"), ExpressionAttributeValues: attrs{":v": str("a")}},
			"ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null",
		},
		{
			&dynamodb.QueryInput{TableName: ptr(mainTable), KeyConditionExpression: ptr("sk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}},
			"Query condition missed key schema element: pk",
		},
		{
			&dynamodb.QueryInput{TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}, Limit: ptr(int32(0))},
			detected + "at 'Limit'" + unfit + "Member must have value greater than or equal to 1",
		},
		{&dynamodb.ScanInput{TableName: ptr(mainTable), Limit: ptr(int32(0))}, detected + "'0' at 'limit'" + unfit + "Member must have value greater than or equal to 1"},
		{&dynamodb.BatchGetItemInput{}, "The requestItems parameter is required for BatchGetItem"},
		{&dynamodb.BatchWriteItemInput{}, "The requestItems parameter is required for BatchWriteItem"},
		{
			&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{mainTable: {Keys: make([]attrs, 101)}}},
			detected + "at 'RequestItems.main.member.Keys'" + unfit + "Member must have length less than or equal to 100",
		},
		{&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{mainTable: requests}}, detected + "'{main=[26 requests]}' at 'requestItems'" + unfit +
			"Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]"},
		{&dynamodb.TransactGetItemsInput{}, detected + "'[]' at 'transactItems'" + unfit + "Member must have length greater than or equal to 1"},
		{
			&dynamodb.TransactWriteItemsInput{TransactItems: make([]types.TransactWriteItem, 101)},
			detected + "'[101 items]' at 'transactItems'" + unfit + "Member must have length less than or equal to 100",
		},
		{created(func(in *dynamodb.CreateTableInput) { in.KeySchema = schemaOf("pk", "pk") }), "Invalid KeySchema: Some index key attribute have no definition"},
		{created(func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = "X" }), detected + "'X' at 'keySchema.1.member.keyType'" + unfit + "Member must satisfy enum value set: [HASH, RANGE]"},
		{
			created(func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions[0].AttributeType = "X" }),
			detected + "'X' at 'attributeDefinitions.1.member.attributeType'" + unfit + "Member must satisfy enum value set: [B, N, S]",
		},
	} {
		got := message(t, f.db, tt.in)
		if got != tt.want {
			t.Errorf("%T:\ngot  %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

// message returns the message of the error that a request gets.
func message(t *testing.T, db *dynamolite.DB, in any) string {
	t.Helper()
	o := perform(t, db, in)
	switch e := o.Error.(type) {
	case string:
		return e
	case map[string]any:
		for _, name := range []string{"message", "Message"} {
			if text, ok := e[name].(string); ok {
				return text
			}
		}
	}
	return ""
}
