package process

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A healer is a store that shows no item with a stamp far ahead of the clock. If an
// answer brings such an item, the healer moves the stamp back before it passes the
// answer on. So the rest of the process need not know of such items (ADR 023).
//
// A clock that was far ahead, for example a peer's, leaves such a stamp. Nothing
// accrues until then, for any client, and the hidden write limit runs dry.
//
// A client heals only if it has compared its clock with the store's. A client whose own
// clock is behind sees every stamp ahead, and would let tokens be earned twice.
//
// It removes from an item a switch that has ended, in the same way (ADR 045).
//
// A clock that stays ahead moves the stamp forward again with its next write, and gains
// up to one capacity each time. So if an item must be healed again soon, the healer
// doubles the time until it heals the item again. Meanwhile it shows the item as it is:
// other clients get what the fast clock accrues and its client leaves.
type healer struct {
	store.Store

	clock    store.CheckedClock
	process  *Process
	healings *memory.Cache[store.Bucket, healing]
}

// A healing is when an item was last healed, by [memory.Clock.Uptime], and for how long the
// healer does not heal it again.
type healing struct{ at, pause time.Duration }

const (
	// minHealingPause and maxHealingPause bound the time for which the healer does not
	// heal an item again.
	minHealingPause = 30 * time.Second
	maxHealingPause = time.Hour
	// rememberedHealings is the number of healed items that the healer remembers.
	rememberedHealings = 10_000
	// healingTries bounds the writes that heal an item. If one is refused, another
	// client's write came first, and may have healed the item.
	healingTries = 2
)

// newHealer returns a store that heals what inner returns. If the store s, whose operations
// inner has, does not tell whether it has checked its clock, newHealer returns inner.
func newHealer(s, inner store.Store, p *Process) store.Store {
	clock, ok := s.(store.CheckedClock)
	if !ok {
		return inner
	}
	return &healer{inner, clock, p, memory.NewCache[store.Bucket, healing](rememberedHealings)}
}

// heal returns an item with its stamp moved back, if that was necessary; nil if the
// item no longer exists. If the write fails, heal returns the item as the write would
// have left it.
//
// If the caller of a request must be able to leave it, the image stays as it is: see
// [Process.Heal].
func (h *healer) heal(ctx context.Context, img *store.Image) *store.Image {
	if calls.MustLeave(ctx) {
		return img
	}
	img = h.enable(ctx, img)
	for tries := 0; img != nil && img.IsEvaluable() && !img.Disabled; tries++ {
		at, checked := h.clock.CheckedNow()
		now, up := at.UnixMilli(), h.process.Uptime()
		if !checked || !plan.IsAhead(img, now) {
			return img
		}
		last, again := h.healings.Get(img.Bucket)
		if again && up-last.at < last.pause {
			return img
		}
		r := plan.Healed(img, now, h.process.Multiplier)
		if tries == healingTries {
			return plan.AfterRefill(r)
		}
		out, err := h.Store.Refill(ctx, r)
		if err != nil {
			h.process.Logger.WarnContext(ctx, "stamp of a bucket lies ahead and was not moved back", "entity", img.Entity, "resource", img.Resource,
				"shard", img.Shard, "ahead_ms", img.RefilledAt-now, "error", err)
			return plan.AfterRefill(r)
		}
		if out.Applied {
			h.noteHealing(ctx, img, last, memory.Moment{Now: now, Up: up})
		}
		img = out.Image
	}
	return img
}

// enable returns an item without a switch that has ended. If the write fails, the item stays
// disabled.
func (h *healer) enable(ctx context.Context, img *store.Image) *store.Image {
	for tries := 0; img != nil && tries < healingTries; tries++ {
		if !plan.HasEnded(img, h.process.Now()) {
			break
		}
		out, err := h.Store.Refill(ctx, plan.Enabled(img))
		if err != nil {
			h.process.Logger.WarnContext(ctx, "bucket not enabled although its switch has ended", "entity", img.Entity, "resource", img.Resource,
				"shard", img.Shard, "error", err)
			break
		}
		img = out.Image
	}
	return img
}

// noteHealing counts a healing and sets the time until the next one.
func (h *healer) noteHealing(ctx context.Context, img *store.Image, last healing, m memory.Moment) {
	pause := minHealingPause
	if m.Up-last.at < 2*last.pause {
		pause = min(2*last.pause, maxHealingPause)
	}
	h.healings.Put(img.Bucket, healing{m.Up, pause})
	h.process.Counts.Healed.Add(1)
	h.process.Logger.WarnContext(ctx, "stamp of a bucket lay ahead and was moved back", "entity", img.Entity, "resource", img.Resource,
		"shard", img.Shard, "ahead_ms", img.RefilledAt-m.Now, "not_again_ms", pause.Milliseconds())
}

// Heal returns an image that no answer of the store brought, or whose request the caller had to
// be able to leave. It is healed if necessary, and nil if the item no longer exists.
func (p *Process) Heal(ctx context.Context, img *store.Image) *store.Image {
	if h, ok := p.Store.(*healer); ok {
		return h.heal(ctx, img)
	}
	return img
}

// Take and the methods below call the store's, and heal the images in the answers.
func (h *healer) Take(ctx context.Context, t *store.Take) (store.Outcome, error) {
	out, err := h.Store.Take(ctx, t)
	return h.outcome(ctx, out), err
}

// Refill calls the store's Refill.
func (h *healer) Refill(ctx context.Context, r *store.Refill) (store.Outcome, error) {
	out, err := h.Store.Refill(ctx, r)
	return h.outcome(ctx, out), err
}

// Create calls the store's Create.
func (h *healer) Create(ctx context.Context, c *store.Create) (store.Outcome, error) {
	out, err := h.Store.Create(ctx, c)
	return h.outcome(ctx, out), err
}

// Adjust calls the store's Adjust.
func (h *healer) Adjust(ctx context.Context, a *store.Adjust) (store.Outcome, error) {
	out, err := h.Store.Adjust(ctx, a)
	return h.outcome(ctx, out), err
}

// Bear calls the store's Bear.
func (h *healer) Bear(ctx context.Context, b *store.Birth) (store.Joint, error) {
	joint, err := h.Store.Bear(ctx, b)
	return h.joint(ctx, joint), err
}

// Gather calls the store's Gather.
func (h *healer) Gather(ctx context.Context, rs []*store.Refill) (store.Joint, error) {
	joint, err := h.Store.Gather(ctx, rs)
	return h.joint(ctx, joint), err
}

// Merge calls the store's Merge.
func (h *healer) Merge(ctx context.Context, pairs []*store.Pair) (store.Joint, error) {
	joint, err := h.Store.Merge(ctx, pairs)
	return h.joint(ctx, joint), err
}

// Buckets calls the store's Buckets.
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

// Load calls the store's Load.
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
