package upkeep

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Keeper does upkeep on the buckets of a [store.Store], as the aggregator and an
// operator do ahead of the clients. It is safe for concurrent use,
// and any number of keepers and limiters, in any number of processes, may share a store.
//
// The keeper remembers each bucket's number of shards and what each shard held last, so
// use one keeper for all work on a store.
type Keeper struct {
	process  *process.Process
	upkeep   *Driver
	accounts *memory.Cache[memory.Key, *memory.Account]
}

// NewKeeper makes a keeper on a store. It does no I/O. It fails with [store.ErrInvalid] if an
// option makes no sense.
func NewKeeper(s store.Store, o process.Options) (*Keeper, error) {
	p, err := process.New(s, o)
	if err != nil {
		return nil, err
	}
	return &Keeper{p, New(p), memory.NewCache[memory.Key, *memory.Account](p.Memory)}, nil
}

// Close ends the keeper. Calls that begin from now on return [process.ErrClosed]. Close waits for
// the calls under way, for at most twice [process.Options.Timeout]. Then it cuts them off, and
// fails with [store.ErrUnavailable]. The store stays open.
func (k *Keeper) Close() error { return k.process.Close() }

// Stats are counts since the keeper was made.
type Stats struct {
	Buckets int // buckets remembered
	// Doublings and Merges count how often this keeper doubled and halved the number of
	// shards of a bucket.
	Doublings, Merges uint64
	// Throttled counts writes that the store rejected for their rate. Braked counts refills
	// that this keeper did not send because the store had just throttled the item.
	Throttled, Braked uint64
	// Healed counts items whose stamp lay far ahead and was moved back.
	Healed uint64
}

// Stats reads the counts.
func (k *Keeper) Stats() Stats {
	c := &k.process.Counts
	return Stats{Buckets: k.accounts.Len(), Doublings: c.Doublings.Load(), Merges: c.Merges.Load(), Throttled: c.Throttled.Load(), Braked: c.Braked.Load(), Healed: c.Healed.Load()}
}

// account is what the keeper remembers of a bucket.
func (k *Keeper) account(b store.Bucket) *memory.Account {
	return k.accounts.GetOrPut(memory.Key{Entity: b.Entity, Resource: b.Resource}, func() *memory.Account { return &memory.Account{} })
}

// Shards reads the existing shards of a bucket, in order. It looks at least as far as
// the shard that b names. [Keeper.Merge] takes its result. Errors are those of the
// [store.Store].
func (k *Keeper) Shards(ctx context.Context, b store.Bucket) ([]*store.Image, error) {
	return process.InTime(ctx, k.process, process.OpOn(b, "read"), func(ctx context.Context) ([]*store.Image, error) {
		return k.upkeep.ReadShards(ctx, k.account(b), b)
	})
}

// Merge halves the number of shards of a bucket in one transaction. Shard i of 2n takes
// over the balance of shard i+n and becomes shard i of n. Shard i+n is deleted. The
// images are all shards, as [Keeper.Shards] has just read them.
//
// Merge moves tokens and creates none. If nobody writes to the bucket meanwhile, it
// loses nothing. Otherwise it tries again on new images, and withholds from each
// retired shard twice what was consumed between the two reads. Tokens withheld and not
// consumed are forfeited.
//
// Merge leaves the shards alone if one is missing, is disabled, has expired, uses a
// peer's feature or is stamped far ahead. It also does so if one holds more than its
// share, or if they disagree about their number, their limits or their owner. It
// reports whether it merged the bucket. It does not merge if others write at every
// attempt, or if the bucket is being doubled. Errors are those of the [store.Store].
// After [store.ErrUnavailable] the bucket may or may not be merged.
//
// If a peer's client still knows of a retired shard, it makes that shard again, full.
func (k *Keeper) Merge(ctx context.Context, images []*store.Image) (bool, error) {
	if len(images) == 0 {
		return false, k.process.ClosedFor("merge no shards")
	}
	b := images[0].Bucket
	return process.InTime(ctx, k.process, process.OpOn(b, "merge"), func(ctx context.Context) (bool, error) {
		return k.upkeep.Merge(ctx, k.account(b), images)
	})
}

// Double doubles the number of shards of a bucket if img shows that its item has used
// four fifths of its hidden write limit. It counts what that limit had earned until the
// instant at. So the bucket doubles before requests have to wait for the limit. The
// instant must be that of the image; Double does not see later writes to the item.
//
// Double sends nothing while the last doubling that this keeper knows of has not had
// its effect. It also sends nothing where it can gain nothing: at [store.MaxShards], and
// for items that are disabled, have expired or use a peer's feature. It reports whether
// there are now more shards than the image says. Errors are those of the [store.Store].
// The next client that notices a half-done doubling finishes it.
func (k *Keeper) Double(ctx context.Context, img *store.Image, at time.Time) (bool, error) {
	acct := k.account(img.Bucket)
	if !k.upkeep.ShouldDouble(acct, img, at) {
		return false, k.process.ClosedFor(process.OpOn(img.Bucket, "double"))
	}
	return process.InTime(ctx, k.process, process.OpOn(img.Bucket, "double"), func(ctx context.Context) (bool, error) {
		return k.upkeep.Double(ctx, acct, img.Bucket, img.ShardCount, nil)
	})
}

// Mend completes the set of shards of a bucket. It finishes a half-done doubling, left
// by a client that died or by a peer that leaves the rest to others. It makes missing
// shards from their siblings. A shard 0 that a peer made again beside existing siblings
// learns their number. Mend reads as many shards as this keeper knows of, and at least
// up to the one that b names. If the shards agree, Mend costs only that read. Errors
// are those of the [store.Store].
func (k *Keeper) Mend(ctx context.Context, b store.Bucket) error {
	_, err := process.InTime(ctx, k.process, process.OpOn(b, "mend"), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, k.upkeep.MendAfterOthers(ctx, k.account(b), b)
	})
	return err
}

// A Demand is the debits that the aggregator expects of a bucket item before it looks at
// the item again.
type Demand struct {
	Amounts []store.Amount // by limit; no use is expected of the others
	Writes  int64          // writes to the item
}

// Replenish accrues a bucket item ahead of its users, if the item, as the image shows
// it, holds less than the demand. Accruing must make up for at least half of the
// shortage. Debits that then find enough tokens need no refill, so they move no stamp.
// All limits of the item accrue in one write, by the same arithmetic and conditions as
// in a request's refill. The hidden write limit pays for the write.
//
// Replenish sends nothing if that would gain nothing. It also leaves an item alone that
// is disabled, has expired, uses a peer's feature, or holds more than its share. It
// reports whether it wrote the item: if another process has refilled the item since the
// image, it did not, which is not an error. It makes one attempt. If the stamp lies far
// ahead, Replenish first moves it back, which does not count as an attempt.
func (k *Keeper) Replenish(ctx context.Context, img *store.Image, next Demand) (bool, error) {
	what, acct := process.OpOn(img.Bucket, "replenish"), k.account(img.Bucket)
	if acct.IsBraked(img.Shard, k.process.Uptime()) {
		k.process.Counts.Braked.Add(1)
		return false, k.process.ClosedFor(what)
	}
	return process.InTime(ctx, k.process, what, func(ctx context.Context) (bool, error) {
		return k.upkeep.Replenish(ctx, acct, img, next.Amounts, next.Writes)
	})
}

// Configure repairs all shards of a bucket to the configuration that holds for it
// now, whatever the shard that b names. It reports whether any shard differed. An
// operator uses it to apply a change to a bucket at once. Limiters in use do the same
// when they compare the bucket, within the time to live of their configuration.
//
// Configure writes every shard, even one that does not differ, with the same write
// that repairs a bucket in use. So a repair that is under way on an older
// configuration cannot land after it. Configure repairs disabled items too.
//
// It fails with [store.ErrUnsupported] if the bucket or its configuration uses a feature of
// a peer that this version cannot evaluate. It leaves such items as they are. Where
// no level configures limits, it writes nothing. Other errors are those of the
// [store.Store]. If Configure was interrupted, call it again to complete the change.
func (k *Keeper) Configure(ctx context.Context, b store.Bucket) (changed bool, err error) {
	return process.InTime(ctx, k.process, process.OpOn(b, "configure"), func(ctx context.Context) (bool, error) {
		return k.upkeep.Configure(ctx, k.account(b), b)
	})
}

// Amend gives limits of a bucket what an operator adds to them, on all shards or on none,
// whatever the shard that the amendment names. It reads, plans and writes up to four times, while
// others write to the bucket. Then it fails with [store.ErrConflict].
//
// It fails with [store.ErrNotFound] if there is no bucket, with [store.ErrNotConfigured] if
// the bucket lacks a limit, and with [store.ErrUnsupported] if the bucket uses a feature of a
// peer that this version cannot evaluate. After [store.ErrUnavailable] the amendment may or may
// not have been applied. Otherwise an error means that it was not.
func (k *Keeper) Amend(ctx context.Context, am *Amendment) (Given, error) {
	return process.InTime(ctx, k.process, am.verb(), func(ctx context.Context) (Given, error) {
		return k.upkeep.Amend(ctx, k.account(am.Bucket), am)
	})
}
