package usage_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// peerUsage returns a snapshot as the peer writes it: without a window in the keys, and
// with counters of whole tokens beside an overdraft's.
func peerUsage(ns string, k usage.Key, window string, rpm int64) schema.Item {
	start := schema.Timestamp(k.Start)
	it := schema.Key{PK: ns + "/ENTITY#" + k.Entity, SK: "#USAGE#" + k.Resource + "#" + start}.Item()
	for name, v := range map[string]string{
		"entity_id": k.Entity, "resource": k.Resource, "window": window, "window_start": start,
		"GSI2PK": ns + "/RESOURCE#" + k.Resource, "GSI2SK": "USAGE#" + start + "#" + k.Entity,
		"GSI4PK": ns, "GSI4SK": ns + "/ENTITY#" + k.Entity,
	} {
		it[name] = schema.S(v)
	}
	it["rpm"], it["rpm#od"], it["total_events"], it["ttl"] = schema.N(rpm), schema.N(7), schema.N(2), schema.N(1)
	return it
}

// A written is a snapshot and its writer.
type written struct {
	usage.Snapshot
	peer bool
}

// writeUsage writes snapshots of four entities and three resources around the turn of a
// year. Some are written by the peer, and some by both.
func writeUsage(t *testing.T, s *dynamo.Store, api dynamo.API) (all []written) {
	t.Helper()
	_, ns := s.Namespace()
	newYear := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, entity := range []string{"user", "user-1", "user-10", "a@b:c"} {
		for j, resource := range []string{"gpt-4", "gpt-4-turbo", "gpt-4/x"} {
			for n := -3; n < 4; n++ {
				for w, start := range map[usage.Window]time.Time{
					usage.Hourly: newYear.Add(time.Duration(n) * time.Hour), usage.Daily: newYear.AddDate(0, 0, n), usage.Monthly: newYear.AddDate(0, n, 0),
				} {
					u := usage.Snapshot{
						Key:    usage.Key{Entity: entity, Resource: resource, Window: w, Start: start},
						Events: 1, Tokens: []usage.Amount{{Limit: "rpm", Milli: big.NewInt(1000 * int64(n+10))}},
					}
					by := (i + j + n + 3) % 3 // 0: this package, 1: the peer, 2: both
					if n == 0 {
						by = 0 // the peer has one item for all three
					}
					if by != 1 {
						counted(t, s, api, u.Key, 1, map[string]int64{"rpm": 1000 * int64(n+10)})
						all = append(all, written{u, false})
					}
					if by != 0 {
						fixture.Put(t, api, peerUsage(ns, u.Key, w.String(), int64(n+10)))
						u.Events = 2
						all = append(all, written{u, true})
					}
				}
			}
		}
	}
	// Not among them: another kind of item in the partition, and a peer's window of an
	// unknown kind.
	fixture.CreateEntity(t, s, store.Entity{ID: "user"})
	fixture.Put(t, api, peerUsage(ns, usage.Key{Entity: "user", Resource: "gpt-4", Start: noon}, " daily", 9))
	return all
}

// asked returns the written snapshots that a query must find, in order.
func asked(all []written, q usage.Query) []usage.Snapshot {
	var found []written
	for _, u := range all {
		if (q.Entity == "" || q.Entity == u.Entity) && (q.Resource == "" || q.Resource == u.Resource) && q.Window == u.Window &&
			(q.From.IsZero() || !u.Start.Before(q.From)) && (q.To.IsZero() || u.Start.Before(q.To)) {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b written) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.Entity, a.Entity), cmp.Compare(b.Resource, a.Resource), cmp.Compare(a.Events, b.Events))
	})
	snapshots := make([]usage.Snapshot, len(found))
	for i := range found {
		snapshots[i] = found[i].Snapshot
	}
	return snapshots
}

// usageQueries are by entity, by resource and by both. They cover all windows and
// bounds on a window's start and beside it.
func usageQueries() (queries []usage.Query) {
	at := func(s string) time.Time { t, _ := time.Parse(time.RFC3339Nano, s); return t }
	for _, bounds := range [][2]time.Time{
		{},
		{at("2024-12-31T22:00:00Z"), at("2025-01-01T02:00:00Z")},
		{at("2024-12-31T22:00:00.001Z"), at("2025-01-01T01:00:00.001Z")},
		{at("2024-12-31T00:00:00Z"), {}},
		{{}, at("2025-01-01T01:00:00+01:00")},
		{at("2025-01-01T00:00:00Z"), at("2025-01-01T00:00:01Z")},
		{at("2025-01-01T00:00:00.1Z"), at("2025-01-01T00:00:00.2Z")},
		{at("2030-01-01T00:00:00Z"), {}},
	} {
		for _, of := range [][2]string{{"user-1", "gpt-4"}, {"user-1", ""}, {"", "gpt-4"}, {"user-10", "gpt-4/x"}, {"nobody", ""}, {"", "none"}} {
			for w := usage.Hourly; w <= usage.Monthly; w++ {
				queries = append(queries, usage.Query{Entity: of[0], Resource: of[1], Window: w, From: bounds[0], To: bounds[1]})
			}
		}
	}
	return queries
}

func TestUsageIsReadPageByPage(t *testing.T) {
	t.Parallel()
	for _, projection := range []dynamo.Projection{dynamo.ProjectKeys, dynamo.ProjectAll} {
		t.Run(string(projection), func(t *testing.T) {
			t.Parallel()
			f := faults.NewTap(testbed.NewEngine(t, dynamolite.Options{}))
			if err := dynamo.CreateTable(t.Context(), f, dynamo.TableOptions{Name: table, GSI2Projection: projection}); err != nil {
				t.Fatal(err)
			}
			checkUsageQueries(t, fixture.OpenStore(t, f), f, 1, 2, 5, 0)
			f.Set(faults.Pages(2)) // items that the server returns at once
			s := fixture.OpenStore(t, f)
			for _, q := range []usage.Query{{Entity: "user-1"}, {Resource: "gpt-4"}} {
				page, err := s.Usage().Read(t.Context(), q)
				if err != nil || len(page.Snapshots) < 7 || page.Next != "" {
					t.Errorf("%d snapshots, next %q, %v", len(page.Snapshots), page.Next, err)
				}
			}
		})
	}
}

// checkUsageQueries compares every query, in pages of these limits, with the written
// snapshots. It compares the summary with their sum.
func checkUsageQueries(t *testing.T, s *dynamo.Store, api dynamo.API, limits ...int) {
	t.Helper()
	all := writeUsage(t, s, api)
	found := 0
	for _, q := range usageQueries() {
		want := asked(all, q)
		found += len(want)
		for _, q.Limit = range limits {
			if diff := gocmp.Diff(want, pages(t, s, q), sameNumbers, gocmp.Transformer("none", func(u []usage.Snapshot) []usage.Snapshot {
				return append([]usage.Snapshot{}, u...)
			})); diff != "" {
				t.Fatalf("%+v (-want +got):\n%s", q, diff)
			}
		}
		got, err := s.Usage().Sum(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(sumOf(want), got, sameNumbers); diff != "" {
			t.Fatalf("summary of %+v (-want +got):\n%s", q, diff)
		}
	}
	if found < 100 {
		t.Errorf("the queries found %d snapshots, which shows little", found)
	}
}

// pages reads all pages of a query, and requires that only the last one is short.
func pages(t *testing.T, s *dynamo.Store, q usage.Query) (all []usage.Snapshot) {
	t.Helper()
	for range 1000 {
		page, err := s.Usage().Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		limit := cmp.Or(q.Limit, usage.DefaultLimit)
		if n := len(page.Snapshots); n > limit || n < limit && page.Next != "" || n == 0 && q.Cursor != "" {
			t.Fatalf("%+v: a page of %d snapshots, next %q", q, n, page.Next)
		}
		all = append(all, page.Snapshots...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
	t.Fatalf("%+v: the pages have no end", q)
	return nil
}

func sumOf(snapshots []usage.Snapshot) (sum usage.Summary) {
	windows, entities := map[time.Time]bool{}, map[string]bool{}
	for _, u := range snapshots {
		windows[u.Start], entities[u.Entity] = true, true
		sum.Windows, sum.Entities = len(windows), len(entities)
		sum.Snapshots++
		sum.Events += u.Events
		if sum.Limits == nil {
			sum.Last, sum.Limits = u.Start, []usage.Total{{Limit: "rpm", Total: new(big.Int)}}
		}
		sum.First = u.Start
		l := &sum.Limits[0]
		l.Total.Add(l.Total, u.Tokens[0].Milli)
		l.Windows = len(windows) // every snapshot names the limit
		l.Average = new(big.Int).Quo(l.Total, big.NewInt(int64(l.Windows)))
	}
	return sum
}

var sameNumbers = gocmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })

// The cost of a page depends only on the page, not on the items before its windows,
// after them or beside them.
func TestUsageIsReadByKeys(t *testing.T) {
	t.Parallel()
	db := fixture.NewTable(t)
	meter := dynamo.NewMeter(db)
	s := fixture.OpenStore(t, meter)
	for hour := range 24 * 40 {
		k := hourly("user")
		k.Start = noon.Add(time.Duration(hour) * time.Hour)
		counted(t, s, db, k, 1, map[string]int64{"tpm": 1000})
	}
	from := noon.AddDate(0, 0, 20)
	for i := range 100 {
		counted(t, s, db, usage.Key{Entity: fmt.Sprintf("user-%02d", i), Resource: "crowded", Start: from}, 1, map[string]int64{"tpm": 1000})
	}
	page, err := s.Usage().Read(t.Context(), usage.Query{Resource: "crowded", Limit: 80})
	if err != nil {
		t.Fatal(err)
	}
	crowded := page.Next
	for of, c := range map[string]struct {
		q        usage.Query
		requests int64
		rcu      float64
	}{
		// A query for our items and one for the peer's; 12 items are less than 12 KB. Three
		// more for the months with pages, the bucket's shards, and shard 0.
		"entity and resource": {usage.Query{Entity: "user", Resource: "gpt-4"}, 5, 3},
		// Two more find the resources. The peer's are not queried: there are none. No bucket is
		// there to be read.
		"entity": {usage.Query{Entity: "user"}, 5, 3},
		// The index has the keys; each item is read, half a unit each. Buckets are in 17 partitions.
		"resource": {usage.Query{Resource: "gpt-4"}, 21, 16},
		// Its second page begins after the first, in the middle of a window.
		"a later page":    {usage.Query{Resource: "crowded", Cursor: crowded}, 21, 16},
		"another window":  {usage.Query{Entity: "user", Resource: "gpt-4", Window: usage.Daily}, 5, 2.5},
		"another entity":  {usage.Query{Entity: "user-1"}, 3, 1.5},
		"another of none": {usage.Query{Resource: "gpt"}, 20, 10},
	} {
		c.q.From, c.q.To, c.q.Limit = from, from.AddDate(0, 0, 5), 10
		before := meter.Totals()
		if _, err := s.Usage().Read(t.Context(), c.q); err != nil {
			t.Fatal(err)
		}
		if got := meter.Totals().Sub(before).Sum(); got.Requests != c.requests || got.RCU > c.rcu {
			t.Errorf("by %s: %+v, want %d requests and at most %v RCU", of, got, c.requests, c.rcu)
		}
	}
}

// An index entry is no snapshot if its item has gone before it is read.
func TestUsageThatExpiresMeanwhile(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	counted(t, s, f, hourly("user"), 1, nil)
	counted(t, s, f, hourly("user-1"), 1, nil)
	f.Set(faults.Before(func(c *faults.Call) error {
		if c.Op == "BatchGetItem" {
			_, err := s.DeleteEntity(t.Context(), "user")
			f.Set(nil)
			return err
		}
		return nil
	}))
	page, err := s.Usage().Read(t.Context(), usage.Query{Resource: "gpt-4"})
	if err != nil || len(page.Snapshots) != 1 || page.Snapshots[0].Entity != "user-1" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestUsageQueriesThatCannotBe(t *testing.T) {
	t.Parallel()
	s, f := fixture.NewStore(t)
	counted(t, s, f, hourly("user"), 1, nil)
	k := hourly("user")
	k.Start = k.Start.Add(time.Hour)
	counted(t, s, f, k, 1, nil)
	page, err := s.Usage().Read(t.Context(), usage.Query{Entity: "user", Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("next %q, %v", page.Next, err)
	}
	text, err := base64.RawURLEncoding.DecodeString(page.Next)
	if err != nil {
		t.Fatal(err)
	}
	forged := func(old, with string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), old, with, 1)))
	}
	f.Take()
	for field, queries := range map[string][]usage.Query{
		"entity":   {{}, {Entity: "a#b"}},
		"resource": {{Resource: "9"}},
		"window":   {{Entity: "user", Window: 3}},
		"limit":    {{Entity: "user", Limit: -1}, {Entity: "user", Limit: usage.MaxLimit + 1}},
		"to":       {{Entity: "user", From: noon, To: noon}},
		"cursor": {
			{Entity: "user", Cursor: "?"},
			{Entity: "user", Cursor: "YWJj"},
			{Entity: "user-1", Cursor: page.Next},
			{Entity: "user", Resource: "gpt", Cursor: page.Next},
			{Entity: "user", Window: usage.Daily, Cursor: page.Next},
			{Entity: "user", Cursor: forged("2024", "2O24")},
			{Resource: "gpt-4", Cursor: forged("user", "")},
			{Entity: "user", Cursor: forged("gpt-4", "")},
		},
	} {
		for _, q := range queries {
			_, err := s.Usage().Read(t.Context(), q)
			fixture.WantErr(t, err, store.ErrInvalid)
			if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
				t.Errorf("%+v: %v, want the %s named", q, err, field)
			}
		}
	}
	if len(f.Ops()) > 0 {
		t.Errorf("%v were sent", f.Ops())
	}
}

func TestDamagedUsageIsReported(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(schema.Item){
		"events":     func(it schema.Item) { it[schema.TotalEvents] = schema.S("2") },
		"a fraction": func(it schema.Item) { it["rpm"] = fraction },
		"the rest":   func(it schema.Item) { it["rpm#milli"] = fraction },
		"the key":    func(it schema.Item) { it[schema.SK] = schema.S("#USAGE#gpt-4#2024-13-01") },
	} {
		db := fixture.NewTable(t)
		s := fixture.OpenStore(t, db)
		_, ns := s.Namespace()
		it := peerUsage(ns, hourly("user"), "hourly", 1)
		damage(it)
		fixture.Put(t, db, it)
		_, err := s.Usage().Read(t.Context(), usage.Query{Entity: "user"})
		fixture.WantErr(t, err, store.ErrCorrupt)
		if err == nil || !strings.Contains(err.Error(), "ENTITY#user") {
			t.Errorf("%s: %v, want the item named", name, err)
		}
	}
}

var fraction = &types.AttributeValueMemberN{Value: "0.5"}
