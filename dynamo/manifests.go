package dynamo

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// maxSegments is how many items a record may have, so that one transaction writes it:
// a transaction has at most 4 MB.
const maxSegments = 12

// A ManifestRecord is what the table remembers of a manifest: the levels that it owns,
// and who applies it.
type ManifestRecord struct {
	Name string
	// Levels are the levels that the manifest owns, with a digest of what it last set
	// them to; "" if that is not known. An entity without a resource is the entity's record.
	Levels map[store.ConfigKey]string
	// Applied is when the manifest was last applied completely, to the second, and Hash
	// which content it had then.
	Applied time.Time
	Hash    string
	// Holder is who applies the manifest now, until HeldUntil; "" is nobody.
	Holder    string
	HeldUntil time.Time
}

// Manifests reads the records of all manifests of the namespace, by name, with a
// consistent read.
func (s *Store) Manifests(ctx context.Context) ([]ManifestRecord, error) {
	r, err := s.manifestRecords(ctx)
	if err != nil {
		return nil, err
	}
	return r.all(), nil
}

// ChangeManifest reads the records of all manifests, and calls change with the record of
// one and with the others. It writes those that change modified, in one transaction. If
// any record changed in between, ChangeManifest starts over. An error of change ends it
// and writes nothing.
//
// A record that owns nothing and that nobody holds is deleted.
func (s *Store) ChangeManifest(ctx context.Context, name string, change func(own *ManifestRecord, others []ManifestRecord) error) error {
	if err := store.CheckManifest(name); err != nil {
		return err
	}
	op := "change the record of manifest " + name
	for range conn.AdminAttempts {
		seen, err := s.manifestRecords(ctx)
		if err != nil {
			return err
		}
		own, others := seen.record(name), seen.others(name)
		if err := change(own, others); err != nil {
			return err
		}
		writes, err := s.manifestWrites(seen, append(others, *own))
		if err != nil || writes == nil {
			return err
		}
		err = s.conn.Transact(ctx, op, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		if _, lost := conn.ConditionFailed(err); !lost {
			return err
		}
	}
	return fmt.Errorf("%s: %w: try again", op, store.ErrConflict)
}

// HoldManifest prolongs the time for which a holder applies a manifest. It fails with
// [store.ErrConflict] if the holder does not hold it any more.
func (s *Store) HoldManifest(ctx context.Context, name, holder string, until time.Time) error {
	return s.conn.UpdateItem(ctx, "hold manifest "+name, &dynamodb.UpdateItemInput{
		Key:                       schema.ManifestKey(s.ns, name, 0).Item(),
		UpdateExpression:          aws.String("SET held_until = :until"),
		ConditionExpression:       aws.String("holder = :holder"),
		ExpressionAttributeValues: item{":until": schema.N(until.UnixMilli()), ":holder": schema.S(holder)},
	})
}

// manifestRecords are all records of a namespace, as read together.
type manifestRecords struct {
	version int64
	byName  map[string]*schema.ManifestRecord
	main    map[string]item // segment 0, by name
	more    map[string]int  // how many further segments there are, by name
}

func (s *Store) manifestRecords(ctx context.Context) (*manifestRecords, error) {
	r := &manifestRecords{byName: map[string]*schema.ManifestRecord{}, main: map[string]item{}, more: map[string]int{}}
	err := s.conn.Query(ctx, "read the records of manifests", &dynamodb.QueryInput{
		KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
		ExpressionAttributeValues: item{
			":pk": schema.S(schema.SystemPK(s.ns)), ":sk": schema.S(schema.ManifestPrefix),
		},
		ConsistentRead: aws.Bool(true),
	}, func(it item) error {
		r.add(s.ns, it)
		return nil
	})
	return r, err
}

func (r *manifestRecords) add(ns string, it item) {
	key := schema.KeyOf(it)
	if key == schema.ManifestVersionKey(ns) {
		r.version = schema.RecordsVersionOf(it)
		return
	}
	name, segment, ok := schema.ParseManifestSK(key.SK)
	if !ok {
		return
	}
	if segment == 0 {
		r.main[name] = it
	}
	r.more[name] = max(r.more[name], segment)
	record := r.byName[name]
	if record == nil {
		record = &schema.ManifestRecord{Name: name}
		r.byName[name] = record
	}
	schema.DecodeManifest(it, record)
}

// record is a copy of a manifest's record, empty if there is none.
func (r *manifestRecords) record(name string) *ManifestRecord {
	own := &ManifestRecord{Name: name, Levels: map[store.ConfigKey]string{}}
	if seen, ok := r.byName[name]; ok {
		*own = ManifestRecord(*seen)
		own.Levels = maps.Clone(seen.Levels)
	}
	return own
}

func (r *manifestRecords) all() []ManifestRecord { return r.others("") }

// others are the records of all manifests but one.
func (r *manifestRecords) others(name string) []ManifestRecord {
	var all []ManifestRecord
	for _, other := range slices.Sorted(maps.Keys(r.byName)) {
		if other != name {
			all = append(all, *r.record(other))
		}
	}
	return all
}

// manifestWrites replaces the records that differ from those seen, if no record changed
// since; nil if there are none. The version counts the changes of all records, because
// a manifest may not take a level that another one takes at the same time.
func (s *Store) manifestWrites(seen *manifestRecords, records []ManifestRecord) ([]types.TransactWriteItem, error) {
	var writes []types.TransactWriteItem
	for _, r := range records {
		if reflect.DeepEqual(r, *seen.record(r.Name)) {
			continue
		}
		of, err := s.recordWrites(seen, &r)
		if err != nil {
			return nil, err
		}
		writes = append(writes, of...)
	}
	if len(writes) == 0 {
		return nil, nil
	}
	return append(writes, types.TransactWriteItem{Update: s.versionUpdate(seen.version)}), nil
}

// recordWrites replaces one record. A peer does not count changes; its record has the
// condition that it was not applied since.
func (s *Store) recordWrites(seen *manifestRecords, r *ManifestRecord) ([]types.TransactWriteItem, error) {
	record := schema.ManifestRecord(*r)
	segments := schema.EncodeManifest(s.ns, &record)
	if len(segments) > maxSegments {
		return nil, &store.ValidationError{
			Field: "manifest", Value: r.Name,
			Reason: fmt.Sprintf("its %d levels are too many for its record: split it into manifests of different names", len(r.Levels)),
		}
	}
	old := seen.main[r.Name]
	condition, values := asApplied(old)
	var writes []types.TransactWriteItem
	switch {
	case len(r.Levels) > 0 || r.Holder != "":
		writes = append(writes, types.TransactWriteItem{Put: &types.Put{
			TableName: s.conn.Table, Item: segments[0], ConditionExpression: condition, ExpressionAttributeValues: values,
		}})
		for _, segment := range segments[1:] {
			writes = append(writes, types.TransactWriteItem{Put: &types.Put{TableName: s.conn.Table, Item: segment}})
		}
	case old != nil:
		writes = append(writes, types.TransactWriteItem{Delete: &types.Delete{
			TableName: s.conn.Table, Key: schema.KeyOf(old).Item(), ConditionExpression: condition, ExpressionAttributeValues: values,
		}})
	}
	for surplus := len(segments); surplus <= seen.more[r.Name]; surplus++ {
		writes = append(writes, types.TransactWriteItem{Delete: &types.Delete{
			TableName: s.conn.Table, Key: schema.ManifestKey(s.ns, r.Name, surplus).Item(),
		}})
	}
	return writes, nil
}

func (s *Store) versionUpdate(seen int64) *types.Update {
	update := &types.Update{
		TableName: s.conn.Table, Key: schema.ManifestVersionKey(s.ns).Item(),
		UpdateExpression:         aws.String("SET #v = :next, GSI4PK = :pk, GSI4SK = :sk"),
		ConditionExpression:      aws.String("attribute_not_exists(#v)"),
		ExpressionAttributeNames: map[string]string{"#v": schema.RecordsVersion},
		ExpressionAttributeValues: item{
			":next": schema.N(seen + 1), ":pk": schema.S(s.ns), ":sk": schema.S(schema.SystemPK(s.ns)),
		},
	}
	if seen > 0 {
		update.ConditionExpression = aws.String("#v = :seen")
		update.ExpressionAttributeValues[":seen"] = schema.N(seen)
	}
	return update
}

// asApplied is the condition that a record was not applied since it was read as old,
// nil for a record that there was not.
func asApplied(old item) (condition *string, values item) {
	switch {
	case old == nil:
		return aws.String("attribute_not_exists(PK)"), nil
	case old[schema.LastApplied] == nil:
		return aws.String("attribute_not_exists(last_applied)"), nil
	}
	return aws.String("last_applied = :seen"), item{":seen": old[schema.LastApplied]}
}

// ConfiguredLevels lists the levels of the namespace that have a configuration item, in
// the order of [schema.CompareLevels]: the system's, the resources', the entities'. It
// reads an index that lags behind: a level just set may be missing. It finds levels
// that no registry has, as a peer's provisioner makes them.
func (s *Store) ConfiguredLevels(ctx context.Context) ([]store.ConfigKey, error) {
	var levels []store.ConfigKey
	for _, prefix := range []string{schema.SystemPK(s.ns), schema.ResourcePK(s.ns, ""), schema.EntityPK(s.ns, "")} {
		err := s.conn.Query(ctx, "list configured levels", conn.IndexQuery(schema.GSI4, s.ns, prefix), func(it item) error {
			if k, ok := levelOf(s.ns, schema.KeyOf(it)); ok {
				levels = append(levels, k)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(levels, schema.CompareLevels)
	return levels, nil
}

// levelOf finds the level of a configuration item's key.
func levelOf(ns string, key schema.Key) (k store.ConfigKey, ok bool) {
	if _, entity, isEntity := schema.ParseEntityPK(key.PK); isEntity {
		resource, isConfig := schema.ParseEntityConfigSK(key.SK)
		return store.ConfigKey{Entity: entity, Resource: resource}, isConfig
	}
	resource, isResource := strings.CutPrefix(key.PK, schema.ResourcePK(ns, ""))
	switch {
	case key.SK != schema.ConfigSK:
		return k, false
	case isResource:
		return store.ConfigKey{Resource: resource}, store.CheckResource(resource) == nil
	}
	return k, key.PK == schema.SystemPK(ns)
}
