package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/store"
)

// Levels are the limits of each level of configuration. The first level that has limits
// holds for a bucket: the entity's for the resource, the entity's for every resource
// ([store.DefaultResource]), the resource's, the system's.
type Levels map[store.ConfigKey][]store.Limit

// Names are the names of all limits, sorted.
func (l Levels) Names() []string {
	names := map[string]bool{}
	for _, limits := range l {
		for _, limit := range limits {
			names[limit.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// validate reports the first invalid limit, and limits without a cost.
func (l Levels) validate(costs []string) error {
	for key, limits := range l {
		if err := store.ValidateLimits(limits); err != nil {
			return fmt.Errorf("limits of %s: %w", levelName(key), err)
		}
	}
	if len(l.Names()) == 0 {
		return &store.ValidationError{Field: "limits", Reason: "give at least one limit"}
	}
	for i, name := range costs {
		if slices.Contains(costs[:i], name) {
			return &store.ValidationError{Field: "costs", Value: name, Reason: "name each limit once"}
		}
	}
	var missing []error
	for _, name := range l.Names() {
		if !slices.Contains(costs, name) {
			missing = append(missing, &store.ValidationError{
				Field: "cost", Value: name, Reason: "say what an event costs of this limit; 0 leaves it out",
			})
		}
	}
	return errors.Join(missing...)
}

// levelName is the name of a level in results.
func levelName(k store.ConfigKey) string {
	switch {
	case k.Entity != "" && k.Resource == store.DefaultResource:
		return "entity " + k.Entity
	case k.Entity != "":
		return "entity " + k.Entity + " for " + k.Resource
	case k.Resource != "":
		return "resource " + k.Resource
	}
	return "system"
}

// levelsOf are the levels that may hold for a bucket, the strongest first.
func levelsOf(entity, resource string) [4]store.ConfigKey {
	return [...]store.ConfigKey{
		{Entity: entity, Resource: resource},
		{Entity: entity, Resource: store.DefaultResource},
		{Resource: resource},
		{},
	}
}

// arithmetic is a limit of a bucket of one shard.
func arithmetic(l *store.Limit) bucket.Limit {
	p := l.Params()
	base := bucket.Params{Capacity: p.Capacity, Amount: p.Amount, Period: p.Period}
	switch {
	case p.Varies != nil && p.Renewal != nil:
		return bucket.VaryingQuota(p.Renewal, p.Varies, base, 0)
	case p.Varies != nil:
		return bucket.Varying(p.Varies, base, 0)
	}
	// No credit returns to an account. So Capacity need not change with what a quota has carried.
	return bucket.Limit{
		Capacity: p.Capacity + p.Carries.Rollover, Amount: p.Amount, Period: p.Period,
		Renewal: p.Renewal, Renewed: p.Capacity, Rollover: p.Carries.Rollover, CarriesDebt: p.Carries.Debt,
	}
}

// A rule is one limit of a level, and what it did.
type rule struct {
	key   store.ConfigKey
	limit store.Limit
	held  bucket.Limit // the arithmetic of limit
	cost  int          // index into the amounts of an event
	tally
}

// rules are the rules of all levels.
type rules map[store.ConfigKey][]*rule

func newRules(l Levels, costs []string) rules {
	all := rules{}
	for key, limits := range l {
		for _, limit := range limits {
			all[key] = append(all[key], &rule{
				key: key, limit: limit, held: arithmetic(&limit), cost: slices.Index(costs, limit.Name), tally: newTally(),
			})
		}
	}
	return all
}

// of are the rules that hold for a bucket.
func (r rules) of(entity, resource string) []*rule {
	for _, key := range levelsOf(entity, resource) {
		if held := r[key]; len(held) > 0 {
			return held
		}
	}
	return nil
}

// sorted are all rules, the system's first, then the resources' and the entities'.
func (r rules) sorted() []*rule {
	return slices.SortedFunc(func(yield func(*rule) bool) {
		for _, of := range r {
			for _, one := range of {
				if !yield(one) {
					return
				}
			}
		}
	}, func(a, b *rule) int {
		if c := strings.Compare(a.key.Entity, b.key.Entity); c != 0 {
			return c
		}
		if c := strings.Compare(a.key.Resource, b.key.Resource); c != 0 {
			return c
		}
		return strings.Compare(a.limit.Name, b.limit.Name)
	})
}
