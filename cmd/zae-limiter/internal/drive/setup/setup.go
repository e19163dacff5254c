// Package setup writes what a scenario needs before its load begins, and carries out its
// calls that manage entities and limits.
package setup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/store"
)

// Write writes the limits of the resources, the records of entities that need one, and the
// limits of entities. It changes nothing that is as it should be, so that any number of
// processes may do it, also at the same time. It deletes nothing.
func Write(ctx context.Context, s *dynamo.Store, plan *scenario.Plan) error {
	for i := range plan.Resources {
		r := &plan.Resources[i]
		if err := setLimits(ctx, s, store.ConfigKey{Resource: r.Name}, r.Limits); err != nil {
			return fmt.Errorf("set the limits of resource %s: %w", r.Name, err)
		}
	}
	families, records := familiesOf(plan), NeedsRecords(plan)
	return Each(ctx, len(families), func(ctx context.Context, i int) error {
		for _, e := range families[i] {
			if err := write(ctx, s, plan, e, records); err != nil {
				return fmt.Errorf("set up entity %s: %w", plan.Entities[e].ID, err)
			}
		}
		return nil
	})
}

// familiesOf are the entities that need a record or limits, as indexes, each with its parent,
// which comes first. Entities of one parent are created one after another: their transactions
// would conflict at its record.
func familiesOf(plan *scenario.Plan) (all [][]int) {
	records := NeedsRecords(plan)
	of := map[int]int{} // index of a parent's family
	family := func(parent int) int {
		at, ok := of[parent]
		if !ok {
			at = len(all)
			of[parent], all = at, append(all, []int{parent})
		}
		return at
	}
	for i := range plan.Entities {
		switch e := &plan.Entities[i]; {
		case e.IsParent:
			family(i)
		case e.Parent >= 0:
			at := family(e.Parent)
			all[at] = append(all[at], i)
		case e.Limits != nil || records:
			all = append(all, []int{i})
		}
	}
	return all
}

// NeedsRecords reports whether every entity needs a record, because a call reads it.
func NeedsRecords(plan *scenario.Plan) bool {
	for i := range plan.Classes {
		for _, c := range plan.Classes[i].Calls {
			if c.Kind == scenario.GetEntity {
				return true
			}
		}
	}
	return false
}

// write writes an entity, with a record if it needs one.
func write(ctx context.Context, s *dynamo.Store, plan *scenario.Plan, index int, record bool) error {
	e := &plan.Entities[index]
	if e.Parent >= 0 || e.IsParent || record {
		of := store.Entity{ID: e.ID}
		if e.Parent >= 0 {
			of.Parent, of.Cascade = plan.Entities[e.Parent].ID, true
		}
		err := Patiently(ctx, Again, func() error {
			_, err := s.CreateEntity(ctx, of)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	if e.Limits == nil {
		return nil
	}
	return setLimits(ctx, s, store.ConfigKey{Entity: e.ID, Resource: store.DefaultResource}, e.Limits)
}

// setLimits sets the limits of a level, without a warning: a scenario knows its levels.
func setLimits(ctx context.Context, s *dynamo.Store, k store.ConfigKey, limits []store.Limit) error {
	return Patiently(ctx, Again, func() error { return errors.Join(s.SetLevels(ctx, []dynamo.Level{{Key: k, Limits: limits}})...) })
}

// Again reports whether an error of a store may pass: other processes, and a table that is
// throttled, can hinder a write.
func Again(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrUnavailable)
}

// Patiently repeats a call while its error may pass, for some seconds.
func Patiently(ctx context.Context, again func(error) bool, do func() error) error {
	const attempts, pause = 200, 50 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || !again(err) || attempt == attempts {
			return err
		}
		if err := calls.Sleep(ctx, nil, pause); err != nil {
			return err
		}
	}
}

// Each calls f for 0 to n-1, some at a time, until one fails.
func Each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	const atATime = 16
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(atATime, n) {
		calls.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}
