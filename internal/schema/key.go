package schema

import (
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/store"
)

// TableNamespace is the reserved namespace id of records that belong to the
// table: its version and its namespaces.
const TableNamespace = "_"

// Sort keys and their prefixes.
const (
	StateSK                = "#STATE"
	MetaSK                 = "#META"
	ConfigSK               = "#CONFIG" // resource and system level
	EntityConfigPrefix     = "#CONFIG#"
	ResourceRegistrySK     = "#RESOURCES"
	EntityConfigRegistrySK = "#ENTITY_CONFIG_RESOURCES"
	VersionSK              = "#VERSION"
	NamespacePrefix        = "#NAMESPACE#"
	NamespaceIDPrefix      = "#NSID#"
	OperationPrefix        = "#OP#"      // in the partition of shard 0 of a bucket, or of a level
	SettlementPrefix       = "#SETTLED#" // in the partition of a shard

	ManifestPrefix        = "#PROVISIONER" // begins every record of manifests, and is the peer's own
	manifestNamePrefix    = "#PROVISIONER#MANIFEST#"
	manifestSegmentPrefix = "#PROVISIONER#SEGMENT#"
	manifestVersionSK     = "#PROVISIONER#VERSION"
)

const (
	bucketPrefix = "BUCKET#"
	entityPrefix = "ENTITY#"
	childPrefix  = "CHILD#"
)

// A Key is the primary key of an item, or of an index entry.
type Key struct{ PK, SK string }

// Item is the key as the attributes PK and SK.
func (k Key) Item() Item { return Item{PK: S(k.PK), SK: S(k.SK)} }

// String is the key as it appears in errors.
func (k Key) String() string { return k.PK + " " + k.SK }

// KeyOf is an item's primary key.
func KeyOf(item Item) Key { return KeyAs(item, scalarOf) }

// KeyAs is [KeyOf] for items of other types than the data plane's: scalar returns the
// content of a value.
func KeyAs[V any](item map[string]V, scalar func(V) Scalar) Key {
	return Key{scalar(item[PK]).str(), scalar(item[SK]).str()}
}

// BucketKey is the key of one shard of a bucket.
func BucketKey(ns string, b store.Bucket) Key {
	return Key{ns + "/" + bucketPath(b), StateSK}
}

func bucketPath(b store.Bucket) string {
	return bucketPrefix + b.Entity + "#" + b.Resource + "#" + strconv.Itoa(b.Shard)
}

// MetaKey is the key of an entity's record.
func MetaKey(ns, entity string) Key { return Key{EntityPK(ns, entity), MetaSK} }

// EntityPK is the partition of an entity's record, configuration and usage. In GSI3 it is
// also the partition of the entity's buckets.
func EntityPK(ns, entity string) string { return ns + "/" + entityPrefix + entity }

// ConfigKey is the key of the configuration item of a level.
func ConfigKey(ns string, k store.ConfigKey) Key {
	switch {
	case k.Entity != "":
		return Key{EntityPK(ns, k.Entity), EntityConfigPrefix + k.Resource}
	case k.Resource != "":
		return Key{ResourcePK(ns, k.Resource), ConfigSK}
	}
	return Key{SystemPK(ns), ConfigSK}
}

// CheckConfigKey reports why k cannot name a level of configuration, as a
// [*store.ValidationError].
func CheckConfigKey(k store.ConfigKey) error {
	switch {
	case k.Entity != "":
		if err := store.CheckEntity(k.Entity); err != nil {
			return err
		}
		return store.CheckConfigResource(k.Resource)
	case k.Resource != "":
		return store.CheckResource(k.Resource)
	}
	return nil
}

// ResourcePK is the partition of a resource's configuration. In GSI2 it is also a partition of
// the resource's buckets, the only one if their keys are not spread: see [ResourceIndexPKs].
func ResourcePK(ns, resource string) string { return ns + "/RESOURCE#" + resource }

// SystemPK is the partition of system configuration and of the registries.
func SystemPK(ns string) string { return ns + "/SYSTEM#" }

// ResourceRegistryKey is the key of the list of resources with configuration.
func ResourceRegistryKey(ns string) Key { return Key{SystemPK(ns), ResourceRegistrySK} }

// EntityConfigRegistryKey is the key of the count of entity configurations by
// resource.
func EntityConfigRegistryKey(ns string) Key { return Key{SystemPK(ns), EntityConfigRegistrySK} }

// VersionKey is the key of the version record.
func VersionKey() Key { return Key{SystemPK(TableNamespace), VersionSK} }

// NamespaceKey is the key of the record that maps a namespace's name to its id.
func NamespaceKey(name string) Key { return Key{SystemPK(TableNamespace), NamespacePrefix + name} }

// NamespaceIDKey is the key of the record that maps a namespace's id to its name.
func NamespaceIDKey(id string) Key { return Key{SystemPK(TableNamespace), NamespaceIDPrefix + id} }

// ParentIndexPK is the partition of an entity's children in GSI1.
func ParentIndexPK(ns, parent string) string { return ns + "/PARENT#" + parent }

// EntityConfigIndexPK is the partition, in GSI3, of the entities that have their own
// configuration for a resource.
func EntityConfigIndexPK(ns, resource string) string { return ns + "/ENTITY_CONFIG#" + resource }

// BucketIndexPrefix begins the GSI2 sort key of every bucket, and the GSI3 sort
// key of every bucket of an entity.
const BucketIndexPrefix = bucketPrefix

// ResourceBucketPrefix begins the GSI3 sort keys of an entity's bucket for a
// resource.
func ResourceBucketPrefix(resource string) string { return bucketPrefix + resource + "#" }

// ParseBucketPK splits the partition key of a bucket and checks every part; ok is false if
// it is not a bucket's key.
//
// A namespace id and an entity contain neither "/" nor "#", so the first "/" ends the id
// and the first "#" the entity; a resource may contain "/".
func ParseBucketPK(pk string) (ns string, b store.Bucket, ok bool) {
	ns, b, ok = splitBucketPK(pk)
	if !ok || ns == "" || store.CheckEntity(b.Entity) != nil || store.CheckResource(b.Resource) != nil {
		return "", store.Bucket{}, false
	}
	return ns, b, true
}

func splitBucketPK(pk string) (ns string, b store.Bucket, ok bool) {
	ns, path, _ := strings.Cut(pk, "/")
	rest, isBucket := strings.CutPrefix(path, bucketPrefix)
	first, last := strings.IndexByte(rest, '#'), strings.LastIndexByte(rest, '#')
	if !isBucket || first < 0 || first == last {
		return "", b, false
	}
	shard, ok := parseShard(rest[last+1:])
	if !ok {
		return "", b, false
	}
	return ns, store.Bucket{Entity: rest[:first], Resource: rest[first+1 : last], Shard: shard}, true
}

// MaxShards is the largest plausible number of shards. The peer stops at 32. An item with
// more than MaxShards is damaged, and reading its shards would never end.
const MaxShards = 1024

// parseShard reads a plain decimal without sign or padding.
func parseShard(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= MaxShards || s[0] == '+' || s[0] == '-' || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	return n, true
}

// ParseEntityPK splits the partition key of an entity's record.
func ParseEntityPK(pk string) (ns, entity string, ok bool) {
	ns, rest, _ := strings.Cut(pk, "/")
	entity, isEntity := strings.CutPrefix(rest, entityPrefix)
	if ns == "" || !isEntity || store.CheckEntity(entity) != nil {
		return "", "", false
	}
	return ns, entity, true
}

// ParseEntityConfigSK splits the sort key of an entity's configuration.
func ParseEntityConfigSK(sk string) (resource string, ok bool) {
	resource, ok = strings.CutPrefix(sk, EntityConfigPrefix)
	if !ok || store.CheckConfigResource(resource) != nil {
		return "", false
	}
	return resource, true
}

// EntityRanges are the ranges of GSI4 in which the items of entities are: their records,
// configuration and usage in the first one, and their buckets in the others. PK is the partition key. SK begins
// the sort keys, and the ID follows. Every sort key of an entity lies before those of the next one.
func EntityRanges(ns string) []Key {
	ranges := []Key{{ns, EntityPK(ns, "")}}
	for _, pk := range NamespaceIndexPKs(ns) {
		ranges = append(ranges, Key{pk, bucketPrefix})
	}
	return ranges
}

// Bounds of sort keys behind a beginning with IDs: no ID has a character outside of them.
const (
	LeastOfID = "-"
	MostOfID  = "~"
)

// EntityOf is the entity that an item of [EntityRanges] belongs to, by its partition key.
func EntityOf(pk string) (entity string, ok bool) {
	if _, b, ok := ParseBucketPK(pk); ok {
		return b.Entity, true
	}
	_, entity, ok = ParseEntityPK(pk)
	return entity, ok
}

// putGSI4 adds the index keys of every item, which a purge of a namespace uses. pk is the
// namespace, or a partition of it.
func putGSI4(item Item, pk, sk string) {
	item[GSI4PK], item[GSI4SK] = S(pk), S(sk)
}
