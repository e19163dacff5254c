package schema_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/schema"
)

var leapDay = time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)

func usageKeyLaw(t *rapid.T) {
	want := schema.Usage{
		Entity: entities.Draw(t, "entity"), Resource: resources.Draw(t, "resource"),
		Window: rapid.SampledFrom([]string{"", "hourly", "daily", "monthly"}).Draw(t, "window"),
		Start:  time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "start"), 0).UTC(),
	}
	want.Peer = want.Window == ""
	k := schema.UsageKey(namespaces.Draw(t, "namespace"), want.Entity, want.Resource, want.Window, want.Start)
	got, ok := schema.ParseUsageKey(k)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Fatalf("parsed %q: %v (-want +got):\n%s", k, ok, diff)
	}
}

func TestUsageKeysParseToWhatTheyWereBuiltFrom(t *testing.T) { law(t, usageKeyLaw) }

func FuzzUsageKeysParseToWhatTheyWereBuiltFrom(f *testing.F) { fuzz(f, usageKeyLaw) }

func TestKeysOfNoUsage(t *testing.T) {
	t.Parallel()
	for _, sk := range []string{
		"#META", "#USAGE#", "#USAGE#r", "#USAGE#r#", "#USAGE#r#daily", "#USAGE#r#daily#", "#USAGE##daily#2024-02-29T00:00:00Z",
		"#USAGE#r#daily#2024-02-30T00:00:00Z", "#USAGE#r#daily#2024-02-29T00:00:00Z#x", "#USAGE#9#2024-02-29T00:00:00Z",
	} {
		if u, ok := schema.ParseUsageKey(schema.Key{PK: "ns1/ENTITY#e", SK: sk}); ok {
			t.Errorf("%q parsed as %+v", sk, u)
		}
	}
	if u, ok := schema.ParseUsageKey(schema.Key{PK: "ns1/BUCKET#e#r#0", SK: "#USAGE#r#2024-02-29T00:00:00Z"}); ok {
		t.Errorf("a bucket's partition parsed as %+v", u)
	}
}

// Each limit has attributes of its own, whatever its name, and no limit's name equals
// another attribute of a snapshot.
func TestUsageAttributesAreApart(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	claim := func(attr, by string) {
		if other, there := owner[attr]; there {
			t.Errorf("%s is an attribute of %s and of %s", attr, other, by)
		}
		owner[attr] = by
	}
	for _, attr := range []string{
		"PK", "SK", "GSI2PK", "GSI2SK", "GSI4PK", "GSI4SK", "entity_id", "resource", "window", "window_start", "ttl", "total_events",
		"seq#0", "at#31", "low#1", "rpm#od", // of shards, in snapshots of earlier versions
	} {
		claim(attr, "the snapshot")
	}
	for _, limit := range []string{"ttl", "window", "resource", "PK", "GSI2SK", "seq", "rpm", "rpm.milli", "milli", "od"} {
		claim(schema.UsageAttr(limit), limit)
		claim(schema.UsageRestAttr(limit), limit)
	}
}

// A counter that another library writes is a limit. An attribute that cannot be a limit's
// name, or that is no number, is not.
func TestDecodeUsageLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	it := schema.UsageKey("ns1", "e", "r", "", leapDay).Item()
	for name, v := range map[string]int64{"rpm": 3, "rpm#od": 1, "wcu": 5, "#tpm": 6, "_x": 7, "total_events": 8, "ttl": 9, "#ttl": 10} {
		it[name] = schema.N(v)
	}
	it[schema.Window], it["note"] = schema.S("daily"), schema.S("11")
	got, err := schema.DecodeUsage(it)
	want := schema.Usage{
		Entity: "e", Resource: "r", Window: "daily", Start: leapDay, Peer: true, Events: 8,
		Tokens: []schema.UsageAmount{{Limit: "rpm", Milli: big.NewInt(3000)}, {Limit: "ttl", Milli: big.NewInt(10_000)}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
