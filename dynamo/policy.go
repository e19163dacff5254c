package dynamo

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// A policy is one that an operator sets on a level, or removes from it.
type policy struct {
	sets    store.Config // which has the policy only; nothing if it is removed
	attrs   []string     // of the level's item that say it; the first is there if it is set
	details schema.Item  // of the event
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

// levelPolicy is the change of a level's policy. It leaves all else of the level alone, also
// limits that others set meanwhile, so it updates the item of a level that exists.
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
		w.write.Update = s.levelUpdate(schema.ConfigKey(s.ns, k), old, whole, nil, p.attrs...)
	}
	return w
}

// levelUpdate gives a level what whole has and old lacks, and removes what whole lacks of some
// attributes, if the operator's settings are still those of old. So must those attributes be that
// pinned names.
func (s *Store) levelUpdate(key schema.Key, old, whole item, pinned []string, removable ...string) *types.Update {
	seen := policies(old, false)
	var absent []string
	for _, attr := range pinned {
		if v, there := old[attr]; there {
			seen[attr] = v
		} else {
			absent = append(absent, attr)
		}
	}
	condition, names, values := unchanged(seen, false, absent...)
	if values == nil {
		values = item{}
	}
	var set, remove []string
	for _, attr := range slices.Sorted(maps.Keys(whole)) {
		if _, isKey := key.Item()[attr]; isKey || reflect.DeepEqual(old[attr], whole[attr]) {
			continue
		}
		n := strconv.Itoa(len(set))
		set = append(set, "#s"+n+" = :s"+n)
		names["#s"+n], values[":s"+n] = attr, whole[attr]
	}
	for _, attr := range removable {
		if whole[attr] == nil {
			remove = append(remove, "#"+attr)
			names["#"+attr] = attr
		}
	}
	var update strings.Builder
	if len(set) > 0 {
		update.WriteString("SET " + strings.Join(set, ", ") + " ")
	}
	if len(remove) > 0 {
		update.WriteString("REMOVE " + strings.Join(remove, ", "))
	}
	u := &types.Update{
		TableName: s.conn.Table, Key: key.Item(), UpdateExpression: aws.String(update.String()),
		ConditionExpression: condition, ExpressionAttributeNames: names,
	}
	if len(values) > 0 {
		u.ExpressionAttributeValues = values
	}
	return u
}
