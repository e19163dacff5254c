package dynamolite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// openMain opens an empty directory and makes the main table in it, with a local index and a
// stream.
func openMain(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t, openDir(t, t.TempDir())}
	t.Cleanup(func() { closeDB(t, f.db) })
	in := settledInput()
	in.StreamSpecification = streaming(types.StreamViewTypeNewImage)
	if _, err := f.db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return f
}

// unanswered executes an operation that writes, and returns the place of its entry.
func (f *fixture) unanswered(in any) uint64 {
	f.t.Helper()
	at, err := f.db.Unanswered(in)
	if err != nil || at == 0 {
		f.t.Fatalf("%T: entry %d, %v", in, at, err)
	}
	return at
}

// waits checks that the answer to each of the requests depends on an entry of the log that may not be on disk yet.
func (f *fixture) waits(after string, at uint64, requests ...any) {
	f.t.Helper()
	for _, in := range requests {
		if seen, err := f.db.Unanswered(in); seen < at {
			f.t.Errorf("%T after %s is answered when entry %d is on disk, not %d (%v)", in, after, seen, at, err)
		}
	}
}

// No answer reveals a write before it is on disk. It reveals neither the item's image, nor a
// failed condition, nor a place in an index, nor that a repeated transaction is already done.
func TestItemsAreOnDiskBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	f := openMain(t)
	key, other := keyed("a", "b"), keyed("z", "z")
	full := with(key, attrs{"fpk": str("f"), "fsk": num("1"), "lsk": num("1")})
	query := func(index *string, condition, value string, what types.Select) *dynamodb.QueryInput {
		return &dynamodb.QueryInput{
			TableName: ptr(mainTable), IndexName: index, KeyConditionExpression: &condition,
			ExpressionAttributeValues: attrs{":v": str(value)}, Select: what,
		}
	}
	reads := []any{
		&dynamodb.GetItemInput{TableName: ptr(mainTable), Key: key},
		query(nil, "pk = :v", "a", ""),
		query(ptr(fullIndex), "fpk = :v", "f", ""),
		query(ptr("local"), "pk = :v", "a", types.SelectAllAttributes),
		&dynamodb.ScanInput{TableName: ptr(mainTable)},
		&dynamodb.ScanInput{TableName: ptr(mainTable), IndexName: ptr(fullIndex), Select: types.SelectCount},
		&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{mainTable: {Keys: []attrs{other, key}}}},
		&dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: ptr(mainTable), Key: key}}, {Get: &types.Get{TableName: ptr(mainTable), Key: other}},
		}},
		&dynamodb.DescribeTableInput{TableName: ptr(mainTable)},
		&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: key, ConditionExpression: ptr("n = pk")},
		&dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key, ConditionExpression: ptr("n = pk")},
		&dynamodb.UpdateItemInput{TableName: ptr(mainTable), Key: key, ConditionExpression: ptr("n = pk")},
		&dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{transactCheck(key, "n = pk")}},
	}
	f.waits("a put", f.unanswered(&dynamodb.PutItemInput{TableName: ptr(mainTable), Item: full}), reads...)
	f.waits("an update that leaves the entries as they are", f.unanswered(&dynamodb.UpdateItemInput{
		TableName: ptr(mainTable), Key: key, UpdateExpression: ptr("SET q = :q"), ExpressionAttributeValues: attrs{":q": str("q")},
	}), query(ptr("local"), "pk = :v", "a", types.SelectAllAttributes))
	f.waits("a delete", f.unanswered(&dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}), reads...)
	for name, items := range map[string][]types.TransactWriteItem{
		"of an update":  {transactUpdate(key, "SET fpk = :f, fsk = :n, lsk = :n", attrs{":f": str("f"), ":n": num("1")})},
		"of conditions": {transactCheck(other, "attribute_not_exists(pk)")},
	} {
		in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: &name, TransactItems: items}
		f.waits("the same "+name, f.unanswered(in), in)
	}
}

// No answer reveals that a table exists, is missing or has a property before that is on disk.
func TestTablesAreOnDiskBeforeTheyAreSeen(t *testing.T) {
	t.Parallel()
	f := openMain(t)
	created := otherInput()
	created.StreamSpecification = streaming(types.StreamViewTypeKeysOnly)
	name, arn := ptr(otherName), "arn:aws:dynamodb:dynamolite:000000000000:table/"+otherName
	finds := []any{
		&dynamodb.GetItemInput{TableName: name, Key: attrs{"id": str("1")}},
		&dynamodb.ScanInput{TableName: name},
		&dynamodb.DescribeTableInput{TableName: name},
		&dynamodb.DescribeTimeToLiveInput{TableName: name},
		&dynamodb.ListTagsOfResourceInput{ResourceArn: &arn},
		&dynamodb.ListTablesInput{},
		&dynamodbstreams.ListStreamsInput{},
	}
	f.waits("a creation", f.unanswered(created), append(finds, created)...)
	for _, change := range []any{
		&dynamodb.UpdateTableInput{TableName: name, DeletionProtectionEnabled: ptr(true)},
		&dynamodb.UpdateTableInput{TableName: name, DeletionProtectionEnabled: ptr(false)},
		&dynamodb.UpdateTimeToLiveInput{TableName: name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: ptr("t"), Enabled: ptr(true)}},
		&dynamodb.TagResourceInput{ResourceArn: &arn, Tags: []types.Tag{{Key: ptr("k"), Value: ptr("v")}}},
		&dynamodb.UpdateTableInput{TableName: name, StreamSpecification: &types.StreamSpecification{StreamEnabled: ptr(false)}},
	} {
		f.waits(fmt.Sprintf("%T", change), f.unanswered(change), append(finds, change)...) // the repetition is refused, or written
	}
	f.waits("a deletion", f.unanswered(&dynamodb.DeleteTableInput{TableName: name}), finds...)
}

// A checkpoint between a transaction and its answer has the transaction's token as well as its
// items. After a restart, a repetition is not applied again.
func TestTokenInCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := fixtureIn(t, openDir(t, dir))
	key := keyed("a", "b")
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: ptr("token"), TransactItems: []types.TransactWriteItem{transactUpdate(key, "ADD n :one", attrs{":one": num("1")})},
	}
	if err := f.db.CommitOnce(*in.ClientRequestToken, in.TransactItems); err != nil {
		t.Fatal(err)
	}
	if err := f.db.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	closeDB(t, f.db)
	f.db = openDir(t, dir)
	defer func() { closeDB(t, f.db) }()
	if _, err := f.db.TransactWriteItems(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "the number after a repetition", num("1"), f.get(key)["n"])
}

// Options that would fail later, in the background, are rejected at once.
func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	db, err := dynamolite.Open(dynamolite.Options{SweepInterval: -time.Second})
	if _, ok := errors.AsType[*dynamolite.OptionError](err); !ok || db != nil {
		t.Errorf("a negative interval: %v, want an *OptionError", err)
	}
}
