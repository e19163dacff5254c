package dynamolite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// plainMain returns the main table without its indexes.
func plainMain() *dynamodb.CreateTableInput {
	in := mainInput()
	in.GlobalSecondaryIndexes, in.AttributeDefinitions = nil, in.AttributeDefinitions[:2]
	return in
}

// writer changes items of a few partitions at random. Some of its items have no place in the late
// index.
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
	item := with(w.key(), attrs{"x": num(strconv.Itoa(w.rng.IntN(3))), "w": blob(w.rng.IntN(20))})
	if w.rng.IntN(4) > 0 {
		item["g"] = str(fmt.Sprint("g", w.rng.IntN(4)))
	}
	if w.rng.IntN(4) > 0 {
		item["n"] = num(strconv.Itoa(w.rng.IntN(50)))
	}
	return item
}

func (w *writer) update() (attrs, string, attrs) {
	values := attrs{":v": num(strconv.Itoa(w.rng.IntN(50)))}
	expression := []string{"SET n = :v", "SET x = :v", "SET w = :v", "REMOVE g SET x = :v", "SET g = :g", "REMOVE n, x"}[w.rng.IntN(6)]
	switch {
	case strings.Contains(expression, ":g"):
		values = attrs{":g": str(fmt.Sprint("g", w.rng.IntN(4)))}
	case !strings.Contains(expression, ":v"):
		values = nil
	}
	return w.key(), expression, values
}

// write makes one write. Another transaction may be in conflict with it.
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

// populated returns a writer on a database with a table of some items and no index.
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
	// Items that cannot be in the index; the table accepts them only while there is no index.
	for i, odd := range []attrs{{"g": num("1"), "n": num("1")}, {"g": str("g"), "n": str("text")}, {"g": str(""), "n": num("1")}, {"g": blob(2049), "n": num("1")}} {
		if _, err := db.PutItem(tb.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: with(keyed("odd", strconv.Itoa(i)), odd)}); err != nil {
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

// The index is right in the end, whatever is written between the steps of a backfill, behind it
// or ahead of it. Transactions begin at one time and end at another.
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

// Backfills run beside writers, while indexes are created and deleted.
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
				if name == "again" { // deleted while it is being filled
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

// A transaction was checked before the index existed. It drops the entry that the backfill has
// since made of the old item.
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

// While an index is being filled, it cannot be read, no other index can be created or deleted,
// and the table cannot be deleted. The index itself can be deleted.
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
	_, err = f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)})
	if _, ok := errors.AsType[*types.ResourceInUseException](err); !ok {
		t.Errorf("deleting the table: got %v, want a ResourceInUseException", err)
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
