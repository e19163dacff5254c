package memory

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Choice is the next place for a claim.
type Choice uint8

// Where a claim goes next.
const (
	Alone    Choice = iota // to one shard
	Together               // to all shards: no shard is known to serve it alone
	Resting                // nowhere until a shard that could serve it has earned its next write
	Nowhere                // every shard that could serve it is braked
)

// Choose picks a shard at random among those that are not known to be short. It leaves
// out shards that were tried, that were throttled just now, or that must first earn
// their next write. The caller is about to write to the chosen shard.
func (a *Account) Choose(terms *plan.Terms, tried, resting []int, m Moment, trust time.Duration, draw func(int64) int64) (next Choice, shard int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		if next == Alone {
			a.shardLocked(shard).brake.test(m.Up)
		}
	}()
	n := max(1, a.count)
	if n > 1 && m.Up-a.countedAt > shardCountAge && !slices.Contains(tried, 0) {
		return Alone, 0 // to learn the number of shards again
	}
	var room [store.MaxShards]int
	open, exist, braked, rest := room[:0], n, 0, 0
	for i := range n {
		s := a.knownLocked(i)
		switch {
		case a.isUnbornLocked(i, n):
			exist--
		case slices.Contains(tried, i) || n > 1 && a.isShortLocked(terms, i, n, m, trust):
		case s != nil && s.brake.rests(m.Up):
			braked++
		case slices.Contains(resting, i) || n > 1 && a.isRestingLocked(i, m, trust):
			rest++
		default:
			open = append(open, i)
		}
	}
	switch {
	case len(open) > 1:
		return Alone, open[draw(int64(len(open)))]
	case len(open) == 1:
		return Alone, open[0]
	case rest > 0 && rest+braked == exist:
		return Resting, 0
	case braked > 0 && rest+braked == exist || len(tried) == n && n == 1:
		return Nowhere, 0
	}
	return Together, 0
}

// isUnbornLocked reports whether a shard is known not to have been split off its
// sibling yet.
func (a *Account) isUnbornLocked(i, n int) bool {
	if s := a.knownLocked(i); i < n/2 || s != nil && s.img != nil {
		return false
	}
	donor := a.knownLocked(i - n/2)
	return donor != nil && donor.img != nil && donor.img.ShardCount <= n/2
}

// isRestingLocked reports whether a shard is known to have used its hidden write limit
// for now.
func (a *Account) isRestingLocked(i int, m Moment, trust time.Duration) bool {
	img := a.imageLocked(i, m.Up, trust)
	return img != nil && img.Writes.Name != "" && plan.WritesLeft(img, m.Now) < plan.WriteCost
}

// isShortLocked reports whether a shard is known to be short for a claim. Its share is
// too small, or it recently held too little and has not earned enough since.
func (a *Account) isShortLocked(terms *plan.Terms, i, n int, m Moment, trust time.Duration) bool {
	img := a.imageLocked(i, m.Up, trust)
	like := img
	if like == nil {
		like, _ = a.newestLocked()
	}
	if like == nil || terms.Target == nil || terms.Target.Differs(like, m.Now) {
		return false
	}
	if plan.NeedsBeginning(like, terms.Amounts, m.Now) {
		return true // all shards begin the session together
	}
	for _, amount := range terms.Amounts {
		s, ok := like.Limit(amount.Limit)
		if !ok || amount.Milli <= 0 || !plan.MustSuffice(like, &s) {
			continue
		}
		part := plan.Share(*s.Params, i, n, m.Now)
		part.Opened = s.Opened()
		if amount.Milli > part.Capacity || img != nil && !part.Admits(s.Tokens, img.RefilledAt, m.Now, amount.Milli) {
			return true
		}
	}
	return false
}
