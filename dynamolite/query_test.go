package dynamolite_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// queryAll repeats a query until its pages end, and checks each page's counts.
func (f *fixture) queryAll(in dynamodb.QueryInput) (items []attrs, pages int) {
	f.t.Helper()
	for {
		out := f.query(&in)
		pages++
		items = append(items, out.Items...)
		if in.Limit != nil && out.ScannedCount > *in.Limit {
			f.t.Errorf("a page of %d scanned %d", *in.Limit, out.ScannedCount)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return items, pages
		}
	}
}

// indexedItems returns items of which many have equal keys in the index "full".
func indexedItems() []attrs {
	var items []attrs
	for i := range 30 {
		items = append(items, with(keyed(fmt.Sprint("p", i%4), fmt.Sprint("s", i)), attrs{
			"fpk": str("f"), "fsk": num(strconv.Itoa(i % 3)), "even": &types.AttributeValueMemberBOOL{Value: i%2 == 0},
		}))
	}
	return items
}

// The pages of a query are its answer in pieces: with any Limit, direction, table, index and
// filter, the pages together hold the contents of one page.
func TestQueryPagingLaws(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(indexedItems()...)
	for i := range 17 {
		f.put(with(keyed("a", strconv.Itoa(i)), attrs{"even": &types.AttributeValueMemberBOOL{Value: i%2 == 0}}))
	}
	for _, base := range []struct {
		name string
		in   dynamodb.QueryInput
		n    int
	}{
		{"table", dynamodb.QueryInput{KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}}, 17},
		{"table range", dynamodb.QueryInput{
			KeyConditionExpression: ptr("pk = :v AND sk < :h"), ExpressionAttributeValues: attrs{":v": str("a"), ":h": str("5")},
		}, 12},
		{"table filter", dynamodb.QueryInput{
			KeyConditionExpression: ptr("pk = :v"), FilterExpression: ptr("even = :t"),
			ExpressionAttributeValues: attrs{":v": str("a"), ":t": &types.AttributeValueMemberBOOL{Value: true}},
		}, 9},
		{"index", dynamodb.QueryInput{
			IndexName: ptr(fullIndex), KeyConditionExpression: ptr("fpk = :v"), ExpressionAttributeValues: attrs{":v": str("f")},
		}, 30},
		{"index ties", dynamodb.QueryInput{
			IndexName: ptr(fullIndex), KeyConditionExpression: ptr("fpk = :v AND fsk = :one"),
			ExpressionAttributeValues: attrs{":v": str("f"), ":one": num("1")},
		}, 10},
		{"index filter on the table's key", dynamodb.QueryInput{
			IndexName: ptr(fullIndex), KeyConditionExpression: ptr("fpk = :v"), FilterExpression: ptr("pk = :p"),
			ExpressionAttributeValues: attrs{":v": str("f"), ":p": str("p1")},
		}, 8},
	} {
		t.Run(base.name, func(t *testing.T) {
			t.Parallel()
			whole, _ := f.queryAll(base.in)
			if len(whole) != base.n {
				t.Fatalf("got %d items, want %d", len(whole), base.n)
			}
			for _, backward := range []bool{false, true} {
				want := slices.Clone(whole)
				if backward {
					slices.Reverse(want)
				}
				for limit := int32(1); limit < 35; limit++ {
					in := base.in
					in.ScanIndexForward, in.Limit = ptr(!backward), &limit
					got, _ := f.queryAll(in)
					mustEqual(t, fmt.Sprintf("limit %d, backward %v", limit, backward), want, got)
				}
			}
		})
	}
}

func TestQueryPageOfBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const each = 100 * 1024
	for i := range 15 {
		f.put(with(keyed("a", fmt.Sprintf("%02d", i)), attrs{"s": blob(each - len("pkask00s"))}))
	}
	for _, backward := range []bool{false, true} {
		in := dynamodb.QueryInput{
			KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")},
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, ScanIndexForward: ptr(!backward), ProjectionExpression: ptr("sk"),
		}
		out := f.query(&in)
		if len(out.Items) != 11 || out.LastEvaluatedKey == nil {
			t.Errorf("the first page has %d items and position %v, want the one that crosses 1 MB and a position", len(out.Items), out.LastEvaluatedKey)
		}
		if got := *out.ConsumedCapacity.CapacityUnits; got != 11*each/4096/2. {
			t.Errorf("the first page cost %v RCU", got)
		}
		all, pages := f.queryAll(in)
		if len(all) != 15 || pages != 2 {
			t.Errorf("got %d items in %d pages", len(all), pages)
		}
	}
}

// An index that is still being filled is not visible to readers.
func TestFillingIndexCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	query := func() error {
		_, err := f.db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: ptr(mainTable), IndexName: ptr(keysOnly), KeyConditionExpression: ptr("kpk = :v"), ExpressionAttributeValues: attrs{":v": str("k")},
		})
		return err
	}
	scan := func() error {
		_, err := f.db.Scan(t.Context(), &dynamodb.ScanInput{TableName: ptr(mainTable), IndexName: ptr(keysOnly)})
		return err
	}
	for _, read := range []func() error{query, scan} {
		f.db.SetFilling(mainTable, keysOnly, true)
		wantInvalid(t, read(), "Cannot read from backfilling global secondary index: "+keysOnly)
		f.db.SetFilling(mainTable, keysOnly, false)
		if err := read(); err != nil {
			t.Error(err)
		}
	}
}
