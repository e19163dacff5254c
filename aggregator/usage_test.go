package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// wantBooks checks the usage of an entity against what its items have counted.
func (w *world) wantBooks(events int, entity string) {
	w.Helper()
	w.wantUsage(entity, fmt.Sprint(events, w.counted(entity)))
}

func (w *world) wantUsage(entity, want string) {
	w.Helper()
	for _, window := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
		if got := w.total(w.Store, usage.Query{Entity: entity, Window: window, Now: true}); got != want {
			w.Errorf("%s, window %d: the usage is %s, %s consumed", entity, window, got, want)
		}
	}
}

// Usage outlives its bucket, all of it: the hours in the item's text, the closed one and the
// open one. The table deletes the buckets when they expire.
func TestUsageOutlivesItsBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := map[string]string{}
		w.traffic(5 * time.Minute)
		for entity, events := range map[string]int{"user": 70, "key": 30, "team": 30} { // 60 acquires of the user, and 10 adjustments upwards
			want[entity] = fmt.Sprint(events, w.counted(entity))
			w.wantUsage(entity, want[entity])
		}
		records := w.drain()
		for entity := range want {
			for len(w.Images(entity)) > 0 {
				time.Sleep(time.Hour)
				records = append(records, w.drain()...) // the stream keeps a record for a day
			}
		}
		w.wantUsage("user", "nothing")
		if res := w.process(records); res.Pages != 3 || w.books.calls != 1 {
			t.Errorf("%d saved in %d calls", res.Pages, w.books.calls)
		}
		for entity := range want {
			w.wantUsage(entity, want[entity])
		}
	})
}

// A peer writes the parameters of a limit that was removed from an item. The limit does not
// exist by that, and the hour is closed with what it has consumed.
func TestParametersOfARemovedLimitBlockNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 600), limiter.PerDay("tpd", 600))
		w.Take(w.Limiter, askAll("user", tokens{"rpd": 1, "tpd": 5}))
		w.System(limiter.PerDay("rpd", 600))
		for range 2 { // the second one finds the new configuration
			time.Sleep(3 * time.Minute)
			w.Take(w.Limiter, ask("user", "rpd", 1))
		}
		w.set("user", 0, map[string]int64{"b_tpd_cp": 600_000, "b_tpd_ra": 600_000, "b_tpd_rp": 86_400_000})
		for range 2 { // the second one forgets what the limit has gained
			time.Sleep(2 * time.Hour)
			w.Take(w.Limiter, ask("user", "rpd", 1))
		}
		w.wantUsage("user", "5 map[rpd:5000 tpd:5000]")
	})
}

// The shards of a bucket, and its next lives, leave pages of their own.
func TestLivesAndShardsAreToldApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerDay("rpd", 1_000_000))
		total := int64(0)
		for i := range int64(3) {
			w.Take(w.Limiter, ask("user", "rpd", 900_000+i))
			w.doubleTo(4)
			l := w.NewLimiter(w.Store, limiter.Options{})
			for range 20 {
				w.Take(l, ask("user", "rpd", 1))
			}
			total += w.counted("user")["rpd"]
			w.drop("user")
			time.Sleep(time.Second)
		}
		records := w.drain()
		for range 2 { // the second time shows the same
			if res := w.process(records); res.Pages < 3*2 {
				t.Errorf("%d saved", res.Pages)
			}
			w.wantUsage("user", fmt.Sprintf("63 map[rpd:%d]", total))
		}
	})
}

// Pages are written 25 at a time.
func TestLastPagesAreSavedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		records := w.crowd(60)
		if res := w.process(records); w.books.calls != 3 || res.Pages != 60 {
			t.Errorf("%d calls, %d saved for 60 items", w.books.calls, res.Pages)
		}
	})
}

// crowd returns the records of the deletion of that many buckets.
func (w *world) crowd(n int) (records []stream.Record) {
	w.Helper()
	w.System(limiter.PerMinute("rpm", 600))
	for i := range n {
		w.Take(w.Limiter, ask(fmt.Sprint("user", i), "rpm", 1))
	}
	w.drain()
	for i := range n {
		w.drop(fmt.Sprint("user", i))
	}
	for _, r := range w.drain() {
		if r.Old != nil && r.New == nil {
			records = append(records, r)
		}
	}
	if len(records) != n {
		w.Fatalf("%d deletions, want %d", len(records), n)
	}
	return records
}

// If pages cannot be saved, the records of their items fail, and no others (the peer's
// defect 13). Delivered again, they are saved.
func TestWhatCannotBeSavedFailsItsRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		records := w.crowd(30)
		w.Take(w.Limiter, ask("alice", "rpm", 1))
		records = append(records, w.drain()...)
		broken := errors.New("the table is on fire")
		w.books.fail = func(all []usage.Diary) error {
			if slices.ContainsFunc(all, func(d usage.Diary) bool { return d.Entity == records[27].Old.Entity }) {
				return broken
			}
			return nil
		}
		res, err := w.aggregator.Process(t.Context(), records)
		w.Must(err)
		got := []int{}
		for _, f := range res.Failed {
			got = append(got, f.Index)
			if !errors.Is(f.Err, broken) || f.Sequence != records[f.Index].Sequence || f.ID != records[f.Index].ID {
				t.Errorf("failure %+v", f)
			}
		}
		if want := []int{25, 26, 27, 28, 29}; !slices.Equal(got, want) || res.Pages != 25 {
			t.Errorf("failed %v, want %v; %d saved", got, want, res.Pages)
		}
		w.books.fail = nil
		w.process(records)
		for i := range 30 {
			w.wantUsage(fmt.Sprint("user", i), "1 map[rpm:1000]")
		}
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
		time.Sleep(50 * time.Hour) // the buckets expire
		if res := w.process(w.drain()); res.Pages != 2 {
			t.Errorf("%d saved", res.Pages)
		}
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

// What an operator deletes with an entity stays deleted: its expired bucket, a shard that a
// merge retired, and its buckets, whether their records come before the deletion, after it
// or hours later again. What it consumes from then on counts.
func TestDeletedEntitiesLeaveNoUsage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.System(limiter.PerMinute("rpm", 600))
		w.Take(w.Limiter, ask("user", "rpm", 1))
		var records []stream.Record
		for len(w.Images("user")) > 0 { // until it has expired
			time.Sleep(time.Hour)
			records = append(records, w.drain()...)
		}
		w.process(records)
		w.wantUsage("user", "1 map[rpm:1000]")
		w.Take(w.NewLimiter(w.Store, w.options), ask("user", "rpm", 2))
		w.doubleTo(2)
		w.Take(w.Limiter, ask("other", "rpm", 1))
		time.Sleep(time.Second)
		_, err := w.Store.DeleteEntity(t.Context(), "user")
		w.Must(err)
		w.drop("other")
		time.Sleep(time.Second)
		w.Take(w.NewLimiter(w.Store, w.options), ask("user", "rpm", 5))
		w.drop("user")
		records = append(records, w.drain()...)
		for range 2 {
			w.process(records)
			w.wantUsage("user", "1 map[rpm:5000]")
			w.wantUsage("other", "1 map[rpm:1000]")
			time.Sleep(20 * time.Hour)
		}
	})
}
