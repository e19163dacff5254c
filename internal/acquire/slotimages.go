package acquire

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/plan"
	"github.com/zeroae/zae-limiter-go/internal/slots"
	"github.com/zeroae/zae-limiter-go/store"
)

// IsGone and RenewedAt tell of an entry what package slots knows of it.
var (
	IsGone    = slots.IsGone
	RenewedAt = slots.RenewedAt
)

// SlotImages reads who holds the slots of an entity, of each limit in its configuration. An image is
// nil if nobody ever held any.
func (in *Inspector) SlotImages(ctx context.Context, w *plan.Wanted, entity, resource string) ([]*store.SlotImage, error) {
	if in.Slots == nil {
		return nil, nil
	}
	images, errs := make([]*store.SlotImage, len(w.Slots)), make([]error, len(w.Slots))
	in.AtOnce(len(images), func(i int) {
		images[i], errs[i] = in.Slots.Slots(ctx, store.SlotKey{Entity: entity, Resource: resource, Limit: w.Slots[i].Name})
	})
	return images, errors.Join(errs...)
}
