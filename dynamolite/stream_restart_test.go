package dynamolite_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A transaction spans tables with a stream, without one, and dropped. The sequence numbers of its
// records are the same after a restart. A reader that stopped in the middle of it therefore
// continues from its place.
func TestSequenceNumbersOutliveARestart(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeNewAndOldImages)
	dir := t.TempDir()
	f.open(dir)
	f.arn = f.create(mainTable, types.StreamViewTypeNewAndOldImages)
	for _, name := range []string{otherName, "gone"} {
		in := otherInput()
		in.TableName = &name
		if _, err := f.db.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	put := func(table string, item attrs) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: item}}
	}
	if _, err := f.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		put(otherName, attrs{"id": str("1")}), put(mainTable, keyed("a", "1")),
		put("gone", attrs{"id": str("1")}), put(mainTable, keyed("a", "2")),
		put(mainTable, keyed("a", "3")),
	}}); err != nil {
		t.Fatal(err)
	}
	numbers := func() (all []string) {
		for _, r := range f.records() {
			all = append(all, *r.Dynamodb.SequenceNumber+" "+*r.EventID)
		}
		return all
	}
	before := numbers()
	first, rest := f.read(f.from(f.shardOfA(), trimHorizon), 1)
	closeDB(t, f.db)
	f.open(dir)
	defer func() { closeDB(t, f.db) }()
	if after := numbers(); len(before) != 3 || !slices.Equal(before, after) {
		t.Errorf("the records have the numbers\n%v, before the restart\n%v", after, before)
	}
	more, _ := f.read(rest, 1000)
	if len(first) != 1 || len(more) != 2 {
		t.Errorf("%d record before the restart and %d after it, want 1 and 2", len(first), len(more))
	}
}
