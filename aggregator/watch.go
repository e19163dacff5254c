package aggregator

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultQuiet is the default of Options.Quiet.
const DefaultQuiet = 30 * time.Minute

const (
	// parts is the number of intervals in the quiet time: each shard must be quiet in every
	// one.
	parts = 4
	// quietPart defines quiet: a shard takes less than 1/quietPart of the writes that its
	// partition takes. Two such shards merged take less than 2/quietPart, which is half the
	// rate at which shards are doubled.
	quietPart = 5
	// watchedBuckets is the number of buckets to watch, those most recently seen in
	// records.
	watchedBuckets = 10_000
	// ticks is the number of checks per interval for buckets that are due, if no records
	// come.
	ticks = 8
)

// A watch remembers the buckets with several shards in the records, and how long they have
// been quiet. It is in memory only: a restarted aggregator waits for the whole time again.
//
// The difference of the hidden write limit between two reads counts the writes to a shard.
// The aggregator reads a bucket at most once in a quarter of the time, whether records come
// or not.
type watch struct {
	quarter time.Duration

	mu   sync.Mutex
	seen *simplelru.LRU[itemKey, *watched]
	wake time.Time // nothing is due before
}

// A watched is a bucket on the watch.
type watched struct {
	key  itemKey   // the key of shard 0
	due  time.Time // time of the next read
	busy bool      // a batch is reading it

	// Only the batch that reads the bucket uses these fields.
	at     time.Time // time of the last read; zero if it does not count
	counts []int64   // consumed writes of each shard at that read, in millitokens
	quiet  int       // consecutive quiet intervals
}

func newWatch(quiet time.Duration) *watch {
	seen, err := simplelru.NewLRU[itemKey, *watched](watchedBuckets, nil)
	if err != nil {
		panic(err) // only for a size of 0
	}
	return &watch{quarter: quiet / parts, seen: seen}
}

// note remembers the sharded buckets of a batch.
func (w *watch) note(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b.buckets {
		bk := &b.buckets[i]
		if bk.shardCount < 2 || bk.keeper == nil {
			continue
		}
		key := bk.itemKey
		key.Shard = 0
		if _, known := w.seen.Get(key); !known {
			w.seen.Add(key, &watched{key: key, due: b.now})
			w.wake = b.now
		}
	}
}

// claim returns the buckets that are due, marks them as busy and sets their next read.
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

// release returns a claimed bucket. If again is set, it is due at once.
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

// mergeQuiet reads the buckets that are due, and merges those that have been quiet for long
// enough.
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
			b.tally(func(r *Result) { r.Errors++ })
			a.o.Logger.WarnContext(ctx, "bucket was not merged", "entity", due[i].key.Entity, "resource", due[i].key.Resource, "error", err)
		}
		if merged {
			b.tally(func(r *Result) { r.Merges++ })
		}
	})
}

// visit reads a bucket, and merges it if it has been quiet long enough. If other writers
// prevented the merge, visit tries again after the next interval, if that one was quiet
// too.
func (a *Aggregator) visit(ctx context.Context, one *watched, now time.Time) (merged bool, err error) {
	ns, err := a.namespaces.get(ctx, one.key.ns, now)
	if err != nil {
		return false, err
	}
	defer a.namespaces.release(ns)
	if ns.missing || ns.keeper == nil {
		a.watch.forget(one)
		return false, nil
	}
	images, err := ns.keeper.Shards(ctx, one.key.Bucket)
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
	merged, err = ns.keeper.Merge(ctx, images)
	if merged {
		one.at, one.quiet = time.Time{}, 0
	}
	return merged, err
}

// wasQuiet reports whether the shards are the same as at the last read, and each has taken
// few writes since.
func (one *watched) wasQuiet(images []*store.Image, now time.Time) bool {
	took := now.Sub(one.at).Milliseconds()
	if one.at.IsZero() || took <= 0 || len(images) != len(one.counts) {
		return false
	}
	for i, img := range images {
		wrote, writes := img.Writes.Consumed-one.counts[i], plan.WritesOf(img)
		if img.Shard != i || wrote < 0 || wrote*quietPart*writes.Period >= writes.Amount*took {
			return false
		}
	}
	return true
}

// keepWatch processes due buckets while no records come, until the context ends.
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
			_, _ = a.Process(context.WithoutCancel(ctx), nil) // failures are logged
		}
	}
}
