package schema

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// DefaultManifest is the name of the manifest whose record is the peer's.
const DefaultManifest = "default"

// segmentBytes bounds one item of a record. DynamoDB's limit is 400 KB.
const segmentBytes = 300_000

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

// ManifestKey is the key of one segment of a manifest's record. A record has more than
// one segment if it is too large for an item.
func ManifestKey(ns, name string, segment int) Key {
	switch {
	case segment > 0:
		return Key{SystemPK(ns), manifestSegmentPrefix + name + "#" + strconv.Itoa(segment)}
	case name == DefaultManifest:
		return Key{SystemPK(ns), ManifestPrefix}
	}
	return Key{SystemPK(ns), manifestNamePrefix + name}
}

// ManifestVersionKey is the key of the count of changes to a namespace's records of
// manifests.
func ManifestVersionKey(ns string) Key { return Key{SystemPK(ns), manifestVersionSK} }

// ParseManifestSK finds the manifest and the segment of a sort key. ok is false for
// other items that begin with [ManifestPrefix], such as a peer's.
func ParseManifestSK(sk string) (name string, segment int, ok bool) {
	if sk == ManifestPrefix {
		return DefaultManifest, 0, true
	}
	if name, ok = strings.CutPrefix(sk, manifestNamePrefix); ok {
		return name, 0, store.CheckManifest(name) == nil
	}
	rest, ok := strings.CutPrefix(sk, manifestSegmentPrefix)
	name, number, _ := strings.Cut(rest, "#")
	segment, err := strconv.Atoi(number)
	return name, segment, ok && err == nil && segment > 0 && store.CheckManifest(name) == nil
}

// EncodeManifest is a record as its items, the one of segment 0 first.
func EncodeManifest(ns string, r *ManifestRecord) []Item {
	var items []Item
	size := segmentBytes
	keys := slices.SortedFunc(maps.Keys(r.Levels), CompareLevels)
	for _, k := range keys {
		if size >= segmentBytes {
			items, size = append(items, newSegment(ns, r.Name, len(items))), 0
		}
		size += own(items[len(items)-1], k, r.Levels[k])
	}
	if items == nil {
		items = append(items, newSegment(ns, r.Name, 0))
	}
	main := items[0]
	main[AppliedHash] = S(r.Hash)
	if !r.Applied.IsZero() {
		main[LastApplied] = S(Timestamp(r.Applied))
	}
	if r.Holder != "" {
		main[Holder], main[HeldUntil] = S(r.Holder), N(r.HeldUntil.UnixMilli())
	}
	return items
}

func newSegment(ns, name string, segment int) Item {
	item := ManifestKey(ns, name, segment).Item()
	putGSI4(item, ns, SystemPK(ns))
	item[ManagedSystem] = Bool(false)
	item[ManagedResources], item[ManagedRecords] = Strings(), Strings()
	item[ManagedEntities], item[Digests] = Map(nil), Map(nil)
	return item
}

// own adds a level to a segment, and returns about how many bytes that takes.
func own(item Item, k store.ConfigKey, digest string) int {
	const overhead = 8
	size := len(k.Resource) + overhead
	switch {
	case k.Entity != "" && k.Resource == "":
		appendTo(item, ManagedRecords, k.Entity)
		size += len(k.Entity)
	case k.Entity != "":
		entities := members(item[ManagedEntities])
		appendTo(entities, k.Entity, k.Resource)
		size += len(k.Entity)
	case k.Resource != "":
		appendTo(item, ManagedResources, k.Resource)
	default:
		item[ManagedSystem] = Bool(true)
	}
	if digest != "" {
		name := levelAttr(k)
		members(item[Digests])[name] = S(digest)
		size += len(name) + len(digest) + overhead
	}
	return size
}

func appendTo(item Item, attr, s string) {
	list, ok := item[attr].(*types.AttributeValueMemberL)
	if !ok {
		list = &types.AttributeValueMemberL{}
		item[attr] = list
	}
	list.Value = append(list.Value, S(s))
}

// levelAttr names a level in a map. No entity begins with "$".
func levelAttr(k store.ConfigKey) string {
	if k.Entity != "" {
		return k.Entity + "/" + k.Resource
	}
	return AuditLevel(k)
}

// members returns the members of a map, nil if v is no map.
func members(v types.AttributeValue) Item {
	if m, ok := v.(*types.AttributeValueMemberM); ok && m != nil {
		return m.Value
	}
	return nil
}

// elements returns the strings of a list.
func elements(v types.AttributeValue) []string {
	list, ok := v.(*types.AttributeValueMemberL)
	if !ok || list == nil {
		return nil
	}
	var all []string
	for _, e := range list.Value {
		all = append(all, str(e))
	}
	return all
}

// DecodeManifest adds what an item of a record holds to r. It ignores names that cannot
// name a level: a peer writes some unchecked.
func DecodeManifest(item Item, r *ManifestRecord) {
	if r.Levels == nil {
		r.Levels = map[store.ConfigKey]string{}
	}
	digests := members(item[Digests])
	add := func(k store.ConfigKey) {
		if CheckConfigKey(k) == nil {
			r.Levels[k] = str(digests[levelAttr(k)])
		}
	}
	if scalarOf(item[ManagedSystem]).Kind == True {
		add(store.ConfigKey{})
	}
	for _, resource := range elements(item[ManagedResources]) {
		if resource != "" {
			add(store.ConfigKey{Resource: resource})
		}
	}
	for entity, resources := range members(item[ManagedEntities]) {
		for _, resource := range elements(resources) {
			if entity != "" {
				add(store.ConfigKey{Entity: entity, Resource: resource})
			}
		}
	}
	for _, entity := range elements(item[ManagedRecords]) {
		if k := (store.ConfigKey{Entity: entity}); store.CheckEntity(entity) == nil {
			r.Levels[k] = str(digests[levelAttr(k)])
		}
	}
	if hash := str(item[AppliedHash]); hash != "" {
		r.Hash = hash
	}
	if at, err := ParseTimestamp(str(item[LastApplied])); err == nil {
		r.Applied = at
	}
	if holder := str(item[Holder]); holder != "" {
		until, _ := integer(item[HeldUntil]) // 0 has passed long ago
		r.Holder, r.HeldUntil = holder, time.UnixMilli(until)
	}
}

// RecordsVersionOf is the count in a version item, 0 if there is none.
func RecordsVersionOf(item Item) int64 {
	n, _ := integer(item[RecordsVersion])
	return n
}

// CompareLevels orders levels: the system's, the resources' by name, the entities' by
// name and resource.
func CompareLevels(a, b store.ConfigKey) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
}
