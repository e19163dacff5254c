package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/memory"
	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/store"
)

// Configure repairs all shards of a bucket to the configuration that holds for it
// now, whatever the shard that b names. It reports whether any shard differed. An
// operator uses it to apply a change to a bucket at once. Limiters in use do the same
// when they compare the bucket, within [Options.ConfigTTL].
//
// Configure writes every shard, even one that does not differ, with the same write
// that repairs a bucket in use. So a repair that is under way on an older
// configuration cannot land after it. Configure repairs disabled items too.
//
// It fails with [ErrUnsupported] if the bucket or its configuration uses a feature of
// a peer that this version cannot evaluate. It leaves such items as they are. Where
// no level configures limits, it writes nothing. Other errors are those of the
// [Store]. If Configure was interrupted, call it again to complete the change.
func (l *Limiter) Configure(ctx context.Context, b Bucket) (changed bool, err error) {
	return inTime(ctx, l, opOn(b, "configure"), func(ctx context.Context) (bool, error) { return l.configure(ctx, b) })
}

func (l *Limiter) configure(ctx context.Context, b Bucket) (changed bool, err error) {
	acct := l.account(b.Entity, b.Resource)
	var written []int // shards
	for tries := range maxTries {
		if err := l.pause(ctx, nil, tries); err != nil {
			return changed, err
		}
		all, err := l.readShards(ctx, &acct.Account, b)
		if err != nil {
			return changed, err
		}
		images := slices.DeleteFunc(slices.Clone(all), func(img *store.Image) bool { return slices.Contains(written, img.Shard) })
		if len(images) == 0 {
			return changed, nil
		}
		w, err := l.verify(ctx, acct, b)
		if err != nil {
			return changed, err
		}
		if w.IsUnlimited() {
			return changed, nil
		}
		if err := isEvaluable(w, images); err != nil {
			return changed, err
		}
		differed, done, err := l.configureAll(ctx, acct, images, w)
		changed, written = changed || differed, append(written, done...)
		if err != nil || len(done) == len(images) && plan.IsWhole(all) {
			return changed, err
		}
	}
	return changed, fmt.Errorf("configure %s of %s: other writers got in between %d times: %w", b.Resource, b.Entity, maxTries, ErrConflict)
}

// isEvaluable fails if a configuration, or an item that it is for, uses a feature
// that this version cannot evaluate.
func isEvaluable(w *plan.Wanted, images []*store.Image) error {
	feature := w.Foreign
	for _, img := range images {
		if feature == "" {
			feature = img.Foreign
		}
	}
	if feature == "" {
		return nil
	}
	return &UnsupportedError{Entity: images[0].Entity, Resource: images[0].Resource, Feature: feature}
}

// configureAll tries once to repair each of some shards to a configuration that was
// read after their images. It returns the shards that it wrote, and whether any of
// them differed.
func (l *Limiter) configureAll(ctx context.Context, acct *account, images []*store.Image, w *plan.Wanted) (differed bool, written []int, _ error) {
	applied, errs := make([]bool, len(images)), make([]error, len(images))
	l.atOnce(len(images), func(i int) {
		img := images[i]
		d := plan.Debit{Bucket: img.Bucket, Repair: w, Pressing: true}
		m := l.moment()
		r, _, _ := d.Refill(img, max(m.Now, img.RefilledAt+1), l.multiplier)
		out, err := l.send(ctx, &acct.Account, img.Bucket, memory.StampUse{Moves: true}, m, func(ctx context.Context) (store.Outcome, error) { return l.store.Refill(ctx, r) })
		if !isTurnedAway(err) {
			errs[i] = err
		}
		applied[i] = err == nil && out.Applied
	})
	for i, img := range images {
		if applied[i] {
			written, differed = append(written, img.Shard), differed || w.Differs(img)
		}
	}
	return differed, written, errors.Join(errs...)
}
