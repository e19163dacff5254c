package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	b := store.Bucket{Entity: "user-1", Resource: "a/b:c", Shard: 7}
	for _, c := range []struct{ got, want schema.Key }{
		{schema.BucketKey("ns1", b), schema.Key{"ns1/BUCKET#user-1#a/b:c#7", "#STATE"}},
		{schema.MetaKey("ns1", "user-1"), schema.Key{"ns1/ENTITY#user-1", "#META"}},
		{schema.ConfigKey("ns1", store.ConfigKey{Entity: "e", Resource: "r"}), schema.Key{"ns1/ENTITY#e", "#CONFIG#r"}},
		{schema.ConfigKey("ns1", store.ConfigKey{Entity: "e", Resource: store.DefaultResource}), schema.Key{"ns1/ENTITY#e", "#CONFIG#_default_"}},
		{schema.ConfigKey("ns1", store.ConfigKey{Resource: "r"}), schema.Key{"ns1/RESOURCE#r", "#CONFIG"}},
		{schema.ConfigKey("ns1", store.ConfigKey{}), schema.Key{"ns1/SYSTEM#", "#CONFIG"}},
		{schema.ResourceRegistryKey("ns1"), schema.Key{"ns1/SYSTEM#", "#RESOURCES"}},
		{schema.EntityConfigRegistryKey("ns1"), schema.Key{"ns1/SYSTEM#", "#ENTITY_CONFIG_RESOURCES"}},
		{schema.VersionKey(), schema.Key{"_/SYSTEM#", "#VERSION"}},
		{schema.NamespaceKey("default"), schema.Key{"_/SYSTEM#", "#NAMESPACE#default"}},
		{schema.NamespaceIDKey("AcsldjIGZls"), schema.Key{"_/SYSTEM#", "#NSID#AcsldjIGZls"}},
		{schema.Key{schema.ParentIndexPK("ns1", "p"), schema.EntityConfigIndexPK("ns1", "r")}, schema.Key{"ns1/PARENT#p", "ns1/ENTITY_CONFIG#r"}},
		{schema.KeyOf(schema.BucketKey("ns1", b).Item()), schema.BucketKey("ns1", b)},
		{schema.UsageKey("ns1", "e", "a/b:c", "daily", leapDay), schema.Key{"ns1/ENTITY#e", "#USAGE#a/b:c#daily#2024-02-29T00:00:00Z"}},
		{schema.UsageKey("ns1", "e", "r", "", leapDay), schema.Key{"ns1/ENTITY#e", "#USAGE#r#2024-02-29T00:00:00Z"}},
	} {
		if c.got != c.want {
			t.Errorf("got key %q, want %q", c.got, c.want)
		}
	}
}

func bucketKeyLaw(t *rapid.T) {
	ns, b := namespaces.Draw(t, "namespace"), buckets(t)
	gotNS, got, ok := schema.ParseBucketPK(schema.BucketKey(ns, b).PK)
	if !ok || gotNS != ns || got != b {
		t.Fatalf("parsed %q: %q %+v %v, want %q %+v", schema.BucketKey(ns, b).PK, gotNS, got, ok, ns, b)
	}
	e, r := entities.Draw(t, "owner"), rapid.OneOf(resources, rapid.Just(store.DefaultResource)).Draw(t, "configured")
	k := schema.ConfigKey(ns, store.ConfigKey{Entity: e, Resource: r})
	gotNS, gotEntity, ok1 := schema.ParseEntityPK(k.PK)
	gotResource, ok2 := schema.ParseEntityConfigSK(k.SK)
	if !ok1 || !ok2 || gotNS != ns || gotEntity != e || gotResource != r {
		t.Fatalf("parsed %q: %q %q %q %v %v", k, gotNS, gotEntity, gotResource, ok1, ok2)
	}
}

func TestKeysParseToWhatTheyWereBuiltFrom(t *testing.T) { law(t, bucketKeyLaw) }

func FuzzKeysParseToWhatTheyWereBuiltFrom(f *testing.F) { fuzz(f, bucketKeyLaw) }

// A key that parses has valid names, and builds the same key again.
func FuzzParseBucketPK(f *testing.F) {
	for _, pk := range []string{
		"ns1/BUCKET#user-1#gpt-4#0", "ns1/BUCKET#u#a/b:c#31", "a/b/BUCKET#u#r#0", "ns1/BUCKET#u#r#01", "ns1/BUCKET#u#r#-1", "ns1/BUCKET#u#r#+1",
		"ns1/BUCKET#bad#id#r#0", "ns1/BUCKET#u#r\n#0", "ns1/BUCKET#u##0", "ns1/BUCKET##r#0", "/BUCKET#u#r#0", "ns1/BUCKET#u#r#", "ns1/BUCKET#u#0", "ns1/ENTITY#u",
		"ns1/BUCKET#u#r#99999999999999999999", "ns1/BUCKET#u#_default_#0", "ns1/BUCKET#u#r#1024", "",
	} {
		f.Add(pk)
	}
	f.Fuzz(func(t *testing.T, pk string) {
		ns, b, ok := schema.ParseBucketPK(pk)
		if !ok {
			return
		}
		if store.CheckEntity(b.Entity) != nil || store.CheckResource(b.Resource) != nil {
			t.Errorf("%q parsed to invalid names %+v", pk, b)
		}
		if again := schema.BucketKey(ns, b).PK; again != pk {
			t.Errorf("%q parsed and built is %q", pk, again)
		}
	})
}

func TestKeysOfOthersDoNotParse(t *testing.T) {
	t.Parallel()
	for _, pk := range []string{
		"ns1/ENTITY#u", "ns1/BUCKET#u#0", "ns1/BUCKET#u#r#01", "ns1/BUCKET#u#r#-1", "ns1/BUCKET#u#r#+1", "ns1/BUCKET#u#r#",
		"ns1/BUCKET#bad#id#r#0", "ns1/BUCKET#u#r\n#0", "ns1/BUCKET#u\n#r#0", "/BUCKET#u#r#0", "ns1/BUCKET#u#_default_#0", "ns1/BUCKET#u#r#1024",
	} {
		if ns, b, ok := schema.ParseBucketPK(pk); ok {
			t.Errorf("%q parsed to %q %+v", pk, ns, b)
		}
	}
}

func TestConfigKeysAreChecked(t *testing.T) {
	t.Parallel()
	for _, k := range []store.ConfigKey{
		{}, {Resource: "r"}, {Entity: "e", Resource: "r"}, {Entity: "e", Resource: store.DefaultResource},
	} {
		if err := schema.CheckConfigKey(k); err != nil {
			t.Errorf("%+v: %v", k, err)
		}
	}
	for _, k := range []store.ConfigKey{
		{Resource: store.DefaultResource}, {Entity: "e"}, {Entity: "bad#id", Resource: "r"}, {Entity: "e", Resource: "r\n"}, {Resource: "1r"},
	} {
		if err := schema.CheckConfigKey(k); err == nil {
			t.Errorf("%+v is accepted", k)
		}
	}
}

func limitAttrLaw(t *rapid.T) {
	name := rapid.OneOf(limitNames, rapid.Just(schema.WCU)).Draw(t, "name")
	for _, field := range schema.LimitFields {
		gotName, gotField, ok := schema.SplitLimitAttr(schema.LimitAttr(name, field))
		if diff := cmp.Diff([]any{name, field, true}, []any{gotName, gotField, ok}); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestLimitAttrSplitsAtTheField(t *testing.T) { law(t, limitAttrLaw) }
