package usage_test

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/fixture"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/dynamolite"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/internal/test/faults"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

// A diaryItem is a bucket item of a client with a diary: the last of its hours is open, the
// one before is closed, and the text has the others that are not only in pages.
type diaryItem struct {
	store.Bucket
	life   int64
	shards int
	hours  []diary.Entry // in order; all of them
	cut    int           // so many of them are in pages only
	gone   bool          // all of them are
}

// item returns the item as it is in the table.
func (d *diaryItem) item(ns string) schema.Item {
	it := schema.BucketKey(ns, d.Bucket).Item()
	isSpread := d.Entity != "user-1" // a table may have buckets with keys of both kinds
	for name, v := range schema.EncodeNewBucket(ns, isSpread, &store.Create{Bucket: d.Bucket}) {
		if strings.HasPrefix(name, "GSI") {
			it[name] = v
		}
	}
	it[schema.Created], it[schema.ShardCount], it[schema.RF] = schema.N(d.life), schema.N(int64(d.shards)), schema.N(d.life)
	n := len(d.hours)
	it[schema.OpenHour] = schema.N(int64(d.hours[n-1].Hour))
	// The counters have wrapped since the item was made.
	for _, a := range d.hours[n-1].Amounts {
		attr := schema.Acquires
		if a.Limit != "" {
			attr = schema.LimitAttr(a.Limit, schema.FieldConsumed)
		}
		count := new(big.Int).Add(big.NewInt(math.MaxInt64), big.NewInt(a.Milli))
		it[attr] = &types.AttributeValueMemberN{Value: count.String()}
		it[schema.OpenedAttr(a.Limit)] = schema.N(math.MaxInt64)
	}
	it["b_wcu_tc"] = schema.N(123_000)
	if n > 1 {
		it[schema.ClosedHour] = schema.N(int64(d.hours[n-2].Hour))
		for _, a := range d.hours[n-2].Amounts {
			it[schema.GainedAttr(a.Limit)] = schema.N(a.Milli)
		}
	}
	if n > 2 && d.cut < n-2 {
		it[schema.DiaryText] = schema.S(textOf(d.hours[d.cut : n-2]))
	}
	return it
}

func textOf(entries []diary.Entry) (text string) {
	for _, e := range entries {
		text = diary.Append(text, e)
	}
	return text
}

// drawDiaries returns items of three entities and three resources, of one or two shards
// and lives, with hours of three months.
func drawDiaries(r *rand.Rand) (all []diaryItem) {
	end := diary.HourOf(start.UnixMilli())
	for _, entity := range []string{"user", "user-1", "a@b:c"} {
		for _, resource := range []string{"gpt-4", "gpt-4-turbo", "gpt-4/x"} {
			shards := 1 + r.IntN(2)
			for shard := range shards {
				lives := 1 + r.IntN(2)
				for life := range lives {
					d := diaryItem{Bucket: store.Bucket{Entity: entity, Resource: resource, Shard: shard}, life: int64(1000 * life), shards: shards, gone: life < lives-1 || r.IntN(8) == 0}
					for hour := end - int32(r.IntN(60*24)) - 1; hour <= end && len(d.hours) < 40; hour += 1 + int32(r.IntN(1<<r.IntN(8))) {
						e := diary.Entry{Hour: hour, Amounts: []store.Amount{{Limit: "", Milli: 1 + r.Int64N(9)}, {Limit: "rpm", Milli: 500 - r.Int64N(2000)*2 - 1}}}
						if r.IntN(3) == 0 {
							e.Amounts = append(e.Amounts, store.Amount{Limit: "tpm", Milli: math.MaxInt64 - r.Int64N(10)})
						}
						d.hours = append(d.hours, e)
					}
					d.cut = r.IntN(len(d.hours) + 1)
					all = append(all, d)
				}
			}
		}
	}
	return all
}

// writeDiaries writes items, and pages for what they no longer have. Some hours are in
// several pages, in the item too, or both.
func writeDiaries(t *testing.T, s *dynamo.Store, api dynamo.API, r *rand.Rand, all []diaryItem) {
	t.Helper()
	_, ns := s.Namespace()
	for i := range all {
		d := &all[i]
		save := func(from, to int) {
			if err := s.Usage().Save(t.Context(), usage.Diary{Bucket: d.Bucket, Life: d.life, Text: textOf(d.hours[from:to])}); err != nil {
				t.Fatal(err)
			}
		}
		cut := len(d.hours)
		if !d.gone {
			fixture.Put(t, api, d.item(ns))
			cut = min(d.cut, max(0, len(d.hours)-2))
		}
		for from := 0; from < cut; {
			to := min(cut, from+1+r.IntN(17))
			for range 1 + r.IntN(2) {
				save(from, to)
			}
			if r.IntN(3) == 0 {
				save(max(0, from-3), min(to+r.IntN(3), max(cut, len(d.hours)-2)))
			}
			from = to
		}
	}
}

// wanted returns what a query must find of items, in order.
func wanted(all []diaryItem, q usage.Query) []usage.Snapshot {
	found := map[usage.Key]*usage.Snapshot{}
	for i := range all {
		d := &all[i]
		if q.Entity != "" && q.Entity != d.Entity || q.Resource != "" && q.Resource != d.Resource {
			continue
		}
		for _, e := range d.hours {
			k := usage.Key{Entity: d.Entity, Resource: d.Resource, Window: q.Window, Start: q.Window.Start(diary.Start(e.Hour))}
			if !q.From.IsZero() && k.Start.Before(q.From) || !q.To.IsZero() && !k.Start.Before(q.To) {
				continue
			}
			u := found[k]
			if u == nil {
				u = &usage.Snapshot{Key: k}
				found[k] = u
			}
			for _, a := range e.Amounts {
				if a.Limit == "" {
					u.Events += a.Milli
					continue
				}
				i := slices.IndexFunc(u.Tokens, func(b usage.Amount) bool { return b.Limit == a.Limit })
				if i < 0 {
					i, u.Tokens = len(u.Tokens), append(u.Tokens, usage.Amount{Limit: a.Limit, Milli: new(big.Int)})
				}
				u.Tokens[i].Milli.Add(u.Tokens[i].Milli, big.NewInt(a.Milli))
			}
		}
	}
	snapshots := make([]usage.Snapshot, 0, len(found))
	for _, u := range found {
		slices.SortFunc(u.Tokens, func(a, b usage.Amount) int { return cmp.Compare(a.Limit, b.Limit) })
		snapshots = append(snapshots, *u)
	}
	slices.SortFunc(snapshots, func(a, b usage.Snapshot) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.Entity, a.Entity), cmp.Compare(b.Resource, a.Resource))
	})
	return snapshots
}

// diaryQueries are by entity, by resource and by both, of all windows, with and without
// bounds.
func diaryQueries() (queries []usage.Query) {
	for _, bounds := range [][2]time.Time{
		{},
		{start.AddDate(0, 0, -40), start.AddDate(0, 0, -3)},
		{start.AddDate(0, 0, -2), {}},
		{{}, start.AddDate(0, -1, 0)},
		{start.AddDate(1, 0, 0), {}},
		{{}, start.AddDate(-1, 0, 0)},
	} {
		for _, of := range [][2]string{{"user", "gpt-4"}, {"user", ""}, {"", "gpt-4"}, {"a@b:c", "gpt-4/x"}, {"nobody", ""}, {"", "none"}} {
			for w := usage.Hourly; w <= usage.Monthly; w++ {
				queries = append(queries, usage.Query{Entity: of[0], Resource: of[1], Window: w, From: bounds[0], To: bounds[1], Now: w == usage.Daily})
			}
		}
	}
	return queries
}

// totals adds up snapshots.
func totals(snapshots []usage.Snapshot) (sum usage.Summary) {
	windows, entities, limits := map[time.Time]bool{}, map[string]bool{}, map[string]map[time.Time]bool{}
	tokens := map[string]*big.Int{}
	for _, u := range snapshots {
		if sum.Snapshots == 0 {
			sum.Last = u.Start
		}
		sum.First = u.Start
		sum.Snapshots++
		sum.Events += u.Events
		windows[u.Start], entities[u.Entity] = true, true
		for _, a := range u.Tokens {
			if limits[a.Limit] == nil {
				limits[a.Limit], tokens[a.Limit] = map[time.Time]bool{}, new(big.Int)
			}
			limits[a.Limit][u.Start] = true
			tokens[a.Limit].Add(tokens[a.Limit], a.Milli)
		}
	}
	sum.Windows, sum.Entities = len(windows), len(entities)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		n := len(limits[name])
		sum.Limits = append(sum.Limits, usage.Total{Limit: name, Windows: n, Total: tokens[name], Average: new(big.Int).Quo(tokens[name], big.NewInt(int64(n)))})
	}
	return sum
}

// each are the snapshots of a query, bucket by bucket, in the order of pages. It requires each bucket once, with
// its windows in order of time.
func each(t *testing.T, s *dynamo.Store, q usage.Query) []usage.Snapshot {
	t.Helper()
	all := []usage.Snapshot{}
	seen := map[[2]string]bool{}
	err := s.Usage().Each(t.Context(), q, func(windows []usage.Snapshot) error {
		of := [2]string{windows[0].Entity, windows[0].Resource}
		if seen[of] {
			t.Fatalf("%v comes twice", of)
		}
		seen[of] = true
		for i := range windows {
			if i > 0 && !windows[i-1].Start.Before(windows[i].Start) || windows[i].Entity != of[0] || windows[i].Resource != of[1] {
				t.Fatalf("%+v", windows)
			}
		}
		all = append(all, windows...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b usage.Snapshot) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.Entity, a.Entity), cmp.Compare(b.Resource, a.Resource))
	})
	return all
}

// checkDiaries draws diaries and compares every query with the hours that were drawn.
func checkDiaries(t *testing.T, s *dynamo.Store, api dynamo.API, seed uint64, limits ...int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	all := drawDiaries(r)
	writeDiaries(t, s, api, r, all)
	found := 0
	for _, q := range diaryQueries() {
		want := wanted(all, q)
		found += len(want)
		for _, q.Limit = range limits {
			if q.Limit == 1 && len(want) > 20 {
				continue // each page reads the month again
			}
			if diff := gocmp.Diff(want, append([]usage.Snapshot{}, pages(t, s, q)...), sameNumbers); diff != "" {
				t.Fatalf("seed %d: %+v (-want +got):\n%s", seed, q, diff)
			}
		}
		if diff := gocmp.Diff(want, each(t, s, q), sameNumbers); diff != "" {
			t.Fatalf("seed %d: each of %+v (-want +got):\n%s", seed, q, diff)
		}
		got, err := s.Usage().Sum(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(totals(want), got, sameNumbers); diff != "" {
			t.Fatalf("seed %d: summary of %+v (-want +got):\n%s", seed, q, diff)
		}
	}
	if found < 1000 {
		t.Errorf("the queries found %d snapshots, which shows little", found)
	}
}

func TestDiariesAreRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			f := faults.NewTap(testbed.NewEngine(t, dynamolite.Options{}))
			projection := dynamo.ProjectKeys
			if seed%2 == 0 {
				projection = dynamo.ProjectAll
			}
			if err := dynamo.CreateTable(t.Context(), f, dynamo.TableOptions{Name: table, GSI2Projection: projection}); err != nil {
				t.Fatal(err)
			}
			f.Set(faults.Pages(3 + int(seed))) // items that the server returns at once
			checkDiaries(t, fixture.OpenStore(t, f), f, seed, 1, 7, 50, 0)
		})
	}
}
