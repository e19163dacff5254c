package dynamo

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// Bounds of what one call does.
const (
	// DefaultEntities and MaxEntities bound [EntityQuery.Limit].
	DefaultEntities = 100
	MaxEntities     = 1000
	// MaxEntityIDRequests bounds the requests of [Store.EntityIDs].
	MaxEntityIDRequests = 40
	// MaxLevels is the largest number of levels that one transaction changes. A transaction
	// has 100 actions: an item and an event for each level, and two registries.
	MaxLevels = 49
)

// entriesAtOnce is how many entries of the index one request of [Store.Entities]
// evaluates: the records of entities lie among their limits and usage snapshots.
const entriesAtOnce = 1000

// An EntityQuery asks for a page of entities.
type EntityQuery struct {
	// Limit is the largest number of entities of a page, up to [MaxEntities]; 0 is
	// [DefaultEntities].
	Limit int
	// Cursor is [EntityPage.Next] of the page before, "" for the first page.
	Cursor string
	// Prefix selects the entities whose IDs begin with it; "" selects all.
	Prefix string
}

// An EntityPage is a part of the entities of a namespace.
type EntityPage struct {
	Entities []*store.Entity // by ID
	// Next is the cursor of the next page, "" if this is the last one.
	Next string
}

// Entities reads a page of the namespace's entities that have a record, by ID. An entity
// needs none to have limits or buckets: see [Store.EntitiesWithLimits] and
// [Store.ResourceBuckets] for those.
//
// It finds the records through an index that lags behind, and reads them with eventually
// consistent reads: an entity just created may be missing. The index has an entry of
// about 200 bytes for each record, level of limits and usage snapshot of an entity. About
// 20 entries cost half a read unit, and each record half a unit.
func (s *Store) Entities(ctx context.Context, q EntityQuery) (EntityPage, error) {
	const op = "list entities"
	after, err := q.check()
	if err != nil {
		return EntityPage{}, err
	}
	limit := cmp.Or(q.Limit, DefaultEntities)
	keys, err := s.recordKeys(ctx, op, q.Prefix, after, limit+1) // one more tells whether another page follows
	if err != nil {
		return EntityPage{}, err
	}
	var page EntityPage
	if len(keys) > limit {
		keys = keys[:limit]
		_, last, _ := schema.ParseEntityPK(keys[limit-1].PK)
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
	}
	items, err := s.conn.BatchGet(ctx, op, keys, false)
	if err != nil {
		return EntityPage{}, err
	}
	for _, k := range keys {
		it, ok := items[k]
		if !ok {
			continue // deleted meanwhile
		}
		e, err := schema.DecodeEntity(it)
		if err != nil {
			return EntityPage{}, err
		}
		page.Entities = append(page.Entities, e)
	}
	return page, nil
}

// check validates a query, and decodes its cursor: the ID of the last entity of the page
// before.
func (q *EntityQuery) check() (after string, err error) {
	if q.Limit < 0 || q.Limit > MaxEntities {
		return "", &store.ValidationError{
			Field: "limit", Value: strconv.Itoa(q.Limit), Reason: fmt.Sprintf("give 1 to %d, or 0 for %d", MaxEntities, DefaultEntities),
		}
	}
	if q.Prefix != "" {
		if err := store.CheckEntity(q.Prefix); err != nil {
			return "", fmt.Errorf("prefix: %w", err)
		}
	}
	if q.Cursor == "" {
		return "", nil
	}
	id, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || store.CheckEntity(string(id)) != nil || !strings.HasPrefix(string(id), q.Prefix) {
		return "", &store.ValidationError{Field: "cursor", Value: q.Cursor, Reason: "give the one that a page of entities ended with"}
	}
	return string(id), nil
}

// recordKeys returns the keys of up to n records of entities whose IDs begin with a prefix,
// by ID, that follow the entity after; "" begins with the first.
func (s *Store) recordKeys(ctx context.Context, op, prefix, after string, n int) (keys []schema.Key, err error) {
	in := conn.IndexQuery(schema.GSI4, s.ns, schema.EntityPK(s.ns, prefix))
	in.FilterExpression = aws.String(*in.FilterExpression + " AND SK = :meta")
	in.ExpressionAttributeValues[":meta"] = schema.S(schema.MetaSK)
	in.Limit = aws.Int32(entriesAtOnce)
	if after != "" {
		in.ExclusiveStartKey = schema.MetaKey(s.ns, after).Item()
		in.ExclusiveStartKey[schema.GSI4PK], in.ExclusiveStartKey[schema.GSI4SK] = schema.S(s.ns), schema.S(schema.EntityPK(s.ns, after))
	}
	err = s.conn.Query(ctx, op, in, func(it item) error {
		if keys = append(keys, schema.KeyOf(it)); len(keys) == n {
			return conn.ErrStop
		}
		return nil
	})
	return keys, err
}

// An EntityResource is a resource that an entity has used or has limits for.
type EntityResource struct {
	Resource string
	// Limits says that the entity has limits of its own for the resource.
	Limits bool
	// Shards is the number of items of the entity's bucket, 0 if there is none. A bucket
	// comes into being with the first acquire, and may expire when it is idle.
	Shards int
}

// EntityResources lists the resources that an entity has a bucket or limits of its own
// for, by name. [store.DefaultResource] stands for its limits for every resource. It
// reads buckets from an index that lags behind: a bucket just made may be missing. An
// entity without any has none; that is no error.
func (s *Store) EntityResources(ctx context.Context, entity string) ([]EntityResource, error) {
	if err := store.CheckEntity(entity); err != nil {
		return nil, err
	}
	op := "list the resources of " + entity
	levels, err := s.queryKeys(ctx, op, &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: item{
			":pk": schema.S(schema.EntityPK(s.ns, entity)), ":sk": schema.S(schema.EntityConfigPrefix),
		},
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, err
	}
	buckets, err := s.queryKeys(ctx, op, conn.IndexQuery(schema.GSI3, schema.EntityPK(s.ns, entity), schema.BucketIndexPrefix))
	if err != nil {
		return nil, err
	}
	found := map[string]EntityResource{}
	for _, k := range levels {
		if resource, ok := schema.ParseEntityConfigSK(k.SK); ok {
			found[resource] = EntityResource{Resource: resource, Limits: true}
		}
	}
	for _, k := range buckets {
		if _, b, ok := schema.ParseBucketPK(k.PK); ok {
			r := found[b.Resource]
			r.Resource, r.Shards = b.Resource, r.Shards+1
			found[b.Resource] = r
		}
	}
	all := make([]EntityResource, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[name])
	}
	return all, nil
}
