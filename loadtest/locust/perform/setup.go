package perform

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest/scenario"
	"github.com/zeroae/zae-limiter-go/store"
)

// SetUp writes the limits and entities of the scenario, and empties the buckets that it
// wants exhausted. It changes nothing that is as it should be, so that any number of workers
// may do it, also at the same time. It deletes nothing.
func (a *Actor) SetUp(ctx context.Context) error {
	c := &a.clients[0]
	for i := range a.plan.Resources {
		r := &a.plan.Resources[i]
		if err := patiently(ctx, func() error { return c.Store.SetLimits(ctx, store.ConfigKey{Resource: r.Name}, r.Limits) }); err != nil {
			return fmt.Errorf("set the limits of resource %s: %w", r.Name, err)
		}
	}
	// Entities of one parent are created one after another: their transactions would
	// conflict at its record.
	families := a.families()
	err := each(ctx, len(families), func(ctx context.Context, i int) error {
		for _, e := range families[i] {
			if err := a.create(ctx, c, e); err != nil {
				return fmt.Errorf("set up entity %s: %w", a.plan.Entities[e].ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.exhaust(ctx, c)
}

// families are the entities that need a record or limits, each with its parent, which comes
// first.
func (a *Actor) families() (all [][]int) {
	of := map[int]int{} // index of a parent's family
	for i := range a.plan.Entities {
		e := &a.plan.Entities[i]
		switch {
		case e.Parent >= 0:
			at, ok := of[e.Parent]
			if !ok {
				at = len(all)
				of[e.Parent], all = at, append(all, []int{e.Parent})
			}
			all[at] = append(all[at], i)
		case e.Limits != nil:
			all = append(all, []int{i})
		}
	}
	return all
}

func (a *Actor) create(ctx context.Context, c *Client, index int) error {
	e := &a.plan.Entities[index]
	if e.Parent >= 0 || e.IsParent {
		record := store.Entity{ID: e.ID}
		if e.Parent >= 0 {
			record.Parent, record.Cascade = a.plan.Entities[e.Parent].ID, true
		}
		err := patiently(ctx, func() error {
			_, err := c.Store.CreateEntity(ctx, record)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	if e.Limits == nil {
		return nil
	}
	return patiently(ctx, func() error {
		return c.Store.SetLimits(ctx, store.ConfigKey{Entity: e.ID, Resource: store.DefaultResource}, e.Limits)
	})
}

// exhaust takes all tokens of the buckets of populations that are to be exhausted.
func (a *Actor) exhaust(ctx context.Context, c *Client) error {
	type bucket struct{ entity, resource int }
	var buckets []bucket
	known := map[bucket]bool{}
	for i := range a.plan.Classes {
		for _, share := range a.plan.Classes[i].From {
			of := &a.plan.Populations[share.Population]
			if !of.Exhausted {
				continue
			}
			for _, r := range a.plan.Classes[i].Resources {
				for n := range of.Count {
					b := bucket{a.plan.First[share.Population] + n, r.Index}
					if !known[b] {
						known[b], buckets = true, append(buckets, b)
					}
				}
			}
		}
	}
	return each(ctx, len(buckets), func(ctx context.Context, i int) error {
		entity, resource := a.plan.Entities[buckets[i].entity].ID, &a.plan.Resources[buckets[i].resource]
		err := patiently(ctx, func() error { return empty(ctx, c, entity, resource) })
		if err != nil {
			return fmt.Errorf("exhaust %s of %s: %w", resource.Name, entity, err)
		}
		return nil
	})
}

// empty takes what is available. Another worker may be faster.
func empty(ctx context.Context, c *Client, entity string, of *scenario.Resource) error {
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

// patiently repeats what other workers and a table that is throttled may hinder.
func patiently(ctx context.Context, do func() error) error {
	const attempts, interval = 100, 50 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := do()
		again := errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrUnavailable)
		if !again || attempt == attempts {
			return err
		}
		if !pause(ctx, interval) {
			return context.Cause(ctx)
		}
	}
}

// each calls f with the numbers up to n, some at a time, until one fails.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	const atATime = 16
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var calls sync.WaitGroup
	for range min(atATime, n) {
		calls.Go(func() {
			for i := range numbers {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	calls.Wait()
	return context.Cause(ctx)
}
