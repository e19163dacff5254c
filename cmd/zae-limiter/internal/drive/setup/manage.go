package setup

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Manage carries out an operation that takes and asks for no tokens. What is not there is an
// answer, too. Limits are set to what they are, so nothing changes under other operations.
func Manage(ctx context.Context, s *dynamo.Store, plan *scenario.Plan, op *scenario.Op) error {
	entity, resource := &plan.Entities[op.Entity], &plan.Resources[op.Resource]
	own, defaults := store.ConfigKey{Entity: entity.ID, Resource: resource.Name}, store.ConfigKey{Resource: resource.Name}
	read := func(k store.ConfigKey) error {
		_, err := s.Limits(ctx, k)
		return ignoreMissing(err)
	}
	switch op.Kind {
	case scenario.SetLimits:
		limits := entity.Limits
		if limits == nil {
			limits = resource.Limits
		}
		return s.SetLimits(ctx, own, limits)
	case scenario.GetLimits:
		return read(own)
	case scenario.SetResourceDefaults:
		return s.SetLimits(ctx, defaults, resource.Limits)
	case scenario.GetResourceDefaults:
		return read(defaults)
	case scenario.GetSystemDefaults:
		return read(store.ConfigKey{})
	case scenario.ListResources:
		_, err := s.ResourcesWithDefaults(ctx)
		return err
	case scenario.GetEntity:
		_, err := s.Entity(ctx, entity.ID)
		return ignoreMissing(err)
	case scenario.GetChildren:
		parent := entity.ID
		if entity.Parent >= 0 {
			parent = plan.Entities[entity.Parent].ID
		}
		_, err := s.Children(ctx, parent)
		return err
	case scenario.Acquire, scenario.Available: // they are a limiter's
	}
	return &store.ValidationError{Field: "call", Value: op.Kind.String(), Reason: "give a call that takes no tokens"}
}

func ignoreMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
