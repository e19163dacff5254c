package dynamolite_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// sortKeys returns the given attribute of items, as text.
func sortKeys(items []attrs, attribute string) []string {
	out := []string{}
	for _, item := range items {
		switch v := item[attribute].(type) {
		case *types.AttributeValueMemberS:
			out = append(out, v.Value)
		case *types.AttributeValueMemberN:
			out = append(out, v.Value)
		case *types.AttributeValueMemberB:
			out = append(out, string(v.Value))
		}
	}
	return out
}

func TestQueryOrdersNumbersAndBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tt := range []struct {
		kind string
		want []types.AttributeValue
	}{
		{"N", []types.AttributeValue{
			num("-1000000000000000000000"), num("-10"), num("-9.5"), num("-0.001"), num("0"), num("0.0000001"), num("2"), num("10"), num("10.1"),
			num("9999999999999999999999999999999999999"), num("99999999999999999999999999999999999999"),
		}},
		{"B", []types.AttributeValue{bin("\x00"), bin("\x00\x00"), bin("\x00\x01"), bin("\x01"), bin("\x7f"), bin("\x80"), bin("\xff"), bin("\xff\xff")}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			name := ptr("by-" + tt.kind)
			if _, err := f.db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
				TableName: name, BillingMode: types.BillingModePayPerRequest,
				KeySchema: schemaOf("id", "pos"), AttributeDefinitions: definitionsOf("id:S", "pos:"+tt.kind),
			}); err != nil {
				t.Fatal(err)
			}
			for i := range tt.want {
				v := tt.want[(i*5)%len(tt.want)]
				if _, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: name, Item: attrs{"id": str("a"), "pos": v}}); err != nil {
					t.Fatal(err)
				}
			}
			query := func(condition string, v types.AttributeValue) []types.AttributeValue {
				values := attrs{":id": str("a")}
				if v != nil {
					values[":v"] = v
				}
				out, err := f.db.Query(t.Context(), &dynamodb.QueryInput{TableName: name, KeyConditionExpression: &condition, ExpressionAttributeValues: values})
				if err != nil {
					t.Fatal(err)
				}
				var got []types.AttributeValue
				for _, item := range out.Items {
					got = append(got, item["pos"])
				}
				return got
			}
			mustEqual(t, "order", tt.want, query("id = :id", nil))
			for i, v := range tt.want {
				mustEqual(t, "from", tt.want[i:], query("id = :id AND pos >= :v", v))
				mustEqual(t, "until", append([]types.AttributeValue(nil), tt.want[:i]...), query("id = :id AND pos < :v", v))
			}
		})
	}
}

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

// A page that ends at its limit has a position, even on the last item; the page after it is empty.
func TestQueryEndsAtLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(keyed("a", "1"), keyed("a", "2"))
	in := dynamodb.QueryInput{KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}, Limit: ptr(int32(2))}
	out := f.query(&in)
	mustEqual(t, "position", keyed("a", "2"), out.LastEvaluatedKey)
	in.ExclusiveStartKey = out.LastEvaluatedKey
	out = f.query(&in)
	if out.Items == nil || len(out.Items) != 0 || out.LastEvaluatedKey != nil {
		t.Errorf("got %v and %v, want an empty page without a position", out.Items, out.LastEvaluatedKey)
	}
	// A position stays valid without its item.
	if _, err := f.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", "1")}); err != nil {
		t.Fatal(err)
	}
	in.ExclusiveStartKey = keyed("a", "1")
	mustEqual(t, "after a deleted item", []string{"2"}, sortKeys(f.query(&in).Items, "sk"))
}

func TestQueryIndexPosition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(with(keyed("a", "b"), attrs{"fpk": str("f"), "fsk": num("1"), "x": str("y")}))
	out := f.query(&dynamodb.QueryInput{
		IndexName: ptr(fullIndex), KeyConditionExpression: ptr("fpk = :v"), ExpressionAttributeValues: attrs{":v": str("f")}, Limit: ptr(int32(1)),
	})
	mustEqual(t, "position", with(keyed("a", "b"), attrs{"fpk": str("f"), "fsk": num("1")}), out.LastEvaluatedKey)
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

func TestQueryFilterCountsAfterLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 6 {
		f.put(with(keyed("a", strconv.Itoa(i)), attrs{"n": num(strconv.Itoa(i))}))
	}
	out := f.query(&dynamodb.QueryInput{
		KeyConditionExpression: ptr("pk = :v"), FilterExpression: ptr("n >= :n"), Limit: ptr(int32(4)),
		ExpressionAttributeValues: attrs{":v": str("a"), ":n": num("2")},
	})
	mustEqual(t, "items", []string{"2", "3"}, sortKeys(out.Items, "sk"))
	if out.Count != 2 || out.ScannedCount != 4 {
		t.Errorf("count %d of %d, want 2 of 4", out.Count, out.ScannedCount)
	}
}

// An index follows its table through every kind of write.
func TestIndexFollowsWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := keyed("a", "b")
	check := func(when, index, attribute, value string, want ...attrs) {
		t.Helper()
		if want == nil {
			want = []attrs{}
		}
		mustEqual(t, when, want, f.entries(index, attribute, value))
	}
	f.put(with(key, attrs{"fpk": str("f")}))
	check("half a key", fullIndex, "fpk", "f")
	f.update(key, "SET fsk = :n", attrs{":n": num("1")})
	check("both keys", fullIndex, "fpk", "f", with(key, attrs{"fpk": str("f"), "fsk": num("1")}))
	f.update(key, "SET v = :n", attrs{":n": num("7")})
	check("an attribute more", fullIndex, "fpk", "f", with(key, attrs{"fpk": str("f"), "fsk": num("1"), "v": num("7")}))
	f.update(key, "SET fpk = :g", attrs{":g": str("g")})
	check("moved from", fullIndex, "fpk", "f")
	check("moved to", fullIndex, "fpk", "g", with(key, attrs{"fpk": str("g"), "fsk": num("1"), "v": num("7")}))
	f.update(key, "SET fsk = :n", attrs{":n": num("2")})
	check("moved within", fullIndex, "fpk", "g", with(key, attrs{"fpk": str("g"), "fsk": num("2"), "v": num("7")}))
	f.put(with(key, attrs{"fpk": str("g"), "fsk": num("2")}))
	check("replaced", fullIndex, "fpk", "g", with(key, attrs{"fpk": str("g"), "fsk": num("2")}))
	f.update(key, "REMOVE fsk", nil)
	check("key removed", fullIndex, "fpk", "g")
	f.put(with(key, attrs{"spk": str("s"), "ssk": str("t"), "x": num("1"), "z": num("1")}))
	check("included", someAttrs, "spk", "s", with(key, attrs{"spk": str("s"), "ssk": str("t"), "x": num("1")}))
	f.update(key, "SET y = :n REMOVE x", attrs{":n": num("3")})
	check("included more", someAttrs, "spk", "s", with(key, attrs{"spk": str("s"), "ssk": str("t"), "y": num("3")}))
	if _, err := f.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}); err != nil {
		t.Fatal(err)
	}
	check("deleted", someAttrs, "spk", "s")
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
