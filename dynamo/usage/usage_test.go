package usage_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// noon is the start of the windows in most tests.
var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func hourly(entity string) usage.Key {
	return usage.Key{Entity: entity, Resource: "gpt-4", Window: usage.Hourly, Start: noon}
}

// counted writes a snapshot as earlier versions did, with millitokens by limit.
func counted(t *testing.T, s *dynamo.Store, api dynamo.API, k usage.Key, events int64, tokens map[string]int64) {
	t.Helper()
	_, ns := s.Namespace()
	u := schema.Usage{Entity: k.Entity, Resource: k.Resource, Window: k.Window.String(), Start: k.Start, Events: events}
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		u.Tokens = append(u.Tokens, schema.UsageAmount{Limit: name, Milli: big.NewInt(tokens[name])})
	}
	fixture.Put(t, api, fixture.OldUsage(ns, &u))
}

// used returns a store's counts of one snapshot: acquires, and tokens by limit.
func used(t *testing.T, s *dynamo.Store, k usage.Key) (events int64, tokens map[string]int64) {
	t.Helper()
	page, err := s.Usage().Read(t.Context(), usage.Query{
		Entity: k.Entity, Resource: k.Resource, Window: k.Window, From: k.Start, To: k.Window.End(k.Start),
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens = map[string]int64{}
	for _, u := range page.Snapshots {
		if len(page.Snapshots) > 1 || u.Key != k {
			t.Fatalf("asked for %+v, got %+v", k, page.Snapshots)
		}
		for _, a := range u.Tokens {
			if !a.Milli.IsInt64() {
				t.Fatalf("%s: %v millitokens of %s", k.Entity, a.Milli, a.Limit)
			}
			tokens[a.Limit] = a.Milli.Int64()
		}
		events = u.Events
	}
	return events, tokens
}

func wantUsed(t *testing.T, s *dynamo.Store, k usage.Key, events int64, tokens map[string]int64) {
	t.Helper()
	gotEvents, got := used(t, s, k)
	if diff := cmp.Diff(tokens, got); diff != "" || gotEvents != events {
		t.Errorf("%d events, want %d; tokens (-want +got):\n%s", gotEvents, events, diff)
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct {
		window         usage.Window
		in, start, end string
	}{
		{usage.Hourly, "2024-02-29T23:59:59.999999999Z", "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z"},
		{usage.Hourly, "2024-03-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z"},
		{usage.Hourly, "2024-03-01T00:15:00+05:30", "2024-02-29T18:00:00Z", "2024-02-29T19:00:00Z"},
		{usage.Daily, "2024-02-28T12:00:00Z", "2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z"},
		{usage.Daily, "2024-02-29T23:59:59.999Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		{usage.Daily, "2023-02-28T23:59:59Z", "2023-02-28T00:00:00Z", "2023-03-01T00:00:00Z"},
		{usage.Daily, "2024-12-31T23:30:00-01:00", "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z"},
		{usage.Monthly, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{usage.Monthly, "2024-12-31T23:59:59Z", "2024-12-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{usage.Monthly, "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"},
	} {
		if start, end := c.window.Start(at(c.in)), c.window.End(at(c.in)); !start.Equal(at(c.start)) || !end.Equal(at(c.end)) {
			t.Errorf("%s window of %s is %v to %v", c.window, c.in, start, end)
		}
	}
	if w := usage.Window(0); w != usage.Hourly {
		t.Errorf("the zero window is %s", w)
	}
}

// Windows that start together are separate, and no limit name collides with an attribute
// (peer defects 9.1 and 9.10).
func TestOldUsageCollidesWithNothing(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	names := []string{
		"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK", "LSI1SK", "LSI5SK",
		"entity_id", "resource", "window", "window_start", "ttl", "total_events", "seq", "milli", "rpm", "rpm.milli", "size", "name",
	}
	newYear := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, w := range []usage.Window{usage.Hourly, usage.Daily, usage.Monthly} {
		want := map[string]int64{}
		for j, name := range names {
			want[name] = int64(i*1000 + j*10 + 1)
		}
		k := usage.Key{Entity: "user", Resource: "gpt-4", Window: w, Start: newYear}
		counted(t, s, db, k, int64(i+1), want)
		wantUsed(t, s, k, int64(i+1), want)
	}
}

// A page lives until the time to keep usage has passed since its month.
func TestPagesOutliveTheirMonth(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	hour := diary.HourOf(noon.UnixMilli())
	d := usage.Diary{Bucket: store.Bucket{Entity: "user", Resource: "gpt-4"}, Text: textOf([]diary.Entry{{Hour: hour, Amounts: []store.Amount{{Milli: 1}}}})}
	end := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		of   time.Duration
		want string
	}{
		{0, fmt.Sprint("N ", end.AddDate(0, 0, 90).Unix())},
		{time.Minute, fmt.Sprint("N ", end.Unix()+60)},
		{-1, "never"},
		{24 * time.Hour, fmt.Sprint("N ", end.AddDate(0, 0, 1).Unix())},
	} {
		s, err := dynamo.Open(t.Context(), dynamo.Options{API: db, Table: table, Now: now, UsageTTL: c.of})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Usage().Save(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		_, ns := s.Namespace()
		page := schema.Page{Bucket: d.Bucket, Entries: []diary.Entry{{Hour: hour}}}
		it, got := fixture.Get(t, db, page.Key(ns)), "never"
		if it[schema.TTL] != nil {
			got = fixture.Notation(it[schema.TTL])
		}
		if got != c.want {
			t.Errorf("with %v a page expires at %s, want %s", c.of, got, c.want)
		}
	}
}

func TestOldUsageGoesWithItsEntity(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	s := fixture.OpenStore(t, db)
	counted(t, s, db, hourly("user"), 1, map[string]int64{"tpm": 1000})
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 1 || err != nil {
		t.Errorf("deleted %d items, %v", n, err)
	}
	wantUsed(t, s, hourly("user"), 0, map[string]int64{})
}
