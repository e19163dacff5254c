package plan_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A whole set has each shard at its number, and nil for a shard that is missing.
func TestAWholeSetHasEachShardAtItsNumber(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shards [][2]int // number and count, as they were read
		want   string
	}{
		"all":                      {[][2]int{{0, 2}, {1, 2}}, "[0 1]"},
		"none":                     {nil, "[]"},
		"one in the middle lost":   {[][2]int{{0, 4}, {2, 4}, {3, 4}}, "[0 - 2 3]"},
		"the last ones lost":       {[][2]int{{0, 4}, {1, 4}}, "[0 1 - -]"},
		"shard 0 lost":             {[][2]int{{1, 2}}, "[- 1]"},
		"before their doubling":    {[][2]int{{0, 2}, {1, 1}}, "[0 1]"},
		"a number above its count": {[][2]int{{0, 1}, {2, 1}}, "[0 - 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var shards []*store.Image
			for _, s := range c.shards {
				shards = append(shards, &store.Image{Bucket: store.Bucket{Shard: s[0]}, ShardCount: s[1]})
			}
			got := []string{}
			for _, img := range plan.WholeSet(shards) {
				if img == nil {
					got = append(got, "-")
				} else {
					got = append(got, strconv.Itoa(img.Shard))
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

// A shard that is lost and made again from the same stamp of its sibling is another item: usage
// of the two must not count as one.
func TestShardsOfOneStampHaveTheirOwnTime(t *testing.T) {
	t.Parallel()
	sibling := item(10_000, now-500, func(img *store.Image) { img.ShardCount = 2 })
	for name, b := range map[string]*store.Birth{
		"a doubling": plan.Split(sibling, 2, 4, false, now, 7),
		"an orphan":  plan.Orphan(sibling, 1, 3, 4, now, 7),
	} {
		img := plan.ImageOf(&b.Create)
		if img.CreatedAt != now {
			t.Errorf("%s: made at %d, want %d", name, img.CreatedAt, now)
		}
		if b.Donor != nil && img.RefilledAt != sibling.RefilledAt {
			t.Errorf("%s: its stamp is %d, its sibling's %d", name, img.RefilledAt, sibling.RefilledAt)
		}
	}
}
