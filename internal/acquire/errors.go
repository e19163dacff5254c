package acquire

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/store"
)

// countBraked is the error of a claim that is not sent, because the shards that could
// serve it were throttled just now.
func (wr *writer) countBraked(c *Claim) error {
	wr.Counts.Braked.Add(1)
	return fmt.Errorf("debit %s of %s: its partition was throttled just now: %w: %w", c.Resource, c.Entity, store.ErrThrottled, store.ErrUnavailable)
}

// errShardsChanged says that the set of a bucket's shards has changed, so that the claim
// must choose again.
var errShardsChanged = errors.New("the shards have changed")

// errNoWritesLeft says that a shard has used its hidden write limit for now, and that there are
// other shards.
var errNoWritesLeft = errors.New("the shard has used its hidden write limit")

// refusedTooOften is the error of a write for which other writers always came first.
func refusedTooOften(b store.Bucket, tries int) error {
	return fmt.Errorf("debit %s of %s: other writers came first %d times: %w", b.Resource, b.Entity, tries, store.ErrConflict)
}

// disabledError says that an operator disabled a bucket.
func disabledError(b store.Bucket, is store.Disabling) error {
	e := &store.DisabledError{Entity: b.Entity, Resource: b.Resource}
	if is.Until != 0 {
		e.Until = time.UnixMilli(is.Until)
	}
	return e
}

// disablingOf is what an item says of whether it is disabled or bypassed.
func disablingOf(img *store.Image) store.Disabling {
	if img == nil {
		return store.Disabling{}
	}
	return store.Disabling{Disabled: img.Disabled, Bypassed: img.Bypassed, Until: img.MarkedUntil, Level: store.SwitchLevels}
}

// obstacle returns the reason why this version cannot tell what several shards hold,
// or may not take it.
func obstacle(b store.Bucket, images []*store.Image) error {
	for _, img := range images {
		switch {
		case img.Disabled:
			return disabledError(b, disablingOf(img))
		case !img.IsEvaluable():
			return unsupported(b, img.Features)
		}
	}
	return nil
}

// unsupported says that this version cannot evaluate features of a bucket.
func unsupported(b store.Bucket, f store.Features) error {
	return &store.UnsupportedError{Entity: b.Entity, Resource: b.Resource, Feature: f.Unsupported().String()}
}
