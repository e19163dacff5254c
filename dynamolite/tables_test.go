package dynamolite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

func TestDescribeTable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time { return at }}))
	f.put(with(keyed("a", "1"), attrs{"kpk": str("k")}), keyed("a", "2"))
	out, err := f.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(mainTable)})
	if err != nil {
		t.Fatal(err)
	}
	d, in := out.Table, mainInput()
	if d.TableStatus != types.TableStatusActive || !d.CreationDateTime.Equal(at) || *d.TableName != mainTable {
		t.Errorf("got status %s, created %v, name %s", d.TableStatus, d.CreationDateTime, *d.TableName)
	}
	if d.BillingModeSummary == nil || d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("got billing %v", d.BillingModeSummary)
	}
	if len(d.KeySchema) != 2 || *d.KeySchema[0].AttributeName != "pk" || *d.KeySchema[1].AttributeName != "sk" {
		t.Errorf("got key schema %v", d.KeySchema)
	}
	if len(d.AttributeDefinitions) != len(in.AttributeDefinitions) {
		t.Errorf("got %d attribute definitions", len(d.AttributeDefinitions))
	}
	if *d.ItemCount != 2 || *d.TableSizeBytes != 2*6+4 {
		t.Errorf("got %d items of %d bytes, want 2 of 16", *d.ItemCount, *d.TableSizeBytes)
	}
	if len(d.GlobalSecondaryIndexes) != 3 {
		t.Fatalf("got %d indexes", len(d.GlobalSecondaryIndexes))
	}
	for i, want := range []struct {
		name  string
		items int64
		bytes int64
	}{{fullIndex, 0, 0}, {keysOnly, 1, 10}, {someAttrs, 0, 0}} {
		x := d.GlobalSecondaryIndexes[i]
		if *x.IndexName != want.name || *x.ItemCount != want.items || *x.IndexSizeBytes != want.bytes || x.IndexStatus != types.IndexStatusActive {
			t.Errorf("index %d: got %s with %d items of %d bytes, %s; want %+v", i, *x.IndexName, *x.ItemCount, *x.IndexSizeBytes, x.IndexStatus, want)
		}
	}
	if got := d.GlobalSecondaryIndexes[2].Projection; got.ProjectionType != types.ProjectionTypeInclude || !slices.Equal(got.NonKeyAttributes, []string{"x", "y"}) {
		t.Errorf("got projection %v", got)
	}
	// The sizes shrink with each deletion.
	for _, sk := range []string{"1", "2"} {
		if _, err := f.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: keyed("a", sk)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err = f.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(mainTable)})
	if err != nil {
		t.Fatal(err)
	}
	if d := out.Table; *d.ItemCount != 0 || *d.TableSizeBytes != 0 || *d.GlobalSecondaryIndexes[1].IndexSizeBytes != 0 {
		t.Errorf("the emptied table has %d items of %d bytes", *d.ItemCount, *d.TableSizeBytes)
	}
}

func TestTableLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(keyed("a", "b"))
	_, err := f.db.CreateTable(t.Context(), mainInput())
	if _, ok := errors.AsType[*types.ResourceInUseException](err); !ok {
		t.Fatalf("creating a table twice: %v", err)
	}
	out, err := f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)})
	if err != nil || out.TableDescription.TableStatus != types.TableStatusDeleting {
		t.Fatalf("delete: %v, %v", out, err)
	}
	_, err = f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Fatalf("deleting a table twice: %v", err)
	}
	if _, err := f.db.CreateTable(t.Context(), mainInput()); err != nil {
		t.Fatal(err)
	}
	if item := f.get(keyed("a", "b")); item != nil {
		t.Errorf("the new table inherited %v", item)
	}
	if got := f.db.Ledger()[dynamolite.LedgerKey{Table: mainTable, Operation: "PutItem"}]; got.WriteUnits != 1 {
		t.Errorf("the ledger forgot the deleted table: %v", got)
	}
}

func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	in := otherInput()
	in.DeletionProtectionEnabled = ptr(true)
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	_, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: in.TableName})
	wantInvalid(t, err, "protected")
}

func TestListTables(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	var want []string
	for i := range 7 {
		in := otherInput()
		in.TableName = ptr(fmt.Sprintf("t-%d", (i*3)%7))
		want = append(want, *in.TableName)
		if _, err := db.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	for limit := int32(1); limit <= 8; limit++ {
		var got []string
		in := &dynamodb.ListTablesInput{Limit: &limit}
		for {
			out, err := db.ListTables(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, out.TableNames...)
			if in.ExclusiveStartTableName = out.LastEvaluatedTableName; in.ExclusiveStartTableName == nil {
				break
			}
		}
		mustEqual(t, fmt.Sprintf("pages of %d", limit), want, got)
	}
	for _, limit := range []int32{0, 101} {
		_, err := db.ListTables(t.Context(), &dynamodb.ListTablesInput{Limit: &limit})
		wantInvalid(t, err, "limit")
	}
}
