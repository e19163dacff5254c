package dynamolite_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// smallCollection returns the metrics of a collection of less than a gigabyte.
func smallCollection(pk string) types.ItemCollectionMetrics {
	return types.ItemCollectionMetrics{ItemCollectionKey: attrs{"pk": str(pk)}, SizeEstimateRangeGB: []float64{0, 1}}
}

func mustEqualMetrics(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(types.ItemCollectionMetrics{}, types.AttributeValueMemberS{})); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// Every write to a table with local indexes returns the metrics of its collection, if asked.
func TestCollectionMetrics(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		table string
		asked types.ReturnItemCollectionMetrics
		want  bool
	}{
		{localTable, types.ReturnItemCollectionMetricsSize, true},
		{localTable, types.ReturnItemCollectionMetricsNone, false},
		{localTable, "", false},
		{mainTable, types.ReturnItemCollectionMetricsSize, false},
	} {
		t.Run(fmt.Sprintf("%s/%s", tt.table, tt.asked), func(t *testing.T) {
			t.Parallel()
			db := fixtureIn(t, newLocal(t)).db
			var one *types.ItemCollectionMetrics
			if tt.want {
				one = new(smallCollection("p"))
			}
			key := keyed("p", "1")
			put, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tt.table, Item: key, ReturnItemCollectionMetrics: tt.asked})
			if err != nil {
				t.Fatal(err)
			}
			mustEqualMetrics(t, "put", one, put.ItemCollectionMetrics)
			update, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: &tt.table, Key: key, UpdateExpression: ptr("SET x = :x"), ExpressionAttributeValues: attrs{":x": num("1")}, ReturnItemCollectionMetrics: tt.asked,
			})
			if err != nil {
				t.Fatal(err)
			}
			mustEqualMetrics(t, "update", one, update.ItemCollectionMetrics)
			del, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &tt.table, Key: key, ReturnItemCollectionMetrics: tt.asked})
			if err != nil {
				t.Fatal(err)
			}
			mustEqualMetrics(t, "delete", one, del.ItemCollectionMetrics)

			var many map[string][]types.ItemCollectionMetrics
			if tt.want {
				many = map[string][]types.ItemCollectionMetrics{localTable: {smallCollection("p"), smallCollection("q"), smallCollection("p")}}
			}
			batch, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
				ReturnItemCollectionMetrics: tt.asked,
				RequestItems: map[string][]types.WriteRequest{tt.table: {
					{PutRequest: &types.PutRequest{Item: key}},
					{DeleteRequest: &types.DeleteRequest{Key: keyed("q", "1")}},
					{PutRequest: &types.PutRequest{Item: keyed("p", "2")}},
				}, otherName: {{PutRequest: &types.PutRequest{Item: attrs{"id": str("a")}}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			mustEqualMetrics(t, "batch", many, batch.ItemCollectionMetrics)
			transact, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				ReturnItemCollectionMetrics: tt.asked,
				TransactItems: []types.TransactWriteItem{
					{Put: &types.Put{TableName: &tt.table, Item: key}},
					{Delete: &types.Delete{TableName: &tt.table, Key: keyed("q", "1")}},
					{Update: &types.Update{TableName: &tt.table, Key: keyed("p", "2"), UpdateExpression: ptr("REMOVE x")}},
					{ConditionCheck: &types.ConditionCheck{TableName: &tt.table, Key: keyed("r", "1"), ConditionExpression: ptr("attribute_not_exists(pk)")}},
					{Put: &types.Put{TableName: ptr(otherName), Item: attrs{"id": str("a")}}},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			mustEqualMetrics(t, "transaction", many, transact.ItemCollectionMetrics)
		})
	}
}

// The estimate counts the items of the partition and their entries in the local indexes, and
// nothing else.
func TestCollectionSize(t *testing.T) {
	t.Parallel()
	db := fixtureIn(t, newLocal(t)).db
	measured := func() (bytes int64) {
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(localTable)})
		if err != nil {
			t.Fatal(err)
		}
		bytes = *out.Table.TableSizeBytes
		for _, x := range out.Table.LocalSecondaryIndexes {
			bytes += *x.IndexSizeBytes
		}
		return bytes
	}
	for i := range 50 {
		item := with(keyed("p", strconv.Itoa(i)), attrs{"w": blob(300), "g": str("g")})
		if i%2 == 0 {
			item["n"], item["t"] = num("1"), str("t")
		}
		localPut(t, db, item)
	}
	size := measured() // while it is the only item
	for i := range 300 {
		localPut(t, db, with(keyed(fmt.Sprint("q", i), "1"), attrs{"w": blob(300), "n": num("1")}))
	}
	shards := measured()
	for unit := int64(1); unit < 2*shards; unit = unit*3/2 + 1 {
		low, high := db.CollectionSize(localTable, str("p"), unit, 1000)
		if high != low+1 || low != float64(size/unit) {
			t.Errorf("%d bytes in units of %d are [%v, %v]", size, unit, low, high)
		}
		low, high = db.CollectionSize(localTable, str("p"), unit, 10)
		if exact := float64(size) / float64(unit); low > exact || high < exact || high > float64(shards/unit)+1 {
			t.Errorf("%d bytes in units of %d are in [%v, %v], when few are looked at", size, unit, low, high)
		}
	}
	if low, high := db.CollectionSize(localTable, str("nothing"), 1, 10); low != 0 || high != 1 {
		t.Errorf("no collection has [%v, %v]", low, high)
	}
}

// The key in the metrics is a copy, not the key of the request.
func TestCollectionKeyIsACopy(t *testing.T) {
	t.Parallel()
	db := newLocal(t)
	key := keyed("p", "1")
	out, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: ptr(localTable), Key: key, ReturnItemCollectionMetrics: types.ReturnItemCollectionMetricsSize,
	})
	if err != nil {
		t.Fatal(err)
	}
	out.ItemCollectionMetrics.ItemCollectionKey["pk"].(*types.AttributeValueMemberS).Value = "changed"
	mustEqual(t, "the request", keyed("p", "1"), key)
}
