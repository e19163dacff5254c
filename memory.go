package limiter

import (
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// An account is what a limiter remembers of an entity's bucket for a resource:
// the last image of each shard, and through them how many shards there are,
// whether the entity cascades, and to whom. Being a memory it may be behind;
// every write is conditional, so a memory that misleads costs a round trip and
// never an error. Instants are by [Limiter.uptime].
type account struct {
	mu        sync.Mutex
	shards    []*shard      // by number; nil where nothing is known. At least as many as there are shards.
	count     int           // of shards, 0 if none was seen
	countedAt time.Duration // when an image last said so
	grewAt    time.Duration // when it last grew
	uneven    bool          // images disagree about the count: a doubling is half done, or it was changed just now
	newest    *store.Image  // the last image seen of any shard
	seenAt    time.Duration // when that was
	// wants is what the bucket is to be, as was last found out; nil if it never was.
	wants     *wanted
	comparing *comparison   // under way; nil if there is none
	failure   error         // why the last read of the configuration failed; nil if it did not
	failedAt  time.Duration // when that was
	// stampedAt is when an item was last found disabled, and stampedIn the limiter's
	// configuration epoch then.
	stampedAt time.Duration
	stampedIn uint64

	verifying errand        // reads of the configuration for the sake of a repair
	partial   bool          // a shard of several was repaired, and the others are to be looked at
	roundAt   time.Duration // when the last round of claims on all shards of a shared bucket began
	gathers   lane          // lines up the callers that several shards are to serve
	widening  errand        // doublings and repairs of the set of shards
	busy      bool          // one of them goes on in the background
	mendedAt  time.Duration // when the last repair in the background began
	warned    bool          // of more writes than all shards sustain
}

// A shard is what is remembered of one bucket item.
type shard struct {
	img   *store.Image
	seen  moment // when img was seen
	brake brake
	// takes and credits line up the callers that want to write to the item.
	takes, credits lane
	refilling      errand
	contention     contention
}

type accountKey struct{ entity, resource string }

// Ages of what is remembered.
const (
	// countAge is how long a number of shards is believed that no image has
	// confirmed.
	countAge = time.Minute
	// crossing is how long an image keeps one out that is behind it: answers
	// may cross on their way.
	crossing = time.Second
	// settling is how long a doubling is given to show its effect before the
	// next one: what the busy shards lack of the hidden write limit is then
	// earned again.
	settling = time.Second
	// throttledSettling is the same if partitions throttle all the same.
	throttledSettling = 250 * time.Millisecond
)

// shardCount is the number of shards to choose from, at least 1.
func (a *account) shardCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(1, a.count)
}

// breadth is how many shards there may be: those that shard 0 tells of, and others that
// were seen although it does not, because it was made anew.
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

// shardLocked is the memory of one shard, which is made if there is none.
func (a *account) shardLocked(i int) *shard {
	for len(a.shards) <= i {
		a.shards = append(a.shards, nil)
	}
	if a.shards[i] == nil {
		a.shards[i] = &shard{contention: a.inheritedLocked(i)}
	}
	return a.shards[i]
}

// shard is the memory of one shard.
func (a *account) shard(i int) *shard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(i)
}

// image is the last image of a shard, or nil, unless that is older than age.
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

// images are the last images of all shards, nil where there is none as young as
// age. all says that there is none missing.
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

// owner is the entity that the bucket is remembered to cascade to, "" if none,
// or if no image was seen within age.
func (a *account) owner(up, age time.Duration) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest == nil || up-a.seenAt > age {
		return ""
	}
	return cascadeOf(a.newest)
}

// last is the last image seen of any shard, nil if there is none.
func (a *account) last() *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest
}

// cascadeOf is the entity an image cascades to, "" if none.
func cascadeOf(img *store.Image) string {
	if img == nil || !img.Cascade {
		return ""
	}
	return img.Parent
}

// remember keeps an image and what it says about the number of shards: shard 0
// has the truth; of another one only a larger number is news, which shard 0 is
// about to learn, last of all. A smaller one tells of a merge, and that the others
// are to be looked at.
func (a *account) remember(img *store.Image, m moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(img.Shard)
	if s.img != nil && m.up-s.seen.up < crossing && isBehind(img, s.img) || a.isMergedLocked(img, m.up) {
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
	// Shards that are believed in for the first time agree about their number
	// as far as is known.
	a.uneven = a.uneven || img.ShardCount != a.count || known > 1 && known != a.count
}

// isMergedLocked reports whether an image is one of a shard from before a merge that
// is known of: the one that took over what it held is stamped later, and would be
// earlier if it had given birth to it.
func (a *account) isMergedLocked(img *store.Image, up time.Duration) bool {
	if a.count == 0 || img.ShardCount <= a.count {
		return false
	}
	heir := a.imageLocked(img.Shard%a.count, up, crossing)
	return heir != nil && heir.ShardCount == a.count && heir.RefilledAt > img.RefilledAt
}

// hasRetired reports whether a shard is none any more: others that agree are all.
func (a *account) hasRetired(shard int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > 0 && shard >= a.count && !a.uneven
}

// isBehind reports whether an image is an earlier one of the same item. Each write
// moves the stamp on or counts as one; only one that heals the stamp moves it back,
// and that counts.
func isBehind(i, other *store.Image) bool {
	if i.RefilledAt != other.RefilledAt {
		return i.RefilledAt < other.RefilledAt && i.Writes.ConsumedSince(&other.Writes) <= 0
	}
	return i.ShardCount == other.ShardCount && i.Writes.ConsumedSince(&other.Writes) < 0
}

// forget drops a shard that turned out not to exist.
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

// recount takes in all the images that there are, read just now.
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
	a.uneven = !areEven(images)
}

// completed notes that all shards were brought to a number.
func (a *account) completed(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uneven = a.uneven && a.count != count
}

// relievable reports whether more shards would help against too many writes:
// fewer than there may be, and not grown within the time that it takes to see
// what that did.
func (a *account) relievable(up, settling time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count < MaxShards && (a.grewAt == 0 || up-a.grewAt >= settling)
}

// warn reports whether a warning has not been given yet.
func (a *account) warn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.warned
	a.warned = true
	return first
}

// wanted is what the bucket is to be, as was last found out; nil if it never was.
func (a *account) wanted() *wanted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wants
}

// want notes what the bucket is to be, unless a later read has told.
func (a *account) want(w *wanted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.wants; last == nil || w.epoch > last.epoch || w.epoch == last.epoch && w.read >= last.read {
		a.wants = w
	}
}

// repaired notes that one of a number of shards was brought to its configuration.
func (a *account) repaired(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.partial = count > 1
}

// beginSpreading claims to bring the other shards to the configuration that one was
// brought to.
func (a *account) beginSpreading() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	partial := a.partial
	a.partial = false
	return partial
}

// beginComparison returns the comparison that is under way, if it may be joined, and
// else a new one, which the caller is to carry out: then first is true. It returns nil
// if the last one failed just now.
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

// endComparison lets those go on who wait for a comparison.
func (a *account) endComparison(cmp *comparison, up time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.comparing == cmp {
		a.comparing = nil
	}
	a.failure, a.failedAt = cmp.err, up
	close(cmp.done)
}

// read notes what became of a read of the configuration.
func (a *account) read(err error, up time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure, a.failedAt = err, up
}

// unreadable is why the configuration could not be read just now, nil if it could be.
func (a *account) unreadable(up time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if up-a.failedAt >= failedPause {
		return nil
	}
	return a.failure
}

// stamp notes that an item was found disabled.
func (a *account) stamp(up time.Duration, epoch uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stampedAt, a.stampedIn = up, epoch
}

// isStamped reports whether an item was found disabled less than an age ago.
func (a *account) isStamped(up, age time.Duration, epoch uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stampedAt != 0 && up-a.stampedAt < age && a.stampedIn == epoch
}

// isKnown reports whether an image of any shard is remembered that is as young as
// age.
func (a *account) isKnown(up, age time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest != nil && up-a.seenAt <= age
}
