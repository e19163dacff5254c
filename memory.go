package limiter

import "sync"

// An account is what a limiter remembers of an entity's bucket for a resource:
// the last image of each shard, and through them whether the entity cascades,
// and to whom. Being a memory it may be behind; every write is conditional, so
// a memory that misleads costs a round trip and never an error.
type account struct {
	mu       sync.Mutex
	shards   []*Image // by shard; nil where none was seen. As many as there are shards.
	newest   *Image   // the last image seen of any shard
	seenAt   int64    // when that was, in milliseconds
	checking bool     // a comparison with the configuration is under way
	// checked is when the configuration was read that the bucket was last
	// compared with, in milliseconds, and epoch the limiter's configuration
	// epoch at that time. 0 is never.
	checked int64
	epoch   uint64
	// overridden says that a request's own limits were written to the bucket
	// since.
	overridden bool
	// unlimited says that the comparison found no limits configured and no
	// bucket to exist: a parent nobody limits.
	unlimited bool
}

type accountKey struct{ entity, resource string }

// shardCount is the number of shards to choose from, at least 1.
func (a *account) shardCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(1, len(a.shards))
}

// image is the last image of a shard, or nil, unless that is older than age.
func (a *account) image(shard int, now, age int64) *Image {
	a.mu.Lock()
	defer a.mu.Unlock()
	if shard >= len(a.shards) || now-a.seenAt > age {
		return nil
	}
	return a.shards[shard]
}

// owner is whether and where the bucket cascades, if any image was seen within
// age.
func (a *account) owner(now, age int64) (parent string, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest == nil || now-a.seenAt > age {
		return "", false
	}
	return cascadeOf(a.newest), true
}

// cascadeOf is the entity an image cascades to, "" if none.
func cascadeOf(img *Image) string {
	if img == nil || !img.Cascade {
		return ""
	}
	return img.Parent
}

// remember keeps an image. Two that cross on their way may be kept in the wrong
// order; the next write then meets the newer one.
func (a *account) remember(img *Image, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.shards) <= img.Shard || len(a.shards) < img.ShardCount {
		a.shards = append(a.shards, nil)
	}
	a.shards[img.Shard], a.newest, a.seenAt, a.unlimited = img, img, now, false
}

// forget drops a shard that turned out not to exist.
func (a *account) forget(shard int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if shard >= len(a.shards) {
		return
	}
	if a.newest == a.shards[shard] {
		a.newest = nil
	}
	a.shards[shard] = nil
}

// due reports whether the bucket was last compared with configuration read
// before the instant given or in another epoch.
func (a *account) due(before int64, epoch uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checked < before || a.epoch != epoch
}

// beginCheck claims a comparison that is due for one caller.
func (a *account) beginCheck(before int64, epoch uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.checking || a.checked >= before && a.epoch == epoch {
		return false
	}
	a.checking = true
	return true
}

func (a *account) endCheck() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checking = false
}

// wasChecked notes a comparison with configuration read at the instant given.
func (a *account) wasChecked(at int64, epoch uint64, unlimited bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checked, a.epoch, a.unlimited, a.overridden = max(a.checked, at), epoch, unlimited, false
}

// override notes that a request's own limits were written to the bucket.
func (a *account) override() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overridden = true
}

// isOverridden reports whether the bucket may have limits that came with a
// request.
func (a *account) isOverridden() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.overridden
}

// isUnlimited reports whether the bucket is known to have no limits, by a
// comparison with configuration read since the instant given.
func (a *account) isUnlimited(since int64, epoch uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unlimited && a.checked >= since && a.epoch == epoch
}
