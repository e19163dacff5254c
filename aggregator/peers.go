package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/upkeep"
	"github.com/zeroae/zae-limiter-go/store"
)

// A followed is an item of a table that peers share, with what its records show that a peer did
// and that the item's diary does not have.
type followed struct {
	keeper   *upkeep.Keeper // nil closes no hours
	peers    Peers
	restarts []restart
	turns    []turn
}

// A restart is a record that shows limits whose counts began again.
type restart struct {
	record int
	store.Bucket
	hour   int32 // that was open
	counts map[string]string
}

// A turn is the first record of an hour that is not open. Peers write no diary, so it is the
// aggregator that closes the hour before (ADR 039).
type turn struct {
	record int
	seen   *store.Image // after the write
	hour   int32
	from   *store.Image // with the counts before it
}

// A dayCopy is a day of an entity and resource that may have changed.
type dayCopy struct {
	peers            Peers
	ns               string
	entity, resource string
	day              time.Time
	records          []int
}

// addFollowed adds what is to be done for peers because of an item's records. The hour of a
// record is that of its write, by the server's clock.
func (b *batch) addFollowed(it *item, ns *namespace) {
	f := &followed{keeper: ns.keeper, peers: ns.Peers}
	open := int32(0) // the latest hour to which a record turns
	restarted := map[string]bool{}
	for _, i := range it.records {
		r := &b.records[i]
		if len(r.Restarts) > 0 {
			f.restarts = append(f.restarts, restart{i, it.Bucket, r.New.Hour, r.Restarts})
			for limit := range r.Restarts {
				restarted[limit] = true
			}
		}
		if r.Old != nil && r.Old.Hour != 0 && (r.New == nil || dayOf(r.New.Hour).After(dayOf(r.Old.Hour))) {
			b.addCopy(ns.Peers, it, dayOf(r.Old.Hour), i)
		}
		if r.New == nil || r.At.IsZero() {
			continue
		}
		amounts, _ := consumed(r.Old, r.New)
		hour := diary.HourOf(r.At.UnixMilli())
		if amounts == nil || hour <= max(r.New.Hour, open) {
			continue
		}
		from := r.Old
		if from == nil {
			from = &store.Image{} // all that it has counted belongs to this hour
		}
		f.turns = append(f.turns, turn{i, r.New, hour, from})
		open = hour
	}
	for k := range f.turns {
		f.turns[k].from = without(f.turns[k].from, restarted)
	}
	if len(f.restarts)+len(f.turns) > 0 {
		b.followed = append(b.followed, f)
	}
}

// without returns an image without the counts of some limits: they began again, from 0.
func without(img *store.Image, limits map[string]bool) *store.Image {
	if len(limits) == 0 {
		return img
	}
	rest := *img
	rest.Limits = slices.DeleteFunc(slices.Clone(img.Limits), func(l store.LimitState) bool { return limits[l.Name] })
	return &rest
}

// dayOf is the start of the day of an hour.
func dayOf(hour int32) time.Time { return diary.Start(hour).Truncate(24 * time.Hour) }

// addCopy adds a day, which a record shows to be complete on one of its items.
func (b *batch) addCopy(peers Peers, it *item, day time.Time, record int) {
	k := slices.IndexFunc(b.copies, func(c *dayCopy) bool {
		return c.ns == it.ns && c.entity == it.Entity && c.resource == it.Resource && c.day.Equal(day)
	})
	if k < 0 {
		k = len(b.copies)
		b.copies = append(b.copies, &dayCopy{peers: peers, ns: it.ns, entity: it.Entity, resource: it.Resource, day: day})
	}
	b.copies[k].records = append(b.copies[k].records, record)
}

// followPeers closes the hours of items that peers have used, and then copies days for the
// peer's readers. It makes a write for each item and hour.
//
// Counts that began again are forgotten first. A turn would otherwise close the hour with the
// difference of two counts that have nothing to do with each other:
//
//	peer         removes a limit with its count 900 ── adds it again ── takes 5
//	aggregator                                                             forgets 900 ── turns: 5 − 0
//	otherwise                                                              turns: 5 − 900
func (a *Aggregator) followPeers(ctx context.Context, b *batch) {
	a.atOnce(len(b.followed), func(i int) {
		f := b.followed[i]
		for _, r := range f.restarts {
			if err := f.peers.Restart(ctx, r.Bucket, r.hour, r.counts); err != nil {
				b.fail([]int{r.record}, err)
			}
		}
		if f.keeper == nil {
			return
		}
		var failed error // later hours need the earlier ones
		for _, t := range f.turns {
			turned := false
			if failed == nil {
				turned, failed = f.keeper.Turn(ctx, t.seen, t.hour, t.from)
			}
			if failed != nil {
				b.fail([]int{t.record}, failed)
			}
			if turned {
				b.tally(func(r *Result) { r.Hours++ })
			}
		}
	})
	a.atOnce(len(b.copies), func(i int) {
		c := b.copies[i]
		switch err := c.peers.SaveDay(ctx, c.entity, c.resource, c.day); {
		case errors.Is(err, store.ErrAccessDenied): // the hours are there, so no record waits for a permission
			b.tally(func(r *Result) { r.Errors++ })
			a.o.Logger.WarnContext(ctx, "day of usage was not copied", "entity", c.entity, "resource", c.resource, "error", err)
		case err != nil:
			b.fail(c.records, fmt.Errorf("copy a day of usage: %w", err))
		default:
			b.tally(func(r *Result) { r.Days++ })
		}
	})
}
