package usage_test

import (
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	gocmp "github.com/google/go-cmp/cmp"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// consumed is what an entity consumed in windows of all kinds.
type consumed map[usage.Key]*usage.Snapshot

// note adds an acquire of now.
func (c consumed) note(entity string, rpm int64) {
	for w := usage.Hourly; w <= usage.Monthly; w++ {
		k := usage.Key{Entity: entity, Resource: testbed.Resource, Window: w, Start: w.Start(time.Now())}
		if c[k] == nil {
			c[k] = &usage.Snapshot{Key: k, Tokens: []usage.Amount{{Limit: "rpm", Milli: new(big.Int)}}}
		}
		c[k].Events++
		c[k].Tokens[0].Milli.Add(c[k].Tokens[0].Milli, big.NewInt(1000*rpm))
	}
}

// of returns the windows of a kind, the newest first.
func (c consumed) of(w usage.Window) (found []usage.Snapshot) {
	for k, u := range c {
		if k.Window == w {
			found = append(found, *u)
		}
	}
	slices.SortFunc(found, func(a, b usage.Snapshot) int { return b.Start.Compare(a.Start) })
	return found
}

// withoutDiary returns a bucket item as an earlier version left it: it counted, and kept no
// hours.
func withoutDiary(it schema.Item) schema.Item {
	maps.DeleteFunc(it, func(attr string, _ types.AttributeValue) bool {
		return strings.HasPrefix(attr, schema.OpenedAttr("")) || strings.HasPrefix(attr, schema.GainedAttr("")) ||
			slices.Contains([]string{schema.OpenHour, schema.ClosedHour, schema.DiaryText, schema.Acquires}, attr)
	})
	return it
}

// An upgrade in the middle of an hour: the stream has counted the hour, the day and the month
// up to then, and the bucket keeps what follows. Every window has both parts, once.
func TestAMonthWithAnUpgrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := testbed.New(t, testbed.Options{})
		w.System(limiter.PerMinute("rpm", 1000))
		use := consumed{}
		takes := func(version *dynamo.Store, n int, every time.Duration) {
			l := w.NewLimiter(version, limiter.Options{TTLMultiplier: -1})
			for i := range n {
				rpm := int64(i%7 + 1)
				w.Serve(l, testbed.Ask("user", "rpm", rpm))
				use.note("user", rpm)
				time.Sleep(every)
			}
		}

		time.Sleep(29*24*time.Hour + 19*time.Hour) // to the evening of the 30th
		takes(w.Store, 11, 20*time.Minute)         // to 22:40
		_, ns := w.Store.Namespace()
		key := schema.BucketKey(ns, store.Bucket{Entity: "user", Resource: testbed.Resource})
		fixture.Put(t, w.API, withoutDiary(fixture.Get(t, w.API, key)))
		for k, u := range use {
			counted(t, w.Store, w.API, k, u.Events, map[string]int64{"rpm": u.Tokens[0].Milli.Int64()})
		}

		takes(w.Open(dynamo.Options{UsageTTL: -1}), 70, 33*time.Minute) // into the next month, with a page
		for window, windows := range map[usage.Window]int{usage.Hourly: 42, usage.Daily: 3, usage.Monthly: 2} {
			want := use.of(window)
			if len(want) != windows {
				t.Errorf("%d windows are %v, want %d", len(want), window, windows)
			}
			for _, q := range []usage.Query{{Entity: "user", Resource: testbed.Resource}, {Entity: "user"}, {Resource: testbed.Resource}} {
				q.Window, q.Now = window, true
				for _, q.Limit = range []int{1, 0} {
					if diff := gocmp.Diff(want, pages(t, w.Store, q), sameNumbers); diff != "" {
						t.Errorf("%+v (-want +got):\n%s", q, diff)
					}
				}
				total := totals(want)
				total.Snapshots++ // the window of the upgrade has two parts
				got, err := w.Store.Usage().Sum(t.Context(), q)
				if diff := gocmp.Diff(total, got, sameNumbers); diff != "" || err != nil {
					t.Errorf("summary of %+v (-want +got):\n%s%v", q, diff, err)
				}
			}
		}
		saved := 0
		w.Must(w.Store.Usage().AllPages(t.Context(), "count pages", func(schema.Item) error { saved++; return nil }))
		if saved < 2 { // one, and the item of its month
			t.Errorf("no page was saved")
		}
	})
}
