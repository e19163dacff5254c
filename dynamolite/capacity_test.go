package dynamolite_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// charge is a bill: the units of the table and of its indexes.
type charge struct {
	table   float64
	indexes map[string]float64
}

func (c charge) total() float64 {
	sum := c.table
	for _, u := range c.indexes {
		sum += u
	}
	return sum
}

// billedUpdate sends an update that asks for the bill by index. It returns the bill.
func (f *fixture) billedUpdate(key attrs, expression string, values attrs) *types.ConsumedCapacity {
	f.t.Helper()
	in := &dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: key, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes}
	if expression != "" {
		in.UpdateExpression, in.ExpressionAttributeValues = &expression, values
	}
	out, err := f.db.UpdateItem(f.t.Context(), in)
	if err != nil {
		f.t.Fatal(err)
	}
	return out.ConsumedCapacity
}

// reported returns the bill of a single write in the form of the response, by index.
func (c charge) reported() *types.ConsumedCapacity {
	out := &types.ConsumedCapacity{
		TableName: ptr(mainTable), CapacityUnits: ptr(c.total()), Table: &types.Capacity{CapacityUnits: &c.table},
	}
	for name, u := range c.indexes {
		if out.GlobalSecondaryIndexes == nil {
			out.GlobalSecondaryIndexes = map[string]types.Capacity{}
		}
		out.GlobalSecondaryIndexes[name] = types.Capacity{CapacityUnits: &u}
	}
	return out
}

// The steps are updates of one item. Each is billed by the item that the step before it left.
func TestWriteCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := keyed("a", "b")
	const named = len("pk") + len("a") + len("sk") + len("b") + len("s") // all but the value of s
	for i, step := range []struct {
		name       string
		expression string
		values     attrs
		want       charge
	}{
		{"upsert of the key", "", nil, charge{1, nil}},
		{"no-op without expression", "", nil, charge{1, nil}},
		{"1 KB", "SET s = :s", attrs{":s": blob(1024 - named)}, charge{1, nil}},
		{"one byte more", "SET s = :s", attrs{":s": blob(1025 - named)}, charge{2, nil}},
		{"back to 1 KB: the larger of before and after", "SET s = :s", attrs{":s": blob(1024 - named)}, charge{2, nil}},
		{"small", "REMOVE s", nil, charge{1, nil}},
		{"half an index key", "SET fpk = :f", attrs{":f": str("f")}, charge{1, nil}},
		{"into the index", "SET fsk = :n", attrs{":n": num("1")}, charge{1, map[string]float64{fullIndex: 1}}},
		{"any change is a change of ALL", "SET v = :n", attrs{":n": num("1")}, charge{1, map[string]float64{fullIndex: 1}}},
		{"no change", "SET v = :n", attrs{":n": num("1.0")}, charge{1, nil}},
		{"index key", "SET fsk = :n", attrs{":n": num("2")}, charge{1, map[string]float64{fullIndex: 2}}},
		{"out of the index", "REMOVE fsk", nil, charge{1, map[string]float64{fullIndex: 1}}},
		{"not in the index", "SET v = :n", attrs{":n": num("2")}, charge{1, nil}},
		{"into KEYS_ONLY", "SET kpk = :k", attrs{":k": str("k")}, charge{1, map[string]float64{keysOnly: 1}}},
		{"KEYS_ONLY ignores the rest", "SET v = :n", attrs{":n": num("3")}, charge{1, nil}},
		{"into INCLUDE", "SET spk = :k, ssk = :k", attrs{":k": str("k")}, charge{1, map[string]float64{someAttrs: 1}}},
		{"INCLUDE ignores the rest", "SET v = :n", attrs{":n": num("4")}, charge{1, nil}},
		{"included", "SET x = :n", attrs{":n": num("4")}, charge{1, map[string]float64{someAttrs: 1}}},
		{"included no more", "REMOVE x", nil, charge{1, map[string]float64{someAttrs: 1}}},
		{"all keys", "SET kpk = :l, ssk = :l", attrs{":l": str("l")}, charge{1, map[string]float64{keysOnly: 2, someAttrs: 2}}},
		{"large, but not in the index", "SET s = :s", attrs{":s": blob(3000)}, charge{3, nil}},
		{"small key of a large item", "SET kpk = :m", attrs{":m": str("m")}, charge{3, map[string]float64{keysOnly: 2}}},
		{"large, projected", "SET x = :s", attrs{":s": blob(3000)}, charge{6, map[string]float64{someAttrs: 3}}},
		{"large entry shrinks", "SET x = :s", attrs{":s": blob(1500)}, charge{6, map[string]float64{someAttrs: 3}}},
		{"large entry grows", "SET x = :s", attrs{":s": blob(3000)}, charge{6, map[string]float64{someAttrs: 3}}},
		{"large entry moves", "SET ssk = :m", attrs{":m": str("m")}, charge{6, map[string]float64{someAttrs: 6}}},
		{"large entry shrinks and moves", "SET ssk = :n REMOVE x", attrs{":n": str("n")}, charge{6, map[string]float64{someAttrs: 4}}},
	} {
		got := f.billedUpdate(key, step.expression, step.values)
		mustEqual(t, fmt.Sprintf("step %d, %s", i, step.name), step.want.reported(), got)
	}
}

func TestPutAndDeleteCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := keyed("a", "b")
	indexed := with(key, attrs{"kpk": str("k"), "s": blob(2000)})
	for i, step := range []struct {
		name string
		put  attrs // nil: delete
		want charge
	}{
		{"delete of nothing", nil, charge{1, nil}},
		{"put", indexed, charge{2, map[string]float64{keysOnly: 1}}},
		{"put of the same", indexed, charge{2, nil}},
		{"put of less", with(key, attrs{"kpk": str("k")}), charge{2, nil}},
		{"put of more", indexed, charge{2, nil}},
		{"put out of the index", with(key, attrs{"s": blob(2000)}), charge{2, map[string]float64{keysOnly: 1}}},
		{"put into the index", indexed, charge{2, map[string]float64{keysOnly: 1}}},
		{"delete", nil, charge{2, map[string]float64{keysOnly: 1}}},
	} {
		var got *types.ConsumedCapacity
		if step.put == nil {
			out, err := f.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key, ReturnConsumedCapacity: "INDEXES"})
			if err != nil {
				t.Fatal(err)
			}
			got = out.ConsumedCapacity
		} else {
			out, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: step.put, ReturnConsumedCapacity: "INDEXES"})
			if err != nil {
				t.Fatal(err)
			}
			got = out.ConsumedCapacity
		}
		mustEqual(t, fmt.Sprintf("step %d, %s", i, step.name), step.want.reported(), got)
	}
}

func TestReadCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const named = len("pk") + len("a") + len("sk") + len("b") + len("s")
	f.put(with(keyed("a", "4"), attrs{"s": blob(4096 - named)}), with(keyed("a", "5"), attrs{"s": blob(4097 - named)}))
	for _, tt := range []struct {
		sk         string
		consistent bool
		want       float64
	}{
		{"nothing", false, 0.5},
		{"nothing", true, 1},
		{"4", false, 0.5},
		{"4", true, 1},
		{"5", false, 1},
		{"5", true, 2},
	} {
		// The projection does not change the price.
		for _, projection := range []*string{nil, ptr("pk")} {
			out, err := f.db.GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: ptr(mainTable), Key: keyed("a", tt.sk), ConsistentRead: &tt.consistent, ProjectionExpression: projection,
				ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			})
			if err != nil {
				t.Fatal(err)
			}
			mustEqual(t, fmt.Sprintf("get %+v", tt), &types.ConsumedCapacity{TableName: ptr(mainTable), CapacityUnits: &tt.want}, out.ConsumedCapacity)
		}
	}
	// A batch rounds each item up, a query their sum: 8,193 bytes are 3 blocks.
	batch, err := f.db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems:           map[string]types.KeysAndAttributes{mainTable: {Keys: []attrs{keyed("a", "4"), keyed("a", "5"), keyed("a", "no")}}},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
	})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "batch", []types.ConsumedCapacity{*charge{2, nil}.reported()}, batch.ConsumedCapacity)
	transact, err := f.db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "5")}}, {Get: &types.Get{TableName: ptr(mainTable), Key: keyed("a", "no")}},
		},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
	})
	if err != nil {
		t.Fatal(err)
	}
	six := ptr(6.0)
	mustEqual(t, "transaction", []types.ConsumedCapacity{{
		TableName: ptr(mainTable), CapacityUnits: six, ReadCapacityUnits: six, Table: &types.Capacity{CapacityUnits: six, ReadCapacityUnits: six},
	}}, transact.ConsumedCapacity)
}

func TestQueryCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 6 {
		f.put(with(keyed("a", strconv.Itoa(i)), attrs{"kpk": str("k"), "s": blob(1500), "n": num(strconv.Itoa(i))}))
	}
	table := dynamodb.QueryInput{KeyConditionExpression: ptr("pk = :v"), ExpressionAttributeValues: attrs{":v": str("a")}}
	index := dynamodb.QueryInput{
		IndexName: ptr(keysOnly), KeyConditionExpression: ptr("kpk = :v"), ExpressionAttributeValues: attrs{":v": str("k")},
	}
	for _, tt := range []struct {
		name   string
		base   dynamodb.QueryInput
		change func(*dynamodb.QueryInput)
		want   charge
	}{
		{"sum of 9 KB", table, func(*dynamodb.QueryInput) {}, charge{1.5, nil}},
		{"consistent", table, func(in *dynamodb.QueryInput) { in.ConsistentRead = ptr(true) }, charge{3, nil}},
		{"filter is after", table, func(in *dynamodb.QueryInput) { in.FilterExpression = ptr("n = :v") }, charge{1.5, nil}},
		{"count", table, func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }, charge{1.5, nil}},
		{"limit", table, func(in *dynamodb.QueryInput) { in.Limit = ptr(int32(2)) }, charge{0.5, nil}},
		{"nothing", table, func(in *dynamodb.QueryInput) { in.ExpressionAttributeValues = attrs{":v": str("z")} }, charge{0.5, nil}},
		{"index entries are small", index, func(*dynamodb.QueryInput) {}, charge{0, map[string]float64{keysOnly: 0.5}}},
	} {
		in := tt.base
		tt.change(&in)
		in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
		mustEqual(t, tt.name, tt.want.reported(), f.query(&in).ConsumedCapacity)
	}
	for _, none := range []types.ReturnConsumedCapacity{"", types.ReturnConsumedCapacityNone} {
		in := table
		in.ReturnConsumedCapacity = none
		if got := f.query(&in).ConsumedCapacity; got != nil {
			t.Errorf("%q: got %v", none, got)
		}
	}
}

func TestTransactWriteCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(with(keyed("a", "1"), attrs{"s": blob(1500)}))
	out, err := f.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{
			transactCheck(keyed("a", "1"), "attribute_exists(pk)"),
			transactPut(with(keyed("a", "2"), attrs{"kpk": str("k")})),
			transactDelete(keyed("a", "3")),
			{Put: &types.Put{TableName: ptr(otherName), Item: attrs{"id": str("x")}}},
		},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
	})
	if err != nil {
		t.Fatal(err)
	}
	units := func(u float64) types.Capacity { return types.Capacity{CapacityUnits: &u, WriteCapacityUnits: &u} }
	mustEqual(t, "capacity", []types.ConsumedCapacity{
		{
			TableName: ptr(mainTable), CapacityUnits: ptr(10.0), WriteCapacityUnits: ptr(10.0), Table: ptr(units(8)),
			GlobalSecondaryIndexes: map[string]types.Capacity{keysOnly: units(2)},
		},
		{TableName: ptr(otherName), CapacityUnits: ptr(2.0), WriteCapacityUnits: ptr(2.0), Table: ptr(units(2))},
	}, out.ConsumedCapacity)
}

// The ledger has everything that responses report. It also has failed conditions, which they do
// not report.
func TestLedger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	big := with(keyed("a", "1"), attrs{"s": blob(1500), "kpk": str("k")})
	f.put(big)
	row := func(index, operation string) dynamolite.LedgerKey {
		return dynamolite.LedgerKey{Table: mainTable, Index: index, Operation: operation}
	}
	before := f.db.Ledger()
	mustEqual(t, "a put", dynamolite.Ledger{
		row("", "PutItem"):       {Requests: 1, WriteUnits: 2},
		row(keysOnly, "PutItem"): {Requests: 1, WriteUnits: 1},
	}, before)
	no := ptr("attribute_exists(nothing)")
	for _, key := range []attrs{keyed("a", "1"), keyed("not", "there")} {
		if _, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: key, ConditionExpression: no}); err == nil {
			t.Fatal("the condition should have failed")
		}
		if _, err := f.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key, ConditionExpression: no}); err == nil {
			t.Fatal("the condition should have failed")
		}
		if _, err := f.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: ptr(mainTable), Item: with(key, attrs{"s": blob(5000)}), ConditionExpression: no,
		}); err == nil {
			t.Fatal("the condition should have failed")
		}
	}
	mustEqual(t, "failed conditions", dynamolite.Ledger{
		row("", "PutItem"):    {Requests: 2, WriteUnits: 3},
		row("", "UpdateItem"): {Requests: 2, WriteUnits: 3},
		row("", "DeleteItem"): {Requests: 2, WriteUnits: 3},
	}, f.db.Ledger().Since(before))

	before = f.db.Ledger()
	if err := f.transact(t.Context(), transactCheck(keyed("a", "1"), *no), transactPut(keyed("b", "1"))); err == nil {
		t.Fatal("the condition should have failed")
	}
	f.entries(keysOnly, "kpk", "k")
	f.get(keyed("a", "1"))
	f.update(keyed("a", "1"), "SET kpk = :k", attrs{":k": str("l")})
	// Requests refused before or during their evaluation are not billed.
	for _, expression := range []string{"SET pk = sk", "nonsense", "SET n = nothing"} {
		if _, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: ptr(mainTable), Key: keyed("a", "1"), UpdateExpression: &expression,
		}); err == nil {
			t.Fatalf("%s should have been refused", expression)
		}
	}
	since := f.db.Ledger().Since(before)
	mustEqual(t, "the rest", dynamolite.Ledger{
		row("", "TransactWriteItems"): {Requests: 1, WriteUnits: 6},
		row("", "Query"):              {Requests: 1},
		row(keysOnly, "Query"):        {Requests: 1, ReadUnits: 0.5},
		row("", "GetItem"):            {Requests: 1, ReadUnits: 1},
		row("", "UpdateItem"):         {Requests: 1, WriteUnits: 2},
		row(keysOnly, "UpdateItem"):   {Requests: 1, WriteUnits: 2},
	}, since)
	mustEqual(t, "total", dynamolite.Usage{Requests: 4, ReadUnits: 1.5, WriteUnits: 10}, since.Total())
}
