package archive_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// suite tests an archive on any storage service.
func suite(t *testing.T, client *s3.Client) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *s3.Client){
		"every field is stored":            everyField,
		"prefixes are apart":               prefixesAreApart,
		"names with anything in them":      oddNames,
		"a bucket that is not there":       noBucket,
		"nothing stored is nothing stored": nothing,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, client) })
	}
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	suite(t, newServer(t).Client())
}

// Every field is stored, including the namespace's name if it is known.
func everyField(t *testing.T, client *s3.Client) {
	t.Helper()
	a := open(t, client, "fields")
	full := event(1, noon)
	full.Details = map[string]any{
		"name": `<"ü& >`, "n": int64(1) << 62, "x": 0.5, "no": false, "nothing": nil,
		"list": []any{int64(1), map[string]any{"deep": []any{"a"}}},
	}
	put(t, a, full)
	put(t, a, audit.TrailEvent{NamespaceID: "gone", Event: audit.Event{
		ID: "no ulid/at all", Time: noon.AddDate(0, 0, 1), Entity: "user", Details: map[string]any{},
	}})
	want := []map[string]any{
		{
			"namespace_id": "ns1", "namespace": "default", "event_id": full.ID, "timestamp": "2026-01-02T12:00:00Z", "action": "limits_set",
			"entity_id": "user", "principal": "jo", "resource": "gpt-4", "expires_at": "2026-01-03T12:00:00Z",
			"details": map[string]any{
				"name": `<"ü& >`, "n": json.Number("4611686018427387904"), "x": json.Number("0.5"), "no": false, "nothing": nil,
				"list": []any{json.Number("1"), map[string]any{"deep": []any{"a"}}},
			},
		},
		{
			"namespace_id": "gone", "namespace": nil, "event_id": "no ulid/at all", "timestamp": "2026-01-03T12:00:00Z", "action": "",
			"entity_id": "user", "principal": nil, "resource": nil, "expires_at": nil, "details": map[string]any{},
		},
	}
	if diff := cmp.Diff(want, lines(t, client, "fields/")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An archive stores below its prefix, also beside other archives in the same bucket.
func prefixesAreApart(t *testing.T, client *s3.Client) {
	t.Helper()
	for i, prefix := range []string{"apart", "apart/x", "apart-x"} {
		put(t, open(t, client, prefix), event(i, noon))
	}
	for i, prefix := range []string{"apart", "apart/x", "apart-x"} {
		if got := stored(t, client, prefix+"/year="); !slices.Equal(got, []int64{int64(i)}) {
			t.Errorf("%s: %d", prefix, got)
		}
	}
}

// A prefix may have any characters.
func oddNames(t *testing.T, client *s3.Client) {
	t.Helper()
	for i, prefix := range []string{"a b", "ü", "a+b", "a%20b", "year=2026", "a=b&c"} {
		put(t, open(t, client, "odd/"+prefix), event(i, noon))
		if got := stored(t, client, "odd/"+prefix+"/year=2026/month"); !slices.Equal(got, []int64{int64(i)}) {
			t.Errorf("%s: %d", prefix, got)
		}
	}
}

func noBucket(t *testing.T, client *s3.Client) {
	t.Helper()
	_, err := archive.Open(t.Context(), archive.Options{API: client, Location: archive.Location{Bucket: "nowhere"}})
	wantMissing(t, err)
}

func nothing(t *testing.T, client *s3.Client) {
	t.Helper()
	a := open(t, client, "nothing")
	if size, err := a.Put(t.Context(), noon, nil); size != 0 || err != nil {
		t.Errorf("%d bytes, %v", size, err)
	}
	if got := lines(t, client, "nothing"); got != nil {
		t.Error(got)
	}
}
