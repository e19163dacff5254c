package dynamo_test

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// An item is a budget of 1 KB, beyond which each write costs another unit. The diary gives way:
// its text is saved earlier. The names are as long as real ones: an entity is a UUID.
func TestTheDiaryGivesWay(t *testing.T) {
	t.Parallel()
	bucket := store.Bucket{Entity: "0b8a7c66-1f2e-4d3c-9b8a-7c661f2e4d3c", Resource: "claude-sonnet-4-2025"}
	names := []string{"rpm", "tpm", "rpd", "tpm-out", "tpd", "rps", "tph"}
	for _, c := range []struct {
		limits int
		units  float64 // of a write
		hours  int     // of a page, at least
	}{{1, 1, 25}, {2, 1, 20}, {3, 1, 16}, {4, 1, 5}, {5, 1, 1}, {6, 2, 6}, {7, 2, 6}} {
		t.Run(strconv.Itoa(c.limits), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := testbed.New(t, testbed.Options{})
				var limits []limiter.Limit
				for _, name := range names[:c.limits] {
					limits = append(limits, limiter.PerMinute(name, 100_000))
				}
				w.System(limits...)
				w.Serve(w.Limiter, limiter.Request{Entity: bucket.Entity, Resource: bucket.Resource, Consume: testbed.Tokens{"rpm": 1}})
				const hours, each = 100, 5
				_, ns := w.Store.Namespace()
				most, text := 0.0, 0
				before := w.Meter.Totals()
				for hour := range hours {
					time.Sleep(time.Hour)
					for i := range each {
						consume := testbed.Tokens{}
						for n, name := range names[:c.limits] {
							if consume[name] = 1; n%2 == 1 {
								consume[name] = int64(500 + (hour*977+i*311+n*127)%4000)
							}
						}
						before := w.Meter.Totals()
						w.Serve(w.Limiter, limiter.Request{Entity: bucket.Entity, Resource: bucket.Resource, Consume: consume})
						used := w.Meter.Totals().Sub(before)["UpdateItem"]
						most = max(most, used.WCU/float64(used.Requests))
						time.Sleep(time.Second)
					}
					item := fixture.Get(t, w.API, schema.BucketKey(ns, bucket))
					if s, has := item[schema.DiaryText]; has {
						text = max(text, schema.ItemSize(schema.Item{"": s}))
					}
				}
				pages := int(w.Meter.Totals().Sub(before)["PutItem"].Requests)
				t.Logf("%d limits: %v units, a text of up to %d bytes, %d hours in %d pages", c.limits, most, text, hours, pages)
				if most != c.units || pages*c.hours > hours {
					t.Errorf("%v units and %d pages of %d hours, want %v and pages of %d hours", most, pages, hours, c.units, c.hours)
				}
			})
		})
	}
}

// A warm write does not read the diary that its caller knows.
func TestAKnownDiaryIsNotReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{})
		w.System(limiter.PerMinute("rpm", 100_000))
		for range 3 {
			w.Serve(w.Limiter, testbed.Ask("user", "rpm", 1))
			time.Sleep(time.Hour)
		}
		seen := w.Images("user")[0]
		out, err := w.Store.Take(t.Context(), &store.Take{
			Bucket: seen.Bucket, Now: time.Now().UnixMilli(), Seen: seen, Debits: []store.Debit{{Amount: store.Amount{Limit: "rpm", Milli: 1000}, AtMost: math.MaxInt64, AtMostAtStamp: math.MaxInt64}},
		})
		if err != nil || !out.Applied || seen.Diary == nil || out.Image.Diary != seen.Diary {
			t.Errorf("%+v, %v; seen %+v", out, err, seen)
		}
	})
}
