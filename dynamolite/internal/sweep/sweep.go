// Package sweep deletes expired items. A sweep does what a delete does, item by item, and nobody pays
// for it.
package sweep

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/catalog"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/history"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/request"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/storage"
	"github.com/zeroae/zae-limiter-go/dynamolite/internal/table"
)

const (
	// sweepInterval is the time between two sweeps if the options do not say.
	sweepInterval = time.Minute
	// sweepItems is how many items are looked at before the lock is let go.
	sweepItems = 1024
	// longestSweepSleep is how long the sweep sleeps at most. Its timer does not notice that the machine's clock is
	// set, or that the machine is suspended.
	longestSweepSleep = 10 * time.Minute
)

// Sweeper is the state of the sweep for expired items. The sweep sleeps until the earliest expiry that it knows, and from
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
type Sweeper struct {
	Tables     *catalog.Tables
	log        *history.Log
	background *catalog.Background
	now        func() time.Time

	started atomic.Bool
	every   time.Duration // from one sweep to the next
	polls   bool          // the database's clock is not the machine's
	// expected is the expiry until which the sweep sleeps, in seconds since 1970.
	expected atomic.Int64
	woken    chan struct{} // holds one signal
	last     atomic.Int64  // when it last looked for expired items, in seconds since 1970
}

// New returns a sweeper that sweeps at every interval, 0 for a minute, once it is started. Polls
// tells that now is not the machine's clock.
func New(l *history.Log, b *catalog.Background, every time.Duration, polls bool) *Sweeper {
	return &Sweeper{log: l, background: b, now: l.Now, every: cmp.Or(every, sweepInterval), polls: polls, woken: make(chan struct{}, 1)}
}

// Wake wakes the sweep if it sleeps for a later expiry. The signal has room for one: a sweep that
// is about to look needs no second. It never blocks, because writes call it with their shard
// locked.
func (s *Sweeper) Wake(at int64) {
	if at >= s.expected.Load() {
		return
	}
	select {
	case s.woken <- struct{}{}:
	default: // it has a signal to come
	}
}

// Start starts the sweep for expired items if it has not been started before, and wakes it for the tables
// whose expiries are not known. It goes on until the database is closed.
func (s *Sweeper) Start() {
	if s.started.CompareAndSwap(false, true) {
		start := s.now()
		s.background.Go(func() { s.sweepOnAndOn(start) })
	}
	s.Wake(table.UnknownExpiry)
}

// sweepOnAndOn sweeps until the database is closed. A wake does not sweep. It only works out the
// next multiple of the interval anew, so many writes cannot make the sweep run often.
func (s *Sweeper) sweepOnAndOn(start time.Time) {
	plan := Plan{Every: s.every, Start: start}
	timer := time.NewTimer(s.every)
	defer timer.Stop()
	for {
		select {
		case <-s.background.Done():
			return
		case <-timer.C:
			if err := s.Sweep(); err != nil {
				return // the journal has failed, and every operation says so
			}
			if s.polls {
				timer.Reset(s.every)
				continue
			}
			plan.Swept(s.now())
		case <-s.woken:
			if s.polls {
				continue
			}
		}
		at := s.expectExpiry()
		timer.Reset(plan.Sleep(s.now(), at))
	}
}

// Plan works out when the next sweep begins: at a multiple of the interval since the start.
type Plan struct {
	Every time.Duration
	Start time.Time
	turn  int64 // the multiple of the last sweep
}

// Swept notes that a sweep has ended.
func (s *Plan) Swept(now time.Time) { s.turn = int64(now.Sub(s.Start) / s.Every) }

// Sleep is the time from now to the first sweep that finds an item expired, given the item's expiry in seconds since 1970.
// If the expiry is far away, it is the time to an earlier sweep.
func (s *Plan) Sleep(now time.Time, at int64) time.Duration {
	elapsed := now.Sub(s.Start)
	due := elapsed
	switch {
	case at >= now.Add(longestSweepSleep).Unix():
		due += longestSweepSleep
	case at >= now.Unix():
		due += time.Unix(at+1, 0).Sub(now) // an item is expired when its second is over
	}
	next := max(s.turn+1, int64((due+s.Every-1)/s.Every))
	return time.Duration(next)*s.Every - elapsed
}

// expectExpiry is the earliest expiry of all items, or an earlier instant. A write with an earlier
// expiry wakes the sweep from now on. Expected is set to never before the expiries are read. A
// write in between therefore wakes the sweep, at worst without need.
func (s *Sweeper) expectExpiry() int64 {
	s.expected.Store(table.Never)
	at := int64(table.Never)
	for _, t := range s.Tables.All() {
		if x := t.Schema().Expiries; x != nil {
			at = min(at, x.Least())
		}
	}
	s.expected.Store(at)
	return at
}

// Sweep deletes what has expired by now.
func (s *Sweeper) Sweep() error {
	p := table.PastOf(s.now())
	// An item that expired too long ago stays, and the sweep forgets its expiry. If the clock went back, the item may
	// be due again.
	all := p.To < s.last.Swap(p.To)
	for _, t := range s.Tables.All() {
		for shard := range t.Shards {
			if err := s.sweepShard(t, shard, p, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepShard deletes the expired items of a shard. It looks for them if there may be any, or if all
// is set. It finds them under a lock that lets readers in, some at a time, and deletes them one by
// one. The naive design deletes under the lock of the reading, and holds the shard until all its
// expired items are gone. Each deletion here is a write of its own, with its own entry in the log.
// A crash in between leaves the rest to the next sweep.
func (s *Sweeper) sweepShard(t *table.Table, shard int, p table.Past, all bool) error {
	x := t.Schema().Expiries
	if x == nil || x.Earliest[shard].Load() >= p.To && !all {
		return nil
	}
	x.Earliest[shard].Store(table.Never) // the items that stay lower it, and so do writes from now on
	for from, more := "", true; more; {
		var keys []string
		keys, from, more = ExpiredIn(t, shard, from, p)
		for _, key := range keys {
			if err := s.Expire(t, storage.ItemKey{Shard: shard, Full: key}, p); err != nil {
				return err
			}
		}
		if err := s.background.Stopped(); err != nil {
			return err
		}
	}
	return nil
}

// ExpiredIn returns the keys of expired items of a shard among the next from a key on, and where to
// go on if there are more. It remembers when the others expire.
func ExpiredIn(t *table.Table, shard int, from string, p table.Past) (keys []string, next string, more bool) {
	sh := &t.Shards[shard]
	sh.Mu.RLock()
	defer sh.Mu.RUnlock()
	x := t.Schema().Expiries
	if x == nil {
		return nil, "", false
	}
	seen, left := 0, int64(table.Never)
	sh.AscendLocked(storage.Range{Low: from}, func(r *storage.Record) bool {
		if seen == sweepItems {
			next, more = r.Key, true
			return false
		}
		seen++
		switch at := table.ExpiryOf(r, x.Attribute); {
		case p.Has(at):
			keys = append(keys, r.Key)
		case at >= p.To:
			left = min(left, at)
		}
		return true
	})
	x.Lower(shard, left)
	return keys, next, more
}

// Expire deletes an item if it is still there, still expired and not about to be written. It does
// what a delete does, but nobody pays for it. An item may have been renewed since it was found, so
// its expiry is read again under the lock that the deletion needs:
//
//	sweep    find a: expired ····························· lock · a is renewed: kept
//	write                        lock · renew a · unlock
//
// It does not wait for the disk. If a crash undoes the deletion, the next sweep repeats it. The
// stream shows it only once it is durable.
func (s *Sweeper) Expire(t *table.Table, key storage.ItemKey, p table.Past) error {
	w := request.Write{Kind: request.WriteDelete, Table: t, Key: key}
	sh := t.Shard(&key)
	sh.Mu.Lock()
	defer sh.Mu.Unlock()
	x, old := t.Schema().Expiries, sh.GetLocked(key.Full)
	if x == nil || old == nil {
		return nil
	}
	at := table.ExpiryOf(old, x.Attribute)
	if !p.Has(at) {
		return nil
	}
	if sh.TakenLocked(key.Full) {
		x.Lower(key.Shard, at) // the next sweep looks again
		return nil
	}
	e, err := w.Evaluate(old)
	if err != nil {
		return err
	}
	c := w.Change(&e)
	c.Expired = true
	pos, err := s.log.Note(nil, c)
	if err != nil {
		return err
	}
	w.ApplyLocked(&e, pos)
	return nil
}
