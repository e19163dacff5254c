package dynamo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/faults"
	"github.com/zeroae/zae-limiter-go/internal/schema"
	"github.com/zeroae/zae-limiter-go/store"
)

// noon is the start of the windows in most tests.
var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func hourly(entity string) dynamo.UsageKey {
	return dynamo.UsageKey{Entity: entity, Resource: "gpt-4", Window: dynamo.Hourly, Start: noon}
}

// step returns a change with one acquire of tokens of tpm.
func step(shard, sequence int, tokensMilli int64) dynamo.UsageStep {
	return dynamo.UsageStep{
		Shard: shard, Sequence: strconv.Itoa(sequence), Events: 1, Tokens: []store.Amount{{Limit: "tpm", Milli: tokensMilli}},
	}
}

func add(t *testing.T, s *dynamo.Store, k dynamo.UsageKey, steps ...dynamo.UsageStep) {
	t.Helper()
	if err := s.AddUsage(t.Context(), &dynamo.UsageDelta{UsageKey: k, Steps: steps}); err != nil {
		t.Fatal(err)
	}
}

// used returns a store's counts of one snapshot: acquires, and tokens by limit.
func used(t *testing.T, s *dynamo.Store, k dynamo.UsageKey) (events int64, tokens map[string]int64) {
	t.Helper()
	page, err := s.Usage(t.Context(), dynamo.UsageQuery{
		Entity: k.Entity, Resource: k.Resource, Window: k.Window, From: k.Start, To: k.Window.End(k.Start),
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens = map[string]int64{}
	for _, u := range page.Snapshots {
		if len(page.Snapshots) > 1 || u.UsageKey != k {
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

func wantUsed(t *testing.T, s *dynamo.Store, k dynamo.UsageKey, events int64, tokens map[string]int64) {
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
		window         dynamo.Window
		in, start, end string
	}{
		{dynamo.Hourly, "2024-02-29T23:59:59.999999999Z", "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z"},
		{dynamo.Hourly, "2024-03-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z"},
		{dynamo.Hourly, "2024-03-01T00:15:00+05:30", "2024-02-29T18:00:00Z", "2024-02-29T19:00:00Z"},
		{dynamo.Daily, "2024-02-28T12:00:00Z", "2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z"},
		{dynamo.Daily, "2024-02-29T23:59:59.999Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		{dynamo.Daily, "2023-02-28T23:59:59Z", "2023-02-28T00:00:00Z", "2023-03-01T00:00:00Z"},
		{dynamo.Daily, "2024-12-31T23:30:00-01:00", "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z"},
		{dynamo.Monthly, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{dynamo.Monthly, "2024-12-31T23:59:59Z", "2024-12-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{dynamo.Monthly, "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"},
	} {
		if start, end := c.window.Start(at(c.in)), c.window.End(at(c.in)); !start.Equal(at(c.start)) || !end.Equal(at(c.end)) {
			t.Errorf("%s window of %s is %v to %v", c.window, c.in, start, end)
		}
		if w, err := dynamo.ParseWindow(c.window.String()); err != nil || w != c.window {
			t.Errorf("%s parses as %v, %v", c.window, w, err)
		}
	}
	_, err := dynamo.ParseWindow(dynamo.Window(3).String())
	wantErr(t, err, store.ErrInvalid)
	if w := dynamo.Window(0); w != dynamo.Hourly {
		t.Errorf("the zero window is %s", w)
	}
}

// A history is the changes of a bucket's shards, each with its sequence number. It also
// records how far each shard's changes have been delivered.
type history struct {
	steps     [][]dynamo.UsageStep
	delivered []int
}

func newHistory(t *rapid.T) *history {
	h := &history{steps: make([][]dynamo.UsageStep, rapid.IntRange(1, 4).Draw(t, "shards"))}
	h.delivered = make([]int, len(h.steps))
	sequence := 1
	for range rapid.IntRange(1, 30).Draw(t, "changes") {
		shard := rapid.IntRange(0, len(h.steps)-1).Draw(t, "shard")
		sequence += rapid.IntRange(1, 1_000_000).Draw(t, "gap") // so that numbers differ in length
		s := dynamo.UsageStep{Shard: shard, Sequence: strconv.Itoa(sequence), Events: rapid.Int64Range(0, 3).Draw(t, "events")}
		for _, limit := range rapid.SliceOfN(rapid.SampledFrom([]string{"rpm", "tpm", "ttl"}), 0, 4).Draw(t, "limits") {
			s.Tokens = append(s.Tokens, store.Amount{Limit: limit, Milli: rapid.Int64Range(-2500, 2500).Draw(t, "tokens")})
		}
		h.steps[shard] = append(h.steps[shard], s)
	}
	return h
}

// deliver returns a batch that the stream may deliver next. It has some changes of each
// shard in their order, without gaps. Any change may come again, even twice in a row,
// mixed with those of other shards.
func (h *history) deliver(t *rapid.T, whole bool) []dynamo.UsageStep {
	var batch []dynamo.UsageStep
	for shard, steps := range h.steps {
		from := rapid.IntRange(0, h.delivered[shard]).Draw(t, "from")
		to := len(steps)
		if !whole {
			to = rapid.IntRange(from, to).Draw(t, "to")
		}
		h.delivered[shard] = max(h.delivered[shard], to)
		at := 0 // the earliest position in the batch for the shard's next step
		for _, s := range steps[from:to] {
			at = rapid.IntRange(at, len(batch)).Draw(t, "place")
			batch = slices.Insert(batch, at, s)
			at++
			if rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
				batch = slices.Insert(batch, at, s)
				at++
			}
		}
	}
	return batch
}

// sum returns the consumption of the whole history.
func (h *history) sum() (events int64, tokens map[string]int64) {
	tokens = map[string]int64{}
	for _, steps := range h.steps {
		for _, s := range steps {
			events += s.Events
			for _, a := range s.Tokens {
				tokens[a.Limit] += a.Milli
			}
		}
	}
	return events, tokens
}

// Each change counts once, in whatever batches and however often the stream delivers
// it.
func checkUsageCountsOnce(t *testing.T, api dynamo.API) {
	t.Helper()
	s := openStore(t, api)
	entities := 0
	rapid.Check(t, func(rt *rapid.T) {
		entities++
		k, h := hourly("once-"+strconv.Itoa(entities)), newHistory(rt)
		for i := rapid.IntRange(0, 6).Draw(rt, "batches"); i >= 0; i-- {
			if err := s.AddUsage(t.Context(), &dynamo.UsageDelta{UsageKey: k, Steps: h.deliver(rt, i == 0)}); err != nil {
				rt.Fatal(err)
			}
		}
		events, tokens := h.sum()
		gotEvents, got := used(t, s, k)
		for limit, n := range tokens {
			if got[limit] != n {
				rt.Fatalf("%d millitokens of %s, want %d", got[limit], limit, n)
			}
		}
		if gotEvents != events {
			rt.Fatalf("%d events, want %d", gotEvents, events)
		}
	})
}

// Several aggregators that read the same stream, each in its own batches, count each
// change once.
func checkUsageRace(t *testing.T, api dynamo.API) {
	t.Helper()
	const writers, changes, shards = 6, 60, 3
	s, k := openStore(t, api), hourly("raced")
	var history []dynamo.UsageStep
	for i := range changes {
		history = append(history, step(i%shards, 1_000+i, 1500))
	}
	var wg sync.WaitGroup
	for w := range writers {
		dice := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for from := 0; from < changes; {
				to := min(changes, from+1+dice.IntN(12))
				if err := s.AddUsage(t.Context(), &dynamo.UsageDelta{UsageKey: k, Steps: history[from:to]}); err != nil {
					t.Error(err)
				}
				from = to
			}
		})
	}
	wg.Wait()
	wantUsed(t, s, k, changes, map[string]int64{"tpm": changes * 1500})
}

// The writes of an hourly usage snapshot cost the listed requests and write units.
func checkUsageCosts(t *testing.T, api dynamo.API, p dynamo.Projection) {
	t.Helper()
	meter := dynamo.NewMeter(api)
	s, k := openStore(t, meter), hourly("costly-"+string(p))
	first, again := 3.0, 1.0 // the table, and the entries in GSI2 and GSI4
	if p == dynamo.ProjectAll {
		again = 2 // GSI2 keeps the counters too
	}
	batch := func(from, to int) (steps []dynamo.UsageStep) {
		for i := from; i < to; i++ {
			steps = append(steps, step(i%2, 1000+i, 1000))
		}
		return steps
	}
	for _, c := range []struct {
		of       string
		steps    []dynamo.UsageStep
		requests int64
		wcu      float64
	}{
		{"a new snapshot", batch(0, 100), 1, first},
		{"100 steps more", batch(100, 200), 1, again},
		{"the same again", batch(100, 200), 1, 1},
		{"a batch that overlaps", batch(150, 250), 2, 1 + again},
		{"no step", nil, 0, 0},
		{"steps that change nothing", []dynamo.UsageStep{{Sequence: "5000", Tokens: []store.Amount{{Limit: "tpm"}}}}, 0, 0},
	} {
		before := meter.Totals()
		add(t, s, k, c.steps...)
		if got := meter.Totals().Sub(before).Sum(); got.Requests != c.requests || got.WCU != c.wcu || got.RCU != 0 {
			t.Errorf("%s cost %+v, want %d requests and %v WCU", c.of, got, c.requests, c.wcu)
		}
	}
	wantUsed(t, s, k, 250, map[string]int64{"tpm": 250_000})
}

func TestUsageCountsOnce(t *testing.T) { t.Parallel(); checkUsageCountsOnce(t, newTable(t)) }

func TestUsageIsCountedByManyAsByOne(t *testing.T) { t.Parallel(); checkUsageRace(t, newTable(t)) }

func TestUsageCosts(t *testing.T) {
	t.Parallel()
	for _, p := range []dynamo.Projection{dynamo.ProjectKeys, dynamo.ProjectAll} {
		checkUsageCosts(t, newTableOf(t, dynamo.TableOptions{Name: table, GSI2Projection: p}), p)
	}
}

// The item has the format that the peer reads. Apart from its strings, each number in
// it is the whole tokens of a limit.
func TestUsageItem(t *testing.T) {
	t.Parallel()
	db := newNS1(t)
	s := openStore(t, db)
	day := dynamo.UsageKey{Entity: "user-1", Resource: "a/b", Window: dynamo.Daily, Start: dynamo.Daily.Start(noon)}
	add(t, s, day,
		step(0, 77, 2_000),
		dynamo.UsageStep{Shard: 13, Sequence: strings.Repeat("9", 40), Events: 2, Tokens: []store.Amount{
			{Limit: "ttl", Milli: 4_000}, {Limit: "rpm", Milli: -1_500}, {Limit: "rpm", Milli: -500}, {Limit: "x.y-z", Milli: 1},
		}})
	got := map[string]string{}
	for name, v := range get(t, db, schema.Key{PK: "ns1/ENTITY#user-1", SK: "#USAGE#a/b#daily#2024-02-29T00:00:00Z"}) {
		got[name] = notation(v)
	}
	want := map[string]string{
		"PK": "S ns1/ENTITY#user-1", "SK": "S #USAGE#a/b#daily#2024-02-29T00:00:00Z",
		"GSI2PK": "S ns1/RESOURCE#a/b", "GSI2SK": "S USAGE#daily#2024-02-29T00:00:00Z#user-1",
		"GSI4PK": "S ns1", "GSI4SK": "S ns1/ENTITY#user-1",
		"entity_id": "S user-1", "resource": "S a/b", "window": "S daily", "window_start": "S 2024-02-29T00:00:00Z",
		"ttl":          "N " + strconv.FormatInt(day.Start.AddDate(0, 0, 91).Unix(), 10),
		"total_events": "N 3", "tpm": "N 2", "rpm": "N -2", "#ttl": "N 4", "x.y-z": "N 0", "x.y-z#milli": "N 1",
		"seq#0": "S " + strings.Repeat("0", 38) + "77", "seq#13": "S " + strings.Repeat("9", 40),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the item (-want +got):\n%s", diff)
	}
	wantUsed(t, s, day, 3, map[string]int64{"tpm": 2_000, "rpm": -2_000, "ttl": 4_000, "x.y-z": 1})
}

// Windows that start together are separate, and no limit name collides with an
// attribute (peer defects 9.1 and 9.10).
func TestUsageCollidesWithNothing(t *testing.T) {
	t.Parallel()
	db := newTable(t)
	s := openStore(t, db)
	names := []string{
		"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "GSI4PK", "GSI4SK", "LSI1SK", "LSI5SK",
		"entity_id", "resource", "window", "window_start", "ttl", "total_events", "seq", "milli", "rpm", "rpm.milli", "size", "name",
	}
	newYear := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, w := range []dynamo.Window{dynamo.Hourly, dynamo.Daily, dynamo.Monthly} {
		want := map[string]int64{}
		all := dynamo.UsageStep{Sequence: "1", Events: int64(i + 1)}
		for j, name := range names {
			want[name] = int64(i*1000 + j*10 + 1)
			all.Tokens = append(all.Tokens, store.Amount{Limit: name, Milli: want[name]})
		}
		k := dynamo.UsageKey{Entity: "user", Resource: "gpt-4", Window: w, Start: newYear}
		add(t, s, k, all)
		wantUsed(t, s, k, int64(i+1), want)
	}
}

func TestUsageOfMillitokens(t *testing.T) {
	t.Parallel()
	s := openStore(t, newTable(t))
	k, sum := hourly("user"), int64(0)
	for i, n := range []int64{999, 1, 1, -1, -999, 500, 500, 500, -1, 1_000_000_000_000_000_999, -1_000_000_000_000_000_998, -2_500} {
		sum += n
		add(t, s, k, step(0, i+1, n))
		wantUsed(t, s, k, int64(i+1), map[string]int64{"tpm": sum})
	}
}

// A batch may hold changes of all the shards that a bucket can have.
func TestUsageOfManyShards(t *testing.T) {
	t.Parallel()
	s, want := openStore(t, newTable(t)), map[string]int64{}
	var all []dynamo.UsageStep
	for i := range 64 {
		st := step(i%32, 100+i, 500)
		limit := "limit-" + strconv.Itoa(i%20)
		st.Tokens = append(st.Tokens, store.Amount{Limit: limit, Milli: int64(i)})
		want[limit] += int64(i)
		all = append(all, st)
	}
	want["tpm"] = 64 * 500
	add(t, s, hourly("user"), all...)
	add(t, s, hourly("user"), all[7:50]...)
	wantUsed(t, s, hourly("user"), 64, want)
}

func TestUsageOutlivesItsWindow(t *testing.T) {
	t.Parallel()
	db := newTable(t)
	written := 0
	ttl := func(of time.Duration) string {
		t.Helper()
		s, err := dynamo.Open(t.Context(), dynamo.Following(dynamo.Options{API: db, Table: table, Now: now, UsageTTL: of}))
		if err != nil {
			t.Fatal(err)
		}
		_, ns := s.Namespace()
		written++
		add(t, s, hourly("user"), step(0, written, 1))
		it := get(t, db, schema.UsageKey(ns, "user", "gpt-4", "hourly", noon))
		if it[schema.TTL] == nil {
			return "never"
		}
		return notation(it[schema.TTL])
	}
	end := noon.Add(time.Hour)
	for _, c := range []struct {
		of   time.Duration
		want string
	}{
		{0, fmt.Sprint("N ", end.AddDate(0, 0, 90).Unix())},
		{time.Minute, fmt.Sprint("N ", end.Unix()+60)},
		{-1, "never"},
		{24 * time.Hour, fmt.Sprint("N ", end.AddDate(0, 0, 1).Unix())},
	} {
		if got := ttl(c.of); got != c.want {
			t.Errorf("with %v a snapshot expires at %s, want %s", c.of, got, c.want)
		}
	}
}

func TestUsageThatCannotBe(t *testing.T) {
	t.Parallel()
	s, f := newStore(t)
	for field, change := range map[string]func(*dynamo.UsageDelta){
		"entity":     func(d *dynamo.UsageDelta) { d.Entity = "a#b" },
		"resource":   func(d *dynamo.UsageDelta) { d.Resource = "" },
		"window":     func(d *dynamo.UsageDelta) { d.Window = 3 },
		"start":      func(d *dynamo.UsageDelta) { d.Start = d.Start.Add(time.Second) },
		"shard":      func(d *dynamo.UsageDelta) { d.Steps[1].Shard = -1 },
		"events":     func(d *dynamo.UsageDelta) { d.Steps[1].Events = -1 },
		"sequence":   func(d *dynamo.UsageDelta) { d.Steps[1].Sequence = strings.Repeat("1", 41) },
		"limit name": func(d *dynamo.UsageDelta) { d.Steps[1].Tokens[0].Limit = schema.WCU },
	} {
		d := &dynamo.UsageDelta{UsageKey: hourly("user"), Steps: []dynamo.UsageStep{step(0, 1, 1), step(0, 2, 1)}}
		change(d)
		err := s.AddUsage(t.Context(), d)
		wantErr(t, err, store.ErrInvalid)
		if err == nil || !strings.Contains(err.Error(), "invalid "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, sequence := range []string{"", "-1", "1e3", "0x10", " 1", "１"} {
		d := &dynamo.UsageDelta{UsageKey: hourly("user"), Steps: []dynamo.UsageStep{{Sequence: sequence, Events: 1}}}
		wantErr(t, s.AddUsage(t.Context(), d), store.ErrInvalid)
	}
	if len(f.Ops()) > 0 {
		t.Errorf("%v were sent", f.Ops())
	}
}

// A snapshot with damaged sequence numbers is not added to.
func TestUsageWithDamagedSequence(t *testing.T) {
	t.Parallel()
	s, f := newStore(t)
	_, ns := s.Namespace()
	it := schema.UsageKey(ns, "user", "gpt-4", "hourly", noon).Item()
	it[schema.UsageSequenceAttr(0)] = schema.N(1)
	put(t, f, it)
	err := s.AddUsage(t.Context(), &dynamo.UsageDelta{UsageKey: hourly("user"), Steps: []dynamo.UsageStep{step(0, 2, 1)}})
	wantErr(t, err, store.ErrCorrupt)
}

// A failure between two batches loses nothing if both are sent again.
func TestUsageAfterAFailure(t *testing.T) {
	t.Parallel()
	s, f := newStore(t)
	k := hourly("user")
	f.Set(faults.Before(func(*faults.Call) error { return dial(syscall.ECONNREFUSED) }))
	err := s.AddUsage(t.Context(), &dynamo.UsageDelta{UsageKey: k, Steps: []dynamo.UsageStep{step(0, 1, 1000)}})
	wantErr(t, err, store.ErrUnavailable)
	f.Set(nil)
	add(t, s, k, step(0, 1, 1000), step(0, 2, 1000))
	wantUsed(t, s, k, 2, map[string]int64{"tpm": 2000})
}

func TestUsageGoesWithItsEntity(t *testing.T) {
	t.Parallel()
	s := openStore(t, newTable(t))
	add(t, s, hourly("user"), step(0, 1, 1000))
	if n, err := s.DeleteEntity(t.Context(), "user"); n != 1 || err != nil {
		t.Errorf("deleted %d items, %v", n, err)
	}
	wantUsed(t, s, hourly("user"), 0, map[string]int64{})
}
