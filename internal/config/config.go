// Package config reads the configuration that is in force for a bucket, through a cache
// of its levels.
package config

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Reader reads configuration through a cache of levels. A level is cached for the time
// to live from the moment its read began, also if it does not exist.
type Reader struct {
	store   store.Store
	uptime  func() time.Duration // see [memory.Clock.Uptime]
	ttl     time.Duration
	expires bool // whether buckets expire

	levels *memory.Cache[store.ConfigKey, level]
	// evictions counts evictions before they take effect. A read that began before an
	// eviction may return the old value, so the cache does not store it.
	evictions atomic.Uint64
	// epoch counts evictions after they have taken effect. Configuration that was read
	// in an earlier epoch is no longer young.
	epoch atomic.Uint64

	// results has the last result for each resource. Most entities have no levels and no
	// record of their own. Their results are equal, and one is shared by all their buckets.
	results *memory.Cache[string, *plan.Wanted]

	hits, misses  atomic.Int64
	onUnavailable atomic.Pointer[store.OnUnavailable] // the last setting of the system level

	reads   calls.Group[readKey, result]
	rereads calls.Relay[string, *reading] // by resource: of the levels above entities
}

// A level is one level of configuration, as it was read.
type level struct {
	value   *store.Config // nil if the level does not exist
	fetched time.Duration // when the read began
}

// A readKey tells which callers can share a read.
type readKey struct {
	entity, resource string
	shard            int    // of the bucket that the read includes, or -1
	evictions        uint64 // callers after an eviction do not join a read from before it
}

// A result is the answer to a read.
type result struct {
	wanted *plan.Wanted
	image  *store.Image // set if the caller asked for a bucket
	err    error
}

// NewReader returns a reader with an empty cache of at most size levels. ttl is the time
// to live, 0 to cache nothing. expires says that idle buckets expire whose limits are
// not the entity's own. uptime is [memory.Clock.Uptime].
func NewReader(s store.Store, uptime func() time.Duration, ttl time.Duration, size int, expires bool) *Reader {
	return &Reader{
		store: s, uptime: uptime, ttl: ttl, expires: expires,
		levels:  memory.NewCache[store.ConfigKey, level](size),
		results: memory.NewCache[string, *plan.Wanted](size),
	}
}

// TTL is the time to live.
func (r *Reader) TTL() time.Duration { return r.ttl }

// Epoch counts the changes of configuration that this process knows of.
func (r *Reader) Epoch() uint64 { return r.epoch.Load() }

// IsYoung reports whether a configuration was read within the time to live, and in the
// current epoch.
func (r *Reader) IsYoung(w *plan.Wanted, up time.Duration) bool {
	return up-w.Read < r.ttl && w.Epoch == r.epoch.Load()
}

// Evict forgets one level. The cache holds levels, so this covers everything that
// depends on the system level or on an entity's default.
func (r *Reader) Evict(k store.ConfigKey) {
	r.evictions.Add(1)
	r.levels.Drop(k)
	r.epoch.Add(1)
}

// Invalidate forgets all levels.
func (r *Reader) Invalidate() {
	r.evictions.Add(1)
	r.levels.Clear()
	r.epoch.Add(1)
}

// Resolve reads what an entity's bucket is to be, and with b that bucket, in one
// request. Levels younger than the time to live come from the cache. Concurrent callers
// share a request.
func (r *Reader) Resolve(ctx context.Context, entity, resource string, b *store.Bucket) (*plan.Wanted, *store.Image, error) {
	key := readKey{entity, resource, -1, r.evictions.Load()}
	if b != nil {
		key.shard = b.Shard
	}
	found, err := r.reads.Do(ctx, key, func() result { return r.read(ctx, entity, resource, b, r.ttl) })
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return found.wanted, found.image, found.err
}

// Refresh is [Reader.Resolve] without a bucket. It takes from the cache only levels
// younger than a quarter of the time to live. So its result is valid for most of that
// time.
func (r *Reader) Refresh(ctx context.Context, entity, resource string) (*plan.Wanted, error) {
	const young = 4
	found := r.read(ctx, entity, resource, nil, r.ttl/young)
	return found.wanted, found.err
}

// Reread reads every level and the entity's record, consistently, by reads that begin after the
// call. So its result is current, and replaces what the cache holds.
//
// The levels above the entities are one item each, and all new buckets of a resource need them. So
// callers share the reads of those levels (ADR 041). No caller gets one that began before its call.
func (r *Reader) Reread(ctx context.Context, entity, resource string) (*plan.Wanted, error) {
	var own *reading
	above, err := r.rereads.Do(ctx, resource, func() *reading {
		own = r.reread(ctx, entity, resource, plan.ConfigLevels)
		return own
	}, func() { own = r.reread(ctx, entity, resource, plan.EntityLevels) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case own.err != nil:
		return nil, own.err
	case above.err != nil:
		return nil, above.err
	}
	if above != own { // which others read
		copy(own.levels[plan.EntityLevels:], above.levels[plan.EntityLevels:])
	}
	return r.settle(resource, own), nil
}

// reread reads the entity's record and the first levels.
func (r *Reader) reread(ctx context.Context, entity, resource string, levels int) *reading {
	own := r.begin(entity, resource)
	missing := make([]int, levels)
	for i := range missing {
		missing[i] = i
	}
	r.fetch(ctx, own, store.Load{Entity: entity, Consistent: true}, missing)
	return own
}

// read reads the levels that the cache does not hold younger than age.
func (r *Reader) read(ctx context.Context, entity, resource string, b *store.Bucket, age time.Duration) result {
	x := r.begin(entity, resource)
	var missing []int
	for i, k := range x.keys {
		if l, ok := r.levels.Get(k); ok && x.up-l.fetched < age {
			x.levels[i] = l
		} else {
			missing = append(missing, i)
		}
	}
	r.hits.Add(int64(plan.ConfigLevels - len(missing)))
	if r.fetch(ctx, x, store.Load{Entity: entity, Bucket: b}, missing); x.err != nil {
		return result{err: x.err}
	}
	return result{wanted: r.settle(resource, x), image: x.loaded.Image}
}

// A reading is what one request reads, and what was known as it began.
type reading struct {
	keys             [plan.ConfigLevels]store.ConfigKey
	epoch, evictions uint64
	up               time.Duration
	levels           [plan.ConfigLevels]level
	loaded           *store.Loaded
	err              error
}

// begin begins a reading, which has read nothing.
func (r *Reader) begin(entity, resource string) *reading {
	return &reading{keys: plan.ConfigKeys(entity, resource), epoch: r.epoch.Load(), evictions: r.evictions.Load(), up: r.uptime()}
}

// fetch reads what load asks for and the missing levels, and caches these.
func (r *Reader) fetch(ctx context.Context, x *reading, load store.Load, missing []int) {
	for _, i := range missing {
		load.Configs = append(load.Configs, x.keys[i])
	}
	r.misses.Add(int64(len(missing)))
	if x.loaded, x.err = r.store.Load(ctx, &load); x.err != nil {
		of := x.keys[0]
		x.err = fmt.Errorf("read the configuration of %s for %s: %w", of.Resource, of.Entity, x.err)
		return
	}
	for j, i := range missing {
		x.levels[i] = level{value: x.loaded.Configs[j], fetched: x.up}
	}
	if r.ttl > 0 && r.evictions.Load() == x.evictions {
		for _, i := range missing {
			r.keep(x.keys[i], x.levels[i])
		}
	}
}

// settle returns what a bucket is to be by levels that were read, or cached.
func (r *Reader) settle(resource string, x *reading) *plan.Wanted {
	on := store.OnUnavailable("")
	if system := x.levels[plan.ConfigLevels-1].value; system != nil {
		on = system.OnUnavailable
	}
	r.onUnavailable.Store(&on)
	w := inForce(x.levels, x.keys[0].Entity, x.loaded.Entity)
	w.Epoch = x.epoch
	w.Expires = r.expires && w.Level >= plan.EntityLevels
	return r.shared(resource, w)
}

// shared returns an equal result of another read, if that was the last one for the resource.
func (r *Reader) shared(resource string, w *plan.Wanted) *plan.Wanted {
	if last, ok := r.results.Get(resource); ok && last.Equals(w) {
		return last
	}
	r.results.Put(resource, w)
	return w
}

// keep puts a level into the cache, unless the cache has one whose read began later.
func (r *Reader) keep(k store.ConfigKey, l level) {
	if last, ok := r.levels.Get(k); !ok || last.fetched <= l.fetched {
		r.levels.Put(k, l)
	}
}

// inForce picks the configuration in force. All limits come from the first level that has any,
// and all slots from the first one that has those. Each policy comes from the first level that
// sets it; the system level sets none. A mode for a part of the entities becomes that of this one, id.
// entity is its record, nil if it has none.
func inForce(levels [plan.ConfigLevels]level, id string, entity *store.Entity) *plan.Wanted {
	w := &plan.Wanted{Read: levels[0].fetched, Level: plan.ConfigLevels, SlotsAt: plan.ConfigLevels}
	var cascades store.Cascades
	for i, l := range levels {
		w.Read = min(w.Read, l.fetched)
		if l.value == nil {
			continue
		}
		if w.Limits == nil && w.IsEvaluable() && (len(l.value.Limits) > 0 || !l.value.IsEvaluable()) {
			w.Limits, w.Features, w.Level = plan.LimitsOf(id, l.value.Limits), l.value.Features, i
		}
		if w.Slots == nil && len(l.value.Slots) > 0 {
			w.Slots, w.SlotsAt = l.value.Slots, i
		}
		if i == plan.ConfigLevels-1 {
			continue
		}
		w.Switches[i], cascades[i] = l.value.Disabled, l.value.Cascade
	}
	w.Owner = cascades.Owner(entity)
	return w
}

// OnUnavailable returns what an acquire does when the store cannot be reached. It is the
// request's own setting, else the last known setting of the system, else Block.
func (r *Reader) OnUnavailable(asked store.OnUnavailable) store.OnUnavailable {
	if asked != "" {
		return asked
	}
	if last := r.onUnavailable.Load(); last != nil && *last != "" {
		return *last
	}
	return store.Block
}

// Stats are counts since a reader was made.
type Stats struct {
	Hits, Misses int64 // levels found in the cache, and levels read from the store
	Size         int   // levels held, those that do not exist included
}

// Stats reads the counts.
func (r *Reader) Stats() Stats {
	return Stats{Hits: r.hits.Load(), Misses: r.misses.Load(), Size: r.levels.Len()}
}
