package usage_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
)

var usageEntities = flag.Int("usage.entities", 3000, "entities of the long test of what reading usage costs")

// A read of a resource has its cost. Each entity has a bucket with 16 hours and a page with 20
// hours of the month. A hundred buckets share a request. A thousand share the requests
// for their pages, of which each partition has a part.
func TestLongReadsOfAResourceCost(t *testing.T) {
	const hours, inPage, batch = 36, 20, 25
	n := *usageEntities
	db := fixture.NewTable(t)
	meter := dynamo.NewMeter(db)
	s, err := dynamo.Open(t.Context(), dynamo.Options{API: fixture.AtOnce(meter), Table: table, Now: now, UsageTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, ns := s.Namespace()
	pages := make([]usage.Diary, 0, batch)
	for i := range n {
		d := bucketOf(fmt.Sprintf("user-%06d", i), hours)
		pages = append(pages, usage.Diary{Bucket: d.Bucket, Life: d.life, Text: textOf(d.hours[:inPage])})
		d.cut = inPage
		fixture.Put(t, db, d.item(ns))
		if len(pages) == batch || i == n-1 {
			if err := s.Usage().Save(t.Context(), pages...); err != nil {
				t.Fatal(err)
			}
			pages = pages[:0]
		}
	}
	const partitions = 16 // of the resource's pages, and of index keys; one of these is shared
	blocks := n/1000 + 1  // one begins at the latest when another one is full
	mostRequests := int64(n/100 + 1 + blocks*(partitions+1) + partitions + 1 + n/1000)
	mostUnits := 0.6*float64(n) + float64(blocks*(partitions+1)) // half a unit for a bucket
	check := func(read string, send func() (events int64, err error), want int) {
		t.Helper()
		before, began := meter.Totals(), time.Now()
		events, err := send()
		if err != nil || events != int64(want) {
			t.Fatalf("%s: %d acquires, want %d: %v", read, events, want, err)
		}
		used, took := meter.Totals().Sub(before).Sum(), time.Since(began)
		t.Logf("%s of %d entities: %d requests, %.0f read units, %v", read, n, used.Requests, used.RCU, took.Round(time.Millisecond))
		if used.Requests > mostRequests || used.RCU > mostUnits || used.WCU > 0 {
			t.Errorf("%s: %+v; want at most %d requests and %.0f read units", read, used, mostRequests, mostUnits)
		}
	}
	q := usage.Query{Resource: "gpt-4", Window: usage.Monthly, Limit: usage.MaxLimit}
	check("sum", func() (int64, error) {
		sum, err := s.Usage().Sum(t.Context(), q)
		return sum.Events, err
	}, n*hours)
	check("first snapshots", func() (events int64, err error) {
		page, err := s.Usage().Read(t.Context(), q)
		for _, s := range page.Snapshots {
			events += s.Events
		}
		return events, err
	}, usage.MaxLimit*hours)
}
