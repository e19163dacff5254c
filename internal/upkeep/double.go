package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// Double doubles the number of shards of a bucket that has from of them, unless another
// caller does. It reports whether there are more now.
func (d *Driver) Double(ctx context.Context, acct *memory.Account, b store.Bucket, from int, left <-chan struct{}) (bool, error) {
	var err error
	_, waited := acct.Reshaping().Do(ctx, left, func() { _, err = d.reshape(ctx, acct, b, 2*from) })
	return acct.ShardCount() > from, cmp.Or(err, process.Unavailable(waited))
}

// ShouldDouble reports whether a bucket is to be doubled ahead of its users. img shows that
// its item has used four fifths of its hidden write limit, with what that limit had earned
// until at. The last doubling has had its effect, and another one can gain something.
func (d *Driver) ShouldDouble(acct *memory.Account, img *store.Image, at time.Time) bool {
	return plan.WasPlain(img, d.Now()) && img.ShardCount < store.MaxShards && plan.IsPressed(img, at.UnixMilli()) &&
		acct.ShardCount() <= img.ShardCount && acct.MayDouble(d.Uptime(), memory.DoublingPause)
}

// Mend completes the set of shards of a bucket: it finishes a half-done doubling and
// makes missing shards. It reports whether there are any shards at all.
func (d *Driver) Mend(ctx context.Context, acct *memory.Account, b store.Bucket, left <-chan struct{}) (exists bool, err error) {
	ran, waited := acct.Reshaping().Do(ctx, left, func() { exists, err = d.reshape(ctx, acct, b, 0) })
	if !ran {
		return true, process.Unavailable(waited)
	}
	return exists, err
}

// MendAfterOthers is Mend for a caller that cannot tell whether another caller's work has
// succeeded: it waits for that, and then mends too.
func (d *Driver) MendAfterOthers(ctx context.Context, acct *memory.Account, b store.Bucket) (err error) {
	for {
		ran, waited := acct.Reshaping().Do(ctx, nil, func() { _, err = d.reshape(ctx, acct, b, 0) })
		if ran || waited != nil {
			return cmp.Or(err, process.Unavailable(waited))
		}
	}
}

// DoubleInBackground doubles a bucket whose partition throttles, and tries again if that
// is throttled too. The time between tries is random and grows: all processes try, and
// each throttled try may load the partition by two units. If 200 processes tried every
// 0.3 s, they would use more than the partition earns, and none would ever succeed.
func (d *Driver) DoubleInBackground(ctx context.Context, acct *memory.Account, b store.Bucket) {
	const growth, most = 2, 8 // doublings of the time between tries, after each try and in all: up to 2.6 s
	from := acct.ShardCount()
	if d.IsClosed() || !acct.MayDouble(d.Uptime(), memory.ThrottledDoublingPause) || !acct.BeginReshaping() {
		return
	}
	d.InBackground(func() {
		defer acct.EndReshaping()
		ctx := d.Detach(ctx)
		for tries := range process.MaxTries {
			pause := memory.MinBrake << min(growth*tries, most)
			if process.Sleep(ctx, d.Closing(), pause/2+time.Duration(d.Rand(int64(pause)))) != nil || acct.HasDoubled(from) {
				return
			}
			err := d.doubleFirst(ctx, acct, b, from)
			if err == nil {
				return
			}
			if !errors.Is(err, store.ErrThrottled) {
				d.Logger.WarnContext(ctx, "bucket was not doubled", "entity", b.Entity, "resource", b.Resource, "error", err)
				return
			}
		}
	})
}

// doubleFirst doubles a bucket, and lets it go before the claims of this process. A split
// needs four write units at once. A partition never has them while it is sent more claims
// than it can take, so claims hold back from a throttled shard until the split is done.
func (d *Driver) doubleFirst(ctx context.Context, acct *memory.Account, b store.Bucket, from int) error {
	const (
		room = memory.MinBrake        // ten write units are earned
		most = 100 * time.Millisecond // an answer may take long, or not come
	)
	acct.Hold(d.Uptime(), d.Uptime()+room+most)
	defer func() { acct.Hold(d.Uptime(), 0) }()
	if err := process.Sleep(ctx, nil, room); err != nil {
		return err
	}
	_, err := d.Double(ctx, acct, b, from, nil)
	return err
}

// MendNow carries out mending that was begun in the background. Nobody waits for it.
func (d *Driver) MendNow(ctx context.Context, acct *memory.Account, b store.Bucket) {
	defer acct.EndReshaping()
	if _, err := d.Mend(ctx, acct, b, nil); err != nil {
		d.Logger.WarnContext(ctx, "shards of a bucket were not mended", "entity", b.Entity, "resource", b.Resource, "error", err)
	}
}

// reshape gives a bucket a number of shards, all of which then exist. If one shard
// already has a larger number, that number comes first: a doubling is under way, or
// done, which meets the purpose too.
//
// Shards get a new number one pair at a time, shard 0 last. So the shares of existing
// shards never sum to more than the limit:
//
//	2 of them    0/2   1/2
//	             0/2   1/4   3/4       1 gives half to 3
//	4 of them    0/4   2/4   1/4  3/4  0 gives half to 2
func (d *Driver) reshape(ctx context.Context, acct *memory.Account, b store.Bucket, wanted int) (exists bool, err error) {
	images, err := d.ReadShards(ctx, acct, b)
	if err == nil && len(images) > 0 && !plan.AreEven(images) {
		// A read of several items may straddle a merge. The images then look like a
		// half-done doubling.
		images, err = d.ReadShards(ctx, acct, b)
	}
	if err != nil || len(images) == 0 {
		return false, err
	}
	count := plan.CountOf(images)
	if len(images) < count && count < store.MaxShards {
		// Missing shards may have been split before they were lost.
		if images, err = d.ReadMany(ctx, acct, b, 2*count); err != nil || len(images) == 0 {
			return false, err
		}
		count = plan.CountOf(images)
	}
	if plan.AreStamped(images) {
		return true, nil
	}
	switch {
	case count > store.MaxShards && wanted != 0:
		return true, nil
	case wanted == 2*count && plan.AreEven(images) && len(images) >= count:
		// If a shard is missing, its sibling may still hold the balance meant for it.
		count = min(wanted, store.MaxShards)
	}
	switch err := d.doubleAll(ctx, acct, images, count); {
	case errors.Is(err, errMerged):
		return true, nil
	case err != nil:
		return true, err
	}
	if images[0].Shard == 0 && images[0].ShardCount < count {
		d.Counts.Doublings.Add(1)
	}
	if err := d.makeMissing(ctx, acct, b, count); err != nil {
		return true, err
	}
	acct.Completed(count)
	return true, nil
}

// ReadShards reads the shards of a bucket: as many as are believed to exist, and at
// least up to the one that b names.
func (d *Driver) ReadShards(ctx context.Context, acct *memory.Account, b store.Bucket) ([]*store.Image, error) {
	return d.ReadMany(ctx, acct, b, max(b.Shard+1, acct.Breadth(d.Uptime(), memory.ImageAge)))
}

// ReadMany reads the shards of a bucket up to a number, and any beyond it that they
// mention.
func (d *Driver) ReadMany(ctx context.Context, acct *memory.Account, b store.Bucket, count int) ([]*store.Image, error) {
	m := d.Moment() // images are at least this young
	images, err := d.Store.Buckets(ctx, b.Entity, b.Resource, count)
	if err != nil {
		return nil, fmt.Errorf("read the shards of %s of %s: %w", b.Resource, b.Entity, err)
	}
	acct.Recount(images, m)
	return images, nil
}

// doubleAll gives all shards a number that some do not have yet, shard 0 last.
func (d *Driver) doubleAll(ctx context.Context, acct *memory.Account, images []*store.Image, count int) error {
	others := images
	if images[0].Shard == 0 {
		others = images[1:]
	}
	errs := make([]error, len(others))
	d.AtOnce(len(others), func(i int) { errs[i] = d.doubleShard(ctx, acct, others[i], count) })
	if err := errors.Join(errs...); err != nil || images[0].Shard != 0 {
		return err
	}
	return d.doubleShard(ctx, acct, images[0], count)
}

// errMerged says that a shard that was to get a larger number has a smaller one than
// before. So the images of the other shards are from before a merge.
var errMerged = errors.New("the shards were merged")

// doubleShard gives a shard a larger number, one doubling after another.
func (d *Driver) doubleShard(ctx context.Context, acct *memory.Account, img *store.Image, count int) error {
	for tries := range process.MaxTries {
		if img.ShardCount >= count {
			return nil
		}
		if tries > 0 {
			if err := d.Pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		next, err := d.doubleOnce(ctx, acct, img, tries > 0)
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil || next == nil:
			return err
		case next.ShardCount < img.ShardCount:
			return errMerged
		default:
			img = next
		}
	}
	return fmt.Errorf("double %s of %s: other writers came first %d times: %w", img.Resource, img.Entity, process.MaxTries, store.ErrConflict)
}

// doubleOnce doubles the number of one shard. It returns the shard after the write, or
// as it was when it refused the write; nil if the shard is gone.
func (d *Driver) doubleOnce(ctx context.Context, acct *memory.Account, img *store.Image, loose bool) (*store.Image, error) {
	m := d.Moment()
	count := 2 * img.ShardCount
	birth := plan.Split(img, img.Shard+img.ShardCount, count, loose, m.Now, d.Multiplier)
	if sibling := acct.Image(birth.Shard, m.Up, memory.CrossingAge); sibling == nil || sibling.RefilledAt < img.RefilledAt { // it may be from before a merge
		joint, err := d.bear(ctx, acct, birth, m)
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
	out, err := d.Send(ctx, acct, img.Bucket, memory.StampUse{Moves: true}, m, func(ctx context.Context) (store.Outcome, error) {
		return d.Store.Refill(ctx, plan.Tighten(img, count, m.Now, d.Multiplier))
	})
	return out.Image, err
}

// bear carries out a birth and remembers its result.
func (d *Driver) bear(ctx context.Context, acct *memory.Account, birth *store.Birth, m memory.Moment) (store.Joint, error) {
	of := []store.Bucket{birth.Bucket, {Entity: birth.Entity, Resource: birth.Resource, Shard: birth.Sibling}, {Entity: birth.Entity, Resource: birth.Resource}}
	after := func(i int) *store.Image {
		switch {
		case i == 0:
			return plan.ImageOf(&birth.Create)
		case i == 1 && birth.Donor != nil:
			return plan.AfterRefill(birth.Donor)
		}
		return nil
	}
	joint, err := d.SendJoint(ctx, acct, of, after, m, func(ctx context.Context) (store.Joint, error) { return d.Store.Bear(ctx, birth) })
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

// makeMissing makes the missing shards of a number, each from its sibling if that exists.
// Shard 0 comes first: the birth of a shard without a donor checks shard 0's number.
func (d *Driver) makeMissing(ctx context.Context, acct *memory.Account, b store.Bucket, count int) error {
	for tries := range process.MaxTries {
		if tries > 0 {
			if err := d.Pause(ctx, nil, tries); err != nil {
				return err
			}
		}
		images, all := acct.Images(d.Uptime(), memory.ImageAge)
		if all && len(images) >= count {
			return nil
		}
		done, err := d.tryMissing(ctx, acct, b, images, count, tries > 0)
		if done || err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		if images, err = d.ReadMany(ctx, acct, b, count); err != nil {
			return err
		}
		if len(images) == 0 || acct.ShardCount() != count {
			return nil // other clients do the same work
		}
	}
	return fmt.Errorf("replace shards of %s of %s: other writers came first %d times: %w", b.Resource, b.Entity, process.MaxTries, store.ErrConflict)
}

// tryMissing makes what is missing, by images that may be old. Nothing checks shard 0's own
// number. So it makes nothing if an image has a smaller number, which is a sign of a merge:
//
//	a slow doubling to 4   splits 1 ───────────────────────────────▶ shard 0 is missing: makes 0 of 4?
//	others                 split 0, merge to 2, shard 0 is lost
//	another call                                            sees 1 of 2
func (d *Driver) tryMissing(ctx context.Context, acct *memory.Account, b store.Bucket, images []*store.Image, count int, loose bool) (done bool, err error) {
	var like *store.Image
	for _, img := range images {
		switch {
		case img == nil:
		case img.ShardCount < count:
			return false, nil
		default:
			like = img
		}
	}
	if like == nil {
		return true, nil
	}
	done = true
	for b.Shard = range count {
		m := d.Moment()
		if b.Shard < len(images) && images[b.Shard] != nil || acct.Image(b.Shard, m.Up, memory.CrossingAge) != nil {
			continue
		}
		sibling := (b.Shard + count/2) % count
		birth := plan.Orphan(like, b.Shard, sibling, count, m.Now, d.Multiplier)
		if donor := acct.Image(sibling, m.Up, memory.ImageAge); donor != nil && donor.ShardCount == count {
			birth = plan.Split(donor, b.Shard, count, loose, m.Now, d.Multiplier)
		}
		if birth.Donor == nil && birth.Sibling == 0 {
			done = false // shard 0 must first get the number, or be made
			continue
		}
		joint, err := d.bear(ctx, acct, birth, m)
		if err != nil {
			return false, err
		}
		done = done && joint.Applied
	}
	return done, nil
}
