package dynamolite_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// epoch is an instant as an item has it, so many seconds away.
func epoch(at time.Time, seconds int64) types.AttributeValue {
	return num(strconv.FormatInt(at.Unix()+seconds, 10))
}

func lifetime(attribute string, enabled bool) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{
		TableName:               ptr(mainTable),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &enabled},
	}
}

// expiryOf is the attribute by which items expire, or "".
func expiryOf(tb testing.TB, db *dynamolite.DB) string {
	tb.Helper()
	out, err := db.DescribeTimeToLive(tb.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: ptr(mainTable)})
	if err != nil {
		tb.Fatal(err)
	}
	d := out.TimeToLiveDescription
	if enabled := d.TimeToLiveStatus == types.TimeToLiveStatusEnabled; enabled != (d.AttributeName != nil) {
		tb.Errorf("the time to live is %s with the attribute %v", d.TimeToLiveStatus, d.AttributeName)
	}
	if d.AttributeName == nil {
		return ""
	}
	return *d.AttributeName
}

// Which values of the attribute mean that an item has expired.
func TestExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	oldest := now.AddDate(-5, 0, 0)
	f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }}))
	defer f.db.Close()
	if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", true)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		item    attrs
		expired bool
	}{
		{"none", nil, false},
		{"a second ago", attrs{"e": num(seconds(now.Add(-time.Second)))}, true},
		{"now", attrs{"e": num(seconds(now))}, false},
		{"within the second before", attrs{"e": num(seconds(now.Add(-time.Second)) + ".999")}, true},
		{"within this second", attrs{"e": num(seconds(now) + ".0000001")}, false},
		{"later", attrs{"e": num(seconds(now.Add(time.Hour)))}, false},
		{"in milliseconds", attrs{"e": num(strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10))}, false},
		{"five years ago", attrs{"e": num(seconds(oldest))}, true},
		{"longer ago", attrs{"e": num(seconds(oldest.Add(-time.Second)))}, false},
		{"zero", attrs{"e": num("0")}, false},
		{"negative", attrs{"e": num("-" + seconds(now.Add(-time.Second)))}, false},
		{"huge", attrs{"e": num("9.9e125")}, false},
		{"tiny", attrs{"e": num("1e-130")}, false},
		{"with an exponent", attrs{"e": num("17000000e2")}, true},
		{"text", attrs{"e": str(seconds(now.Add(-time.Second)))}, false},
		{"set", attrs{"e": &types.AttributeValueMemberNS{Value: []string{seconds(now.Add(-time.Second))}}}, false},
		{"nested", attrs{"m": doc(attrs{"e": num(seconds(now.Add(-time.Second)))})}, false},
		{"other attribute", attrs{"ee": num(seconds(now.Add(-time.Second)))}, false},
	} {
		f.put(with(keyed("a", tt.name), tt.item))
		if err := f.db.Sweep(); err != nil {
			t.Fatal(err)
		}
		if gone := f.get(keyed("a", tt.name)) == nil; gone != tt.expired {
			t.Errorf("%s: gone %t, want %t", tt.name, gone, tt.expired)
		}
	}
}

// The sweep comes round by itself. It leaves index entries as a delete does, tells the stream that nobody
// asked for it, and costs nothing.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64 // how often the database looked at the clock
		f := fixtureIn(t, dynamolite.New(dynamolite.Options{SweepInterval: time.Hour, Now: func() time.Time {
			asked.Add(1)
			return time.Now()
		}}))
		stream := changing(func(in *dynamodb.UpdateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: ptr(true), StreamViewType: types.StreamViewTypeOldImage}
		})
		if _, err := f.db.UpdateTable(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		item := with(keyed("a", "1"), attrs{"e": epoch(time.Now(), 90*60), "fpk": str("f"), "fsk": num("1"), "kpk": str("k")})
		f.put(item, with(keyed("a", "2"), attrs{"e": epoch(time.Now(), 24*60*60)}))
		for range 2 { // only the first time a sweep begins
			if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", true)); err != nil {
				t.Fatal(err)
			}
			if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", false)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", true)); err != nil {
			t.Fatal(err)
		}
		before := f.db.Ledger()
		time.Sleep(100 * time.Minute)
		synctest.Wait()
		if f.get(keyed("a", "1")) == nil || len(f.entries(fullIndex, "fpk", "f")) != 1 {
			t.Error("an expired item is gone before the sweep")
		}
		time.Sleep(21 * time.Minute)
		synctest.Wait()
		if f.get(keyed("a", "1")) != nil || f.get(keyed("a", "2")) == nil {
			t.Errorf("after the sweep the table has %v and %v", f.get(keyed("a", "1")), f.get(keyed("a", "2")))
		}
		if n := len(f.entries(fullIndex, "fpk", "f")) + len(f.entries(keysOnly, "kpk", "k")); n != 0 {
			t.Errorf("the indexes still have %d entries of the swept item", n)
		}
		if got := f.db.Ledger().Since(before).Total(); got.WriteUnits != 0 {
			t.Errorf("the sweep was billed %v", got)
		}
		var removed []streamtypes.Record
		for _, r := range f.streamRecords() {
			if r.EventName == streamtypes.OperationTypeRemove {
				removed = append(removed, r)
			}
		}
		if len(removed) != 1 || removed[0].UserIdentity == nil || *removed[0].UserIdentity.PrincipalId != "dynamodb.amazonaws.com" || *removed[0].UserIdentity.Type != "Service" {
			t.Errorf("the stream tells of %v", removed)
		}
		asked.Store(0)
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if n := asked.Load(); n != 5 {
			t.Errorf("there were %d sweeps in 5 hours", n)
		}
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// streamRecords is all that the stream of the main table has.
func (f *fixture) streamRecords() (all []streamtypes.Record) {
	f.t.Helper()
	ctx := f.t.Context()
	arn := describeMain(f.t, f.db).LatestStreamArn
	d, err := f.db.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range d.StreamDescription.Shards {
		it, err := f.db.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
			StreamArn: arn, ShardId: s.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			f.t.Fatal(err)
		}
		out, err := f.db.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, out.Records...)
	}
	return all
}

// Between finding an expired item and deleting it anything may happen to it.
func TestSweepLeavesWhatChanged(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	past, future := epoch(now, -60), epoch(now, 60)
	key := keyed("a", "1")
	for name, tt := range map[string]struct {
		meanwhile func(f *fixture)
		want      attrs
	}{
		"nothing":                {func(*fixture) {}, nil},
		"lives on":               {func(f *fixture) { f.update(key, "SET e = :e", attrs{":e": future}) }, with(key, attrs{"e": future})},
		"expires no more":        {func(f *fixture) { f.update(key, "REMOVE e", nil) }, key},
		"written, still expired": {func(f *fixture) { f.update(key, "SET x = :x", attrs{":x": num("1")}) }, nil},
		"deleted": {func(f *fixture) {
			if _, err := f.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: ptr(mainTable), Key: key}); err != nil {
				t.Error(err)
			}
		}, nil},
		"expiry disabled": {func(f *fixture) {
			if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", false)); err != nil {
				t.Error(err)
			}
		}, with(key, attrs{"e": past})},
		"taken by a transaction": {func(f *fixture) {
			commit, err := f.db.Prepare([]types.TransactWriteItem{{Update: &types.Update{
				TableName: ptr(mainTable), Key: key, UpdateExpression: ptr("SET x = :x"), ExpressionAttributeValues: attrs{":x": num("1")},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			f.t.Cleanup(func() {
				if err := commit(); err != nil {
					t.Error(err)
				}
			})
		}, with(key, attrs{"e": past})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }}))
			defer f.db.Close()
			if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", true)); err != nil {
				t.Fatal(err)
			}
			f.put(with(key, attrs{"e": past}))
			found, expire := f.db.FindExpired(mainTable)
			if found != 1 {
				t.Fatalf("%d items have expired", found)
			}
			tt.meanwhile(f)
			if err := expire(); err != nil {
				t.Fatal(err)
			}
			mustEqual(t, "item", tt.want, f.get(key))
		})
	}
}

// Items that are rewritten while sweeps go on are never lost.
func TestSweepBesideWriters(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	past, future := epoch(now, -60), epoch(now, 60)
	f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }}))
	defer f.db.Close()
	if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", true)); err != nil {
		t.Fatal(err)
	}
	var writers, sweeper sync.WaitGroup
	stop := make(chan struct{})
	sweeper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := f.db.Sweep(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for w := range 3 {
		writers.Go(func() {
			for i := range 300 {
				key := keyed(fmt.Sprint("p", w), strconv.Itoa(i%5))
				f.put(with(key, attrs{"e": past, "fpk": str("f"), "fsk": num("1")}), with(key, attrs{"e": future, "fpk": str("f"), "fsk": num("2")}))
				if f.get(key) == nil {
					t.Errorf("an item that lives on was swept")
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	sweeper.Wait()
	if err := f.db.IndexProblem(mainTable, fullIndex); err != nil {
		t.Error(err)
	}
}

// A shard of more items than are looked at under one lock is swept to its end.
func TestSweepOfALargeShard(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	f := fixtureIn(t, dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }}))
	defer f.db.Close()
	const items = 2500
	for i := range items {
		f.put(with(keyed("one", fmt.Sprintf("%04d", i)), attrs{"e": epoch(now, int64(i%3)-1)}))
	}
	if _, err := f.db.UpdateTimeToLive(t.Context(), lifetime("e", true)); err != nil {
		t.Fatal(err)
	}
	if err := f.db.Sweep(); err != nil {
		t.Fatal(err)
	}
	if got, want := *describeMain(t, f.db).ItemCount, int64(items-(items+2)/3); got != want {
		t.Errorf("%d items are left, want %d", got, want)
	}
}

// BenchmarkSweep goes through a million items of which none has expired; the slice is what happens
// under one lock.
func BenchmarkSweep(b *testing.B) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	f := fixtureIn(b, dynamolite.New(dynamolite.Options{Now: func() time.Time { return now }}))
	defer f.db.Close()
	if _, err := f.db.UpdateTimeToLive(b.Context(), lifetime("e", true)); err != nil {
		b.Fatal(err)
	}
	live := epoch(now, 60)
	for i := range 1_000_000 {
		f.put(with(keyed(fmt.Sprint("p", i/50), strconv.Itoa(i)), attrs{"e": live, "x": num("1"), "y": str("something"), "z": blob(40)}))
	}
	b.Run("million", func(b *testing.B) {
		for b.Loop() {
			if err := f.db.Sweep(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("slice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.db.LookForExpired(mainTable, 3)
		}
	})
}
