package limiter

import (
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/lane"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// An account is what a limiter remembers of an entity's bucket for a resource. It has
// the last image of each shard, which tell the number of shards and the parent to which
// the entity cascades. A memory may be behind. Every write is conditional, so a wrong
// memory costs a round trip and never an error. Instants are by [Limiter.uptime].
type account struct {
	mu        sync.Mutex
	shards    []*shard      // by number; nil where nothing is known; at least as many as there are shards
	count     int           // the number of shards, 0 if none was seen
	countedAt time.Duration // when an image last confirmed it
	grewAt    time.Duration // when it last grew
	uneven    bool          // images disagree about the count: a doubling is half done, or the count has just changed
	newest    *store.Image  // the last image seen of any shard
	seenAt    time.Duration // when that was
	// wants is what the bucket is to be, by the last read; nil if there was none.
	wants     *plan.Wanted
	comparing *comparison   // under way; nil if there is none
	failure   error         // why the last read of the configuration failed; nil if it did not
	failedAt  time.Duration // when that was
	// stampedAt is when an item was last found disabled. stampedIn is the limiter's
	// configuration epoch at that time.
	stampedAt time.Duration
	stampedIn uint64

	verifying calls.Flight      // reads of the configuration before a repair
	partial   bool              // one of several shards was repaired, and the others are to be checked
	roundAt   time.Duration     // when the last round of claims on all shards of a shared bucket began
	gathers   lane.Lane[*claim] // the queue of callers that several shards are to serve
	widening  calls.Flight      // doubling, mending and merging
	busy      bool              // such work is under way in the background
	mendedAt  time.Duration     // when mending in the background last began
	warned    bool              // the warning of more writes than all shards sustain was given
}

// A shard is what a limiter remembers of one bucket item.
type shard struct {
	img   *store.Image
	seen  moment // when img was seen
	brake brake
	// takes and credits are the queues of callers that want to write to the item.
	takes, credits lane.Lane[*claim]
	refilling      calls.Flight
	contention     contention
}

type accountKey struct{ entity, resource string }

// Maximum ages of what a limiter remembers, and pauses.
const (
	// countAge is how long the limiter believes a number of shards that no image has
	// confirmed.
	countAge = time.Minute
	// crossing is how long an image keeps out an older image of the same item, because
	// answers may overtake each other.
	crossing = time.Second
	// settling is the time between two doublings, in which the first shows its effect.
	// In that time busy shards earn again what they lack of the hidden write limit.
	settling = time.Second
	// throttledSettling is the same time if partitions still throttle.
	throttledSettling = 250 * time.Millisecond
)

// shardCount is the number of shards to choose from, at least 1.
func (a *account) shardCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(1, a.count)
}

// breadth is how many shards there may be: as many as shard 0 says, and any beyond that
// were seen because shard 0 was made again.
func (a *account) breadth(up, age time.Duration) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.shards) - 1; i >= a.count; i-- {
		if a.imageLocked(i, up, age) != nil {
			return i + 1
		}
	}
	return max(1, a.count)
}

// shardLocked returns the memory of one shard, and makes it if there is none.
func (a *account) shardLocked(i int) *shard {
	for len(a.shards) <= i {
		a.shards = append(a.shards, nil)
	}
	if a.shards[i] == nil {
		a.shards[i] = &shard{contention: a.inheritedLocked(i)}
	}
	return a.shards[i]
}

// shard returns the memory of one shard.
func (a *account) shard(i int) *shard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(i)
}

// image is the last image of a shard, or nil if that is older than age.
func (a *account) image(i int, up, age time.Duration) *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.imageLocked(i, up, age)
}

func (a *account) imageLocked(i int, up, age time.Duration) *store.Image {
	if i >= len(a.shards) || a.shards[i] == nil || up-a.shards[i].seen.up > age {
		return nil
	}
	return a.shards[i].img
}

// images returns the last images of all shards, nil where there is none as young as
// age. all says that none is missing.
func (a *account) images(up, age time.Duration) (images []*store.Image, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	images, all = make([]*store.Image, max(1, a.count)), a.count > 0
	for i := range images {
		images[i] = a.imageLocked(i, up, age)
		all = all && images[i] != nil
	}
	return images, all
}

// owner is the entity to which the bucket is remembered to cascade. It is "" if there
// is none, or if no image was seen within age.
func (a *account) owner(up, age time.Duration) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest == nil || up-a.seenAt > age {
		return ""
	}
	return plan.CascadeOf(a.newest)
}

// last is the last image seen of any shard, nil if there is none.
func (a *account) last() *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest
}

// remember keeps an image and what it says about the number of shards. Shard 0 has the
// true number. Of another shard only a larger number is news, because shard 0 learns a
// new number last. A smaller number is a sign of a merge, and of other shards that must
// be checked.
func (a *account) remember(img *store.Image, m moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(img.Shard)
	if s.img != nil && m.up-s.seen.up < crossing && plan.IsBehind(img, s.img) || a.isMergedLocked(img, m.up) {
		return
	}
	s.img, s.seen = img, m
	a.newest, a.seenAt = img, m.up
	known := a.count
	if img.Shard == 0 || img.ShardCount >= a.count {
		a.count, a.countedAt = img.ShardCount, m.up
	}
	if known > 0 && a.count > known {
		a.grewAt = m.up
	}
	// Shards that are known for the first time agree about their number, as far as is
	// known.
	a.uneven = a.uneven || img.ShardCount != a.count || known > 1 && known != a.count
}

// isMergedLocked reports whether an image shows a shard before a merge that is known.
// The heir of such a shard has a later stamp. If the heir had been the shard's donor
// instead, it would have an earlier one.
func (a *account) isMergedLocked(img *store.Image, up time.Duration) bool {
	if a.count == 0 || img.ShardCount <= a.count {
		return false
	}
	heir := a.imageLocked(img.Shard%a.count, up, crossing)
	return heir != nil && heir.ShardCount == a.count && heir.RefilledAt > img.RefilledAt
}

// hasRetired reports whether a shard no longer exists: the other shards agree that they
// are all.
func (a *account) hasRetired(shard int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > 0 && shard >= a.count && !a.uneven
}

// forget drops the image of a shard that turned out not to exist.
func (a *account) forget(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i >= len(a.shards) || a.shards[i] == nil {
		return
	}
	if a.newest == a.shards[i].img {
		a.newest = nil
	}
	a.shards[i].img = nil
}

// recount records all existing images, just read.
func (a *account) recount(images []*store.Image, m moment) {
	a.mu.Lock()
	count := 0
	for _, img := range images {
		count = max(count, img.ShardCount)
	}
	for i := range a.shards {
		if a.shards[i] != nil && !slices.ContainsFunc(images, func(img *store.Image) bool { return img.Shard == i }) {
			a.shards[i].img = nil
		}
	}
	if a.count > 0 && count > a.count {
		a.grewAt = m.up
	}
	a.count, a.countedAt = count, m.up
	a.mu.Unlock()
	for _, img := range images {
		a.remember(img, m)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count = count
	a.uneven = !plan.AreEven(images)
}

// completed records that all shards now have the number count.
func (a *account) completed(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uneven = a.uneven && a.count != count
}

// relievable reports whether more shards would help against too many writes. There must
// be fewer than the maximum, and the last doubling must have had time to show its
// effect.
func (a *account) relievable(up, settling time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count < MaxShards && (a.grewAt == 0 || up-a.grewAt >= settling)
}

// warn reports whether the warning has not been given yet.
func (a *account) warn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.warned
	a.warned = true
	return first
}

// wanted is what the bucket is to be, by the last read; nil if there was none.
func (a *account) wanted() *plan.Wanted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wants
}

// want records what the bucket is to be, unless a later read is known.
func (a *account) want(w *plan.Wanted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.wants; last == nil || w.Epoch > last.Epoch || w.Epoch == last.Epoch && w.Read >= last.Read {
		a.wants = w
	}
}

// repaired records that one of count shards was repaired.
func (a *account) repaired(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.partial = count > 1
}

// beginSpreading claims the repair of the other shards after one was repaired.
func (a *account) beginSpreading() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	partial := a.partial
	a.partial = false
	return partial
}

// beginComparison returns the comparison under way, if the caller may join it.
// Otherwise it returns a new one, which the caller must carry out: then first is true.
// It returns nil if the last comparison has just failed.
func (a *account) beginComparison(up time.Duration, join bool) (cmp *comparison, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.comparing != nil && join:
		return a.comparing, false
	case a.failure != nil && up-a.failedAt < failedPause:
		return nil, false
	}
	a.comparing = &comparison{done: make(chan struct{})}
	return a.comparing, true
}

// endComparison releases the callers that wait for a comparison.
func (a *account) endComparison(cmp *comparison, up time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.comparing == cmp {
		a.comparing = nil
	}
	a.failure, a.failedAt = cmp.err, up
	close(cmp.done)
}

// read records the result of a read of the configuration.
func (a *account) read(err error, up time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure, a.failedAt = err, up
}

// unreadable is why a recent read of the configuration failed, nil if none did.
func (a *account) unreadable(up time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if up-a.failedAt >= failedPause {
		return nil
	}
	return a.failure
}

// stamp records that an item was found disabled.
func (a *account) stamp(up time.Duration, epoch uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stampedAt, a.stampedIn = up, epoch
}

// isStamped reports whether an item was found disabled less than age ago, in the same
// epoch.
func (a *account) isStamped(up, age time.Duration, epoch uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stampedAt != 0 && up-a.stampedAt < age && a.stampedIn == epoch
}

// isKnown reports whether an image of any shard is remembered that is as young as age.
func (a *account) isKnown(up, age time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest != nil && up-a.seenAt <= age
}
