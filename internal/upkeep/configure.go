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

// Configure repairs all shards of a bucket to the configuration that holds for it now. It
// writes every shard, even one that does not differ, and reports whether any differed. A
// repair that is under way on an older configuration then cannot land after it.
func (d *Driver) Configure(ctx context.Context, acct *memory.Account, b store.Bucket) (changed bool, err error) {
	var written []int // shards
	for tries := range process.MaxTries {
		if err := d.Pause(ctx, nil, tries); err != nil {
			return changed, err
		}
		all, err := d.ReadShards(ctx, acct, b)
		if err != nil {
			return changed, err
		}
		images := slices.DeleteFunc(slices.Clone(all), func(img *store.Image) bool { return slices.Contains(written, img.Shard) })
		w, err := d.wanted(ctx, acct, b, images)
		if err != nil || w == nil {
			return changed, err
		}
		differed, done, err := d.configureAll(ctx, acct, images, w)
		changed, written = changed || differed, append(written, done...)
		if err != nil || len(done) == len(images) && plan.IsWhole(all) {
			return changed, err
		}
	}
	return changed, fmt.Errorf("configure %s of %s: other writers came first %d times: %w", b.Resource, b.Entity, process.MaxTries, store.ErrConflict)
}

// wanted is what shards are to become; nil if there are none, or no limits are configured. It fails
// if the configuration, or an item, uses a feature that this version cannot evaluate.
func (d *Driver) wanted(ctx context.Context, acct *memory.Account, b store.Bucket, images []*store.Image) (*plan.Wanted, error) {
	if len(images) == 0 {
		return nil, nil //nolint:nilnil // nothing is wanted of no shards
	}
	w, err := d.Verify(ctx, acct, b)
	if err != nil || w.IsUnlimited() {
		return nil, err
	}
	return w, isEvaluable(w, images)
}

// isEvaluable fails if a configuration, or an item that it is for, uses a feature
// that this version cannot evaluate.
func isEvaluable(w *plan.Wanted, images []*store.Image) error {
	features := w.Features
	for _, img := range images {
		features |= img.Features
	}
	if features = features.Unsupported(); features == 0 {
		return nil
	}
	return &store.UnsupportedError{Entity: images[0].Entity, Resource: images[0].Resource, Feature: features.String()}
}

// configureAll tries once to repair each of some shards to a configuration that was
// read after their images. It returns the shards that it wrote, and whether any of
// them differed.
func (d *Driver) configureAll(ctx context.Context, acct *memory.Account, images []*store.Image, w *plan.Wanted) (differed bool, written []int, _ error) {
	applied, errs := make([]bool, len(images)), make([]error, len(images))
	d.AtOnce(len(images), func(i int) {
		img := images[i]
		debit := plan.Debit{Bucket: img.Bucket, Repair: w, Pressing: true}
		m := d.Moment()
		r, _, _ := debit.Refill(img, max(m.Now, img.RefilledAt+1), d.Multiplier)
		out, err := d.Send(ctx, acct, img.Bucket, memory.StampUse{Moves: true}, m, func(ctx context.Context) (store.Outcome, error) { return d.Store.Refill(ctx, r) })
		if !process.IsTurnedAway(err) {
			errs[i] = err
		}
		applied[i] = err == nil && out.Applied
	})
	for i, img := range images {
		if applied[i] {
			written, differed = append(written, img.Shard), differed || w.Differs(img, d.Now())
		}
	}
	return differed, written, errors.Join(errs...)
}
