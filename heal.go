package limiter

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// A healer is a store that shows no item with a stamp far ahead of the clock. Where an
// answer brings one, it moves the stamp back before it hands the answer on, so that
// nothing else in the limiter has to know of such items (ADR 023).
//
// A clock that was far ahead, of a peer for instance, leaves such a stamp. Nothing
// accrues until then, for anybody, and the hidden write limit runs dry.
//
// Only a client that has compared its clock with the store's does it. One whose own
// clock is behind sees every stamp ahead, and would let what was earned be earned again.
//
// A clock that stays ahead moves the stamp forward again with its next write, and gains
// up to one capacity each time. So each time that an item has to be healed again soon,
// the healer waits for twice as long. Meanwhile it shows the item as it is: others get
// what the fast clock accrues and its client leaves.
type healer struct {
	Store

	clock      store.CheckedClock
	multiplier int64                // see [Options.TTLMultiplier]
	uptime     func() time.Duration // of the limiter
	counts     *counts
	logger     *slog.Logger
	healings   *cache[Bucket, healing]
}

// A healing is when an item was last healed, by [Limiter.uptime], and for how long it is
// not healed again.
type healing struct{ at, pause time.Duration }

const (
	// minHealingPause and maxHealingPause bound for how long an item is not healed
	// again.
	minHealingPause = 30 * time.Second
	maxHealingPause = time.Hour
	// rememberedHealings is how many items the healer remembers to have healed.
	rememberedHealings = 10_000
	// healingTries bounds the writes that heal an item. If one is refused, somebody
	// else's came before, who may have healed it.
	healingTries = 2
)

// newHealer is a store that heals, or the store itself, if it does not tell whether it
// has checked its clock.
func newHealer(inner Store, multiplier int64, uptime func() time.Duration, counts *counts, logger *slog.Logger) Store {
	clock, ok := inner.(store.CheckedClock)
	if !ok {
		return inner
	}
	return &healer{inner, clock, multiplier, uptime, counts, logger, newCache[Bucket, healing](rememberedHealings)}
}

// heal is an item after its stamp was moved back, if it has to be; nil if the item has
// gone meanwhile. If the write fails, it is the item as the write would have left it.
func (h *healer) heal(ctx context.Context, img *store.Image) *store.Image {
	for tries := 0; img != nil && img.Foreign == "" && !img.Disabled; tries++ {
		at, checked := h.clock.CheckedNow()
		now, up := at.UnixMilli(), h.uptime()
		if !checked || !isAhead(img, now) {
			return img
		}
		last, again := h.healings.get(img.Bucket)
		if again && up-last.at < last.pause {
			return img
		}
		r := healed(img, now, h.multiplier)
		if tries == healingTries {
			return afterRefill(r)
		}
		out, err := h.Store.Refill(ctx, r)
		if err != nil {
			h.logger.WarnContext(ctx, "stamp of a bucket lies ahead and was not moved back", "entity", img.Entity, "resource", img.Resource,
				"shard", img.Shard, "ahead_ms", img.RefilledAt-now, "error", err)
			return afterRefill(r)
		}
		if out.Applied {
			h.noteHealing(ctx, img, last, moment{now, up})
		}
		img = out.Image
	}
	return img
}

// noteHealing counts a healing and works out for how long there will be no other one.
func (h *healer) noteHealing(ctx context.Context, img *store.Image, last healing, m moment) {
	pause := minHealingPause
	if m.up-last.at < 2*last.pause {
		pause = min(2*last.pause, maxHealingPause)
	}
	h.healings.put(img.Bucket, healing{m.up, pause})
	h.counts.healed.Add(1)
	h.logger.WarnContext(ctx, "stamp of a bucket lay ahead and was moved back", "entity", img.Entity, "resource", img.Resource,
		"shard", img.Shard, "ahead_ms", img.RefilledAt-m.now, "not_again_ms", pause.Milliseconds())
}

// heal is an image that no answer of the store brought, healed if it has to be; nil if
// there is no such item any more.
func (l *Limiter) heal(ctx context.Context, img *store.Image) *store.Image {
	if h, ok := l.store.(*healer); ok {
		return h.heal(ctx, img)
	}
	return img
}

// isAhead reports whether an item's stamp is further ahead than any honest clock.
func isAhead(i *store.Image, now int64) bool { return i.RefilledAt-now > maxSkew.Milliseconds() }

// healed is the write that moves an item's stamp back to now. It takes back what the
// item has earned for the time until its stamp, as far as that is still there. It adds
// nothing to a debt. So the item ends with no more than it would have by now, and what was
// admitted too early is at most what whoever stamped it took: one capacity.
//
// Takes may land in between; what they take is owed then. Credits are in the way. The
// hidden write limit is as if nothing had been written: how much of it was earned since
// it ran dry nobody can tell.
func healed(img *store.Image, now, multiplier int64) *store.Refill {
	r := &store.Refill{
		Bucket: img.Bucket, Seen: img, RefilledAt: now,
		Writes:  pressingWrite(img),
		Changes: make([]store.Change, 0, len(img.Limits)),
	}
	if r.Writes.Kind == store.KeepParams {
		r.Writes.Earned, r.Writes.AtMost = img.Writes.Capacity-img.Writes.Tokens, img.Writes.Tokens
	}
	for i := range img.Limits {
		s := &img.Limits[i]
		early := min(max(0, s.Tokens), shareOf(img, s.Params).Earned(now, img.RefilledAt))
		r.Changes = append(r.Changes, store.Change{Limit: s.Name, Earned: -early, AtLeast: math.MinInt64, AtMost: s.Tokens})
	}
	r.Expiry = refillExpiry(r, img.ExpiresAt != 0, now, multiplier)
	return r
}

// Take is the store's, and so are the others, with the images of healed items.
func (h *healer) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	out, err := h.Store.Take(ctx, t)
	return h.outcome(ctx, out), err
}

// Refill is the store's.
func (h *healer) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	out, err := h.Store.Refill(ctx, r)
	return h.outcome(ctx, out), err
}

// Create is the store's.
func (h *healer) Create(ctx context.Context, c *store.Create) (store.Outcome, error) {
	out, err := h.Store.Create(ctx, c)
	return h.outcome(ctx, out), err
}

// Adjust is the store's.
func (h *healer) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	out, err := h.Store.Adjust(ctx, a)
	return h.outcome(ctx, out), err
}

// Bear is the store's.
func (h *healer) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	joint, err := h.Store.Bear(ctx, b)
	return h.joint(ctx, joint), err
}

// Gather is the store's.
func (h *healer) Gather(ctx context.Context, rs []*store.Refill) (store.Joint, error) {
	joint, err := h.Store.Gather(ctx, rs)
	return h.joint(ctx, joint), err
}

// Merge is the store's.
func (h *healer) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	joint, err := h.Store.Merge(ctx, pairs)
	return h.joint(ctx, joint), err
}

// Buckets is the store's.
func (h *healer) Buckets(ctx context.Context, entity, resource string, shards int) ([]*store.Image, error) {
	images, err := h.Store.Buckets(ctx, entity, resource, shards)
	there := images[:0]
	for _, img := range images {
		if img = h.heal(ctx, img); img != nil {
			there = append(there, img)
		}
	}
	return there, err
}

// Load is the store's.
func (h *healer) Load(ctx context.Context, l *store.Load) (*store.Loaded, error) {
	loaded, err := h.Store.Load(ctx, l)
	if err == nil {
		loaded.Image = h.heal(ctx, loaded.Image)
	}
	return loaded, err
}

func (h *healer) outcome(ctx context.Context, out store.Outcome) store.Outcome {
	out.Image = h.heal(ctx, out.Image)
	return out
}

func (h *healer) joint(ctx context.Context, joint store.Joint) store.Joint {
	for i := range joint.Refusals {
		joint.Refusals[i].Image = h.heal(ctx, joint.Refusals[i].Image)
	}
	return joint
}
