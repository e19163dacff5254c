package memory

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// An Account is what a process remembers of an entity's bucket for a resource. It has
// the last image of each shard, which tell the number of shards and the parent to which
// the entity cascades. A memory may be behind. Every write is conditional, so a wrong
// memory costs a round trip and never an error. Instants are by [Clock.Uptime].
//
// A process may remember 100,000 buckets, most of them with one shard that no other process
// writes to. The account itself has what such a bucket needs, and rare has the rest.
type Account struct {
	mu        sync.Mutex
	first     shard         // shard 0
	countedAt time.Duration // when an image last confirmed the number of shards
	// wants is what the bucket is to be, by the last read; nil if there was none. Buckets
	// that are to be the same share it.
	wants *plan.Wanted
	rare  *rare // nil until something in it is set

	count int   // the number of shards, 0 if none was seen
	last  int32 // the shard of which an image was seen last

	uneven    bool // images disagree about the count: a doubling is half done, or the count has just changed
	partial   bool // one of several shards was repaired, and the others are to be checked
	reshaping bool // doubling, mending or merging is under way in the background
	warned    bool // the warning of more writes than all shards sustain was given
}

// A shard is what a process remembers of one bucket item.
type shard struct {
	img        *store.Image
	seen       Moment // when img was seen
	brake      *brake // nil until it is pulled
	contention contention
	busy       uint8        // a bit for each position that a write uses
	lost       *[]lostWrite // of which nobody knows what became; nil if there never was one
}

// A Key names an account.
type Key struct{ Entity, Resource string }

// Maximum ages of what a process remembers, and pauses.
const (
	// ImageAge is the age up to which a process plans on an image.
	ImageAge = 5 * time.Minute
	// shardCountAge is how long a process believes a number of shards that no image has
	// confirmed.
	shardCountAge = time.Minute
	// CrossingAge is how long an image keeps out an older image of the same item, because
	// answers may overtake each other.
	CrossingAge = time.Second
	// DoublingPause is the time between two doublings, in which the first shows its effect.
	// In that time loaded shards earn again what they lack of the hidden write limit.
	DoublingPause = time.Second
	// ThrottledDoublingPause is the same time if partitions still throttle.
	ThrottledDoublingPause = 250 * time.Millisecond
)

// ShardCount is the number of shards to choose from, at least 1.
func (a *Account) ShardCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(1, a.count)
}

// Breadth is how many shards there may be: as many as shard 0 says, and any beyond that
// were seen because shard 0 was made again.
func (a *Account) Breadth(up, age time.Duration) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := a.roomLocked() - 1; i >= a.count; i-- {
		if a.imageLocked(i, up, age) != nil {
			return i + 1
		}
	}
	return max(1, a.count)
}

// shardLocked returns the memory of one shard, and makes it if there is none.
func (a *Account) shardLocked(i int) *shard {
	if i == 0 {
		return &a.first
	}
	r := a.rareLocked()
	for len(r.others) < i {
		r.others = append(r.others, nil)
	}
	if r.others[i-1] == nil {
		r.others[i-1] = &shard{contention: a.inheritedLocked(i)}
	}
	return r.others[i-1]
}

// inheritedLocked returns the first contention of a new shard: the shard is shared if
// the shard that it was split from is.
func (a *Account) inheritedLocked(shard int) contention {
	donor := a.knownLocked(shard - 1<<(bits.Len(uint(shard))-1))
	if donor == nil {
		return contention{}
	}
	return contention{othersAt: donor.contention.othersAt, jitter: donor.contention.jitter}
}

// knownLocked returns the memory of one shard, nil if there is none.
func (a *Account) knownLocked(i int) *shard {
	switch {
	case i == 0:
		return &a.first
	case i >= a.roomLocked():
		return nil
	}
	return a.rare.others[i-1]
}

// roomLocked is one more than the highest number of a shard of which something is known.
func (a *Account) roomLocked() int {
	if a.rare == nil {
		return 1
	}
	return 1 + len(a.rare.others)
}

// Image is the last image of a shard, or nil if that is older than age.
func (a *Account) Image(i int, up, age time.Duration) *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.imageLocked(i, up, age)
}

func (a *Account) imageLocked(i int, up, age time.Duration) *store.Image {
	if s := a.knownLocked(i); s != nil && up-s.seen.Up <= age {
		return s.img
	}
	return nil
}

// SeenAt is when the last image of a shard was seen; 0 if there is none.
func (a *Account) SeenAt(i int) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shardLocked(i).seen.Up
}

// Images returns the last images of all shards, nil where there is none as young as
// age. all says that none is missing.
func (a *Account) Images(up, age time.Duration) (images []*store.Image, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	images, all = make([]*store.Image, max(1, a.count)), a.count > 0
	for i := range images {
		images[i] = a.imageLocked(i, up, age)
		all = all && images[i] != nil
	}
	return images, all
}

// Owner is the entity to which the bucket is remembered to cascade. It is "" if there
// is none, or if no image was seen within age.
func (a *Account) Owner(up, age time.Duration) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest, at := a.newestLocked()
	if newest == nil || up-at > age {
		return ""
	}
	return plan.CascadeOf(newest)
}

// Last is the last image seen of any shard, nil if there is none.
func (a *Account) Last() *store.Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest, _ := a.newestLocked()
	return newest
}

// newestLocked is the last image seen of any shard, nil if there is none, and when that was.
func (a *Account) newestLocked() (*store.Image, time.Duration) {
	s := a.knownLocked(int(a.last))
	return s.img, s.seen.Up
}

// Remember keeps an image and what it says about the number of shards. Shard 0 has the
// true number. Of another shard only a larger number is news, because shard 0 learns a
// new number last. A smaller number is a sign of a merge, and of other shards that must
// be checked.
func (a *Account) Remember(img *store.Image, m Moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shardLocked(img.Shard)
	if s.img != nil && m.Up-s.seen.Up < CrossingAge && plan.IsBehind(img, s.img) || a.isMergedLocked(img, m.Up) {
		return
	}
	s.img, s.seen = img, m
	a.last = int32(img.Shard) //nolint:gosec // few
	known := a.count
	if img.Shard == 0 || img.ShardCount >= a.count {
		a.count, a.countedAt = img.ShardCount, m.Up
	}
	if known > 0 && a.count > known {
		a.rareLocked().grewAt = m.Up
	}
	// Shards that are known for the first time agree about their number, as far as is
	// known.
	a.uneven = a.uneven || img.ShardCount != a.count || known > 1 && known != a.count
}

// isMergedLocked reports whether an image shows a shard before a merge that is known.
// The survivor of the merge, which took over the shard's balance, has a later stamp. If it had
// been the shard's donor instead, it would have an earlier one.
func (a *Account) isMergedLocked(img *store.Image, up time.Duration) bool {
	if a.count == 0 || img.ShardCount <= a.count {
		return false
	}
	survivor := a.imageLocked(img.Shard%a.count, up, CrossingAge)
	return survivor != nil && survivor.ShardCount == a.count && survivor.RefilledAt > img.RefilledAt
}

// HasRetired reports whether a shard no longer exists: the other shards agree that they
// are all.
func (a *Account) HasRetired(shard int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count > 0 && shard >= a.count && !a.uneven
}

// Forget drops the image of a shard that turned out not to exist.
func (a *Account) Forget(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.knownLocked(i); s != nil {
		s.img = nil
	}
}

// Recount records all existing images, just read.
func (a *Account) Recount(images []*store.Image, m Moment) {
	a.mu.Lock()
	count := 0
	for _, img := range images {
		count = max(count, img.ShardCount)
	}
	for i := range a.roomLocked() {
		if s := a.knownLocked(i); s != nil && !slices.ContainsFunc(images, func(img *store.Image) bool { return img.Shard == i }) {
			s.img = nil
		}
	}
	if a.count > 0 && count > a.count {
		a.rareLocked().grewAt = m.Up
	}
	a.count, a.countedAt = count, m.Up
	a.mu.Unlock()
	for _, img := range images {
		a.Remember(img, m)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count = count
	a.uneven = !plan.AreEven(images)
}

// Completed records that all shards now have the number count.
func (a *Account) Completed(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uneven = a.uneven && a.count != count
}

// MayDouble reports whether more shards would help against too many writes. There must
// be fewer than the maximum, and the last doubling must have had time to show its
// effect.
func (a *Account) MayDouble(up, settling time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count < store.MaxShards && (a.rare == nil || a.rare.grewAt == 0 || up-a.rare.grewAt >= settling)
}

// Warn reports whether the warning has not been given yet.
func (a *Account) Warn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.warned
	a.warned = true
	return first
}

// Wanted is what the bucket is to be, by the last read; nil if there was none.
func (a *Account) Wanted() *plan.Wanted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wants
}

// Want records what the bucket is to be, unless a later read is known.
func (a *Account) Want(w *plan.Wanted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.wants; last == nil || w.Epoch > last.Epoch || w.Epoch == last.Epoch && w.Read >= last.Read {
		a.wants = w
	}
}

// Repaired records that one of count shards was repaired.
func (a *Account) Repaired(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.partial = count > 1
}

// BeginRepair claims the repair of the other shards after one was repaired.
func (a *Account) BeginRepair() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	partial := a.partial
	a.partial = false
	return partial
}

// SawDisabled records that an item was found disabled, until an instant in milliseconds; 0 is
// without an end.
func (a *Account) SawDisabled(until int64, up time.Duration, epoch uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rareLocked().disabled = &disabling{at: up, epoch: epoch, until: until}
}

// Disabling says whether an item was found disabled less than age ago, in the same epoch, and
// that has not ended.
func (a *Account) Disabling(at Moment, age time.Duration, epoch uint64) store.Disabling {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rare == nil || a.rare.disabled == nil {
		return store.Disabling{}
	}
	d := a.rare.disabled
	if at.Up-d.at >= age || d.epoch != epoch || d.until != 0 && d.until <= at.Now {
		return store.Disabling{}
	}
	return store.Disabling{Disabled: true, Until: d.until, Level: store.SwitchLevels}
}

// IsKnown reports whether an image of any shard is remembered that is as young as age.
func (a *Account) IsKnown(up, age time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest, at := a.newestLocked()
	return newest != nil && up-at <= age
}
