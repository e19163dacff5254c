package dynamo

import (
	"context"
	"slices"

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
	var names []string
	in := conn.IndexQuery(schema.GSI3, schema.EntityConfigIndexPK(s.ns, resource), "")
	err := s.conn.Query(ctx, "list entities with limits for "+resource, in, func(it item) error {
		if _, entity, ok := schema.ParseEntityPK(schema.KeyOf(it).PK); ok {
			names = append(names, entity)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// registration returns the registry's part of a write that sets a level whose item is
// old, nil if the level needs none. It counts a level of an entity once, when the level
// comes into being. It lists a resource with every write, whatever the registry says.
//
// An entity's item without index keys came from a writer that did not count it either.
// The write adds the keys, and registration adds the count.
func (s *Store) registration(k store.ConfigKey, old item) *types.Update {
	switch {
	case k.Entity != "":
		if old[schema.GSI3PK] != nil {
			return nil
		}
		return &types.Update{
			TableName: s.conn.Table, Key: schema.EntityConfigRegistryKey(s.ns).Item(),
			UpdateExpression:         aws.String("SET GSI4PK = if_not_exists(GSI4PK, :pk), GSI4SK = if_not_exists(GSI4SK, :sk) ADD #r :one"),
			ExpressionAttributeNames: map[string]string{"#r": k.Resource},
			ExpressionAttributeValues: item{
				":one": schema.N(1), ":pk": schema.S(s.ns), ":sk": schema.S(schema.SystemPK(s.ns)),
			},
		}
	case k.Resource != "":
		return &types.Update{
			TableName: s.conn.Table, Key: schema.ResourceRegistryKey(s.ns).Item(),
			UpdateExpression: aws.String("SET GSI4PK = if_not_exists(GSI4PK, :pk), GSI4SK = if_not_exists(GSI4SK, :sk) ADD resources :r"),
			ExpressionAttributeValues: item{
				":r": schema.Set(k.Resource), ":pk": schema.S(s.ns), ":sk": schema.S(schema.SystemPK(s.ns)),
			},
		}
	}
	return nil
}

// register sends a registration on its own, if there is one. This serves a level that
// is already as it should be, but whose registry may not be.
func (s *Store) register(ctx context.Context, r *types.Update) error {
	if r == nil {
		return nil
	}
	return s.conn.UpdateItem(ctx, "register limits", &dynamodb.UpdateItemInput{
		Key: r.Key, UpdateExpression: r.UpdateExpression,
		ExpressionAttributeNames: r.ExpressionAttributeNames, ExpressionAttributeValues: r.ExpressionAttributeValues,
	})
}

// deregistration returns the registry's part of a write that deletes a level's item.
func (s *Store) deregistration(k store.ConfigKey, old item) *types.Update {
	switch {
	case k.Entity != "":
		if old[schema.GSI3PK] == nil {
			return nil
		}
		return &types.Update{
			TableName: s.conn.Table, Key: schema.EntityConfigRegistryKey(s.ns).Item(),
			UpdateExpression:          aws.String("ADD #r :minus_one"),
			ExpressionAttributeNames:  map[string]string{"#r": k.Resource},
			ExpressionAttributeValues: item{":minus_one": schema.N(-1)},
		}
	case k.Resource != "":
		return &types.Update{
			TableName: s.conn.Table, Key: schema.ResourceRegistryKey(s.ns).Item(),
			UpdateExpression:          aws.String("DELETE resources :r"),
			ExpressionAttributeValues: item{":r": schema.Set(k.Resource)},
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
