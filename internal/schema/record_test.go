package schema_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

var created = time.Date(2026, 11, 21, 7, 41, 39, 0, time.UTC)

func TestEntitiesAreWrittenAsThePeerWritesThem(t *testing.T) {
	t.Parallel()
	for _, e := range []*store.Entity{
		{
			ID: "proj-1", Name: "proj-1", Metadata: map[string]string{}, Created: created,
			Generation: 1700000020000, Incarnation: "55e65307be8a05d1",
		},
		{
			ID: "key-1", Name: "key-1", Parent: "proj-1", Cascade: true, Metadata: map[string]string{}, Created: created,
			Generation: 1700000020000, Incarnation: "12237d82a08a3bce",
		},
	} {
		peer := peerItem(t, schema.MetaKey("ns1", e.ID).String())
		if diff := cmp.Diff(wire(peer), wire(schema.EncodeEntity("ns1", e))); diff != "" {
			t.Errorf("%s (-peer +ours):\n%s", e.ID, diff)
		}
		got, err := schema.DecodeEntity(peer)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s decoded (-want +got):\n%s", e.ID, diff)
		}
	}
}

func entityLaw(t *rapid.T) {
	e := &store.Entity{
		ID:          entities.Draw(t, "id"),
		Name:        rapid.StringN(1, 20, -1).Draw(t, "name"),
		Cascade:     rapid.Bool().Draw(t, "cascade"),
		Metadata:    rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata"),
		Created:     time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "created"), 0).UTC(),
		Generation:  rapid.Int64().Draw(t, "generation"),
		Incarnation: rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "incarnation"),
	}
	if rapid.Bool().Draw(t, "has parent") {
		e.Parent = entities.Draw(t, "parent")
	}
	got, err := schema.DecodeEntity(schema.EncodeEntity(namespaces.Draw(t, "namespace"), e))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Fatalf("decoded (-want +got):\n%s", diff)
	}
}

func TestEntityRoundTrip(t *testing.T) { law(t, entityLaw) }

func FuzzEntityRoundTrip(f *testing.F) { fuzz(f, entityLaw) }

func TestDecodeEntityOfOtherWriters(t *testing.T) {
	t.Parallel()
	item := schema.MetaKey("ns1", "e").Item()
	item[schema.Metadata] = &types.AttributeValueMemberM{Value: schema.Item{
		"n": n("1.5"), "s": schema.S("x"), "b": schema.Bool(true), "l": &types.AttributeValueMemberL{},
	}}
	want := &store.Entity{
		ID: "e", Name: "e", Incarnation: "-",
		Metadata: map[string]string{"n": "1.5", "s": "x", "b": "true", "l": ""},
	}
	got, err := schema.DecodeEntity(item)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	item[schema.CreatedAt] = schema.S("2026-11-21T07:41:39.123456+00:00")
	got, err = schema.DecodeEntity(item)
	if err != nil {
		t.Fatal(err)
	}
	if got.Incarnation != "2026-11-21T07:41:39.123456+00:00" || !got.Created.Equal(created) {
		t.Errorf("got incarnation %q, created %v", got.Incarnation, got.Created)
	}
}

func TestDamagedEntitiesAreNamed(t *testing.T) {
	t.Parallel()
	for attr, v := range map[string]types.AttributeValue{
		schema.PK: schema.S("ns1/ENTITY#bad#id"), schema.PGen: schema.S("1"),
		schema.CreatedAt: schema.S("yesterday"), schema.ParentID: schema.S("bad#id"),
	} {
		item := schema.EncodeEntity("ns1", &store.Entity{ID: "e"})
		item[attr] = v
		_, err := schema.DecodeEntity(item)
		corrupt := (*store.CorruptError)(nil)
		if !errors.As(err, &corrupt) || corrupt.Attr != attr {
			t.Errorf("%s: got error %v", attr, err)
		}
	}
}

func TestNamespacesAreWrittenAsThePeerWritesThem(t *testing.T) {
	t.Parallel()
	ns := schema.Namespace{ID: "AcsldjIGZls", Name: "tenant-a", Status: schema.StatusActive, Created: created.Add(time.Second)}
	forward, reverse := schema.EncodeNamespace(ns)
	for key, ours := range map[string]schema.Item{
		"_/SYSTEM# #NAMESPACE#tenant-a": forward, "_/SYSTEM# #NSID#AcsldjIGZls": reverse,
	} {
		if diff := cmp.Diff(wire(peerItem(t, key)), wire(ours)); diff != "" {
			t.Errorf("%s (-peer +ours):\n%s", key, diff)
		}
		got, err := schema.DecodeNamespace(peerItem(t, key))
		if err != nil || got != ns {
			t.Errorf("decoded %+v, %v", got, err)
		}
	}
	for _, id := range []string{"", "_", "a/b", "a#b", "a b"} {
		forward[schema.NamespaceID] = schema.S(id)
		if _, err := schema.DecodeNamespace(forward); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("id %q: got error %v", id, err)
		}
	}
}

func TestVersionRoundTrip(t *testing.T) {
	t.Parallel()
	for _, v := range []schema.Version{
		{Schema: "0.10.0", ClientMin: "0.0.0", Updated: created},
		{Schema: "0.10.0", ClientMin: "0.15.0", Lambda: "0.17.0", Updated: created, UpdatedBy: "x"},
		{},
	} {
		item := schema.EncodeVersion(v)
		if v.Updated.IsZero() {
			delete(item, schema.UpdatedAt)
		}
		if got := schema.DecodeVersion(item); got != v {
			t.Errorf("got %+v, want %+v", got, v)
		}
		if v.Lambda == "" {
			if _, isNull := item[schema.LambdaVersion].(*types.AttributeValueMemberNULL); !isNull {
				t.Errorf("no aggregator is %v, want NULL", item[schema.LambdaVersion])
			}
		}
	}
}

func TestRegistries(t *testing.T) {
	t.Parallel()
	if got := schema.DecodeResourceRegistry(schema.Item{schema.Resources: schema.Set("b", "a")}); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("resources: got %q", got)
	}
	if got := schema.DecodeResourceRegistry(nil); got != nil {
		t.Errorf("no registry: got %q", got)
	}
	got := schema.DecodeEntityConfigRegistry(schema.Item{
		schema.PK: schema.S("ns1/SYSTEM#"), schema.SK: schema.S(schema.EntityConfigRegistrySK), schema.GSI4PK: schema.S("ns1"),
		"gpt-4": n("2"), "gone": n("0"), "below": n("-1"), store.DefaultResource: n("1"),
	})
	if want := []string{store.DefaultResource, "gpt-4"}; !cmp.Equal(got, want) {
		t.Errorf("entity limits: got %q, want %q", got, want)
	}
	if err := schema.CheckRegistered("GSI4PK"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("the registry's own key: got %v", err)
	}
}
