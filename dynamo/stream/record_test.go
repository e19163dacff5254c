package stream_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// newStreamed returns an engine with a table that has a stream, on the clock of the
// bubble.
func newStreamed(t *testing.T) *dynamolite.DB {
	t.Helper()
	return fixture.NewTableOf(t, dynamo.TableOptions{Name: table, Stream: true})
}

// records returns all records of the stream.
func records(t *testing.T, api dynamo.API, streams stream.API) (all []streamtypes.Record) {
	t.Helper()
	d, err := api.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	arn := d.Table.LatestStreamArn
	s, err := streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	for _, sh := range s.StreamDescription.Shards {
		it, err := streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: sh.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon})
		if err != nil {
			t.Fatal(err)
		}
		page, err := streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Records...)
	}
	return all
}

func TestRecordsOfABucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newStreamed(t)
		s := fixture.OpenStore(t, db)
		_, ns := s.Namespace()
		began := time.Now()
		fixture.PutBucket(t, s, db, "user", "openai/gpt-4", 1, 2)
		b := store.Bucket{Entity: "user", Resource: "openai/gpt-4", Shard: 1}
		key := schema.BucketKey(ns, b)
		first, err := schema.DecodeBucket(fixture.Get(t, db, key))
		if err != nil {
			t.Fatal(err)
		}
		changed := fixture.Get(t, db, key)
		changed[schema.Disabled], changed[schema.Cascade], changed[schema.ParentID] = schema.Bool(true), schema.Bool(true), schema.S("org")
		fixture.Put(t, db, changed)
		if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key.Item()}); err != nil {
			t.Fatal(err)
		}
		second := *first
		second.Disabled, second.Cascade, second.Parent = true, true, "org"
		var got []stream.Record
		for _, r := range stream.Decode(records(t, db, db)) {
			if r.IsOfInterest() {
				got = append(got, r)
			}
		}
		if len(got) != 3 {
			t.Fatalf("%d records, want 3", len(got))
		}
		images := [...][2]*store.Image{{nil, first}, {first, &second}, {&second, nil}}
		for i, r := range got {
			want := stream.Record{
				ID: r.ID, Sequence: r.Sequence, At: began.Truncate(time.Second), Key: key.String(), Namespace: ns,
				Old: images[i][0], New: images[i][1],
			}
			r.At = r.At.Local()
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("record %d (-want +got):\n%s", i, diff)
			}
			if r.ID == "" || i > 0 && stream.CompareSequences(got[i-1].Sequence, r.Sequence) >= 0 {
				t.Errorf("record %d has the ID %q and the sequence number %s", i, r.ID, r.Sequence)
			}
		}
	})
}

// A deletion shows all hours of an item: those in its text, the closed one, and the open one
// up to the end. So a last page is exact, whatever else the stream has lost.
func TestADeletionShowsAllHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newStreamed(t)
		s := fixture.OpenStore(t, db)
		_, ns := s.Namespace()
		name := aws.String(table)
		for i, last := range []struct {
			text, want string
			err        bool
		}{
			{"", "", false}, // an item without a diary
			{"[,rpm]jz28:1=;", "[,rpm]jz28:1=;2=;3,4;", false},
			{"[,rpm]jz28:1=;#", "", true},
		} {
			fixture.PutBucket(t, s, db, "user", "gpt-4", i, 8)
			key := schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: "gpt-4", Shard: i})
			it := fixture.Get(t, db, key)
			if i > 0 {
				const hour = 19*36*36*36 + 35*36*36 + 2*36 + 8
				it[schema.DiaryText], it[schema.ClosedHour], it[schema.OpenHour] = schema.S(last.text), schema.N(hour+1), schema.N(hour+2)
				it[schema.GainedAttr("")], it[schema.GainedAttr("rpm")] = schema.N(2), schema.N(2000)
				it[schema.Acquires], it[schema.OpenedAttr("")] = schema.N(6), schema.N(3)
				it[schema.LimitAttr("rpm", schema.FieldConsumed)], it[schema.OpenedAttr("rpm")] = schema.N(7000), schema.N(3000)
			}
			fixture.Put(t, db, it)
			if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: name, Key: key.Item()}); err != nil {
				t.Fatal(err)
			}
			all := stream.Decode(records(t, db, db))
			got := all[slices.IndexFunc(all, func(r stream.Record) bool {
				return r.Key == key.String() && (r.Err != nil || r.Old != nil && r.New == nil)
			})]
			if got.Hours != last.want || (got.Err != nil) != last.err {
				t.Errorf("shard %d: hours %q, %v; want %q", i, got.Hours, got.Err, last.want)
			}
			for _, r := range all {
				if r.New != nil && r.Hours != "" {
					t.Errorf("a write shows the hours %q", r.Hours)
				}
			}
		}
	})
}

// An expired audit event is delivered. An event that a client deletes is not.
func TestRecordsOfExpiredItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newStreamed(t)
		event := func(sk string) schema.Item {
			it := schema.Key{PK: "ns/AUDIT#user", SK: sk}.Item()
			it["details"] = &types.AttributeValueMemberM{Value: schema.Item{
				"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{schema.Bool(true), schema.N(1), &types.AttributeValueMemberNULL{Value: true}}},
				"set":  schema.Set("a", "b"), "ns": &types.AttributeValueMemberNS{Value: []string{"1"}},
				"b": &types.AttributeValueMemberB{Value: []byte{1}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{2}}},
			}}
			it[schema.TTL] = schema.N(time.Now().Add(time.Hour).Unix())
			return it
		}
		expiring, deleted := event("#AUDIT#1"), event("#AUDIT#2")
		fixture.Put(t, db, expiring)
		fixture.Put(t, db, deleted)
		if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: schema.KeyOf(deleted).Item()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		fixture.Get(t, db, schema.KeyOf(expiring)) // the sweep takes place
		var got []stream.Record
		for _, r := range stream.Decode(records(t, db, db)) {
			if r.IsOfInterest() {
				got = append(got, r)
			}
		}
		if len(got) != 1 || !got[0].ByTTL {
			t.Fatalf("records %+v", got)
		}
		if diff := cmp.Diff(expiring, got[0].Item, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	key := map[string]streamtypes.AttributeValue{
		"PK": &streamtypes.AttributeValueMemberS{Value: "ns/BUCKET#user#gpt-4#0"}, "SK": &streamtypes.AttributeValueMemberS{Value: "#STATE"},
	}
	bad := map[string]streamtypes.AttributeValue{"PK": key["PK"], "SK": key["SK"], "rf": &streamtypes.AttributeValueMemberS{Value: "now"}}
	for _, c := range []struct {
		name   string
		record streamtypes.Record
		want   string
	}{
		{"nothing", streamtypes.Record{}, "says nothing"},
		{"keys only", streamtypes.Record{EventName: streamtypes.OperationTypeModify, Dynamodb: &streamtypes.StreamRecord{Keys: key}}, "NEW_AND_OLD_IMAGES"},
		{"a removal without its image", streamtypes.Record{EventName: streamtypes.OperationTypeRemove, Dynamodb: &streamtypes.StreamRecord{Keys: key}}, "NEW_AND_OLD_IMAGES"},
		{"a bad number", streamtypes.Record{EventName: streamtypes.OperationTypeInsert, Dynamodb: &streamtypes.StreamRecord{Keys: key, NewImage: bad}}, "INSERT of ns/BUCKET#user#gpt-4#0 #STATE"},
	} {
		got := stream.Decode([]streamtypes.Record{c.record})[0]
		if got.Err == nil || !strings.Contains(got.Err.Error(), c.want) || got.New != nil || !got.IsOfInterest() {
			t.Errorf("%s: %+v, want an error with %q", c.name, got, c.want)
		}
	}
}

func TestSequencesAreNumbers(t *testing.T) {
	t.Parallel()
	rising := []string{"0", "7", "000000000000000000009", "10", "400000000000000000000", "49590338271490256608559692538361571095921575989136588898"}
	for i, a := range rising {
		for k, b := range rising {
			got := stream.CompareSequences(a, b)
			if i < k && got >= 0 || i > k && got <= 0 || i == k && got != 0 {
				t.Errorf("%q and %q compare as %d", a, b, got)
			}
		}
	}
	if stream.CompareSequences("007", "7") != 0 {
		t.Error("zeros in front count")
	}
}

func TestOpenID(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, id := s.Namespace()
	o := dynamo.Options{API: f, Table: table, Now: now}
	same, err := dynamo.OpenID(t.Context(), o, id)
	if err != nil {
		t.Fatal(err)
	}
	if name, got := same.Namespace(); name != dynamo.DefaultNamespace || got != id {
		t.Errorf("opened %s, %s", name, got)
	}
	_, err = dynamo.OpenID(t.Context(), o, "nobody")
	fixture.WantErr(t, err, store.ErrNotFound)
	namespaces, err := admin.NewNamespaces(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), dynamo.DefaultNamespace); err != nil {
		t.Fatal(err)
	}
	_, err = dynamo.OpenID(t.Context(), o, id)
	fixture.WantErr(t, err, store.ErrNotFound)
	if _, err := namespaces.Register(t.Context(), dynamo.DefaultNamespace); err != nil {
		t.Fatal(err)
	}
	_, err = dynamo.OpenID(t.Context(), o, id) // the name now belongs to another namespace
	fixture.WantErr(t, err, store.ErrNotFound)
}

func TestATableWithAStream(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t) // without a stream
	err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: table, Stream: true, Now: now})
	fixture.WantErr(t, err, store.ErrExists)
	if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: "streamed", Stream: true, Now: now}); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []bool{true, false} { // an existing table is accepted either way
		if err := dynamo.CreateTable(t.Context(), db, dynamo.TableOptions{Name: "streamed", Stream: stream, Now: now}); err != nil {
			t.Error(err)
		}
	}
}
