package dynamolite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Features that the engine lacks, and invalid parameters, give an error with their name; none is
// ignored.
func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	key := keyed("a", "b")
	noNames, noValues := map[string]string{}, attrs{}
	get := func(change func(*dynamodb.GetItemInput)) func() error {
		return changed(ctx, f.db.GetItem, dynamodb.GetItemInput{TableName: ptr(mainTable), Key: key}, change)
	}
	put := func(change func(*dynamodb.PutItemInput)) func() error {
		return changed(ctx, f.db.PutItem, dynamodb.PutItemInput{TableName: ptr(mainTable), Item: key}, change)
	}
	update := func(change func(*dynamodb.UpdateItemInput)) func() error {
		return changed(ctx, f.db.UpdateItem, dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: key}, change)
	}
	del := func(change func(*dynamodb.DeleteItemInput)) func() error {
		return changed(ctx, f.db.DeleteItem, dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}, change)
	}
	query := func(change func(*dynamodb.QueryInput)) func() error {
		return changed(ctx, f.db.Query, dynamodb.QueryInput{
			TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("a")},
		}, change)
	}
	batchGet := func(change func(*dynamodb.BatchGetItemInput)) func() error {
		return changed(ctx, f.db.BatchGetItem, dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{mainTable: {Keys: []attrs{key}}},
		}, change)
	}
	batchWrite := func(change func(*dynamodb.BatchWriteItemInput)) func() error {
		return changed(ctx, f.db.BatchWriteItem, dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{mainTable: {{DeleteRequest: &types.DeleteRequest{Key: key}}}},
		}, change)
	}
	transactGet := func(change func(*dynamodb.TransactGetItemsInput)) func() error {
		return changed(ctx, f.db.TransactGetItems, dynamodb.TransactGetItemsInput{
			TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: ptr(mainTable), Key: key}}},
		}, change)
	}
	transactWrite := func(change func(*dynamodb.TransactWriteItemsInput)) func() error {
		return changed(ctx, f.db.TransactWriteItems, dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{{Delete: &types.Delete{TableName: ptr(mainTable), Key: key}}},
		}, change)
	}
	for _, tt := range []struct {
		name    string
		call    func() error
		mention string
	}{
		{"get: AttributesToGet", get(func(in *dynamodb.GetItemInput) { in.AttributesToGet = []string{"a"} }), "AttributesToGet"},
		{"get: capacity", get(func(in *dynamodb.GetItemInput) { in.ReturnConsumedCapacity = "SOME" }), "SOME"},
		{"get: names", get(func(in *dynamodb.GetItemInput) { in.ExpressionAttributeNames = map[string]string{"#a": "a"} }), "ExpressionAttributeNames"},
		{"get: ARN of an index", get(func(in *dynamodb.GetItemInput) { in.TableName = ptr("arn:aws:dynamodb:x:0:table/main/index/full") }), "tableName"},
		{"put: Expected", put(func(in *dynamodb.PutItemInput) { in.Expected = map[string]types.ExpectedAttributeValue{} }), "Expected"},
		{"put: ConditionalOperator", put(func(in *dynamodb.PutItemInput) { in.ConditionalOperator = "AND" }), "ConditionalOperator"},
		{"put: capacity", put(func(in *dynamodb.PutItemInput) { in.ReturnConsumedCapacity = "SOME" }), "SOME"},
		{"put: metrics", put(func(in *dynamodb.PutItemInput) { in.ReturnItemCollectionMetrics = "SOME" }), "SOME"},
		{"put: return values", put(func(in *dynamodb.PutItemInput) { in.ReturnValues = "SOME" }), "SOME"},
		{"put: on failure", put(func(in *dynamodb.PutItemInput) { in.ReturnValuesOnConditionCheckFailure = "ALL_NEW" }), "ALL_NEW"},
		{"put: values", put(func(in *dynamodb.PutItemInput) { in.ExpressionAttributeValues = attrs{":v": num("1")} }), "ExpressionAttributeValues"},
		{"put: unused value", put(func(in *dynamodb.PutItemInput) {
			in.ConditionExpression, in.ExpressionAttributeValues = ptr("attribute_exists(a)"), attrs{":v": num("1")}
		}), ":v"},
		{"put: no values", put(func(in *dynamodb.PutItemInput) {
			in.ConditionExpression, in.ExpressionAttributeValues = ptr("attribute_exists(a)"), noValues
		}), "empty"},
		{"put: no names", put(func(in *dynamodb.PutItemInput) {
			in.ConditionExpression, in.ExpressionAttributeNames = ptr("attribute_exists(a)"), noNames
		}), "empty"},
		{"put: no condition", put(func(in *dynamodb.PutItemInput) { in.ConditionExpression = ptr("") }), "ConditionExpression"},
		{"update: AttributeUpdates", update(func(in *dynamodb.UpdateItemInput) {
			in.AttributeUpdates = map[string]types.AttributeValueUpdate{}
		}), "AttributeUpdates"},
		{"update: Expected", update(func(in *dynamodb.UpdateItemInput) { in.Expected = map[string]types.ExpectedAttributeValue{} }), "Expected"},
		{"update: ConditionalOperator", update(func(in *dynamodb.UpdateItemInput) { in.ConditionalOperator = "OR" }), "ConditionalOperator"},
		{"update: return values", update(func(in *dynamodb.UpdateItemInput) { in.ReturnValues = "SOME" }), "SOME"},
		{"update: metrics", update(func(in *dynamodb.UpdateItemInput) { in.ReturnItemCollectionMetrics = "SOME" }), "SOME"},
		{"update: no update", update(func(in *dynamodb.UpdateItemInput) { in.UpdateExpression = ptr("") }), "UpdateExpression"},
		{"delete: Expected", del(func(in *dynamodb.DeleteItemInput) { in.Expected = map[string]types.ExpectedAttributeValue{} }), "Expected"},
		{"delete: ConditionalOperator", del(func(in *dynamodb.DeleteItemInput) { in.ConditionalOperator = "OR" }), "ConditionalOperator"},
		{"delete: return values", del(func(in *dynamodb.DeleteItemInput) { in.ReturnValues = "SOME" }), "SOME"},
		{"query: KeyConditions", query(func(in *dynamodb.QueryInput) { in.KeyConditions = map[string]types.Condition{} }), "KeyConditions"},
		{"query: QueryFilter", query(func(in *dynamodb.QueryInput) { in.QueryFilter = map[string]types.Condition{} }), "QueryFilter"},
		{"query: ConditionalOperator", query(func(in *dynamodb.QueryInput) { in.ConditionalOperator = "OR" }), "ConditionalOperator"},
		{"query: AttributesToGet", query(func(in *dynamodb.QueryInput) { in.AttributesToGet = []string{"a"} }), "AttributesToGet"},
		{"query: capacity", query(func(in *dynamodb.QueryInput) { in.ReturnConsumedCapacity = "SOME" }), "SOME"},
		{"batch get: AttributesToGet", batchGet(func(in *dynamodb.BatchGetItemInput) {
			in.RequestItems[mainTable] = types.KeysAndAttributes{Keys: []attrs{key}, AttributesToGet: []string{"a"}}
		}), "AttributesToGet"},
		{"batch get: capacity", batchGet(func(in *dynamodb.BatchGetItemInput) { in.ReturnConsumedCapacity = "SOME" }), "SOME"},
		{"batch write: metrics", batchWrite(func(in *dynamodb.BatchWriteItemInput) { in.ReturnItemCollectionMetrics = "SOME" }), "SOME"},
		{"batch write: capacity", batchWrite(func(in *dynamodb.BatchWriteItemInput) { in.ReturnConsumedCapacity = "SOME" }), "SOME"},
		{"transact get: capacity", transactGet(func(in *dynamodb.TransactGetItemsInput) { in.ReturnConsumedCapacity = "SOME" }), "SOME"},
		{"transact write: metrics", transactWrite(func(in *dynamodb.TransactWriteItemsInput) { in.ReturnItemCollectionMetrics = "SOME" }), "SOME"},
		{"transact write: on failure", transactWrite(func(in *dynamodb.TransactWriteItemsInput) {
			in.TransactItems[0].Delete.ReturnValuesOnConditionCheckFailure = "SOME"
		}), "SOME"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, tt.call(), tt.mention)
		})
	}
}

// Requests that DynamoDB Local knows nothing of, or answers in another way than AWS: the cases of
// package differential have all others. A refused request changes nothing.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func(change func(*dynamodb.CreateTableInput)) any {
		in := mainInput()
		in.TableName = ptr("created")
		change(in)
		return in
	}
	addition := func(change func(*dynamodb.UpdateTableInput)) any {
		in := adding(lateIndex, types.ProjectionTypeAll)
		change(in)
		return in
	}
	change := func(change func(*dynamodb.UpdateTableInput)) any { return changing(change) }
	index := func(a *types.UpdateGlobalSecondaryIndexAction) any {
		return changing(func(in *dynamodb.UpdateTableInput) {
			a.IndexName, in.GlobalSecondaryIndexUpdates = ptr(fullIndex), []types.GlobalSecondaryIndexUpdate{{Update: a}}
		})
	}
	transact := func(items ...types.TransactWriteItem) any {
		return &dynamodb.TransactWriteItemsInput{TransactItems: items}
	}
	read := func(gets ...types.TransactGetItem) any { return &dynamodb.TransactGetItemsInput{TransactItems: gets} }
	var large []types.TransactWriteItem
	var all []types.TransactGetItem
	for _, key := range manyKeys(11) {
		f.put(with(key, attrs{"s": blob(399 * 1024)}))
		large = append(large, transactPut(with(key, attrs{"s": blob(399 * 1024)})))
		all = append(all, types.TransactGetItem{Get: &types.Get{TableName: ptr(mainTable), Key: key}})
	}
	arn := describeMain(t, f.db).TableArn
	tag := func(tag types.Tag) any { return &dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{tag}} }
	expire := func(s *types.TimeToLiveSpecification) any {
		return &dynamodb.UpdateTimeToLiveInput{TableName: ptr(mainTable), TimeToLiveSpecification: s}
	}
	demand := &types.OnDemandThroughput{MaxReadRequestUnits: ptr(int64(-2))}
	warm := &types.WarmThroughput{ReadUnitsPerSecond: ptr(int64(-1))}
	stream := &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeNewImage}
	describe := &dynamodb.DescribeTableInput{TableName: ptr(mainTable)}
	before := perform(t, f.db, describe)
	for _, tt := range []struct {
		mention string
		in      any
	}{
		{"ResourcePolicy", create(func(in *dynamodb.CreateTableInput) { in.ResourcePolicy = ptr("{}") })},
		{"GlobalTableSourceArn", create(func(in *dynamodb.CreateTableInput) { in.GlobalTableSourceArn = ptr("arn") })},
		{"GlobalTableSettingsReplicationMode", create(func(in *dynamodb.CreateTableInput) { in.GlobalTableSettingsReplicationMode = "ENABLED" })},
		{"VectorIndexes", create(func(in *dynamodb.CreateTableInput) { in.VectorIndexes = make([]types.VectorIndex, 1) })},
		{"tableClass", create(func(in *dynamodb.CreateTableInput) { in.TableClass = "COLD" })},
		{"empty", create(func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{} })},
		{"SSEType", create(func(in *dynamodb.CreateTableInput) {
			in.SSESpecification = &types.SSESpecification{Enabled: ptr(true), SSEType: types.SSETypeAes256}
		})},
		{"KMSMasterKeyId", create(func(in *dynamodb.CreateTableInput) {
			in.SSESpecification = &types.SSESpecification{KMSMasterKeyId: ptr("k")}
		})},
		{"OnDemandThroughput", create(func(in *dynamodb.CreateTableInput) { in.OnDemandThroughput = demand })},
		{"WarmThroughput", create(func(in *dynamodb.CreateTableInput) { in.WarmThroughput = warm })},
		{"OnDemandThroughput", create(func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].OnDemandThroughput = demand })},

		{"ReplicaUpdates", change(func(in *dynamodb.UpdateTableInput) { in.ReplicaUpdates = make([]types.ReplicationGroupUpdate, 1) })},
		{"GlobalTableWitnessUpdates", change(func(in *dynamodb.UpdateTableInput) {
			in.GlobalTableWitnessUpdates = make([]types.GlobalTableWitnessGroupUpdate, 1)
		})},
		{"GlobalTableSettingsReplicationMode", change(func(in *dynamodb.UpdateTableInput) { in.GlobalTableSettingsReplicationMode = "ENABLED" })},
		{"MultiRegionConsistency", change(func(in *dynamodb.UpdateTableInput) { in.MultiRegionConsistency = "STRONG" })},
		{"DisassociationProtectionEnabled", change(func(in *dynamodb.UpdateTableInput) { in.DisassociationProtectionEnabled = ptr(true) })},
		{"VectorIndexUpdates", change(func(in *dynamodb.UpdateTableInput) { in.VectorIndexUpdates = make([]types.VectorIndexUpdate, 1) })},
		{"tableClass", change(func(in *dynamodb.UpdateTableInput) { in.TableClass = "COLD" })},
		{"only operation", change(func(in *dynamodb.UpdateTableInput) {
			in.TableClass, in.DeletionProtectionEnabled = types.TableClassStandard, ptr(true)
		})},
		{"KMSMasterKeyId", change(func(in *dynamodb.UpdateTableInput) {
			in.SSESpecification = &types.SSESpecification{KMSMasterKeyId: ptr("k")}
		})},
		{"StreamEnabled", change(func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = &types.StreamSpecification{} })},
		{"IOPS", change(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification, in.ProvisionedThroughput = stream, units()
		})},
		{"IOPS", addition(func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units() })},
		{"stream status", addition(func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = stream })},
		{"IndexName", addition(func(in *dynamodb.UpdateTableInput) { in.GlobalSecondaryIndexUpdates[0].Create.IndexName = nil })},
		{"OnDemandThroughput", index(&types.UpdateGlobalSecondaryIndexAction{OnDemandThroughput: demand})},
		{"WarmThroughput", index(&types.UpdateGlobalSecondaryIndexAction{WarmThroughput: warm})},

		{"Key", &dynamodb.GetItemInput{TableName: ptr(mainTable)}},
		{"Key", &dynamodb.DeleteItemInput{TableName: ptr(mainTable)}},
		{"Item", &dynamodb.PutItemInput{TableName: ptr(mainTable)}},
		{"Key", &dynamodb.UpdateItemInput{TableName: ptr(mainTable)}},
		{"2048", &dynamodb.QueryInput{
			TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": blob(2049)},
		}},
		{"rangekey has exceeded", &dynamodb.QueryInput{
			TableName: ptr(mainTable), KeyConditionExpression: ptr("pk = :p AND sk = :s"),
			ExpressionAttributeValues: attrs{":p": str("a"), ":s": str(strings.Repeat("x", 1025))},
		}},
		{"Too many", &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			mainTable: {Keys: manyKeys(100)}, otherName: {Keys: []attrs{{"id": str("a")}}},
		}}},
		{"Too many", &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			mainTable: slices.Repeat([]types.WriteRequest{putRequest(keyed("z", "z"))}, 25), otherName: {putRequest(attrs{"id": str("a")})},
		}}},
		{"Get", read(types.TransactGetItem{})},
		{"bytes together", read(all...)},
		{"bytes together", transact(large...)},
		{"ConditionExpression", transact(types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: ptr(mainTable), Key: keyed("z", "z")}})},
		{"UpdateExpression", transact(types.TransactWriteItem{Update: &types.Update{TableName: ptr(mainTable), Key: keyed("z", "z")}})},

		{"TimeToLiveSpecification", &dynamodb.UpdateTimeToLiveInput{TableName: ptr(mainTable)}},
		{"AttributeName", expire(&types.TimeToLiveSpecification{Enabled: ptr(true)})},
		{"Enabled", expire(&types.TimeToLiveSpecification{AttributeName: ptr("a")})},
		{"Key", tag(types.Tag{Value: ptr("v")})},
		{"Value", tag(types.Tag{Key: ptr("k")})},
		{"NextToken", &dynamodb.ListTagsOfResourceInput{ResourceArn: arn, NextToken: ptr("x")}},
		{"Number of Tags", &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: slices.Repeat([]string{"x"}, 51)}},
	} {
		if o := perform(t, f.db, tt.in); o.Code != "ValidationException" || !strings.Contains(fmt.Sprint(o.Error), tt.mention) {
			t.Errorf("%s: got %+v, want a ValidationException that mentions %s", operationOf(tt.in), o, tt.mention)
		}
	}
	mustEqual(t, "the table", before, perform(t, f.db, describe))
	mustEqual(t, "what a refused batch wrote", attrs(nil), f.get(keyed("z", "z")))
}
