package usage_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/store"
)

// thisHour is the hour in which tests begin.
var thisHour = diary.HourOf(start.UnixMilli())

// hoursUntil returns n hours up to an hour, each with an acquire of a token of rpm.
func hoursUntil(last int32, n int) (entries []diary.Entry) {
	for i := range n {
		entries = append(entries, diary.Entry{Hour: last - int32(n-1-i), Amounts: []store.Amount{{Milli: 1}, {Limit: "rpm", Milli: 1000}}})
	}
	return entries
}

// bucketOf returns an item of an entity that was used in each of n hours until now.
func bucketOf(entity string, n int) *diaryItem {
	return &diaryItem{Bucket: store.Bucket{Entity: entity, Resource: "gpt-4"}, life: 1, shards: 1, hours: hoursUntil(thisHour, n)}
}

// save saves the first n hours of an item.
func save(t *testing.T, s *dynamo.Store, d *diaryItem, n int) {
	t.Helper()
	if err := s.Usage().Save(t.Context(), usage.Diary{Bucket: d.Bucket, Life: d.life, Text: textOf(d.hours[:n])}); err != nil {
		t.Fatal(err)
	}
}

// An hour that moves to a page while it is read is found once, whenever it moves.
func TestHoursMoveWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	queries := []usage.Query{{Entity: "user", Resource: "gpt-4"}, {Entity: "user"}, {Resource: "gpt-4"}}
	for moment := range int32(30) {
		for _, sum := range []bool{false, true} {
			for _, q := range queries {
				s, f := fixture.NewStore(t)
				_, ns := s.Namespace()
				d := bucketOf("user", 12)
				fixture.Put(t, f, d.item(ns))
				q.Window, q.Now = usage.Monthly, true
				var call atomic.Int32 // partitions of an index are read at the same time
				f.Set(faults.Before(func(*faults.Call) error {
					if call.Add(1) == moment {
						f.Set(nil)
						save(t, s, d, 8)
						d.cut = 8
						fixture.Put(t, f, d.item(ns))
					}
					return nil
				}))
				var events int64
				if sum {
					all, err := s.Usage().Sum(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					events = all.Events
				} else {
					page, err := s.Usage().Read(t.Context(), q)
					if err != nil || len(page.Snapshots) != 1 {
						t.Fatal(page, err)
					}
					events = page.Snapshots[0].Events
				}
				if events != 12 {
					t.Errorf("%+v: moved before call %d: %d acquires, want 12", q, moment, events)
				}
			}
		}
	}
}

// A window that the stream counted in part, before the bucket kept a diary, is one
// snapshot. The peer's is one of its own.
func TestUsageOfBothKinds(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	d := bucketOf("user", 3)
	fixture.Put(t, f, d.item(ns))
	k := usage.Key{Entity: "user", Resource: "gpt-4", Window: usage.Daily, Start: usage.Daily.Start(start)}
	counted(t, s, f, k, 4, map[string]int64{"rpm": 500, "old": 7})
	fixture.Put(t, f, peerUsage(ns, k, "daily", 9))
	for _, q := range []usage.Query{{Entity: "user"}, {Resource: "gpt-4"}} {
		q.Window, q.Limit = usage.Daily, 1
		all := pages(t, s, q)
		if len(all) != 2 || all[0].Events != 7 || fmt.Sprint(all[0].Tokens) != "[{old 7} {rpm 3500}]" || all[1].Events != 2 {
			t.Errorf("%+v", all)
		}
		sum, err := s.Usage().Sum(t.Context(), q)
		if err != nil || sum.Events != 9 || sum.Windows != 1 || sum.Entities != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
		if together := each(t, s, q); len(together) != 1 || together[0].Events != 7 || fmt.Sprint(together[0].Tokens) != "[{old 7} {rpm 9000}]" {
			t.Errorf("%+v", together)
		}
	}
}

// A shard that the index does not show yet is read, because another shard knows of it.
func TestAShardThatTheIndexDoesNotShow(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	for shard, hidden := range []bool{false, true, true, true} {
		d := bucketOf("user", 3)
		d.Shard, d.shards = shard, max(1, 2*shard)
		if shard == 0 {
			d.shards = 2
		}
		it := d.item(ns)
		if hidden {
			delete(it, schema.GSI2PK)
			delete(it, schema.GSI3PK)
		}
		fixture.Put(t, f, it)
	}
	for _, q := range []usage.Query{{Entity: "user", Resource: "gpt-4"}, {Entity: "user"}, {Resource: "gpt-4"}} {
		sum, err := s.Usage().Sum(t.Context(), q)
		if err != nil || sum.Events != 6 {
			t.Errorf("%+v: %+v, %v; want those of shards 0 and 1", q, sum, err)
		}
	}
	// An item whose count says more leads to the others.
	d := bucketOf("user", 3)
	d.Shard, d.shards = 1, 4
	fixture.Put(t, f, d.item(ns))
	sum, err := s.Usage().Sum(t.Context(), usage.Query{Resource: "gpt-4"})
	if err != nil || sum.Events != 12 {
		t.Errorf("%+v, %v; want those of four shards", sum, err)
	}
}

// A bucket that the indexes do not show is read if the query names it.
func TestABucketThatTheIndexDoesNotShow(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	it := bucketOf("user", 1).item(ns)
	delete(it, schema.GSI3PK)
	fixture.Put(t, f, it)
	sum, err := s.Usage().Sum(t.Context(), usage.Query{Entity: "user", Resource: "gpt-4", Now: true})
	if err != nil || sum.Events != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// Reads of items and pages are strongly consistent if the query asks for it.
func TestNowReadsConsistently(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	_, ns := s.Namespace()
	d := bucketOf("user", 12)
	save(t, s, d, 2)
	fixture.Put(t, f, d.item(ns))
	for _, now := range []bool{false, true} {
		for _, q := range []usage.Query{{Entity: "user", Resource: "gpt-4"}, {Entity: "user"}, {Resource: "gpt-4"}} {
			items, pages := 0, 0
			f.Set(faults.Before(func(c *faults.Call) error {
				switch {
				case !c.Consistent():
				case c.Op == "BatchGetItem":
					items++
				case c.Op == "Query":
					pages++
				}
				return nil
			}))
			q.Now = now
			if _, err := s.Usage().Sum(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if now != (items > 0) || now != (pages > 1) {
				t.Errorf("%+v: %d consistent reads of items, %d of pages and months", q, items, pages)
			}
		}
	}
}

// Saving costs a unit for each page, and another one for the first of a month.
func TestSavingCosts(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	meter := dynamo.NewMeter(db)
	s := fixture.OpenStore(t, meter)
	cost := func(what string, wcu float64, all ...usage.Diary) {
		t.Helper()
		before := meter.Totals()
		if err := s.Usage().Save(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		if got := meter.Totals().Sub(before).Sum(); got.WCU != wcu {
			t.Errorf("%s: %+v, want %v WCU", what, got, wcu)
		}
	}
	full := func(entity string, last int32) usage.Diary {
		return usage.Diary{Bucket: store.Bucket{Entity: entity, Resource: "gpt-4"}, Life: 1, Text: textOf(hoursUntil(last, 32))}
	}
	cost("the first page", 2, full("user", thisHour))
	cost("the same page", 1, full("user", thisHour))
	cost("another entity", 1, full("user-1", thisHour))
	cost("nothing", 0, usage.Diary{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}})
	lastMonth := diary.HourOf(time.Date(2023, 11, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	cost("a page for each of two months", 3, full("user", lastMonth))
	var many []usage.Diary
	for i := range 60 {
		many = append(many, full(fmt.Sprintf("user-%d", i%59), thisHour)) // one of them twice
	}
	cost("many", 59, many...)
	s = fixture.OpenStore(t, meter)
	cost("another process", 60, many...)
}

// Readers are led to a page before it is written.
func TestAPageIsAnnouncedFirst(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	lost := errors.New("lost")
	f.Set(faults.On(faults.Fail(lost), "PutItem"))
	d := bucketOf("user", 2)
	text := usage.Diary{Bucket: d.Bucket, Life: d.life, Text: textOf(d.hours)}
	if err := s.Usage().Save(t.Context(), text); err == nil {
		t.Fatal("the page was written")
	}
	f.Take()
	f.Set(nil)
	save(t, s, d, 2)
	if diff := gocmp.Diff([]string{"BatchGetItem", "PutItem"}, f.Ops()); diff != "" {
		t.Errorf("the second attempt sends (-want +got):\n%s", diff)
	}
	s, f = fixture.NewStore(t)
	f.Set(faults.On(faults.Fail(lost), "UpdateItem"))
	if err := s.Usage().Save(t.Context(), text); err == nil || slices.Contains(f.Ops(), "PutItem") {
		t.Errorf("%v was sent, %v", f.Ops(), err)
	}
	f.Set(nil)
	save(t, s, d, 2)
	if sum, err := s.Usage().Sum(t.Context(), usage.Query{Entity: "user"}); err != nil || sum.Events != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// All pages of a month expire together, and so does what leads to them.
func TestPagesExpire(t *testing.T) {
	t.Parallel()
	end := usage.Monthly.End(start)
	for ttl, want := range map[time.Duration]schema.Item{
		0:              {schema.TTL: schema.N(end.Add(usage.DefaultTTL).Unix())},
		24 * time.Hour: {schema.TTL: schema.N(end.AddDate(0, 0, 1).Unix())},
		-1:             {},
	} {
		db := fixture.NewTable(t)
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table, Now: now, UsageTTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		d := bucketOf("user", 2)
		save(t, s, d, 2)
		_, ns := s.Namespace()
		page := schema.Page{Bucket: d.Bucket, Life: d.life, Entries: d.hours}
		for _, k := range []schema.Key{page.Key(ns), schema.PageMonthKey(ns, schema.Month(thisHour))} {
			it := fixture.Get(t, db, k)
			if it == nil || fixture.Notation(it[schema.TTL]) != fixture.Notation(want[schema.TTL]) {
				t.Errorf("%v: %s is %v, want %v", ttl, k, it, want)
			}
		}
	}
}

// A resource with more buckets than a reading holds is read in blocks, each bucket and each
// page once.
func TestManyBucketsAreReadInBlocks(t *testing.T) {
	t.Parallel()
	const entities = 2500
	db := fixture.NewTable(t)
	meter := dynamo.NewMeter(db)
	s := fixture.OpenStore(t, meter)
	_, ns := s.Namespace()
	var texts []usage.Diary
	items := map[string]bool{}
	for i := range entities {
		d := bucketOf(fmt.Sprintf("user-%d", i*i%7919), 4)
		d.cut = 2
		texts = append(texts, usage.Diary{Bucket: d.Bucket, Life: d.life, Text: textOf(d.hours[:2])})
		if i%5 > 0 { // the others have pages only
			fixture.Put(t, db, d.item(ns))
			items[d.Entity] = true
		}
	}
	distinct := map[string]bool{}
	for _, d := range texts {
		distinct[d.Entity] = true
	}
	if err := s.Usage().Save(t.Context(), texts...); err != nil {
		t.Fatal(err)
	}
	before := meter.Totals()
	sum, err := s.Usage().Sum(t.Context(), usage.Query{Resource: "gpt-4", Window: usage.Monthly})
	if err != nil || sum.Entities != len(distinct) {
		t.Fatalf("%d entities, want %d, %v", sum.Entities, len(distinct), err)
	}
	t.Logf("%d buckets and pages: %+v", len(distinct), meter.Totals().Sub(before).Sum())
	all := pages(t, s, usage.Query{Resource: "gpt-4", Window: usage.Monthly, Limit: usage.MaxLimit})
	if len(all) != len(distinct) {
		t.Errorf("%d snapshots, want %d", len(all), len(distinct))
	}
	var events int64
	for i := range all {
		events += all[i].Events
	}
	if events != sum.Events {
		t.Errorf("%d acquires in snapshots, %d in their sum", events, sum.Events)
	}
	before = meter.Totals()
	scope, err := s.Usage().ScopeOf(t.Context(), start.AddDate(0, 0, -7), start)
	if err != nil || fmt.Sprint(scope.Resources) != "[gpt-4]" || scope.Items != len(items) || scope.Months != 1 {
		t.Errorf("%+v, %v", scope, err)
	}
	listed := meter.Totals().Sub(before).Sum()
	before = meter.Totals()
	if n := len(each(t, s, usage.Query{Resource: "gpt-4", Window: usage.Monthly})); n != len(distinct) {
		t.Errorf("%d buckets, want %d", n, len(distinct))
	}
	read := meter.Totals().Sub(before).Sum()
	if foreseen := scope.ReadUnits(); read.RCU > 1.1*foreseen || read.RCU < 0.5*foreseen || listed.RCU > float64(len(items))/20*0.6+10 {
		t.Errorf("a scope costs %.1f units, the reading %.1f, foreseen are %.1f", listed.RCU, read.RCU, foreseen)
	}
}
