package memory_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/store"
)

// A set of shards is mended while its images disagree about their number, but not again at
// once. A doubling or a mending that has completed that number ends it; one that has
// completed another number, which others have changed since, does not.
func TestAMendedSetIsNotMendedAgain(t *testing.T) {
	t.Parallel()
	shard := func(i, count int) *store.Image {
		return &store.Image{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4", Shard: i}, ShardCount: count, RefilledAt: start.Now}
	}
	for name, c := range map[string]struct {
		images    []*store.Image
		completed int
		mends     bool
	}{
		"alike, nothing completed":   {[]*store.Image{shard(0, 2), shard(1, 2)}, 0, false},
		"alike, completed":           {[]*store.Image{shard(0, 2), shard(1, 2)}, 2, false},
		"alike, after a later merge": {[]*store.Image{shard(0, 2), shard(1, 2)}, 4, false},
		"half done":                  {[]*store.Image{shard(0, 2), shard(1, 1)}, 0, true},
		"half done, then completed":  {[]*store.Image{shard(0, 2), shard(1, 1)}, 2, false},
		"half done, another number":  {[]*store.Image{shard(0, 2), shard(1, 1)}, 4, true},
	} {
		acct := &memory.Account{}
		acct.Recount(c.images, start)
		if c.completed != 0 {
			acct.Completed(c.completed)
		}
		if got := acct.BeginMending(start.Up); got != c.mends {
			t.Errorf("%s: mends %t, want %t", name, got, c.mends)
		}
		if acct.BeginMending(start.Up + memory.DoublingPause) {
			t.Errorf("%s: mends while mending is under way, or later without reason", name)
		}
		if acct.EndReshaping(); acct.BeginMending(start.Up + memory.DoublingPause - 1) {
			t.Errorf("%s: mends again at once", name)
		}
		if got := acct.BeginMending(start.Up + memory.DoublingPause); got != c.mends {
			t.Errorf("%s: mends again %t, want %t", name, got, c.mends)
		}
	}
}
