package estimate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/estimate"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// The size of an item decides how many units each write costs.
func TestItemsAreAsLargeAsEstimated(t *testing.T) {
	t.Parallel()
	w := testbed.New(t, testbed.Options{})
	_, ns := w.Store.Namespace()
	for i, c := range []struct {
		entity, resource int // length of the name
		limits           int
		name             int // length of the names of limits
		parent, own      bool
	}{
		{15, 5, 1, 3, false, false},
		{15, 5, 2, 3, true, false},
		{5, 3, 2, 3, false, true},
		{40, 30, 5, 10, true, false},
		{8, 20, 12, 4, false, false},
		{15, 5, 20, 2, false, true},
	} {
		entity, resource := strings.Repeat("e", c.entity), strings.Repeat("r", c.resource)
		var limits []store.Limit
		for i := range c.limits {
			limits = append(limits, limiter.PerMinute(strings.Repeat("l", c.name-1)+string(rune('a'+i)), 1000))
		}
		parent := ""
		if c.parent {
			parent = fmt.Sprint("parent-", i)
			for _, e := range []store.Entity{{ID: parent}, {ID: entity, Parent: parent, Cascade: true}} {
				_, err := w.Store.CreateEntity(t.Context(), e)
				w.Must(err)
			}
		}
		consume := map[string]int64{}
		for _, l := range limits {
			consume[l.Name] = 1
		}
		key := store.ConfigKey{Resource: resource}
		if c.own {
			key.Entity = entity
		}
		w.Must(w.Store.SetLimits(t.Context(), key, limits))
		lease, err := w.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: resource, Consume: consume})
		w.Must(err)
		w.Must(lease.Commit(t.Context()))
		got, err := w.Engine.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: aws.String(testbed.Table), Key: schema.BucketKey(ns, store.Bucket{Entity: entity, Resource: resource}).Item(),
		})
		w.Must(err)
		names := make([]string, 0, len(limits))
		for _, l := range limits {
			names = append(names, l.Name)
		}
		within(t, "bytes of an item", float64(estimate.ItemBytes(entity, resource, parent, names)), float64(schema.ItemSize(got.Item)), estimate.RatesAccuracy)
	}
}
