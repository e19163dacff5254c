package dynamo

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A policy is one that an operator sets on a level, or removes from it.
type policy struct {
	sets    store.Config              // which has the policy only; nothing if it is removed
	attrs   []string                  // of the level's item that say it; the first is there if it is set
	details schema.Item               // of the event
	is      func(*store.Config) error // see [Level.If]
}

// checkPolicy reports why a level cannot have a policy of a kind, whose values end with last.
func checkPolicy(k store.ConfigKey, p, last store.Policy, kind string) error {
	if err := checkLevel(k); err != nil {
		return err
	}
	switch {
	case k == store.ConfigKey{}:
		return &store.ValidationError{Field: "level", Value: k.String(), Reason: "give an entity or a resource: the system has no " + kind}
	case p > last:
		reason := "give store.Yes, store.No or store.Inherit"
		if last == store.Bypass {
			reason = "give store.Yes, store.No, store.Bypass or store.Inherit"
		}
		return &store.ValidationError{Field: "policy", Value: strconv.Itoa(int(p)), Reason: reason}
	}
	return nil
}

// setPolicy changes a policy of a level, once for the key of the change if it has one. done is what
// an earlier call with the key did; nil if there was none.
func (s *Store) setPolicy(ctx context.Context, op string, k store.ConfigKey, p policy, set *once) (done *schema.Operation, err error) {
	err = s.changeConfig(ctx, k, op+" of "+k.String(), func(old item) (err error) {
		w := s.levelPolicy(k, p, old)
		// A transaction that found the record of the key is repeated, and ends here.
		if w.record, done, err = s.recordOnce(ctx, op, set); done != nil || err != nil {
			return err
		}
		if err := ask(p.is, old); err != nil {
			return err
		}
		return s.sendLevels(ctx, op, w)
	})
	return done, err
}

// levelPolicy is the change of a level's policy. It leaves all else of the level alone, also
// limits that others set meanwhile, so it updates the item of a level that exists. It requires that they
// have set none only if the operator has asked about the level (ADR 076).
func (s *Store) levelPolicy(k store.ConfigKey, p policy, old item) levelWrite {
	whole := schema.EncodeConfig(s.ns, k, &p.sets)
	var w levelWrite
	if whole[p.attrs[0]] != nil {
		w.registry = setting(k, old)
	}
	if !slices.ContainsFunc(p.attrs, func(attr string) bool { return !reflect.DeepEqual(old[attr], whole[attr]) }) {
		return w
	}
	w.event = &schema.AuditEvent{Action: audit.LimitsSet, Entity: schema.AuditLevel(k), Resource: k.Resource, Details: p.details}
	if old == nil {
		w.write.Put = s.conn.PutNew(whole)
	} else {
		whole[schema.ConfigVersion] = cmp.Or(old[schema.ConfigVersion], whole[schema.ConfigVersion])
		var pinned []string
		if p.is != nil {
			pinned = append(pinned, schema.ConfigVersion)
		}
		w.write.Update = s.levelUpdate(schema.ConfigKey(s.ns, k), old, whole, pinned, p.attrs...)
	}
	return w
}

// levelUpdate gives a level what whole has and old lacks, and removes what whole lacks of some
// attributes, if the operator's settings are still those of old, and pinned attributes, too.
func (s *Store) levelUpdate(key schema.Key, old, whole item, pinned []string, removable ...string) *types.Update {
	condition, names, values := unchanged(old, false, pinned...)
	attrs := slices.AppendSeq(removable, maps.Keys(whole))
	attrs = slices.DeleteFunc(attrs, func(attr string) bool {
		return attr == schema.PK || attr == schema.SK || reflect.DeepEqual(old[attr], whole[attr])
	})
	slices.Sort(attrs)
	if values == nil {
		values = item{}
	}
	update := assign(whole, slices.Compact(attrs), names, values)
	u := &types.Update{
		TableName: s.conn.Table, Key: key.Item(), UpdateExpression: &update,
		ConditionExpression: condition, ExpressionAttributeNames: names,
	}
	if len(values) > 0 {
		u.ExpressionAttributeValues = values
	}
	return u
}
