package schema_test

import (
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A process remembers the images of many buckets, most of which have the same limits. Their
// parameters are in memory once.
func TestImagesShareParameters(t *testing.T) {
	t.Parallel()
	item := peerItem(t, stateKey)
	one, other := decoded(t, item, 1000), decoded(t, item, 1000)
	if one.Limits[0].Params != other.Limits[0].Params || one.Writes.Params != other.Writes.Params {
		t.Error("two images of equal limits do not share parameters")
	}
	if edited := decoded(t, item, 2000); edited.Limits[0].Params == one.Limits[0].Params || edited.Limits[0].Capacity != 2000 || one.Limits[0].Capacity != 1000 {
		t.Errorf("capacities are %d and %d, want 2000 and 1000", edited.Limits[0].Capacity, one.Limits[0].Capacity)
	}
}

// Each entity may have limits of its own. Every image has the right ones, however many there are,
// and whoever else decodes at the time.
func TestParametersBeyondThoseThatAreShared(t *testing.T) {
	t.Parallel()
	item := peerItem(t, stateKey)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 10_000 {
				want := 1000 * (1 + (i*(worker+1))%9000)
				if got := decoded(t, item, want).Limits[0].Capacity; got != int64(want) {
					t.Errorf("a capacity is %d, want %d", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// decoded is the image of an item whose first limit has a capacity, in millitokens.
func decoded(tb testing.TB, item schema.Item, capacity int) *store.Image {
	tb.Helper()
	item = maps.Clone(item)
	item["b_rpm_cp"] = n(strconv.Itoa(capacity))
	img, err := schema.DecodeBucket(item)
	if err != nil {
		tb.Fatal(err)
	}
	return img
}
