package dynamolite_test

import (
	"errors"
	"fmt"
	"strings"
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

func TestUpdateTableRefused(t *testing.T) {
	t.Parallel()
	global := func(a types.GlobalSecondaryIndexUpdate) *dynamodb.UpdateTableInput {
		return changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{a}
		})
	}
	and := func(in *dynamodb.UpdateTableInput, change func(*dynamodb.UpdateTableInput)) *dynamodb.UpdateTableInput {
		change(in)
		return in
	}
	late := func() *dynamodb.UpdateTableInput { return adding(lateIndex, types.ProjectionTypeAll) }
	stream := &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeNewImage}
	for _, tt := range []struct {
		name    string
		in      *dynamodb.UpdateTableInput
		mention string
	}{
		{"no table", changing(func(in *dynamodb.UpdateTableInput) {
			in.TableName, in.BillingMode = nil, types.BillingModePayPerRequest
		}), "TableName"},
		{"nothing", changing(func(*dynamodb.UpdateTableInput) {}), "At least one"},
		{"nothing of no table", changing(func(in *dynamodb.UpdateTableInput) { in.TableName = ptr("nowhere") }), "At least one"},
		{"definitions alone", changing(func(in *dynamodb.UpdateTableInput) { in.AttributeDefinitions = definitionsOf("pk:S") }), "At least one"},
		{"empty list", changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates, in.DeletionProtectionEnabled = []types.GlobalSecondaryIndexUpdate{}, ptr(true)
		}), "empty"},
		{"empty action", global(types.GlobalSecondaryIndexUpdate{}), "must not be null"},
		{"two actions in one", and(late(), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates[0].Delete = dropping(fullIndex).GlobalSecondaryIndexUpdates[0].Delete
		}), "Only one global secondary index action"},
		{"two actions on one index", and(dropping(fullIndex), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, rating(fullIndex, units(1, 1)))
		}), fullIndex},
		{"no index name", and(late(), func(in *dynamodb.UpdateTableInput) { in.GlobalSecondaryIndexUpdates[0].Create.IndexName = nil }), "IndexName"},
		{"no definitions", and(late(), func(in *dynamodb.UpdateTableInput) { in.AttributeDefinitions = nil }), "AttributeDefinitions"},
		{"undefined key", and(late(), func(in *dynamodb.UpdateTableInput) { in.AttributeDefinitions = definitionsOf("g:S") }), "not defined"},
		{"bad definition", and(late(), func(in *dynamodb.UpdateTableInput) { in.AttributeDefinitions = definitionsOf("g:S", "n:X") }), "attributeType"},
		{"definition of another type", and(late(), func(in *dynamodb.UpdateTableInput) {
			in.AttributeDefinitions = definitionsOf("g:S", "fpk:N")
			in.GlobalSecondaryIndexUpdates[0].Create.KeySchema = schemaOf("g", "fpk")
		}), "fpk"},
		{"taken name", adding(fullIndex, types.ProjectionTypeAll), "Duplicate"},
		{"21 names included", adding(lateIndex, types.ProjectionTypeInclude, strings.Split(strings.Repeat("x ", 20)+"x", " ")...), "20"},
		{"throughput of an index on demand", and(late(), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates[0].Create.ProvisionedThroughput = units(1, 1)
		}), "PAY_PER_REQUEST"},
		{"other throughput of an index on demand", global(rating(fullIndex, units(1, 1))), "PAY_PER_REQUEST"},
		{"throughput on demand", changing(func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units(1, 1) }), "PAY_PER_REQUEST"},
		{"billing mode", changing(func(in *dynamodb.UpdateTableInput) { in.BillingMode = "FREE" }), "FREE"},
		{"provisioned without throughput", changing(func(in *dynamodb.UpdateTableInput) { in.BillingMode = types.BillingModeProvisioned }), "must be specified"},
		{"provisioned without that of the indexes", changing(func(in *dynamodb.UpdateTableInput) {
			in.BillingMode, in.ProvisionedThroughput = types.BillingModeProvisioned, units(1, 1)
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{rating(fullIndex, units(1, 1))}
		}), "index: " + keysOnly + "," + someAttrs},
		{"class", changing(func(in *dynamodb.UpdateTableInput) { in.TableClass = "COLD" }), "tableClass"},
		{"class and more", changing(func(in *dynamodb.UpdateTableInput) {
			in.TableClass, in.DeletionProtectionEnabled = types.TableClassStandard, ptr(true)
		}), "only operation"},
		{"protection and more", changing(func(in *dynamodb.UpdateTableInput) {
			in.DeletionProtectionEnabled, in.BillingMode = ptr(true), types.BillingModePayPerRequest
		}), "only operation"},
		{"index and throughput", and(late(), func(in *dynamodb.UpdateTableInput) { in.ProvisionedThroughput = units(1, 1) }), "IOPS"},
		{"stream and throughput", changing(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification, in.ProvisionedThroughput = stream, units(1, 1)
		}), "IOPS"},
		{"index and stream", and(late(), func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = stream }), "stream status"},
		{"stream of nothing", changing(func(in *dynamodb.UpdateTableInput) { in.StreamSpecification = &types.StreamSpecification{} }), "StreamEnabled"},
		{"stream without a view", changing(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(true)}
		}), "StreamViewType"},
		{"no stream with a view", changing(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(false), StreamViewType: types.StreamViewTypeNewImage}
		}), "StreamViewType"},
		{"no stream to disable", changing(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(false)}
		}), "no stream"},
		{"encryption", changing(func(in *dynamodb.UpdateTableInput) {
			in.SSESpecification = &types.SSESpecification{KMSMasterKeyId: ptr("k")}
		}), "KMSMasterKeyId"},
		{"on-demand limit", changing(func(in *dynamodb.UpdateTableInput) {
			in.OnDemandThroughput = &types.OnDemandThroughput{MaxWriteRequestUnits: ptr(int64(-2))}
		}), "OnDemandThroughput"},
		{"warm throughput", changing(func(in *dynamodb.UpdateTableInput) {
			in.WarmThroughput = &types.WarmThroughput{WriteUnitsPerSecond: ptr(int64(0))}
		}), "WarmThroughput"},
		{"replicas", changing(func(in *dynamodb.UpdateTableInput) { in.ReplicaUpdates = make([]types.ReplicationGroupUpdate, 1) }), "ReplicaUpdates"},
		{"witnesses", changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalTableWitnessUpdates = make([]types.GlobalTableWitnessGroupUpdate, 1)
		}), "GlobalTableWitnessUpdates"},
		{"settings replication", changing(func(in *dynamodb.UpdateTableInput) { in.GlobalTableSettingsReplicationMode = "ENABLED" }), "GlobalTableSettingsReplicationMode"},
		{"consistency", changing(func(in *dynamodb.UpdateTableInput) { in.MultiRegionConsistency = "STRONG" }), "MultiRegionConsistency"},
		{"disassociation", changing(func(in *dynamodb.UpdateTableInput) { in.DisassociationProtectionEnabled = ptr(true) }), "DisassociationProtectionEnabled"},
		{"vector index", changing(func(in *dynamodb.UpdateTableInput) { in.VectorIndexUpdates = make([]types.VectorIndexUpdate, 1) }), "VectorIndexUpdates"},
		{"index on-demand limit", and(late(), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates[0].Create.OnDemandThroughput = &types.OnDemandThroughput{MaxWriteRequestUnits: ptr(int64(-2))}
		}), "OnDemandThroughput"},
		{"other index on-demand limit", global(types.GlobalSecondaryIndexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{
			IndexName: ptr(fullIndex), OnDemandThroughput: &types.OnDemandThroughput{MaxWriteRequestUnits: ptr(int64(-2))},
		}}), "OnDemandThroughput"},
		{"other index warm throughput", global(types.GlobalSecondaryIndexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{
			IndexName: ptr(fullIndex), WarmThroughput: &types.WarmThroughput{WriteUnitsPerSecond: ptr(int64(0))},
		}}), "WarmThroughput"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			before := describeMain(t, f.db)
			_, err := f.db.UpdateTable(t.Context(), tt.in)
			wantInvalid(t, err, tt.mention)
			if after := describeMain(t, f.db); fmt.Sprint(flat(before)) != fmt.Sprint(flat(after)) {
				t.Errorf("the table was changed all the same, from\n%v to\n%v", flat(before), flat(after))
			}
		})
	}
}

// flat returns the alterable properties of a table, comparable as text.
func flat(d *types.TableDescription) []any {
	out := []any{*d.DeletionProtectionEnabled, *d.ProvisionedThroughput.ReadCapacityUnits, *d.ProvisionedThroughput.WriteCapacityUnits}
	if d.BillingModeSummary != nil {
		out = append(out, d.BillingModeSummary.BillingMode)
	}
	for _, a := range d.AttributeDefinitions {
		out = append(out, *a.AttributeName, a.AttributeType)
	}
	for _, x := range d.GlobalSecondaryIndexes {
		out = append(out, *x.IndexName, x.IndexStatus, *x.ProvisionedThroughput.ReadCapacityUnits, *x.ProvisionedThroughput.WriteCapacityUnits)
	}
	if d.StreamSpecification != nil {
		out = append(out, d.StreamSpecification.StreamViewType)
	}
	return out
}

func TestUpdateTableErrorTypes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, in := range map[string]*dynamodb.UpdateTableInput{
		"table": changing(func(in *dynamodb.UpdateTableInput) {
			in.TableName, in.DeletionProtectionEnabled = ptr("nowhere"), ptr(true)
		}),
		"drop": dropping("none"),
		"rate": changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{rating("none", units(1, 1))}
		}),
	} {
		_, err := f.db.UpdateTable(t.Context(), in)
		if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
			t.Errorf("%s: got %v, want a ResourceNotFoundException", name, err)
		}
	}
	two := dropping(fullIndex)
	two.GlobalSecondaryIndexUpdates = append(two.GlobalSecondaryIndexUpdates, dropping(keysOnly).GlobalSecondaryIndexUpdates...)
	full := mainInput()
	full.TableName = ptr("full")
	addIndexes(full, 17)
	if _, err := f.db.CreateTable(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	more := adding(lateIndex, types.ProjectionTypeAll)
	more.TableName = full.TableName
	for name, in := range map[string]*dynamodb.UpdateTableInput{"two dropped": two, "a 21st": more} {
		_, err := f.db.UpdateTable(t.Context(), in)
		if _, ok := errors.AsType[*types.LimitExceededException](err); !ok {
			t.Errorf("%s: got %v, want a LimitExceededException", name, err)
		}
	}
	local := plainMain()
	local.TableName, local.AttributeDefinitions = ptr("local"), definitionsOf("pk:S", "sk:S", "l:S")
	local.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{
		IndexName: ptr("loc"), KeySchema: schemaOf("pk", "l"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
	}}
	if _, err := f.db.CreateTable(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	drop := dropping("loc")
	drop.TableName = local.TableName
	_, err := f.db.UpdateTable(t.Context(), drop)
	wantInvalid(t, err, "not a GlobalSecondaryIndex")
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
