package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// traffic does every kind of consumption and return, at a fixed interval.
func (w *world) traffic(apart time.Duration) {
	w.Helper()
	w.System(limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm-in.k", 90_000))
	w.Entities(limiter.Entity{ID: "team"}, testbed.Child("key", "team"))
	for i := range 30 {
		w.Take(w.Limiter, askAll("user", tokens{"rpm": 1, "tpm-in.k": 500}))
		w.Take(w.Limiter, ask("key", "rpm", 1))
		lease, err := w.Acquire(w.Context(), askAll("user", tokens{"rpm": 2, "tpm-in.k": 100}))
		w.Must(err)
		w.settle(lease, "tpm-in.k", i)
		time.Sleep(apart)
	}
}

// settle ends a lease in one of three ways.
func (w *world) settle(lease *limiter.Lease, limit string, way int) {
	w.Helper()
	switch way % 3 {
	case 0:
		w.Must(lease.Rollback(w.Context()))
	case 1:
		w.Must(lease.Adjust(limit, 250))
		w.Must(lease.Commit(w.Context()))
	case 2:
		w.Must(lease.Adjust(limit, -60))
		w.Must(lease.Commit(w.Context()))
	}
}

// counted is what the items of an entity have counted, in the form of the books.
func (w *world) counted(entity string) map[string]int64 {
	w.Helper()
	all := map[string]int64{}
	for _, img := range w.Images(entity) {
		for _, s := range img.Limits {
			if s.Consumed != 0 {
				all[s.Name] += s.Consumed
			}
		}
	}
	return all
}

// wantBooks checks the sums of an entity against what its items have counted.
func (w *world) wantBooks(events int, entity string) {
	w.Helper()
	want := fmt.Sprint(events, w.counted(entity))
	for _, window := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
		if got := w.total(w.Store, usage.Query{Entity: entity, Window: window}); got != want {
			w.Errorf("%s, window %d: %s counted, %s consumed", entity, window, got, want)
		}
	}
}

// Usage is what users consumed, from the first acquire on, less what they returned. The
// peer does not count the record of a new bucket (its defect 9).
func TestUsageIsWhatWasConsumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.traffic(time.Second)
		w.process(w.drain())
		w.wantBooks(70, "user") // 60 acquires and 10 adjustments upwards
		w.wantBooks(30, "key")
		w.wantBooks(30, "team")
		if got := w.total(w.Store, usage.Query{Entity: "user", Window: usage.Daily}); strings.Contains(got, schema.WCU) {
			t.Errorf("the hidden limit is counted: %s", got)
		}
	})
}

// An item is created without consumption, as by a doubling, where another one was deleted.
// Its counters begin at 0 again, and give nothing back.
func TestCountersThatRestartGiveNothingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, ns := w.Store.Namespace()
		var item *store.Image
		sequence := 0
		change := func(after *store.Image) stream.Record {
			sequence++
			r := stream.Record{Namespace: ns, Sequence: strconv.Itoa(sequence), At: time.Now(), Old: item, New: after}
			item = after
			return r
		}
		image := func(writes, consumed int64) *store.Image {
			img := &store.Image{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4", Shard: 1}, ShardCount: 2}
			img.Writes.Consumed, img.Limits = 1000*writes, []store.LimitState{{Name: "rpm", Consumed: 1000 * consumed}}
			return img
		}
		b := usageOnly(w)
		for _, r := range []stream.Record{
			change(image(1, 4)), change(image(2, 5)), change(nil), change(image(9, 0)), change(image(10, 1)), change(image(11, 3)),
		} {
			if res, err := b.Process(t.Context(), []stream.Record{r}); err != nil || len(res.Failed) > 0 {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		if got := w.total(w.Store, usage.Query{Entity: "user", Window: usage.Daily}); got != "4 map[rpm:8000]" {
			t.Errorf("counted are %s", got)
		}
	})
}

// usageOnly is an aggregator that counts usage, and does nothing to buckets.
func usageOnly(w *world) *aggregator.Aggregator {
	w.Helper()
	a, err := aggregator.New(func(ctx context.Context, id string) (aggregator.Namespace, error) {
		s, err := dynamo.OpenID(ctx, w.StoreOptions(dynamo.Options{}), id)
		if err != nil {
			return aggregator.Namespace{}, err
		}
		return aggregator.Namespace{Usage: s.Usage()}, nil
	}, aggregator.Options{Now: w.now})
	w.Must(err)
	return a
}

// The last minute of a year and the first of the next: consumption belongs to the time when
// it took place, not to the time of the bucket's last refill (the peer's defect 9).
func TestWindowsAreOfTheRecordsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		time.Sleep(time.Until(time.Date(2000, 12, 31, 23, 59, 58, 0, time.UTC)))
		w.Take(w.Limiter, ask("user", "rpd", 900_000)) // the rest does not overflow, so that no later take moves the stamp
		time.Sleep(3 * time.Second)
		w.Take(w.Limiter, ask("user", "rpd", 10))
		time.Sleep(12 * time.Hour)
		w.Take(w.Limiter, ask("user", "rpd", 3))
		w.process(w.drain())
		year := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			window usage.Window
			start  time.Time
			want   string
		}{
			{usage.Hourly, year.Add(-time.Hour), "1 map[rpd:900000000]"},
			{usage.Daily, year.AddDate(0, 0, -1), "1 map[rpd:900000000]"},
			{usage.Monthly, year.AddDate(0, -1, 0), "1 map[rpd:900000000]"},
			{usage.Hourly, year, "1 map[rpd:10000]"},
			{usage.Hourly, year.Add(12 * time.Hour), "1 map[rpd:3000]"},
			{usage.Daily, year, "2 map[rpd:13000]"},
			{usage.Monthly, year, "2 map[rpd:13000]"},
		} {
			if got := w.total(w.Store, usage.Query{Entity: "user", Window: c.window, From: c.start, To: c.start.Add(1)}); got != c.want {
				t.Errorf("window %d from %v: %s, want %s", c.window, c.start, got, c.want)
			}
		}
	})
}

// One write for each sum, whatever its number of records and limits (the peer's defect 11).
func TestABatchWritesEachSumOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 6000), limiter.PerMinute("tpm", 90_000))
		for range 100 {
			w.Take(w.Limiter, askAll("user", tokens{"rpm": 1, "tpm": 10}))
		}
		if res := w.process(w.drain()); w.books.calls != 3 || res.Updates != 3 {
			t.Errorf("%d calls, %d updates for 100 records of one entity in 3 windows", w.books.calls, res.Updates)
		}
	})
}

// If a write fails, only the records in it fail (the peer's defect 13). Delivered again,
// they count once.
func TestWhatCannotBeWrittenFailsItsRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 600))
		for range 5 {
			w.Take(w.Limiter, ask("alice", "rpm", 1))
			w.Take(w.Limiter, ask("bob", "rpm", 2))
		}
		records := w.drain()
		broken := errors.New("the table is on fire")
		w.books.fail = func(d *usage.Delta) error {
			if d.Entity == "bob" && d.Window == usage.Daily {
				return broken
			}
			return nil
		}
		res, err := w.aggregator.Process(t.Context(), records)
		w.Must(err)
		want := []int{}
		for i, r := range records {
			if r.New != nil && r.New.Entity == "bob" {
				want = append(want, i)
			}
		}
		got := []int{}
		for _, f := range res.Failed {
			got = append(got, f.Index)
			if !errors.Is(f.Err, broken) || f.Sequence != records[f.Index].Sequence || f.ID != records[f.Index].ID {
				t.Errorf("failure %+v", f)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("failed %v, want %v", got, want)
		}
		w.books.fail = nil
		w.process(records)
		w.wantBooks(5, "alice")
		w.wantBooks(5, "bob")
	})
}

// An unreadable record is reported, and the records around it count.
func TestPoisonedRecordsAreReportedOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 600))
		_, ns := w.Store.Namespace()
		name := table
		for _, entity := range []string{"mallory", "oscar"} {
			w.Take(w.Limiter, ask("alice", "rpm", 1))
			poison := schema.BucketKey(ns, limiter.Bucket{Entity: entity, Resource: "gpt-4"}).Item()
			poison[schema.RF] = schema.S("yesterday")
			_, err := w.API.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: poison})
			w.Must(err)
			w.Take(w.Limiter, ask("alice", "rpm", 1))
		}
		res, err := w.aggregator.Process(t.Context(), w.drain())
		w.Must(err)
		if len(res.Poisoned) != 2 || len(res.Failed) != 0 {
			t.Fatalf("poisoned %v, failed %v", res.Poisoned, res.Failed)
		}
		said := res.Poisoned[0].Err.Error() + res.Poisoned[1].Err.Error()
		for _, f := range res.Poisoned {
			if !errors.Is(f.Err, limiter.ErrCorrupt) || f.ID == "" || f.Sequence == "" {
				t.Errorf("poisoned %+v", f)
			}
		}
		if !strings.Contains(said, "mallory") || !strings.Contains(said, "oscar") {
			t.Errorf("the records are not named: %s", said)
		}
		w.wantBooks(4, "alice")
	})
}

// A stream carries all namespaces of its table. The remains of a deleted namespace are
// ignored.
func TestNamespacesAreKeptApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		namespaces, err := admin.NewNamespaces(dynamo.Options{API: w.API, Table: table})
		w.Must(err)
		for i, name := range []string{"blue", "green", "gone"} {
			_, err := namespaces.Register(t.Context(), name)
			w.Must(err)
			s := w.Open(dynamo.Options{Namespace: name})
			w.Must(s.SetSystem(t.Context(), []limiter.Limit{limiter.PerMinute("rpm", 600)}, ""))
			w.Take(w.NewLimiter(s, limiter.Options{}), ask("user", "rpm", int64(i+1)))
		}
		w.Must(namespaces.Delete(t.Context(), "gone"))
		w.process(w.drain())
		for name, want := range map[string]string{"blue": "1 map[rpm:1000]", "green": "1 map[rpm:2000]", "": "nothing"} {
			if got := w.total(w.Open(dynamo.Options{Namespace: name}), usage.Query{Entity: "user", Window: usage.Daily}); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	})
}

func TestNamespaceThatCannotBeOpenedFailsItsRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 600))
		w.Take(w.Limiter, ask("user", "rpm", 1))
		a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) {
			return aggregator.Namespace{}, limiter.ErrUnavailable
		}, aggregator.Options{})
		w.Must(err)
		res, err := a.Process(t.Context(), w.drain())
		w.Must(err)
		if len(res.Failed) != 1 || !errors.Is(res.Failed[0].Err, limiter.ErrUnavailable) {
			t.Errorf("failed %v", res.Failed)
		}
	})
}

// A batch waits no longer than its context for a namespace that another batch opens.
func TestNoBatchWaitsForAnothersOpener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 600))
		w.Take(w.Limiter, ask("user", "rpm", 1))
		records := w.drain()
		a, err := aggregator.New(func(context.Context, string) (aggregator.Namespace, error) {
			time.Sleep(time.Minute)
			return aggregator.Namespace{}, nil
		}, aggregator.Options{})
		w.Must(err)
		var first sync.WaitGroup
		first.Go(func() {
			_, err := a.Process(t.Context(), records)
			w.Check(err)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		res, err := a.Process(ctx, records)
		if !errors.Is(err, context.DeadlineExceeded) || len(res.Failed) != 1 || time.Since(start) != time.Second {
			t.Errorf("%v and %v failed after %v", err, res.Failed, time.Since(start))
		}
		first.Wait()
	})
}
