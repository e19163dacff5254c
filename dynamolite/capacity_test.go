package dynamolite_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

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
