package dynamolite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
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

// adding is a request for an index on g and n.
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

// plainMain is the main table without its indexes.
func plainMain() *dynamodb.CreateTableInput {
	in := mainInput()
	in.GlobalSecondaryIndexes, in.AttributeDefinitions = nil, in.AttributeDefinitions[:2]
	return in
}

// writer changes items of a few partitions at random, among them such as the late index leaves out.
type writer struct {
	db  *dynamolite.DB
	rng *rand.Rand
	// partitions, and items in each
	partitions, items int
}

func (w *writer) key() attrs {
	return keyed(fmt.Sprint("p", w.rng.IntN(w.partitions)), fmt.Sprintf("%04d", w.rng.IntN(w.items)))
}

func (w *writer) item() attrs {
	item := with(w.key(), attrs{"x": num(fmt.Sprint(w.rng.IntN(3))), "w": blob(w.rng.IntN(20))})
	if w.rng.IntN(4) > 0 {
		item["g"] = str(fmt.Sprint("g", w.rng.IntN(4)))
	}
	if w.rng.IntN(4) > 0 {
		item["n"] = num(fmt.Sprint(w.rng.IntN(50)))
	}
	return item
}

func (w *writer) update() (attrs, string, attrs) {
	values := attrs{":v": num(fmt.Sprint(w.rng.IntN(50)))}
	expression := []string{"SET n = :v", "SET x = :v", "SET w = :v", "REMOVE g SET x = :v", "SET g = :g", "REMOVE n, x"}[w.rng.IntN(6)]
	switch {
	case strings.Contains(expression, ":g"):
		values = attrs{":g": str(fmt.Sprint("g", w.rng.IntN(4)))}
	case !strings.Contains(expression, ":v"):
		values = nil
	}
	return w.key(), expression, values
}

// write makes one write. Another transaction may be in its way.
func (w *writer) write(ctx context.Context) error {
	var err error
	switch w.rng.IntN(5) {
	case 0, 1:
		_, err = w.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: w.item()})
	case 2:
		_, err = w.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: w.key()})
	case 3:
		key, expression, values := w.update()
		_, err = w.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: ptr(mainTable), Key: key, UpdateExpression: &expression, ExpressionAttributeValues: values,
		})
	default:
		_, err = w.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: w.transaction()})
	}
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return nil
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && strings.Contains(canceled.Error(), "TransactionConflict") {
		return nil
	}
	return err
}

// transaction puts or deletes one item and updates another.
func (w *writer) transaction() []types.TransactWriteItem {
	key, expression, values := w.update()
	first := types.TransactWriteItem{Update: &types.Update{
		TableName: ptr(mainTable), Key: key, UpdateExpression: &expression, ExpressionAttributeValues: values,
	}}
	for {
		item := w.item()
		if diff(item["pk"], key["pk"]) == "" && diff(item["sk"], key["sk"]) == "" {
			continue
		}
		second := types.TransactWriteItem{Put: &types.Put{TableName: ptr(mainTable), Item: item}}
		if w.rng.IntN(2) == 0 {
			second = types.TransactWriteItem{Delete: &types.Delete{TableName: ptr(mainTable), Key: attrs{"pk": item["pk"], "sk": item["sk"]}}}
		}
		return []types.TransactWriteItem{first, second}
	}
}

// populated is a database with a table of some items and no index.
func populated(tb testing.TB, db *dynamolite.DB, seed uint64, partitions, items, writes int) *writer {
	tb.Helper()
	if _, err := db.CreateTable(tb.Context(), plainMain()); err != nil {
		tb.Fatal(err)
	}
	w := &writer{db, rand.New(rand.NewPCG(seed, 1)), partitions, items} //nolint:gosec // not for secrets
	for range writes {
		if err := w.write(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	// What cannot be in the index, which is only allowed while there is none.
	for i, odd := range []attrs{{"g": num("1"), "n": num("1")}, {"g": str("g"), "n": str("text")}, {"g": str(""), "n": num("1")}, {"g": blob(2049), "n": num("1")}} {
		if _, err := db.PutItem(tb.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: with(keyed("odd", fmt.Sprint(i)), odd)}); err != nil {
			tb.Fatal(err)
		}
	}
	return w
}

var lateProjections = []struct {
	projection types.ProjectionType
	include    []string
}{
	{types.ProjectionTypeAll, nil},
	{types.ProjectionTypeKeysOnly, nil},
	{types.ProjectionTypeInclude, []string{"x"}},
}

// Whatever is written between the steps of a backfill, behind it and ahead of it, the index is right in
// the end. Transactions begin at one time and end at another.
func TestBackfillBetweenWrites(t *testing.T) {
	t.Parallel()
	for seed := range uint64(9) {
		p := lateProjections[seed%3]
		w := populated(t, dynamolite.New(dynamolite.Options{}), seed, 3, 700, 2500)
		var open []func() error
		begin := func() {
			if commit, err := w.db.Prepare(w.transaction()); err == nil {
				open = append(open, commit)
			}
		}
		end := func() {
			if len(open) == 0 {
				return
			}
			if err := open[0](); err != nil {
				t.Fatal(err)
			}
			open = open[1:]
		}
		for range 5 {
			begin()
		}
		b, err := w.db.AddIndex(adding(lateIndex, p.projection, p.include...))
		if err != nil {
			t.Fatal(err)
		}
		steps := 1
		for ; b.Step(); steps++ {
			for range w.rng.IntN(20) {
				if err := w.write(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if w.rng.IntN(8) == 0 {
				begin()
			}
			if w.rng.IntN(8) == 0 {
				end()
			}
		}
		for len(open) > 0 {
			end()
		}
		if !b.Run() {
			t.Fatal("the index is not ready in the end")
		}
		if err := w.db.IndexProblem(mainTable, lateIndex); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if steps < 64+3 {
			t.Errorf("seed %d: %d steps, so no shard took more than one", seed, steps)
		}
	}
}

// Backfills beside writers, and indexes that come and go under them.
func TestBackfillBesideWriters(t *testing.T) {
	t.Parallel()
	for round := range uint64(9) {
		synctest.Test(t, func(t *testing.T) {
			p := lateProjections[round%3]
			w := populated(t, dynamolite.New(dynamolite.Options{}), round, 6, 300, 3000)
			var wg sync.WaitGroup
			for i := range uint64(3) {
				wg.Go(func() {
					other := *w
					other.rng = rand.New(rand.NewPCG(round, 10+i)) //nolint:gosec // not for secrets
					for range 400 {
						if err := other.write(t.Context()); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for _, name := range []string{lateIndex, "again", "later"} {
				in := adding(name, p.projection, p.include...)
				if _, err := w.db.UpdateTable(t.Context(), in); err != nil {
					t.Fatal(err)
				}
				if name == "again" { // dropped while it is being filled
					if _, err := w.db.UpdateTable(t.Context(), dropping(name)); err != nil {
						t.Fatal(err)
					}
				}
				for name == lateIndex && !isActive(t, w.db, name) {
					if err := w.write(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			wg.Wait()
			synctest.Wait()
			for _, name := range []string{lateIndex, "later"} {
				if !isActive(t, w.db, name) {
					t.Errorf("round %d: %s is not ready although nothing goes on", round, name)
				}
				if err := w.db.IndexProblem(mainTable, name); err != nil {
					t.Errorf("round %d: %s: %v", round, name, err)
				}
			}
		})
	}
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

// A transaction that was checked when there was no index drops the entry that the backfill has made
// of the old item since.
func TestTransactionAcrossIndexCreation(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	if _, err := db.CreateTable(t.Context(), plainMain()); err != nil {
		t.Fatal(err)
	}
	for _, sk := range []string{"put", "update", "delete"} {
		item := with(keyed("a", sk), attrs{"g": str("old"), "n": num("1")})
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	commit, err := db.Prepare([]types.TransactWriteItem{
		{Put: &types.Put{TableName: ptr(mainTable), Item: with(keyed("a", "put"), attrs{"g": str("new"), "n": num("1")})}},
		{Update: &types.Update{
			TableName: ptr(mainTable), Key: keyed("a", "update"), UpdateExpression: ptr("SET n = :n"), ExpressionAttributeValues: attrs{":n": num("2")},
		}},
		{Delete: &types.Delete{TableName: ptr(mainTable), Key: keyed("a", "delete")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := db.AddIndex(adding(lateIndex, types.ProjectionTypeAll))
	if err != nil || !b.Run() {
		t.Fatalf("the index is not ready: %v", err)
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	if err := db.IndexProblem(mainTable, lateIndex); err != nil {
		t.Error(err)
	}
}

func TestBackfillEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*dynamolite.DB) error{
		"table deleted": func(db *dynamolite.DB) error {
			_, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)})
			return err
		},
		"table made again": func(db *dynamolite.DB) error {
			if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)}); err != nil {
				return err
			}
			_, err := db.CreateTable(t.Context(), plainMain())
			return err
		},
		"index dropped": func(db *dynamolite.DB) error {
			_, err := db.UpdateTable(t.Context(), dropping(lateIndex))
			return err
		},
		"database closed": (*dynamolite.DB).Close,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := populated(t, dynamolite.New(dynamolite.Options{}), 1, 3, 50, 100)
			b, err := w.db.AddIndex(adding(lateIndex, types.ProjectionTypeAll))
			if err != nil {
				t.Fatal(err)
			}
			b.Step()
			if err := end(w.db); err != nil {
				t.Fatal(err)
			}
			if b.Run() {
				t.Error("the backfill went on to the end")
			}
		})
	}
}

// While an index is being filled it cannot be read, no other can come or go, and it can itself go.
func TestIndexBeingFilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(with(keyed("a", "1"), attrs{"g": str("g"), "n": num("1")}))
	b, err := f.db.AddIndex(adding(lateIndex, types.ProjectionTypeAll))
	if err != nil {
		t.Fatal(err)
	}
	d := describeMain(t, f.db)
	if x := indexOf(d, lateIndex); d.TableStatus != types.TableStatusActive || x.IndexStatus != types.IndexStatusCreating || x.Backfilling == nil || !*x.Backfilling {
		t.Errorf("the table is %s, the index %s, backfilling %v", d.TableStatus, x.IndexStatus, x.Backfilling)
	}
	query := &dynamodb.QueryInput{
		TableName: ptr(mainTable), IndexName: ptr(lateIndex), KeyConditionExpression: ptr("g = :g"), ExpressionAttributeValues: attrs{":g": str("g")},
	}
	_, err = f.db.Query(t.Context(), query)
	wantInvalid(t, err, "backfilling")
	for name, in := range map[string]*dynamodb.UpdateTableInput{
		"another index": adding("another", types.ProjectionTypeAll), "drop of another": dropping(fullIndex),
	} {
		_, err := f.db.UpdateTable(t.Context(), in)
		if _, ok := errors.AsType[*types.LimitExceededException](err); !ok {
			t.Errorf("%s: got %v, want a LimitExceededException", name, err)
		}
	}
	if _, err := f.db.UpdateTable(t.Context(), changing(func(in *dynamodb.UpdateTableInput) { in.DeletionProtectionEnabled = ptr(true) })); err != nil {
		t.Errorf("protection during a backfill: %v", err)
	}
	if !b.Run() {
		t.Fatal("the index is not ready")
	}
	if x := indexOf(describeMain(t, f.db), lateIndex); x.IndexStatus != types.IndexStatusActive || x.Backfilling != nil || *x.ItemCount != 1 {
		t.Errorf("the filled index is %s, backfilling %v, with %d items", x.IndexStatus, x.Backfilling, *x.ItemCount)
	}
	if out := f.query(query); out.Count != 1 {
		t.Errorf("the filled index has %d items", out.Count)
	}
	if got := f.db.Ledger()[dynamolite.LedgerKey{Table: mainTable, Index: lateIndex, Operation: "Query"}]; got.Requests != 1 {
		t.Errorf("the ledger of the new index shows %v", got)
	}
	if _, err := f.db.AddIndex(adding("another", types.ProjectionTypeKeysOnly)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.db.UpdateTable(t.Context(), dropping("another")); err != nil {
		t.Errorf("an index that is being filled cannot be dropped: %v", err)
	}
}

// The answer shows the change under way; a description afterwards shows it done.
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
		f.put(with(keyed("a", "1"), attrs{"g": num("1")})) // no key any more, so of any type
	})
}

func TestUpdateTableRefused(t *testing.T) {
	t.Parallel()
	global := func(a types.GlobalSecondaryIndexUpdate) *dynamodb.UpdateTableInput {
		return changing(func(in *dynamodb.UpdateTableInput) { in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{a} })
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
		{"encryption", changing(func(in *dynamodb.UpdateTableInput) { in.SSESpecification = &types.SSESpecification{} }), "SSESpecification"},
		{"on-demand limit", changing(func(in *dynamodb.UpdateTableInput) { in.OnDemandThroughput = &types.OnDemandThroughput{} }), "OnDemandThroughput"},
		{"warm throughput", changing(func(in *dynamodb.UpdateTableInput) { in.WarmThroughput = &types.WarmThroughput{} }), "WarmThroughput"},
		{"replicas", changing(func(in *dynamodb.UpdateTableInput) { in.ReplicaUpdates = make([]types.ReplicationGroupUpdate, 1) }), "ReplicaUpdates"},
		{"witnesses", changing(func(in *dynamodb.UpdateTableInput) {
			in.GlobalTableWitnessUpdates = make([]types.GlobalTableWitnessGroupUpdate, 1)
		}), "GlobalTableWitnessUpdates"},
		{"settings replication", changing(func(in *dynamodb.UpdateTableInput) { in.GlobalTableSettingsReplicationMode = "ENABLED" }), "GlobalTableSettingsReplicationMode"},
		{"consistency", changing(func(in *dynamodb.UpdateTableInput) { in.MultiRegionConsistency = "STRONG" }), "MultiRegionConsistency"},
		{"disassociation", changing(func(in *dynamodb.UpdateTableInput) { in.DisassociationProtectionEnabled = ptr(true) }), "DisassociationProtectionEnabled"},
		{"vector index", changing(func(in *dynamodb.UpdateTableInput) { in.VectorIndexUpdates = make([]types.VectorIndexUpdate, 1) }), "VectorIndexUpdates"},
		{"index on-demand limit", and(late(), func(in *dynamodb.UpdateTableInput) {
			in.GlobalSecondaryIndexUpdates[0].Create.OnDemandThroughput = &types.OnDemandThroughput{}
		}), "OnDemandThroughput"},
		{"other index on-demand limit", global(types.GlobalSecondaryIndexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{
			IndexName: ptr(fullIndex), OnDemandThroughput: &types.OnDemandThroughput{},
		}}), "OnDemandThroughput"},
		{"other index warm throughput", global(types.GlobalSecondaryIndexUpdate{Update: &types.UpdateGlobalSecondaryIndexAction{
			IndexName: ptr(fullIndex), WarmThroughput: &types.WarmThroughput{},
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

// flat is what can be altered of a table, comparable as text.
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
		"table": changing(func(in *dynamodb.UpdateTableInput) { in.TableName, in.DeletionProtectionEnabled = ptr("nowhere"), ptr(true) }),
		"drop":  dropping("none"),
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

// A table goes from one way of being paid to the other and back, and what it is worth with it.
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
		mention string // "" if the change is fine
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

// Alterations are there after the database was opened again, and the index has what it had.
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
