package drive

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/drive/setup"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Limited is an [Actor] on limiters.
type Limited struct {
	site *Site
	// groups are limiters that share classes, as processes of one service do. group is the
	// one of each class.
	groups [][]Client
	group  []int
	// fixed are the amounts of calls in which nothing is random: by class, call and
	// position of the resource in the class. nil has to be made for each operation.
	fixed map[[3]int]map[string]int64
}

// newLimited makes the limiters of a side.
func newLimited(ctx context.Context, s *Site) (_ *Limited, err error) {
	a := &Limited{site: s, group: make([]int, len(s.Plan.Classes)), fixed: map[[3]int]map[string]int64{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	shared := -1
	for c := range s.Plan.Classes {
		isApart := s.Plan.Classes[c].Apart && s.Side == scenario.Limiter
		if !isApart && shared >= 0 {
			a.group[c] = shared
			continue
		}
		a.group[c] = len(a.groups)
		if !isApart {
			shared = len(a.groups)
		}
		a.groups = append(a.groups, nil)
		for range s.Plan.Limiters {
			p, err := s.client(ctx)
			if err != nil {
				return a, err
			}
			last := len(a.groups) - 1
			a.groups[last] = append(a.groups[last], p)
		}
	}
	a.fix()
	return a, nil
}

// client makes one limiter with a store of its own.
func (s *Site) client(ctx context.Context) (Client, error) {
	st, err := dynamo.Open(ctx, dynamo.Options{API: s.API, Table: s.Table, Namespace: s.Namespace, Now: s.Now, Logger: s.Limiter.Logger})
	if err != nil {
		return Client{}, err
	}
	l, err := limiter.New(st, s.Limiter)
	return Client{l, st}, err
}

// fix computes the amounts of calls in which nothing is random.
func (a *Limited) fix() {
	for c := range a.site.Plan.Classes {
		class := &a.site.Plan.Classes[c]
		for k := range class.Calls {
			amounts := map[string]int64{}
			for _, amount := range class.Calls[k].Consume {
				if amount.Least != amount.Most {
					amounts = nil
					break
				}
				amounts[amount.Limit] = amount.Least
			}
			for _, r := range class.Resources {
				a.fixed[[3]int{c, k, r.Index}] = amounts
			}
		}
	}
}

// Act carries out an operation with a limiter of the class: that of the client, or that of the
// entity on the side [scenario.Sticky].
func (a *Limited) Act(ctx context.Context, class, client int, op *scenario.Op) Answer {
	group := a.groups[a.group[class]]
	if a.site.Side == scenario.Sticky {
		client = a.home(op.Entity)
	}
	return group[client%len(group)].Do(ctx, a.site.Plan, a.site.Now, op, a.fixed[[3]int{class, op.Call, op.Resource}])
}

// home is the limiter of an entity. The number of limiters does not change, so a hash that is
// not consistent spreads entities as well as a consistent one.
func (a *Limited) home(entity int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.site.Plan.Entities[entity].ID))
	return int(h.Sum32() % uint32(a.site.Plan.Limiters)) //nolint:gosec // at most 1,000
}

// maxPrimed is the number of acquires up to which buckets are made before the load.
const maxPrimed = 10_000

// Prime makes every limiter acquire one token of each limit of every bucket that it will
// use, which on the side [scenario.Sticky] are those of its entities. So it knows them, and the measurement has no creations. Of exhausted populations, the
// first limiter takes everything before the others ask. Loads of more than maxPrimed buckets
// make theirs as they go, but for exhausted ones. New populations always do.
func (a *Limited) Prime(ctx context.Context) error {
	targets := a.targets()
	isSticky := a.site.Side == scenario.Sticky
	isLarge := a.site.Cold || len(targets)*a.site.Plan.Limiters > maxPrimed
	for k := range a.site.Plan.Limiters {
		err := setup.Each(ctx, len(targets), func(ctx context.Context, i int) error {
			t := &targets[i]
			if isLarge && !t.isExhausted || isSticky && k != a.home(t.entity) {
				return nil
			}
			op := a.site.first(t.entity, t.resource, t.isExhausted && (k == 0 || isSticky))
			err := setup.Patiently(ctx, a.site.Again, func() error { return a.site.ask(ctx, a, t.class, k, op) })
			if err != nil && !errors.Is(err, limiter.ErrExceeded) {
				return fmt.Errorf("make the bucket of %s for %s: %w", a.site.Plan.Entities[t.entity].ID, a.site.Plan.Resources[t.resource].Name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A target is a bucket that a class uses.
type target struct {
	class, entity, resource int
	isExhausted             bool
}

// targets are the buckets of all classes but for new ones, once for each group of limiters.
func (a *Limited) targets() (all []target) {
	seen := map[[3]int]bool{}
	for c := range a.site.Plan.Classes {
		for _, b := range BucketsOf(a.site.Plan, c) {
			of := &a.site.Plan.Populations[a.site.Plan.Entities[b[0]].Population]
			if at := [3]int{a.group[c], b[0], b[1]}; !of.New && !seen[at] {
				seen[at] = true
				all = append(all, target{c, b[0], b[1], of.Exhausted})
			}
		}
	}
	return all
}

// Close closes the limiters.
func (a *Limited) Close() error {
	var errs []error
	for _, group := range a.groups {
		for _, p := range group {
			errs = append(errs, p.Limiter.Close())
		}
	}
	return errors.Join(errs...)
}
