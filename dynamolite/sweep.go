package dynamolite

import (
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// sweepInterval is the time between two sweeps if the options do not say.
	sweepInterval = time.Minute
	// sweepItems is how many items are looked at before the lock is let go.
	sweepItems = 1024
	// longestSweepSleep is how long the sweep sleeps at most. Its timer does not notice that the machine's clock is
	// set, or that the machine is suspended.
	longestSweepSleep = 10 * time.Minute
	// never is the expiry of an item that does not expire.
	never = math.MaxInt64
)

// sweeper is the state of the sweep for expired items. The sweep sleeps until the earliest expiry that it knows, and from
// there to the next multiple of Options.SweepInterval since its start. Items thus go when they would if the sweep
// ran at every multiple. A write with an earlier expiry wakes the sweep.
//
//	sweep    expected = never · read the earliest expiry of each shard · expected = their minimum · sleep
//	write                           lower the earliest expiry of a shard · before expected? wake the sweep
//
// Suppose that a write lowers the expiry of a shard after the sweep has read it. The write then finds expected to be
// never, or the minimum without the write, and wakes the sweep if its expiry is earlier. An expiry that moves later, or is
// removed, wakes nobody: the sweep finds the shard without expired items, and learns its earliest expiry.
//
// With Options.Now, the sweep cannot know when that clock reaches an instant. The sweep then looks at the clock every
// interval, and reads the items of a shard only if one may have expired.
type sweeper struct {
	started atomic.Bool
	every   time.Duration // from one sweep to the next
	polls   bool          // the database's clock is not the machine's
	// expected is the expiry until which the sweep sleeps, in seconds since 1970.
	expected atomic.Int64
	woken    chan struct{} // holds one signal
	last     atomic.Int64  // when it last looked for expired items, in seconds since 1970
}

// wakeFor wakes the sweep if it sleeps for a later expiry.
func (s *sweeper) wakeFor(at int64) {
	if at >= s.expected.Load() {
		return
	}
	select {
	case s.woken <- struct{}{}:
	default: // it has a signal to come
	}
}

// startSweeping starts the sweep for expired items if it has not been started before, and wakes it for the tables
// whose expiries are not known. It goes on until the database is closed.
func (db *DB) startSweeping() {
	if db.sweeper.started.CompareAndSwap(false, true) {
		start := db.now()
		db.goes(func() { db.sweepOnAndOn(start) })
	}
	db.sweeper.wakeFor(unknownExpiry)
}

func (db *DB) sweepOnAndOn(start time.Time) {
	s := &db.sweeper
	plan := sweepPlan{every: s.every, start: start}
	timer := time.NewTimer(s.every)
	defer timer.Stop()
	for {
		select {
		case <-db.stopping:
			return
		case <-timer.C:
			if err := db.sweep(); err != nil {
				return // the journal has failed, and every operation says so
			}
			if s.polls {
				timer.Reset(s.every)
				continue
			}
			plan.swept(db.now())
		case <-s.woken:
			if s.polls {
				continue
			}
		}
		at := db.expectExpiry()
		timer.Reset(plan.sleep(db.now(), at))
	}
}

// sweepPlan works out when the next sweep begins: at a multiple of the interval since the start.
type sweepPlan struct {
	every time.Duration
	start time.Time
	turn  int64 // the multiple of the last sweep
}

// swept notes that a sweep has ended.
func (s *sweepPlan) swept(now time.Time) { s.turn = int64(now.Sub(s.start) / s.every) }

// sleep is the time from now to the first sweep that finds an item expired, given the item's expiry in seconds since 1970.
// If the expiry is far away, it is the time to an earlier sweep.
func (s *sweepPlan) sleep(now time.Time, at int64) time.Duration {
	elapsed := now.Sub(s.start)
	due := elapsed
	switch {
	case at >= now.Add(longestSweepSleep).Unix():
		due += longestSweepSleep
	case at >= now.Unix():
		due += time.Unix(at+1, 0).Sub(now) // an item is expired when its second is over
	}
	next := max(s.turn+1, int64((due+s.every-1)/s.every))
	return time.Duration(next)*s.every - elapsed
}

// expectExpiry is the earliest expiry of all items, or an earlier instant. A write with an earlier expiry wakes the sweep
// from now on.
func (db *DB) expectExpiry() int64 {
	db.sweeper.expected.Store(never)
	at := int64(never)
	for _, t := range db.allTables() {
		if x := t.schema().expiries; x != nil {
			at = min(at, x.least())
		}
	}
	db.sweeper.expected.Store(at)
	return at
}

func (db *DB) allTables() []*table {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return slices.Collect(maps.Values(db.tables))
}

// sweep deletes what has expired by now.
func (db *DB) sweep() error {
	p := pastOf(db.now())
	// An item that expired too long ago stays, and the sweep forgets its expiry. If the clock went back, the item may
	// be due again.
	all := p.to < db.sweeper.last.Swap(p.to)
	for _, t := range db.allTables() {
		for shard := range t.shards {
			if err := db.sweepShard(t, shard, p, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepShard deletes the expired items of a shard. It looks for them if there may be any, or if all is set. It
// finds them under a lock that lets readers in, some at a time, and deletes them one by one.
func (db *DB) sweepShard(t *table, shard int, p past, all bool) error {
	x := t.schema().expiries
	if x == nil || x.earliest[shard].Load() >= p.to && !all {
		return nil
	}
	x.earliest[shard].Store(never) // the items that stay lower it, and so do writes from now on
	for from, more := "", true; more; {
		var keys []string
		keys, from, more = t.expired(shard, from, p)
		for _, key := range keys {
			if err := db.expire(t, itemKey{shard: shard, full: key}, p); err != nil {
				return err
			}
		}
		if err := db.stopped(); err != nil {
			return err
		}
	}
	return nil
}

// expired returns the keys of expired items of a shard among the next from a key on, and where to
// go on if there are more. It remembers when the others expire.
func (t *table) expired(shard int, from string, p past) (keys []string, next string, more bool) {
	s := &t.shards[shard]
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := t.schema().expiries
	if x == nil {
		return nil, "", false
	}
	seen, left := 0, int64(never)
	s.ascendLocked(keyRange{low: from}, func(r *record) bool {
		if seen == sweepItems {
			next, more = r.key, true
			return false
		}
		seen++
		switch at := expiryOf(r, x.attribute); {
		case p.has(at):
			keys = append(keys, r.key)
		case at >= p.to:
			left = min(left, at)
		}
		return true
	})
	x.lower(shard, left)
	return keys, next, more
}

// expire deletes an item if it is still there, still expired and not about to be written. It does
// what a delete does, but nobody pays for it.
func (db *DB) expire(t *table, key itemKey, p past) error {
	w := write{kind: writeDelete, table: t, key: key}
	s := t.shard(&key)
	s.mu.Lock()
	defer s.mu.Unlock()
	x, old := t.schema().expiries, s.getLocked(key.full)
	if x == nil || old == nil {
		return nil
	}
	at := expiryOf(old, x.attribute)
	if !p.has(at) {
		return nil
	}
	if s.takenLocked(key.full) {
		x.lower(key.shard, at) // the next sweep looks again
		return nil
	}
	e, err := w.evaluate(old)
	if err != nil {
		return err
	}
	c := w.change(&e)
	c.expired = true
	pos, err := db.note(nil, c)
	if err != nil {
		return err
	}
	w.applyLocked(&e, pos)
	return nil
}

// unknownExpiry stands for the expiry of items that the sweep has not read. It has always passed.
const unknownExpiry = 0

// expiries is what the sweep knows of when a table's items expire. Each time a table gets a time to live, it gets new
// expiries, which know nothing of an earlier attribute.
type expiries struct {
	attribute string
	sweeper   *sweeper
	// earliest is, for each shard, the earliest expiry of its items or an earlier instant, in seconds since 1970. Writes
	// lower it while they hold the shard. Only the sweep raises it, before it reads all items of the shard.
	earliest [tableShards]atomic.Int64
}

// least is the earliest expiry of all items, or earlier.
func (x *expiries) least() int64 {
	at := int64(never)
	for shard := range x.earliest {
		at = min(at, x.earliest[shard].Load())
	}
	return at
}

// lower notes that an item of a shard expires at an instant.
func (x *expiries) lower(shard int, at int64) {
	earliest := &x.earliest[shard]
	for {
		known := earliest.Load()
		if known <= at {
			return
		}
		if earliest.CompareAndSwap(known, at) {
			break
		}
	}
	x.sweeper.wakeFor(at)
}

// wrote notes when the item of a write expires.
func (x *expiries) wrote(shard int, e *effect) {
	if x == nil || e.touched != nil && !slices.Contains(e.touched, x.attribute) {
		return
	}
	x.lower(shard, expiryOf(e.new, x.attribute))
}
