package dynamolite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// engines are a database that is closed and reopened, and one that is not. Both get the same
// requests.
type engines struct {
	t            *testing.T
	dir          string
	now          time.Time
	disk, memory *dynamolite.DB
}

func newEngines(t *testing.T) *engines {
	t.Helper()
	e := &engines{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	e.memory = dynamolite.New(dynamolite.Options{Now: e.clock})
	e.open()
	t.Cleanup(func() {
		closeDB(t, e.disk)
		closeDB(t, e.memory)
	})
	return e
}

func (e *engines) clock() time.Time { return e.now }

func (e *engines) open() {
	e.t.Helper()
	var err error
	e.disk, err = dynamolite.Open(dynamolite.CheckpointAfter(dynamolite.Options{Dir: e.dir, Now: e.clock}, 16<<10))
	if err != nil {
		e.t.Fatal(err)
	}
}

// reopen closes and reopens the database on disk.
func (e *engines) reopen() {
	e.t.Helper()
	closeDB(e.t, e.disk)
	e.open()
}

// both sends the same request to both databases and compares the answers.
func both[In, Out any](e *engines, in *In, do func(*dynamolite.DB, context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)) (*Out, error) {
	e.t.Helper()
	want, wantErr := do(e.memory, e.t.Context(), in)
	got, gotErr := do(e.disk, e.t.Context(), in)
	if (wantErr == nil) != (gotErr == nil) {
		e.t.Fatalf("%T: on disk %v, in memory %v", in, gotErr, wantErr)
	}
	if wantErr == nil && text(want) != text(got) {
		e.t.Fatalf("%T: on disk\n%v\nin memory\n%v", in, text(got), text(want))
	}
	return got, gotErr
}

// A database is closed and reopened at random moments, with checkpoints at others. It answers
// like one that was never closed: items, indexes, conditions, tokens.
func TestReopened(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			e := newEngines(t)
			random := rand.New(rand.NewPCG(seed, 3))
			for _, in := range []*dynamodb.CreateTableInput{settledInput(), otherInput()} {
				if _, err := both(e, in, (*dynamolite.DB).CreateTable); err != nil {
					t.Fatal(err)
				}
			}
			for step := range 250 {
				e.now = e.now.Add(time.Duration(random.IntN(2000)) * time.Millisecond)
				randomWrite(e, random, step)
				switch random.IntN(40) {
				case 0:
					e.reopen()
				case 1:
					if err := e.disk.Checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
			}
			e.reopen()
			compareAll(e)
		})
	}
}

// settledInput returns the main table with a local index added.
func settledInput() *dynamodb.CreateTableInput {
	in := mainInput()
	in.AttributeDefinitions = append(in.AttributeDefinitions, definitionsOf("lsk:N")...)
	in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{
		IndexName: ptr("local"), KeySchema: schemaOf("pk", "lsk"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
	}}
	in.Tags = []types.Tag{{Key: ptr("team"), Value: ptr("a")}}
	return in
}

func randomWrite(e *engines, random *rand.Rand, step int) {
	e.t.Helper()
	key := keyed(fmt.Sprint("p", random.IntN(3)), fmt.Sprint("s", random.IntN(5)))
	some := func() types.AttributeValue { return num(strconv.Itoa(random.IntN(3))) }
	switch random.IntN(5) {
	case 0:
		item := with(key, attrs{"fpk": str("f"), "fsk": some(), "lsk": some(), "x": some(), "bytes": bin("\x00\xff"), "set": strSet("a", "b")})
		_, _ = both(e, &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: item, ReturnValues: types.ReturnValueAllOld}, (*dynamolite.DB).PutItem)
	case 1, 2:
		_, _ = both(e, &dynamodb.UpdateItemInput{
			TableName: ptr(mainTable), Key: key, UpdateExpression: ptr("SET kpk = :k, spk = :k, ssk = :k, m = :m ADD n :n REMOVE x"),
			ConditionExpression:       ptr("attribute_not_exists(n) OR n < :max"),
			ExpressionAttributeValues: attrs{":k": str("k"), ":m": doc(attrs{"deep": strSet("x")}), ":n": some(), ":max": num("9")},
			ReturnValues:              types.ReturnValueAllNew,
		}, (*dynamolite.DB).UpdateItem)
	case 3:
		_, _ = both(e, &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key, ReturnValues: types.ReturnValueAllOld}, (*dynamolite.DB).DeleteItem)
	case 4:
		token := fmt.Sprint("token-", step/3)
		_, _ = both(e, &dynamodb.TransactWriteItemsInput{ClientRequestToken: &token, TransactItems: []types.TransactWriteItem{
			transactUpdate(key, "ADD n :n", attrs{":n": num(strconv.Itoa(step / 3))}),
			{Put: &types.Put{TableName: ptr(otherName), Item: attrs{"id": str(strconv.Itoa(step / 3)), "v": num("1")}}},
		}}, (*dynamolite.DB).TransactWriteItems)
	}
}

// compareAll compares the whole contents of both.
func compareAll(e *engines) {
	e.t.Helper()
	for _, index := range []struct{ name, hash string }{{"", "pk"}, {"local", "pk"}, {fullIndex, "fpk"}, {keysOnly, "kpk"}, {someAttrs, "spk"}} {
		for _, hash := range []string{"p0", "p1", "p2", "f", "k"} {
			in := &dynamodb.QueryInput{
				TableName: ptr(mainTable), KeyConditionExpression: ptr(index.hash + " = :v"), ExpressionAttributeValues: attrs{":v": str(hash)},
			}
			if index.name != "" {
				in.IndexName = &index.name
			}
			_, _ = both(e, in, (*dynamolite.DB).Query)
		}
	}
	for _, name := range []string{mainTable, otherName} {
		_, _ = both(e, &dynamodb.DescribeTableInput{TableName: &name}, (*dynamolite.DB).DescribeTable)
	}
	_, _ = both(e, &dynamodb.ListTablesInput{}, (*dynamolite.DB).ListTables)
}

// text returns all of an answer as text, with maps in order.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// A table keeps its settings after a restart, and a deleted table stays deleted.
func TestReopenedSettings(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	in := settledInput()
	in.BillingMode, in.DeletionProtectionEnabled = types.BillingModeProvisioned, ptr(true)
	in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(5)), WriteCapacityUnits: ptr(int64(6))}
	for i := range in.GlobalSecondaryIndexes {
		in.GlobalSecondaryIndexes[i].ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: ptr(int64(7)), WriteCapacityUnits: ptr(int64(8))}
	}
	in.TableClass = types.TableClassStandardInfrequentAccess
	create := (*dynamolite.DB).CreateTable
	if _, err := both(e, in, create); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := both(e, otherInput(), create); err != nil {
			t.Fatal(err)
		}
		if _, err := both(e, &dynamodb.DeleteTableInput{TableName: ptr(otherName)}, (*dynamolite.DB).DeleteTable); err != nil {
			t.Fatal(err)
		}
	}
	for _, checkpoint := range []bool{false, true} {
		if checkpoint {
			if err := e.disk.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		e.reopen()
		_, _ = both(e, &dynamodb.ListTablesInput{}, (*dynamolite.DB).ListTables)
		out, err := both(e, &dynamodb.DescribeTableInput{TableName: ptr(mainTable)}, (*dynamolite.DB).DescribeTable)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = both(e, &dynamodb.ListTagsOfResourceInput{ResourceArn: out.Table.TableArn}, (*dynamolite.DB).ListTagsOfResource)
		_, err = e.disk.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)})
		wantInvalid(t, err, "protected")
	}
}

// After a restart, a reader of a stream continues from its place, with its own iterator's
// sequence numbers, and finds every record once.
func TestReopenedStream(t *testing.T) {
	t.Parallel()
	for _, checkpoint := range []bool{false, true} {
		e := newEngines(t)
		in := otherInput()
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
		if _, err := both(e, in, (*dynamolite.DB).CreateTable); err != nil {
			t.Fatal(err)
		}
		var before []string
		for i := range 60 {
			e.now = e.now.Add(time.Second)
			update := &dynamodb.UpdateItemInput{
				TableName: ptr(otherName), Key: attrs{"id": str(strconv.Itoa(i % 7))}, UpdateExpression: ptr("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
			}
			if _, err := e.disk.UpdateItem(t.Context(), update); err != nil {
				t.Fatal(err)
			}
			if i == 20 && checkpoint {
				if err := e.disk.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			if i == 40 {
				before = allRecords(t, e.disk)
				e.reopen()
			}
		}
		after := allRecords(t, e.disk)
		if len(after) != 60 {
			t.Errorf("checkpoint %v: %d records, want 60", checkpoint, len(after))
		}
		for _, r := range before {
			if !slices.Contains(after, r) {
				t.Errorf("checkpoint %v: the record %s is another after the restart", checkpoint, r)
			}
		}
	}
}

// allRecords returns the records of the only stream, as text.
func allRecords(t *testing.T, db *dynamolite.DB) []string {
	t.Helper()
	list, err := db.ListStreams(t.Context(), &dynamodbstreams.ListStreamsInput{})
	if err != nil || len(list.Streams) != 1 {
		t.Fatalf("streams: %v, %v", list, err)
	}
	arn := list.Streams[0].StreamArn
	stream, err := db.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, shard := range stream.StreamDescription.Shards {
		at, err := db.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := db.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: at.ShardIterator})
		if err != nil {
			t.Fatal(err)
		}
		for i := range out.Records {
			all = append(all, fmt.Sprint(*shard.ShardId, text(out.Records[i])))
		}
	}
	return all
}

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openDir(t, dir)
	_, err := dynamolite.Open(dynamolite.Options{Dir: dir})
	if !errors.Is(err, dynamolite.ErrInUse) {
		t.Fatalf("opened twice: %v", err)
	}
	closeDB(t, db)
	closeDB(t, openDir(t, dir))
}

// A damaged file is reported, and not changed.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openDir(t, dir)
	f := fixtureIn(t, db)
	for i := range 20 {
		f.put(keyed("a", strconv.Itoa(i)))
	}
	closeDB(t, db)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := ""
	var content []byte
	for _, name := range files {
		if content, err = os.ReadFile(name); err == nil && len(content) > 1000 {
			damaged = name
			break
		}
	}
	content[400] ^= 0x40 // among the entries; the file has room for many more
	if err := os.WriteFile(damaged, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dynamolite.Open(dynamolite.Options{Dir: dir}); !errors.Is(err, dynamolite.ErrDamaged) {
		t.Fatalf("opened: %v", err)
	}
	if after, err := os.ReadFile(damaged); err != nil || !slices.Equal(content, after) {
		t.Errorf("the damaged file was changed: %v", err)
	}
}

// New is for databases in memory.
func TestNewWithDir(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("New took a directory")
		}
	}()
	dynamolite.New(dynamolite.Options{Dir: t.TempDir()})
}

func TestClosedOnDisk(t *testing.T) {
	t.Parallel()
	db := openDir(t, t.TempDir())
	f := fixtureIn(t, db)
	closeDB(t, db)
	closeDB(t, db)
	_, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(mainTable), Item: keyed("a", "b")})
	if !errors.Is(err, dynamolite.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
}
