package schema_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

func manifestLaw(t *rapid.T) {
	record := &schema.ManifestRecord{Name: "team", Levels: map[store.ConfigKey]string{}, Hash: "sha256:00"}
	for range rapid.IntRange(0, 20).Draw(t, "levels") {
		k := configKeys(t)
		if k.Entity != "" && rapid.Bool().Draw(t, "record") {
			k.Resource = ""
		}
		record.Levels[k] = rapid.SampledFrom([]string{"", "?", "0123456789ab+block"}).Draw(t, "digest")
	}
	if rapid.Bool().Draw(t, "held") {
		record.Holder, record.HeldUntil = "me", time.UnixMilli(1700000000001)
	}
	got := &schema.ManifestRecord{Name: record.Name}
	for i, item := range schema.EncodeManifest("ns1", record) {
		key := schema.KeyOf(item)
		if name, segment, ok := schema.ParseManifestSK(key.SK); !ok || name != record.Name || segment != i || key != schema.ManifestKey("ns1", name, segment) {
			t.Fatalf("the key of segment %d is %v", i, key)
		}
		schema.DecodeManifest(item, got)
	}
	if diff := cmp.Diff(record, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestManifestRecordRoundTrip(t *testing.T) { law(t, manifestLaw) }

func FuzzManifestRecordRoundTrip(f *testing.F) { fuzz(f, manifestLaw) }

func TestPeersItemsAreNoRecords(t *testing.T) {
	t.Parallel()
	for sk, want := range map[string]bool{
		"#PROVISIONER": true, "#PROVISIONER#MANIFEST#a": true, "#PROVISIONER#SEGMENT#a#1": true,
		"#PROVISIONER#PENDING#sync#entity#e/r": false, "#PROVISIONER#VERSION": false, "#PROVISIONER#SEGMENT#a#0": false, "#PROVISIONER#MANIFEST#": false,
	} {
		if _, _, ok := schema.ParseManifestSK(sk); ok != want {
			t.Errorf("%s: got %v", sk, ok)
		}
	}
}
