package memory

import (
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Recall reports whether the last images show that a bucket, which is to have the given
// limits of w, is short for amounts in tokens. It appends the images of all shards, and
// returns the parent to which the bucket cascades. It is not ok if the images cannot tell.
// An optional bucket may lack limits.
func (a *Account) Recall(images []*store.Image, w *plan.Wanted, limits []store.Limit, consume map[string]int64, optional bool, m Moment, trust, ahead time.Duration) (seen []*store.Image, short bool, parent string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isAsWantedLocked(w, limits, m, trust) {
		return images, false, "", false
	}
	held, found := a.first.img.Limits, 0
	for k := range held {
		tokens, asked := consume[held[k].Name]
		if !asked {
			continue
		}
		found++
		if short || tokens <= 0 {
			continue
		}
		sum, ok := a.heldLocked(k, m.Now, tokens*store.Milli, ahead.Milliseconds())
		if !ok {
			return images, false, "", false
		}
		short = sum < tokens*store.Milli
	}
	if found < len(consume) && !optional {
		return images, false, "", false
	}
	for i := range a.count {
		images = append(images, a.knownLocked(i).img)
	}
	newest, _ := a.newestLocked()
	return images, short, plan.CascadeOf(newest), true
}

// isAsWantedLocked reports whether there is an image of every shard, as young as age,
// and no shard needs a write to have the given limits.
func (a *Account) isAsWantedLocked(w *plan.Wanted, limits []store.Limit, m Moment, age time.Duration) bool {
	if a.count == 0 || a.uneven {
		return false
	}
	for i := range a.count {
		img := a.imageLocked(i, m.Up, age)
		if img == nil || !plan.IsPlain(img, m.Now) || img.ShardCount != a.count || w.DiffersWith(limits, img, m.Now) {
			return false
		}
	}
	return true
}

// heldLocked is what the shards hold together of the limit at index k, by their last images,
// all of which must exist. It is false if the images do not all have that limit at that index:
// then they are not of one configuration. A limit that need not suffice holds enough.
func (a *Account) heldLocked(k int, now, amount, ahead int64) (held int64, ok bool) {
	name := a.first.img.Limits[k].Name
	for i := range a.count {
		img := a.knownLocked(i).img
		if k >= len(img.Limits) || i > 0 && img.Limits[k].Name != name {
			return 0, false
		}
		s := &img.Limits[k]
		if !plan.MustSuffice(img, s) {
			return math.MaxInt64, true
		}
		part := plan.ShareOf(img, s)
		held += max(0, part.Balance(s.Tokens, img.RefilledAt, now)+plan.AheadOf(part, amount, now, ahead))
	}
	return held, true
}
