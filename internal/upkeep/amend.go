package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/process"
	"github.com/zeroae/zae-limiter-go/store"
)

// amendTries bounds the attempts of an amendment. An operator waits for the answer, and may
// try again.
const amendTries = 4

// An Amendment is what an operator gives limits of a bucket besides what they earn: see
// [plan.Amendment].
type Amendment struct {
	store.Bucket
	Resets  bool
	Amounts []store.Amount // by limit name; with none, a reset is of all limits
	// Write applies the refills with whatever belongs in their transaction, or tells which of
	// them was refused. It may be called several times. nil only works out what would be
	// given.
	Write func(context.Context, []*store.Refill, Given) (store.Joint, error)
}

// verb says what an amendment does, for errors.
func (am *Amendment) verb() string {
	if am.Resets {
		return fmt.Sprintf("reset %s of %s", am.Resource, am.Entity)
	}
	return fmt.Sprintf("top up %s of %s", am.Resource, am.Entity)
}

// A Given is what an amendment did to a bucket.
type Given struct {
	Limits []string // that got something, by name
	Tokens []int64  // how many whole tokens each of them has more
	Shards int      // that were written
}

// Amend carries out an amendment over all shards of a bucket, together or not at all.
//
// Each attempt reads the shards, and then the configuration. A set that is not whole is mended first:
// two shards that hold the same share would both get it. Shards of a half-done doubling are whole,
// and each gets what its own number says.
func (d *Driver) Amend(ctx context.Context, acct *memory.Account, am *Amendment) (Given, error) {
	for tries := range amendTries {
		if tries > 0 {
			if err := d.Pause(ctx, nil, tries+process.FreeTries); err != nil {
				return Given{}, err
			}
		}
		images, err := d.shardsFor(ctx, acct, am)
		if err != nil {
			return Given{}, err
		}
		m := d.Moment()
		refills, given, err := d.amendments(ctx, acct, am, images, m.Now)
		if err != nil || am.Write == nil {
			return given, err
		}
		joint, err := d.sendAmendment(ctx, acct, am, refills, given, m)
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return Given{}, err
		case joint.Applied:
			return given, nil
		}
	}
	return Given{}, fmt.Errorf("%s: other writers came first %d times: %w", am.verb(), amendTries, store.ErrConflict)
}

// shardsFor reads the shards for an amendment, and mends a set that is not whole. It asks for
// all shards that there may be, because a shard 0 that a peer has made again does not know of the others.
func (d *Driver) shardsFor(ctx context.Context, acct *memory.Account, am *Amendment) ([]*store.Image, error) {
	b := am.Bucket
	images, err := d.ReadMany(ctx, acct, b, store.MaxShards)
	if err != nil {
		return nil, err
	}
	if am.Write != nil && len(images) > 0 && !plan.IsWhole(images) && !plan.AreStamped(images) {
		if _, err := d.Mend(ctx, acct, b, nil); err != nil {
			return nil, err
		}
		if images, err = d.ReadShards(ctx, acct, b); err != nil {
			return nil, err
		}
	}
	if len(images) == 0 {
		return nil, &store.NotFoundError{
			Kind: "bucket", Name: b.Resource + " of " + b.Entity, Hint: "it was not used yet or has expired, so its limits are full: check the names, or acquire once, 0 tokens for instance",
		}
	}
	return images, nil
}

// sendAmendment sends the writes of an amendment, and remembers what they met.
func (d *Driver) sendAmendment(ctx context.Context, acct *memory.Account, am *Amendment, refills []*store.Refill, given Given, m memory.Moment) (store.Joint, error) {
	of := make([]store.Bucket, len(refills))
	for i, r := range refills {
		of[i] = r.Bucket
	}
	after := func(i int) *store.Image { return plan.AfterRefill(refills[i]) }
	return d.SendJoint(ctx, acct, of, after, m, func(ctx context.Context) (store.Joint, error) { return am.Write(ctx, refills, given) })
}

// amendments works out the writes of an amendment, on images that were read before the
// configuration is.
func (d *Driver) amendments(ctx context.Context, acct *memory.Account, am *Amendment, images []*store.Image, now int64) ([]*store.Refill, Given, error) {
	b := am.Bucket
	w, err := d.Verify(ctx, acct, b)
	if err != nil {
		return nil, Given{}, err
	}
	if err := isEvaluable(w, images); err != nil {
		return nil, Given{}, err
	}
	if w.IsUnlimited() {
		w = nil
	}
	known := limitsOf(w, images)
	planned := plan.Amendment{Resets: am.Resets, Amounts: am.Amounts}
	if len(planned.Amounts) == 0 {
		for _, name := range known {
			planned.Amounts = append(planned.Amounts, store.Amount{Limit: name})
		}
	}
	given := Given{Shards: len(images)}
	var missing []string
	for _, a := range planned.Amounts {
		given.Limits = append(given.Limits, a.Limit)
		if !slices.Contains(known, a.Limit) {
			missing = append(missing, a.Limit)
		}
	}
	if len(missing) > 0 {
		e := &store.NotConfiguredError{Entity: b.Entity, Resource: b.Resource, Limits: missing, Known: known}
		if w != nil {
			e = w.NotConfigured(&b, missing)
		}
		return nil, Given{}, e
	}
	var refills []*store.Refill
	refills, given.Tokens, err = planned.Over(images, w, now, d.Multiplier)
	return refills, given, err
}

// limitsOf are the limits that a bucket has once it is as configured, by name; those of its
// shards if no level configures limits.
func limitsOf(w *plan.Wanted, images []*store.Image) (names []string) {
	if w != nil {
		for i := range w.Limits {
			names = append(names, w.Limits[i].Name)
		}
	} else {
		for _, img := range images {
			for i := range img.Limits {
				names = append(names, img.Limits[i].Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
