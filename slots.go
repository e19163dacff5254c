package limiter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/acquire"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// A SlotUse says who holds the slots of a limit.
type SlotUse struct {
	Entity, Resource string
	// Limit has the number of slots. It has none, and Level is [LevelNone], if no level of the
	// configuration has the limit, so that requests bring it ([Request.SlotFallback]).
	Limit SlotLimit
	Level Level
	// Held are the slots of all holders, and Waiting are those that their callers wait for.
	Held, Waiting int64
	// Used is the fraction of the slots that is held; 0 if their number is not known.
	Used    float64
	Holders []SlotHolder // who hold the most first
}

// A SlotHolder is a process that holds slots of a limit.
type SlotHolder struct {
	// Process is a name that each limiter gives to itself.
	Process string
	// Held are the slots that the process has for its requests, and keeps for the next ones.
	// Waiting are those that its callers wait for.
	Held, Waiting int64
	// RenewedAt is when the process last wrote that it is alive, by its own clock. It holds the
	// slots until LeaseEnd, unless it renews them.
	RenewedAt, LeaseEnd time.Time
	// Gone says that the process did not renew them in time. Whoever next wants slots sets these
	// free.
	Gone bool
}

// slotUse is who holds slots of a limit, by an image of them, which may be nil.
func (l *Limiter) slotUse(k store.SlotKey, w *plan.Wanted, img *store.SlotImage) SlotUse {
	u := SlotUse{Entity: k.Entity, Resource: k.Resource, Limit: SlotLimit{Name: k.Limit, Slots: store.SlotsOf(w.Slots, k.Limit)}}
	if u.Limit.Slots > 0 {
		u.Level = LevelEntityResource + Level(w.SlotsAt) //nolint:gosec // there are few levels
	}
	if img == nil {
		return u
	}
	now := l.driver.Now()
	for i := range img.Holdings {
		h := &img.Holdings[i]
		u.Held += h.Held
		u.Waiting += h.Wants
		u.Holders = append(u.Holders, SlotHolder{
			Process: h.Process, Held: h.Held, Waiting: h.Wants,
			RenewedAt: time.UnixMilli(acquire.RenewedAt(h)), LeaseEnd: time.UnixMilli(h.Until), Gone: acquire.IsGone(h, now),
		})
	}
	slices.SortFunc(u.Holders, func(a, b SlotHolder) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(b.Waiting, a.Waiting), strings.Compare(a.Process, b.Process))
	})
	if u.Limit.Slots > 0 {
		u.Used = float64(u.Held) / float64(u.Limit.Slots)
	}
	return u
}

// slotUses is who holds the slots of an entity, of each limit in its configuration.
func (l *Limiter) slotUses(ctx context.Context, w *plan.Wanted, entity, resource string) ([]SlotUse, error) {
	images, err := l.driver.Inspector.SlotImages(ctx, w, entity, resource)
	if err != nil {
		return nil, err
	}
	uses := make([]SlotUse, len(images))
	for i, img := range images {
		uses[i] = l.slotUse(store.SlotKey{Entity: entity, Resource: resource, Limit: w.Slots[i].Name}, w, img)
	}
	return uses, nil
}

// A SlotCount is how many slots of a limit of one entity the requests of a limiter hold, and wait
// for.
type SlotCount struct {
	Entity, Resource, Limit string
	Held, Waiting           int64
}

// SlotCounts are the slots that the requests of this limiter hold now, or wait for, in no order. It
// asks nobody: [Limiter.Standing] also shows other processes.
func (l *Limiter) SlotCounts() []SlotCount {
	uses := l.driver.SlotUses()
	counts := make([]SlotCount, len(uses))
	for i, u := range uses {
		counts[i] = SlotCount{u.Entity, u.Resource, u.Limit, u.Held, u.Waiting}
	}
	return counts
}

// TopSlots returns who holds the slots of a resource that are nearest to their limits, the most
// used first: those with the largest [SlotUse.Used]. Slots of which none is held or waited for are
// left out.
//
// TopSlots reads the slots that were held within a day, page after page, and the configuration of
// those who hold some now. On DynamoDB that costs half a read unit for each limit of an entity, and
// about half for every 20 of the index, of the whole namespace. It ends as [Limiter.Top] does, and
// writes nothing.
//
// The store must be a [store.SlotLister], as dynamo.Store is.
func (l *Limiter) TopSlots(ctx context.Context, q TopQuery) ([]SlotUse, error) {
	lister := l.driver.Process.SlotLister
	if lister == nil {
		return nil, cannotList(l.driver.Process.Store, "slots: use a store.SlotLister")
	}
	return topOf(ctx, l, "find the most used slots", q, lister.ResourceSlots, compareUses, func(ctx context.Context, top *ranking[SlotUse], img *store.SlotImage) error {
		if img.Used == 0 && len(img.Holdings) == 0 {
			return nil
		}
		w, _, err := l.driver.Config.Resolve(ctx, img.Entity, img.Resource, nil)
		if err != nil {
			return fmt.Errorf("read the configuration of %s for %s: %w", img.Resource, img.Entity, err)
		}
		if !q.WithoutParent || w.Owner.Parent == "" {
			top.add(l.slotUse(img.SlotKey, w, img))
		}
		return nil
	})
}

// compareUses says which of two is nearer to its limit.
func compareUses(a, b SlotUse) int {
	return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held),
		strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Limit.Name, b.Limit.Name))
}
