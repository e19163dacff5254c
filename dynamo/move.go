package dynamo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Move gives an entity another parent.
type Move struct {
	Parent string // "" is none
	// Cascade says whether the entity's record cascades from now on. [store.Inherit] leaves it
	// as it is.
	Cascade store.Policy
	Cause
	// If, unless it is nil, is asked about the record of the entity. With an error, the entity stays where it
	// is. It moves only if the record still is as If was asked about it. A conflict repeats the question.
	If func(*store.Entity) error
}

// mostAncestors is how many ancestors a new parent may have, as for the peer.
const mostAncestors = 32

// SetParent gives an entity another parent, or none, with its audit event, and makes the
// entity's buckets follow before it returns. It also changes whether the record cascades, if
// asked to. Where a level has a cascade policy, that decides: see [Store.SetCascade]. A move
// that changes nothing writes no event, but searches the buckets again.
//
// Tokens taken stay taken from the old parent, and are returned to it. The next write of any
// client to a bucket of the entity meets the new parent, so a client takes from the old one at
// most what it has under way, and returns it. Until then a limiter that has refused the entity
// because the old parent was empty refuses from memory, for a second at most; because it was
// disabled, within [limiter.Options.ConfigTTL].
//
// It fails with [store.ErrNotFound] if the entity or the parent has no record, and with
// [store.ErrNestedCascade] as [Store.CreateEntity] does. If the entity is the parent, or one of
// its ancestors, or the parent has more than 32 ancestors, the error is a
// [*store.ValidationError] for "parent".
//
// SetParent finds the buckets twice, a second apart, so that buckets made meanwhile are found
// (ADR 049). progress, if not nil, is called after each bucket, by one goroutine at a time. If
// SetParent fails half-way, the error is a [store.IncompleteError], and repeating the call
// completes it.
//
// With a key, the entity is moved once: a call with the same key leaves it where it is by then,
// and makes the buckets follow. If it gives another parent or cascade, it is another change, and a
// [*KeyUsedError]. The record of the key is kept as that of [Store.ResetBucket].
func (s *Store) SetParent(ctx context.Context, entity string, to Move, progress func(Switched)) (Switched, error) {
	if err := to.Check(entity); err != nil {
		return Switched{}, err
	}
	op := "move " + entity
	if err := s.require(ctx, gateMoves); err != nil {
		return Switched{}, err
	}
	all := store.ConfigKey{Entity: entity, Resource: store.DefaultResource}
	set := onceOf(s.ns, all, to.Cause, schema.OperationSetParent, schema.Operation{To: to.word()})
	done, err := s.move(ctx, op, entity, to, &set)
	s.changed(all) // a limiter on this store has read the old parent with the configuration
	if err != nil {
		return Switched{}, err
	}
	return s.markAll(ctx, all, true, s.followOwner, Switched{Repeated: done != nil}, progress)
}

// Check reports why an entity cannot be moved, as far as that is known without asking.
func (to Move) Check(entity string) error {
	if err := store.CheckEntity(entity); err != nil {
		return err
	}
	if to.Parent != "" {
		if err := checkParent(entity, to.Parent); err != nil {
			return err
		}
	}
	if to.Cascade > store.No {
		return &store.ValidationError{Field: "cascade", Value: strconv.Itoa(int(to.Cascade)), Reason: "give Yes, No, or Inherit to leave it as it is"}
	}
	return to.Cause.Check()
}

// word is the move in the record of a key. No ID has a "#".
func (to Move) word() string {
	return to.Parent + map[store.Policy]string{store.Yes: "#on", store.No: "#off"}[to.Cascade]
}

// apply changes an entity's record, and reports whether that is a change.
func (to Move) apply(e *store.Entity) bool {
	was := *e
	e.Parent = to.Parent
	if to.Cascade != store.Inherit {
		e.Cascade = to.Cascade == store.Yes
	}
	if e.Parent == was.Parent && e.Cascade == was.Cascade {
		return false
	}
	e.Generation++ // also where the parent stays: no stamp of before may follow
	return true
}

// checkParent reports why a name cannot be that of an entity's parent.
func checkParent(entity, parent string) error {
	if err := store.CheckEntity(parent); err != nil {
		return err
	}
	if parent == entity {
		return &store.ValidationError{Field: "parent", Value: parent, Reason: "an entity cannot be its own parent"}
	}
	return nil
}

// move changes an entity's record, in one transaction with the event:
//
//	UPDATE  the record                  if it is as read: SET parent_id, cascade, pgen + 1; SET or
//	                                    REMOVE the keys of the index
//	check   the parent, and each of     it is as read: parent_id, cascade, or that there is none
//	        its ancestors               none of these if it stays, and no longer cascades
//	PUT     the record of the key       if there is none
//
// Two moves that would make a circle together exclude each other: each changes a record that the
// other one checks. A cascade over two levels is left to one race: the children are read before
// the transaction, and a child that begins to cascade to the entity in between changes nothing of
// its record.
func (s *Store) move(ctx context.Context, op, entity string, to Move, set *once) (*schema.Operation, error) {
	for range conn.AdminAttempts {
		record, done, err := s.recordOnce(ctx, op, set)
		if done != nil || err != nil {
			return done, err
		}
		it, err := s.conn.GetItem(ctx, op, schema.MetaKey(s.ns, entity))
		if err != nil {
			return nil, err
		}
		if it == nil {
			return nil, &store.NotFoundError{Kind: "entity", Name: entity, Hint: "only an entity that was created has a parent"}
		}
		writes, err := s.moveWrites(ctx, op, it, to)
		if err != nil {
			return nil, err
		}
		if record != nil {
			writes = append(writes, types.TransactWriteItem{Put: record})
		}
		if len(writes) == 0 {
			return nil, nil //nolint:nilnil // nothing is to be done, and nothing was done before
		}
		err = s.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		if _, lost := conn.ConditionFailed(err); !lost {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: others move it or its parent: %w: try again", op, store.ErrConflict)
}

// moveWrites changes the record of an entity as it was read; nothing if it is as the move says.
func (s *Store) moveWrites(ctx context.Context, op string, record item, to Move) ([]types.TransactWriteItem, error) {
	e, err := schema.DecodeEntity(record)
	if err != nil {
		return nil, err
	}
	from := *e
	if to.If != nil {
		if err := to.If(&from); err != nil {
			return nil, err
		}
	}
	if !to.apply(e) {
		return nil, nil
	}
	var checks []types.TransactWriteItem
	if e.Parent != from.Parent || e.Cascade {
		if checks, err = s.line(ctx, op, e); err != nil {
			return nil, err
		}
	}
	event, err := s.auditPut(ctx, &schema.AuditEvent{
		Action: audit.EntityParentChanged, Entity: e.ID, Details: schema.MoveDetails(&from, e, to.Reason, to.Key),
	})
	if err != nil {
		return nil, err
	}
	return append([]types.TransactWriteItem{{Update: s.parentUpdate(e, record)}, event}, checks...), nil
}

// parentUpdate gives the record of an entity its parent, if it is still the one seen.
func (s *Store) parentUpdate(e *store.Entity, seen item) *types.Update {
	condition, names, values := asSeen(seen, schema.ParentID, schema.PGen, schema.PInc, schema.Cascade)
	if values == nil {
		values = item{}
	}
	update := assign(schema.EncodeEntity(s.ns, e), []string{schema.ParentID, schema.Cascade, schema.PGen, schema.GSI1PK, schema.GSI1SK}, names, values)
	return &types.Update{
		TableName: s.conn.Table, Key: schema.MetaKey(s.ns, e.ID).Item(), UpdateExpression: &update,
		ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
}

// line reads the line of an entity's new parent, from the parent on. It fails if the entity
// cannot have that parent. The checks are that nothing of this changes.
func (s *Store) line(ctx context.Context, op string, e *store.Entity) (checks []types.TransactWriteItem, err error) {
	invalid := func(reason string) error {
		return &store.ValidationError{Field: "parent", Value: e.Parent, Reason: reason}
	}
	if e.Cascade && e.Parent != "" {
		if err := s.checkChildren(ctx, e); err != nil {
			return nil, err
		}
	}
	for id := e.Parent; id != ""; {
		switch {
		case id == e.ID:
			return nil, invalid(e.ID + " is an ancestor of it, so the two would be a circle: move the parent first")
		case len(checks) > mostAncestors:
			return nil, invalid("it has more than " + strconv.Itoa(mostAncestors) + " ancestors: give a parent nearer to the top")
		}
		key := schema.MetaKey(s.ns, id)
		it, err := s.conn.GetItem(ctx, op, key)
		if err != nil {
			return nil, err
		}
		check := &types.ConditionCheck{TableName: s.conn.Table, Key: key.Item(), ConditionExpression: aws.String("attribute_not_exists(PK)")}
		isParent := len(checks) == 0
		checks = append(checks, types.TransactWriteItem{ConditionCheck: check})
		if it == nil {
			if isParent {
				return nil, &store.NotFoundError{Kind: "entity", Name: id, Hint: "create the parent first"}
			}
			break // an ancestor that was deleted is the last one
		}
		of, err := schema.DecodeEntity(it)
		switch {
		case err != nil:
			return nil, err
		case isParent && e.Cascade && of.Cascade && of.Parent != "":
			return nil, &store.NestedCascadeError{Child: e.ID, Entity: of.ID, Parent: of.Parent}
		}
		check.ConditionExpression, check.ExpressionAttributeNames, check.ExpressionAttributeValues = asSeen(it, schema.ParentID, schema.Cascade)
		id = of.Parent
	}
	return checks, nil
}
