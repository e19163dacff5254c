package dynamolite_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// Each view shows the images that its name says, and the size counts the key and these images.
func TestStreamViews(t *testing.T) {
	t.Parallel()
	key := keyed("a", "é")
	first, second := with(key, attrs{"n": num("12")}), with(key, attrs{"n": num("12345"), "x": str("yz")})
	const keySize, firstSize, secondSize = 2 + 1 + 2 + 2, 7 + 1 + 2, 7 + 1 + 4 + 1 + 2
	for view, shows := range map[types.StreamViewType]struct{ old, updated bool }{
		types.StreamViewTypeKeysOnly:        {},
		types.StreamViewTypeOldImage:        {old: true},
		types.StreamViewTypeNewImage:        {updated: true},
		types.StreamViewTypeNewAndOldImages: {old: true, updated: true},
	} {
		f := newStreamFixture(t, view)
		f.put(first)
		f.put(first) // changes nothing
		f.put(second)
		f.update(key, "SET n = :n", attrs{":n": num("12345.0")}) // this changes nothing either
		f.delete(key)
		f.delete(key) // nor does this
		records := f.records()
		if len(records) != 3 {
			t.Fatalf("%s: %d records, want 3", view, len(records))
		}
		for i, want := range []struct {
			event                streamtypes.OperationType
			old, updated         attrs
			oldSize, updatedSize int64
		}{
			{streamtypes.OperationTypeInsert, nil, first, 0, firstSize},
			{streamtypes.OperationTypeModify, first, second, firstSize, secondSize},
			{streamtypes.OperationTypeRemove, second, nil, secondSize, 0},
		} {
			if !shows.old {
				want.old, want.oldSize = nil, 0
			}
			if !shows.updated {
				want.updated, want.updatedSize = nil, 0
			}
			what := fmt.Sprintf("%s, record %d: ", view, i)
			r, d := records[i], records[i].Dynamodb
			mustEqual(t, what+"keys", key, plain(d.Keys))
			mustEqual(t, what+"old image", want.old, plain(d.OldImage))
			mustEqual(t, what+"new image", want.updated, plain(d.NewImage))
			if r.EventName != want.event || *d.SizeBytes != keySize+want.oldSize+want.updatedSize || d.StreamViewType != streamtypes.StreamViewType(view) {
				t.Errorf("%s%s of %d bytes, %s; want %+v", what, r.EventName, *d.SizeBytes, d.StreamViewType, want)
			}
			if *r.AwsRegion != strings.Split(f.arn, ":")[3] || *r.EventSource != "aws:dynamodb" || *r.EventVersion != "1.1" || r.UserIdentity != nil {
				t.Errorf("%s%+v", what, r)
			}
			if at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC); !d.ApproximateCreationDateTime.Equal(at) {
				t.Errorf("%screated at %v, want %v", what, d.ApproximateCreationDateTime, at)
			}
		}
	}
}

// All types of values come through, and the reader owns its results.
func TestStreamImages(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeNewAndOldImages)
	item := with(keyed("a", "b"), attrs{
		"s": str(""), "n": num("-1.5"), "b": bin("\x00\xff"), "t": &types.AttributeValueMemberBOOL{Value: true}, "f": &types.AttributeValueMemberBOOL{},
		"null": &types.AttributeValueMemberNULL{Value: true}, "ss": strSet("x"), "ns": &types.AttributeValueMemberNS{Value: []string{"7"}},
		"bs": &types.AttributeValueMemberBS{Value: [][]byte{[]byte("z")}}, "m": doc(attrs{"deep": doc(attrs{}), "n": num("1")}),
		"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1"), str("s"), &types.AttributeValueMemberL{Value: []types.AttributeValue{}}}},
	})
	f.put(item)
	for range 2 {
		image := f.records()[0].Dynamodb.NewImage
		mustEqual(t, "image", item, plain(image))
		image["b"].(*streamtypes.AttributeValueMemberB).Value[0] = 'x'
		image["ss"].(*streamtypes.AttributeValueMemberSS).Value[0] = "spoilt"
		image["m"].(*streamtypes.AttributeValueMemberM).Value["n"] = nil
		image["l"].(*streamtypes.AttributeValueMemberL).Value[0] = nil
		delete(image, "s")
	}
	mustEqual(t, "item", item, f.get(keyed("a", "b")))
}

// A key of bytes is not shared between the key and the image of a record.
func TestStreamKeyIsNotShared(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
	in := otherInput()
	in.AttributeDefinitions, in.StreamSpecification = definitionsOf("id:B"), streaming(types.StreamViewTypeNewImage)
	out, err := f.db.CreateTable(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	f.arn = *out.TableDescription.LatestStreamArn
	if _, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(otherName), Item: attrs{"id": bin("key")}}); err != nil {
		t.Fatal(err)
	}
	d := f.records()[0].Dynamodb
	d.Keys["id"].(*streamtypes.AttributeValueMemberB).Value[0] = 'X'
	mustEqual(t, "image", attrs{"id": bin("key")}, plain(d.NewImage))
}

// A key of any type comes through, and counts.
func TestStreamKeys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind string
		key  types.AttributeValue
		size int64 // including the name
	}{{"S", str("text"), 6}, {"N", num("123"), 5}, {"B", bin("\x00\x01\x02"), 5}} {
		f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
		in := otherInput()
		in.AttributeDefinitions, in.StreamSpecification = definitionsOf("id:"+tc.kind), streaming(types.StreamViewTypeKeysOnly)
		out, err := f.db.CreateTable(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		f.arn = *out.TableDescription.LatestStreamArn
		item := attrs{"id": tc.key, "more": str("of no interest")}
		if _, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: ptr(otherName), Item: item}); err != nil {
			t.Fatal(err)
		}
		d := f.records()[0].Dynamodb
		mustEqual(t, "key", attrs{"id": tc.key}, plain(d.Keys))
		if *d.SizeBytes != tc.size {
			t.Errorf("a key of type %s counts %d bytes, want %d", tc.kind, *d.SizeBytes, tc.size)
		}
	}
}

// The writes of a transaction and of a batch are separate records, those of one item in order.
// Each has its own sequence number and id, which do not change.
func TestStreamOfSeveralWrites(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
	var writes []types.TransactWriteItem
	for i := range 100 {
		writes = append(writes, types.TransactWriteItem{Put: &types.Put{TableName: ptr(mainTable), Item: keyed("a", fmt.Sprintf("%02d", i))}})
	}
	for range 2 { // the second one changes nothing
		if _, err := f.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: writes}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{mainTable: {
		{PutRequest: &types.PutRequest{Item: keyed("a", "99")}},
		{DeleteRequest: &types.DeleteRequest{Key: keyed("a", "00")}},
	}}}); err != nil {
		t.Fatal(err)
	}
	records := f.records()
	if len(records) != 101 || records[100].EventName != streamtypes.OperationTypeRemove {
		t.Fatalf("%d records, want 101, a REMOVE the last", len(records))
	}
	ids, last := map[string]bool{}, ""
	shape := regexp.MustCompile(`^[0-9a-f]{32}$`)
	for i, again := range f.records() {
		r := records[i]
		if *again.EventID != *r.EventID || *again.Dynamodb.SequenceNumber != *r.Dynamodb.SequenceNumber {
			t.Errorf("record %d is another when it is read again", i)
		}
		if ids[*r.EventID] || !shape.MatchString(*r.EventID) {
			t.Errorf("record %d has the id %s", i, *r.EventID)
		}
		ids[*r.EventID] = true
		if n := *r.Dynamodb.SequenceNumber; n <= last || len(n) != 21 {
			t.Errorf("record %d has the number %s after %s", i, n, last)
		}
		last = *r.Dynamodb.SequenceNumber
		if i < 100 {
			mustEqual(t, "key", keyed("a", fmt.Sprintf("%02d", i)), plain(r.Dynamodb.Keys))
		}
	}
}

func TestShardIterators(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
	for i := range 5 {
		f.put(keyed("a", strconv.Itoa(i)))
		f.pass(time.Second)
	}
	shard := f.shardOfA()
	var numbers []string
	for _, r := range f.records() {
		numbers = append(numbers, *r.Dynamodb.SequenceNumber)
	}
	newest := f.from(shard, latest)
	f.put(keyed("a", "5"))
	start := time.Unix(0, f.now.Load()).Add(-5 * time.Second)
	numbered := func(n string) func(*dynamodbstreams.GetShardIteratorInput) {
		return func(in *dynamodbstreams.GetShardIteratorInput) { in.SequenceNumber = &n }
	}
	timed := func(at time.Time) func(*dynamodbstreams.GetShardIteratorInput) {
		return func(in *dynamodbstreams.GetShardIteratorInput) { in.Timestamp = &at }
	}
	for name, tt := range map[string]struct {
		from   streamtypes.ShardIteratorType
		change func(*dynamodbstreams.GetShardIteratorInput)
		first  int // index among the six; 6: none
	}{
		"trim horizon":    {trimHorizon, nil, 0},
		"latest":          {latest, nil, 6},
		"at the first":    {atSequence, numbered(numbers[0]), 0},
		"at the third":    {atSequence, numbered(numbers[2]), 2},
		"after the third": {afterNumber, numbered(numbers[2]), 3},
		"at 1":            {atSequence, numbered("000000000000000000001"), 0},
		"far away":        {atSequence, numbered("000000000000099999999"), 6},
		"long number":     {afterNumber, numbered(strings.Repeat("0", 19) + numbers[4]), 5},
		"at a time":       {atTimestamp, timed(start.Add(2 * time.Second)), 2},
		"after a time":    {atTimestamp, timed(start.Add(2001 * time.Millisecond)), 3},
		"long ago":        {atTimestamp, timed(start.Add(-48 * time.Hour)), 0},
		"now":             {atTimestamp, timed(start.Add(5 * time.Second)), 5},
	} {
		it, err := f.iterator(shard, tt.from, tt.change)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		records, next := f.read(it, 1000)
		if len(records) != 6-tt.first || next == nil {
			t.Errorf("%s: %d records, next %v; want %d", name, len(records), next, 6-tt.first)
		}
		for i, r := range records {
			mustEqual(t, name, keyed("a", strconv.Itoa(tt.first+i)), plain(r.Dynamodb.Keys))
		}
	}
	if records, _ := f.read(newest, 1000); len(records) != 1 {
		t.Errorf("the latest iterator gives %d of the records written since", len(records))
	}
	it := f.from(shard, trimHorizon)
	for i := range 6 {
		var page []streamtypes.Record
		if page, it = f.read(it, 1); len(page) != 1 {
			t.Fatalf("page %d has %d records", i, len(page))
		}
		mustEqual(t, "page", keyed("a", strconv.Itoa(i)), plain(page[0].Dynamodb.Keys))
	}
}

func TestStreamRequestsRefused(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
	f.put(keyed("a", "b"))
	ctx, shard := t.Context(), f.shardOfA()
	const invalid, notFound = "ValidationException", "ResourceNotFoundException"
	iterator := func(from streamtypes.ShardIteratorType, change func(*dynamodbstreams.GetShardIteratorInput)) error {
		_, err := f.iterator(shard, from, change)
		return err
	}
	numbered := func(from streamtypes.ShardIteratorType, n string) error {
		return iterator(from, func(in *dynamodbstreams.GetShardIteratorInput) { in.SequenceNumber = &n })
	}
	records := func(in *dynamodbstreams.GetRecordsInput) error {
		_, err := f.db.GetRecords(ctx, in)
		return err
	}
	describe := func(change func(*dynamodbstreams.DescribeStreamInput)) error {
		in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.arn}
		change(in)
		_, err := f.db.DescribeStream(ctx, in)
		return err
	}
	list := func(in *dynamodbstreams.ListStreamsInput) error {
		_, err := f.db.ListStreams(ctx, in)
		return err
	}
	it := f.from(shard, trimHorizon)
	for name, tt := range map[string]struct {
		err  error
		code string
	}{
		"iterator: nothing":     {func() error { _, err := f.db.GetShardIterator(ctx, nil); return err }(), invalid},
		"iterator: no shard":    {iterator(latest, func(in *dynamodbstreams.GetShardIteratorInput) { in.ShardId = nil }), invalid},
		"iterator: shard":       {iterator(latest, func(in *dynamodbstreams.GetShardIteratorInput) { in.ShardId = ptr("none") }), notFound},
		"iterator: stream":      {iterator(latest, func(in *dynamodbstreams.GetShardIteratorInput) { in.StreamArn = ptr(f.arn + "1") }), notFound},
		"iterator: no type":     {iterator("", nil), invalid},
		"iterator: type":        {iterator("NEWEST", nil), invalid},
		"iterator: no number":   {iterator(atSequence, nil), invalid},
		"iterator: a number":    {numbered(latest, "000000000000000000001"), invalid},
		"iterator: no time":     {iterator(atTimestamp, nil), invalid},
		"iterator: a time":      {iterator(latest, func(in *dynamodbstreams.GetShardIteratorInput) { in.Timestamp = ptr(time.Unix(0, 0)) }), invalid},
		"iterator: future":      {iterator(atTimestamp, func(in *dynamodbstreams.GetShardIteratorInput) { in.Timestamp = ptr(time.Unix(0, f.now.Load()+1)) }), invalid},
		"iterator: short":       {numbered(atSequence, "1"), invalid},
		"iterator: long":        {numbered(atSequence, strings.Repeat("0", 40)+"1"), invalid},
		"iterator: letters":     {numbered(atSequence, strings.Repeat("a", 21)), invalid},
		"iterator: sign":        {numbered(atSequence, "-00000000000000000001"), invalid},
		"iterator: zero":        {numbered(atSequence, strings.Repeat("0", 21)), invalid},
		"iterator: too high":    {numbered(atSequence, strings.Repeat("9", 21)), invalid},
		"records: nothing":      {records(nil), invalid},
		"records: garbage":      {records(&dynamodbstreams.GetRecordsInput{ShardIterator: ptr("garbage")}), invalid},
		"records: cut":          {records(&dynamodbstreams.GetRecordsInput{ShardIterator: ptr((*it)[:len(*it)-1])}), invalid},
		"records: no limit":     {records(&dynamodbstreams.GetRecordsInput{ShardIterator: it, Limit: ptr(int32(0))}), invalid},
		"records: limit":        {records(&dynamodbstreams.GetRecordsInput{ShardIterator: it, Limit: ptr(int32(1001))}), "LimitExceededException"},
		"describe: nothing":     {func() error { _, err := f.db.DescribeStream(ctx, nil); return err }(), invalid},
		"describe: stream":      {describe(func(in *dynamodbstreams.DescribeStreamInput) { in.StreamArn = ptr("none") }), notFound},
		"describe: no limit":    {describe(func(in *dynamodbstreams.DescribeStreamInput) { in.Limit = ptr(int32(0)) }), invalid},
		"describe: limit":       {describe(func(in *dynamodbstreams.DescribeStreamInput) { in.Limit = ptr(int32(101)) }), invalid},
		"describe: short start": {describe(func(in *dynamodbstreams.DescribeStreamInput) { in.ExclusiveStartShardId = ptr("short") }), invalid},
		"describe: long start":  {describe(func(in *dynamodbstreams.DescribeStreamInput) { in.ExclusiveStartShardId = ptr(strings.Repeat("x", 66)) }), invalid},
		"describe: filter": {describe(func(in *dynamodbstreams.DescribeStreamInput) {
			in.ShardFilter = &streamtypes.ShardFilter{Type: "PARENTS", ShardId: &shard}
		}), invalid},
		"describe: filter for none": {describe(func(in *dynamodbstreams.DescribeStreamInput) {
			in.ShardFilter = &streamtypes.ShardFilter{Type: streamtypes.ShardFilterTypeChildShards}
		}), invalid},
		"list: no limit": {list(&dynamodbstreams.ListStreamsInput{Limit: ptr(int32(0))}), invalid},
		"list: limit":    {list(&dynamodbstreams.ListStreamsInput{Limit: ptr(int32(101))}), invalid},
		"list: table":    {list(&dynamodbstreams.ListStreamsInput{TableName: ptr("a b")}), invalid},
	} {
		wantCode(t, name, tt.err, tt.code)
	}
	f.pass(15*time.Minute + time.Millisecond)
	wantCode(t, "an old iterator", records(&dynamodbstreams.GetRecordsInput{ShardIterator: it}), "ExpiredIteratorException")
	number := *f.records()[0].Dynamodb.SequenceNumber
	f.pass(24*time.Hour - 15*time.Minute - 2*time.Millisecond)
	it = f.from(shard, trimHorizon)
	f.pass(time.Millisecond)
	wantCode(t, "an iterator before what is gone", records(&dynamodbstreams.GetRecordsInput{ShardIterator: it}), "TrimmedDataAccessException")
	wantCode(t, "at what is gone", numbered(atSequence, number), "TrimmedDataAccessException")
	if err := numbered(afterNumber, number); err != nil {
		t.Errorf("after what is gone, before what is to come: %v", err)
	}
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"iterator": iterator(latest, nil), "records": records(&dynamodbstreams.GetRecordsInput{ShardIterator: it}),
		"describe": describe(func(*dynamodbstreams.DescribeStreamInput) {}), "list": list(nil),
	} {
		if !errors.Is(err, dynamolite.ErrClosed) {
			t.Errorf("%s of a closed database: %v", name, err)
		}
	}
}

// Shards are described in pages, and children replace them after four hours.
func TestDescribeStream(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeOldImage)
	d := f.describe()
	if d.StreamStatus != streamtypes.StreamStatusEnabled || d.StreamViewType != streamtypes.StreamViewTypeOldImage || *d.TableName != mainTable ||
		*d.StreamArn != f.arn || *d.StreamLabel != "2026-02-03T04:05:06.789" || !strings.HasSuffix(f.arn, mainTable+"/stream/"+*d.StreamLabel) ||
		d.CreationRequestDateTime.UnixNano() != f.now.Load() || d.LastEvaluatedShardId != nil {
		t.Errorf("described as %+v", d)
	}
	if k := d.KeySchema; len(k) != 2 || *k[0].AttributeName != "pk" || k[0].KeyType != streamtypes.KeyTypeHash || *k[1].AttributeName != "sk" || k[1].KeyType != streamtypes.KeyTypeRange {
		t.Errorf("keys %+v", k)
	}
	if len(d.Shards) != 4 {
		t.Fatalf("%d shards", len(d.Shards))
	}
	f.put(keyed("a", "1"))
	parent, last := f.shardOfA(), *f.records()[0].Dynamodb.SequenceNumber
	f.pass(4 * time.Hour)
	f.put(keyed("a", "2"))
	all := f.describe().Shards
	if len(all) != 8 {
		t.Fatalf("%d shards after four hours", len(all))
	}
	for i, sh := range all {
		r := sh.SequenceNumberRange
		switch {
		case i < 4 && (sh.ParentShardId != nil || *r.StartingSequenceNumber != "000000000000000000001" || aws.ToString(r.EndingSequenceNumber) != last),
			i >= 4 && (*sh.ParentShardId != *all[i-4].ShardId || *r.StartingSequenceNumber <= last || r.EndingSequenceNumber != nil):
			t.Errorf("shard %d: parent %v, from %s to %s", i, aws.ToString(sh.ParentShardId), *r.StartingSequenceNumber, aws.ToString(r.EndingSequenceNumber))
		}
	}
	if page, next := f.read(f.from(parent, trimHorizon), 1000); len(page) != 1 || next != nil {
		t.Errorf("the parent has %d records and goes on %v", len(page), next)
	}
	wantCode(t, "beyond the parent's end", func() error {
		_, err := f.iterator(parent, atSequence, func(in *dynamodbstreams.GetShardIteratorInput) { in.SequenceNumber = ptr("000000000000999999999") })
		return err
	}(), "ValidationException")

	var paged []string
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.arn, Limit: ptr(int32(3))}
	for range 3 {
		out, err := f.db.DescribeStream(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, sh := range out.StreamDescription.Shards {
			paged = append(paged, *sh.ShardId)
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
	if len(paged) != 8 || !slices.IsSorted(paged) || in.ExclusiveStartShardId != nil {
		t.Errorf("in pages: %q", paged)
	}
	out, err := f.db.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{
		StreamArn: &f.arn, ShardFilter: &streamtypes.ShardFilter{Type: streamtypes.ShardFilterTypeChildShards, ShardId: &parent},
	})
	if err != nil || len(out.StreamDescription.Shards) != 1 || *out.StreamDescription.Shards[0].ParentShardId != parent {
		t.Errorf("the children of %s: %+v, %v", parent, out, err)
	}
	if child := f.shardOfA(); child != parent {
		t.Errorf("the first record is now in %s", child)
	}
	if page, next := f.read(f.from(*out.StreamDescription.Shards[0].ShardId, trimHorizon), 1000); len(page) != 1 || next == nil {
		t.Errorf("the child has %d records and goes on %v", len(page), next)
	}
}

// A stream ends with its table or when it is disabled. It is readable and listed for one more
// day. A new stream has a new ARN, even within the same millisecond.
func TestListStreams(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
	f.put(keyed("a", "b"))
	list := func(in dynamodbstreams.ListStreamsInput) (arns []string) {
		for range 10 {
			out, err := f.db.ListStreams(t.Context(), &in)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range out.Streams {
				arns = append(arns, *s.StreamArn)
				if !strings.HasSuffix(*s.StreamArn, ":table/"+*s.TableName+"/stream/"+*s.StreamLabel) {
					t.Errorf("listed as %s, %s, %s", *s.StreamArn, *s.TableName, *s.StreamLabel)
				}
			}
			if in.ExclusiveStartStreamArn = out.LastEvaluatedStreamArn; in.ExclusiveStartStreamArn == nil {
				return arns
			}
		}
		t.Fatalf("the list does not end: %q", arns)
		return nil
	}
	first := f.arn
	if _, err := f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr(mainTable)}); err != nil {
		t.Fatal(err)
	}
	second, other := f.create(mainTable, types.StreamViewTypeNewImage), f.create("zebra", types.StreamViewTypeNewImage)
	if first == second {
		t.Fatalf("two streams have the ARN %s", first)
	}
	want := []string{other, second, first} // for one table, the newest first
	for name, in := range map[string]dynamodbstreams.ListStreamsInput{"all": {}, "in pages": {Limit: ptr(int32(1))}} {
		if got := list(in); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := list(dynamodbstreams.ListStreamsInput{TableName: ptr(mainTable), Limit: ptr(int32(1))}); !slices.Equal(got, want[1:]) {
		t.Errorf("of the main table: %q, want %q", got, want[1:])
	}
	if got := list(dynamodbstreams.ListStreamsInput{TableName: ptr("none")}); got != nil {
		t.Errorf("of no table: %q", got)
	}
	f.pass(24*time.Hour - time.Millisecond)
	if d := f.describe(); d.StreamStatus != streamtypes.StreamStatusDisabled || d.Shards[0].SequenceNumberRange.EndingSequenceNumber == nil {
		t.Errorf("of the deleted table: %+v", d)
	}
	if records := f.records(); len(records) != 1 {
		t.Errorf("%d records of the deleted table", len(records))
	}
	f.pass(time.Millisecond)
	_, err := f.db.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &first})
	wantCode(t, "a stream that is gone", err, "ResourceNotFoundException")
	if got := list(dynamodbstreams.ListStreamsInput{}); !slices.Equal(got, want[:2]) {
		t.Errorf("a day later: %q, want %q", got, want[:2])
	}
}

func TestStreamSpecifications(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeKeysOnly)
	for name, tt := range map[string]struct {
		spec    types.StreamSpecification
		mention string // "" if the request is valid
	}{
		"disabled":           {types.StreamSpecification{StreamEnabled: ptr(false)}, ""},
		"neither":            {types.StreamSpecification{}, "StreamEnabled"},
		"no view":            {types.StreamSpecification{StreamEnabled: ptr(true)}, "StreamViewType"},
		"view":               {types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: "BOTH"}, "streamViewType"},
		"disabled with view": {types.StreamSpecification{StreamEnabled: ptr(false), StreamViewType: types.StreamViewTypeKeysOnly}, "StreamViewType"},
	} {
		in := otherInput()
		in.TableName, in.StreamSpecification = ptr(strings.ReplaceAll(name, " ", "-")), &tt.spec
		out, err := f.db.CreateTable(t.Context(), in)
		if tt.mention != "" {
			wantInvalid(t, err, tt.mention)
			continue
		}
		if err != nil || out.TableDescription.LatestStreamArn != nil {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}

// Sixteen writers write, some of them in transactions. The records of each key are in the order
// of its writes. Each image follows the one before it, and the last image is the item.
func TestStreamOrder(t *testing.T) {
	t.Parallel()
	f := newStreamFixture(t, types.StreamViewTypeNewAndOldImages)
	const writers, each, keys = 16, 100, 5
	key := func(i int) attrs { return keyed(fmt.Sprint("key-", i%keys), "s") }
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				var err error
				if n%3 == 0 {
					_, err = f.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{add(key(w)), add(key(w + 1))}})
				} else {
					_, err = f.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
						TableName: ptr(mainTable), Key: key(w), UpdateExpression: ptr("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
					})
				}
				_, canceled := errors.AsType[*types.TransactionCanceledException](err)
				_, conflict := errors.AsType[*types.TransactionConflictException](err)
				if err != nil && !canceled && !conflict {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	last := map[string]attrs{}
	numbers := map[string]bool{}
	for _, r := range f.records() {
		pk := partition(r)
		if d := diff(last[pk], plain(r.Dynamodb.OldImage)); d != "" {
			t.Fatalf("%s: the old image is not the new image before it (-new +old):\n%s", pk, d)
		}
		last[pk] = plain(r.Dynamodb.NewImage)
		if n := *r.Dynamodb.SequenceNumber; numbers[n] {
			t.Errorf("two records have the number %s", n)
		} else {
			numbers[n] = true
		}
	}
	for i := range keys {
		mustEqual(t, "the item and its last record", f.get(key(i)), last[fmt.Sprint("key-", i)])
	}
}

// add returns a part of a transaction that adds to a counter.
func add(key attrs) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: ptr(mainTable), Key: key, UpdateExpression: ptr("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
	}}
}

func BenchmarkGetRecords(b *testing.B) {
	f := newStreamFixture(b, types.StreamViewTypeNewAndOldImages)
	for i := range 100 {
		f.put(with(keyed("a", "b"), attrs{"n": num(strconv.Itoa(i)), "x": str("some text"), "y": num("12"), "z": num("13"), "t": str("more")}))
	}
	it := f.from(f.shardOfA(), trimHorizon)
	b.ReportAllocs()
	for b.Loop() {
		if records, _ := f.read(it, 1000); len(records) != 100 {
			b.Fatal(len(records))
		}
	}
}
