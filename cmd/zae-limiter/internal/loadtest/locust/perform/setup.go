package perform

import (
	"context"
	"errors"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// SetUp writes the limits and entities of the scenario, and empties the buckets that it
// wants exhausted. It changes nothing that is as it should be, so that any number of workers
// may do it, also at the same time. It deletes nothing.
func (a *Actor) SetUp(ctx context.Context) error {
	c := &a.clients[0]
	if err := setup.Write(ctx, c.Store, a.plan); err != nil {
		return err
	}
	return a.exhaust(ctx, c)
}

// exhaust takes all tokens of the buckets of populations that are to be exhausted.
func (a *Actor) exhaust(ctx context.Context, c *drive.Client) error {
	var buckets [][2]int
	known := map[[2]int]bool{}
	for c := range a.plan.Classes {
		for _, b := range drive.BucketsOf(a.plan, c) {
			if of := &a.plan.Entities[b[0]]; a.plan.Populations[of.Population].Exhausted && !known[b] {
				known[b], buckets = true, append(buckets, b)
			}
		}
	}
	return setup.Each(ctx, len(buckets), func(ctx context.Context, i int) error {
		entity, resource := a.plan.Entities[buckets[i][0]].ID, &a.plan.Resources[buckets[i][1]]
		err := setup.Patiently(ctx, setup.Again, func() error { return empty(ctx, c, entity, resource) })
		if err != nil {
			return fmt.Errorf("exhaust %s of %s: %w", resource.Name, entity, err)
		}
		return nil
	})
}

// empty takes what is available. Another worker may be faster.
func empty(ctx context.Context, c *drive.Client, entity string, of *scenario.Resource) error {
	r := limiter.Request{Entity: entity, Resource: of.Name, Consume: map[string]int64{}, OnUnavailable: limiter.Block}
	for _, l := range of.Limits {
		r.Consume[l.Name] = 0
	}
	statuses, err := c.Limiter.Available(ctx, r)
	if err != nil {
		return err
	}
	for _, s := range statuses {
		if s.Entity == entity {
			r.Consume[s.Limit.Name] = max(s.Available, 0)
		}
	}
	_, err = c.Limiter.Acquire(ctx, r)
	if errors.Is(err, limiter.ErrExceeded) {
		return nil
	}
	return err
}
