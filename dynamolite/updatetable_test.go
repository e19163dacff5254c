package dynamolite_test

import (
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// lateIndex is an index that a table gets later: g (S), n (N).
const lateIndex = "late"

func changing(change func(*dynamodb.UpdateTableInput)) *dynamodb.UpdateTableInput {
	in := &dynamodb.UpdateTableInput{TableName: ptr(mainTable)}
	change(in)
	return in
}

// adding returns a request for an index on g and n.
func adding(name string, projection types.ProjectionType, include ...string) *dynamodb.UpdateTableInput {
	g := gsiOf(name, projection, include, "g", "n")
	return changing(func(in *dynamodb.UpdateTableInput) {
		in.AttributeDefinitions = definitionsOf("g:S", "n:N")
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: g.IndexName, KeySchema: g.KeySchema, Projection: g.Projection,
		}}}
	})
}

func dropping(name string) *dynamodb.UpdateTableInput {
	return changing(func(in *dynamodb.UpdateTableInput) {
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &name}}}
	})
}

func units() *types.ProvisionedThroughput {
	return &types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(1)), WriteCapacityUnits: ptr(int64(1))}
}

func describeMain(tb testing.TB, db *dynamolite.DB) *types.TableDescription {
	tb.Helper()
	out, err := db.DescribeTable(tb.Context(), &dynamodb.DescribeTableInput{TableName: ptr(mainTable)})
	if err != nil {
		tb.Fatal(err)
	}
	return out.Table
}

func indexOf(d *types.TableDescription, name string) types.GlobalSecondaryIndexDescription {
	for _, x := range d.GlobalSecondaryIndexes {
		if *x.IndexName == name {
			return x
		}
	}
	return types.GlobalSecondaryIndexDescription{}
}

func isActive(tb testing.TB, db *dynamolite.DB, name string) bool {
	tb.Helper()
	return indexOf(describeMain(tb, db), name).IndexStatus == types.IndexStatusActive
}

// The answer shows the change in progress; a later description shows it done.
func TestIndexComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		out, err := f.db.UpdateTable(t.Context(), adding(lateIndex, types.ProjectionTypeInclude, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if x := indexOf(out.TableDescription, lateIndex); out.TableDescription.TableStatus != types.TableStatusUpdating ||
			x.IndexStatus != types.IndexStatusCreating || x.Backfilling == nil || *x.Backfilling {
			t.Errorf("the answer shows a table %s and an index %s, backfilling %v", out.TableDescription.TableStatus, x.IndexStatus, x.Backfilling)
		}
		synctest.Wait()
		d := describeMain(t, f.db)
		if len(d.GlobalSecondaryIndexes) != 4 || len(d.AttributeDefinitions) != 9 || indexOf(d, lateIndex).IndexStatus != types.IndexStatusActive {
			t.Errorf("after: %d indexes, %d definitions, the new one %s", len(d.GlobalSecondaryIndexes), len(d.AttributeDefinitions), indexOf(d, lateIndex).IndexStatus)
		}
		out, err = f.db.UpdateTable(t.Context(), dropping(lateIndex))
		if err != nil {
			t.Fatal(err)
		}
		if x := indexOf(out.TableDescription, lateIndex); out.TableDescription.TableStatus != types.TableStatusUpdating || x.IndexStatus != types.IndexStatusDeleting {
			t.Errorf("the answer shows a table %s and an index %s", out.TableDescription.TableStatus, x.IndexStatus)
		}
		if d := describeMain(t, f.db); len(d.GlobalSecondaryIndexes) != 3 || len(d.AttributeDefinitions) != 7 {
			t.Errorf("after the drop: %d indexes, %d definitions", len(d.GlobalSecondaryIndexes), len(d.AttributeDefinitions))
		}
		f.put(with(keyed("a", "1"), attrs{"g": num("1")})) // no longer a key, so it may have any type
	})
}

// Alterations survive a reopening of the database, and the index has the same entries.
func TestAlterationsLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *dynamolite.DB {
		db, err := dynamolite.Open(dynamolite.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	populated(t, db, 1, 3, 40, 60)
	if _, err := db.UpdateTable(t.Context(), adding(lateIndex, types.ProjectionTypeInclude, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := db.UpdateTable(t.Context(), changing(func(in *dynamodb.UpdateTableInput) { in.DeletionProtectionEnabled = ptr(true) })); err != nil {
		t.Fatal(err)
	}
	if _, err := db.UpdateTimeToLive(t.Context(), lifetime("expires", true)); err != nil {
		t.Fatal(err)
	}
	arn := describeMain(t, db).TableArn
	if _, err := db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arn, Tags: tagsOf("a", "1")}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil { // perhaps before the index is filled
		t.Fatal(err)
	}
	db = open()
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if d := describeMain(t, db); !*d.DeletionProtectionEnabled || indexOf(d, lateIndex).IndexStatus != types.IndexStatusActive {
		t.Errorf("after reopening: protected %t, the index %s", *d.DeletionProtectionEnabled, indexOf(d, lateIndex).IndexStatus)
	}
	if err := db.IndexProblem(mainTable, lateIndex); err != nil {
		t.Error(err)
	}
	if got := expiryOf(t, db); got != "expires" {
		t.Errorf("after reopening items expire by %q", got)
	}
	tags, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
	if err != nil || len(tags.Tags) != 1 {
		t.Errorf("after reopening: tags %v, %v", tags, err)
	}
}
