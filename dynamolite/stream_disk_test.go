package dynamolite_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// After a restart, streams are as they were before, to the last member of a record, whether the
// log or a checkpoint is read. This holds for streams of every view, of a deleted table and with
// shards that were replaced. A reader continues with its iterator.
func TestStreamsOnDisk(t *testing.T) {
	t.Parallel()
	for name, checkpointAt := range map[string]int{"log": -1, "checkpoint": 3, "checkpoint, then log": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newStreamFixture(t, types.StreamViewTypeNewAndOldImages)
			dir := t.TempDir()
			f.open(dir)
			tables := map[string]types.StreamViewType{
				"keys": types.StreamViewTypeKeysOnly, "old": types.StreamViewTypeOldImage,
				"new": types.StreamViewTypeNewImage, "dropped": types.StreamViewTypeNewAndOldImages,
			}
			for table, view := range tables {
				f.create(table, view)
			}
			for round := range 4 {
				for table := range tables {
					f.write(table, round)
				}
				f.pass(time.Hour)
				switch round {
				case 2:
					if _, err := f.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: ptr("dropped")}); err != nil {
						t.Fatal(err)
					}
					delete(tables, "dropped")
				case 1:
					f.write("dropped", 9)
				}
				if round == checkpointAt {
					if err := f.db.Checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := f.everything()
			it := f.from(*f.describe().Shards[0].ShardId, trimHorizon)
			closeDB(t, f.db)
			f.open(dir)
			defer func() { closeDB(t, f.db) }()
			if after := f.everything(); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			if len(before) < 4*8+40 {
				t.Errorf("only %d shards and records are compared", len(before))
			}
			f.read(it, 1000)
		})
	}
}

// write makes five records of four items, one of them large.
func (f *streamFixture) write(table string, round int) {
	f.t.Helper()
	for i := range 2 {
		item := with(keyed(fmt.Sprint("key-", i), "s"), attrs{"round": num(strconv.Itoa(round)), "b": bin("\x00")})
		if _, err := f.db.PutItem(f.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			f.t.Fatal(err)
		}
	}
	large := with(keyed("key-0", "large"), attrs{"round": num(strconv.Itoa(round)), "x": blob(300 << 10)})
	if _, err := f.db.PutItem(f.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: large}); err != nil {
		f.t.Fatal(err)
	}
	key := keyed("transient", strconv.Itoa(round))
	if _, err := f.db.PutItem(f.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: key}); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.db.DeleteItem(f.t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key}); err != nil {
		f.t.Fatal(err)
	}
}

// everything returns all shards and records of all streams, as text. It leaves the last stream in
// f.arn.
func (f *streamFixture) everything() (all []string) {
	f.t.Helper()
	list, err := f.db.ListStreams(f.t.Context(), &dynamodbstreams.ListStreamsInput{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range list.Streams {
		f.arn = *s.StreamArn
		d := f.describe()
		all = append(all, fmt.Sprint(f.arn, d.StreamStatus, d.StreamViewType, d.CreationRequestDateTime.UnixMilli(), len(d.KeySchema)))
		for _, sh := range d.Shards {
			r := sh.SequenceNumberRange
			page, _ := f.read(f.from(*sh.ShardId, trimHorizon), 1000) // the sizes of the records can end the page too
			all = append(all, fmt.Sprint(len(page), *sh.ShardId, aws.ToString(sh.ParentShardId), *r.StartingSequenceNumber, aws.ToString(r.EndingSequenceNumber)))
		}
		for _, r := range f.records() {
			c := r.Dynamodb
			all = append(all, fmt.Sprint(*r.EventID, r.EventName, *c.SequenceNumber, *c.SizeBytes, c.ApproximateCreationDateTime.Unix(),
				text(c.Keys), text(c.OldImage), text(c.NewImage)))
		}
	}
	return all
}
