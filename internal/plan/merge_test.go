package plan_test

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A merge adds what a shard holds by now to its survivor. Takes of the survivor between image
// and write do not refuse it, except at the first attempt for a survivor that has overflowed:
// they would make room that the cut leaves empty. A later attempt has less time, and takes
// that loss.
func TestAMergeAndTheTakesBetween(t *testing.T) {
	t.Parallel()
	const ago, refuses = 10_000, true // a shard earns 5 tokens in that time, up to 30
	for name, c := range map[string]struct {
		survivor, retired int64 // tokens ten seconds ago
		again             bool  // an attempt was refused before
		left              int64 // tokens
		take              bool  // a take between refuses the merge
	}{
		"room on both":                 {10, 7, false, 15 + 12, !refuses},
		"room on both, again":          {10, 7, true, 15 + 12, !refuses},
		"debts":                        {-20, -7, false, -15 - 2, !refuses},
		"the survivor overflows":       {28, 7, false, 30 + 12, refuses},
		"the survivor overflows again": {28, 7, true, 30 + 12, !refuses},
		"the other one overflows":      {10, 28, false, 15 + 30, !refuses},
	} {
		shard := func(i int, tokens int64) *store.Image {
			return item(tokens*store.Milli, now-ago, func(img *store.Image) { img.Shard, img.ShardCount = i, 2 })
		}
		images := []*store.Image{shard(0, c.survivor), shard(1, c.retired)}
		var before []*store.Image
		if c.again {
			before = images
		}
		pairs := plan.PairsOf(images, before, now, 7)
		s, _ := plan.AfterRefill(pairs[0].Survivor).Limit("rpm")
		if len(pairs) != 1 || pairs[0].Retired != images[1] || s.Tokens != c.left*store.Milli {
			t.Errorf("%s: %d pairs, and %d are left, want %d tokens", name, len(pairs), s.Tokens, c.left)
		}
		ch := pairs[0].Survivor.Changes[0]
		if ch.AtLeast > c.survivor*store.Milli || ch.AtMost < c.survivor*store.Milli {
			t.Errorf("%s: the survivor is refused as it was seen", name)
		}
		if got := ch.AtLeast != math.MinInt64; got != c.take {
			t.Errorf("%s: a take refuses the merge: %t, want %t", name, got, c.take)
		}
		if least := pairs[0].AtLeast[0]; least != c.retired*store.Milli {
			t.Errorf("%s: the other one must hold %d", name, least)
		}
	}
}
