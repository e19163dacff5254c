package limiter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// resolved is the configuration in force for an entity's bucket, and the entity's
// record.
type resolved struct {
	limits   []Limit // by name; empty if no level has limits
	level    int     // the level that has them, an index into configKeys; configLevels if none has
	disabled bool
	cascade  store.Policy
	foreign  string
	fetched  time.Duration // when the read of the oldest level began, by [Limiter.uptime]
	meta     *Entity       // nil if the entity has no record
	image    *store.Image  // set if the caller asked for a bucket
}

// config reads configuration through a cache. An entry is valid for ttl from the
// moment its read began, also for a level that does not exist.
type config struct {
	store  Store
	uptime func() time.Duration // the limiter's
	ttl    time.Duration

	entries *memory.Cache[ConfigKey, configEntry]
	// evictions counts evictions. A read that began before an eviction may return the
	// old value, so the cache does not store it.
	evictions atomic.Uint64

	hits, misses  atomic.Int64
	onUnavailable atomic.Pointer[OnUnavailable] // the last setting of the system level

	mu      sync.Mutex
	flights map[flightKey]*flight
}

type configEntry struct {
	value   *Config // nil if the level does not exist
	fetched time.Duration
}

// A flight is a read in progress. Later callers wait for it instead of sending their
// own.
type flight struct {
	done  chan struct{}
	value resolved
	err   error
}

type flightKey struct {
	entity, resource string
	shard            int    // of the bucket that the read includes, or -1
	evictions        uint64 // callers after an eviction do not join a read from before it
}

func newConfig(store Store, uptime func() time.Duration, ttl time.Duration, size int) *config {
	return &config{
		store: store, uptime: uptime, ttl: ttl,
		entries: memory.NewCache[ConfigKey, configEntry](size),
		flights: make(map[flightKey]*flight),
	}
}

// evict forgets one level. Entries are by level, so this covers everything that
// depends on the system level or on an entity's default.
func (c *config) evict(k ConfigKey) {
	c.evictions.Add(1)
	c.entries.Drop(k)
}

func (c *config) invalidate() {
	c.evictions.Add(1)
	c.entries.Clear()
}

// resolve reads the configuration of an entity's bucket and the entity's record, and
// with b that bucket, in one request. Levels younger than the time to live come from
// the cache. Concurrent callers share a request.
func (c *config) resolve(ctx context.Context, entity, resource string, b *Bucket) (resolved, error) {
	key := flightKey{entity, resource, -1, c.evictions.Load()}
	if b != nil {
		key.shard = b.Shard
	}
	c.mu.Lock()
	if f, ok := c.flights[key]; ok {
		c.mu.Unlock()
		select {
		case <-f.done:
			return f.value, f.err
		case <-ctx.Done():
			return resolved{}, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
	f := &flight{done: make(chan struct{})}
	c.flights[key] = f
	c.mu.Unlock()

	f.value, f.err = c.load(ctx, entity, resource, b, c.ttl, false)

	c.mu.Lock()
	delete(c.flights, key)
	c.mu.Unlock()
	close(f.done)
	return f.value, f.err
}

// refresh is [config.resolve], but takes from the cache only levels younger than a
// quarter of the time to live. So its result is valid for most of that time.
func (c *config) refresh(ctx context.Context, entity, resource string) (resolved, error) {
	const young = 4
	return c.load(ctx, entity, resource, nil, c.ttl/young, false)
}

// reread reads every level and the record, consistently. Its result is current, so it
// replaces the cache's entries.
func (c *config) reread(ctx context.Context, entity, resource string) (resolved, error) {
	return c.load(ctx, entity, resource, nil, 0, true)
}

// load reads the levels for which the cache has no entry younger than age.
func (c *config) load(ctx context.Context, entity, resource string, b *Bucket, age time.Duration, consistent bool) (resolved, error) {
	evictions, up := c.evictions.Load(), c.uptime()
	keys := plan.ConfigKeys(entity, resource)
	var entries [plan.ConfigLevels]configEntry
	var missing []int
	load := store.Load{Entity: entity, Bucket: b, Consistent: consistent}
	for i, k := range keys {
		if e, ok := c.entries.Get(k); ok && up-e.fetched < age {
			entries[i] = e
			continue
		}
		missing = append(missing, i)
		load.Configs = append(load.Configs, k)
	}
	c.hits.Add(int64(plan.ConfigLevels - len(missing)))
	c.misses.Add(int64(len(missing)))
	loaded, err := c.store.Load(ctx, &load)
	if err != nil {
		return resolved{}, fmt.Errorf("read the configuration of %s for %s: %w", resource, entity, err)
	}
	for j, i := range missing {
		entries[i] = configEntry{value: loaded.Configs[j], fetched: up}
	}
	if c.ttl > 0 && c.evictions.Load() == evictions {
		for _, i := range missing {
			c.keep(keys[i], entries[i])
		}
	}
	on := OnUnavailable("")
	if system := entries[plan.ConfigLevels-1].value; system != nil {
		on = system.OnUnavailable
	}
	c.onUnavailable.Store(&on)
	r := settle(entries)
	r.meta, r.image = loaded.Entity, loaded.Image
	return r, nil
}

// keep puts an entry into the cache, unless the cache has one whose read began later.
func (c *config) keep(k ConfigKey, e configEntry) {
	if last, ok := c.entries.Get(k); !ok || last.fetched <= e.fetched {
		c.entries.Put(k, e)
	}
}

// settle picks the configuration in force. All limits come from the first level that
// has any. Each policy comes from the first level that sets it; the system level sets
// none.
func settle(entries [plan.ConfigLevels]configEntry) resolved {
	r := resolved{fetched: entries[0].fetched, level: plan.ConfigLevels}
	disabled := store.Inherit
	for i, e := range entries {
		r.fetched = min(r.fetched, e.fetched)
		if e.value == nil {
			continue
		}
		if r.limits == nil && r.foreign == "" && (len(e.value.Limits) > 0 || e.value.Foreign != "") {
			r.limits, r.foreign, r.level = e.value.Limits, e.value.Foreign, i
		}
		if i == plan.ConfigLevels-1 {
			continue
		}
		if disabled == store.Inherit {
			disabled = e.value.Disabled
		}
		if r.cascade == store.Inherit {
			r.cascade = e.value.Cascade
		}
	}
	r.disabled = disabled == store.Yes
	return r
}

// unavailable returns what an acquire does when the store cannot be reached. It is
// the request's own setting, else the last known setting of the system, else Block.
func (c *config) unavailable(asked OnUnavailable) OnUnavailable {
	if asked != "" {
		return asked
	}
	if last := c.onUnavailable.Load(); last != nil && *last != "" {
		return *last
	}
	return Block
}

// CacheStats counts what the configuration cache did.
type CacheStats struct {
	Hits, Misses int64         // levels found in the cache, and levels read from the store
	Size         int           // levels held, those that do not exist included
	TTL          time.Duration // how long the cache holds a level
}

func (c *config) stats() CacheStats {
	return CacheStats{Hits: c.hits.Load(), Misses: c.misses.Load(), Size: c.entries.Len(), TTL: c.ttl}
}

// sortLimits returns a copy of limits, sorted by name.
func sortLimits(limits []Limit) []Limit {
	sorted := slices.Clone(limits)
	slices.SortFunc(sorted, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}
