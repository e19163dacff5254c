package dynamo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A once is a change that happens once for its key, under way (ADR 046). The record of the key
// is beside what is changed: shard 0 of a bucket, or a level.
type once struct {
	cause            Cause
	kind             string
	entity, resource string // of the bucket or the level
	at               schema.Key
	incarnation      string           // of the entity, once doneBefore has read it
	does             schema.Operation // what its record says that it did, of a level
}

// onceOf is a change of a level.
func onceOf(ns string, k store.ConfigKey, c Cause, kind string, does schema.Operation) once {
	return once{cause: c, kind: kind, entity: k.Entity, resource: k.Resource, at: schema.LevelOperationKey(ns, k, c.Key), does: does}
}

// isSame reports whether an earlier change of a level, of the same kind, was the same. Of two ends
// the first one holds.
func (o *once) isSame(done *schema.Operation) bool {
	return done.To == o.does.To && (done.Until == 0) == (o.does.Until == 0)
}

// recordOnce is the write of the record of a change of a level; nil if it has no key, or was done
// before.
func (s *Store) recordOnce(ctx context.Context, op string, o *once) (put *types.Put, done *schema.Operation, err error) {
	if o.cause.Key == "" {
		return nil, nil, nil
	}
	if done, err = s.doneBefore(ctx, op, o, o.isSame); done != nil || err != nil {
		return nil, done, err
	}
	return s.recordPut(o, &o.does), nil, nil
}

// verb is a kind of change, for people.
func verb(kind, separator string) string { return strings.ReplaceAll(kind, "_", separator) }

// recordPut is the write of the record of a change. Of all transactions with the key, at most
// one is applied. A record of an entity that was deleted since counts as none. An entity
// without a record is like any other one, as for the peer: a call may come before the entity
// is created, and its repetition after that.
func (s *Store) recordPut(o *once, done *schema.Operation) *types.Put {
	writer := make([]byte, 12)
	_, _ = rand.Read(writer) // it never fails
	done.ID, done.Entity, done.Resource, done.Kind, done.Incarnation = o.cause.Key, o.entity, o.resource, o.kind, o.incarnation
	done.Writer = hex.EncodeToString(writer)
	if done.Expires.IsZero() {
		done.Expires = s.conn.Clock.Now().Add(schema.OperationTTL)
	}
	put := s.conn.PutNew(schema.EncodeOperation(s.ns, o.at, done))
	if o.incarnation != schema.NoIncarnation {
		put.ConditionExpression = aws.String("attribute_not_exists(PK) OR (ent <> :ent AND ent <> :none)")
		put.ExpressionAttributeValues = item{":ent": schema.S(o.incarnation), ":none": schema.S(schema.NoIncarnation)}
	}
	return put
}

// doneBefore reads what an earlier call with the key of a change did; nil if there was none. It
// fails if that was something else, and learns the incarnation of the entity.
func (s *Store) doneBefore(ctx context.Context, op string, o *once, isSame func(*schema.Operation) bool) (*schema.Operation, error) {
	keys := []schema.Key{o.at}
	meta := schema.MetaKey(s.ns, o.entity)
	if o.entity != "" {
		keys = append(keys, meta)
	}
	items, err := s.conn.BatchGet(ctx, op, keys, true)
	if err != nil {
		return nil, err
	}
	o.incarnation = schema.NoIncarnation
	if it := items[meta]; it != nil {
		e, err := schema.DecodeEntity(it)
		if err != nil {
			return nil, err
		}
		o.incarnation = e.Incarnation
	}
	it := items[o.at]
	if it == nil {
		return nil, nil
	}
	done, err := schema.DecodeOperation(it)
	if err != nil {
		return nil, err
	}
	if was := done.Incarnation; was != o.incarnation && was != schema.NoIncarnation && o.incarnation != schema.NoIncarnation {
		return nil, nil
	}
	if done.Kind != o.kind || !isSame(done) {
		return nil, &KeyUsedError{
			Key: done.ID, Entity: o.entity, Resource: o.resource, Operation: verb(done.Kind, "-"), Amounts: done.Amounts,
			Until: done.Expires,
		}
	}
	return done, nil
}

// ErrKeyUsed says that the key of a [Cause] was used for another change. See [KeyUsedError].
var ErrKeyUsed = errors.New("idempotency key used for another change")

// A KeyUsedError says that the key of a change was used for another change of the same
// bucket or level, and what that was. It is [ErrKeyUsed].
type KeyUsedError struct {
	Key              string
	Entity, Resource string
	Operation        string           // "reset", "top-up", "disable", "enable", "bypass", "clear", "set-parent" or "set-cascade"
	Amounts          map[string]int64 // whole tokens that limits got
	Until            time.Time        // until then the key is kept, at least
}

// Error says what the key was used for, and what to do.
func (e *KeyUsedError) Error() string {
	amounts := make([]string, 0, len(e.Amounts))
	for _, name := range slices.Sorted(maps.Keys(e.Amounts)) {
		amounts = append(amounts, fmt.Sprintf("%s by %+d", name, e.Amounts[name]))
	}
	what := fmt.Sprintf("for a %s of %s of %s, which changed %s", e.Operation, e.Resource, e.Entity, cmp.Or(strings.Join(amounts, ", "), "nothing"))
	level := store.ConfigKey{Entity: e.Entity, Resource: e.Resource}.String()
	switch e.Operation {
	case schema.OperationDisable, schema.OperationEnable, schema.OperationBypass, schema.OperationClear:
		what = "to " + e.Operation + " " + level
	case verb(schema.OperationSetParent, "-"):
		what = "to move " + e.Entity
	case verb(schema.OperationSetCascade, "-"):
		what = "to set the cascade policy of " + level
	}
	return fmt.Sprintf("the idempotency key %q was used %s: nothing is changed now: give another key for another change", e.Key, what)
}

// Is reports whether target is [ErrKeyUsed].
func (e *KeyUsedError) Is(target error) bool { return target == ErrKeyUsed }
