package dynamo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// CreateEntity makes an entity's record from e's ID, Name, Parent, Cascade and
// Metadata, with its audit event. It returns the complete record. An entity needs a
// record only to have a parent; limits hold without one.
//
// It fails with [store.ErrExists] if the entity has a record, and with
// [store.ErrNotFound] if the parent has no record.
//
// A cascade is one level. CreateEntity fails with [store.ErrNestedCascade] if the entity
// is to cascade to a parent that itself cascades. It also does if children of an earlier
// record cascade to the entity:
//
//	create key, cascading to proj    transaction: proj has a record that does not cascade
//	create proj, cascading to org    reads the index of children: none cascades to proj
//
// The transaction sees every change of the parent. The index lags behind, so one race is
// left. A child that cascades is created, and in less than the lag somebody deletes proj
// and creates it again so that it cascades. The Python package checks neither, and what
// it has written keeps working: an acquire takes from one parent. The cascade that a
// level of configuration may set is not considered.
func (s *Store) CreateEntity(ctx context.Context, e store.Entity) (*store.Entity, error) {
	if err := store.CheckEntity(e.ID); err != nil {
		return nil, err
	}
	if e.Parent != "" {
		if err := checkParent(e.ID, e.Parent); err != nil {
			return nil, err
		}
	}
	if e.Name == "" {
		e.Name = e.ID
	}
	e.Metadata = maps.Clone(e.Metadata)
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	if e.Cascade && e.Parent != "" {
		if err := s.checkChildren(ctx, &e); err != nil {
			return nil, err
		}
	}
	now := s.conn.Clock.Now()
	e.Created, e.Generation, e.Incarnation = now.UTC().Truncate(time.Second), now.UnixMilli(), newIncarnation()
	event, err := s.auditPut(ctx, &schema.AuditEvent{
		Action: audit.EntityCreated, Entity: e.ID, Details: schema.EntityDetail(&e),
	})
	if err != nil {
		return nil, err
	}
	const parent = 2
	writes := []types.TransactWriteItem{{Put: s.conn.PutNew(schema.EncodeEntity(s.ns, &e))}, event}
	if e.Parent != "" {
		writes = append(writes, types.TransactWriteItem{ConditionCheck: s.parentCheck(&e)})
	}
	err = s.conn.Transact(ctx, "create entity "+e.ID, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	switch {
	case err == nil:
		return &e, nil
	case conn.FailedAt(err, 0):
		return nil, &store.ExistsError{Kind: "entity", Name: e.ID}
	case conn.FailedAt(err, parent):
		if it := conn.Cancellation(err)[parent].Item; it != nil {
			return nil, nestedUnder(it, &e)
		}
		return nil, &store.NotFoundError{Kind: "entity", Name: e.Parent, Hint: "create the parent first"}
	}
	return nil, err
}

// parentCheck is the condition that the parent of a new entity has a record and, if the
// entity cascades, that the parent does not.
func (s *Store) parentCheck(e *store.Entity) *types.ConditionCheck {
	check := &types.ConditionCheck{
		TableName: s.conn.Table, Key: schema.MetaKey(s.ns, e.Parent).Item(),
		ConditionExpression: aws.String("attribute_exists(PK)"),
	}
	if e.Cascade {
		check.ConditionExpression = aws.String("attribute_exists(PK) AND NOT (#cascade = :true AND attribute_type(parent_id, :string))")
		check.ExpressionAttributeNames = map[string]string{"#cascade": schema.Cascade}
		check.ExpressionAttributeValues = item{":true": schema.Bool(true), ":string": schema.S("S")}
		check.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	return check
}

// nestedUnder is the error of an entity whose parent cascades; it is the parent's record.
func nestedUnder(it item, e *store.Entity) error {
	parent, err := schema.DecodeEntity(it)
	if err != nil {
		return err
	}
	return &store.NestedCascadeError{Child: e.ID, Entity: parent.ID, Parent: parent.Parent}
}

// checkChildren fails if a child cascades to an entity that is to cascade itself.
func (s *Store) checkChildren(ctx context.Context, e *store.Entity) error {
	children, err := s.Children(ctx, e.ID)
	if err != nil {
		return err
	}
	for _, child := range children {
		if child.Cascade {
			return &store.NestedCascadeError{Child: child.ID, Entity: e.ID, Parent: e.Parent}
		}
	}
	return nil
}

// newIncarnation returns 64 random bits, which distinguish an entity from earlier and
// later entities of the same name.
func newIncarnation() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Entity reads an entity's record, with a consistent read. It fails with
// [store.ErrNotFound] if there is none.
func (s *Store) Entity(ctx context.Context, id string) (*store.Entity, error) {
	if err := store.CheckEntity(id); err != nil {
		return nil, err
	}
	it, err := s.conn.GetItem(ctx, "read entity "+id, schema.MetaKey(s.ns, id))
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, &store.NotFoundError{Kind: "entity", Name: id}
	}
	return schema.DecodeEntity(it)
}

// EntityRecords reads the records of entities, with consistent reads. An entity without one
// is missing in the answer.
func (s *Store) EntityRecords(ctx context.Context, ids []string) (map[string]*store.Entity, error) {
	keys := make([]schema.Key, len(ids))
	for i, id := range ids {
		if err := store.CheckEntity(id); err != nil {
			return nil, err
		}
		keys[i] = schema.MetaKey(s.ns, id)
	}
	items, err := s.conn.BatchGet(ctx, "read entities", keys, true)
	if err != nil {
		return nil, err
	}
	records := make(map[string]*store.Entity, len(items))
	for _, it := range items {
		e, err := schema.DecodeEntity(it)
		if err != nil {
			return nil, err
		}
		records[e.ID] = e
	}
	return records, nil
}

// Children reads the records of an entity's children, by ID. It reads them from an
// index that lags behind: a child just created may be missing.
func (s *Store) Children(ctx context.Context, parent string) ([]*store.Entity, error) {
	if err := store.CheckEntity(parent); err != nil {
		return nil, err
	}
	var children []*store.Entity
	in := conn.IndexQuery(schema.GSI1, schema.ParentIndexPK(s.ns, parent), "")
	in.ProjectionExpression = nil // the index projects whole records
	err := s.conn.Query(ctx, "list children of "+parent, in, func(it item) error {
		child, err := schema.DecodeEntity(it)
		children = append(children, child)
		return err
	})
	if err != nil {
		return nil, err
	}
	return children, nil
}

// DeleteEntity deletes everything of an entity except its audit events, its record
// last. It returns the number of items deleted. It fails with [store.ErrNotFound] if
// there was nothing to delete. To find the pages with the entity's usage, it sends a request
// for each month and resource that has pages. For two days, an item keeps the usage of the
// deleted buckets from coming back ([usage.Snapshots.Forget]).
//
// Each level of its configuration is deleted together with an event of its own, and the
// record with the event of the entity's deletion. If there is no record, another item
// takes its place, but never configuration.
//
// An entity in use during the deletion may get new buckets. Its children continue to
// name it as their parent. If a deletion fails half-way, deleting again completes it.
func (s *Store) DeleteEntity(ctx context.Context, id string) (deleted int, err error) {
	if err := store.CheckEntity(id); err != nil {
		return 0, err
	}
	op := "delete entity " + id
	own, err := s.queryKeys(ctx, op, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: item{":pk": schema.S(schema.EntityPK(s.ns, id))},
		ProjectionExpression:      aws.String("PK, SK"),
		ConsistentRead:            aws.Bool(true),
	})
	if err != nil {
		return 0, err
	}
	buckets, err := s.queryKeys(ctx, op, conn.IndexQuery(schema.GSI3, schema.EntityPK(s.ns, id), "")) // and slots
	if err != nil {
		return 0, err
	}
	records, err := s.operationRecords(ctx, op, buckets)
	if err != nil {
		return 0, err
	}
	doomed := append(records, buckets...)
	if err = s.usage.Forget(ctx, op, id); err != nil {
		return 0, err
	}
	err = s.usage.EntityPages(ctx, op, id, func(it item) error {
		doomed = append(doomed, schema.KeyOf(it))
		return nil
	})
	if err != nil {
		return 0, err
	}
	var configs []store.ConfigKey
	var last *schema.Key
	for _, k := range own {
		resource, isConfig := schema.ParseEntityConfigSK(k.SK)
		switch {
		case k.SK == schema.MetaSK:
			last = &k
		case isConfig && schema.CheckRegistered(resource) == nil:
			configs = append(configs, store.ConfigKey{Entity: id, Resource: resource})
		default:
			doomed = append(doomed, k)
		}
	}
	if n := len(doomed) - 1; last == nil && n >= 0 {
		last, doomed = &doomed[n], doomed[:n]
	}
	if err := s.conn.BatchDelete(ctx, op, doomed); err != nil {
		return 0, err
	}
	deleted = len(doomed)
	for _, k := range configs {
		n, err := s.purgeConfig(ctx, k)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	if last != nil {
		if err := s.deleteLast(ctx, op, id, *last, deleted+1); err != nil {
			return deleted, err
		}
		deleted++
	}
	if deleted == 0 {
		return 0, &store.NotFoundError{Kind: "entity", Name: id}
	}
	return deleted, nil
}

// deleteLast deletes the last of an entity's n items together with the event of the
// deletion. It writes no event if another deletion came first.
func (s *Store) deleteLast(ctx context.Context, op, id string, last schema.Key, n int) error {
	event, err := s.auditPut(ctx, &schema.AuditEvent{
		Action: audit.EntityDeleted, Entity: id,
		Details: schema.Item{"records_deleted": schema.N(int64(n)), "complete": schema.Bool(true)},
	})
	if err != nil {
		return err
	}
	err = s.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName: s.conn.Table, Key: last.Item(), ConditionExpression: aws.String("attribute_exists(PK)"),
		}},
		event,
	}})
	if conn.FailedAt(err, 0) {
		return nil
	}
	return err
}

// purgeConfig deletes a level's item with all its attributes, and removes the level
// from its registry.
func (s *Store) purgeConfig(ctx context.Context, k store.ConfigKey) (deleted int, err error) {
	err = s.changeConfig(ctx, k, "delete limits of "+k.String(), func(old item) error {
		if old == nil {
			return nil
		}
		err := s.sendLevels(ctx, "delete limits", s.levelDelete(k, old, &types.Delete{ConditionExpression: aws.String("attribute_exists(PK)")}))
		if err == nil {
			deleted = 1
		}
		return err
	})
	return deleted, err
}

// operationRecords finds the records that resets and top-ups left beside shard 0 of the
// buckets.
func (s *Store) operationRecords(ctx context.Context, op string, buckets []schema.Key) ([]schema.Key, error) {
	var records []schema.Key
	done := map[string]bool{}
	for _, k := range buckets {
		ns, b, ok := schema.ParseBucketPK(k.PK)
		if !ok || done[b.Resource] {
			continue
		}
		done[b.Resource] = true
		b.Shard = 0
		found, err := s.queryKeys(ctx, op, &dynamodb.QueryInput{
			KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
			ExpressionAttributeValues: item{
				":pk": schema.S(schema.BucketKey(ns, b).PK), ":sk": schema.S(schema.OperationPrefix),
			},
			ProjectionExpression: aws.String("PK, SK"),
			ConsistentRead:       aws.Bool(true),
		})
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
	}
	return records, nil
}

func (s *Store) queryKeys(ctx context.Context, op string, in *dynamodb.QueryInput) ([]schema.Key, error) {
	var keys []schema.Key
	err := s.conn.Query(ctx, op, in, func(it item) error {
		keys = append(keys, schema.KeyOf(it))
		return nil
	})
	return keys, err
}
