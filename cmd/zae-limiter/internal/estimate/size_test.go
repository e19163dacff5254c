package estimate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// The size of an item decides how many units each write costs. The items have been used in three
// hours, so they have all attributes.
func TestItemsAreAsLargeAsEstimated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entity, resource int // length of the name
		limits           int
		name             int // length of the names of limits
		parent, own      bool
		zone             string // of every second limit, which is a quota; "session" for sessions, "" for rates only
		returns          int    // percent, of each limit
	}{
		{15, 5, 1, 3, false, false, "", 0},
		{15, 5, 2, 3, true, false, "", 0},
		{5, 3, 2, 3, false, true, "", 0},
		{40, 30, 5, 10, true, false, "", 0},
		{8, 20, 12, 4, false, false, "", 0},
		{15, 5, 20, 2, false, true, "", 0},
		{15, 5, 1, 3, false, false, "Europe/Berlin", 0},
		{15, 5, 18, 2, false, true, "UTC", 0},
		{15, 5, 2, 4, false, false, "session", 0},
		{15, 5, 1, 3, false, false, "", 40},
		{15, 5, 2, 10, true, false, "", 100},
		{15, 5, 4, 10, true, false, "", 100}, // no room
		{15, 5, 2, 4, false, false, "UTC", 100},
	} {
		entity, resource, parent := strings.Repeat("e", c.entity), strings.Repeat("r", c.resource), ""
		if c.parent {
			parent = "parent-1"
		}
		var limits []store.Limit
		consume := map[string]int64{}
		for i := range c.limits {
			name := strings.Repeat("l", c.name-1) + string(rune('a'+i))
			l := limiter.PerMinute(name, 1000)
			if c.zone != "" && i%2 == 0 {
				r, err := limiter.ParseRenewal("month from day 15 at 06:30; month from day 20", strings.TrimPrefix(c.zone, "session"))
				if c.zone == "session" {
					r, err = limiter.ParseRenewal("session 5h", "")
				}
				if err != nil {
					t.Fatal(err)
				}
				l = limiter.Quota(name, 1000, r)
			}
			limits = append(limits, l)
			consume[name] = 1
			limits[i].Returns = c.returns
		}
		key := store.ConfigKey{Resource: resource}
		if c.own {
			key.Entity = entity
		}
		synctest.Test(t, func(t *testing.T) {
			w := testbed.New(t, testbed.Options{})
			if c.parent {
				for _, e := range []store.Entity{{ID: parent}, {ID: entity, Parent: parent, Cascade: true}} {
					_, err := w.Store.CreateEntity(t.Context(), e)
					w.Must(err)
				}
			}
			w.Must(w.Store.SetLimits(t.Context(), key, limits))
			for range 3 {
				lease, err := w.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: resource, Consume: consume})
				w.Must(err)
				w.Must(lease.Commit(t.Context()))
				time.Sleep(time.Hour)
			}
			_, ns := w.Store.Namespace()
			got, err := w.Engine.GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, store.Bucket{Entity: entity, Resource: resource}).Item(),
			})
			w.Must(err)
			if _, has := got.Item[schema.DiaryText]; !has {
				t.Fatal("the item has no diary")
			}
			delete(got.Item, schema.DiaryText)
			within(t, "bytes of an item", float64(estimate.ItemBytes(entity, resource, parent, limits)), float64(schema.ItemSize(got.Item)), estimate.RatesAccuracy)
		})
	}
}
