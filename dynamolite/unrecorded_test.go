package dynamolite_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// creating returns a request for another table.
func creating(change func(*dynamodb.CreateTableInput)) *dynamodb.CreateTableInput {
	in := otherInput()
	change(in)
	return in
}

// These requests are refused in words that say why. The recorded cases of package differential have
// the others: SDKs do not send these, or DynamoDB Local accepts them.
func TestRefusalsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	key := keyed("a", "b")
	late := func(change func(*dynamodb.UpdateTableInput)) *dynamodb.UpdateTableInput {
		in := adding(lateIndex, types.ProjectionTypeAll)
		change(in)
		return in
	}
	update := func(a types.UpdateGlobalSecondaryIndexAction) *dynamodb.UpdateTableInput {
		return changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Update: &a}}
		})
	}
	transact := func(it types.TransactWriteItem) *dynamodb.TransactWriteItemsInput {
		return &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{it}}
	}
	arn := ptr(*describeMain(t, newFixture(t).db).TableArn)
	table := ptr(mainTable)
	enabled := &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeNewImage}
	below := &types.OnDemandThroughput{MaxWriteRequestUnits: ptr(int64(-2))}
	cold := &types.WarmThroughput{WriteUnitsPerSecond: ptr(int64(0))}
	encrypted := &types.SSESpecification{KMSMasterKeyId: ptr("k")}
	keys := func(n int) types.KeysAndAttributes { return types.KeysAndAttributes{Keys: make([]attrs, n)} }
	for _, tt := range []struct {
		in      any
		mention string
	}{
		{&dynamodb.GetItemInput{TableName: table}, "'Key'"},
		{&dynamodb.PutItemInput{TableName: table}, "'Item'"},
		{&dynamodb.DeleteItemInput{TableName: table}, "'Key'"},
		{&dynamodb.UpdateItemInput{TableName: table}, "'Key'"},
		{&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{mainTable: keys(60), otherName: keys(60)}}, "Too many items"},
		{&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			mainTable: make([]types.WriteRequest, 13), otherName: make([]types.WriteRequest, 13),
		}}, "Too many items"},
		{&dynamodb.QueryInput{
			TableName: table, KeyConditionExpression: ptr("pk = :p AND sk = :s"),
			ExpressionAttributeValues: attrs{":p": str("a"), ":s": str(strings.Repeat("x", 1025))},
		}, "rangekey has exceeded"},
		{&dynamodb.TransactGetItemsInput{TransactItems: make([]types.TransactGetItem, 1)}, "'Get'"},
		{transact(types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: table, Key: key}}), "'ConditionExpression'"},
		{transact(types.TransactWriteItem{Update: &types.Update{TableName: table, Key: key}}), "'UpdateExpression'"},

		{&dynamodb.UpdateTimeToLiveInput{TableName: table}, "'TimeToLiveSpecification'"},
		{&dynamodb.UpdateTimeToLiveInput{TableName: table, TimeToLiveSpecification: &types.TimeToLiveSpecification{Enabled: ptr(true)}}, "'AttributeName'"},
		{&dynamodb.UpdateTimeToLiveInput{TableName: table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: ptr("a")}}, "'Enabled'"},
		{&dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: make([]string, 51)}, "Number of Tags"},
		{&dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{{Value: ptr("v")}}}, "'Key'"},
		{&dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{{Key: ptr("k")}}}, "'Value'"},
		{&dynamodb.ListTagsOfResourceInput{ResourceArn: arn, NextToken: ptr("x")}, "NextToken"},

		{creating(func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{} }), "GlobalSecondaryIndexes is empty"},
		{creating(func(in *dynamodb.CreateTableInput) { in.SSESpecification = encrypted }), "KMSMasterKeyId"},
		{creating(func(in *dynamodb.CreateTableInput) { in.SSESpecification = &types.SSESpecification{SSEType: "AES256"} }), "AES256"},
		{creating(func(in *dynamodb.CreateTableInput) { in.OnDemandThroughput = below }), "OnDemandThroughput"},
		{creating(func(in *dynamodb.CreateTableInput) { in.ResourcePolicy = ptr("{}") }), "ResourcePolicy"},
		{creating(func(in *dynamodb.CreateTableInput) { in.GlobalTableSourceArn = arn }), "GlobalTableSourceArn"},
		{creating(func(in *dynamodb.CreateTableInput) { in.GlobalTableSettingsReplicationMode = "ENABLED" }), "GlobalTableSettingsReplicationMode"},
		{creating(func(in *dynamodb.CreateTableInput) { in.VectorIndexes = make([]types.VectorIndex, 1) }), "VectorIndexes"},

		{changing(func(in *dynamodb.UpdateTableInput) { in.TableClass = "COLD" }), "tableClass"},
		{changing(func(in *dynamodb.UpdateTableInput) {
			in.TableClass, in.DeletionProtectionEnabled = "STANDARD", ptr(true)
		}), "only operation"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.SSESpecification = encrypted }), "KMSMasterKeyId"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.OnDemandThroughput = below }), "OnDemandThroughput"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.WarmThroughput = cold }), "WarmThroughput"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = &types.StreamSpecification{} }), "StreamEnabled"},
		{changing(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification, in.ProvisionedThroughput = enabled, units(1, 1)
		}), "IOPS"},
		{late(func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units(1, 1) }), "IOPS"},
		{late(func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = enabled }), "stream status"},
		{late(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates[0].Create.OnDemandThroughput = below
		}), "OnDemandThroughput"},
		{update(types.UpdateGlobalSecondaryIndexAction{}), "'IndexName'"},
		{update(types.UpdateGlobalSecondaryIndexAction{IndexName: ptr(fullIndex), WarmThroughput: cold}), "WarmThroughput"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.ReplicaUpdates = make([]types.ReplicationGroupUpdate, 1) }), "ReplicaUpdates"},
		{changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalTableWitnessUpdates = make([]types.GlobalTableWitnessGroupUpdate, 1)
		}), "GlobalTableWitnessUpdates"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.GlobalTableSettingsReplicationMode = "ENABLED" }), "GlobalTableSettingsReplicationMode"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.MultiRegionConsistency = "STRONG" }), "MultiRegionConsistency"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.DisassociationProtectionEnabled = ptr(true) }), "DisassociationProtectionEnabled"},
		{changing(func(in *dynamodb.UpdateTableInput) { in.VectorIndexUpdates = make([]types.VectorIndexUpdate, 1) }), "VectorIndexUpdates"},
	} {
		if got := message(t, newFixture(t).db, tt.in); !strings.Contains(got, tt.mention) {
			t.Errorf("%T: %q does not mention %q", tt.in, got, tt.mention)
		}
	}
}

// A transaction has at most 4 MB of items.
func TestTransactionsHaveBoundedBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	puts, gets := make([]types.TransactWriteItem, 11), make([]types.TransactGetItem, 11)
	for i := range puts {
		item := with(keyed("a", string(rune('a'+i))), attrs{"s": blob(390_000)})
		puts[i].Put = &types.Put{TableName: ptr(mainTable), Item: item}
		gets[i].Get = &types.Get{TableName: ptr(mainTable), Key: keyed("a", string(rune('a'+i)))}
		f.put(item)
	}
	for _, in := range []any{&dynamodb.TransactWriteItemsInput{TransactItems: puts}, &dynamodb.TransactGetItemsInput{TransactItems: gets}} {
		if got := message(t, f.db, in); !strings.Contains(got, "bytes together") {
			t.Errorf("%T: %q", in, got)
		}
	}
}
