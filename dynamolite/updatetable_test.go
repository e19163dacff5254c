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

func units(read, write int64) *types.ProvisionedThroughput {
	return &types.ProvisionedThroughput{ReadCapacityUnits: &read, WriteCapacityUnits: &write}
}

func rating(name string, p *types.ProvisionedThroughput) types.GlobalSecondaryIndexUpdate {
	return types.GlobalSecondaryIndexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: &name, ProvisionedThroughput: p}}
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

// A table changes from one billing mode to the other and back, and its throughput changes with
// it.
func TestBillingChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	every := func(p *types.ProvisionedThroughput) (all []types.GlobalSecondaryIndexUpdate) {
		for _, name := range []string{fullIndex, keysOnly, someAttrs} {
			all = append(all, rating(name, p))
		}
		return all
	}
	for _, step := range []struct {
		name    string
		change  func(*dynamodb.UpdateTableInput)
		mention string // "" if the change is valid
		want    []int64
	}{
		{"on demand to the same", func(in *dynamodb.UpdateTableInput) { in.BillingMode = types.BillingModePayPerRequest }, "", []int64{0, 0, 0, 0}},
		{"to provisioned", func(in *dynamodb.UpdateTableInput) {
			in.BillingMode, in.ProvisionedThroughput = types.BillingModeProvisioned, units(5, 6)
			in.GlobalSecondaryIndexUpdates = every(units(7, 8))
		}, "", []int64{5, 6, 7, 8}},
		{"the same throughput", func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units(5, 6) }, "will not change", []int64{5, 6, 7, 8}},
		{"the same throughput of an index", func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = every(units(7, 8))
		}, "index " + fullIndex, []int64{5, 6, 7, 8}},
		{"another, but the same of an index", func(in *dynamodb.UpdateTableInput) {
			in.ProvisionedThroughput, in.GlobalSecondaryIndexUpdates = units(1, 1), every(units(7, 8))
		}, "will not change", []int64{5, 6, 7, 8}},
		{"provisioned to the same", func(in *dynamodb.UpdateTableInput) { in.BillingMode = types.BillingModeProvisioned }, "", []int64{5, 6, 7, 8}},
		{"other throughput", func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units(5, 9) }, "", []int64{5, 9, 7, 8}},
		{"other throughput of the indexes", func(in *dynamodb.UpdateTableInput) { in.GlobalSecondaryIndexUpdates = every(units(1, 8)) }, "", []int64{5, 9, 1, 8}},
		{"none", func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units(0, 9) }, "at least 1", []int64{5, 9, 1, 8}},
		{"an index without", func(in *dynamodb.UpdateTableInput) {
			*in = *adding(lateIndex, types.ProjectionTypeAll)
		}, "index late", []int64{5, 9, 1, 8}},
		{"to on demand", func(in *dynamodb.UpdateTableInput) { in.BillingMode = types.BillingModePayPerRequest }, "", []int64{0, 0, 0, 0}},
	} {
		_, err := f.db.UpdateTable(t.Context(), changing(step.change))
		if step.mention != "" {
			wantInvalid(t, err, step.mention)
		} else if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		d := describeMain(t, f.db)
		got := []int64{*d.ProvisionedThroughput.ReadCapacityUnits, *d.ProvisionedThroughput.WriteCapacityUnits}
		x := indexOf(d, fullIndex).ProvisionedThroughput
		mustEqual(t, step.name, step.want, append(got, *x.ReadCapacityUnits, *x.WriteCapacityUnits))
	}
}

func TestStreamComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	set := func(spec *types.StreamSpecification) (*types.TableDescription, error) {
		out, err := f.db.UpdateTable(t.Context(), changing(func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = spec }))
		if err != nil {
			return nil, err
		}
		return out.TableDescription, nil
	}
	on, off := &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeKeysOnly}, &types.StreamSpecification{StreamEnabled: ptr(false)}
	first, err := set(on)
	if err != nil {
		t.Fatal(err)
	}
	if first.StreamSpecification == nil || first.StreamSpecification.StreamViewType != types.StreamViewTypeKeysOnly || first.LatestStreamArn == nil {
		t.Fatalf("the answer shows the stream %v, %v", first.StreamSpecification, first.LatestStreamArn)
	}
	_, err = set(on)
	wantInvalid(t, err, "already has")
	if d, err := set(off); err != nil || d.StreamSpecification != nil {
		t.Fatalf("a stream that was disabled: %v, %v", d, err)
	}
	_, err = set(off)
	wantInvalid(t, err, "no stream")
	second, err := set(on)
	if err != nil || *second.LatestStreamArn == *first.LatestStreamArn {
		t.Errorf("the second stream is %v like the first: %v", second, err)
	}
}

func TestProtectionComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	drop := func() error {
		_, err := f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)})
		return err
	}
	protect := func(on bool) {
		out, err := f.db.UpdateTable(t.Context(), changing(func(in *dynamodb.UpdateTableInput) { in.DeletionProtectionEnabled = &on }))
		if err != nil || *out.TableDescription.DeletionProtectionEnabled != on || out.TableDescription.TableStatus != types.TableStatusActive {
			t.Fatalf("protection %t: %v, %v", on, out, err)
		}
	}
	protect(true)
	protect(true)
	wantInvalid(t, drop(), "protected against deletion")
	protect(false)
	if err := drop(); err != nil {
		t.Error(err)
	}
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
