package aggregator

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultQuiet is how long shards must have been quiet to be merged, by default.
const DefaultQuiet = 30 * time.Minute

const (
	// parts is in how many intervals of that time writes are counted: each shard is
	// to be quiet in every one of them.
	parts = 4
	// quietPart is one in how many of the writes that a partition takes a quiet shard
	// takes at most. Merged with another such it is at twice of that, which is half
	// of where shards are doubled.
	quietPart = 5
	// watchedBuckets is how many buckets are watched, those last heard of.
	watchedBuckets = 10_000
	// ticks is how often in such an interval it is looked whether any has ended,
	// if no records come.
	ticks = 8
)

// A watch remembers the buckets with several shards that records told of, and how
// long they have been quiet, in memory alone: an aggregator that starts anew waits
// for the whole time again.
//
// How much a shard is written to is counted by its hidden write limit, so two reads
// of the shards tell. A bucket is read at most once in a quarter of the time, whether
// records come or not.
type watch struct {
	quarter time.Duration

	mu   sync.Mutex
	seen *simplelru.LRU[itemKey, *watched]
	wake time.Time // nothing is due before
}

// A watched is a bucket.
type watched struct {
	key  itemKey   // of shard 0
	due  time.Time // when it is to be read
	busy bool      // it is being read

	// Only who reads it touches these.
	at     time.Time // when it was last read; zero if that does not count
	counts []int64   // what was counted of each shard then, in millitokens
	quiet  int       // intervals in a row
}

func newWatch(quiet time.Duration) *watch {
	seen, err := simplelru.NewLRU[itemKey, *watched](watchedBuckets, nil)
	if err != nil {
		panic(err) // for a size of 0
	}
	return &watch{quarter: quiet / parts, seen: seen}
}

// note remembers the sharded buckets of a batch.
func (w *watch) note(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range b.items {
		if it.last == nil || it.last.ShardCount < 2 || it.tended.Limiter == nil {
			continue
		}
		key := it.itemKey
		key.Shard = 0
		if _, known := w.seen.Get(key); !known {
			w.seen.Add(key, &watched{key: key, due: b.now})
			w.wake = b.now
		}
	}
}

// claim are the buckets that are due, which are not any more then.
func (w *watch) claim(now time.Time) (due []*watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Before(w.wake) {
		return nil
	}
	w.wake = now.Add(w.quarter)
	for _, one := range w.seen.Values() {
		if one.busy {
			continue
		}
		if !one.due.After(now) {
			one.busy, one.due = true, now.Add(w.quarter)
			due = append(due, one)
		} else if one.due.Before(w.wake) {
			w.wake = one.due
		}
	}
	return due
}

// isDue reports whether there is anything to claim.
func (w *watch) isDue(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Len() > 0 && !now.Before(w.wake)
}

// release gives back a bucket that was claimed; at once, if it is to be read again.
func (w *watch) release(one *watched, again bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.busy = false; again {
		one.due = now
	}
	if one.due.Before(w.wake) {
		w.wake = one.due
	}
}

func (w *watch) forget(one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Remove(one.key)
}

// mergeQuiet reads the buckets that are due and merges those that have been quiet for
// long enough.
func (a *Aggregator) mergeQuiet(ctx context.Context, b *batch) {
	if a.watch == nil {
		return
	}
	a.watch.note(b)
	due := a.watch.claim(b.now)
	a.atOnce(len(due), func(i int) {
		merged, err := a.visit(ctx, due[i], b.now)
		a.watch.release(due[i], merged, b.now)
		if err != nil {
			b.errors.Add(1)
			a.o.Logger.WarnContext(ctx, "bucket was not merged", "entity", due[i].key.Entity, "resource", due[i].key.Resource, "error", err)
		}
		if merged {
			b.merges.Add(1)
		}
	})
}

// visit reads a bucket, and merges it if it was quiet every time for long enough. A
// merge that others were in the way of is tried again after the next interval, if
// that was quiet too.
func (a *Aggregator) visit(ctx context.Context, one *watched, now time.Time) (merged bool, err error) {
	ns, err := a.namespaces.get(ctx, one.key.ns, now)
	if err != nil {
		return false, err
	}
	defer a.namespaces.release(ns)
	if ns.missing || ns.Limiter == nil {
		a.watch.forget(one)
		return false, nil
	}
	images, err := ns.Limiter.Shards(ctx, one.key.Bucket)
	if err != nil {
		return false, err
	}
	if len(images) < 2 {
		a.watch.forget(one)
		return false, nil
	}
	now = a.o.Now()
	if one.wasQuiet(images, now) {
		one.quiet++
	} else {
		one.quiet = 0
	}
	one.at, one.counts = now, one.counts[:0]
	for _, img := range images {
		one.counts = append(one.counts, img.Writes.Consumed)
	}
	if one.quiet < parts {
		return false, nil
	}
	merged, err = ns.Limiter.Merge(ctx, images)
	if merged {
		one.at, one.quiet = time.Time{}, 0
	}
	return merged, err
}

// wasQuiet reports whether the shards are those of the last time, and all of them have
// been written to little since.
func (one *watched) wasQuiet(images []*store.Image, now time.Time) bool {
	took := now.Sub(one.at).Milliseconds()
	if one.at.IsZero() || took <= 0 || len(images) != len(one.counts) {
		return false
	}
	for i, img := range images {
		wrote := img.Writes.Consumed - one.counts[i]
		if img.Shard != i || wrote < 0 || wrote*quietPart*img.Writes.Period >= img.Writes.Amount*took {
			return false
		}
	}
	return true
}

// keepWatch processes what is due while no records come, until the context ends.
func (a *Aggregator) keepWatch(ctx context.Context) {
	t := time.NewTicker(max(a.watch.quarter/ticks, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if a.watch.isDue(a.o.Now()) {
			_, _ = a.Process(context.WithoutCancel(ctx), nil) // what fails is logged
		}
	}
}
