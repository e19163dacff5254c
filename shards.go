package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A SaturatedWarning says that a bucket has [MaxShards] shards and is written to faster
// than they all sustain: its callers wait for each other. The limiter logs it, once for
// each bucket and limiter, as the attribute "warning".
type SaturatedWarning struct{ Entity, Resource string }

// String names the bucket and what to do.
func (w SaturatedWarning) String() string {
	return fmt.Sprintf("%s of entity %q is written to more than %d times a second, and has no more than %d shards: spread the load over several entities",
		w.Resource, w.Entity, MaxShards*plan.WriteParams.Amount/milli, MaxShards)
}

// widen doubles the number of shards of a bucket that has from of them, unless another
// caller does. It reports whether there are more now.
func (l *Limiter) widen(ctx context.Context, acct *memory.Account, b Bucket, from int, left <-chan struct{}) (bool, error) {
	var err error
	_, waited := acct.Reshaping.Do(ctx, left, func() { _, err = l.reshard(ctx, acct, b, 2*from) })
	return acct.ShardCount() > from, cmp.Or(err, unavailable(waited))
}

// mend completes the set of shards of a bucket: it finishes a half-done doubling and
// makes missing shards. It reports whether there are any shards at all.
func (l *Limiter) mend(ctx context.Context, acct *memory.Account, b Bucket, left <-chan struct{}) (exists bool, err error) {
	ran, waited := acct.Reshaping.Do(ctx, left, func() { exists, err = l.reshard(ctx, acct, b, 0) })
	if !ran {
		return true, unavailable(waited)
	}
	return exists, err
}

// widenInBackground doubles a bucket whose partition throttles, and tries again if that
// is throttled too. The time between tries is random and grows: all processes try, and
// each throttled try may load the partition further.
func (l *Limiter) widenInBackground(ctx context.Context, acct *memory.Account, b Bucket) {
	const most = 5 // doublings of the time between tries
	from := acct.ShardCount()
	if l.underWay.IsClosed() || !acct.MayDouble(l.uptime(), memory.ThrottledDoublingPause) || !acct.BeginReshaping() {
		return
	}
	l.inBackground(func() {
		defer acct.EndReshaping()
		ctx := l.deadlines.Detach(ctx)
		for tries := range maxTries {
			pause := memory.MinBrake << min(tries, most)
			if sleep(ctx, l.closing, pause/2+time.Duration(l.rand(int64(pause)))) != nil {
				return
			}
			if acct.HasDoubled(from) {
				return
			}
			_, err := l.widen(ctx, acct, b, from, nil)
			switch {
			case errors.Is(err, ErrThrottled):
			case err != nil:
				l.logger.WarnContext(ctx, "bucket was not doubled", "entity", b.Entity, "resource", b.Resource, "error", err)
				return
			default:
				return
			}
		}
	})
}

// mendNow carries out mending that was begun in the background; nobody waits for it.
func (l *Limiter) mendNow(ctx context.Context, acct *memory.Account, b Bucket) {
	defer acct.EndReshaping()
	if _, err := l.mend(ctx, acct, b, nil); err != nil {
		l.logger.WarnContext(ctx, "shards of a bucket were not mended", "entity", b.Entity, "resource", b.Resource, "error", err)
	}
}

// reshard gives a bucket a number of shards, all of which then exist. If one shard
// already has a larger number, that number comes first: a doubling is under way, or
// done, which meets the purpose too.
//
// Shards get a new number one pair at a time, shard 0 last. So the shares of existing
// shards never sum to more than the limit:
//
//	2 of them    0/2   1/2
//	             0/2   1/4   3/4       1 gives half to 3
//	4 of them    0/4   2/4   1/4  3/4  0 gives half to 2
func (l *Limiter) reshard(ctx context.Context, acct *memory.Account, b Bucket, wanted int) (exists bool, err error) {
	images, err := l.readShards(ctx, acct, b)
	if err == nil && len(images) > 0 && !plan.AreEven(images) {
		// A read of several items may straddle a merge. The images then look like a
		// half-done doubling.
		images, err = l.readShards(ctx, acct, b)
	}
	if err != nil || len(images) == 0 {
		return false, err
	}
	count := plan.CountOf(images)
	if len(images) < count && count < MaxShards {
		// Missing shards may have been split before they were lost.
		if images, err = l.readManyShards(ctx, acct, b, 2*count); err != nil || len(images) == 0 {
			return false, err
		}
		count = plan.CountOf(images)
	}
	if plan.AreStamped(images) {
		return true, nil
	}
	switch {
	case count > MaxShards && wanted != 0:
		return true, nil
	case wanted == 2*count && plan.AreEven(images) && len(images) >= count:
		// If a shard is missing, its sibling may still hold the balance meant for it.
		count = min(wanted, MaxShards)
	}
	switch err := l.raise(ctx, acct, images, count); {
	case errors.Is(err, errMerged):
		return true, nil
	case err != nil:
		return true, err
	}
	if images[0].Shard == 0 && images[0].ShardCount < count {
		l.counts.doublings.Add(1)
	}
	if err := l.replace(ctx, acct, b, count); err != nil {
		return true, err
	}
	acct.Completed(count)
	return true, nil
}

// readShards reads the shards of a bucket: as many as are believed to exist, and at
// least up to the one that b names.
func (l *Limiter) readShards(ctx context.Context, acct *memory.Account, b Bucket) ([]*store.Image, error) {
	return l.readManyShards(ctx, acct, b, max(b.Shard+1, acct.Breadth(l.uptime(), memory.ImageAge)))
}

func (l *Limiter) readManyShards(ctx context.Context, acct *memory.Account, b Bucket, count int) ([]*store.Image, error) {
	m := l.moment() // images are at least this young
	images, err := l.store.Buckets(ctx, b.Entity, b.Resource, count)
	if err != nil {
		return nil, fmt.Errorf("read the shards of %s of %s: %w", b.Resource, b.Entity, err)
	}
	acct.Recount(images, m)
	return images, nil
}

// raise gives all shards a number that some do not have yet, shard 0 last.
func (l *Limiter) raise(ctx context.Context, acct *memory.Account, images []*store.Image, count int) error {
	others := images
	if images[0].Shard == 0 {
		others = images[1:]
	}
	errs := make([]error, len(others))
	l.atOnce(len(others), func(i int) { errs[i] = l.raiseOne(ctx, acct, others[i], count) })
	if err := errors.Join(errs...); err != nil || images[0].Shard != 0 {
		return err
	}
	return l.raiseOne(ctx, acct, images[0], count)
}

// errMerged says that a shard that was to get a larger number has a smaller one than
// before. So the images of the other shards are from before a merge.
var errMerged = errors.New("the shards were merged")

// raiseOne gives a shard a larger number, one doubling after another.
func (l *Limiter) raiseOne(ctx context.Context, acct *memory.Account, img *store.Image, count int) error {
	for tries := range maxTries {
		if img.ShardCount >= count {
			return nil
		}
		if tries > 0 {
			if err := l.pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		next, err := l.raiseOnce(ctx, acct, img, tries > 0)
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil || next == nil:
			return err
		case next.ShardCount < img.ShardCount:
			return errMerged
		default:
			img = next
		}
	}
	return fmt.Errorf("double %s of %s: other writers got in between %d times: %w", img.Resource, img.Entity, maxTries, ErrConflict)
}

// raiseOnce doubles the number of one shard. It returns the shard after the write, or
// as it was when it refused the write; nil if the shard is gone.
func (l *Limiter) raiseOnce(ctx context.Context, acct *memory.Account, img *store.Image, loose bool) (*store.Image, error) {
	m := l.moment()
	count := 2 * img.ShardCount
	birth := plan.Split(img, img.Shard+img.ShardCount, count, loose, m.Now, l.multiplier)
	if sibling := acct.Image(birth.Shard, m.Up, memory.CrossingAge); sibling == nil || sibling.RefilledAt < img.RefilledAt { // it may be from before a merge
		joint, err := l.bear(ctx, acct, birth, m)
		switch {
		case err != nil:
			return nil, err
		case joint.Applied:
			return plan.AfterRefill(birth.Donor), nil
		case !joint.Refusals[0].Refused:
			return joint.Refusals[1].Image, nil
		}
		if fresh := joint.Refusals[1]; fresh.Refused {
			return fresh.Image, nil
		}
	}
	// The sibling exists already: a peer makes shards without a donor.
	out, err := l.send(ctx, acct, img.Bucket, memory.StampUse{Moves: true}, m, func(ctx context.Context) (store.Outcome, error) {
		return l.store.Refill(ctx, plan.Tighten(img, count, m.Now))
	})
	return out.Image, err
}

// bear carries out a birth and remembers its result.
func (l *Limiter) bear(ctx context.Context, acct *memory.Account, birth *store.Birth, m memory.Moment) (store.Joint, error) {
	of := []Bucket{birth.Bucket, {Entity: birth.Entity, Resource: birth.Resource, Shard: birth.Sibling}, {Entity: birth.Entity, Resource: birth.Resource}}
	after := func(i int) *store.Image {
		switch {
		case i == 0:
			return plan.ImageOf(&birth.Create)
		case i == 1 && birth.Donor != nil:
			return plan.AfterRefill(birth.Donor)
		}
		return nil
	}
	joint, err := l.sendJoint(ctx, acct, of, after, m, func(ctx context.Context) (store.Joint, error) { return l.store.Bear(ctx, birth) })
	if err != nil {
		return joint, fmt.Errorf("make shard %d of %s of %s: %w", birth.Shard, birth.Resource, birth.Entity, err)
	}
	if joint.Applied {
		acct.Remember(plan.ImageOf(&birth.Create), m)
		if birth.Donor != nil {
			acct.Remember(plan.AfterRefill(birth.Donor), m)
		}
		acct.Repaired(birth.ShardCount) // the shard copies another, which may be behind the configuration
		return joint, nil
	}
	for i, r := range joint.Refusals {
		switch {
		case r.Image != nil:
			acct.Remember(r.Image, m)
		case r.Refused:
			acct.Forget([...]int{birth.Shard, birth.Sibling, 0}[i])
		}
	}
	return joint, nil
}

// replace makes the missing shards of a number, each from its sibling if that exists.
// Shard 0 comes first: the birth of a shard without a donor checks shard 0's number.
func (l *Limiter) replace(ctx context.Context, acct *memory.Account, b Bucket, count int) error {
	for tries := range maxTries {
		if tries > 0 {
			if err := l.pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		images, all := acct.Images(l.uptime(), memory.ImageAge)
		if all && len(images) >= count {
			return nil
		}
		done, err := l.replaceMissing(ctx, acct, b, images, count, tries > 0)
		if done || err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
		if images, err = l.readManyShards(ctx, acct, b, count); err != nil {
			return err
		}
		if len(images) == 0 || acct.ShardCount() != count {
			return nil // other clients do the same work
		}
	}
	return fmt.Errorf("replace shards of %s of %s: other writers got in between %d times: %w", b.Resource, b.Entity, maxTries, ErrConflict)
}

func (l *Limiter) replaceMissing(ctx context.Context, acct *memory.Account, b Bucket, images []*store.Image, count int, loose bool) (done bool, err error) {
	var like *store.Image
	for _, img := range images {
		if img != nil {
			like = img
		}
	}
	if like == nil {
		return true, nil
	}
	done = true
	for b.Shard = range count {
		m := l.moment()
		if b.Shard < len(images) && images[b.Shard] != nil || acct.Knows(b.Shard, m.Up) {
			continue
		}
		sibling := (b.Shard + count/2) % count
		birth := plan.Orphan(like, b.Shard, sibling, count, m.Now, l.multiplier)
		if donor := acct.Image(sibling, m.Up, memory.ImageAge); donor != nil && donor.ShardCount == count {
			birth = plan.Split(donor, b.Shard, count, loose, m.Now, l.multiplier)
		}
		if birth.Donor == nil && birth.Sibling == 0 {
			done = false // shard 0 must first get the number, or be made
			continue
		}
		joint, err := l.bear(ctx, acct, birth, m)
		if err != nil {
			return false, err
		}
		done = done && joint.Applied
	}
	return done, nil
}

// relieve handles an item that has used its hidden write limit, and has its next write
// after wait. It doubles the bucket if that helps. It returns nil after the wait, if it
// can do no more.
func (l *Limiter) relieve(ctx context.Context, acct *memory.Account, img *store.Image, wait time.Duration, left <-chan struct{}) error {
	count := acct.ShardCount()
	if count >= MaxShards && acct.Warn() {
		l.warnSaturated(ctx, img.Bucket)
	}
	if img.Foreign == "" && !img.HasValidUntil && acct.MayDouble(l.uptime(), memory.DoublingPause) {
		switch changed, err := l.widen(ctx, acct, img.Bucket, count, left); {
		case err == nil && changed:
			return errRerouted
		case err != nil && !errors.Is(err, ErrThrottled) && !errors.Is(err, ErrConflict):
			return err
		}
	}
	if acct.ShardCount() > 1 {
		return errBusy
	}
	return sleep(ctx, left, wait)
}

func (l *Limiter) warnSaturated(ctx context.Context, b Bucket) {
	l.logger.WarnContext(ctx, "bucket is written to faster than its shards sustain",
		"warning", SaturatedWarning{Entity: b.Entity, Resource: b.Resource})
}
