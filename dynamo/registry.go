package dynamo

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// ResourcesWithDefaults lists the resources that have configuration, by name.
func (s *Store) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	it, err := s.conn.GetItem(ctx, "list resources with defaults", schema.ResourceRegistryKey(s.ns))
	return schema.DecodeResourceRegistry(it), err
}

// ResourcesWithEntityLimits lists the resources for which at least one entity has
// configuration of its own, by name. [store.DefaultResource] may be among them.
func (s *Store) ResourcesWithEntityLimits(ctx context.Context) ([]string, error) {
	it, err := s.conn.GetItem(ctx, "list resources with entity limits", schema.EntityConfigRegistryKey(s.ns))
	return schema.DecodeEntityConfigRegistry(it), err
}

// EntitiesWithLimits lists the entities that have configuration of their own for a
// resource, or for [store.DefaultResource], by name. It reads an index that lags
// behind: a level just set may be missing.
func (s *Store) EntitiesWithLimits(ctx context.Context, resource string) ([]string, error) {
	if err := store.CheckConfigResource(resource); err != nil {
		return nil, err
	}
	return s.entitiesWithLimits(ctx, resource, math.MaxInt)
}

// entitiesWithLimits lists up to most of the entities, by name.
func (s *Store) entitiesWithLimits(ctx context.Context, resource string, most int) ([]string, error) {
	var names []string
	in := conn.IndexQuery(schema.GSI3, schema.EntityConfigIndexPK(s.ns, resource), "")
	err := s.conn.Query(ctx, "list entities with limits for "+resource, in, func(it item) error {
		if len(names) == most {
			return conn.ErrStop
		}
		if _, entity, ok := schema.ParseEntityPK(schema.KeyOf(it).PK); ok {
			names = append(names, entity)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// A registryChange is what changes of levels do to the two registries.
type registryChange struct {
	counts           map[string]int64 // by resource: how many levels of entities more, or fewer
	listed, unlisted []string         // resources that get configuration, or lose it
}

// setting is the change for a level that is set, and whose item is old. It counts a
// level of an entity once, when the level comes into being. It lists a resource with
// every write, whatever the registry says.
//
// An entity's item without index keys came from a writer that did not count it either.
// The write adds the keys, and setting adds the count.
func setting(k store.ConfigKey, old item) registryChange {
	switch {
	case k.Entity != "" && old[schema.GSI3PK] == nil:
		return registryChange{counts: map[string]int64{k.Resource: 1}}
	case k.Entity == "" && k.Resource != "":
		return registryChange{listed: []string{k.Resource}}
	}
	return registryChange{}
}

// deleting is the change for a level whose item is deleted.
func deleting(k store.ConfigKey, old item) registryChange {
	switch {
	case k.Entity != "" && old[schema.GSI3PK] != nil:
		return registryChange{counts: map[string]int64{k.Resource: -1}}
	case k.Entity == "" && k.Resource != "":
		return registryChange{unlisted: []string{k.Resource}}
	}
	return registryChange{}
}

// add joins another change to r.
func (r *registryChange) add(o registryChange) {
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	for resource, n := range o.counts {
		r.counts[resource] += n
	}
	r.listed, r.unlisted = append(r.listed, o.listed...), append(r.unlisted, o.unlisted...)
}

// registryUpdates returns the writes of a change, at most one for each registry. The
// change lists resources or unlists them, but not both.
func (s *Store) registryUpdates(r *registryChange) []*types.Update {
	var updates []*types.Update
	maps.DeleteFunc(r.counts, func(_ string, n int64) bool { return n == 0 })
	if len(r.counts) > 0 {
		updates = append(updates, s.countsUpdate(r.counts))
	}
	switch {
	case len(r.listed) > 0:
		updates = append(updates, s.registryUpdate(schema.ResourceRegistryKey(s.ns), "ADD resources :r", item{":r": schema.Set(r.listed...)}))
	case len(r.unlisted) > 0:
		updates = append(updates, &types.Update{
			TableName: s.conn.Table, Key: schema.ResourceRegistryKey(s.ns).Item(),
			UpdateExpression:          aws.String("DELETE resources :r"),
			ExpressionAttributeValues: item{":r": schema.Set(r.unlisted...)},
		})
	}
	return updates
}

// countsUpdate adds to the counts of the levels of entities.
func (s *Store) countsUpdate(counts map[string]int64) *types.Update {
	names, values := map[string]string{}, item{}
	var b strings.Builder
	for i, resource := range slices.Sorted(maps.Keys(counts)) {
		n := strconv.Itoa(i)
		names["#r"+n], values[":n"+n] = resource, schema.N(counts[resource])
		b.WriteString(map[bool]string{true: "ADD ", false: ", "}[i == 0] + "#r" + n + " :n" + n)
	}
	update := s.registryUpdate(schema.EntityConfigRegistryKey(s.ns), b.String(), values)
	update.ExpressionAttributeNames = names
	return update
}

// registryUpdate is a write to a registry that gives it the index keys which a purge of
// the namespace needs.
func (s *Store) registryUpdate(key schema.Key, change string, values item) *types.Update {
	values[":pk"], values[":sk"] = schema.S(s.ns), schema.S(schema.SystemPK(s.ns))
	return &types.Update{
		TableName: s.conn.Table, Key: key.Item(),
		UpdateExpression:          aws.String("SET GSI4PK = if_not_exists(GSI4PK, :pk), GSI4SK = if_not_exists(GSI4SK, :sk) " + change),
		ExpressionAttributeValues: values,
	}
}

// register sends the writes of registries on their own. This serves levels that are
// already as they should be, but whose registries may not be.
func (s *Store) register(ctx context.Context, updates []*types.Update) error {
	for _, u := range updates {
		err := s.conn.UpdateItem(ctx, "register limits", &dynamodb.UpdateItemInput{
			Key: u.Key, UpdateExpression: u.UpdateExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tidyRegistry removes a count that has dropped to 0 or less. Readers ignore such a
// count, so a failure costs a few bytes and is only logged.
func (s *Store) tidyRegistry(ctx context.Context, resource string) {
	err := s.conn.UpdateItem(ctx, "tidy registry", &dynamodb.UpdateItemInput{
		Key:                       schema.EntityConfigRegistryKey(s.ns).Item(),
		UpdateExpression:          aws.String("REMOVE #r"),
		ConditionExpression:       aws.String("#r <= :zero"),
		ExpressionAttributeNames:  map[string]string{"#r": resource},
		ExpressionAttributeValues: item{":zero": schema.N(0)},
	})
	if err == nil {
		return
	}
	if _, inUse := conn.ConditionFailed(err); !inUse {
		s.conn.Log.WarnContext(ctx, "registry not tidied", "resource", resource, "error", err)
	}
}
