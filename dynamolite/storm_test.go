package dynamolite_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

var (
	stormSteps = flag.Int("dynamolite.storm", 60, "how much each goroutine does in TestEverythingAtOnce, each time")
	stormSeed  = flag.Uint64("dynamolite.stormseed", 1, "chooses what")
)

// The tables of a storm, all with the same keys. Main always has a stream and its items expire;
// flip gains and loses a stream and an index; gone is created and deleted.
const (
	stormFlip  = "flip"
	stormGone  = "gone"
	stormIndex = "added"
)

var stormTables = []string{mainTable, mainTable, mainTable, stormFlip, stormFlip, stormFlip, stormGone}

// storm is a database that many goroutines use in every way.
type storm struct {
	t    *testing.T
	db   *dynamolite.DB
	over atomic.Bool
}

// stormClient is one of the goroutines.
type stormClient struct {
	*storm
	*rand.Rand
}

func stormInput(table string, stream bool) *dynamodb.CreateTableInput {
	in := settledInput()
	in.TableName = &table
	if stream {
		in.StreamSpecification = streaming(types.StreamViewTypeNewAndOldImages)
	}
	return in
}

func stormExpiry(table string, enabled bool) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{
		TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: ptr("ttl"), Enabled: &enabled},
	}
}

func (c *stormClient) few(prefix string) types.AttributeValue {
	return str(prefix + strconv.Itoa(c.IntN(4)))
}

func (c *stormClient) digit() types.AttributeValue { return num(strconv.Itoa(c.IntN(9))) }

func (c *stormClient) table() *string { return ptr(stormTables[c.IntN(len(stormTables))]) }

func (c *stormClient) key() attrs { return attrs{"pk": c.few("p"), "sk": c.few("s")} }

func (c *stormClient) item() attrs {
	item := with(c.key(), attrs{"n": c.digit()})
	for _, some := range []attrs{
		{"fpk": c.few("f"), "fsk": c.digit()},
		{"kpk": c.few("k")},
		{"lsk": c.digit()},
		{"new": c.few("n")},
		{"spk": c.few("s"), "ssk": c.few("s"), "x": blob(c.IntN(3000))},
	} {
		if c.IntN(2) == 0 {
			item = with(item, some)
		}
	}
	if c.IntN(8) == 0 {
		item["ttl"] = num("1700000000") // in 2023, less than five years ago on the clock of the test
	}
	return item
}

func (c *stormClient) transaction() *dynamodb.TransactWriteItemsInput {
	in := &dynamodb.TransactWriteItemsInput{}
	if c.IntN(2) == 0 {
		in.ClientRequestToken = ptr(strconv.FormatUint(c.Uint64(), 16))
	}
	for i := range 1 + c.IntN(6) {
		table, key := c.table(), attrs{"pk": str("p" + strconv.Itoa(i)), "sk": c.few("s")} // no key twice
		var w types.TransactWriteItem
		switch c.IntN(4) {
		case 0:
			w.Put = &types.Put{TableName: table, Item: with(c.item(), key)}
		case 1:
			w.Delete = &types.Delete{TableName: table, Key: key}
		case 2:
			w.ConditionCheck = &types.ConditionCheck{TableName: table, Key: key, ConditionExpression: ptr("attribute_not_exists(y)")}
		default:
			w = transactUpdate(key, "SET kpk = :k ADD n :n REMOVE lsk, x", attrs{":k": c.few("k"), ":n": num("1")})
			w.Update.TableName = table
		}
		in.TransactItems = append(in.TransactItems, w)
	}
	return in
}

// settings is a random change of a table.
func (c *stormClient) settings(ctx context.Context) (err error) {
	in := &dynamodb.UpdateTableInput{TableName: ptr(stormFlip)}
	switch c.IntN(8) {
	case 0, 3:
		_, err = c.db.CreateTable(ctx, stormInput(stormGone, c.IntN(2) == 0))
		return err
	case 1:
		_, err = c.db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: ptr(stormGone)})
		return err
	case 2:
		_, err = c.db.UpdateTimeToLive(ctx, stormExpiry(*c.table(), c.IntN(4) > 0))
		return err
	case 4:
		in.StreamSpecification = streaming(types.StreamViewTypeNewAndOldImages)
	case 5:
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(false)}
	case 6:
		projection := []types.ProjectionType{types.ProjectionTypeAll, types.ProjectionTypeKeysOnly}[c.IntN(2)]
		g := gsiOf(stormIndex, projection, nil, "new")
		in.AttributeDefinitions = definitionsOf("new:S")
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{
			Create: &types.CreateGlobalSecondaryIndexAction{IndexName: g.IndexName, KeySchema: g.KeySchema, Projection: g.Projection},
		}}
	default:
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: ptr(stormIndex)}}}
	}
	_, err = c.db.UpdateTable(ctx, in)
	return err
}

// step makes one random request. Its error must be one that a client of a table in use can
// expect.
func (c *stormClient) step(ctx context.Context) {
	var err error
	expected := []string{"ResourceNotFoundException"}
	switch table := c.table(); c.IntN(14) {
	case 0:
		err, expected = c.settings(ctx), append(expected, "ValidationException", "LimitExceededException", "ResourceInUseException")
	case 1, 2, 3:
		in := c.transaction()
		_, err = c.db.TransactWriteItems(ctx, in)
		if err == nil && c.IntN(2) == 0 {
			_, err = c.db.TransactWriteItems(ctx, in)
		}
		expected = append(expected, "TransactionCanceledException")
	case 4, 5, 6:
		_, err = c.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: c.item(), ReturnValues: types.ReturnValueAllOld})
		expected = append(expected, "TransactionConflictException")
	case 7, 8:
		_, err = c.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: table, Key: c.key(), ConditionExpression: ptr("attribute_exists(x)")})
		expected = append(expected, "TransactionConflictException", "ConditionalCheckFailedException")
	case 9:
		requests := []types.WriteRequest{
			{PutRequest: &types.PutRequest{Item: with(c.item(), attrs{"pk": str("p0")})}},
			{DeleteRequest: &types.DeleteRequest{Key: with(c.key(), attrs{"pk": str("p1")})}},
		}
		_, err = c.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*table: requests}})
	case 10:
		for in := (&dynamodb.ScanInput{TableName: table, IndexName: ptr("local"), Select: types.SelectAllAttributes, Limit: ptr(int32(5))}); err == nil; {
			var out *dynamodb.ScanOutput
			if out, err = c.db.Scan(ctx, in); err != nil || out.LastEvaluatedKey == nil {
				break
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	case 11:
		_, err = c.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: table})
	default:
		_, err = c.db.Query(ctx, &dynamodb.QueryInput{
			TableName: table, IndexName: ptr(fullIndex), KeyConditionExpression: ptr("fpk = :f"), ExpressionAttributeValues: attrs{":f": c.few("f")},
		})
	}
	api, ok := errors.AsType[smithy.APIError](err)
	switch {
	case err == nil, ok && slices.Contains(expected, api.ErrorCode()), c.over.Load() && errors.Is(err, dynamolite.ErrClosed):
	default:
		c.t.Error(err)
	}
}

// rest compares all data that the database returns about itself, and returns it as text.
func (s *storm) rest() (all []string) {
	s.t.Helper()
	ctx := s.t.Context()
	items := map[string]string{} // by table and key
	list, err := s.db.ListTables(ctx, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range list.TableNames {
		d, err := s.db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			s.t.Fatal(err)
		}
		scan, err := s.db.Scan(ctx, &dynamodb.ScanInput{TableName: &name})
		if err != nil || int64(scan.Count) != *d.Table.ItemCount || scan.LastEvaluatedKey != nil {
			s.t.Fatalf("%s has %d items, describes itself as having %d; %v", name, scan.Count, *d.Table.ItemCount, err)
		}
		all = append(all, fmt.Sprint(name, *d.Table.ItemCount, *d.Table.TableSizeBytes))
		for _, item := range scan.Items {
			items[name+text(attrs{"pk": item["pk"], "sk": item["sk"]})] = text(item)
			all = append(all, name+text(item))
		}
		indexes := []string{"local"}
		for _, g := range d.Table.GlobalSecondaryIndexes {
			indexes = append(indexes, *g.IndexName)
		}
		for _, index := range indexes {
			if err := s.db.IndexProblem(name, index); err != nil {
				s.t.Errorf("index %s of %s: %v", index, name, err)
			}
			all = append(all, name+index)
		}
	}
	return append(all, s.streams(items)...)
}

// streams checks that the records of each item are a chain of images. Where the stream is
// enabled, the chain must end with the current item. It returns the records as text.
func (s *storm) streams(items map[string]string) (all []string) {
	s.t.Helper()
	f := &streamFixture{fixture: &fixture{s.t, s.db}}
	list, err := s.db.ListStreams(s.t.Context(), &dynamodbstreams.ListStreamsInput{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, st := range list.Streams {
		f.arn = *st.StreamArn
		last := map[string]string{}
		for _, r := range f.records() {
			c := r.Dynamodb
			key, old, updated := *st.TableName+text(plain(c.Keys)), text(plain(c.OldImage)), text(plain(c.NewImage))
			if before, ok := last[key]; ok && before != old {
				s.t.Errorf("record %s of %s has not the image before it", *c.SequenceNumber, f.arn)
			}
			last[key] = updated
			all = append(all, fmt.Sprint(*r.EventID, *c.SequenceNumber, r.EventName, r.UserIdentity != nil, c.ApproximateCreationDateTime.Unix(), old, updated))
		}
		status := f.describe().StreamStatus
		if all = append(all, f.arn+string(status)); status != streamtypes.StreamStatusEnabled {
			continue
		}
		for key, image := range last {
			if item, ok := items[key]; ok && item != image || !ok && image != text(attrs(nil)) {
				s.t.Errorf("%s ends with %s of %s, the item is %q", f.arn, image, key, item)
			}
		}
	}
	return all
}

// settle waits until nothing changes any more: it switches expiry off and waits until the indexes
// are filled.
func (s *storm) settle() {
	s.t.Helper()
	for _, table := range []string{mainTable, stormFlip, stormGone} {
		_, _ = s.db.UpdateTimeToLive(s.t.Context(), stormExpiry(table, false))
	}
	for filling := true; filling; {
		out, err := s.db.DescribeTable(s.t.Context(), &dynamodb.DescribeTableInput{TableName: ptr(stormFlip)})
		if err != nil {
			s.t.Fatal(err)
		}
		filling = slices.ContainsFunc(out.Table.GlobalSecondaryIndexes, func(g types.GlobalSecondaryIndexDescription) bool {
			return g.IndexStatus == types.IndexStatusCreating
		})
		runtime.Gosched()
	}
}

// Goroutines use a database in every way at the same time, while it expires items, writes
// checkpoints and, once, is closed during their work. Its data is then consistent, and is still
// there after it is reopened.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := time.Now()
	open := func() *dynamolite.DB {
		db, err := dynamolite.Open(dynamolite.CheckpointAfter(dynamolite.Options{
			Dir: dir, SweepInterval: time.Millisecond,
			Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Since(begin)) },
		}, 48<<10))
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	s := &storm{t: t, db: open()}
	for _, in := range []*dynamodb.CreateTableInput{stormInput(mainTable, true), stormInput(stormFlip, false)} {
		if _, err := s.db.CreateTable(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		s.over.Store(false)
		closes := round == 1
		var wg sync.WaitGroup
		for client := range 16 {
			wg.Go(func() {
				c := &stormClient{s, rand.New(rand.NewPCG(*stormSeed, uint64(round<<8+client)))}
				for step := range *stormSteps {
					c.step(t.Context())
					if closes && client == 0 && step == *stormSteps/2 {
						s.over.Store(true)
						closeDB(t, s.db)
					}
				}
			})
		}
		wg.Wait()
		if closes {
			s.db = open()
		}
		s.settle()
		before := s.rest()
		if round == 2 { // in the other rounds the log is read too
			if err := s.db.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		closeDB(t, s.db)
		s.db = open()
		if after := s.rest(); !slices.Equal(before, after) {
			missing := func(of, from []string) string {
				return strings.Join(slices.DeleteFunc(slices.Clone(of), func(line string) bool { return slices.Contains(from, line) }), "\n")
			}
			t.Fatalf("round %d: lost\n%.3000s\ngained\n%.3000s", round, missing(before, after), missing(after, before))
		}
	}
	closeDB(t, s.db)
}
