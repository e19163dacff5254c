package dynamolite_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// The table of the tests of local indexes: pk S, sk S.
const (
	localTable = "local"
	localAll   = "by-number" // n N; ALL
	localKeys  = "by-text"   // t S; KEYS_ONLY
	localSome  = "by-bytes"  // b B; INCLUDE x
	besideThem = "beside"    // global: g S, n N; INCLUDE x
)

func lsiOf(name string, projection types.ProjectionType, include []string, keys ...string) types.LocalSecondaryIndex {
	g := gsiOf(name, projection, include, keys...)
	return types.LocalSecondaryIndex{IndexName: g.IndexName, KeySchema: g.KeySchema, Projection: g.Projection}
}

func localInput() *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            ptr(localTable),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            schemaOf("pk", "sk"),
		AttributeDefinitions: definitionsOf("pk:S", "sk:S", "n:N", "t:S", "b:B", "g:S"),
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{
			lsiOf(localAll, types.ProjectionTypeAll, nil, "pk", "n"),
			lsiOf(localKeys, types.ProjectionTypeKeysOnly, nil, "pk", "t"),
			lsiOf(localSome, types.ProjectionTypeInclude, []string{"x"}, "pk", "b"),
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			gsiOf(besideThem, types.ProjectionTypeInclude, []string{"x"}, "g", "n"),
		},
	}
}

// newLocal returns a database with the table.
func newLocal(tb testing.TB) *dynamolite.DB {
	tb.Helper()
	db := dynamolite.New(dynamolite.Options{})
	if _, err := db.CreateTable(tb.Context(), localInput()); err != nil {
		tb.Fatal(err)
	}
	return db
}

// view is the table or an index of it, as the model of the tests sees it.
type view struct {
	index     string   // "": the table
	hash, rng string   // its own key
	projected []string // nil: everything
	local     bool
}

func localViews() []view {
	return []view{
		{hash: "pk", rng: "sk"},
		{index: localAll, hash: "pk", rng: "n", local: true},
		{index: localKeys, hash: "pk", rng: "t", projected: []string{"pk", "sk", "t"}, local: true},
		{index: localSome, hash: "pk", rng: "b", projected: []string{"pk", "sk", "b", "x"}, local: true},
		{index: besideThem, hash: "g", rng: "n", projected: []string{"pk", "sk", "g", "n", "x"}},
	}
}

func (v *view) name() *string {
	if v.index == "" {
		return nil
	}
	return &v.index
}

// keys returns the names in a LastEvaluatedKey.
func (v *view) keys() []string {
	names := []string{"pk", "sk", v.hash, v.rng}
	slices.Sort(names)
	return slices.Compact(names)
}

// entry returns the view's part of an item, nil if it has none.
func (v *view) entry(item attrs) attrs {
	if item[v.hash] == nil || item[v.rng] == nil {
		return nil
	}
	if v.projected == nil {
		return item
	}
	entry := attrs{}
	for _, name := range v.projected {
		if item[name] != nil {
			entry[name] = item[name]
		}
	}
	return entry
}

// compareKeys orders two key values of one type.
func compareKeys(a, b types.AttributeValue) int {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		return strings.Compare(a.Value, b.(*types.AttributeValueMemberS).Value)
	case *types.AttributeValueMemberB:
		return bytes.Compare(a.Value, b.(*types.AttributeValueMemberB).Value)
	default:
		x, _ := strconv.Atoi(a.(*types.AttributeValueMemberN).Value)
		y, _ := strconv.Atoi(b.(*types.AttributeValueMemberN).Value)
		return cmp.Compare(x, y)
	}
}

// localModel is the expected contents of a table, by key.
type localModel map[string]attrs

func modelKey(item attrs) string { return textOf(attrs{"pk": item["pk"], "sk": item["sk"]}) }

// textOf returns an item as a text that identifies it.
func textOf(item attrs) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(item)) {
		switch v := item[name].(type) {
		case *types.AttributeValueMemberS:
			fmt.Fprintf(&b, "%s=S%q ", name, v.Value)
		case *types.AttributeValueMemberN:
			fmt.Fprintf(&b, "%s=N%s ", name, v.Value)
		case *types.AttributeValueMemberB:
			fmt.Fprintf(&b, "%s=B%q ", name, v.Value)
		default:
			fmt.Fprintf(&b, "%s=%T ", name, v)
		}
	}
	return b.String()
}

func textsOf(items []attrs) []string {
	texts := make([]string, len(items))
	for i := range items {
		texts[i] = textOf(items[i])
	}
	return texts
}

// partition returns the expected result of a query of a view, in order.
func (m localModel) partition(v *view, hash string) []attrs {
	var items []attrs
	for _, item := range m {
		if h, ok := item[v.hash].(*types.AttributeValueMemberS); ok && h.Value == hash && v.entry(item) != nil {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(a, b attrs) int {
		return cmp.Or(compareKeys(a[v.rng], b[v.rng]), compareKeys(a["pk"], b["pk"]), compareKeys(a["sk"], b["sk"]))
	})
	entries := make([]attrs, len(items))
	for i := range items {
		entries[i] = v.entry(items[i])
	}
	return entries
}

// drawItem draws an item with one of a few keys, so that items are replaced and have equal keys
// in the indexes.
func drawItem(t *rapid.T) attrs {
	item := drawKey(t)
	small := rapid.IntRange(-2, 4)
	for _, optional := range []struct {
		name string
		make func(string) types.AttributeValue
	}{{"n", num}, {"t", str}, {"b", bin}, {"g", str}, {"x", num}, {"w", num}} {
		if rapid.IntRange(0, 2).Draw(t, "has "+optional.name) > 0 {
			item[optional.name] = optional.make(strconv.Itoa(small.Draw(t, optional.name)))
		}
	}
	return item
}

func drawKey(t *rapid.T) attrs {
	return keyed(rapid.SampledFrom([]string{"0", "1", "2", "\x00", "longer", "é"}).Draw(t, "pk"), strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "sk")))
}

// A local index holds the same items as its table, in its own order, after any writes.
func TestLocalIndexesFollowWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		db, m := newLocal(t), localModel{}
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "writes") {
			item := drawItem(rt)
			key := keyed(item["pk"].(*types.AttributeValueMemberS).Value, item["sk"].(*types.AttributeValueMemberS).Value)
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(localTable), Item: item})
				must(err)
				m[modelKey(key)] = item
			case 1:
				_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(localTable), Key: key})
				must(err)
				delete(m, modelKey(key))
			case 2:
				expression, values, changed := updateTo(m[modelKey(key)], item)
				_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: ptr(localTable), Key: key, UpdateExpression: &expression, ExpressionAttributeValues: values,
				})
				must(err)
				m[modelKey(key)] = changed
			case 3:
				_, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
					localTable: {{PutRequest: &types.PutRequest{Item: item}}},
				}})
				must(err)
				m[modelKey(key)] = item
			default:
				other := keyed("other", "item")
				_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
					{Put: &types.Put{TableName: ptr(localTable), Item: item}}, {Delete: &types.Delete{TableName: ptr(localTable), Key: other}},
				}})
				must(err)
				m[modelKey(key)] = item
			}
		}
		for _, v := range localViews() {
			for _, hash := range []string{"0", "1", "2", "\x00", "longer", "é"} {
				for _, backward := range []bool{false, true} {
					want := m.partition(&v, hash)
					if backward {
						slices.Reverse(want)
					}
					out, err := db.Query(t.Context(), &dynamodb.QueryInput{
						TableName: ptr(localTable), IndexName: v.name(), ScanIndexForward: ptr(!backward), ConsistentRead: ptr(v.index != besideThem),
						KeyConditionExpression: ptr(v.hash + " = :h"), ExpressionAttributeValues: attrs{":h": str(hash)},
					})
					must(err)
					if got := textsOf(out.Items); !slices.Equal(textsOf(want), got) {
						rt.Fatalf("%s of %q, backward %v:\nwant %q\ngot  %q", v.index, hash, backward, textsOf(want), got)
					}
				}
			}
		}
	})
}

// updateTo returns an update that gives an item the attributes of another one, and removes x if
// the other has none.
func updateTo(old, to attrs) (expression string, values, changed attrs) {
	changed = with(old, to)
	values = attrs{":unused": num("0")}
	sets := []string{"z = :unused"}
	changed["z"] = num("0")
	for _, name := range []string{"n", "t", "b", "g", "x", "w"} {
		if to[name] != nil {
			sets = append(sets, name+" = :"+name)
			values[":"+name] = to[name]
		}
	}
	expression = "SET " + strings.Join(sets, ", ")
	if to["t"] == nil {
		expression += " REMOVE t"
		delete(changed, "t")
	}
	return expression, values, changed
}

// localPut stores items in the table.
func localPut(tb testing.TB, db *dynamolite.DB, items ...attrs) {
	tb.Helper()
	for _, item := range items {
		if _, err := db.PutItem(tb.Context(), &dynamodb.PutItemInput{TableName: ptr(localTable), Item: item}); err != nil {
			tb.Fatal(err)
		}
	}
}

// Attributes that a local index does not hold are fetched from the table. Each item is billed to
// the table separately.
func TestLocalIndexFetches(t *testing.T) {
	t.Parallel()
	db := newLocal(t)
	var whole []attrs
	for i := range 3 {
		digit := strconv.Itoa(i)
		whole = append(whole, with(keyed("p", digit), attrs{
			"t": str(digit), "n": num(digit), "b": bin(digit), "x": num("1"), "w": blob(5000),
		}))
	}
	localPut(t, db, whole...)
	pick := func(names ...string) (out []attrs) {
		for _, item := range whole {
			some := attrs{}
			for _, name := range names {
				some[name] = item[name]
			}
			out = append(out, some)
		}
		return out
	}
	for _, tt := range []struct {
		index            string
		what             types.Select
		projection       string
		filter           string
		consistent       bool
		limit            int32
		want             []attrs
		ownRCU, tableRCU float64 // RCU
	}{
		{index: localKeys, want: pick("pk", "sk", "t"), ownRCU: 0.5},
		{index: localKeys, consistent: true, want: pick("pk", "sk", "t"), ownRCU: 1},
		{index: localKeys, what: types.SelectAllProjectedAttributes, want: pick("pk", "sk", "t"), ownRCU: 0.5},
		{index: localKeys, what: types.SelectAllAttributes, want: whole, ownRCU: 0.5, tableRCU: 3},
		{index: localKeys, what: types.SelectAllAttributes, consistent: true, want: whole, ownRCU: 1, tableRCU: 6},
		{index: localKeys, what: types.SelectAllAttributes, limit: 2, want: whole[:2], ownRCU: 0.5, tableRCU: 2},
		{index: localKeys, what: types.SelectCount, ownRCU: 0.5},
		{index: localKeys, projection: "sk, t", want: pick("sk", "t"), ownRCU: 0.5},
		{index: localKeys, projection: "sk, x", want: pick("sk", "x"), ownRCU: 0.5, tableRCU: 3},
		{index: localSome, projection: "sk, x", want: pick("sk", "x"), ownRCU: 0.5},
		{index: localSome, projection: "n", want: pick("n"), ownRCU: 0.5, tableRCU: 3},
		{index: localSome, projection: "n", filter: "x = :one", want: pick("n"), ownRCU: 0.5, tableRCU: 3},
		{index: localSome, projection: "n", filter: "x <> :one", want: []attrs{}, ownRCU: 0.5, tableRCU: 3},
		{index: localAll, what: types.SelectAllAttributes, want: whole, ownRCU: 2},
		{index: localAll, projection: "nothing", want: []attrs{{}, {}, {}}, ownRCU: 2},
	} {
		for _, scan := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/%s/%s/%v/%d/scan=%v", tt.index, tt.what, tt.projection, tt.filter, tt.consistent, tt.limit, scan), func(t *testing.T) {
				t.Parallel()
				in := dynamodb.QueryInput{
					TableName: ptr(localTable), IndexName: &tt.index, Select: tt.what, ConsistentRead: &tt.consistent,
					KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("p")},
					ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
				}
				if tt.projection != "" {
					in.ProjectionExpression = &tt.projection
				}
				if tt.filter != "" {
					in.FilterExpression = &tt.filter
					in.ExpressionAttributeValues[":one"] = num("1")
				}
				if tt.limit > 0 {
					in.Limit = &tt.limit
				}
				out := queryOrScan(t, db, in, scan)
				mustEqual(t, "items", tt.want, out.Items)
				bill := out.ConsumedCapacity
				if got := *bill.LocalSecondaryIndexes[tt.index].CapacityUnits; got != tt.ownRCU {
					t.Errorf("the index cost %v RCU, want %v", got, tt.ownRCU)
				}
				if got := *bill.Table.CapacityUnits; got != tt.tableRCU {
					t.Errorf("the table cost %v RCU, want %v", got, tt.tableRCU)
				}
				if got := *bill.CapacityUnits; got != tt.ownRCU+tt.tableRCU {
					t.Errorf("together it cost %v RCU, want %v", got, tt.ownRCU+tt.tableRCU)
				}
				if len(bill.GlobalSecondaryIndexes) > 0 {
					t.Error("a global index is billed")
				}
			})
		}
	}
}

// queryOrScan sends a query, or a scan with the same parameters except those that a scan does not
// have.
func queryOrScan(t *testing.T, db *dynamolite.DB, in dynamodb.QueryInput, scan bool) *dynamodb.QueryOutput {
	t.Helper()
	if !scan {
		out, err := db.Query(t.Context(), &in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	values := maps.Clone(in.ExpressionAttributeValues)
	if delete(values, ":p"); len(values) == 0 {
		values = nil
	}
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: in.TableName, IndexName: in.IndexName, Select: in.Select, ConsistentRead: in.ConsistentRead, Limit: in.Limit,
		ProjectionExpression: in.ProjectionExpression, FilterExpression: in.FilterExpression, ExpressionAttributeValues: values,
		ReturnConsumedCapacity: in.ReturnConsumedCapacity,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &dynamodb.QueryOutput{
		Items: out.Items, Count: out.Count, ScannedCount: out.ScannedCount, LastEvaluatedKey: out.LastEvaluatedKey, ConsumedCapacity: out.ConsumedCapacity,
	}
}

// A page of fetched items ends at 1 MB of items, however small their entries are. The pages
// together hold all items.
func TestLocalIndexPageOfFetchedBytes(t *testing.T) {
	t.Parallel()
	db := newLocal(t)
	const each, items = 20_000, 150 // more than are fetched at once
	for i := range items {
		localPut(t, db, with(keyed("p", fmt.Sprintf("%03d", i)), attrs{"t": str(fmt.Sprintf("%03d", items-i)), "w": blob(each)}))
	}
	for _, scan := range []bool{false, true} {
		for _, tt := range []struct {
			what  types.Select
			pages []int
		}{
			{types.SelectAllAttributes, []int{53, 53, 44}}, // 53 × 20 KB is the first sum above 1 MB
			{types.SelectAllProjectedAttributes, []int{items}},
			{types.SelectCount, []int{items}},
		} {
			in := dynamodb.QueryInput{
				TableName: ptr(localTable), IndexName: ptr(localKeys), Select: tt.what,
				KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("p")},
			}
			if !scan {
				in.ScanIndexForward = ptr(false)
			}
			var pages []int
			seen := map[string]bool{}
			for {
				out := page(t, db, in, scan)
				pages = append(pages, int(out.ScannedCount))
				for _, item := range out.Items {
					seen[textOf(item)] = true
				}
				if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
					break
				}
			}
			if !slices.Equal(pages, tt.pages) {
				t.Errorf("%s, scan %v: pages of %v, want %v", tt.what, scan, pages, tt.pages)
			}
			if tt.what != types.SelectCount && len(seen) != items {
				t.Errorf("%s, scan %v: %d items", tt.what, scan, len(seen))
			}
		}
	}
}

// A page may fetch any number of items: they are in order, each once, and within the limit.
func TestLocalIndexFetchesMany(t *testing.T) {
	t.Parallel()
	db := newLocal(t)
	const items = 300
	var want []attrs
	for i := range items {
		item := with(keyed("p", fmt.Sprintf("%03d", items-i)), attrs{"t": str(fmt.Sprintf("%03d", i)), "w": num(strconv.Itoa(i))})
		localPut(t, db, item)
		want = append(want, item)
	}
	for _, backward := range []bool{false, true} {
		for _, limit := range []int32{0, 1, 127, 128, 129, 200, 256, 257} {
			in := dynamodb.QueryInput{
				TableName: ptr(localTable), IndexName: ptr(localKeys), Select: types.SelectAllAttributes, ScanIndexForward: ptr(!backward),
				KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("p")},
			}
			n := items
			if limit > 0 {
				in.Limit, n = &limit, int(limit)
			}
			expected := slices.Clone(want)
			if backward {
				slices.Reverse(expected)
			}
			out := queryOrScan(t, db, in, false)
			if !slices.Equal(textsOf(expected[:n]), textsOf(out.Items)) || int(out.ScannedCount) != n || (out.LastEvaluatedKey != nil) != (limit > 0) {
				t.Errorf("backward %v, limit %d: %d items, %d scanned, position %v", backward, limit, len(out.Items), out.ScannedCount, out.LastEvaluatedKey)
			}
		}
	}
}

// page is queryOrScan from a start position.
func page(t *testing.T, db *dynamolite.DB, in dynamodb.QueryInput, scan bool) *dynamodb.QueryOutput {
	t.Helper()
	if !scan {
		return queryOrScan(t, db, in, false)
	}
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: in.TableName, IndexName: in.IndexName, Select: in.Select, Limit: in.Limit, ExclusiveStartKey: in.ExclusiveStartKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &dynamodb.QueryOutput{Items: out.Items, ScannedCount: out.ScannedCount, LastEvaluatedKey: out.LastEvaluatedKey}
}

// A partition of a local index is read as of one instant. An item that moves in it is always
// there, once, and a fetched item matches its entry.
func TestLocalIndexSeesMovingItems(t *testing.T) {
	t.Parallel()
	db := newLocal(t)
	const moves = 2000
	localPut(t, db, with(keyed("p", "1"), attrs{"t": str("0"), "w": str("0")}))
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range moves {
			at := str(strconv.Itoa(i % 10))
			if _, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: ptr(localTable), Key: keyed("p", "1"), UpdateExpression: ptr("SET t = :t, w = :t"), ExpressionAttributeValues: attrs{":t": at},
			}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				out, err := db.Query(t.Context(), &dynamodb.QueryInput{
					TableName: ptr(localTable), IndexName: ptr(localKeys), ConsistentRead: ptr(true), Select: types.SelectAllAttributes,
					KeyConditionExpression: ptr("pk = :p"), ExpressionAttributeValues: attrs{":p": str("p")},
				})
				if err != nil {
					t.Error(err)
					return
				}
				if len(out.Items) != 1 {
					t.Errorf("found %d items, want the one", len(out.Items))
					return
				}
				low, err := db.Query(t.Context(), &dynamodb.QueryInput{
					TableName: ptr(localTable), IndexName: ptr(localKeys), ConsistentRead: ptr(true), Select: types.SelectAllAttributes,
					KeyConditionExpression: ptr("pk = :p AND t < :t"), ExpressionAttributeValues: attrs{":p": str("p"), ":t": str("5")},
				})
				if err != nil {
					t.Error(err)
					return
				}
				for _, item := range low.Items {
					if compareKeys(item["w"], str("5")) >= 0 {
						t.Errorf("below 5 there is %v", textOf(item))
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
