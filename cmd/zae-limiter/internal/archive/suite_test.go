package archive_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/archive"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
)

// suite tests an archive on any storage service.
func suite(t *testing.T, api archive.API) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, archive.API){
		"what is stored is found":          whatIsStoredIsFound,
		"pages":                            pages,
		"filters":                          filters,
		"prefixes are apart":               prefixesAreApart,
		"names with anything in them":      oddNames,
		"a bucket that is not there":       noBucket,
		"nothing stored is nothing stored": nothing,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, api) })
	}
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	suite(t, newServer(t).Client())
}

// Listings come in several pages.
func TestInMemoryInSmallPages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Page = 2
	suite(t, s.Client())
}

// Every field comes back, including the namespace's name if it is known.
func whatIsStoredIsFound(t *testing.T, api archive.API) {
	t.Helper()
	a := open(t, api, "fields")
	full := event(1, noon)
	full.Details = map[string]any{
		"name": `<"ü& >`, "n": int64(1) << 62, "x": 0.5, "no": false, "nothing": nil,
		"list": []any{int64(1), map[string]any{"deep": []any{"a"}}}, "map": map[string]any{"n": int64(-3)},
	}
	bare := audit.TrailEvent{NamespaceID: "gone", Event: audit.Event{
		ID: "no ulid/at all", Time: noon.Add(time.Second), Entity: "user", Details: map[string]any{},
	}}
	put(t, a, bare)
	put(t, a, full)
	page, err := a.Search(t.Context(), archive.Query{})
	if err != nil {
		t.Fatal(err)
	}
	full.Namespace = "default"
	if diff := cmp.Diff([]audit.TrailEvent{bare, full}, page.Events); diff != "" || page.Cursor != "" || page.Unread != nil {
		t.Errorf("%+v (-want +got):\n%s", page, diff)
	}
}

// Pages of any size form one list, the newest first. Each event is in it once, however
// often and in whatever batches it was stored.
func pages(t *testing.T, api archive.API) {
	t.Helper()
	a := open(t, api, "pages/of/it")
	newest, batches := history(t, 120)
	for _, b := range batches {
		put(t, a, b...)
	}
	want := numbers(newest)
	for _, limit := range []int{31, 119, 120, 121, 0} {
		if diff := cmp.Diff(want, search(t, a, archive.Query{Limit: limit})); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

// A search finds all matches, and nothing else.
func filters(t *testing.T, api archive.API) {
	t.Helper()
	a := open(t, api, "filters")
	newest, batches := history(t, 120)
	for _, b := range batches {
		put(t, a, b...)
	}
	midnight := noon.Truncate(24 * time.Hour)
	for name, q := range map[string]archive.Query{
		"entity":              {Entity: "b"},
		"action":              {Action: "entity_created"},
		"principal":           {Principal: "ann"},
		"namespace":           {Namespace: "default"},
		"a namespace unknown": {Namespace: "ns2"},
		"start":               {Start: noon.Add(20 * time.Hour)},
		"end":                 {End: noon.Add(20 * time.Hour)},
		"a day":               {Start: midnight.AddDate(0, 0, 2), End: midnight.AddDate(0, 0, 3)},
		"a second":            {Start: newest[50].Time, End: newest[50].Time.Add(1)},
		"before anything":     {End: noon},
		"after everything":    {Start: noon.AddDate(1, 0, 0)},
		"all together":        {Namespace: "default", Entity: "b", Action: "limits_set", Principal: "jo", Start: noon.Add(10 * time.Hour), End: noon.AddDate(0, 0, 3)},
	} {
		var want []int64
		for _, e := range newest {
			ns := map[string]string{"ns1": "default"}[e.NamespaceID]
			if (q.Namespace == "" || q.Namespace == ns) && (q.Entity == "" || q.Entity == e.Entity) && (q.Action == "" || q.Action == e.Action) &&
				(q.Principal == "" || q.Principal == e.Principal) && !e.Time.Before(q.Start) && (q.End.IsZero() || e.Time.Before(q.End)) {
				want = append(want, e.Details["n"].(int64))
			}
		}
		q.Limit = 20
		if diff := cmp.Diff(want, search(t, a, q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// An archive does not see the content of another archive in the same bucket.
func prefixesAreApart(t *testing.T, api archive.API) {
	t.Helper()
	for i, prefix := range []string{"apart", "apart/x", "apart-x"} {
		put(t, open(t, api, prefix), event(i, noon))
	}
	for i, prefix := range []string{"apart", "apart/x", "apart-x"} {
		if got := search(t, open(t, api, prefix), archive.Query{}); !slices.Equal(got, []int64{int64(i)}) {
			t.Errorf("%s: %d", prefix, got)
		}
	}
}

// A prefix may have any characters.
func oddNames(t *testing.T, api archive.API) {
	t.Helper()
	for i, prefix := range []string{"a b", "ü", "a+b", "a%20b", "year=2026", "a=b&c"} {
		a := open(t, api, "odd/"+prefix)
		put(t, a, event(i, noon))
		if got := search(t, a, archive.Query{}); !slices.Equal(got, []int64{int64(i)}) {
			t.Errorf("%s: %d", prefix, got)
		}
	}
}

func noBucket(t *testing.T, api archive.API) {
	t.Helper()
	_, err := archive.Open(t.Context(), archive.Options{API: api, Location: archive.Location{Bucket: "nowhere"}})
	wantMissing(t, err)
}

func nothing(t *testing.T, api archive.API) {
	t.Helper()
	a := open(t, api, "nothing")
	if size, err := a.Put(t.Context(), noon, nil); size != 0 || err != nil {
		t.Errorf("%d bytes, %v", size, err)
	}
	if got := search(t, a, archive.Query{}); got != nil {
		t.Error(fmt.Sprint(got))
	}
}
