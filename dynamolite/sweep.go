package dynamolite

import (
	"maps"
	"slices"
	"time"
)

const (
	// sweepInterval is the time between two sweeps if the options do not say.
	sweepInterval = time.Minute
	// sweepItems is how many items are looked at before the lock is let go.
	sweepItems = 1024
)

// startSweeping starts the sweep for expired items, if it has not been started before. It goes on
// until the database is closed.
func (db *DB) startSweeping() {
	if db.sweeping.CompareAndSwap(false, true) {
		db.goes(db.sweepOnAndOn)
	}
}

func (db *DB) sweepOnAndOn() {
	tick := time.NewTicker(db.sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-db.stopping:
			return
		case <-tick.C:
			if err := db.sweep(); err != nil {
				return // the journal has failed, and every operation says so
			}
		}
	}
}

// sweep deletes what has expired by now.
func (db *DB) sweep() error {
	p := pastOf(db.now())
	db.mu.RLock()
	tables := slices.Collect(maps.Values(db.tables))
	db.mu.RUnlock()
	for _, t := range tables {
		for shard := range t.shards {
			if err := db.sweepShard(t, shard, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepShard deletes the expired items of a shard. It finds them under a lock that lets readers
// in, some at a time, and deletes them one by one.
func (db *DB) sweepShard(t *table, shard int, p past) error {
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
// go on if there are more.
func (t *table) expired(shard int, from string, p past) (keys []string, next string, more bool) {
	s := &t.shards[shard]
	s.mu.RLock()
	defer s.mu.RUnlock()
	attribute := t.schema().expiry
	if attribute == "" {
		return nil, "", false
	}
	seen := 0
	s.ascendLocked(keyRange{low: from}, func(r *record) bool {
		if seen == sweepItems {
			next, more = r.key, true
			return false
		}
		seen++
		if p.expired(r, attribute) {
			keys = append(keys, r.key)
		}
		return true
	})
	return keys, next, more
}

// expire deletes an item if it is still there, still expired and not about to be written. It does
// what a delete does, but nobody pays for it.
func (db *DB) expire(t *table, key itemKey, p past) error {
	w := write{kind: writeDelete, table: t, key: key}
	s := t.shard(&key)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.getLocked(key.full)
	if old == nil || s.takenLocked(key.full) || !p.expired(old, t.schema().expiry) {
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
