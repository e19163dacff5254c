package aggregator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	gocmp "github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/stream"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// A shelf is an archive in memory.
type shelf struct {
	// fail, if not nil, returns the error for a day, nil if there is none. It may take its
	// time.
	fail func(day time.Time) error

	mu     sync.Mutex
	puts   int
	events map[string]audit.TrailEvent
}

func (s *shelf) Put(_ context.Context, day time.Time, events []audit.TrailEvent) (int, error) {
	if s.fail != nil {
		if err := s.fail(day); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	for _, e := range events {
		if !e.Time.Truncate(24 * time.Hour).Equal(day) {
			return 0, fmt.Errorf("%v is not of %v", e, day)
		}
		s.events[e.NamespaceID+" "+e.Entity+" "+e.ID] = e
	}
	return 10 * len(events), nil
}

// expiring makes the world's table delete expired items and its namespace keep events for a
// day, and gives the world an archive.
func (w *world) expiring() *shelf {
	w.Helper()
	w.Must(w.Store.SetAuditRetention(w.Context(), 1))
	s := &shelf{events: map[string]audit.TrailEvent{}}
	w.aggregator = w.aggregate(aggregator.Options{Archive: s})
	return s
}

// trail returns a namespace's events about entities, by ID.
func (w *world) trail(s *dynamo.Store, entities ...string) (all []audit.TrailEvent) {
	w.Helper()
	_, id := s.Namespace()
	for _, entity := range entities {
		page, err := s.AuditEvents(w.Context(), audit.Query{Entity: entity, Limit: 1000})
		w.Must(err)
		for _, e := range page.Events {
			all = append(all, audit.TrailEvent{Event: e, NamespaceID: id})
		}
	}
	return all
}

// kept returns the events on the shelf.
func (s *shelf) kept() (all []audit.TrailEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		all = append(all, e)
	}
	return all
}

// wantEvents compares events in any order.
func (w *world) wantEvents(want, got []audit.TrailEvent) {
	w.Helper()
	byPlace := func(e, f audit.TrailEvent) int {
		return cmp.Or(strings.Compare(e.ID, f.ID), strings.Compare(e.Entity, f.Entity))
	}
	slices.SortFunc(want, byPlace)
	slices.SortFunc(got, byPlace)
	if diff := gocmp.Diff(want, got); diff != "" || len(want) == 0 {
		w.Errorf("events (-want +got):\n%s", diff)
	}
}

// remove deletes an event as a person would.
func (w *world) remove(e *audit.TrailEvent) {
	w.Helper()
	_, err := w.API.TransactWriteItems(w.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{TableName: aws.String(table), Key: schema.AuditKey(e.NamespaceID, e.Entity, e.ID).Item()}},
	}})
	w.Must(err)
}

// The archive gets every event that the table deletes on expiry, from all namespaces,
// including deleted ones. It gets none that somebody deleted or that still exists (the
// peer's defects 2 and 35).
func TestExpiredEventsAreArchived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * time.Hour) // so that the events are on two days
		w := newWorld(t)
		s := w.expiring()
		n, err := admin.NewNamespaces(dynamo.Options{API: w.API, Table: table})
		w.Must(err)
		_, err = n.Register(t.Context(), "short-lived")
		w.Must(err)
		other := w.Open(dynamo.Options{Namespace: "short-lived"})
		w.Must(other.SetAuditRetention(t.Context(), 1))
		var entities []string
		for i := range 5 {
			id := fmt.Sprintf("user-%d", i)
			entities = append(entities, id)
			for _, s := range []*dynamo.Store{w.Store, other} {
				_, err := s.CreateEntity(t.Context(), limiter.Entity{ID: id, Metadata: map[string]string{"i": id}})
				w.Must(err)
				w.Must(s.SetLimits(t.Context(), limiter.ConfigKey{Entity: id, Resource: "gpt-4"}, []limiter.Limit{limiter.PerMinute("rpm", int64(i+1))}))
			}
			time.Sleep(3 * time.Hour)
		}
		_, err = w.Store.DeleteEntity(t.Context(), "user-3")
		w.Must(err)
		entities = append(entities, audit.System)
		want := append(w.trail(w.Store, entities...), w.trail(other, entities...)...)
		w.remove(&want[3])
		want = slices.Delete(want, 3, 4)
		w.Must(n.Delete(t.Context(), "short-lived"))
		w.Must(w.Store.SetAuditRetention(t.Context(), 50))
		w.Must(w.Store.SetLimits(t.Context(), limiter.ConfigKey{Resource: "stays"}, []limiter.Limit{limiter.PerMinute("rpm", 1)}))
		if res := w.process(w.drain()); res.Archived != 0 {
			t.Errorf("%d events were archived before they expired", res.Archived)
		}
		// The event of the deletion is kept for the retention of its namespace.
		page, err := n.AuditEvents(t.Context(), "short-lived", audit.Query{Action: audit.NamespaceDeleted})
		w.Must(err)
		want = append(want, audit.TrailEvent{Event: page.Events[0], NamespaceID: "_"})

		time.Sleep(26 * time.Hour)
		records := w.drain()
		for range 2 { // a batch delivered twice is archived in the same place
			if res := w.process(records); res.Archived != len(want) || res.ArchivedBytes != 10*res.Archived {
				t.Errorf("%d events of %d bytes are counted, want %d", res.Archived, res.ArchivedBytes, len(want))
			}
			w.wantEvents(want, s.kept())
		}
		if s.puts != 2*2 {
			t.Errorf("%d objects of two days", s.puts)
		}
	})
}

// Without an archive, expired events are ignored.
func TestWithoutAnArchiveExpiredEventsGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expiring()
		w.aggregator = w.aggregate(aggregator.Options{})
		w.poison("x")
		w.System(limiter.PerMinute("rpm", 1))
		time.Sleep(25 * time.Hour)
		if res := w.process(w.drain()); res.Archived != 0 || res.Records != 2 {
			t.Errorf("%+v", res)
		}
	})
}

// poison writes an expired item with the key of an event, which is no event.
func (w *world) poison(id string) {
	w.Helper()
	_, ns := w.Store.Namespace()
	it := schema.AuditKey(ns, "user", id).Item()
	it[schema.TTL] = schema.N(time.Now().Unix() + 60)
	_, err := w.API.PutItem(w.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: it})
	w.Must(err)
}

// If events cannot be stored, only the records of their day fail. Stored later, the events
// are there once. The result names each event that cannot be read.
func TestAnArchiveThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.expiring()
		w.System(limiter.PerMinute("rpm", 600))
		time.Sleep(23*time.Hour + 59*time.Minute)
		w.Must(w.Store.SetLimits(t.Context(), limiter.ConfigKey{Resource: "first"}, []limiter.Limit{limiter.PerMinute("rpm", 1)}))
		w.process(w.drain())
		time.Sleep(10 * time.Minute)
		for i := range 3 {
			w.Must(w.Store.SetLimits(t.Context(), limiter.ConfigKey{Resource: "second"}, []limiter.Limit{limiter.PerMinute("rpm", int64(i+2))}))
		}
		w.poison("one")
		w.poison("two")
		time.Sleep(time.Minute)
		want := append(w.trail(w.Store, audit.Resource("first")), w.trail(w.Store, audit.Resource("second"))...)
		second := want[1].Time.Truncate(24 * time.Hour)
		w.process(slices.DeleteFunc(w.drain(), func(r stream.Record) bool { return r.Item != nil }))

		time.Sleep(23 * time.Hour)
		poisoned := w.drain()
		time.Sleep(2 * time.Hour)
		w.Take(w.Limiter, ask("user", "rpm", 5))
		records := append(poisoned, w.drain()...)
		s.events = map[string]audit.TrailEvent{}
		s.fail = func(day time.Time) error {
			if day.Equal(second) {
				return errors.New("not now")
			}
			return nil
		}
		res, err := w.aggregator.Process(t.Context(), records)
		w.Must(err)
		var failed []stream.Record
		for _, f := range res.Failed {
			failed = append(failed, records[f.Index])
			if f.Sequence != records[f.Index].Sequence || !strings.Contains(f.Err.Error(), "archive events of "+second.Format(time.DateOnly)+": not now") {
				t.Errorf("%+v", f)
			}
		}
		if len(res.Poisoned) != 2 || len(failed) != 3 || res.Archived != 1 || res.ArchivedBytes != 10 {
			t.Errorf("%+v", res)
		}
		for i, id := range []string{"one", "two"} {
			if i < len(res.Poisoned) && (!errors.Is(res.Poisoned[i].Err, limiter.ErrCorrupt) || !strings.Contains(res.Poisoned[0].Err.Error()+res.Poisoned[1].Err.Error(), "#AUDIT#"+id)) {
				t.Errorf("poisoned %+v", res.Poisoned)
			}
		}
		w.wantBooks(1, "user")
		w.wantEvents(want[:1:1], s.kept())
		s.fail = nil
		if res := w.process(failed); res.Archived != 3 {
			t.Errorf("%+v", res)
		}
		w.wantEvents(want, s.kept())
	})
}

// A follower retries until everything is stored. Meanwhile usage is summed up as usual,
// also by a follower that was restarted.
func TestFollowingAnArchiveThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.expiring()
		var archived, failed, poisoned atomic.Int64
		w.aggregator = w.aggregate(aggregator.Options{Archive: s, Observe: func(r aggregator.Result) {
			archived.Add(int64(r.Archived))
			failed.Add(int64(len(r.Failed)))
			poisoned.Add(int64(len(r.Poisoned)))
			if r.Archived > 0 && (r.Records > 0 || r.Lag > 0) {
				t.Errorf("records are counted once more: %+v", r)
			}
		}})
		var up atomic.Bool
		s.fail = func(time.Time) error {
			if up.Load() {
				return nil
			}
			time.Sleep(time.Minute) // the archive does not answer
			return errors.New("not now")
		}
		for i := range 20 {
			w.Must(w.Store.SetSystem(t.Context(), []limiter.Limit{limiter.PerMinute("rpm", int64(i+600))}, ""))
			time.Sleep(time.Hour / 2)
		}
		want := w.trail(w.Store, audit.System)
		time.Sleep(23 * time.Hour) // the last event expires in half an hour
		w.poison("one")
		time.Sleep(time.Hour)
		for i := range 12 { // in all shards of the stream, in the pages with events
			w.Take(w.Limiter, ask(fmt.Sprint("user-", i), "rpm", 5))
		}
		var calls atomic.Int64
		w.books.fail = func([]usage.Diary) error {
			if calls.Add(1) <= 50 {
				return errors.New("not now")
			}
			return nil
		}
		end := w.follow()
		time.Sleep(10 * time.Second)
		for i := range 10 {
			w.Take(w.Limiter, ask("user", "rpm", 5))
			time.Sleep(3 * time.Second)
			w.wantBooks(i+1, "user")
			if i == 5 {
				time.Sleep(2 * time.Minute)
				end()
				end = w.follow()
				time.Sleep(3 * time.Second)
			}
		}
		if n := failed.Load(); len(s.kept()) > 0 || archived.Load() > 0 || n == 0 {
			t.Errorf("%d events in the archive, %d archived, %d failed", len(s.kept()), archived.Load(), n)
		}
		up.Store(true)
		time.Sleep(2 * time.Minute)
		w.wantEvents(want, s.kept())
		end()
		end = w.follow()
		time.Sleep(time.Minute)
		end()
		if a, p := archived.Load(), poisoned.Load(); a != int64(len(want)) || p < 1 || p > 2 { // by one of the first two followers or by both
			t.Errorf("%d archived of %d, %d poisoned", a, len(want), p)
		}
		w.wantEvents(want, s.kept())
		w.wantBooks(10, "user")
	})
}
